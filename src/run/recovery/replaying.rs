//! A process of a recovered run: its recorded steps are replayed when it is next stepped, and not
//! before.
//!
//! The replay begins from the latest snapshot that follows one of its recorded steps and fits, and
//! repeats only the steps after it. If the process then diverges from its records, the snapshot is
//! not trusted: an older one is used, or none.

use crate::process::{
    Allocation, Body, Death, Event, Eviction, Influences, Output, Owed, Pid, Problem, ProcessInit, ProcessSnapshot,
    Program, Progress, RawSnapshot, SnapshotError, Status, Timestamp, problem::kind,
};
use crate::run::commit::remarks::Remarks;
use crate::run::record::kinds::Digest;
use crate::run::seam::snapshot_store::{SnapshotStore, UnusedSnapshot};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// Steps that are replayed in one turn of a worker. Arbitrary: each is as long as it was.
const STEPS_PER_TURN: usize = 32;

/// How a process began, and the steps that it took.
pub(in crate::run) struct History {
    pub(in crate::run) program: Arc<dyn Program>,
    pub(in crate::run) init: ProcessInit,
    pub(in crate::run) steps: VecDeque<PastStep>,
}

/// A step that was committed.
pub(in crate::run) struct PastStep {
    pub(in crate::run) number: u64,
    pub(in crate::run) at: Timestamp,
    pub(in crate::run) events: Vec<Event>,
    pub(in crate::run) digest: Digest,
}

/// The snapshots that a process can begin from, instead of from its beginning.
pub(in crate::run) struct SnapshotChain {
    pub(in crate::run) store: Arc<dyn SnapshotStore>,
    /// The steps that snapshots follow, the last one last, with the snapshot if it was read
    /// already. All are in the history.
    pub(in crate::run) steps: Vec<(u64, Option<Bytes>)>,
    pub(in crate::run) remarks: Arc<Remarks>,
}

/// A body that replays a history first.
pub(in crate::run) struct ReplayingBody {
    history: History,
    snapshots: Option<SnapshotChain>,
    /// How many steps of the history are done, or half done.
    done: usize,
    /// The step followed by the snapshot that the body began from.
    from: Option<u64>,
    allocation: Allocation,
    body: Option<Box<dyn Body>>,
    /// Whether the last of those steps is half done.
    is_half_done: bool,
    /// The step that was begun while there was a history to replay first.
    next: Option<(Timestamp, Vec<Event>)>,
    output: Output,
}

impl ReplayingBody {
    pub(in crate::run) fn new(history: History, snapshots: Option<SnapshotChain>) -> Self {
        Self {
            history,
            snapshots,
            done: 0,
            from: None,
            allocation: Allocation::default(),
            body: None,
            is_half_done: false,
            next: None,
            output: Output::default(),
        }
    }

    /// Makes the body from the latest snapshot that fits. If none fits there is still no body.
    fn restore_latest(&mut self) {
        let Some(snapshots) = &mut self.snapshots else { return };
        let pid = self.history.init.pid;
        while let Some((step, read)) = snapshots.steps.pop() {
            let first = self.history.steps.front().map_or(step, |first| first.number);
            match restored(&self.history, &*snapshots.store, (pid, step), read) {
                Ok(body) => {
                    self.body = Some(body);
                    self.done = (step + 1 - first) as usize;
                    self.from = Some(step);
                    return;
                }
                Err(error) => snapshots.remarks.ignore(UnusedSnapshot { pid, step, why: error.to_string() }),
            }
        }
    }

    /// Returns whether nothing of the history is left to replay.
    fn has_caught_up(&self) -> bool {
        self.body.is_some() && self.done == self.history.steps.len() && !self.is_half_done
    }

    /// Drops the history, which is not needed any more.
    fn forget(&mut self) {
        self.history.steps = VecDeque::new();
        self.done = 0;
        self.snapshots = None;
        self.from = None;
        self.output = Output::default();
    }

    /// Replays a part of the history. `None` once all of it is done.
    fn catch_up(&mut self) -> Option<Progress> {
        for _ in 0..STEPS_PER_TURN {
            if self.body.is_none() {
                self.restore_latest();
            }
            if self.body.is_none() {
                let mut body = match self.history.program.body(self.history.init.clone()) {
                    Ok(body) => body,
                    Err(problem) => return Some(Progress::Died(Death::Host(problem))),
                };
                body.allocate(self.allocation);
                self.body = Some(body);
            }
            let body = self.body.as_mut().expect("invariant: it was just made");
            if !std::mem::take(&mut self.is_half_done) {
                let step = self.history.steps.get_mut(self.done)?;
                self.output.clear();
                // The events are needed again if the snapshot is not trusted.
                let is_kept = self.from.is_some();
                let mut events = if is_kept { step.events.clone() } else { std::mem::take(&mut step.events) };
                body.begin(step.at, &mut events);
                self.done += 1;
            }
            let step = &self.history.steps[self.done - 1];
            let problem = match body.poll(&mut self.output) {
                Progress::Preempted => {
                    self.is_half_done = true;
                    return Some(Progress::Preempted);
                }
                Progress::Stepped(status) => {
                    if join_parts(&mut **body, status, &mut self.output, step.digest).is_ok() {
                        continue;
                    }
                    Problem::new(kind::DIVERGED, "The process does not do again what it did")
                        .with_detail(format!("Step {} gave other commands than its record says.", step.number))
                }
                Progress::Died(Death::Guest(problem) | Death::Lost(problem) | Death::Host(problem)) => {
                    Problem::new(kind::HOST_CANNOT_REPLAY, "This host cannot repeat what the process did")
                        .with_detail(format!("In step {}: {problem}", step.number))
                }
            };
            let Some(from) = self.from.take() else { return Some(Progress::Died(Death::Host(problem))) };
            let why = format!("what follows it is not what the records say: {problem}");
            if let Some(snapshots) = &self.snapshots {
                snapshots.remarks.ignore(UnusedSnapshot { pid: self.history.init.pid, step: from, why });
            }
            self.body = None;
            self.done = 0;
        }
        Some(Progress::Preempted)
    }
}

/// Compares what a step gave with its record. Release 0.1.0 committed each step whole, whatever its
/// size: if a body gives such a step in parts, as many of them are taken together as the record
/// has.
///
/// # Errors
/// The step gave something else: returns its status, with all commands that it gave in the output.
pub(in crate::run) fn join_parts(
    body: &mut dyn Body,
    mut status: Status,
    output: &mut Output,
    recorded: Digest,
) -> Result<(), Status> {
    while Digest::of_step(&status, &output.commands) != recorded {
        if body.owes().is_none() {
            return Err(status);
        }
        match body.poll(output) {
            Progress::Stepped(next) => status = next,
            Progress::Preempted => {}
            Progress::Died(_) => return Err(status),
        }
    }
    Ok(())
}

/// Restores a body from a snapshot.
fn restored(
    history: &History,
    store: &dyn SnapshotStore,
    (pid, step): (Pid, u64),
    read: Option<Bytes>,
) -> Result<Box<dyn Body>, SnapshotError> {
    let bytes = match read {
        Some(bytes) => bytes,
        None => {
            let found = store.get(pid, step).map_err(SnapshotError::Misfit)?;
            found.ok_or_else(|| SnapshotError::Misfit("it is gone".into()))?
        }
    };
    history.program.restore(history.init.clone(), &ProcessSnapshot::decode(&bytes)?)
}

impl Body for ReplayingBody {
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        match &mut self.body {
            Some(body) if self.history.steps.is_empty() => body.begin(now, events),
            _ => self.next = Some((now, std::mem::take(events))),
        }
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if self.next.is_some()
            && let Some(progress) = self.catch_up()
        {
            return progress;
        }
        if let Some((now, mut events)) = self.next.take() {
            self.forget();
            self.body.as_mut().expect("invariant: it has caught up").begin(now, &mut events);
        }
        self.body.as_mut().expect("invariant: it has caught up").poll(output)
    }

    fn owes(&self) -> Option<Owed<'_>> {
        self.body.as_ref().filter(|_| self.history.steps.is_empty())?.owes()
    }

    fn influences(&self) -> Influences {
        self.body.as_ref().map_or(Influences::RESTORED, |body| body.influences())
    }

    fn close(&mut self) {
        if let Some(body) = &mut self.body {
            body.close();
        }
    }

    fn evict(&mut self) -> Eviction {
        self.body.as_mut().map_or(Eviction::Done, |body| body.evict())
    }

    fn evicts_slowly(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.evicts_slowly())
    }

    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        if !self.has_caught_up() || self.next.is_some() {
            return None;
        }
        self.body.as_mut()?.save()
    }

    fn saves_slowly(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.saves_slowly())
    }

    fn allocate(&mut self, allocation: Allocation) {
        self.allocation = allocation;
        // Without a body it does not hold up a worker.
        if self.body.is_none() {
            self.restore_latest();
        }
        if let Some(body) = &mut self.body {
            body.allocate(allocation);
        }
    }

    fn allocates_slowly(&self, allocation: Allocation) -> bool {
        match &self.body {
            Some(body) => body.allocates_slowly(allocation),
            None => self.snapshots.as_ref().is_some_and(|snapshots| !snapshots.steps.is_empty()),
        }
    }

    fn drops_slowly(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.drops_slowly())
    }
}
