//! Parking: how a worker goes to sleep without missing work, and how few workers are woken.
//!
//! A worker is *active* (it has work), *searching* (it looks at others' queues) or *asleep*. One
//! word counts the searching and the sleeping workers; a list names the sleepers; each has a signal
//! of its own, a flag under a mutex.
//!
//! **Against lost wake-ups.** A producer pushes, *then* fences, *then* reads the counts. A worker
//! that goes to sleep announces itself in the counts, *then* fences, *then* looks at every queue
//! once more, *then* waits. All fences are sequentially consistent, so in their single order either
//! the producer's comes first, and the sleeper's look finds the job; or the sleeper's comes first,
//! and the producer reads that a worker sleeps.
//!
//! **Few wake-ups.** A producer wakes no worker while one searches: that worker will find the job.
//! This is sound because a searcher that stops searching does one of two things. It goes to sleep,
//! by the protocol above, and searches again if its last look finds something, since a producer may
//! have relied on it. Or it has found work: then, if it was the last one searching, it fences,
//! looks at every queue once more and, if a job is left, wakes one more worker. So while jobs are
//! left, a chain of workers wakes; when none are, no worker does. At most half of the workers, and
//! at least one, search at a time. The thread that wakes a sleeper counts it as searching, so that
//! a second producer does not wake a second one.
//!
//! - **P1** the sleeping count is the length of the list, except within the lock of the list.
//! - **P2** a worker is in the list at most once; the thread that takes it out sets its signal and
//!   counts it as searching, unless that is the worker itself.
//! - **P3** a signal may be late or left over: only the list says what happened.

use crate::base::sync::{AtomicU64, Mutex, Ordering, Signal, fence};
use crate::base::{Clock, Monotonic};
use std::time::Duration;

const SEARCHING: u64 = 1;
const SLEEPING: u64 = 1 << 32;

fn searching(counts: u64) -> u64 {
    counts & (SLEEPING - 1)
}

fn sleeping(counts: u64) -> u64 {
    counts >> 32
}

/// Which workers search and which sleep.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Searching in the lower half, sleeping in the upper. Changed by read-modify-writes only.
    counts: AtomicU64,
    sleepers: Mutex<Vec<usize>>,
    signals: Box<[Signal]>,
}

/// How a worker woke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Awake {
    /// Another thread woke it, or it was searching and saw work before it slept. It counts as
    /// searching.
    Searching,
    /// By itself: there was work, or time has passed. It does not count as searching.
    Alone,
}

impl Sleep {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            counts: AtomicU64::new(0),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            signals: (0..workers).map(|_| Signal::default()).collect(),
        }
    }

    /// Whether no worker sleeps or searches, as far as one can tell without a fence.
    #[inline]
    pub(crate) fn all_are_active(&self) -> bool {
        self.counts.load(Ordering::Relaxed) == 0
    }

    /// Wakes a sleeper if one is needed, as far as one can tell without a fence: [`Self::notify`]
    /// must follow in time.
    #[inline]
    pub(crate) fn hint(&self) {
        if Self::is_called_for(self.counts.load(Ordering::Relaxed)) {
            self.wake();
        }
    }

    /// Wakes a worker, if one is needed, for a job that was pushed for others.
    #[inline]
    pub(crate) fn notify(&self) {
        // Partner: the fence in `park`.
        fence(Ordering::SeqCst);
        self.hint();
    }

    fn is_called_for(counts: u64) -> bool {
        sleeping(counts) > 0 && searching(counts) == 0
    }

    #[cold]
    fn wake(&self) {
        let mut sleepers = self.sleepers.lock();
        if searching(self.counts.load(Ordering::Relaxed)) > 0 {
            return;
        }
        let Some(worker) = sleepers.pop() else { return };
        self.counts.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::AcqRel);
        drop(sleepers);
        self.signals[worker].set();
    }

    /// Wakes all workers: the scheduler stops.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        loop {
            let mut sleepers = self.sleepers.lock();
            let Some(worker) = sleepers.pop() else { return };
            self.counts.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::AcqRel);
            drop(sleepers);
            self.signals[worker].set();
        }
    }

    /// A worker begins to search. Returns `false` if enough do.
    #[must_use]
    pub(crate) fn search(&self) -> bool {
        let workers = self.signals.len() as u64;
        let counts = self.counts.load(Ordering::Relaxed);
        // Two workers may pass here at once and be one too many: that costs a look at some queues
        // and nothing else.
        if searching(counts) > 0 && 2 * searching(counts) >= workers {
            return false;
        }
        self.counts.fetch_add(SEARCHING, Ordering::AcqRel);
        true
    }

    /// A searching worker has found work. `is_work_left` looks at every queue.
    pub(crate) fn found(&self, is_work_left: impl FnOnce() -> bool) {
        let before = self.counts.fetch_sub(SEARCHING, Ordering::AcqRel);
        if searching(before) != 1 || sleeping(before) == 0 {
            return;
        }
        // Partner: the fence in `notify` of a producer that relied on this searcher.
        fence(Ordering::SeqCst);
        if is_work_left() {
            self.hint();
        }
    }

    /// Parks a worker that found nothing. `is_needed` looks at every queue and at everything else
    /// that a worker must not sleep for. A worker with a deadline is the keeper of the timers, and
    /// the last to be woken for a job.
    pub(crate) fn park(
        &self,
        worker: usize,
        was_searching: bool,
        deadline: Option<(&Clock, Monotonic)>,
        is_needed: impl FnOnce() -> bool,
    ) -> Awake {
        if !self.lie_down(worker, was_searching, deadline.is_some(), is_needed) {
            return self.stay_up(worker, was_searching);
        }
        let signal = &self.signals[worker];
        match deadline {
            None => signal.wait(None),
            Some((clock, deadline)) => signal.wait_until(clock, deadline),
        };
        self.rise(worker)
    }

    /// The first part of [`Self::park`], up to the wait; [`Self::rise`] follows. Returns `false` if
    /// the worker is needed; then [`Self::stay_up`] follows.
    pub(crate) fn lie_down(
        &self,
        worker: usize,
        was_searching: bool,
        is_keeper: bool,
        is_needed: impl FnOnce() -> bool,
    ) -> bool {
        {
            let mut sleepers = self.sleepers.lock();
            let place = if is_keeper { 0 } else { sleepers.len() };
            sleepers.insert(place, worker);
            let searching = if was_searching { SEARCHING } else { 0 };
            self.counts.fetch_add(SLEEPING.wrapping_sub(searching), Ordering::AcqRel);
        }
        // Partner: the fences in `notify` and `wake_all`.
        fence(Ordering::SeqCst);
        !is_needed()
    }

    /// Whether a worker that has no thread, and so cannot wait, was woken.
    pub(crate) fn is_called(&self, worker: usize) -> bool {
        self.signals[worker].wait(Some(Duration::ZERO))
    }

    /// In a model, threads that wait for a time wake when the model moves the clock.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn clock_was_moved(&self) {
        self.signals.iter().for_each(Signal::clock_was_moved);
    }

    /// The last part of [`Self::park`] for a worker that slept.
    pub(crate) fn rise(&self, worker: usize) -> Awake {
        self.leave(worker, 0)
    }

    /// The last part of [`Self::park`] for a worker that is needed. A producer may have relied on
    /// it while it searched: it searches again.
    pub(crate) fn stay_up(&self, worker: usize, was_searching: bool) -> Awake {
        self.leave(worker, if was_searching { SEARCHING } else { 0 })
    }

    /// Takes the worker out of the list, unless another thread did.
    fn leave(&self, worker: usize, searching: u64) -> Awake {
        let mut sleepers = self.sleepers.lock();
        let Some(place) = sleepers.iter().position(|sleeper| *sleeper == worker) else { return Awake::Searching };
        sleepers.remove(place);
        self.counts.fetch_add(searching.wrapping_sub(SLEEPING), Ordering::AcqRel);
        if searching > 0 { Awake::Searching } else { Awake::Alone }
    }
}
