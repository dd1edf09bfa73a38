//! What was found out about a host or a workflow that works, but not as well as it could.

use crate::cli::report::source_map::SourceMap;
use crate::host::Workflow;
use crate::workflow::plan::Warning;

/// A sentence, and the way out.
pub(in crate::cli) type Warnings = Vec<(String, String)>;

/// What is said of a data folder that others can write.
pub(in crate::cli) fn exposed(reason: &str) -> String {
    format!("others can read or change what runs are given and give: {reason}")
}

/// What a workflow says and was hardly meant, each with its place, and what probably was.
pub(in crate::cli) fn plan_warnings(workflow: &Workflow) -> Vec<(String, String)> {
    let doubts = workflow.plan().warnings();
    // Reading the file again for the places in it is of use only where there is something to say.
    let Some(map) = (!doubts.is_empty()).then(|| SourceMap::of(workflow.source())).flatten() else { return Vec::new() };
    let placed = |doubt: Warning| {
        let place = map.short(map.find(&doubt.pointer, None));
        (format!("{place}: {}", doubt.message), doubt.hint)
    };
    doubts.into_iter().map(placed).collect()
}
