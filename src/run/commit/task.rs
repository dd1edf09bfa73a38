//! A process as the scheduler holds it: its body, and what belongs to the step in progress.

use super::run::Run;
use super::snapshot_writer::ReplayTail;
use crate::process::{Allocation, Body, Event, Output, Pid, Program, Timestamp};
use crate::run::state::config::may_be_saved;
use crate::run::state::run_state::RunTime;
use crate::run::state::table::Waits;
use crate::run::state::weight::{Took, event_bytes};
use crate::scheduler::Next;
use std::cell::Cell;
use std::sync::Arc;

/// A process as the scheduler holds it.
pub struct Task {
    pub(in crate::run) run: Arc<Run>,
    pub(in crate::run) state: TaskState,
}

/// A process beside its run.
pub(in crate::run) struct TaskState {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) program: Arc<dyn Program>,
    pub(in crate::run) body: Box<dyn Body>,
    /// Where its instances are made.
    pub(in crate::run) allocation: Allocation,
    /// Whether the first step has begun.
    pub(in crate::run) begun: bool,
    /// Whether nobody can have asked it to end before it begins.
    pub(in crate::run) native: bool,
    /// Committed steps.
    pub(in crate::run) steps: u64,
    /// What the last committed step said.
    pub(in crate::run) waits: Waits,
    /// The time of the step's batch, recorded and monotonic.
    pub(in crate::run) at: Timestamp,
    pub(in crate::run) mono: RunTime,
    /// What the step took from the queue.
    pub(in crate::run) took: Took,
    /// What came and was not stepped for: messages alone while it was blocked, what was too much for one batch, and anything while it had
    /// no permit, was put off, or owed a part of its last step.
    pub(in crate::run) deferred: Vec<Event>,
    /// Something of it wakes a process that is blocked.
    deferred_wakes: bool,
    /// Where the step's output is, while there is a step.
    pub(in crate::run) scratch: Option<Box<Scratch>>,
    /// How often the step in progress was tried again after a fault of the host.
    pub(in crate::run) retries: u8,
    /// Which list of those that are put off it has entered last.
    pub(in crate::run) backlog_entry: Option<u64>,
    /// It was told that the host is shutting down.
    pub(in crate::run) shutdown_notified: bool,
    /// What it did since its last snapshot. None: no snapshots of it are kept.
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
        let is_saved = run.shelf.is_some() && may_be_saved(&*program);
        let state = TaskState {
            pid,
            program,
            body,
            allocation: Allocation::default(),
            begun: false,
            native,
            steps: 0,
            waits: Waits::Not,
            at: Timestamp(0),
            mono: RunTime(0),
            took: Took::default(),
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
        match self.waits {
            Waits::Not | Waits::Owes => Next::Ready,
            Waits::Blocked => Next::Blocked,
            Waits::Idle => Next::Idle,
        }
    }

    /// Whether there is a step to be taken: a process that waits is not stepped for nothing, and one that is blocked not for messages.
    pub(in crate::run) fn prepare_batch(&mut self, events: &mut Vec<Event>) -> bool {
        let is_due = match self.waits {
            Waits::Owes => {
                self.defer(events);
                return true;
            }
            Waits::Not => true,
            Waits::Idle => !events.is_empty() || !self.deferred.is_empty(),
            Waits::Blocked => self.deferred_wakes || events.iter().any(wakes),
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

    /// Leaves what has come to a later step.
    pub(in crate::run) fn defer(&mut self, events: &mut Vec<Event>) {
        self.deferred_wakes |= events.iter().any(wakes);
        self.deferred.append(events);
    }

    /// Takes a batch back with which no step is taken after all: it is the next again.
    pub(in crate::run) fn return_batch(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.deferred);
        std::mem::swap(&mut self.deferred, events);
        self.deferred_wakes = self.deferred.iter().any(wakes);
    }

    /// What follows a step that said so, if what is held is to be heard at once.
    pub(in crate::run) fn after_step(&self, next: Next) -> Next {
        let is_due = match next {
            Next::Idle => !self.deferred.is_empty(),
            Next::Blocked => self.deferred_wakes,
            _ => false,
        };
        if is_due { Next::Ready } else { next }
    }
}

/// Events that a process hears in one step at most, and about how many bytes: to hand them over is part of a slice. Arbitrary.
const BATCH_MAX: usize = 1_024;
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// How many events from the front are one batch: one at least.
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

/// Buffers of one step. They belong to the worker's thread and to a process only while it is stepped, so that a process that waits
/// holds none.
#[derive(Default)]
pub(in crate::run) struct Scratch {
    pub(in crate::run) output: Output,
    /// The record.
    pub(in crate::run) record: Vec<u8>,
}

/// Buffers larger than this are not kept. Arbitrary.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    // A worker steps one process at a time; more than one is spare only after preempted steps, and is dropped then.
    static SPARE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    #[allow(clippy::unnecessary_box_returns, reason = "the box is what is kept")]
    pub(in crate::run) fn get() -> Box<Self> {
        SPARE.take().unwrap_or_default()
    }

    pub(in crate::run) fn put(mut self: Box<Self>) {
        if self.record.capacity() > KEPT_BYTES_MAX || self.output.commands.capacity() > 1_000 {
            return;
        }
        self.output.clear();
        self.record.clear();
        SPARE.set(Some(self));
    }
}
