//! Reads lists of steps: that of the workflow, those within a step, and the cases of a `switch`.

use super::fields::{Fields, KnownKeys};
use super::foreign_keys;
use super::step::read_step;
use super::{BLOCK_DEPTH_MAX, Block, Case, STEPS_MAX, Step, Workflow};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node, Span};
use std::collections::BTreeMap;

/// Where a list of steps is.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace<'a> {
    /// JSON Pointer to the list.
    pub(super) pointer: &'a str,
    /// What the ids of its steps are below: `deploy.`; empty for those of the workflow.
    pub(super) path: &'a str,
    /// The number of steps that it is within.
    pub(super) depth: usize,
}

/// Reads the list of the workflow itself.
pub(super) fn read_steps(node: &Node, workflow: &mut Workflow, problems: &mut Diagnostics) {
    let place = BlockPlace { pointer: "/steps", path: "", depth: 0 };
    let (steps, unread) = read_list(node, place, problems);
    workflow.steps = steps;
    workflow.unread = unread;
    let count = workflow.all_steps().count();
    if count > STEPS_MAX && workflow.steps.len() < STEPS_MAX {
        let message = format!("the file has {count} steps, more than the {STEPS_MAX} that a workflow may have");
        let hint = "`for-each` runs one step for many items";
        problems.push(Diagnostic::new("too-large", message, node.span).hint(hint));
    }
}

/// What is reported of a list without steps.
pub(super) fn empty(span: Span) -> Diagnostic {
    Diagnostic::new("no-steps", "the workflow has no steps", span)
        .hint("a minimal workflow: steps: [{ id: hi, uses: ./hello.wasm, with: { name: Ann } }]")
}

fn read_list(node: &Node, place: BlockPlace<'_>, problems: &mut Diagnostics) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut unread) = (Vec::new(), Vec::new());
    let Some(items) = node.as_sequence() else {
        let message = format!("`steps` must be a list, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint("each step starts with a dash: - id: …"));
        return (steps, unread);
    };
    if items.is_empty() {
        problems.push(if place.depth == 0 {
            empty(node.span)
        } else {
            Diagnostic::new("no-steps", "there are no steps in it", node.span)
                .hint("steps: [{ id: hi, uses: ./hello.wasm }]")
        });
    }
    if let Some(beyond) = items.get(STEPS_MAX) {
        let message = format!("the file has {} steps, more than the {STEPS_MAX} that a workflow may have", items.len());
        problems
            .push(Diagnostic::new("too-large", message, beyond.span).hint("`for-each` runs one step for many items"));
    }
    for (index, item) in items.iter().take(STEPS_MAX).enumerate() {
        match read_step(index, item, place, problems) {
            Some(step) => steps.push(step),
            None => unread.extend(item.get("id").and_then(Node::as_text).map(str::to_owned)),
        }
    }
    let mut first: BTreeMap<&str, Span> = BTreeMap::new();
    for step in &steps {
        if let Some(before) = first.insert(&step.id.value, step.id.span) {
            let message = format!("two steps have the id `{}`", step.id.value);
            problems.push(Diagnostic::new("duplicate-id", message, step.id.span).related(before, "first used here"));
        }
    }
    (steps, unread)
}

/// Reads the steps within a step, and their outputs.
pub(super) fn read_block(
    node: &Node,
    outputs: Option<&Node>,
    place: BlockPlace<'_>,
    problems: &mut Diagnostics,
) -> Option<Block> {
    if place.depth > BLOCK_DEPTH_MAX {
        let message = format!("steps are within each other more than {BLOCK_DEPTH_MAX} deep");
        problems.push(Diagnostic::new("too-deep", message, node.span));
        return None;
    }
    let before = problems.count();
    let (steps, unread) = read_list(node, place, problems);
    if steps.is_empty() && problems.count() > before {
        return None;
    }
    let outputs = outputs.filter(|node| check_outputs(node, problems)).cloned();
    Some(Block { pointer: place.pointer.to_owned(), steps, unread, outputs })
}

pub(super) const CASE: KnownKeys = KnownKeys {
    what: "a case of `switch`",
    known: &["if", "steps", "outputs"],
    later: &[],
    foreign: foreign_keys::CASE,
};

/// Reads the cases of a `switch`.
pub(super) fn read_switch(entry: &Entry, place: BlockPlace<'_>, problems: &mut Diagnostics) -> Option<Vec<Case>> {
    const EXAMPLE: &str = "switch: [{ if: \"${ .inputs.n > 1 }\", steps: [ … ] }, { steps: [ … ] }]";
    let node = &entry.value;
    let Some(items) = node.as_sequence() else {
        let message = format!("`switch` must be a list of cases, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint(EXAMPLE));
        return None;
    };
    if items.is_empty() {
        problems.push(Diagnostic::new("no-cases", "the `switch` has no cases", entry.key_span).hint(EXAMPLE));
        return None;
    }
    let mut cases = Vec::new();
    for (index, item) in items.iter().take(STEPS_MAX).enumerate() {
        let Some(fields) = Fields::read(item, &CASE, problems) else { continue };
        let condition = fields.get("if").cloned();
        if condition.is_none() && !fields.has_unknown_keys && index + 1 < items.len() {
            let problem = Diagnostic::new("switch", "this case has no `if`, so no case after it is reached", item.span);
            problems.push(problem.hint("the case without `if` is the default: put it last"));
        }
        let Some(steps) = fields.get("steps") else {
            if !fields.has_unknown_keys {
                let problem = Diagnostic::new("missing-key", "the case has no `steps`", item.span);
                problems.push(problem.hint(EXAMPLE));
            }
            continue;
        };
        let pointer = format!("{}/{index}/steps", place.pointer);
        let place = BlockPlace { pointer: &pointer, ..place };
        if let Some(block) = read_block(steps, fields.get("outputs"), place, problems) {
            cases.push(Case { condition, block });
        }
    }
    (cases.len() == items.len()).then_some(cases)
}

/// Returns whether outputs are a mapping, and reports it otherwise.
pub(super) fn check_outputs(node: &Node, problems: &mut Diagnostics) -> bool {
    let good = node.as_mapping().is_some();
    if !good {
        let message = format!("`outputs` must be a mapping with a key for each output, not {}", node.kind());
        let hint = "outputs: { count: \"${ .steps.publish.output.count }\" }";
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
    }
    good
}

/// The steps within an action.
pub(crate) fn blocks(action: &super::Action) -> impl Iterator<Item = &Block> {
    let (one, cases) = match action {
        super::Action::Steps(block) => (Some(block), &[][..]),
        super::Action::Switch(cases) => (None, &cases[..]),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(cases.iter().map(|case| &case.block))
}

/// Adds a step and all that are within it, each before those within it.
pub(super) fn add_all<'a>(steps: &'a [Step], all: &mut Vec<&'a Step>) {
    for step in steps {
        all.push(step);
        step.compensate.iter().for_each(|undo| add_all(std::slice::from_ref(&**undo), all));
        blocks(&step.action).for_each(|block| add_all(&block.steps, all));
    }
}
