//! How a worker finds its next process.

use super::Core;
use crate::base::sync::spin_loop;
use crate::scheduler::fairness::Look;
use crate::scheduler::local::Loot;
use crate::scheduler::shared::{Job, Shared};
use crate::scheduler::victim::victims;
use crate::scheduler::{Commit, Deed, Slot};

/// Attempts at one victim before the next one, while other thieves are quicker. Arbitrary.
const RETRIES: u32 = 8;

/// The slot of a process that was found, in one register: an `Option<Slot>` would go through
/// memory.
pub(super) struct Found(u64);

impl Found {
    #[inline]
    fn new(slot: Slot) -> Self {
        Self(u64::from(slot.generation) << 32 | u64::from(slot.index))
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Each half as it was put in.
    pub(super) fn slot(self) -> Slot {
        Slot { index: self.0 as u32, generation: (self.0 >> 32) as u32 }
    }
}

impl<C: Commit> Core<C> {
    /// Finds a job: in its own deque, in the global queue, with other workers; or in another order
    /// if a rule says so. The job's event goes to the batch at once: passing a job by value copies
    /// it each time, which costs a hop some nanoseconds.
    #[inline]
    pub(super) fn find(&mut self, shared: &Shared<C>) -> Option<Found> {
        let look = self.fairness.look(self.pace.interval());
        if look != Look::Bottom
            && let Some(found) = self.find_first(shared, look)
        {
            return Some(found);
        }
        if let Some(job) = self.lifo_slot.take() {
            self.fairness.popped(job.woken_here);
            return Some(self.unpack(job));
        }
        if let Some(job) = self.local.pop() {
            // The reserved job of the deque is this one, but there may be one in the global queue.
            self.reserved = self.reserved && shared.global.len() > 0;
            self.fairness.popped(job.woken_here);
            return Some(self.unpack(job));
        }
        self.find_elsewhere(shared)
    }

    #[inline]
    fn unpack(&mut self, job: Job<C::Event>) -> Found {
        debug_assert!(self.batch.is_empty(), "the batch is of one process");
        self.batch.extend(job.event);
        Found::new(job.slot)
    }

    /// Called after finding nothing: the pace may not have called for a look at the timers.
    #[cold]
    pub(super) fn find_late(&mut self, shared: &Shared<C>, served: &mut bool) -> Option<Found> {
        self.now = None;
        if shared.timers.next().is_none() || !self.fire(shared, shared.clock.now()) {
            return None;
        }
        *served = true;
        self.find(shared)
    }

    /// Looks where a rule says, before the bottom of its own deque.
    #[inline(never)]
    fn find_first(&mut self, shared: &Shared<C>, look: Look) -> Option<Found> {
        let job = if look == Look::Top {
            if self.local.is_empty() {
                return None;
            }
            self.put_down();
            self.local.pop_top()
        } else {
            if shared.global.len() == 0 && self.yielded.is_empty() {
                return None;
            }
            self.put_down();
            self.take_global(shared)
        };
        job.map(|job| self.unpack(job))
    }

    #[inline(never)]
    fn find_elsewhere(&mut self, shared: &Shared<C>) -> Option<Found> {
        let job = self.take_global(shared).or_else(|| self.steal(shared))?;
        Some(self.unpack(job))
    }

    /// Takes from the global queue, after appending the processes that said `ready`.
    fn take_global(&mut self, shared: &Shared<C>) -> Option<Job<C::Event>> {
        self.wake_owed |= !self.yielded.is_empty();
        shared.global.take(self.yielded.drain(..).map(Job::ready), shared.workers(), &self.local)
    }

    /// Moves the job in the LIFO slot to the bottom of the deque.
    pub(super) fn put_down(&mut self) {
        if let Some(job) = self.lifo_slot.take() {
            self.local.push(job);
            self.wake_owed = true;
        }
    }

    #[cold]
    fn steal(&mut self, shared: &Shared<C>) -> Option<Job<C::Event>> {
        if !self.searching {
            if !shared.sleep.search() {
                return None;
            }
            self.searching = true;
        }
        for victim in victims(&mut self.random, shared.workers(), self.index) {
            if self.patient && shared.thieves[victim].len() <= 1 {
                continue;
            }
            for _ in 0..RETRIES {
                match shared.thieves[victim].steal_half(&self.local) {
                    Loot::Job(job) => {
                        self.counters(shared).steals.add(1);
                        let begun = Self::begin(shared);
                        self.record(shared, Deed::Steal, begun);
                        return Some(job);
                    }
                    Loot::Empty => break,
                    Loot::Retry => spin_loop(),
                }
            }
        }
        None
    }
}
