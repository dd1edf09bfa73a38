//! Reads what runs after the steps (`on`), and what undoes a step (`compensate`).

use super::block::{BlockPlace, read_block};
use super::fields::{Fields, KnownKeys};
use super::foreign_keys;
use super::step::{COMPENSATION, read_step_of};
use super::{Block, Step, Workflow};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node};

pub(super) const ON: KnownKeys =
    KnownKeys { what: "`on`", known: &["failure", "cancel", "always"], later: &[], foreign: foreign_keys::ON };

const EXAMPLE: &str = "on: { failure: [{ id: alert, call: log, with: { message: \"${ .run.problem.title }\" } }] }";

/// The id of a compensation, below that of the step that it undoes.
pub(crate) const COMPENSATE: &str = "compensate";

/// When a list of steps runs, after the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Occasion {
    /// A step failed.
    Failure,
    /// The run is cancelled.
    Cancel,
    /// The run ends, in any way.
    Always,
}

impl Occasion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Failure, Self::Cancel, Self::Always];

    /// Its key below `on`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Cancel => "cancel",
            Self::Always => "always",
        }
    }

    /// The path of its steps: `on.failure`.
    #[must_use]
    pub fn path(self) -> String {
        format!("on.{}", self.key())
    }
}

/// Reads `on:`.
pub(super) fn read_on(node: &Node, workflow: &mut Workflow, problems: &mut Diagnostics) {
    if node.as_mapping().is_none() {
        let message = format!("`on` must be a mapping, not {}", node.kind());
        let hint = if node.as_sequence().is_some() {
            EXAMPLE
        } else {
            "`on` says what runs after a failure; a `schedule` starts a workflow: schedule: \"@daily\""
        };
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return;
    }
    let Some(fields) = Fields::read(node, &ON, problems) else { return };
    for occasion in Occasion::ALL {
        let Some(list) = fields.get(occasion.key()) else { continue };
        let (pointer, path) = (format!("/on/{}", occasion.key()), format!("{}.", occasion.path()));
        let place = BlockPlace { pointer: &pointer, path: &path, depth: 1 };
        if let Some(block) = read_block(list, None, place, problems) {
            report_compensations(&block, problems);
            workflow.on.push((occasion, block));
        }
    }
    if let Some(step) = workflow.steps.iter().find(|step| step.id.value == "on") {
        let message = "a step of a workflow with `on` cannot have the id `on`";
        problems.push(
            Diagnostic::new("duplicate-id", message, step.id.span)
                .hint("the steps below `on` have paths that begin so"),
        );
    }
}

/// Reports compensations where nothing would ever start them.
fn report_compensations(block: &Block, problems: &mut Diagnostics) {
    let mut all = Vec::new();
    super::block::add_all(&block.steps, &mut all);
    for step in all.into_iter().filter(|step| step.compensate.is_some()) {
        let message = "a step below `on` is not undone";
        let hint = "`compensate` belongs to the steps of the workflow itself";
        problems.push(Diagnostic::new("key-not-here", message, step.id.span).hint(hint));
    }
}

/// Reads `compensate:`, a step without an id.
pub(super) fn read_compensation(
    entry: &Entry,
    within: BlockPlace<'_>,
    problems: &mut Diagnostics,
) -> Option<Box<Step>> {
    if entry.value.as_mapping().is_none() {
        let message = format!("`compensate` must be what undoes the step, a mapping, not {}", entry.value.kind());
        let hint = "compensate: { call: http, with: { method: DELETE, url: \"${ .output.body.url }\" } }";
        problems.push(Diagnostic::new("type", message, entry.value.span).hint(hint));
        return None;
    }
    let pointer = format!("{}/{COMPENSATE}", within.pointer);
    let place = BlockPlace { pointer: &pointer, ..within };
    read_step_of(&COMPENSATION, &entry.value, Some((COMPENSATE, entry.key_span)), place, problems).map(Box::new)
}
