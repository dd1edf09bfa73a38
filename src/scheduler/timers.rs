//! Timers: a queue of our own, by due time and then in the order in which they were set.
//!
//! The only worker that is woken for a timer is the *keeper*, which has been parked longest, with
//! the nearest deadline; busy workers look at the nearest due time between turns. So a host that
//! has nothing to do until a timer is due makes no system call until then.
//!
//! - **T1** `next` is the due time of the queue's first timer: it changes under the lock, with the
//!   queue.
//! - **T2** A worker that parks while a timer is set becomes the keeper, unless there is one with a
//!   deadline as early.
//! - **T3** Timers that are due are drained as one batch.
//!
//! If timers are dense, keepers rest at least [`REST`] between two batches: 100,000 timers within
//! two seconds are 8,000 parks and not 100,000. A single timer is as precise as the machine parks.
//!
//! When the only awake worker is in the middle of a slice, a timer is late by the rest of that
//! slice.

use crate::base::Monotonic;
use crate::base::sync::{AtomicU64, Mutex, Ordering};
use crate::process::Micros;
use std::collections::BTreeMap;

/// The least time between two batches that a keeper is woken for. Arbitrary: an eighth of the
/// lateness of tokio's and Erlang's wheels.
const REST: Micros = Micros(250);
const NEVER: u64 = u64::MAX;

/// Names a timer that was set, so that it can be unset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId {
    due: Monotonic,
    /// Decides between timers of the same due time.
    number: u64,
}

impl TimerId {
    /// For a [`Port`](super::Port) that has another timer queue than the scheduler's.
    #[must_use]
    pub fn new(due: Monotonic, number: u64) -> Self {
        Self { due, number }
    }

    /// When it is due.
    #[must_use]
    pub fn due(self) -> Monotonic {
        self.due
    }
}

/// A B-tree and not a heap, so that a timer can be removed from the middle.
#[derive(Debug)]
struct Queue<T> {
    timers: BTreeMap<TimerId, T>,
    number: u64,
}

impl<T> Queue<T> {
    fn next(&self) -> u64 {
        self.timers.first_key_value().map_or(NEVER, |(first, _)| first.due.0)
    }
}

/// All timers.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    queue: Mutex<Queue<T>>,
    /// The due time of the first one. Stored under the lock with release; read by every worker
    /// between turns.
    next: AtomicU64,
    /// The deadline of the keeper.
    kept: AtomicU64,
    /// When the last batch was drained.
    drained: AtomicU64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::new(Queue { timers: BTreeMap::new(), number: 0 }),
            next: AtomicU64::new(NEVER),
            kept: AtomicU64::new(NEVER),
            drained: AtomicU64::new(0),
        }
    }

    /// Sets a timer. Returns its id, and whether it is now the first.
    pub(crate) fn set(&self, due: Monotonic, what: T) -> (TimerId, bool) {
        let mut queue = self.queue.lock();
        let timer = TimerId { due, number: queue.number };
        queue.number += 1;
        queue.timers.insert(timer, what);
        let first = due.0 < self.next.load(Ordering::Relaxed);
        if first {
            self.next.store(due.0, Ordering::Release);
        }
        (timer, first)
    }

    /// Unsets a timer, unless it has fired. No worker is woken: one that sleeps for it wakes once
    /// for nothing.
    pub(crate) fn unset(&self, timer: TimerId) {
        let mut queue = self.queue.lock();
        let what = queue.timers.remove(&timer);
        if what.is_some() && timer.due.0 <= self.next.load(Ordering::Relaxed) {
            self.next.store(queue.next(), Ordering::Release);
        }
        drop(queue);
        // Its content is foreign: it is dropped outside the lock.
        drop(what);
    }

    /// The nearest due time.
    pub(crate) fn next(&self) -> Option<Monotonic> {
        let next = self.next.load(Ordering::Acquire);
        (next != NEVER).then_some(Monotonic(next))
    }

    /// Moves all timers that are due into `batch`, in order.
    pub(crate) fn drain(&self, now: Monotonic, batch: &mut Vec<T>) {
        if self.next.load(Ordering::Acquire) > now.0 {
            return;
        }
        let mut queue = self.queue.lock();
        while let Some(first) = queue.timers.first_entry()
            && first.key().due <= now
        {
            batch.push(first.remove());
        }
        self.next.store(queue.next(), Ordering::Release);
        self.drained.store(now.0, Ordering::Relaxed);
    }

    /// The deadline of a worker that is about to park, if it must be the keeper.
    pub(crate) fn keep(&self) -> Option<Monotonic> {
        let next = self.next.load(Ordering::Acquire);
        if next == NEVER {
            return None;
        }
        let deadline = next.max(self.drained.load(Ordering::Relaxed).saturating_add(REST.0));
        let takes_over = |kept| (deadline < kept).then_some(deadline);
        self.kept.fetch_update(Ordering::AcqRel, Ordering::Acquire, takes_over).ok().map(|_| Monotonic(deadline))
    }

    /// The worker that parked until `deadline` is awake again.
    pub(crate) fn release(&self, deadline: Monotonic) {
        // A keeper with an earlier deadline may have taken over; then there is nothing to undo.
        let _ = self.kept.compare_exchange(deadline.0, NEVER, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().timers.len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn due_timers_come_in_order_as_one_batch() {
        let timers = Timers::new();
        for (due, what) in [(30, 'd'), (10, 'a'), (20, 'b'), (20, 'c'), (40, 'e')] {
            let _ = timers.set(Monotonic(due), what);
        }
        let mut batch = Vec::new();
        timers.drain(Monotonic(9), &mut batch);
        assert!(batch.is_empty());
        timers.drain(Monotonic(30), &mut batch);
        assert_eq!(batch, ['a', 'b', 'c', 'd']);
        assert_eq!((timers.next(), timers.len()), (Some(Monotonic(40)), 1));
    }

    #[test]
    fn only_the_first_timer_is_news() {
        let timers = Timers::new();
        assert!(timers.set(Monotonic(50), ()).1 && !timers.set(Monotonic(60), ()).1 && timers.set(Monotonic(40), ()).1);
    }

    #[test]
    fn a_timer_that_is_taken_back_does_not_fire_and_takes_no_room() {
        let timers = Timers::new();
        let (first, _) = timers.set(Monotonic(10), 'a');
        let (second, _) = timers.set(Monotonic(20), 'b');
        timers.set(Monotonic(20), 'c');
        timers.unset(first);
        assert_eq!(timers.next(), Some(Monotonic(20)), "nobody wakes for it");
        timers.unset(first);
        timers.unset(second);
        assert_eq!((timers.next(), timers.len()), (Some(Monotonic(20)), 1));
        let mut batch = Vec::new();
        timers.drain(Monotonic(20), &mut batch);
        assert_eq!((batch, timers.next()), (vec!['c'], None));
    }

    #[test]
    fn one_keeper_unless_an_earlier_deadline_comes() {
        let timers = Timers::new();
        assert_eq!(timers.keep(), None);
        let _ = timers.set(Monotonic(5_000), ());
        assert_eq!((timers.keep(), timers.keep()), (Some(Monotonic(5_000)), None));
        let _ = timers.set(Monotonic(4_000), ());
        assert_eq!(timers.keep(), Some(Monotonic(4_000)));
        timers.release(Monotonic(5_000));
        assert_eq!(timers.keep(), None, "the later keeper's waking changes nothing");
        timers.release(Monotonic(4_000));
        assert_eq!(timers.keep(), Some(Monotonic(4_000)));
    }

    #[test]
    fn a_keeper_rests_between_dense_timers() {
        let timers = Timers::new();
        let _ = timers.set(Monotonic(1_000), ());
        let _ = timers.set(Monotonic(1_010), ());
        timers.drain(Monotonic(1_000), &mut Vec::new());
        assert_eq!(timers.keep(), Some(Monotonic(1_000 + REST.0)));
    }
}
