//! A process as the scheduler holds it: its body, and the state of the step in progress.

use super::run::Run;
use super::snapshot_writer::ReplayTail;
use crate::process::{Allocation, Body, Event, Output, Pid, Program, Timestamp};
use crate::run::state::config::may_be_saved;
use crate::run::state::run_state::RunTime;
use crate::run::state::table::WaitState;
use crate::run::state::weight::{Consumed, event_bytes};
use crate::scheduler::Next;
use std::cell::Cell;
use std::sync::Arc;

/// A process as the scheduler holds it.
pub struct Task {
    pub(in crate::run) run: Arc<Run>,
    pub(in crate::run) state: TaskState,
}

/// The state of a process beside its run.
pub(in crate::run) struct TaskState {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) program: Arc<dyn Program>,
    pub(in crate::run) body: Box<dyn Body>,
    /// Where its instances are made.
    pub(in crate::run) allocation: Allocation,
    /// Whether the first step has begun.
    pub(in crate::run) begun: bool,
    /// Whether it needs no permit, so that it cannot be asked to end before it begins.
    pub(in crate::run) native: bool,
    /// Committed steps.
    pub(in crate::run) steps: u64,
    /// What it waits for, by its last committed step.
    pub(in crate::run) wait_state: WaitState,
    /// The time of the step's batch: the recorded one, and that of the run's clock.
    pub(in crate::run) at: Timestamp,
    pub(in crate::run) mono: RunTime,
    /// What the step took from the queue.
    pub(in crate::run) consumed: Consumed,
    /// Events that came and have not been stepped for: messages alone while the process was
    /// blocked, what was too much for one batch, and all events while it had no permit, was
    /// deferred for a backlog, or owed a part of its last step.
    pub(in crate::run) deferred: Vec<Event>,
    /// One of them wakes a process that is blocked.
    deferred_wakes: bool,
    /// The buffers of the step's output, while there is a step.
    pub(in crate::run) scratch: Option<Box<Scratch>>,
    /// How often the step in progress was tried again after a fault of the host.
    pub(in crate::run) retries: u8,
    /// The list of deferred processes that it entered last, by number.
    pub(in crate::run) backlog_entry: Option<u64>,
    /// It has been notified that the host is shutting down.
    pub(in crate::run) shutdown_notified: bool,
    /// Its steps since the last snapshot. `None` if it has no snapshots.
    pub(in crate::run) tail: Option<Box<ReplayTail>>,
}

impl Task {
    pub(in crate::run) fn new(
        run: Arc<Run>,
        pid: Pid,
        program: Arc<dyn Program>,
        body: Box<dyn Body>,
        native: bool,
    ) -> Self {
        let is_saved = run.snapshot_store.is_some() && may_be_saved(&*program);
        let state = TaskState {
            pid,
            program,
            body,
            allocation: Allocation::default(),
            begun: false,
            native,
            steps: 0,
            wait_state: WaitState::Not,
            at: Timestamp(0),
            mono: RunTime(0),
            consumed: Consumed::default(),
            deferred: Vec::new(),
            deferred_wakes: false,
            scratch: None,
            retries: 0,
            backlog_entry: None,
            shutdown_notified: false,
            tail: is_saved.then(Box::default),
        };
        Self { run, state }
    }
}

impl TaskState {
    pub(in crate::run) fn next(&self) -> Next {
        match self.wait_state {
            WaitState::Not | WaitState::Owes => Next::Ready,
            WaitState::Blocked => Next::Blocked,
            WaitState::Idle => Next::Idle,
        }
    }

    /// Prepares the batch of the next step in `events`. Returns whether a step is due: a process
    /// that waits is not stepped without events, and a blocked one not for messages alone.
    pub(in crate::run) fn prepare_batch(&mut self, events: &mut Vec<Event>) -> bool {
        let is_due = match self.wait_state {
            WaitState::Owes => {
                self.defer(events);
                return true;
            }
            WaitState::Not => true,
            WaitState::Idle => !events.is_empty() || !self.deferred.is_empty(),
            WaitState::Blocked => self.deferred_wakes || events.iter().any(wakes),
        };
        if !is_due {
            self.deferred.append(events);
            return false;
        }
        if !self.deferred.is_empty() {
            self.deferred.append(events);
            std::mem::swap(&mut self.deferred, events);
        }
        let batch = batch(events);
        if batch < events.len() {
            self.deferred.extend(events.drain(batch..));
        }
        self.deferred_wakes = self.deferred.iter().any(wakes);
        true
    }

    /// Defers events to a later step.
    pub(in crate::run) fn defer(&mut self, events: &mut Vec<Event>) {
        self.deferred_wakes |= events.iter().any(wakes);
        self.deferred.append(events);
    }

    /// Takes back a batch whose step does not begin after all: it is the next one again.
    pub(in crate::run) fn return_batch(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.deferred);
        std::mem::swap(&mut self.deferred, events);
        self.deferred_wakes = self.deferred.iter().any(wakes);
    }

    /// What follows a step that ended with `next`: another one at once if deferred events are due.
    pub(in crate::run) fn after_step(&self, next: Next) -> Next {
        let is_due = match next {
            Next::Idle => !self.deferred.is_empty(),
            Next::Blocked => self.deferred_wakes,
            _ => false,
        };
        if is_due { Next::Ready } else { next }
    }
}

/// Events, and about how many bytes of them, that one step takes at most: passing them is part of a
/// slice. Arbitrary.
const BATCH_MAX: usize = 1_024;
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// How many events from the front are one batch: at least one.
fn batch(events: &[Event]) -> usize {
    if events.len() <= 1 {
        return events.len();
    }
    let mut bytes = 0;
    let fits = |event: &&Event| {
        bytes += event_bytes(event);
        bytes <= BATCH_BYTES_MAX
    };
    events.iter().take(BATCH_MAX).take_while(fits).count().max(1)
}

/// Whether an event wakes a process that is blocked.
fn wakes(event: &Event) -> bool {
    !matches!(event, Event::Message(_))
}

/// Buffers of one step. They belong to the worker's thread, and to a process only while it is
/// stepped, so that a process that waits holds none.
#[derive(Default)]
pub(in crate::run) struct Scratch {
    pub(in crate::run) output: Output,
    /// The record.
    pub(in crate::run) record: Vec<u8>,
}

/// Buffers larger than this are not reused. Arbitrary.
const REUSED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    // A worker steps one process at a time; more than one set is spare only after preempted steps,
    // and is dropped then.
    static SPARE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    #[allow(clippy::unnecessary_box_returns, reason = "the box is reused")]
    pub(in crate::run) fn get() -> Box<Self> {
        SPARE.take().unwrap_or_default()
    }

    pub(in crate::run) fn put(mut self: Box<Self>) {
        if self.record.capacity() > REUSED_BYTES_MAX || self.output.commands.capacity() > 1_000 {
            return;
        }
        self.output.clear();
        self.record.clear();
        SPARE.set(Some(self));
    }
}
