//! Steps within an item of a step: they begin together, see what the step sees, and end as one.
//!
//! The nodes of all blocks are in one list, `Interpreter::nodes`: those of the workflow first, for
//! ever, and those of the others from when they begin until they have ended. An index of a node
//! means that node as long as its block lives; then the places are used again.

use super::outcome::{Origin, accept_inputs};
use super::progress::FAILURES_REPORTED_MAX;
use super::state::{NodeState, Stage, Status};
use super::undo::{Seen, Undo};
use super::{Interpreter, ItemKey, WORKFLOW_DEPTH_MAX, kind};
use crate::process::{Answer, Context, Problem, ProblemClass, Tag, problem};
use crate::workflow::expression::Size;
use crate::workflow::plan::{Action, Block, ChildWorkflow, Node, Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The block of the workflow itself.
pub(super) const ROOT: usize = 0;

/// What a node of a block is counted as, beside its results. About what it takes.
const NODE_SIZE: Size = Size { bytes: 512, values: 4 };

/// Most blocks within each other of which a run that repeats this one takes over parts: each is
/// three levels of JSON, of the 128 that a value may have.
const RECORDED_LEVELS_MAX: usize = 32;

/// Steps that began together.
#[derive(Debug, Default)]
pub(super) struct BlockState {
    /// Where its nodes are.
    base: usize,
    len: usize,
    /// What it is of: an item, and the steps within it. `None` for the workflow.
    pub(super) of: Option<(ItemKey, Arc<Block>)>,
    /// How many of its nodes have ended.
    ended: usize,
    /// Whether nothing more of it begins.
    pub(super) is_halted: bool,
    /// Whether it is within an item of a list, or a turn: of those there may be many.
    is_of_list: bool,
    /// What the ids of its nodes are below: `deploy[3].`.
    pub(super) path: String,
    /// What the keys of its nodes begin with: `deploy/3/0/`.
    pub(super) keys: String,
    /// What it makes the run retain.
    kept: Size,
    /// What its nodes see of the workflow, if it is one that a step runs.
    pub(super) child: Option<Box<ChildScope>>,
    /// The number of workflows that it is within, and of blocks.
    depth: usize,
    level: usize,
    /// Why it runs, if it follows the steps of the workflow.
    pub(super) after: Option<AfterBlock>,
}

/// A block that follows the steps of the workflow.
#[derive(Debug)]
pub(super) enum AfterBlock {
    /// Steps below `on`.
    On(Arc<Block>),
    /// What undoes a success, and what it sees.
    Undo(Box<Undo>, Box<Seen>),
}

impl AfterBlock {
    /// The order of its nodes. What undoes a success is one node.
    fn order(&self) -> &[usize] {
        if let Self::On(block) = self { &block.order } else { &[0] }
    }
}

/// What the steps of a workflow that a step runs see of it.
#[derive(Debug)]
pub(super) struct ChildScope {
    pub(super) inputs: Value,
    /// `.run`.
    pub(super) run: Value,
}

impl BlockState {
    /// A block that follows the steps of the workflow.
    pub(super) fn after(after: AfterBlock, path: String, keys: String, is_of_list: bool) -> Self {
        Self { path, keys, is_of_list, after: Some(after), ..Self::default() }
    }

    fn nodes(&self) -> Range<usize> {
        self.base..self.base + self.len
    }

    /// No longer counts what it made the run retain.
    pub(super) fn release(&mut self, size: Size) {
        self.kept -= size;
    }

    /// Whether all of its nodes have ended.
    pub(super) fn is_done(&self) -> bool {
        self.ended == self.len
    }
}

/// Steps that an attempt runs, and what they see if they are those of another workflow.
pub(super) type Chosen = (Arc<Block>, Option<Box<ChildScope>>);

/// All blocks that live.
#[derive(Default, Debug)]
pub(super) struct Blocks {
    all: BTreeMap<usize, BlockState>,
    /// Where nodes of ended blocks were, by their number.
    free: BTreeMap<usize, Vec<usize>>,
    next: usize,
}

impl Blocks {
    pub(super) fn get(&self, place: usize) -> &BlockState {
        &self.all[&place]
    }

    pub(super) fn get_mut(&mut self, place: usize) -> &mut BlockState {
        self.all.get_mut(&place).expect("invariant: a block lives as long as one of its nodes")
    }
}

/// The nodes of a block at a place in the list of all.
pub(super) fn nodes_of(nodes: &[Arc<Node>], base: usize, place: usize) -> Vec<NodeState> {
    let mut states: Vec<_> = nodes.iter().map(|node| NodeState::new(Arc::clone(node), place)).collect();
    for (index, node) in nodes.iter().enumerate() {
        for need in &node.needs {
            states[*need].dependents.push(base + index);
        }
    }
    states
}

impl Interpreter {
    /// The block of the workflow itself.
    pub(super) fn root(plan: &Plan) -> (Blocks, Vec<NodeState>) {
        let nodes = nodes_of(&plan.nodes, 0, ROOT);
        let root = BlockState { len: nodes.len(), ..BlockState::default() };
        (Blocks { all: BTreeMap::from([(ROOT, root)]), free: BTreeMap::new(), next: ROOT + 1 }, nodes)
    }

    pub(super) fn node(&self, index: usize) -> &Arc<Node> {
        &self.nodes[index].node
    }

    /// The block of a node.
    pub(super) fn block(&self, index: usize) -> &BlockState {
        self.blocks.get(self.nodes[index].block)
    }

    /// The nodes that a node depends on.
    pub(super) fn needs(&self, index: usize) -> impl Iterator<Item = usize> {
        let base = self.block(index).base;
        self.node(index).needs.iter().map(move |need| base + need)
    }

    /// The nodes of a block.
    pub(super) fn nodes_in(&self, place: usize) -> Range<usize> {
        self.blocks.get(place).nodes()
    }

    /// The item that a node is within.
    pub(super) fn outer(&self, index: usize) -> Option<ItemKey> {
        self.block(index).of.as_ref().map(|(key, _)| *key)
    }

    /// The id of a node after those of what it is within, for people.
    pub(super) fn path(&self, index: usize) -> String {
        format!("{}{}", self.block(index).path, self.node(index).id)
    }

    /// What identifies an item in idempotency keys, before its number.
    pub(super) fn key_path(&self, (index, item): ItemKey) -> String {
        self.key_path_of(index, item, self.turn_of((index, item)))
    }

    pub(super) fn key_path_of(&self, index: usize, item: usize, turn: u32) -> String {
        let turn = if turn == 0 { String::new() } else { format!(".{turn}") };
        format!("{}{}/{item}{turn}", self.block(index).keys, self.node(index).id)
    }

    /// Begins the steps within an item.
    pub(super) fn begin_block(
        &mut self,
        key: ItemKey,
        block: &Arc<Block>,
        child: Option<Box<ChildScope>>,
    ) -> Result<(), Problem> {
        let nodes = block.nodes.len();
        let mut kept = Size { bytes: NODE_SIZE.bytes * nodes, values: NODE_SIZE.values * nodes };
        if let Some(child) = &child {
            kept = kept + Size::of(&child.inputs) + Size::bytes(self.item(key).input.size());
        }
        self.check_room(kept)?;
        self.retained += kept;
        let is_list = self.node(key.0).for_each.is_some();
        let is_repeated = self.node(key.0).repeat.is_some();
        let item = if is_list { format!("[{}]", key.1) } else { String::new() };
        let number = self.item(key).known_failures;
        let outer = self.block(key.0);
        let (depth, level) = (outer.depth + usize::from(child.is_some()), outer.level + 1);
        let state = BlockState {
            of: Some((key, Arc::clone(block))),
            is_of_list: is_list || is_repeated || self.block(key.0).is_of_list,
            path: format!("{}{item}.", self.path(key.0)),
            keys: format!("{}/{number}/", self.key_path(key)),
            kept,
            child,
            depth,
            level,
            ..BlockState::default()
        };
        let place = self.place_block(block, state);
        self.item(key).stage = Stage::Inside(place);
        if let Some(prior) = self.prior_within(key) {
            self.take_over_in(place, &prior);
            let range = self.nodes_in(place);
            self.ready.retain(|index| !range.contains(index) || self.nodes[*index].status == Status::Waiting);
        }
        Ok(())
    }

    /// Gives the nodes of a block their places, and lets them begin.
    pub(super) fn place_block(&mut self, block: &Block, mut state: BlockState) -> usize {
        let len = block.nodes.len();
        let free = self.blocks.free.get_mut(&len).and_then(Vec::pop);
        let base = free.unwrap_or(self.nodes.len());
        let place = self.blocks.next;
        self.blocks.next += 1;
        let nodes = nodes_of(&block.nodes, base, place);
        if free.is_none() {
            self.nodes.extend(nodes);
        } else {
            self.nodes.splice(base..base + len, nodes);
        }
        (state.base, state.len) = (base, len);
        if !state.is_of_list {
            self.changed.extend(state.nodes());
        }
        self.ready.extend(state.nodes().filter(|index| self.nodes[*index].open == 0));
        if len == 0 {
            self.finishing.insert(place);
        }
        self.blocks.all.insert(place, state);
        place
    }

    /// Removes a block whose nodes have all ended, or are of no interest any more.
    pub(super) fn remove_block(&mut self, place: usize) -> BlockState {
        let state = self.blocks.all.remove(&place).expect("invariant: a block is removed once");
        self.retained -= state.kept;
        for index in state.nodes() {
            let node = Arc::clone(self.node(index));
            self.nodes[index] = NodeState { status: Status::Cancelled, ..NodeState::new(node, ROOT) };
        }
        self.blocks.free.entry(state.len).or_default().push(state.base);
        state
    }

    /// Counts the end of a node in its block.
    pub(super) fn count_end(&mut self, index: usize) {
        let place = self.nodes[index].block;
        let block = self.blocks.get_mut(place);
        block.ended += 1;
        if place != ROOT && block.is_done() {
            self.finishing.insert(place);
        }
    }

    /// Counts what a node makes the run retain.
    pub(super) fn keep(&mut self, index: usize, size: Size) {
        self.retained += size;
        self.blocks.get_mut(self.nodes[index].block).kept += size;
    }

    /// Ends a block whose nodes have all ended, and so the attempt at its item.
    pub(super) fn finish_block(&mut self, context: &mut Context<'_>, place: usize) {
        let state = self.blocks.get(place);
        let Some((key, block)) = state.of.clone() else { return self.finish_after(context, place) };
        let is_halted = state.is_halted;
        let outcome = match self.first_failed(place) {
            _ if is_halted => Ok(Value::Null),
            Some(failed) => Err(self.origin_of(failed)),
            None if matches!(self.node(key.0).action, Action::All(_)) => {
                let take = |index: usize| {
                    let state = &mut self.nodes[index];
                    (state.node.id.to_string(), std::mem::take(&mut state.output))
                };
                Ok(Value::Object(self.blocks.get(place).nodes().map(take).collect()))
            }
            None => {
                self.budget.spend(block.outputs.iter().map(|(_, output)| output.expressions().max(1)).sum());
                self.outputs_of(place, &block).map_err(|problem| (problem, None))
            }
        };
        let all = outcome.is_err() && self.nodes[key.0].failures_reported < FAILURES_REPORTED_MAX;
        self.report_ended(context, place, all);
        let is_needed = is_halted || outcome.is_err() || self.holds_undos(place);
        self.record_within(key, place, is_needed);
        self.remove_block(place);
        self.block_ended(context, key, is_halted, outcome);
    }

    /// Ends the attempt at an item whose steps have ended.
    fn block_ended(
        &mut self,
        context: &mut Context<'_>,
        key: ItemKey,
        is_halted: bool,
        outcome: Result<Value, (Problem, Option<Box<Origin>>)>,
    ) {
        let item = self.item(key);
        let (timed_out, deadline) = (item.timed_out, item.deadline.take());
        if let Some(deadline) = deadline {
            self.timers.cancel(deadline);
        }
        self.fillable.insert(key.0);
        match outcome {
            _ if timed_out => self.attempt_timed_out(context, key),
            _ if is_halted => self.cut_off(key),
            Ok(value) => match self.retain(key.0, Size::of(&value)) {
                Ok(()) => self.turn_over(context.now, key, value),
                Err(problem) => self.attempt_failed(context, key, problem, false),
            },
            Err((problem, origin)) => {
                self.item(key).origin = origin;
                self.attempt_failed(context, key, problem, false);
            }
        }
        self.end_if_finished(key.0);
    }

    /// Stops the steps within an item. They end when all that is in flight has been answered.
    pub(super) fn stop_block(&mut self, context: &mut Context<'_>, place: usize) {
        let within = |index: usize| self.is_within(index, place);
        let tags: Vec<Tag> = self.in_flight.iter().filter(|(_, key)| within(key.0)).map(|(tag, _)| *tag).collect();
        for tag in tags {
            self.stop(context, tag);
        }
        self.halt(place);
    }

    fn is_within(&self, index: usize, place: usize) -> bool {
        let mut at = index;
        loop {
            if self.nodes[at].block == place {
                return true;
            }
            let Some((outer, _)) = self.outer(at) else { return false };
            at = outer;
        }
    }

    /// Ends what has not begun of a block, and lets the rest end.
    pub(super) fn halt(&mut self, place: usize) {
        if std::mem::replace(&mut self.blocks.get_mut(place).is_halted, true) {
            return;
        }
        for index in self.nodes_in(place) {
            self.ready.remove(&index);
            self.fillable.remove(&index);
        }
        for index in self.nodes_in(place) {
            let state = &mut self.nodes[index];
            let Some(running) = &mut state.running else {
                if state.status == Status::Waiting {
                    self.end(index, Status::Cancelled);
                }
                continue;
            };
            running.stopped = true;
            let inner: Vec<usize> = running.live.values().filter_map(|item| item.stage.inside()).collect();
            for (item, idle) in running.take_idle() {
                self.save_key_number((index, item), Some(&idle));
                self.retained -= idle.retained();
                self.timers.cancel_of((index, item));
            }
            if self.nodes[index].running.as_ref().is_some_and(|running| running.live.is_empty()) {
                self.end(index, Status::Cancelled);
            }
            for place in inner {
                self.halt(place);
            }
        }
        for index in self.nodes_in(place) {
            self.ready.remove(&index);
        }
    }

    /// The first node of a block, in the plan's order, whose failure is that of the block.
    pub(super) fn first_failed(&self, place: usize) -> Option<usize> {
        self.failed_nodes(place).next()
    }

    /// The nodes of a block, in the plan's order, whose failure is that of the block.
    pub(super) fn failed_nodes(&self, place: usize) -> impl Iterator<Item = usize> {
        let state = self.blocks.get(place);
        let order = match (&state.of, &state.after) {
            (Some((_, block)), _) => &block.order[..],
            (None, Some(after)) => after.order(),
            (None, None) => &self.plan.order,
        };
        order
            .iter()
            .map(|index| state.base + index)
            .filter(|index| self.nodes[*index].status == Status::Failed && !self.node(*index).continue_on_error)
    }

    /// The failure of a node, and where it comes from.
    pub(super) fn origin_of(&self, index: usize) -> (Problem, Option<Box<Origin>>) {
        let failure = self.nodes[index].failure.as_ref().expect("invariant: a failed node has a failure");
        let origin = failure.origin.clone().unwrap_or_else(|| {
            Box::new(Origin {
                step: self.path(index),
                pointer: self.node(index).pointer.clone(),
                item: failure.item,
                attempt: failure.attempt,
            })
        });
        (failure.problem.clone(), Some(origin))
    }

    /// Whether a node is told of while it only waits for others: not within the items of a list,
    /// which are many.
    pub(super) fn is_of_list(&self, index: usize) -> bool {
        self.block(index).is_of_list
    }

    /// The steps that an attempt at an item runs, and what they see if they are those of another
    /// workflow. `None` if it runs none.
    pub(super) fn chosen(&self, key: ItemKey) -> Result<Option<Chosen>, Problem> {
        match &self.node(key.0).action {
            Action::Steps(block) | Action::All(block) => Ok(Some((Arc::clone(block), None))),
            Action::Workflow { workflow, .. } => {
                let child = Arc::clone(&self.plan.workflows[*workflow]);
                let scope = self.child_scope(key, &child)?;
                Ok(Some((Arc::clone(&child.block), Some(scope))))
            }
            Action::Switch(cases) => {
                for (number, case) in cases.iter().enumerate() {
                    let applies = match &case.condition {
                        Some(condition) => {
                            self.budget.spend(condition.expressions().max(1));
                            let value = self.evaluate(key.0, Some(key.1), condition, &format!("switch/{number}/if"))?;
                            !matches!(value, Value::Null | Value::Bool(false))
                        }
                        None => true,
                    };
                    if applies {
                        return Ok(Some((Arc::clone(&case.block), None)));
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Checks the inputs of a workflow that an item runs, and how deep it is.
    fn child_scope(&self, (index, item): ItemKey, child: &ChildWorkflow) -> Result<Box<ChildScope>, Problem> {
        if self.block(index).depth >= WORKFLOW_DEPTH_MAX {
            let detail = format!("`{}` would be more than {WORKFLOW_DEPTH_MAX} workflows deep", child.file);
            let title = "A workflow runs within too many others";
            return Err(Problem::new(kind::WORKFLOW_TOO_DEEP, title).with_detail(detail));
        }
        let running = self.nodes[index].running.as_ref().expect("invariant: items belong to a running node");
        let with = format!("{}/with", self.node(index).pointer);
        let inputs = accept_inputs(&child.inputs, &running.live[&item].input, Some(&with))?;
        let run = json!({"id": self.run["id"], "name": &*child.name, "started": self.run["started"]});
        Ok(Box::new(ChildScope { inputs, run }))
    }

    /// Whether what ended in a block is recorded for a run that repeats this one.
    pub(super) fn is_recorded(&self, place: usize) -> bool {
        self.blocks.get(place).level <= RECORDED_LEVELS_MAX
    }

    /// Returns whether an answer says that a call took longer than its step allows.
    pub(super) fn is_late(&self, key: ItemKey, answer: &Answer) -> bool {
        // The run enforces the timeout of a call.
        let node = self.node(key.0);
        let is_limited = node.timeout.is_some() && matches!(node.action, Action::Call { .. });
        is_limited && matches!(answer, Err(problem) if problem.kind == problem::kind::TIMED_OUT)
    }

    /// Ends an attempt that took too long.
    pub(super) fn attempt_timed_out(&mut self, context: &mut Context<'_>, key: ItemKey) {
        let timeout = self.node(key.0).timeout.unwrap_or_default();
        let detail = format!("it took longer than {:?}", std::time::Duration::from(timeout));
        let problem = Problem::new(problem::kind::TIMED_OUT, "The step took too long")
            .with_detail(detail)
            .with_class(ProblemClass::Retryable);
        self.attempt_failed(context, key, problem, false);
    }
}
