//! The process that runs a plan.
//!
//! It is a native process like any other: it gives commands (a spawn for `uses`, a call for `call`
//! and for a `wait` for a signal, one sleep for whatever is due next), and gets the answers as
//! events. So journal, cancel, limits and replay exist once.
//!
//! # One step
//! 1. The events are settled: an answer ends an attempt; a failed attempt becomes a retry or a
//!    failure.
//! 2. Due timers are settled: timeouts, the ends of backoffs and waits.
//! 3. Nodes whose dependencies have all ended are decided: run, skip, or not reached; nodes that
//!    run start items, as many as `max-parallel`, the bounds on what is in flight and the budget of
//!    one step allow.
//! 4. Changes are reported as log lines (see [`progress`]).
//! 5. When every node has ended, the outputs are evaluated, and the process completes or fails:
//!    at once, or after compensations and the steps below `on` (see [`after`]).
//!
//! # Rules
//! - A node is decided when every node it depends on has ended, whatever its `when`: what it sees
//!   does not depend on which one finished first.
//! - `when: succeeded` runs if every dependency succeeded, was skipped, or failed with
//!   `continue-on-error`; otherwise the node is *unreached*. `failed` runs if one failed itself,
//!   `unreached` if one is unreached, `[failed, unreached]` if one is either; otherwise the node is
//!   *skipped*. `done` always runs. `any` runs if one succeeded; otherwise the node is unreached if
//!   one failed or is unreached, and skipped if none is.
//! - `if` is evaluated once, then `for-each`. Without items the node succeeds with an empty list.
//! - After an item has failed for good no further item starts, and running ones continue to their
//!   end; with `continue-on-error` all items run, and the result of a failed one is null. The
//!   reported failure is that of the first failed item, in the order of items.
//! - Only problems of class retryable, and timeouts, are retried. The wait doubles with each retry,
//!   is shortened by up to half by the run's seed, and is never shorter than the problem's
//!   `retry-after`.
//! - A timeout counts from the command of the attempt. The attempt is then stopped; the next one
//!   begins when it has ended.
//! - The scope in idempotency keys is `<id>/<item>/<n>`; `n` grows with a call that is known not to
//!   have happened, and stays once one may have: if an attempt timed out, or was a guest, whose own
//!   calls may have happened.
//!
//! - Steps within a step are a block: it begins with the attempt at an item, its nodes see what the
//!   step sees and each other, and when all of them have ended, so has the attempt. It fails as the
//!   first of them that failed, in the plan's order. A retry begins a new block; keys are the same.
//! - The workflow of another file is a block too. Its nodes see its own inputs and steps, and
//!   nothing of the step that runs it. It is at most [`WORKFLOW_DEPTH_MAX`] workflows deep.
//!
//! # Invariants
//! - **I1** It is a pure function of plan, seed and events: no clock but the batch's time, no order
//!   of a hash map.
//! - **I2** An attempt in flight has one tag in `Interpreter::in_flight`, and an item is in at
//!   most one of: queued, in flight, sleeping.
//! - **I3** At most [`IN_FLIGHT_MAX`] attempts and [`IN_FLIGHT_BYTES_MAX`] bytes of their inputs
//!   are in flight, and a step commands at most [`STEP_BYTES_MAX`]: below the default limits of a
//!   process.
//! - **I4** A child gets the limits and grants of its own node, never those of another.
//! - **I5** A value that an expression or a `set` gives is within [`VALUE_SIZE_MAX`], which is
//!   known before it is built. The retained state is within [`STATE_SIZE_MAX`]: results, the data
//!   of failures, the items of a `for-each`, and the inputs of further attempts.
//! - **I6** A node counts in the block that it is in alone; a block ends after all of its nodes,
//!   and no timer, tag or place of a list is left of it then.
//! - **I7** The texts of its problems are data like its commands: a replay compares them with the
//!   records, so they change only with [`VERSION`].

mod after;
mod attempt_keys;
mod blocks;
mod cached;
mod changes;
mod json_texts;
mod node_ending;
mod outcome;
pub mod progress;
mod repeat;
mod schedule;
mod scope;
mod secrets;
mod settle;
mod signals;
mod state;
mod taken_over;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod turns;
mod undo;
mod undone;

use super::expression::{Jq, Meter, Size};
use super::plan::Plan;
use crate::process::secret::PlaceholderKey;
use crate::process::{
    Action, Body, Context, Event, Native, Payload, Problem, Process, ProcessInit, Program, Status as StepStatus, Tag,
};
use after::After;
use attempt_keys::AttemptKeys;
use blocks::{Blocks, ROOT};
pub use repeat::{FormerRun, ItemKeys, RepeatError, RepeatOptions, Repetition, Rerun, RerunReason, StepFate, repeat};
use serde_json::{Value, json};
use state::NodeState;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use taken_over::{PriorStep, RETRY, RepeatInput};
use timers::{TimerKind, Timers};
use undo::Undos;
use undone::Kept;
pub use undone::{PriorUndo, Undone};

/// The version of the interpreter's behaviour: a run keeps the version that it was started with.
///
/// 1: `when: failed` also runs if a dependency is unreached. 2: it does not; there is `when:
/// unreached`.
pub const VERSION: u32 = 2;
/// Most items of one `for-each`. Arbitrary.
pub const ITEMS_MAX: usize = 100_000;
/// Most attempts in flight. Below the 10,000 commands that a process may have outstanding, and may
/// give in one step.
pub const IN_FLIGHT_MAX: usize = 8_000;
/// Most bytes of the inputs of attempts in flight. Below what a process may have outstanding.
pub const IN_FLIGHT_BYTES_MAX: usize = 48 << 20;
/// Most bytes of the inputs in the commands of one step, and of one input. Below what a step may
/// give.
pub const STEP_BYTES_MAX: usize = 12 << 20;
/// Most expressions that one step evaluates before others get their turn. A plain path counts once;
/// one that needs the sandbox counts four times, and once more for each 4 KiB of its input. Its
/// result counts once more for each 4 KiB, and for each 64 values in it. Arbitrary: about a
/// millisecond.
pub const STEP_EVALUATIONS_MAX: usize = 256;
/// Largest value that the expressions of a workflow give. Arbitrary: as much text as one expression
/// may give, and about 100 MB of memory.
pub const VALUE_SIZE_MAX: Size = Size { bytes: 16 << 20, values: 1_000_000 };
/// Largest state that a run retains of its steps. Arbitrary: at most about 400 MB of memory.
pub const STATE_SIZE_MAX: Size = Size { bytes: 64 << 20, values: 4_000_000 };

/// How deep workflows run within each other. Arbitrary.
pub const WORKFLOW_DEPTH_MAX: usize = 16;

/// The kinds of problem of workflows, beside those of [`crate::process::problem::kind`].
pub mod kind {
    /// The inputs of the run do not fit their declarations.
    pub const BAD_INPUT: &str = "bad-input";
    /// A step failed, and the run with it.
    pub const STEP_FAILED: &str = "step-failed";
    /// The `for-each` of a step gave something other than a list.
    pub const NOT_A_LIST: &str = "not-a-list";
    /// A `for-each` has more items than allowed.
    pub const TOO_MANY_ITEMS: &str = "too-many-items";
    /// The `signal` of a `wait` gave something other than a name.
    pub const BAD_SIGNAL: &str = "bad-signal";
    /// The time of a `wait` is not valid.
    pub const BAD_TIME: &str = "bad-time";
    /// The duration of a `wait` is not valid.
    pub const BAD_DURATION: &str = "bad-duration";
    /// A step was repeated as often as it may be, and is not as its `repeat` wants it.
    pub const TOO_MANY_TURNS: &str = "too-many-turns";
    /// A workflow that a step runs is within more others than allowed.
    pub const WORKFLOW_TOO_DEEP: &str = "workflow-too-deep";
    /// The grace of a cancelled run was over before a success was undone.
    pub const NO_TIME: &str = "no-time";
    /// The state that a run retains is larger than allowed.
    pub const STATE_TOO_LARGE: &str = "state-too-large";
}

/// The index of a node and that of its item.
type ItemKey = (usize, usize);

/// The process that runs a plan.
pub struct Interpreter {
    version: u32,
    plan: Arc<Plan>,
    jq: Arc<Jq>,
    inputs: Value,
    run: Value,
    /// The nodes of the workflow, and those of the steps within items that run.
    nodes: Vec<NodeState>,
    blocks: Blocks,
    /// Blocks whose nodes have all ended.
    finishing: BTreeSet<usize>,
    /// Nodes whose dependencies have all ended.
    ready: BTreeSet<usize>,
    /// Nodes that may have items to start.
    fillable: BTreeSet<usize>,
    in_flight: BTreeMap<Tag, ItemKey>,
    in_flight_bytes: usize,
    /// The size of the retained state.
    retained: Size,
    timers: Timers,
    cancelled: Option<Arc<str>>,
    /// The results of a former run's steps, until the run begins.
    prior: BTreeMap<String, PriorStep>,
    /// The same for steps that its workflow does not have, kept for a run that repeats this one and
    /// has them.
    unknown_steps: BTreeMap<String, PriorStep>,
    /// Steps that are run again on purpose: the cache is not asked for them.
    fresh: BTreeSet<String>,
    /// Nodes that changed in this step.
    changed: BTreeSet<usize>,
    /// Items that failed in this step.
    failures: Vec<progress::ItemFailure>,
    /// Successes that can be undone.
    undos: Undos,
    after: After,
    /// Successes of a former run that can be undone, until the run begins.
    prior_undos: Vec<PriorUndo>,
    /// See [`RepeatInput::numbers`].
    numbers: BTreeMap<String, u32>,
    attempt_keys: AttemptKeys,
    /// What is kept for a run that repeats this one: of a rebuild for it.
    kept: Option<Box<Kept>>,
    /// How many runs it repeats, one after the other, beyond the first.
    generation: u32,
    /// Makes the placeholders of secrets, if there are any.
    placeholder_key: Option<PlaceholderKey>,
    budget: StepBudget,
    /// Whether all steps are told of, also those that [`progress`] leaves out.
    tells_all: bool,
}

/// The remaining work of a step.
#[derive(Default)]
struct StepBudget {
    evaluations: Cell<usize>,
    bytes: usize,
}

impl StepBudget {
    fn renew(&mut self) {
        *self = Self { evaluations: STEP_EVALUATIONS_MAX.into(), bytes: STEP_BYTES_MAX };
    }

    fn spend(&self, evaluations: usize) {
        self.evaluations.set(self.evaluations.get().saturating_sub(evaluations));
    }

    /// Counts the cost of evaluations beyond their number. It depends on their inputs only, so a
    /// replay takes the same steps.
    fn count(&self, meter: &Meter) {
        let Size { bytes, values } = meter.size();
        self.spend(3 * meter.sandboxed() + meter.input_bytes() / 4096 + bytes / 4096 + values / 64);
    }

    /// Returns whether a command with an input of this size is still allowed.
    fn has_room(&self, size: usize) -> bool {
        size <= self.bytes || self.bytes == STEP_BYTES_MAX
    }

    fn is_done(&self) -> bool {
        self.evaluations.get() == 0 || self.bytes == 0
    }
}

impl Interpreter {
    /// Makes a process that has not begun.
    #[must_use]
    pub fn new(plan: Arc<Plan>, jq: Arc<Jq>) -> Self {
        Self::of_version(plan, jq, VERSION)
    }

    /// Like [`Self::new`], with the behaviour of an earlier version.
    fn of_version(plan: Arc<Plan>, jq: Arc<Jq>, version: u32) -> Self {
        let (blocks, nodes) = Self::root(&plan);
        let ready = (0..plan.nodes.len()).filter(|index| plan.nodes[*index].needs.is_empty()).collect();
        Self {
            version,
            plan,
            jq,
            inputs: Value::Null,
            run: Value::Null,
            nodes,
            blocks,
            finishing: BTreeSet::new(),
            ready,
            fillable: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            retained: Size::default(),
            timers: Timers::default(),
            cancelled: None,
            prior: BTreeMap::new(),
            unknown_steps: BTreeMap::new(),
            fresh: BTreeSet::new(),
            changed: BTreeSet::new(),
            failures: Vec::new(),
            undos: Undos::default(),
            after: After::default(),
            prior_undos: Vec::new(),
            numbers: BTreeMap::new(),
            attempt_keys: AttemptKeys::default(),
            kept: None,
            generation: 0,
            placeholder_key: None,
            budget: StepBudget::default(),
            tells_all: false,
        }
    }

    fn begin(&mut self, context: &Context<'_>) {
        let started = jiff::Timestamp::from_microsecond(context.now.0.cast_signed()).unwrap_or_default();
        self.run = json!({"id": &*context.init.run, "name": &*self.plan.name, "started": started.to_string()});
        self.changed.extend(0..self.nodes.len());
        self.begin_secrets(&context.init.seed);
        let (prior, undos) = (std::mem::take(&mut self.prior), std::mem::take(&mut self.prior_undos));
        self.take_over_undos(undos);
        self.take_over(prior);
    }

    fn handle(&mut self, context: &mut Context<'_>, event: Event) {
        match event {
            Event::Completed { tag, answer } => {
                if self.timers.fired(tag, context.now) {
                    return;
                }
                if let Some(key) = self.in_flight.remove(&tag) {
                    if self.is_asking(key) {
                        self.looked_up(context.now, key, &answer);
                    } else {
                        self.answered(context, key, answer);
                    }
                }
            }
            Event::Cancel { reason, grace } => {
                self.cancel(context, reason);
                self.set_deadline(context, grace);
            }
            // No process has a reason to send it messages, and it has no links.
            Event::Message(_) | Event::Exited(_) => {}
        }
    }

    /// Decides nodes and starts items, within the step's budget.
    fn advance(&mut self, context: &mut Context<'_>) {
        while !self.budget.is_done() {
            if let Some(place) = self.finishing.pop_first() {
                self.finish_block(context, place);
            } else if let Some(index) = self.ready.pop_first() {
                self.decide(context, index);
            } else if let Some(index) = self.fillable.first().copied() {
                if self.is_full() {
                    return;
                }
                self.fill(context, index);
            } else {
                return;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT_MAX || self.in_flight_bytes >= IN_FLIGHT_BYTES_MAX
    }

    /// Ends what has not begun, and stops the rest.
    fn cancel(&mut self, context: &mut Context<'_>, reason: Arc<str>) {
        if self.cancelled.is_some() || self.after.has_begun() {
            return;
        }
        self.cancelled = Some(reason);
        self.ready.clear();
        self.fillable.clear();
        self.timers.clear(context);
        for tag in self.in_flight.keys().copied().collect::<Vec<_>>() {
            self.stop(context, tag);
        }
        self.halt(ROOT);
    }

    /// Stops an attempt. Its answer still comes.
    fn stop(&self, context: &mut Context<'_>, tag: Tag) {
        let Some(&key) = self.in_flight.get(&tag) else { return };
        if self.stop_asking(context, key, tag) {
            return;
        }
        let action = match self.node(key.0).action {
            super::plan::Action::Uses { .. } => Action::Stop(crate::process::Target::Child(tag)),
            _ => Action::Cancel(tag),
        };
        context.command(action);
    }
}

impl Process for Interpreter {
    fn init(&mut self, _: &mut Context<'_>, entry: &str, input: Payload) -> Result<(), Problem> {
        if entry != RETRY {
            self.inputs = outcome::accept_inputs(&self.plan.inputs, &input, None)?;
            return Ok(());
        }
        let repeated = outcome::accept_repeated(&input)?;
        let RepeatInput { inputs, steps, fresh, numbers, undos, generation, placeholder_key } = repeated;
        (self.numbers, self.prior_undos) = (numbers, undos);
        self.fresh = fresh;
        self.placeholder_key = placeholder_key.as_deref().and_then(PlaceholderKey::parse);
        self.inputs = outcome::accept_inputs(&self.plan.inputs, &Payload::json(&inputs), None)?;
        self.prior = steps;
        self.generation = generation;
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> StepStatus {
        self.budget.renew();
        if self.run.is_null() {
            self.begin(context);
        }
        for event in events.drain(..) {
            self.handle(context, event);
        }
        while let Some((key, why)) = self.timers.next_due(context.now) {
            match why {
                TimerKind::Grace => self.grace_is_over(),
                why => self.timer(context, key, why),
            }
        }
        self.advance(context);
        self.report_changes(context);
        if let Some(status) = self.give_up(context) {
            return status;
        }
        if self.is_at_rest() {
            return self.go_on(context).unwrap_or(StepStatus::Ready);
        }
        self.timers.arm(context);
        let more =
            !self.finishing.is_empty() || !self.ready.is_empty() || (!self.fillable.is_empty() && !self.is_full());
        if more { StepStatus::Ready } else { StepStatus::Blocked }
    }
}

/// The [`Program`] of a plan.
pub struct WorkflowProgram {
    version: u32,
    plan: Arc<Plan>,
    jq: Arc<Jq>,
    digest: Arc<str>,
    tells_all: bool,
}

impl WorkflowProgram {
    /// Makes a program that runs a plan. Its digest contains those of the plan and of the
    /// expression engine.
    #[must_use]
    pub fn new(plan: Arc<Plan>, jq: Arc<Jq>) -> Self {
        Self::of_version(plan, jq, VERSION)
    }

    /// Like [`Self::new`], with the behaviour of an earlier [`VERSION`], for runs that began with
    /// it.
    #[must_use]
    pub fn of_version(plan: Arc<Plan>, jq: Arc<Jq>, version: u32) -> Self {
        let version = version.clamp(1, VERSION);
        let digest = format!("native:workflow@{version}/{}/jq:{}", plan.digest(), jq.digest()).into();
        Self { version, plan, jq, digest, tells_all: false }
    }

    /// The same, which tells of every step when it ends: also of those that begin and end within
    /// one step of the interpreter, of which a list may have many.
    #[must_use]
    pub fn telling_all(self) -> Self {
        Self { tells_all: true, ..self }
    }
}

/// The version in the digest of a [`WorkflowProgram`], if this release has it; otherwise
/// [`VERSION`].
#[must_use]
pub fn version_of(digest: &str) -> u32 {
    let version = digest.strip_prefix("native:workflow@").and_then(|rest| rest.split('/').next()?.parse().ok());
    version.filter(|version| (1..=VERSION).contains(version)).unwrap_or(VERSION)
}

impl Program for WorkflowProgram {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        let (plan, jq) = (Arc::clone(&self.plan), Arc::clone(&self.jq));
        let mut interpreter = Interpreter::of_version(plan, jq, self.version);
        interpreter.tells_all = self.tells_all;
        Ok(Box::new(Native::new(interpreter, init)))
    }

    fn waits_for_signal(&self, name: &str) -> bool {
        self.plan.waits_for_signal(name)
    }
}
