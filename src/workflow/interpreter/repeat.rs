//! Repeats a run: which results of a former run are taken over, and the input of the new run.
//!
//! # Which steps are taken over
//! A step that succeeded or was skipped is taken over if everything that its outcome depends on is
//! the same: every step that it needs or reads is taken over too, and the step itself, the
//! components that it uses and the inputs that it reads are unchanged. All other steps run again,
//! or are skipped, as decided in the new run: a reaction to a failure that is run again has not
//! happened, and what read the result of such a step reads the new one.
//!
//! Of a `for-each` that failed, the items that succeeded are taken over under the same conditions.
//!
//! Keys that say only how a step is carried out do not change it: `retry`, `timeout`,
//! `max-parallel`, `continue-on-error`, `limits`, `allow`. What a step has read of `.run` stays as
//! it was.
//!
//! # Keys
//! A step that runs again has the number in its keys that the next attempt would have had: a higher
//! one if an attempt is known not to have happened, the same if one may have. [`FormerKeys`] tells
//! which of these keys are used again.
//!
//! # What can be undone
//! The new run can undo what it takes over, also turns and steps within items, with what the
//! former run recorded: see [`undone`](super::undone). The number in the key of a turn, or of a
//! call within an item, goes with it.
//!
//! # Cache
//! A step that runs again may find its outcome in the cache of steps, as in any run. The step that
//! was named in the request does not ask it, nor do steps within it: somebody wants it to run. What
//! it gives is kept all the same.

use super::changes::SameWorkflows;
use super::outcome::{accept_inputs, accept_repeated};
use super::state::Status;
use super::taken_over::{PriorStep, RETRY, RepeatInput};
use super::undone::{Undone, of_steps};
use super::{Interpreter, VERSION, WorkflowProgram, kind, version_of};
use crate::process::secret::PlaceholderKey;
use crate::process::{Allocation, Body, Context, Event, Native, Payload, Pid, Problem, Process, ProcessInit, Program};
use crate::run::{FormerKeys, Programs, Rebuild, RebuildError, Record, Reuse};
use crate::workflow::diagnostics::closest;
use crate::workflow::expression::Jq;
use crate::workflow::plan::{Action, Node, Plan};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which steps are run again, beside those that did not succeed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Rerun {
    /// No other steps.
    #[default]
    Failed,
    /// The step with this id, and all that depend on it.
    From(String),
}

/// The run that is repeated.
pub struct FormerRun<'a> {
    /// Its plan.
    pub plan: &'a Arc<Plan>,
    /// All of its records.
    pub records: &'a [Record],
}

/// How a run is repeated.
pub struct RepeatOptions<'a> {
    /// The plan of the new run.
    pub plan: &'a Plan,
    /// Which steps are run again.
    pub again: &'a Rerun,
    /// The inputs of the new run, without defaults.
    pub inputs: Map<String, Value>,
    /// Whether components differ on purpose: results of the former ones are then taken over.
    pub substituted: bool,
    /// Whether no idempotency key of the former run is used again.
    pub new_keys: bool,
    /// What the operator found out about steps that may be undone.
    pub undone: &'a Undone,
}

/// What happens to the steps of a run that is repeated.
#[derive(Clone, PartialEq, Debug)]
pub struct Repetition {
    /// The input of the new run.
    pub input: RepeatInput,
    /// The keys of the calls that the former run made.
    pub former_keys: FormerKeys,
    /// The steps of the new run, in file order.
    pub steps: Vec<StepFate>,
    /// Steps of the former run that the new one does not have, with their status.
    pub gone: Vec<(Arc<str>, &'static str)>,
    /// Whether the former run undid something.
    pub undone: bool,
    /// Names of signals that were sent to the former run and not consumed: the new run does not get
    /// them.
    pub signals: Vec<Arc<str>>,
}

/// What happens to a step.
#[derive(Clone, PartialEq, Debug)]
pub struct StepFate {
    /// The id of the step.
    pub id: Arc<str>,
    /// Its status in the former run. `None` if that had no such step.
    pub before: Option<&'static str>,
    /// Why it runs again. `None` if it is taken over.
    pub reason: Option<RerunReason>,
    /// How many items of a `for-each` that runs again are taken over, and out of how many.
    pub items: Option<(usize, usize)>,
    /// The keys of calls that the former run made and this one repeats: of the first items.
    pub keys: Vec<ItemKeys>,
    /// The number of items with such keys, including those not listed.
    pub keys_total: usize,
}

/// Why a step runs again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RerunReason {
    /// It did not succeed.
    NotSucceeded,
    /// It was named in the request.
    Requested,
    /// It depends on this step, which runs again.
    Needs(Arc<str>),
    /// These keys of its definition changed.
    Changed(Vec<&'static str>),
    /// It reads these inputs, which changed.
    Inputs(Vec<String>),
    /// It may have written to the run's store `kv`, which begins empty in the new run.
    Store,
    /// It was undone, or a step within it was.
    Undone,
    /// The former run had no such step.
    New,
}

/// The keys of an item's calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemKeys {
    /// The index of the item; 0 without a `for-each`.
    pub item: usize,
    /// The key; for a guest, the prefix of the keys of its calls, including the `/`.
    pub key: String,
    /// Whether and when it is used again.
    pub reuse: Reuse,
}

/// Most items of a step whose keys are listed. Arbitrary: what a person reads.
const KEYS_SHOWN_MAX: usize = 20;

/// Why a run cannot be repeated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepeatError {
    /// It is still running.
    #[error("the run has not ended")]
    NotEnded,
    /// All steps are taken over, and nothing else has changed.
    #[error("every step of the run succeeded: there is nothing to run again")]
    NothingFailed,
    /// A compensation acted and then failed, and nobody has told whether its step is undone.
    #[error("it is not known whether {} undone", of_steps(steps))]
    Unsure {
        /// The paths of the steps.
        steps: Vec<String>,
    },
    /// The requested step does not exist.
    #[error("the workflow has no step `{step}`{}", meant.as_ref().map_or_else(|| format!("; it has {known}"), |meant| format!("; did you mean `{meant}`?")))]
    NoStep {
        /// The requested id.
        step: String,
        /// A similar id.
        meant: Option<String>,
        /// The ids of the first steps.
        known: String,
    },
    /// The run failed before its first step, since its inputs did not fit.
    #[error("the run never began: {0}")]
    NotBegun(Problem),
    /// The inputs do not fit the workflow of the new run.
    #[error("{0}")]
    Inputs(Problem),
    /// The records are not those of a run of this workflow.
    #[error(transparent)]
    Records(#[from] RebuildError),
}

/// Most steps listed in an error. Arbitrary: what a person reads.
pub(super) const STEPS_LISTED_MAX: usize = 20;

/// Determines what happens to the steps of a run that is repeated, and the input of the new run. No
/// guest runs.
///
/// # Errors
/// Fails if the run has not ended, nothing of it would run again, the step does not exist, the
/// inputs do not fit, or the records are not of a run of the plan.
pub fn repeat(jq: &Arc<Jq>, former: &FormerRun<'_>, repeating: &RepeatOptions<'_>) -> Result<Repetition, RepeatError> {
    let from = match repeating.again {
        Rerun::Failed => None,
        Rerun::From(step) => Some(index_of(repeating.plan, step)?),
    };
    let version = match former.records.first() {
        Some(Record::Started(started)) => version_of(&started.root),
        _ => VERSION,
    };
    let program = Arc::new(ObservedProgram {
        digest: WorkflowProgram::of_version(Arc::clone(former.plan), Arc::clone(jq), version).digest(),
        seen: Arc::new(Mutex::new(Interpreter {
            kept: Some(Box::default()),
            ..Interpreter::of_version(Arc::clone(former.plan), Arc::clone(jq), version)
        })),
    });
    let rebuild = Rebuild::new(Arc::clone(&program) as _, Programs::new()).only(Pid::ROOT, Allocation::default());
    let rebuild = rebuild.noting_keys().apply_all(former.records)?;
    if !rebuild.is_finished() {
        return Err(RepeatError::NotEnded);
    }
    let mut interpreter = program.seen.lock();
    if interpreter.run.is_null() {
        let problem = Problem::new(kind::BAD_INPUT, "The inputs do not fit the workflow");
        return Err(RepeatError::NotBegun(problem));
    }
    interpreter.settle_undone(repeating.undone)?;
    let interpreter = &*interpreter;
    let inputs = Value::Object(repeating.inputs.clone());
    let completed =
        accept_inputs(&repeating.plan.inputs, &Payload::json(&inputs), None).map_err(RepeatError::Inputs)?;
    let comparison = Comparison {
        former: interpreter,
        plan: repeating.plan,
        indexes: former.plan.nodes.iter().enumerate().map(|(index, node)| (&*node.id, index)).collect(),
        inputs: other_keys(&interpreter.inputs, &completed),
        substituted: repeating.substituted,
        from,
        same: SameWorkflows::default(),
    };
    if comparison.changes_nothing() {
        return Err(RepeatError::NothingFailed);
    }
    let reasons = comparison.reasons(true);
    let keys = KeyHistory {
        former: if repeating.new_keys { FormerKeys::default() } else { rebuild.former_keys() },
        own: rebuild.projection().started().map(|started| Arc::clone(started.keys())).unwrap_or_default(),
        is_new: repeating.new_keys,
    };
    let prior = comparison.prior(&reasons);
    let asked = from.map(|index| repeating.plan.nodes[index].id.to_string());
    let steps = (0..reasons.len()).map(|index| comparison.fate(index, &reasons, &prior, &keys)).collect();
    let signals = rebuild.projection().signals().into_iter().filter(|signal| signal.kept > 0);
    Ok(Repetition {
        undone: interpreter.nodes.iter().any(super::NodeState::was_undone),
        signals: signals.map(|signal| signal.name).collect(),
        gone: comparison.gone(),
        input: RepeatInput {
            inputs,
            numbers: interpreter.numbers_for_repeat(),
            undos: interpreter.undos_for_repeat(),
            steps: prior,
            fresh: asked.into_iter().chain(interpreter.fresh.iter().cloned()).collect(),
            generation: interpreter.generation + 1,
            placeholder_key: placeholder_key(former, repeating.plan),
        },
        former_keys: keys.former,
        steps,
    })
}

/// The key of the placeholders of a former run, if it or the new run has secrets.
fn placeholder_key(former: &FormerRun<'_>, plan: &Plan) -> Option<String> {
    former.plan.used_secrets().chain(plan.used_secrets()).next()?;
    let started = former.records.first().and_then(Record::started)?;
    let taken_over = if &*started.entry == RETRY { accept_repeated(&started.input).ok() } else { None };
    let key = taken_over.and_then(|input| input.placeholder_key);
    Some(key.unwrap_or_else(|| PlaceholderKey::of_seed(&started.seed).to_text()))
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

/// The keys whose values differ between two objects.
fn other_keys(one: &Value, other: &Value) -> BTreeSet<String> {
    let keys = |value: &Value| value.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let all = keys(one).into_iter().chain(keys(other));
    all.filter(|key| one.get(key) != other.get(key)).collect()
}

/// The former run and the plan of the new one, side by side.
pub(super) struct Comparison<'a> {
    pub(super) former: &'a Interpreter,
    pub(super) plan: &'a Plan,
    /// The indexes of the former run's nodes, by id.
    indexes: BTreeMap<&'a str, usize>,
    /// Inputs whose values changed.
    inputs: BTreeSet<String>,
    pub(super) substituted: bool,
    from: Option<usize>,
    pub(super) same: SameWorkflows,
}

impl Comparison<'_> {
    /// Whether all steps are taken over, and nothing else has changed.
    fn changes_nothing(&self) -> bool {
        let is_same = self.plan.outputs == self.former.plan.outputs && self.inputs.is_empty();
        is_same && self.reasons(false).iter().all(Option::is_none)
    }

    /// The steps that the new plan does not have, with their status.
    fn gone(&self) -> Vec<(Arc<str>, &'static str)> {
        let former = self.former.plan.nodes.iter().zip(&self.former.nodes);
        let gone = former.filter(|(node, _)| self.plan.node(&node.id).is_none());
        gone.map(|(node, state)| (Arc::clone(&node.id), state.status.name())).collect()
    }

    fn before(&self, id: &str) -> Option<&super::NodeState> {
        self.indexes.get(id).map(|index| &self.former.nodes[*index])
    }

    /// For each node of the new plan, why it runs again.
    ///
    /// The store `kv` begins empty: if `stores`, a step that may have written to it runs again.
    fn reasons(&self, stores: bool) -> Vec<Option<RerunReason>> {
        let mut reasons: Vec<Option<RerunReason>> = vec![None; self.plan.nodes.len()];
        for &index in &self.plan.order {
            let node = &self.plan.nodes[index];
            let ran = self.before(&node.id).is_some_and(|state| state.status == Status::Succeeded);
            let store = || (stores && ran && node.uses_store()).then_some(RerunReason::Store);
            reasons[index] = self.reason(index, &reasons).or_else(store);
        }
        reasons
    }

    /// Why a node runs again, once its dependencies are known. The most telling reason comes first.
    fn reason(&self, index: usize, reasons: &[Option<RerunReason>]) -> Option<RerunReason> {
        let node = &self.plan.nodes[index];
        if self.from == Some(index) {
            return Some(RerunReason::Requested);
        }
        let Some(state) = self.before(&node.id) else { return Some(RerunReason::New) };
        let undone = || state.was_undone().then_some(RerunReason::Undone);
        self.difference(index, reasons).or_else(undone).or_else(|| {
            (!matches!(state.status, Status::Succeeded | Status::Skipped)).then_some(RerunReason::NotSucceeded)
        })
    }

    /// What has changed for a node that the former run had.
    fn difference(&self, index: usize, reasons: &[Option<RerunReason>]) -> Option<RerunReason> {
        let node = &self.plan.nodes[index];
        let former = &self.former.plan.nodes[self.indexes[&*node.id]];
        let changed = self.changed((&self.former.plan.nodes, former), (&self.plan.nodes, node));
        if !changed.is_empty() {
            return Some(RerunReason::Changed(changed));
        }
        let read: Vec<String> = if self.inputs.is_empty() {
            Vec::new()
        } else {
            let reads = node.reads();
            self.inputs.iter().filter(|name| reads.contains(name)).cloned().collect()
        };
        if !read.is_empty() {
            return Some(RerunReason::Inputs(read));
        }
        let again = node.needs.iter().find(|need| reasons[**need].is_some());
        again.map(|need| RerunReason::Needs(Arc::clone(&self.plan.nodes[*need].id)))
    }

    /// The prior results for the new run.
    fn prior(&self, reasons: &[Option<RerunReason>]) -> BTreeMap<String, PriorStep> {
        let prior = |(node, reason): (&Arc<Node>, &Option<RerunReason>)| {
            let state = self.before(&node.id)?;
            let prior = match reason {
                None => state.taken_over(),
                Some(RerunReason::NotSucceeded | RerunReason::Undone) if !node.uses_store() => state.run_again(),
                // Steps within it may be as they were.
                Some(RerunReason::Changed(keys))
                    if keys[..] == [node.action.key()] && node.action.has_block() && !node.uses_store() =>
                {
                    let mut prior = state.run_inside();
                    prior.within.values_mut().for_each(|steps| *steps = self.within(&state.node, node, steps));
                    prior
                }
                Some(_) => state.run_anew(),
            };
            (prior != PriorStep::default()).then(|| (node.id.to_string(), prior))
        };
        let mut all: BTreeMap<String, PriorStep> = self.plan.nodes.iter().zip(reasons).filter_map(prior).collect();
        // The keys of steps that the new file does not have are kept for a later one.
        let unknown = self.former.unknown_steps.iter().map(|(id, prior)| (id.clone(), prior.clone()));
        let gone = self.indexes.iter().filter(|(id, _)| self.plan.node(id).is_none());
        let gone = gone.map(|(id, index)| ((*id).to_owned(), self.former.nodes[*index].run_anew()));
        for (id, prior) in unknown.chain(gone).filter(|(_, prior)| *prior != PriorStep::default()) {
            all.entry(id).or_insert(prior);
        }
        all
    }

    fn fate(
        &self,
        index: usize,
        reasons: &[Option<RerunReason>],
        prior: &BTreeMap<String, PriorStep>,
        keys: &KeyHistory,
    ) -> StepFate {
        let node = &self.plan.nodes[index];
        let (before, prior) = (self.before(&node.id), prior.get(&*node.id));
        let reason = reasons[index].clone();
        let taken = prior.filter(|prior| !prior.items.is_empty()).map(|prior| prior.items.len());
        let items = taken.zip(prior.and_then(|prior| prior.total)).filter(|_| reason.is_some());
        let acts = matches!(node.action, Action::Uses { .. } | Action::Call { .. });
        let total = match before {
            Some(state) if reason.is_some() && acts => state.total_known().max(1),
            _ => 0,
        };
        let is_again = |item: &usize| prior.is_none_or(|prior| !prior.items.contains_key(item));
        let mut shown: Vec<ItemKeys> = Vec::new();
        let mut keys_total = 0;
        for item in (0..total).filter(is_again) {
            let number = prior.and_then(|prior| prior.numbers.get(&item)).copied().unwrap_or(0);
            let doubtful = prior.is_some_and(|prior| prior.all_doubtful || prior.doubtful.contains(&item));
            let Some(found) = keys.of(node, item, number, doubtful) else { continue };
            keys_total += 1;
            if shown.len() < KEYS_SHOWN_MAX {
                shown.push(found);
            }
        }
        let before = before.map(|state| state.status.name());
        StepFate { id: Arc::clone(&node.id), before, reason, items, keys: shown, keys_total }
    }
}

/// The keys of the former run.
struct KeyHistory {
    former: FormerKeys,
    /// The prefix of unused keys, before the digest of the call.
    own: Arc<str>,
    /// Whether no key is used again.
    is_new: bool,
}

impl KeyHistory {
    /// The key of an item's call that the former run may have made.
    fn of(&self, node: &Node, item: usize, number: u32, doubtful: bool) -> Option<ItemKeys> {
        if self.is_new {
            return None;
        }
        let path = format!("/{}/{item}/{number}", node.id);
        let with = |key: String, reuse| Some(ItemKeys { item, key, reuse });
        if matches!(node.action, Action::Uses { .. }) {
            // Its calls have their own keys below this one, each with its own rule.
            return if doubtful || number > 0 { with(format!("…{path}/"), Reuse::Same) } else { None };
        }
        match self.former.reuse(&path) {
            Some((key, reuse)) => with(key, reuse),
            None if number > 0 => with(format!("{}…{path}", self.own), Reuse::Never),
            None => None,
        }
    }
}

/// A program whose only process can be read from outside.
struct ObservedProgram {
    digest: Arc<str>,
    seen: Arc<Mutex<Interpreter>>,
}

struct SharedInterpreter(Arc<Mutex<Interpreter>>);

impl Program for ObservedProgram {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Native::new(SharedInterpreter(Arc::clone(&self.seen)), init)))
    }
}

impl Process for SharedInterpreter {
    fn init(&mut self, context: &mut Context<'_>, entry: &str, input: Payload) -> Result<(), Problem> {
        self.0.lock().init(context, entry, input)
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> crate::process::Status {
        self.0.lock().step(context, events)
    }
}
