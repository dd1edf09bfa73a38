//! What a run that repeats another is given of it, and how it takes that as done.
//!
//! A run with the entry point [`RETRY`] is given, beside its inputs, how steps ended: these are not
//! run again. Of a `for-each` that failed it is given the items that succeeded. What is given of
//! which step [`super::repeat()`] decides.

use super::state::{Item, NodeState, Running, Status};
use super::{Interpreter, ItemKey};
use crate::workflow::expression::Size;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The entry point of a run that repeats another.
pub const RETRY: &str = "retry";

/// What a run that repeats another is given.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RepeatInput {
    /// The inputs of the run.
    #[serde(with = "text")]
    pub inputs: Value,
    /// By the ids of steps, what is known of them.
    pub steps: BTreeMap<String, PriorStep>,
}

/// What is known of a step.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PriorStep {
    /// It succeeded, and gave `output`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub succeeded: bool,
    /// It was skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub skipped: bool,
    /// What it gave.
    #[serde(with = "text", skip_serializing_if = "Value::is_null", default)]
    pub output: Value,
    /// How often it was tried.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub attempts: u32,
    /// Items in all, where those that succeeded are given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<usize>,
    /// What items gave that succeeded.
    #[serde(with = "texts", skip_serializing_if = "BTreeMap::is_empty", default)]
    pub items: BTreeMap<usize, Value>,
    /// The numbers in idempotency keys of items that are run again, where they are not 0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub numbers: BTreeMap<usize, u32>,
    /// Items of which a call under the key with that number may have happened: the number stays
    /// whatever becomes of another one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub doubtful: BTreeSet<usize>,
    /// That is so of every item.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub all_doubtful: bool,
}

/// A value as its JSON text: as deep as a payload may be it could not stand within another.
mod text {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::Value;

    pub(super) fn serialize<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Values as their JSON texts.
mod texts {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::Value;
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: serde::Serializer>(
        items: &BTreeMap<usize, Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(items.iter().map(|(item, value)| (item, value.to_string())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<usize, Value>, D::Error> {
        let texts = BTreeMap::<usize, String>::deserialize(deserializer)?;
        let parse = |(item, text): (usize, String)| Ok((item, serde_json::from_str(&text).map_err(D::Error::custom)?));
        texts.into_iter().map(parse).collect()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Interpreter {
    /// Takes steps as done that the run is given.
    pub(super) fn carry_over(&mut self, mut steps: BTreeMap<String, PriorStep>) {
        for index in 0..self.nodes.len() {
            let Some(given) = steps.get(&*self.plan.nodes[index].id) else { continue };
            let state = &mut self.nodes[index];
            state.ended_items.numbers.clone_from(&given.numbers);
            state.ended_items.doubtful.clone_from(&given.doubtful);
            state.ended_items.all_doubtful = given.all_doubtful;
            state.taken_over = given.succeeded || given.skipped;
            if given.succeeded {
                let items = self.plan.nodes[index].for_each.is_some();
                state.total = given.output.as_array().filter(|_| items).map_or(1, Vec::len);
                (state.done, state.attempts) = (state.total, given.attempts);
                state.output = given.output.clone();
                self.retained += Size::of(&given.output);
                self.end(index, Status::Succeeded);
            } else if given.skipped {
                self.end(index, Status::Skipped);
            } else {
                state.given = Some(Box::new(given.clone()));
            }
        }
        steps.retain(|id, _| self.plan.node(id).is_none());
        self.unknown_steps = steps;
        self.ready.retain(|index| self.nodes[*index].status == Status::Waiting);
    }

    /// What an item gave in the run that this one repeats.
    pub(super) fn carried_result(&mut self, (index, item): ItemKey) -> Option<Value> {
        let state = &mut self.nodes[index];
        let given = state.given.as_mut().filter(|given| given.total == Some(state.total))?;
        given.items.remove(&item)
    }

    /// The number in an item's first idempotency key.
    pub(super) fn carried_number(&self, (index, item): ItemKey) -> u32 {
        self.nodes[index].ended_items.numbers.get(&item).copied().unwrap_or(0)
    }

    /// Whether a call under that key may have happened in a run that this one repeats.
    pub(super) fn carried_doubt(&self, (index, item): ItemKey) -> bool {
        let left = &self.nodes[index].ended_items;
        left.all_doubtful || left.doubtful.contains(&item)
    }
}

/// What is worth keeping of a node's items when they are gone.
#[derive(Default, Debug)]
pub(super) struct EndedItems {
    /// Items that succeeded, of a node that did not and goes on: its output has what they gave.
    succeeded: BTreeSet<usize>,
    /// What they gave, where it has no output.
    results: BTreeMap<usize, Value>,
    /// The numbers in idempotency keys that further attempts would have, where they are not 0.
    numbers: BTreeMap<usize, u32>,
    /// Items of which a call under the key with that number may have happened.
    doubtful: BTreeSet<usize>,
    /// That is so of every item.
    all_doubtful: bool,
}

impl EndedItems {
    /// Keeps what a further attempt of an item needs.
    pub(super) fn record(&mut self, number: usize, item: &Item) {
        if item.known_failures > 0 {
            self.numbers.insert(number, item.known_failures);
        }
        if item.may_have_happened {
            self.doubtful.insert(number);
        }
    }
}

impl NodeState {
    /// Keeps what the items of a `for-each` gave that has not succeeded as a whole: as its output,
    /// where the run goes on.
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

    /// Of a node that is taken over as it ended.
    pub(super) fn taken_over(&self) -> PriorStep {
        match self.status {
            Status::Succeeded => PriorStep {
                succeeded: true,
                output: self.output.clone(),
                attempts: self.attempts,
                numbers: self.numbers(),
                ..PriorStep::default()
            },
            // Its calls may have been made in a run before.
            _ => PriorStep { skipped: true, ..self.run_anew() },
        }
    }

    /// Of a node that did not succeed and is run again: what of it did.
    pub(super) fn run_again(&self) -> PriorStep {
        let items = self.results();
        PriorStep {
            total: (!items.is_empty()).then_some(self.total_known()),
            items,
            numbers: self.numbers(),
            doubtful: self.doubtful(),
            all_doubtful: self.ended_items.all_doubtful,
            ..PriorStep::default()
        }
    }

    /// Of a node that is run again from its beginning: the numbers in its keys. What succeeded
    /// happened.
    pub(super) fn run_anew(&self) -> PriorStep {
        PriorStep {
            numbers: self.numbers(),
            doubtful: self.doubtful().into_iter().chain(self.results().into_keys()).collect(),
            all_doubtful: self.ended_items.all_doubtful || self.status == Status::Succeeded,
            ..PriorStep::default()
        }
    }

    fn results(&self) -> BTreeMap<usize, Value> {
        let mut all = self.ended_items.results.clone();
        all.extend(self.ended_items.succeeded.iter().map(|item| (*item, self.output[*item].clone())));
        if let Some(running) = self.running.as_ref().filter(|running| running.items.is_some()) {
            all.extend(running.succeeded.iter().map(|item| (*item, running.results[*item].clone())));
        }
        // What was given and not come to.
        let given = self.given.iter().filter(|given| self.total == 0 || given.total == Some(self.total));
        for (item, result) in given.flat_map(|given| &given.items) {
            all.entry(*item).or_insert_with(|| result.clone());
        }
        all
    }

    /// Items in all, as far as that was ever known.
    pub(super) fn total_known(&self) -> usize {
        let given = self.given.as_ref().and_then(|given| given.total);
        if self.total == 0 { given.unwrap_or(0) } else { self.total }
    }

    fn numbers(&self) -> BTreeMap<usize, u32> {
        let mut all = self.ended_items.numbers.clone();
        let live = self.running.iter().flat_map(|running| &running.live);
        all.extend(
            live.filter(|(_, item)| item.known_failures > 0).map(|(number, item)| (*number, item.known_failures)),
        );
        all
    }

    fn doubtful(&self) -> BTreeSet<usize> {
        let live = self.running.iter().flat_map(|running| &running.live);
        let live = live.filter(|(_, item)| item.is_doubtful()).map(|(number, _)| *number);
        self.ended_items.doubtful.iter().copied().chain(live).collect()
    }
}
