//! What undoes steps that succeeded, if the run then fails or is cancelled.
//!
//! When an item succeeds whose step has a `compensate`, what that sees is recorded: the result, the
//! item, and the results of other steps that it reads. So it does not matter that a block has ended
//! and its nodes are gone. If the run does not complete, the compensations run one after the other,
//! that of the last success first, each as a block of its own.
//!
//! - **U1** An item has at most one compensation, whose place is that of its last success. The keys
//!   of its calls are below those of the item, so one that is repeated has the keys that it had.
//! - **U2** If a step with a `compensate` has steps within it, those are undone by it alone once it
//!   has succeeded.
//! - **U3** A run that repeats this one runs again what was undone, under new keys, and takes over
//!   what was not: with all that was recorded for its compensation, which is tried again if that
//!   run fails, too. Of what is neither, since a compensation acted and then failed, somebody has
//!   to say which it is.
//! - **U4** An item that failed may have happened all the same. It is not undone, since there is no
//!   result to undo it by, but listed with what was not undone.

use super::blocks::{AfterBlock, ROOT};
use super::scope::step_value;
use super::state::Status;
use super::taken_over::PriorStep;
use super::{Interpreter, ItemKey};
use crate::process::{Problem, ProblemClass};
use crate::workflow::expression::Size;
use crate::workflow::plan::{Action, Block, Compensation, Node, Plan};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an entry is counted as, beside the values. About what it takes.
const ENTRY_SIZE: Size = Size { bytes: 512, values: 4 };

/// An item that a step is within, or is.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Level {
    /// The step's id.
    pub(super) id: Arc<str>,
    pub(super) item: usize,
    /// Whether the item is one of a list.
    pub(super) is_list: bool,
    pub(super) turn: u32,
    /// The number in the keys of that turn.
    pub(super) number: u32,
}

/// What a compensation sees.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The results of other steps.
    pub(super) steps: Map<String, Value>,
    pub(super) item: Option<(Value, usize)>,
    /// The result of the last turn, and the number of this one. What a step with `repeat` undoes is
    /// the turn that gave the result.
    pub(super) turn: Option<(Value, u32)>,
    pub(super) error: Value,
    /// The result of what is undone.
    pub(super) output: Value,
    /// The inputs of a workflow that a step runs, and its `.run`.
    pub(super) child: Option<(Value, Value)>,
}

impl Seen {
    fn size(&self) -> Size {
        let steps = self.steps.values().map(Size::of).fold(Size::default(), std::ops::Add::add);
        let item = self.item.as_ref().map_or(Size::default(), |(item, _)| Size::of(item));
        let child = self.child.as_ref().map_or(Size::default(), |(inputs, _)| Size::of(inputs));
        let turn = self.turn.as_ref().map_or(Size::default(), |(last, _)| Size::of(last));
        steps + item + child + turn + Size::of(&self.error) + Size::of(&self.output)
    }
}

/// A success that can be undone.
#[derive(Debug)]
pub(super) struct Undo {
    pub(super) node: Arc<Node>,
    /// The path of the item: `deploy[3].build`.
    pub(super) path: String,
    /// What the keys of the compensation begin with.
    pub(super) keys: String,
    /// The items that it is within, the outermost first, and its own.
    pub(super) levels: Vec<Level>,
    pub(super) is_of_list: bool,
    /// Whether it is no success, but a failure that may have happened all the same.
    pub(super) is_unsure: bool,
    /// What it sees. An error says that there was no room for it, or how it failed.
    pub(super) seen: Result<Box<Seen>, Problem>,
    pub(super) size: Size,
}

/// All successes that can be undone.
#[derive(Debug, Default)]
pub(super) struct Undos {
    /// In the order of their successes.
    all: BTreeMap<u64, Undo>,
    by_keys: BTreeMap<String, u64>,
    next: u64,
}

impl Undos {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Undo> {
        self.all.values()
    }

    pub(super) fn push(&mut self, undo: Undo) {
        self.next += 1;
        self.by_keys.insert(undo.keys.clone(), self.next);
        self.all.insert(self.next, undo);
    }

    /// Takes out the last success.
    pub(super) fn pop(&mut self) -> Option<Undo> {
        let (_, undo) = self.all.pop_last()?;
        self.by_keys.remove(&undo.keys);
        Some(undo)
    }

    pub(super) fn has(&self, keys: &str) -> bool {
        self.by_keys.contains_key(keys)
    }

    fn remove(&mut self, keys: &str) -> Size {
        let undo = self.by_keys.remove(keys).and_then(|number| self.all.remove(&number));
        undo.map_or(Size::default(), |undo| undo.size)
    }

    /// The keys of successes within an item.
    fn below(&self, keys: &str) -> Vec<String> {
        let found = self.by_keys.range(keys.to_owned()..).map(|(key, _)| key);
        found.take_while(|key| key.starts_with(keys)).filter(|key| *key != keys).cloned().collect()
    }
}

impl Undo {
    /// The size of a success with what its compensation sees.
    pub(super) fn size_with(seen: Option<&Seen>) -> Size {
        seen.map_or(ENTRY_SIZE, |seen| ENTRY_SIZE + seen.size())
    }
}

impl Interpreter {
    /// Records that an item succeeded, if it can be undone.
    pub(super) fn can_be_undone(&mut self, key: ItemKey, output: &Value) {
        let node = Arc::clone(self.node(key.0));
        let Some(undo) = &node.compensate else { return };
        let keys = self.keys_to_undo(key);
        for within in self.undos.below(&keys) {
            let size = self.undos.remove(&within);
            self.retained -= size;
        }
        let seen = self.seen(key, undo, output);
        let size = Undo::size_with(Some(&seen));
        let (seen, size) = match self.check_room(size) {
            Ok(()) => (Ok(Box::new(seen)), size),
            Err(problem) => (Err(problem), Undo::size_with(None)),
        };
        self.add_undo(key, keys, (seen, size), false);
    }

    /// Records that an item failed, if it could be undone and may have happened all the same.
    pub(super) fn may_be_done(&mut self, key: ItemKey, problem: &Problem) {
        if self.node(key.0).compensate.is_none() {
            return;
        }
        // What a guest did before it failed is never known: so only its problem counts.
        let is_call = matches!(self.node(key.0).action, Action::Call { .. });
        let is_unsure = problem.may_have_happened || problem.class == ProblemClass::Uncertain;
        let live = self.nodes[key.0].running.as_ref().and_then(|running| running.live.get(&key.1));
        let is_unsure = is_unsure || (is_call && live.is_some_and(|item| item.may_have_happened));
        if !is_unsure {
            return;
        }
        let keys = self.keys_to_undo(key);
        if self.undos.has(&keys) {
            // It succeeded in an earlier attempt of a step around it.
            return;
        }
        let problem = Problem { data: None, ..problem.clone() }.with_class(ProblemClass::Uncertain);
        self.add_undo(key, keys, (Err(problem), Undo::size_with(None)), true);
    }

    /// What the keys of an item's compensation begin with.
    fn keys_to_undo(&self, key: ItemKey) -> String {
        format!("{}/{}/", self.key_path(key), self.number_of(key))
    }

    /// Adds an item, in the place of what there was under these keys.
    fn add_undo(
        &mut self,
        key: ItemKey,
        keys: String,
        (seen, size): (Result<Box<Seen>, Problem>, Size),
        is_unsure: bool,
    ) {
        let (index, item) = key;
        let former = self.undos.remove(&keys);
        self.retained -= former;
        self.retained += size;
        let node = Arc::clone(self.node(index));
        let is_list = node.for_each.is_some();
        let number_of_item = if is_list { format!("[{item}]") } else { String::new() };
        let undo = Undo {
            is_unsure,
            path: format!("{}{number_of_item}", self.path(index)),
            keys,
            levels: self.levels(key),
            is_of_list: is_list || node.repeat.is_some() || self.is_of_list(index),
            node,
            seen,
            size,
        };
        self.undos.push(undo);
    }

    /// Whether an item is recorded as one that can be undone.
    pub(super) fn is_recorded_undo(&self, key: ItemKey) -> bool {
        self.undos.has(&self.keys_to_undo(key))
    }

    /// Whether something within an item can be undone.
    pub(super) fn holds_undos(&self, place: usize) -> bool {
        !self.undos.is_empty() && !self.undos.below(&self.blocks.get(place).keys).is_empty()
    }

    fn seen(&self, key: ItemKey, undo: &Compensation, output: &Value) -> Seen {
        let (index, item) = key;
        let mut indexes: Vec<usize> = self.needs(index).collect();
        let given = self.given_outside(index, &mut indexes);
        let is_read = |id: &str| undo.reads.as_ref().is_none_or(|reads| reads.iter().any(|read| **read == *id));
        let read = indexes.into_iter().filter(|index| is_read(&self.node(*index).id));
        let is_child = !std::ptr::eq(given.run, &raw const self.run);
        let own_error = self.error_for(index);
        let own_turn = self.node(index).repeat.is_some().then(|| (output.clone(), self.turn_of((index, item))));
        Seen {
            steps: read.map(|index| (self.node(index).id.to_string(), step_value(&self.nodes[index]))).collect(),
            item: self.item_value(key).or(given.item).map(|(value, item)| (value.clone(), item)),
            turn: own_turn.or_else(|| given.turn.map(|(last, turn)| (last.clone(), turn))),
            error: if own_error.is_null() { given.error } else { own_error }.clone(),
            output: output.clone(),
            child: is_child.then(|| (given.inputs.clone(), given.run.clone())),
        }
    }

    fn levels(&self, key: ItemKey) -> Vec<Level> {
        let mut levels = Vec::new();
        let mut at = Some(key);
        while let Some(key @ (index, item)) = at {
            let node = self.node(index);
            let (turn, number) = (self.turn_of(key), self.number_of(key));
            levels.push(Level { id: Arc::clone(&node.id), item, is_list: node.for_each.is_some(), turn, number });
            at = self.outer(index);
        }
        levels.reverse();
        levels
    }

    /// The number in the keys of an item.
    fn number_of(&self, key: ItemKey) -> u32 {
        let running = self.nodes[key.0].running.as_ref();
        let live = running.and_then(|running| running.live.get(&key.1));
        live.map_or_else(|| self.prior_number(key, 0), |item| item.known_failures)
    }

    /// Begins what undoes a success. `Err` if that cannot begin.
    pub(super) fn begin_undo(&mut self, mut undo: Undo, problem: &Value) -> Result<usize, (Undo, Problem)> {
        self.retained -= undo.size;
        let block = match &undo.node.compensate {
            Some(compensation) => Arc::clone(&compensation.block),
            None => unreachable!("invariant: it was recorded for its compensation"),
        };
        let mut seen = match undo.seen {
            Ok(seen) => seen,
            Err(problem) => {
                undo.seen = Err(problem.clone());
                return Err((undo, problem));
            }
        };
        undo.seen = Ok(Box::default());
        if let Some((_, run)) = &mut seen.child {
            run["problem"] = problem.clone();
        }
        let (path, keys, is_of_list) = (format!("{}.", undo.path), undo.keys.clone(), undo.is_of_list);
        Ok(self.begin_after(&block, AfterBlock::Undo(Box::new(undo), seen), path, keys, is_of_list))
    }

    /// Records for a run that repeats this one whether a success was undone. If it was not, and is
    /// within another step, that step begins again and takes it over: so it can be undone there.
    pub(super) fn note_undone(&mut self, undo: &Undo, is_undone: bool) {
        let Some((level, below)) = undo.levels.split_first() else { return };
        let Some(index) = self.nodes_in(ROOT).find(|index| self.node(*index).id == level.id) else { return };
        // A failure is not taken over: it runs again in any case.
        if undo.is_unsure {
            return;
        }
        if below.is_empty() && !is_undone {
            return;
        }
        if is_undone {
            self.keep_undone(undo);
        }
        let state = &mut self.nodes[index];
        state.undone.insert(level.item);
        if below.is_empty() {
            state.ended_items.again.undo(level.item, level.turn, level.number);
        } else if level.turn == 0 {
            let steps = state.ended_items.again.within.entry(level.item).or_default();
            let blocks = self.plan.blocks_of(&state.node.action).collect();
            undo_within((&self.plan, blocks), steps, below, is_undone);
        }
    }
}

/// Marks a step within an item as undone, if it was, and those around it as such that begin again.
/// What is within a turn after the first begins again in any case, under the numbers that are kept.
fn undo_within(
    (plan, blocks): (&Plan, Vec<&Arc<Block>>),
    steps: &mut BTreeMap<String, PriorStep>,
    levels: &[Level],
    is_undone: bool,
) {
    let Some((level, below)) = levels.split_first() else { return };
    let Some((block, node)) =
        blocks.iter().find_map(|block| Some((block, block.nodes.iter().find(|node| node.id == level.id)?)))
    else {
        return;
    };
    if is_undone {
        for dependent in dependents(block, &level.id) {
            steps.entry(dependent.to_string()).and_modify(PriorStep::run_anew);
        }
    }
    let prior = steps.entry(level.id.to_string()).or_default();
    if below.is_empty() && !is_undone {
        return;
    }
    prior.forget(level.item, level.is_list);
    if below.is_empty() {
        prior.undo(level.item, level.turn, level.number);
    } else if level.turn == 0 {
        let blocks = plan.blocks_of(&node.action).collect();
        undo_within((plan, blocks), prior.within.entry(level.item).or_default(), below, is_undone);
    }
}

/// The steps of a block that depend on one of it, directly or not.
fn dependents(block: &Block, id: &str) -> Vec<Arc<str>> {
    let mut is_after = vec![false; block.nodes.len()];
    for &index in &block.order {
        let node = &block.nodes[index];
        is_after[index] = node.needs.iter().any(|need| is_after[*need] || *block.nodes[*need].id == *id);
    }
    block.nodes.iter().zip(is_after).filter(|(_, is_after)| *is_after).map(|(node, _)| Arc::clone(&node.id)).collect()
}

/// What the run's problem says of compensations.
#[derive(Debug, Default)]
pub(super) struct UndoReport {
    undone: Vec<String>,
    not_undone: Vec<Value>,
    more: usize,
}

impl UndoReport {
    /// Most that are named of each. Arbitrary.
    const NAMED_MAX: usize = 100;

    /// Adds a success. One that was not undone may be undone all the same if something that undoes
    /// it `has_acted`.
    pub(super) fn add(&mut self, undo: &Undo, outcome: Result<(), &Problem>, has_acted: bool) {
        let (named, entry) = match outcome {
            Ok(()) => (self.undone.len(), None),
            Err(problem) => (self.not_undone.len(), Some(problem)),
        };
        if named >= Self::NAMED_MAX {
            self.more += 1;
            return;
        }
        match entry {
            None => self.undone.push(undo.path.clone()),
            Some(problem) => self.not_undone.push(json!({
                "step": undo.path,
                "kind": problem.kind,
                "title": problem.title,
                "class": problem.class,
                "detail": problem.detail,
                "may-be-undone": has_acted,
                "may-be-done": undo.is_unsure,
            })),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.undone.is_empty() && self.not_undone.is_empty()
    }

    /// The steps that could not be undone, those that may be undone, and those that may have
    /// happened, for people.
    pub(super) fn left(&self) -> Option<String> {
        let those = |(may_be_undone, may_be_done, what): (bool, bool, &str)| {
            let is_one = |one: &&Value| one["may-be-undone"] == may_be_undone && one["may-be-done"] == may_be_done;
            let steps: Vec<&str> =
                self.not_undone.iter().filter(is_one).filter_map(|one| one["step"].as_str()).collect();
            (!steps.is_empty()).then(|| format!("{what}: {}", steps.join(", ")))
        };
        let kinds = [(false, false, "not undone"), (true, false, "perhaps undone"), (false, true, "perhaps done")];
        let all: Vec<String> = kinds.into_iter().filter_map(those).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Adds it to the extension members of a problem.
    pub(super) fn write(&self, data: &mut Map<String, Value>) {
        data.insert("undone".to_owned(), json!(self.undone));
        data.insert("not-undone".to_owned(), json!(self.not_undone));
        if self.more > 0 {
            data.insert("undone-not-listed".to_owned(), json!(self.more));
        }
    }
}

impl super::state::NodeState {
    /// Whether a run that repeats this one runs it again, since it was undone.
    pub(super) fn was_undone(&self) -> bool {
        !self.undone.is_empty() && matches!(self.status, Status::Succeeded | Status::Failed | Status::Cancelled)
    }
}
