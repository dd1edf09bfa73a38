//! The results that a run takes over from the one that it repeats.
//!
//! A run with the entry point [`RETRY`] gets, beside its inputs, how steps of the former run ended:
//! these are not run again. Of a `for-each` that failed it gets the items that succeeded.
//! [`super::repeat()`] decides what is taken over.

use super::blocks::ROOT;
use super::json_texts::{text, texts};
use super::state::{Item, NodeState, Running, Status};
use super::undone::PriorUndo;
use super::{Interpreter, ItemKey};
use crate::workflow::expression::Size;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The entry point of a run that repeats another.
pub const RETRY: &str = "retry";

/// The input of a run that repeats another.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RepeatInput {
    /// The workflow's inputs.
    #[serde(with = "text")]
    pub inputs: Value,
    /// The results of the former run's steps, by their ids.
    pub steps: BTreeMap<String, PriorStep>,
    /// Steps that are run again on purpose: the cache is not asked for them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub fresh: BTreeSet<String>,
    /// The numbers in the idempotency keys of further turns, and of items within others, if not 0:
    /// by what the keys have before them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub numbers: BTreeMap<String, u32>,
    /// The successes of the former run that can be undone and were not, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub undos: Vec<PriorUndo>,
    /// How many runs it repeats, one after the other, beyond the first: the steps below `on` have
    /// keys of their own in each.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub generation: u32,
    /// Makes the placeholders of secrets: those of the former run, since its results may have them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub placeholder_key: Option<String>,
}

impl PriorStep {
    /// Takes over only what is within the step.
    pub(super) fn open(&mut self, is_list: bool) {
        if std::mem::take(&mut self.succeeded) {
            let output = std::mem::take(&mut self.output);
            self.total = Some(output.as_array().filter(|_| is_list).map_or(1, Vec::len));
        }
        self.items.clear();
    }

    /// No longer takes the step over as a whole, nor an item of it.
    pub(super) fn forget(&mut self, item: usize, is_list: bool) {
        if std::mem::take(&mut self.succeeded) {
            let output = std::mem::take(&mut self.output);
            match output {
                Value::Array(results) if is_list => {
                    self.total = Some(results.len());
                    self.items = results.into_iter().enumerate().collect();
                }
                _ => self.total = Some(1),
            }
        }
        self.items.remove(&item);
    }

    /// The numbers in the keys alone, and which calls under them may have happened.
    fn keys(&self) -> Self {
        Self {
            numbers: self.numbers.clone(),
            doubtful: self.doubtful.clone(),
            all_doubtful: self.all_doubtful,
            turns: self.turns.clone(),
            turns_happened: self.turns_happened.clone(),
            ..Self::default()
        }
    }

    /// Records what a further attempt of an item needs: the number in its keys, and whether a call
    /// under that may have happened.
    pub(super) fn record(&mut self, number: usize, item: &Item, is_doubtful: bool) {
        self.record_number(number, item.turn, item.known_failures);
        if item.turn > 0 {
            raise(&mut self.turns_happened, number, item.turn + u32::from(is_doubtful));
        } else if is_doubtful {
            self.doubtful.insert(number);
        }
    }

    /// Records the number in the keys of a turn.
    pub(super) fn record_number(&mut self, item: usize, turn: u32, number: u32) {
        if number == 0 {
            return;
        }
        if turn == 0 {
            self.numbers.insert(item, number);
            return;
        }
        let turns = self.turns.entry(item).or_default();
        if turns.len() < TURNS_RECORDED_MAX || turns.contains_key(&turn) {
            turns.insert(turn, number);
        }
    }

    /// Lets a turn of an item that was undone have new keys.
    pub(super) fn undo(&mut self, item: usize, turn: u32, number: u32) {
        if turn > 0 {
            raise(self.turns.entry(item).or_default(), turn, number + 1);
            self.turns_happened.entry(item).and_modify(|turns| *turns = (*turns).min(turn));
        } else {
            raise(&mut self.numbers, item, number + 1);
            self.doubtful.remove(&item);
            self.turns_happened.remove(&item);
            self.within.remove(&item);
        }
    }

    fn may_have_acted(&self) -> bool {
        let Self { succeeded, items, doubtful, all_doubtful, turns_happened, within, .. } = self;
        let mut steps = within.values().flat_map(BTreeMap::values);
        let has_keys = *all_doubtful || !doubtful.is_empty() || !turns_happened.is_empty();
        *succeeded || has_keys || !items.is_empty() || steps.any(Self::may_have_acted)
    }

    /// Takes over nothing but the numbers of its keys: what it depends on is run again. What
    /// succeeded has happened.
    pub(super) fn run_anew(&mut self) {
        let former = std::mem::take(self);
        *self = Self {
            all_doubtful: former.all_doubtful || former.succeeded,
            doubtful: former.doubtful.into_iter().chain(former.items.into_keys()).collect(),
            numbers: former.numbers,
            turns: former.turns,
            turns_happened: former.turns_happened,
            within: anew(former.within),
            ..Self::default()
        };
    }
}

/// Of steps within items takes over nothing but the numbers of their keys.
fn anew(mut within: BTreeMap<usize, BTreeMap<String, PriorStep>>) -> BTreeMap<usize, BTreeMap<String, PriorStep>> {
    for steps in within.values_mut() {
        steps.values_mut().for_each(PriorStep::run_anew);
        steps.retain(|_, prior| *prior != PriorStep::default());
    }
    within.retain(|_, steps| !steps.is_empty());
    within
}

fn raise<K: Ord>(numbers: &mut BTreeMap<K, u32>, of: K, least: u32) {
    let number = numbers.entry(of).or_default();
    *number = (*number).max(least);
}

/// The result of a step of the former run.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PriorStep {
    /// Whether it succeeded, with `output`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub succeeded: bool,
    /// Whether it was skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub skipped: bool,
    /// Its output, if it succeeded.
    #[serde(with = "text", skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// The most attempts that one item took.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attempts: u32,
    /// The number of items, if `items` are taken over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<usize>,
    /// The results of items that succeeded, if the step did not.
    #[serde(with = "texts", skip_serializing_if = "BTreeMap::is_empty", default)]
    pub items: BTreeMap<usize, Value>,
    /// The numbers in the idempotency keys of items that are run again, if not 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub numbers: BTreeMap<usize, u32>,
    /// Items whose call under the key with that number may have happened: the number stays,
    /// whatever the outcome of another call.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub doubtful: BTreeSet<usize>,
    /// Whether that applies to every item.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub all_doubtful: bool,
    /// The numbers in the keys of the turns of items, after the first, if not 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub turns: BTreeMap<usize, BTreeMap<u32, u32>>,
    /// How many turns of an item may have happened, if there was more than one. They come again,
    /// and their numbers stay, whatever the outcome of another call.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub turns_happened: BTreeMap<usize, u32>,
    /// Of items that are run again and made of steps, the results of those steps, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub within: BTreeMap<usize, BTreeMap<String, PriorStep>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Interpreter {
    /// Ends the steps whose results are taken over.
    pub(super) fn take_over(&mut self, mut steps: BTreeMap<String, PriorStep>) {
        self.take_over_in(ROOT, &steps);
        steps.retain(|id, _| self.plan.node(id).is_none());
        self.unknown_steps = steps;
        self.ready.retain(|index| self.nodes[*index].status == Status::Waiting);
    }

    /// Ends the steps of a block whose results are taken over.
    pub(super) fn take_over_in(&mut self, place: usize, steps: &BTreeMap<String, PriorStep>) {
        for index in self.nodes_in(place) {
            let Some(prior) = steps.get(&*self.node(index).id) else { continue };
            let state = &mut self.nodes[index];
            state.ended_items.again = prior.keys();
            state.taken_over = prior.succeeded || prior.skipped;
            if prior.succeeded {
                let items = state.node.for_each.is_some();
                state.total = prior.output.as_array().filter(|_| items).map_or(1, Vec::len);
                state.done = state.total;
                state.attempts = prior.attempts;
                state.output = prior.output.clone();
                self.keep(index, Size::of(&prior.output));
                self.end(index, Status::Succeeded);
            } else if prior.skipped {
                self.end(index, Status::Skipped);
            } else {
                state.prior = Some(Box::new(prior.clone()));
            }
        }
        for index in self.nodes_in(place) {
            self.can_be_undone_now(index);
        }
    }

    /// Records that a step that is taken over can be undone, if its former workflow said nothing of
    /// it. Of the items and turns of such a step is not known what they were.
    fn can_be_undone_now(&mut self, index: usize) {
        let NodeState { node, status, taken_over, .. } = &self.nodes[index];
        let is_one = node.for_each.is_none() && node.repeat.is_none();
        if *taken_over && *status == Status::Succeeded && is_one && !self.is_recorded_undo((index, 0)) {
            let output = self.nodes[index].output.clone();
            self.can_be_undone((index, 0), &output);
        }
    }

    /// Takes the results of the steps within an item in the run that this one repeats.
    pub(super) fn prior_within(&mut self, (index, item): ItemKey) -> Option<BTreeMap<String, PriorStep>> {
        let state = &mut self.nodes[index];
        // Without a number of items there are only numbers of keys: for the items of any list.
        let is_of_list = |prior: &PriorStep| prior.total.is_none_or(|total| total == state.total);
        let prior = state.prior.as_mut().filter(|prior| is_of_list(prior))?;
        prior.within.remove(&item)
    }

    /// Records what a further run takes over of the steps of a block.
    /// If it has succeeded, and that is not `is_needed`, only a rebuild does.
    pub(super) fn record_within(&mut self, (index, item): ItemKey, place: usize, is_needed: bool) {
        // A run that repeats this one begins with the first turn.
        if self.turn_of((index, item)) > 0 || !(is_needed || self.kept.is_some()) {
            return;
        }
        let prior = |index: usize| {
            let state = &self.nodes[index];
            let prior = match state.status {
                Status::Succeeded | Status::Skipped if !state.node.uses_store() => {
                    let mut prior = state.taken_over();
                    prior.within.extend(state.ended_items.succeeded_within.clone());
                    prior
                }
                _ => state.run_again(),
            };
            (prior != PriorStep::default()).then(|| (state.node.id.to_string(), prior))
        };
        let all: BTreeMap<_, _> = self.nodes_in(place).filter_map(prior).collect();
        if all.is_empty() || !self.is_recorded(place) {
            return;
        }
        if !is_needed {
            self.nodes[index].ended_items.succeeded_within.insert(item, all);
            return;
        }
        let size = all.values().fold(Size::default(), |size, prior| size + Size::of(&prior.output));
        // Without room for them they are run again.
        if self.retain(index, size).is_ok() {
            self.nodes[index].ended_items.again.within.insert(item, all);
        }
    }

    /// Takes the result of an item in the run that this one repeats.
    pub(super) fn prior_result(&mut self, (index, item): ItemKey) -> Option<Value> {
        let state = &mut self.nodes[index];
        let prior = state.prior.as_mut().filter(|prior| prior.total == Some(state.total))?;
        prior.items.remove(&item)
    }

    /// The number in the first idempotency key of an item's turn.
    pub(super) fn prior_number(&self, (index, item): ItemKey, turn: u32) -> u32 {
        let ended = &self.nodes[index].ended_items.again;
        let number = match turn {
            0 => ended.numbers.get(&item),
            turn => ended.turns.get(&item).and_then(|turns| turns.get(&turn)),
        };
        number.copied().unwrap_or(0)
    }

    /// Returns whether a call under that key may have happened in a run that this one repeats.
    pub(super) fn prior_doubt(&self, (index, item): ItemKey, turn: u32) -> bool {
        let ended = &self.nodes[index].ended_items.again;
        let happened = ended.turns_happened.get(&item).is_some_and(|turns| turn < *turns);
        ended.all_doubtful || happened || (turn == 0 && ended.doubtful.contains(&item))
    }
}

/// Most turns of an item whose numbers are recorded. Arbitrary: each had a failure of its own.
const TURNS_RECORDED_MAX: usize = 1_000;

/// What a node retains of its ended items.
#[derive(Default, Debug)]
pub(super) struct EndedItems {
    /// Items that succeeded, of a node that failed with `continue-on-error`: its output has their
    /// results.
    succeeded: BTreeSet<usize>,
    /// Their results, if the node has no output.
    results: BTreeMap<usize, Value>,
    /// What a further run needs of those that it runs again: the numbers in their keys, and the
    /// results of the steps within items that have not succeeded, or can be undone.
    pub(super) again: PriorStep,
    /// Those within other items, in a rebuild for a run whose workflow may be another one.
    succeeded_within: BTreeMap<usize, BTreeMap<String, PriorStep>>,
}

impl NodeState {
    /// Retains the results of the items of a `for-each` that has not succeeded as a whole: as its
    /// output if the run goes on.
    pub(super) fn retain_results(&mut self, mut running: Running, goes_on: bool) {
        if running.items.is_none() {
            return;
        }
        if goes_on {
            self.output = Value::Array(running.results);
            self.ended_items.succeeded = running.succeeded;
        } else {
            let results = running.succeeded.into_iter().map(|item| (item, std::mem::take(&mut running.results[item])));
            self.ended_items.results.extend(results);
        }
    }

    /// The result of a node that is taken over as it ended.
    pub(super) fn taken_over(&self) -> PriorStep {
        match self.status {
            Status::Succeeded => PriorStep {
                succeeded: true,
                output: self.output.clone(),
                attempts: self.attempts,
                within: self.within(),
                doubtful: BTreeSet::new(),
                all_doubtful: false,
                turns_happened: BTreeMap::new(),
                ..self.keys()
            },
            // Its calls may have been made in an earlier run.
            _ => PriorStep { skipped: true, ..self.run_anew() },
        }
    }

    /// The result of a node that did not succeed and is run again: the items that did.
    pub(super) fn run_again(&self) -> PriorStep {
        let (items, within) = (self.results(), self.within());
        PriorStep {
            total: (!items.is_empty() || !within.is_empty()).then_some(self.total_known()),
            items,
            within,
            ..self.keys()
        }
    }

    /// The result of a node some of whose inner steps have changed: what is within its items.
    pub(super) fn run_inside(&self) -> PriorStep {
        let mut prior = self.run_again();
        prior.total = Some(self.total_known());
        prior.items.clear();
        for (item, steps) in self.ended_items.succeeded_within.iter().filter(|(item, _)| !self.undone.contains(item)) {
            prior.within.entry(*item).or_insert_with(|| steps.clone());
        }
        prior
    }

    /// Whether something of a node that did not succeed has happened, or may have.
    pub(super) fn may_have_acted(&self) -> bool {
        self.run_again().may_have_acted()
    }

    /// The results of the steps within items that have not succeeded, those of an earlier run too.
    fn within(&self) -> BTreeMap<usize, BTreeMap<String, PriorStep>> {
        let mut all = self.prior.as_ref().map(|prior| prior.within.clone()).unwrap_or_default();
        all.extend(self.ended_items.again.within.iter().map(|(item, steps)| (*item, steps.clone())));
        all
    }

    /// The result of a node that is run again from its beginning: the numbers in its keys. What
    /// succeeded has happened.
    pub(super) fn run_anew(&self) -> PriorStep {
        let mut keys = self.keys();
        keys.doubtful.extend(self.results().into_keys());
        PriorStep {
            all_doubtful: keys.all_doubtful || self.status == Status::Succeeded,
            within: anew(self.within()),
            ..keys
        }
    }

    fn results(&self) -> BTreeMap<usize, Value> {
        let mut all = self.ended_items.results.clone();
        all.extend(self.ended_items.succeeded.iter().map(|item| (*item, self.output[*item].clone())));
        if let Some(running) = self.running.as_ref().filter(|running| running.items.is_some()) {
            all.extend(running.succeeded.iter().map(|item| (*item, running.results[*item].clone())));
        }
        // Results that were taken over and not used yet.
        let prior = self.prior.iter().filter(|prior| self.total == 0 || prior.total == Some(self.total));
        for (item, result) in prior.flat_map(|prior| &prior.items) {
            all.entry(*item).or_insert_with(|| result.clone());
        }
        if let (Status::Succeeded, true, Value::Array(results)) =
            (self.status, self.node.for_each.is_some(), &self.output)
        {
            all.extend(results.iter().cloned().enumerate());
        }
        all.retain(|item, _| !self.undone.contains(item));
        all
    }

    /// The number of items, as far as it was ever known.
    pub(super) fn total_known(&self) -> usize {
        let prior = self.prior.as_ref().and_then(|prior| prior.total);
        if self.total == 0 { prior.unwrap_or(0) } else { self.total }
    }

    /// The numbers in the keys of further attempts, those at items that have not ended included.
    fn keys(&self) -> PriorStep {
        let mut all = self.ended_items.again.keys();
        for (number, item) in self.running.iter().flat_map(|running| &running.live) {
            all.record(*number, item, item.is_doubtful());
        }
        all
    }
}
