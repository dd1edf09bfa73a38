//! Turns a file's text into a plan, or into all of its problems.

use super::environment::Environment;
use super::{Plan, build, children::Children};
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::expression::Jq;
use crate::workflow::model;
use crate::workflow::syntax::{self, Source};

/// Reads a file, and those that its steps run, and makes its plan.
///
/// # Errors
/// Returns every problem of the files.
pub fn load(source: &Source, jq: &Jq, environment: &dyn Environment) -> Result<Plan, Diagnostics> {
    let mut problems = Diagnostics::new(source.clone());
    let plan = syntax::parse(source, &mut problems).map(|root| {
        let workflow = model::read(&root, &mut problems);
        let (children, mut theirs) = Children::read(&workflow, environment, &mut problems);
        let plan = build::build(&workflow, source, &children, jq, environment, (&mut problems, &mut theirs));
        children.report(theirs, &mut problems);
        plan
    });
    match (plan, problems.is_empty()) {
        (Some(Some(plan)), true) => Ok(plan),
        _ => Err(problems),
    }
}
