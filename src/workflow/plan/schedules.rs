//! Checks that the inputs of `schedule:` fit those of the workflow.

use crate::process::Timestamp;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::Jq;
use crate::workflow::model::{Durability, Workflow};

/// Checks the inputs of the first due time there is: those of others differ only in their times.
pub(super) fn check(workflow: &Workflow, jq: &Jq, problems: &mut Diagnostics) {
    let Some(scheduled) = &workflow.schedule else { return };
    if workflow.durability == Durability::None {
        let message = "a schedule needs `durability: journal`: its runs are known by their records";
        problems.push(Diagnostic::new("schedule", message, scheduled.span));
    }
    let mut spec = scheduled.spec.clone();
    // What is wrong with the times was reported when they were read.
    let Ok(table) = spec.check() else { return };
    let span = scheduled.inputs.unwrap_or(scheduled.span);
    if let Err(faults) = spec.check_inputs(jq) {
        for fault in faults {
            problems.push(Diagnostic::new("schedule", fault.message, span).hint_maybe(fault.hint));
        }
        return;
    }
    let due = table.next(Timestamp(0)).unwrap_or(Timestamp(0));
    match spec.inputs_at(jq, &table, "schedule", due) {
        Err(why) => problems.push(Diagnostic::new("schedule", why, span)),
        Ok(inputs) => {
            for violation in workflow.inputs.accept(inputs).err().into_iter().flatten() {
                let name = violation.pointer.trim_start_matches('/');
                let message = format!("the schedule's input `{name}` {}", violation.message);
                let hint = "schedule: { cron: …, inputs: { name: value } }, or give the input a `default`";
                problems.push(Diagnostic::new("schedule", message, span).hint(hint));
            }
        }
    }
}
