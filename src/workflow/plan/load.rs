//! Turns a file's text into a plan, or into all of its problems.

use super::environment::Environment;
use super::{Plan, build};
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::expression::Jq;
use crate::workflow::model;
use crate::workflow::syntax::{self, Source};

/// Reads a file and makes its plan.
///
/// # Errors
/// Returns every problem of the file.
pub fn load(source: &Source, jq: &Jq, environment: &dyn Environment) -> Result<Plan, Diagnostics> {
    let mut problems = Diagnostics::new(source.clone());
    let plan = syntax::parse(source, &mut problems).map(|root| {
        let workflow = model::read(&root, &mut problems);
        build::build(&workflow, source, jq, environment, &mut problems)
    });
    match (plan, problems.is_empty()) {
        (Some(Some(plan)), true) => Ok(plan),
        _ => Err(problems),
    }
}
