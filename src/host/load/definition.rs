//! Loads workflows that are written in Rust.

use super::Workflow;
use crate::host::{Host, LoadError};
use crate::workflow::builder::Definition;
use std::path::PathBuf;

impl Host {
    /// Loads a workflow that is written in Rust, as [`Self::parse`] does its text. Components are
    /// found relative to `folder`.
    ///
    /// # Errors
    /// Fails if the definition has problems: all of them are reported, each with its line in the
    /// text, and with the place in the program that made the step.
    pub fn load_definition(&self, definition: &Definition, folder: impl Into<PathBuf>) -> Result<Workflow, LoadError> {
        let (file, rendering) = (definition.file(), definition.render());
        rendering.check(&file).map_err(LoadError::Definition)?;
        self.parse(&file, &rendering.text, folder).map_err(|error| match error {
            LoadError::Definition(problems) => LoadError::Definition(rendering.placed(problems)),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::builder::{Step, expr};
    use serde_json::json;

    #[test]
    fn a_definition_is_loaded_as_its_text() {
        let host = Host::builder().workers(1).build().unwrap();
        let log = |message: &str| Step::call("log").with(json!({ "message": message }));
        let good = Definition::new("order").step("say", log("${ .run.id }"));
        let workflow = host.load_definition(&good, ".").unwrap();
        assert_eq!((workflow.source().name(), workflow.source().text()), ("order.yaml", good.to_string().as_str()));
        let parsed = host.parse("order.yaml", &good.to_string(), ".").unwrap();
        assert_eq!(workflow.plan().digest(), parsed.plan().digest());

        let line = line!() + 1;
        let bad = good.step("ask", Step::call("lgo").with(expr(".steps.sya.output")));
        let Err(LoadError::Definition(problems)) = host.load_definition(&bad, ".") else { panic!("it has problems") };
        let Err(LoadError::Definition(of_text)) = host.parse("order.yaml", &bad.to_string(), ".") else { panic!() };
        let messages = |problems: &crate::workflow::diagnostics::Diagnostics| -> Vec<String> {
            problems.iter().map(|problem| problem.message.clone()).collect()
        };
        assert_eq!(messages(&problems), messages(&of_text));
        let shown = problems.to_string();
        let place = format!("the step of {}:{line}:", file!());
        assert_eq!(shown.matches(&place).count(), messages(&problems).len(), "{shown}");
        host.shutdown_blocking(std::time::Duration::from_secs(5));
    }
}
