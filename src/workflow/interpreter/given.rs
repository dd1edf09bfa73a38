//! Repeating a run: what of another run of the same workflow is taken as done.
//!
//! A run with the entry point [`RETRY`] is given, beside its inputs, the outcomes of steps: these are not run again. Of a `for-each` that
//! failed it is given the items that succeeded. What is run again has the idempotency keys that it had, with the number that the next attempt
//! would have had: it goes on where an attempt is known not to have happened, and stays where one may have.

use super::state::{Item, NodeState, Running, Status};
use super::{Interpreter, ItemKey, WorkflowProgram, kind};
use crate::process::{Birth, Body, Context, Event, Home, Native, Payload, Pid, Problem, Process, Program};
use crate::run::{FormerKeys, Programs, Rebuild, RebuildError, Record};
use crate::workflow::diagnostics::closest;
use crate::workflow::expression::{Jq, Size};
use crate::workflow::plan::Plan;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The entry point of a run that repeats another.
pub const RETRY: &str = "retry";

/// What a run that repeats another is given.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Repeated {
    /// The inputs of the run.
    #[serde(with = "text")]
    pub inputs: Value,
    /// By the ids of steps, what is known of them.
    pub steps: BTreeMap<String, Given>,
}

/// What is known of a step.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Given {
    /// It succeeded, and gave `output`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub succeeded: bool,
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
    /// Items of which a call under the key with that number may have happened: the number stays whatever becomes of another one.
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

/// Which steps of a run are run again. All that did not succeed are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Again {
    /// No others.
    Failed,
    /// This step, and all that depend on it.
    From(String),
}

/// Why a run cannot be repeated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepeatError {
    /// It goes on.
    #[error("the run has not ended")]
    NotEnded,
    /// All steps succeeded.
    #[error("every step of the run succeeded: there is nothing to run again")]
    NothingFailed,
    /// There is no such step.
    #[error("the workflow has no step `{step}`{}", meant.as_ref().map_or_else(|| format!("; it has {known}"), |meant| format!("; did you mean `{meant}`?")))]
    NoStep {
        /// Its id.
        step: String,
        /// The id that is like it.
        meant: Option<String>,
        /// The steps that there are, as far as a line holds them.
        known: String,
    },
    /// The run had no inputs that this workflow takes.
    #[error("the run never began: {0}")]
    NotBegun(Problem),
    /// The records are not those of a run of this workflow.
    #[error(transparent)]
    Records(#[from] RebuildError),
}

/// Steps that are named where another was meant. Arbitrary: what a person reads.
const STEPS_LISTED_MAX: usize = 20;

/// What a new run is given that repeats another, and the keys that the calls of the other one had. `plan` is that of the other run. No guest
/// is run for it.
///
/// # Errors
/// The run has not ended, nothing of it failed, there is no such step, or the records are not of a run of the plan.
pub fn repeat(
    plan: &Arc<Plan>,
    jq: &Arc<Jq>,
    records: &[Record],
    again: &Again,
) -> Result<(Repeated, FormerKeys), RepeatError> {
    let from = match again {
        Again::Failed => None,
        Again::From(step) => Some(index_of(plan, step)?),
    };
    let program = Arc::new(Looked {
        digest: WorkflowProgram::new(Arc::clone(plan), Arc::clone(jq)).digest(),
        seen: Arc::new(Mutex::new(Interpreter::new(Arc::clone(plan), Arc::clone(jq)))),
    });
    let rebuild = Rebuild::new(Arc::clone(&program) as _, Programs::new()).only(Pid::ROOT, Home::default());
    let rebuild = rebuild.noting_keys().apply_all(records)?;
    if !rebuild.is_finished() {
        return Err(RepeatError::NotEnded);
    }
    let interpreter = program.seen.lock();
    if interpreter.run.is_null() {
        let problem = Problem::new(kind::BAD_INPUT, "The inputs do not fit the workflow");
        return Err(RepeatError::NotBegun(problem));
    }
    let steps = interpreter.given(from);
    if from.is_none() && steps.values().filter(|step| step.succeeded).count() == plan.nodes.len() {
        return Err(RepeatError::NothingFailed);
    }
    Ok((Repeated { inputs: interpreter.inputs.clone(), steps }, rebuild.former_keys()))
}

fn index_of(plan: &Plan, step: &str) -> Result<usize, RepeatError> {
    plan.nodes.iter().position(|node| &*node.id == step).ok_or_else(|| RepeatError::NoStep {
        step: step.to_owned(),
        meant: closest(step, plan.nodes.iter().map(|node| &*node.id)).map(str::to_owned),
        known: {
            let known: Vec<&str> = plan.nodes.iter().take(STEPS_LISTED_MAX).map(|node| &*node.id).collect();
            let more = if plan.nodes.len() > STEPS_LISTED_MAX { ", and more" } else { "" };
            format!("{}{more}", known.join(", "))
        },
    })
}

/// The program of a plan whose one process can be looked at from outside.
struct Looked {
    digest: Arc<str>,
    seen: Arc<Mutex<Interpreter>>,
}

struct Shared(Arc<Mutex<Interpreter>>);

impl Program for Looked {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    fn body(&self, birth: Birth) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Native::new(Shared(Arc::clone(&self.seen)), birth)))
    }
}

impl Process for Shared {
    fn init(&mut self, context: &mut Context<'_>, entry: &str, input: Payload) -> Result<(), Problem> {
        self.0.lock().init(context, entry, input)
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> crate::process::Status {
        self.0.lock().step(context, events)
    }
}

impl Interpreter {
    /// What is known of the steps now that the run is over; `from` and what depends on it is run again whatever became of it.
    fn given(&self, from: Option<usize>) -> BTreeMap<String, Given> {
        let mut again: BTreeSet<usize> = from.into_iter().collect();
        for index in &self.plan.order {
            if self.plan.nodes[*index].needs.iter().any(|need| again.contains(need)) {
                again.insert(*index);
            }
        }
        let known = |(index, state): (usize, &NodeState)| {
            let is_again = again.contains(&index);
            let (numbers, mut doubtful) = (state.numbers(), state.doubtful());
            // What succeeded happened.
            let all_doubtful = state.left.all_doubtful || state.status == Status::Succeeded;
            let given = match state.status {
                Status::Succeeded if !is_again => Given {
                    succeeded: true,
                    output: state.output.clone(),
                    attempts: state.attempts,
                    numbers,
                    ..Given::default()
                },
                Status::Succeeded => Given { numbers, all_doubtful, ..Given::default() },
                _ => {
                    let mut items = state.results();
                    if is_again {
                        doubtful.extend(std::mem::take(&mut items).into_keys());
                    }
                    Given {
                        total: (!items.is_empty()).then_some(state.total_known()),
                        items,
                        numbers,
                        doubtful,
                        all_doubtful,
                        ..Given::default()
                    }
                }
            };
            (given != Given::default()).then(|| (self.plan.nodes[index].id.to_string(), given))
        };
        self.nodes.iter().enumerate().filter_map(known).collect()
    }

    /// Takes steps as done that the run is given.
    pub(super) fn take_given(&mut self, steps: BTreeMap<String, Given>) {
        for index in 0..self.nodes.len() {
            let Some(given) = steps.get(&*self.plan.nodes[index].id) else { continue };
            let state = &mut self.nodes[index];
            state.left.numbers.clone_from(&given.numbers);
            state.left.doubtful.clone_from(&given.doubtful);
            state.left.all_doubtful = given.all_doubtful;
            if given.succeeded {
                let items = self.plan.nodes[index].for_each.is_some();
                state.total = given.output.as_array().filter(|_| items).map_or(1, Vec::len);
                (state.done, state.attempts) = (state.total, given.attempts);
                state.output = given.output.clone();
                self.kept += Size::of(&given.output);
                self.end(index, Status::Succeeded);
            } else {
                state.given = Some(Box::new(given.clone()));
            }
        }
        self.ready.retain(|index| self.nodes[*index].status == Status::Waiting);
    }

    /// What an item gave in the run that this one repeats.
    pub(super) fn given_result(&mut self, (index, item): ItemKey) -> Option<Value> {
        let state = &mut self.nodes[index];
        let given = state.given.as_mut().filter(|given| given.total == Some(state.total))?;
        given.items.remove(&item)
    }

    /// The number in an item's first idempotency key.
    pub(super) fn given_number(&self, (index, item): ItemKey) -> u32 {
        self.nodes[index].left.numbers.get(&item).copied().unwrap_or(0)
    }

    /// Whether a call under that key may have happened in a run that this one repeats.
    pub(super) fn given_doubt(&self, (index, item): ItemKey) -> bool {
        let left = &self.nodes[index].left;
        left.all_doubtful || left.doubtful.contains(&item)
    }
}

/// What is worth keeping of a node's items when they are gone.
#[derive(Default, Debug)]
pub(super) struct Left {
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

impl Left {
    /// Keeps what a further attempt of an item needs.
    pub(super) fn take(&mut self, number: usize, item: &Item) {
        if item.known_failures > 0 {
            self.numbers.insert(number, item.known_failures);
        }
        if item.may_have_happened {
            self.doubtful.insert(number);
        }
    }
}

impl NodeState {
    /// Keeps what the items of a `for-each` gave that has not succeeded as a whole: as its output, where the run goes on.
    pub(super) fn keep_results(&mut self, mut running: Running, goes_on: bool) {
        if running.items.is_none() {
            return;
        }
        if goes_on {
            self.output = Value::Array(running.results);
            self.left.succeeded = running.succeeded;
        } else {
            let results = running.succeeded.into_iter().map(|item| (item, std::mem::take(&mut running.results[item])));
            self.left.results.extend(results);
        }
    }

    fn results(&self) -> BTreeMap<usize, Value> {
        let mut all = self.left.results.clone();
        all.extend(self.left.succeeded.iter().map(|item| (*item, self.output[*item].clone())));
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
    fn total_known(&self) -> usize {
        let given = self.given.as_ref().and_then(|given| given.total);
        if self.total == 0 { given.unwrap_or(0) } else { self.total }
    }

    fn numbers(&self) -> BTreeMap<usize, u32> {
        let mut all = self.left.numbers.clone();
        let live = self.running.iter().flat_map(|running| &running.live);
        all.extend(
            live.filter(|(_, item)| item.known_failures > 0).map(|(number, item)| (*number, item.known_failures)),
        );
        all
    }

    fn doubtful(&self) -> BTreeSet<usize> {
        let live = self.running.iter().flat_map(|running| &running.live);
        let live = live.filter(|(_, item)| item.is_doubtful()).map(|(number, _)| *number);
        self.left.doubtful.iter().copied().chain(live).collect()
    }
}
