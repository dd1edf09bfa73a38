//! Reads what undoes a step, and what runs after all steps.

use super::build::{List, make_node, read_list, read_parts};
use super::children::InFile;
use super::expressions::{Dependency, TemplateReader};
use super::references::{ExpressionSite, ListNames};
use super::{Block, Compensation, Node};
use crate::workflow::diagnostics::Diagnostic;
use crate::workflow::model::{self, COMPENSATE, Occasion, Retry, Step, Workflow};
use crate::workflow::syntax::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Retries of a compensation that names none: giving up early leaves something behind. Arbitrary.
const RETRIES_DEFAULT: u32 = 5;

/// Reads what undoes the step at an index of the list that is read. What it reads of other steps
/// are dependencies of the step: they have ended when it has. `None` if there is a problem.
pub(super) fn read_compensation<'a>(
    (index, step): (usize, &Step),
    undo: &'a Step,
    (workflow, site): (&'a Workflow, ExpressionSite),
    templates: &mut TemplateReader<'a>,
    list: &mut List,
) -> Option<Compensation> {
    if let Some(span) = within_named(step, undo, templates.in_file) {
        let message =
            format!("`{}` has a step `{COMPENSATE}` within it, which is the name of what undoes it", step.id.value);
        templates.problems.push(Diagnostic::new("duplicate-id", message, span).hint("give the step within another id"));
    }
    let before = templates.take_dependencies();
    let site = ExpressionSite { output: true, after: true, ..site };
    let outer = std::mem::replace(&mut templates.outer, site);
    let parts = read_parts(undo, workflow, templates);
    templates.outer = outer;
    let mut reads = Some(BTreeSet::new());
    for dependency in std::mem::replace(&mut templates.dependencies, before) {
        match dependency {
            Dependency::Step(of, to, span) if of == list.depth && to == index => {
                let message = format!("`{}` is read under another name in its own `compensate`", step.id.value);
                let hint = "the result that is undone is `.output`: ${ .output.id }";
                templates.problems.push(Diagnostic::new("own-output", message, span).hint(hint));
            }
            Dependency::Step(of, to, span) => {
                let id = templates.names.lists[of].steps[to];
                if let Some(reads) = &mut reads {
                    reads.insert(Arc::from(id));
                }
                if of == list.depth {
                    list.edges.add(index, to, span);
                } else {
                    list.outside.push(Dependency::Step(of, to, span));
                }
            }
            Dependency::Unknown(_) => reads = None,
        }
    }
    let mut node = make_node(undo, parts?, Vec::new(), (workflow, templates.in_file));
    let acts = !matches!(undo.action, model::Action::Set(_));
    if undo.retry.is_none() && workflow.defaults.retry.is_none() && acts {
        let (backoff_min, backoff_max) = Retry::BACKOFF_DEFAULT;
        node.retry = Some(Retry { max: RETRIES_DEFAULT, backoff_min, backoff_max });
    }
    Some(Compensation { block: Arc::new(single(node)), reads: reads.map(|reads| reads.into_iter().collect()) })
}

/// Whether a step right within another has the id of what undoes that one: their idempotency keys
/// would be the same. Returns its place, or that of the compensation if it stands in another file.
fn within_named(step: &Step, undo: &Step, in_file: InFile<'_>) -> Option<Span> {
    let is_named = |step: &&Step| step.id.value == COMPENSATE;
    let here = model::blocks(&step.action).flat_map(|block| &block.steps).find(is_named);
    here.map(|step| step.id.span).or_else(|| {
        let model::Action::Workflow { file } = &step.action else { return None };
        let workflow = in_file.child(&file.value)?.1.workflow.as_ref()?;
        workflow.steps.iter().any(|step| is_named(&step)).then_some(undo.id.span)
    })
}

/// A block of one step.
fn single(node: Node) -> Block {
    Block { pointer: node.pointer.clone(), nodes: vec![Arc::new(node)], order: vec![0], outputs: Vec::new() }
}

/// Reads the lists below `on`. They see every step of the workflow, since all have ended. `None` if
/// there is a problem.
pub(super) fn read_on<'a>(
    workflow: &'a Workflow,
    templates: &mut TemplateReader<'a>,
) -> Option<Vec<(Occasion, Arc<Block>)>> {
    let steps = workflow.steps.iter().map(|step| step.id.value.as_str()).collect();
    let gives = workflow.steps.iter().map(|step| templates.in_file.outputs(step)).collect();
    templates.names.lists.push(ListNames { steps, unread: &workflow.unread, gives });
    let outer = std::mem::replace(&mut templates.outer, ExpressionSite { after: true, ..ExpressionSite::OUTPUTS });
    let read: Vec<_> = workflow
        .on
        .iter()
        .map(|(occasion, block)| {
            let read = read_list(&block.steps, &block.unread, None, workflow, templates)?;
            Some((*occasion, Arc::new(Block { pointer: InFile::pointer(templates.in_file, &block.pointer), ..read })))
        })
        .collect();
    templates.outer = outer;
    templates.names.lists.pop();
    templates.take_dependencies();
    read.into_iter().collect()
}
