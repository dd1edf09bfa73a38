//! The bounds on calls that a workflow sets.

use super::environment::Environment;
use crate::process::handler::{KV, SIGNAL};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::model::{HandlerBounds, Workflow, shorten};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the bounds. A handler that the host does not have is reported.
pub(super) fn read(
    workflow: &Workflow,
    environment: &dyn Environment,
    problems: &mut Diagnostics,
) -> BTreeMap<Arc<str>, HandlerBounds> {
    let mut bounds = BTreeMap::new();
    let known: Option<Vec<String>> = environment.handlers().map(|handlers| {
        handlers.names().iter().map(ToString::to_string).filter(|name| *name != KV && *name != SIGNAL).collect()
    });
    for (name, bound) in &workflow.handlers {
        if let Some(known) = known.as_ref().filter(|known| !known.contains(&name.value)) {
            let hint = match closest(&name.value, known.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it has {}", all_of(known.iter().map(String::as_str))),
            };
            let message = match name.value.as_str() {
                KV | SIGNAL => format!("calls of `{}` stay in the run and cannot be bounded", name.value),
                other => format!("the host has no handler `{}`", shorten(other)),
            };
            problems.push(Diagnostic::new("unknown-handler", message, name.span).hint(hint));
            continue;
        }
        bounds.insert(name.value.as_str().into(), bound.clone());
    }
    bounds
}
