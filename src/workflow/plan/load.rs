//! From a file's text to a plan, or to all of its problems.

use super::{Plan, build};
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::expression::Jq;
use crate::workflow::model;
use crate::workflow::syntax::{self, Source};

/// What a component turned out to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The digest of its bytes.
    pub digest: Option<String>,
    /// Its entry points, where it tells them.
    pub entries: Option<Vec<String>>,
}

/// What the host knows beyond the file, so that its problems get their places in the file too.
pub trait Environment {
    /// Looks a component up by its source.
    ///
    /// # Errors
    /// Why a run could not use it, in a line, and perhaps the way out.
    fn component(&self, source: &str) -> Result<Found, (String, Option<String>)>;

    /// The names of the handlers; none where they are not to be checked.
    fn handlers(&self) -> Option<Vec<String>>;
}

/// Checks nothing beyond the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unchecked;

impl Environment for Unchecked {
    fn component(&self, _: &str) -> Result<Found, (String, Option<String>)> {
        Ok(Found::default())
    }

    fn handlers(&self) -> Option<Vec<String>> {
        None
    }
}

/// Reads a file and makes its plan.
///
/// # Errors
/// Every problem of the file.
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
