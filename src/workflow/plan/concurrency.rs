//! The concurrency group of a run.

use super::Template;
use super::expressions::TemplateReader;
use super::references::ExpressionSite;
use crate::base::text::steers;
use crate::run::{GROUP_BYTES_MAX, OnLimit};
use crate::workflow::diagnostics::Diagnostic;
use crate::workflow::expression::{Jq, Meter, Scope, Size};
use crate::workflow::model::{Durability, Workflow};
use serde_json::{Map, Value};

/// How many runs of a group are stepped at one time.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Concurrency {
    /// The name of the group.
    pub group: Template,
    /// How many of its runs have a place at one time.
    pub limit: u32,
    /// What a run does that finds no place.
    pub on_limit: OnLimit,
    /// How many runs may wait.
    pub queue_max: u32,
}

impl Concurrency {
    /// Returns the name of the group of a run with these inputs.
    ///
    /// # Errors
    /// Says why there is none: an expression fails, or its value is no name.
    pub fn group_of(&self, jq: &Jq, inputs: &Map<String, Value>) -> Result<String, String> {
        let inputs = Value::Object(inputs.clone());
        let scope = Scope::object([("inputs", Scope::Borrowed(&inputs))]);
        // A name is one value. JSON may write each of its bytes with six.
        let meter = Meter::within(Size { bytes: 6 * GROUP_BYTES_MAX + 2, values: 1 });
        let group = self.group.evaluate(jq, &scope, &meter).map_err(|problem| problem.problem.to_string())?;
        let name = match group {
            Value::String(name) => name,
            Value::Number(_) | Value::Bool(_) => group.to_string(),
            Value::Null => return Err("it is null".to_owned()),
            Value::Array(_) | Value::Object(_) => return Err("it is no text".to_owned()),
        };
        check_name(&name).map(|()| name)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".to_owned());
    }
    if name.len() > GROUP_BYTES_MAX {
        return Err(format!("it has {} bytes, more than {GROUP_BYTES_MAX}", name.len()));
    }
    if name.chars().any(steers) {
        return Err("it has line ends or other characters that control how text is shown".to_owned());
    }
    Ok(())
}

/// Reads `concurrency:`. `None`: there is none, or it has a problem, which is reported.
pub(super) fn read(workflow: &Workflow, templates: &mut TemplateReader<'_>) -> Option<Concurrency> {
    let read = workflow.concurrency.as_ref()?;
    if workflow.durability == Durability::None {
        let message = "`concurrency` needs `durability: journal`: the journal knows which runs there are";
        templates.problems.push(Diagnostic::new("concurrency", message, read.span));
    }
    templates.take_dependencies();
    let group = templates.value(&read.group, ExpressionSite::INPUTS)?;
    let mut bad = |message: String| {
        let problem = Diagnostic::new("concurrency", message, read.group.span);
        templates.problems.push(problem.hint("group: \"deploy ${ .inputs.stage }\""));
        None
    };
    match &group {
        Template::Literal(Value::String(name)) => {
            if let Err(why) = check_name(name) {
                return bad(format!("this cannot be the name of a group: {why}"));
            }
        }
        Template::Text(_) => {}
        _ => return bad(format!("`group` must be a string, not {}", read.group.kind())),
    }
    let (limit, on_limit, queue_max) = (read.limit, read.on_limit, read.queue_max);
    Some(Concurrency { group, limit, on_limit, queue_max })
}
