//! Timers: a heap of our own, by due time and then in the order in which they were set.
//!
//! Nobody is woken for a timer but the one worker that is parked longest with the nearest deadline, the *keeper*; busy workers look
//! at the nearest due time between turns. So a host that has nothing to do until a timer is due makes no system call until then.
//!
//! - **T1** `next` is never later than the heap's first timer: it is lowered under the lock, and raised under the lock.
//! - **T2** A worker that parks while a timer is set either becomes the keeper, or there is one with a deadline as early.
//! - **T3** Timers that are due are drained as one batch.
//!
//! Where timers lie dense, keepers rest at least [`REST`] between two batches: 100,000 timers within two seconds are 8,000 parks
//! and not 100,000. A timer that stands alone is as precise as the machine parks.
//!
//! When the only awake worker is in the middle of a slice, a timer is late by the rest of that slice.

use crate::base::sync::{AtomicU64, Mutex, Ordering};
use crate::process::Micros;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The least time between two batches that a keeper is woken for. Arbitrary: an eighth of what tokio's and Erlang's wheels may be late.
const REST: Micros = Micros(250);
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Timer<T> {
    due: Micros,
    /// Decides between timers of the same due time.
    number: u64,
    what: T,
}

impl<T> PartialEq for Timer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<T> Eq for Timer<T> {}
impl<T> PartialOrd for Timer<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Timer<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

#[derive(Debug)]
struct Heap<T> {
    timers: BinaryHeap<Reverse<Timer<T>>>,
    number: u64,
}

/// All timers.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: Mutex<Heap<T>>,
    /// The due time of the first one. Stored under the lock with release; read by every worker between turns.
    next: AtomicU64,
    /// The deadline of the keeper.
    kept: AtomicU64,
    /// When the last batch was drained.
    drained: AtomicU64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: Mutex::new(Heap { timers: BinaryHeap::new(), number: 0 }),
            next: AtomicU64::new(NEVER),
            kept: AtomicU64::new(NEVER),
            drained: AtomicU64::new(0),
        }
    }

    /// Sets a timer. True: it is the first now.
    pub(crate) fn set(&self, due: Micros, what: T) -> bool {
        let mut heap = self.heap.lock();
        let number = heap.number;
        heap.number += 1;
        heap.timers.push(Reverse(Timer { due, number, what }));
        let first = due.0 < self.next.load(Ordering::Relaxed);
        if first {
            self.next.store(due.0, Ordering::Release);
        }
        first
    }

    /// The nearest due time.
    pub(crate) fn next(&self) -> Option<Micros> {
        let next = self.next.load(Ordering::Acquire);
        (next != NEVER).then_some(Micros(next))
    }

    /// Moves all timers that are due into `batch`, in order.
    pub(crate) fn drain(&self, now: Micros, batch: &mut Vec<T>) {
        if self.next.load(Ordering::Acquire) > now.0 {
            return;
        }
        let mut heap = self.heap.lock();
        while let Some(first) = heap.timers.peek()
            && first.0.due <= now
        {
            batch.extend(heap.timers.pop().map(|timer| timer.0.what));
        }
        self.next.store(heap.timers.peek().map_or(NEVER, |first| first.0.due.0), Ordering::Release);
        self.drained.store(now.0, Ordering::Relaxed);
    }

    /// The deadline of a worker that is about to park, if it has to keep the timers.
    pub(crate) fn keep(&self) -> Option<Micros> {
        let next = self.next.load(Ordering::Acquire);
        if next == NEVER {
            return None;
        }
        let deadline = next.max(self.drained.load(Ordering::Relaxed).saturating_add(REST.0));
        let takes_over = |kept| (deadline < kept).then_some(deadline);
        self.kept.fetch_update(Ordering::AcqRel, Ordering::Acquire, takes_over).ok().map(|_| Micros(deadline))
    }

    /// The worker that parked until `deadline` is awake again.
    pub(crate) fn release(&self, deadline: Micros) {
        // Somebody with an earlier deadline may have taken over; then there is nothing to take back.
        let _ = self.kept.compare_exchange(deadline.0, NEVER, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.lock().timers.len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn due_timers_come_in_order_as_one_batch() {
        let timers = Timers::new();
        for (due, what) in [(30, 'd'), (10, 'a'), (20, 'b'), (20, 'c'), (40, 'e')] {
            let _ = timers.set(Micros(due), what);
        }
        let mut batch = Vec::new();
        timers.drain(Micros(9), &mut batch);
        assert!(batch.is_empty());
        timers.drain(Micros(30), &mut batch);
        assert_eq!(batch, ['a', 'b', 'c', 'd']);
        assert_eq!((timers.next(), timers.len()), (Some(Micros(40)), 1));
    }

    #[test]
    fn only_the_first_timer_is_news() {
        let timers = Timers::new();
        assert!(timers.set(Micros(50), ()) && !timers.set(Micros(60), ()) && timers.set(Micros(40), ()));
    }

    #[test]
    fn one_keeper_unless_an_earlier_deadline_comes() {
        let timers = Timers::new();
        assert_eq!(timers.keep(), None);
        let _ = timers.set(Micros(5_000), ());
        assert_eq!((timers.keep(), timers.keep()), (Some(Micros(5_000)), None));
        let _ = timers.set(Micros(4_000), ());
        assert_eq!(timers.keep(), Some(Micros(4_000)));
        timers.release(Micros(5_000));
        assert_eq!(timers.keep(), None, "the later keeper's waking changes nothing");
        timers.release(Micros(4_000));
        assert_eq!(timers.keep(), Some(Micros(4_000)));
    }

    #[test]
    fn a_keeper_rests_between_dense_timers() {
        let timers = Timers::new();
        let _ = timers.set(Micros(1_000), ());
        let _ = timers.set(Micros(1_010), ());
        timers.drain(Micros(1_000), &mut Vec::new());
        assert_eq!(timers.keep(), Some(Micros(1_000 + REST.0)));
    }
}
