//! What a run that repeats another takes over beside results: the successes that can still be
//! undone, and the numbers in the keys of what is within items and turns.
//!
//! Only a rebuild for such a run keeps them: see [`super::repeat()`].

use super::blocks::ROOT;
use super::json_texts::{text, texts};
use super::repeat::{RepeatError, STEPS_LISTED_MAX};
use super::undo::{Level, Seen, Undo};
use super::{Interpreter, ItemKey, kind};
use crate::process::Problem;
use crate::workflow::plan::Node;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found out of steps whose undoing has failed after it began: paths, as the problem of
/// the run has them (`rooms[1]`), or their beginnings (`rooms`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Undone {
    /// These were undone: they run again.
    pub are: Vec<String>,
    /// These were not: they are taken over.
    pub are_not: Vec<String>,
}

impl Undone {
    /// Whether a success was undone, if that is told.
    fn of(&self, path: &str) -> Option<bool> {
        let names = |told: &String| {
            path.strip_prefix(&**told).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let told = |all: &[String]| all.iter().any(names);
        if told(&self.are) { Some(true) } else { told(&self.are_not).then_some(false) }
    }
}

/// A success of the former run that can be undone.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PriorUndo {
    path: String,
    keys: String,
    levels: Vec<Level>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_of_list: bool,
    /// `None` if there was no room for it.
    seen: Option<PriorSeen>,
}

/// What the compensation sees.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PriorSeen {
    #[serde(with = "texts", skip_serializing_if = "BTreeMap::is_empty", default)]
    steps: BTreeMap<String, Value>,
    /// The item, the last turn's result, the inputs and the `run` of a workflow that a step runs.
    #[serde(with = "texts", skip_serializing_if = "BTreeMap::is_empty", default)]
    others: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    turn: Option<u32>,
    #[serde(with = "text", skip_serializing_if = "Value::is_null", default)]
    error: Value,
    #[serde(with = "text", skip_serializing_if = "Value::is_null", default)]
    output: Value,
}

impl PriorSeen {
    fn of(seen: &Seen) -> Self {
        let item = seen.item.as_ref().map(|(item, _)| ("item", item));
        let last = seen.turn.as_ref().map(|(last, _)| ("last", last));
        let child = seen.child.iter().flat_map(|(inputs, run)| [("inputs", inputs), ("run", run)]);
        let others = item.into_iter().chain(last).chain(child);
        Self {
            steps: seen.steps.clone().into_iter().collect(),
            others: others.map(|(name, value)| (name.to_owned(), value.clone())).collect(),
            index: seen.item.as_ref().map(|(_, index)| *index),
            turn: seen.turn.as_ref().map(|(_, turn)| *turn),
            error: seen.error.clone(),
            output: seen.output.clone(),
        }
    }

    fn into_seen(mut self) -> Seen {
        let mut other = |name: &str| self.others.remove(name);
        Seen {
            item: self.index.map(|index| (other("item").unwrap_or_default(), index)),
            turn: self.turn.map(|turn| (other("last").unwrap_or_default(), turn)),
            child: other("inputs").map(|inputs| (inputs, other("run").unwrap_or_else(|| json!({})))),
            steps: self.steps.into_iter().collect(),
            error: self.error,
            output: self.output,
        }
    }
}

/// What a rebuild keeps for a run that repeats this one.
#[derive(Default)]
pub(super) struct Kept {
    /// See [`super::RepeatInput::numbers`].
    numbers: BTreeMap<String, u32>,
    /// The successes that were not undone, the last one first, and whether they may be all the
    /// same.
    not_undone: Vec<(Undo, bool)>,
}

impl Interpreter {
    /// Keeps the number in the keys of an item that has ended, or of a turn.
    pub(super) fn keep_number(&mut self, index: usize, item: usize, turn: u32, number: u32) {
        if self.kept.is_none() || number == 0 || (turn == 0 && self.nodes[index].block == ROOT) {
            return;
        }
        let path = self.key_path_of(index, item, turn);
        if let Some(kept) = &mut self.kept {
            kept.numbers.insert(path, number);
        }
    }

    /// Lets what was undone have a new number.
    pub(super) fn keep_undone(&mut self, undo: &Undo) {
        let is_first = matches!(&undo.levels[..], [level] if level.turn == 0);
        let number = undo.levels.last().map_or(0, |level| level.number);
        let path = undo.keys.strip_suffix(&format!("/{number}/"));
        if let (Some(kept), Some(path), false) = (&mut self.kept, path, is_first) {
            kept.numbers.insert(path.to_owned(), number + 1);
        }
    }

    /// Keeps what was not undone, with all that its compensation sees.
    pub(super) fn keep_not_undone(&mut self, mut undo: Undo, may_be_undone: bool) {
        if let Ok(seen) = &mut undo.seen
            && let Some((_, Value::Object(run))) = &mut seen.child
        {
            run.remove("problem");
        }
        if let Some(kept) = &mut self.kept {
            kept.not_undone.push((undo, may_be_undone));
        }
    }

    /// The least number in the keys of a turn, or of an item within another.
    pub(super) fn number_within(&self, key: ItemKey) -> u32 {
        if self.numbers.is_empty() {
            return 0;
        }
        self.numbers.get(&self.key_path(key)).copied().unwrap_or(0)
    }

    /// All such numbers.
    pub(super) fn numbers_for_repeat(&self) -> BTreeMap<String, u32> {
        let mut all = self.numbers.clone();
        all.extend(self.kept.iter().flat_map(|kept| &kept.numbers).map(|(path, number)| (path.clone(), *number)));
        all
    }

    /// Takes account of what the operator found out about compensations that acted and failed.
    pub(super) fn settle_undone(&mut self, told: &Undone) -> Result<(), RepeatError> {
        // The host ended the run while this one was undone.
        self.leave_undo();
        let all = self.kept.as_mut().map(|kept| std::mem::take(&mut kept.not_undone)).unwrap_or_default();
        let is_open = |(undo, may_be): &&(Undo, bool)| *may_be && told.of(&undo.path).is_none();
        let steps: Vec<String> = all.iter().filter(is_open).map(|(undo, _)| undo.path.clone()).collect();
        if !steps.is_empty() {
            return Err(RepeatError::Unsure { steps });
        }
        for (undo, may_be_undone) in all {
            if may_be_undone && told.of(&undo.path) == Some(true) {
                self.note_undone(&undo, true);
            } else {
                self.keep_not_undone(undo, false);
            }
        }
        Ok(())
    }

    /// The successes that can be undone and were not, in their order: those of items that run
    /// again, too, since the new run may fail before it comes to them.
    pub(super) fn undos_for_repeat(&self) -> Vec<PriorUndo> {
        let not_undone = self.kept.iter().flat_map(|kept| kept.not_undone.iter().rev()).map(|(undo, _)| undo);
        let all = self.undos.iter().chain(not_undone).filter(|undo| !undo.is_unsure);
        let prior = |undo: &Undo| PriorUndo {
            path: undo.path.clone(),
            keys: undo.keys.clone(),
            levels: undo.levels.clone(),
            is_of_list: undo.is_of_list,
            seen: undo.seen.as_ref().ok().map(|seen| PriorSeen::of(seen)),
        };
        all.map(prior).collect()
    }

    /// Records what of the former run can be undone.
    pub(super) fn take_over_undos(&mut self, undos: Vec<PriorUndo>) {
        for PriorUndo { path, keys, levels, is_of_list, seen } in undos {
            // The workflow may be another one by now.
            let Some(node) = self.node_at(&levels).filter(|node| node.compensate.is_some()) else { continue };
            let seen = seen.map(|seen| Box::new(seen.into_seen())).ok_or_else(no_room);
            let size = Undo::size_with(seen.as_deref().ok());
            let (seen, size) = match self.check_room(size) {
                Ok(()) => (seen, size),
                Err(problem) => (Err(problem), Undo::size_with(None)),
            };
            self.retained += size;
            self.undos.push(Undo { node, path, keys, levels, is_of_list, is_unsure: false, seen, size });
        }
    }

    /// The node of an item.
    fn node_at(&self, levels: &[Level]) -> Option<Arc<Node>> {
        let mut found: Option<Arc<Node>> = None;
        for Level { id, .. } in levels {
            let is_it = |node: &&Arc<Node>| node.id == *id;
            let next = match &found {
                None => self.plan.nodes.iter().find(is_it),
                Some(node) => self.plan.blocks_of(&node.action).flat_map(|block| &block.nodes).find(is_it),
            };
            found = Some(Arc::clone(next?));
        }
        found
    }
}

fn no_room() -> Problem {
    Problem::new(kind::STATE_TOO_LARGE, "The run keeps too much")
}

/// Steps for people, with the verb that follows.
pub(super) fn of_steps(steps: &[String]) -> String {
    let shown: Vec<String> = steps.iter().take(STEPS_LISTED_MAX).map(|step| format!("`{step}`")).collect();
    let more = if steps.len() > STEPS_LISTED_MAX { ", and more" } else { "" };
    format!("{}{more} {}", shown.join(", "), if steps.len() == 1 { "was" } else { "were" })
}
