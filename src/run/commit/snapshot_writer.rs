//! When snapshots of durable runs are taken, and the thread that writes them.
//!
//! Saving a process costs its worker the copying of the pages that the process has written; one
//! thread for all runs of a host compresses, hashes and writes them. A snapshot is passed to it
//! when the record of the step that it follows is durable (it waits in the run's outbox until
//! then), so every stored snapshot follows a durable step.
//!
//! **When.** If replaying the steps since the last snapshot would take longer than
//! [`SnapshotPolicy::tail`], in measured time, and ten times as long as the last snapshot took to
//! write: a guest whose snapshots are expensive has few. At the latest after
//! [`SnapshotPolicy::steps_max`] steps. Before an eviction or when a run is parked, if the tail is
//! longer than [`SnapshotPolicy::parked_tail`]. And on request.
//!
//! **Whole, not in increments.** An image holds only the pages that differ from a fresh instance's.
//! Measured by `cargo bench --bench guests -- snapshot`: the bytes of an increment, which holds the
//! pages that changed since an earlier snapshot, XORed with what they were and compressed alike,
//! against those of the whole snapshot, after 401 and after 999 steps of small guests:
//!
//! | guest | whole | 1 step apart | 10 | 100 | 400 |
//! |---|---|---|---|---|---|
//! | Rust | 33, 102 KB | 0.03 to 0.10 | 0.22 to 0.54 | 0.64 to 0.91 | 0.68 to 1.00 |
//! | C | 44, 110 KB | 0.04 to 0.08 | 0.21 to 0.39 | 0.58 to 0.62 | 0.59 to 1.00 |
//! | JavaScript | 68 to 102 KB | 0.02 to 0.03 | 0.05 to 0.10 | 0.33 to 0.52 | 0.51 to 1.12 |
//! | Python | 27 to 150 KB | 0.01 to 0.07 | 0.02 to 0.11 | 0.08 to 0.32 | 0.22 to 0.93 |
//!
//! If snapshots are at most 10 steps apart, an increment of JavaScript or Python is a tenth of the
//! whole one or less: 2 to 8 KB. But by the policy above they are further apart. Steps of these
//! guests take 4 to 24 µs, so a tail of 50 ms is 2,000 of them and more; and a process that is
//! parked and was saved before has a tail of ten times what that took, which is some hundred steps
//! (compressing alone took 0.2 to 0.9 ms in JavaScript and Python). There an increment saves
//! between nothing and four fifths, most in Python, of bytes that are written in at most a tenth of
//! the process's time, by a separate thread. For that the pages of the snapshot before would be
//! retained (1 to 2 MB for each process in JavaScript or Python) or unpacked again (0.1 to 0.5 ms);
//! a recovery would read and undo a chain, no link of which could be removed before those that
//! follow it. With at most one increment on each whole snapshot there is no chain, but the further
//! an increment is from its whole snapshot, the less it saves: the columns to the right. Increments
//! would pay for processes whose steps take milliseconds and change little, and for megabytes of
//! state that stays as it is; neither was measured.

use super::offload::OffloadThread;
use crate::base::message_of;
use crate::process::{Micros, Pid, Program, RawSnapshot};
use crate::run::seam::snapshot_store::SnapshotStore;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// When snapshots are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotPolicy {
    /// How long replaying a process may take before it is saved.
    pub tail: Duration,
    /// Steps between two snapshots, at most.
    pub steps_max: u64,
    /// The same as `tail`, for a process that is evicted or parked.
    pub parked_tail: Duration,
    /// Bytes of snapshots that may wait to be written. Beyond it none is taken, and that is
    /// counted.
    pub waiting_bytes_max: usize,
}

impl Default for SnapshotPolicy {
    // All arbitrary: a person does not notice the first; at the second, a tail is warned about.
    fn default() -> Self {
        Self {
            tail: Duration::from_millis(50),
            steps_max: 10_000,
            parked_tail: Duration::from_millis(2),
            waiting_bytes_max: 64 << 20,
        }
    }
}

/// How many times longer the tail is than the writing of the last snapshot took, at least.
const TAIL_PER_COST: u64 = 10;

/// Counts of snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotCounts {
    /// Written.
    pub kept: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Not taken, since too many waited.
    pub skipped: u64,
    /// Not written.
    pub failed: u64,
    /// Why the last of those was not written.
    pub last_failure: Option<String>,
}

/// The occasion for saving a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) enum SnapshotTrigger {
    /// It has stepped.
    Stepped,
    /// It waits, and is unloaded from the pool or the memory.
    Unloading,
    /// A snapshot was requested.
    Requested,
}

/// The steps of a process since its last snapshot, which a recovery would replay.
#[derive(Default)]
pub(in crate::run) struct ReplayTail {
    /// How long they took, in microseconds.
    pub(in crate::run) took: u64,
    pub(in crate::run) steps: u64,
    /// Microseconds that the last snapshot took to write. The writer's thread sets it; a reader of
    /// an old value decides a little worse.
    cost: Arc<AtomicU64>,
    /// The process was renewed in its last step: there is nothing yet to be saved.
    pub(in crate::run) fresh: bool,
    /// The writer was asked to learn how the program is saved.
    pub(in crate::run) learns_support: bool,
    /// The commit point knows that a replay would be expensive.
    pub(in crate::run) marked_expensive: bool,
    /// The last request to be saved that the process has followed.
    save_epoch: u64,
}

impl ReplayTail {
    /// Whether a snapshot pays.
    pub(in crate::run) fn is_expensive(&self, policy: &SnapshotPolicy, trigger: SnapshotTrigger) -> bool {
        let bound = match trigger {
            SnapshotTrigger::Stepped => policy.tail,
            SnapshotTrigger::Unloading => policy.parked_tail,
            SnapshotTrigger::Requested => return self.steps > 0,
        };
        let bound = Micros::from(bound).0.max(self.cost.load(Relaxed).saturating_mul(TAIL_PER_COST));
        self.steps > 0 && (self.took > bound || self.steps >= policy.steps_max)
    }

    /// Notes how many requests to save it there have been. Returns whether this is a new one.
    pub(in crate::run) fn is_requested(&mut self, save_epoch: u64) -> bool {
        let is_new = self.save_epoch != save_epoch;
        self.save_epoch = save_epoch;
        is_new
    }

    /// Begins a new tail: the process was saved, or cannot be now.
    pub(in crate::run) fn restart(&mut self) {
        self.took = 0;
        self.steps = 0;
    }
}

/// A snapshot on its way to a store.
pub(in crate::run) struct PendingSnapshot {
    pub(in crate::run) snapshot_store: Arc<dyn SnapshotStore>,
    pub(in crate::run) pid: Pid,
    pub(in crate::run) step: u64,
    pub(in crate::run) raw: Box<dyn RawSnapshot>,
    cost: Arc<AtomicU64>,
    _reservation: Reservation,
}

/// A share of the bytes that may wait.
struct Reservation {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.waiting_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[derive(Default)]
struct Shared {
    /// Bytes of snapshots that were taken and are not written. Only a bound: it guards no other
    /// data.
    waiting_bytes: AtomicUsize,
    counts: Mutex<SnapshotCounts>,
}

/// Writes snapshots. Its thread starts with the first.
pub(in crate::run) struct SnapshotWriter {
    policy: Mutex<SnapshotPolicy>,
    thread: OffloadThread,
    shared: Arc<Shared>,
}

impl SnapshotWriter {
    pub(in crate::run) fn new() -> Self {
        Self { policy: Mutex::default(), thread: OffloadThread::new("snapshots"), shared: Arc::default() }
    }

    pub(in crate::run) fn set(&self, policy: SnapshotPolicy) {
        *self.policy.lock() = policy;
    }

    pub(in crate::run) fn policy(&self) -> SnapshotPolicy {
        *self.policy.lock()
    }

    pub(in crate::run) fn counts(&self) -> SnapshotCounts {
        self.shared.counts.lock().clone()
    }

    /// Whether one more may be taken. If not, that is counted.
    pub(in crate::run) fn has_room(&self) -> bool {
        let has_room = self.shared.waiting_bytes.load(Relaxed) < self.policy().waiting_bytes_max;
        if !has_room {
            self.shared.counts.lock().skipped += 1;
        }
        has_room
    }

    /// Counts a snapshot among those that wait.
    pub(in crate::run) fn reserve(
        &self,
        snapshot_store: &Arc<dyn SnapshotStore>,
        pid: Pid,
        step: u64,
        raw: Box<dyn RawSnapshot>,
        tail: &ReplayTail,
    ) -> PendingSnapshot {
        let bytes = raw.bytes();
        self.shared.waiting_bytes.fetch_add(bytes, Relaxed);
        let reservation = Reservation { shared: Arc::clone(&self.shared), bytes };
        PendingSnapshot {
            snapshot_store: Arc::clone(snapshot_store),
            pid,
            step,
            raw,
            cost: Arc::clone(&tail.cost),
            _reservation: reservation,
        }
    }

    /// Writes a snapshot whose step is durable.
    pub(in crate::run) fn write(&self, pending: Box<PendingSnapshot>) {
        let shared = Arc::clone(&self.shared);
        // Without a thread no snapshot is stored, and everything is replayed.
        if !self.thread.push(move || shared.write(*pending)) {
            self.shared.counts.lock().skipped += 1;
        }
    }

    /// Learns what it takes to save a program's bodies.
    pub(in crate::run) fn learn(&self, program: &Arc<dyn Program>) {
        let program = Arc::clone(program);
        self.thread.push(move || program.learn_snapshot_support());
    }

    /// Waits until all snapshots that were passed to it are written.
    pub(in crate::run) fn flush(&self) {
        self.thread.flush();
    }
}

impl Shared {
    fn write(&self, pending: PendingSnapshot) {
        let begun = Instant::now();
        let PendingSnapshot { snapshot_store, pid, step, raw, cost, _reservation } = pending;
        let write = || {
            let packed = raw.pack().and_then(|saved| Ok((saved.encode()?, saved.program)));
            let (data, program) = packed.map_err(|error| error.to_string())?;
            let bytes = data.len() as u64;
            snapshot_store.put(pid, step, program.as_bytes(), data.into()).map(|()| bytes)
        };
        let written = catch_unwind(AssertUnwindSafe(write));
        let written = written.unwrap_or_else(|cause| Err(format!("writing it panicked: {}", message_of(&*cause))));
        cost.store(Micros::from(begun.elapsed()).0, Relaxed);
        let mut counts = self.counts.lock();
        match written {
            Ok(bytes) => {
                counts.kept += 1;
                counts.bytes += bytes;
            }
            Err(why) => {
                counts.failed += 1;
                counts.last_failure = Some(why);
            }
        }
    }
}
