//! Warnings about a host or a workflow that works, but not as well as it could.

use crate::cli::report::source_map::SourceMap;
use crate::host::Workflow;
use crate::workflow::plan::Warning;

/// Sentences, each with a hint.
pub(in crate::cli) type Warnings = Vec<(String, String)>;

/// The warning about a data folder that others can access.
pub(in crate::cli) fn exposed(reason: &str) -> String {
    format!("others can read or change the inputs and outputs of runs: {reason}")
}

/// Parts of a workflow that were probably not meant, each with its position and what probably was.
pub(in crate::cli) fn plan_warnings(workflow: &Workflow) -> Vec<(String, String)> {
    let doubts = workflow.plan().warnings();
    // Parse the file again for positions only if there is something to report.
    let Some(map) = (!doubts.is_empty()).then(|| SourceMap::of(workflow)).flatten() else { return Vec::new() };
    let placed = |doubt: Warning| {
        let place = map.short(map.find(&doubt.pointer, None));
        (format!("{place}: {}", doubt.message), doubt.hint)
    };
    doubts.into_iter().map(placed).collect()
}
