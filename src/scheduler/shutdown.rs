//! Shutdown, in numbered steps.
//!
//! 1. *Closing*: no further process is accepted. A thread that is no worker reads the phase under
//!    the lock under which it starts processes; a worker reads it at the beginning of each turn,
//!    and acknowledges. So a process that is submitted meanwhile is either refused, or accepted
//!    before its worker acknowledged: then step 2 finds it.
//! 2. Every living process is unpaused if it is paused, and cancelled through [`Commit::cancel`],
//!    once. This is repeated for late starts until every worker has acknowledged.
//! 3. Wait until all have ended, or the timeout has passed.
//! 4. *Stopped*: the workers stop at the end of their slice, and are joined.
//! 5. Report the processes that have not ended.

use super::shared::{Phase, Shared};
use super::start::{Scheduler, VirtualScheduler};
use super::state::State;
use super::{Commit, Handle, Pause, Port, Slot, Stats};
use crate::base::foreign;
use crate::base::sync::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The outcome of a shutdown.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Shutdown {
    /// The processes that had not ended when the timeout had passed.
    pub alive: Vec<Slot>,
    /// The counters up to the end.
    pub stats: Stats,
}

impl<C: Commit> Shared<C> {
    /// Every process that has not ended.
    pub(crate) fn alive(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.table.used() as u32).filter_map(|index| {
            let word = self.table.get(index)?.word.load();
            (word.state() != State::Complete).then(|| Slot { index, generation: word.generation() })
        })
    }

    fn has_ended(&self) -> bool {
        // Ends first: a process that is counted there has its start counted already.
        let completed: u64 = self.counters.iter().map(|counters| counters.completed.get()).sum();
        let spawned: u64 = self.counters.iter().map(|counters| counters.spawned.get()).sum();
        completed == spawned
    }

    fn is_closed(&self) -> bool {
        self.acknowledged.iter().all(|acknowledged| acknowledged.load(Ordering::Acquire))
    }

    fn cancel_all(self: &Arc<Self>, told: &mut HashSet<Slot>) {
        let mut handle = Handle(Arc::clone(self));
        for slot in self.alive() {
            if told.insert(slot) {
                handle.pause(slot, Pause::Off);
                if foreign::call(|| self.commit.cancel(&mut handle, slot)).is_err() {
                    self.panicked_outside();
                }
            }
        }
    }
}

impl<C: Commit> Scheduler<C> {
    /// Refuses new processes, cancels all living ones, waits until they have ended or `timeout` has
    /// passed, and stops the workers.
    ///
    /// A worker in the middle of a slice is waited for in any case.
    #[must_use]
    pub fn shutdown(mut self, timeout: Duration) -> Shutdown {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now().checked_add(timeout);
        shared.advance(Phase::Closing);
        // A sleeping worker acknowledges when it wakes.
        shared.sleep.wake_all();
        let mut told = HashSet::new();
        loop {
            // The phase is read before the search: if the scheduler was closed before, the search
            // finds every process.
            let is_closed = shared.is_closed();
            shared.cancel_all(&mut told);
            if is_closed {
                break;
            }
            if !wait(&shared, deadline) {
                break;
            }
        }
        while !(shared.is_closed() && shared.has_ended()) && wait(&shared, deadline) {}
        self.stop();
        Shutdown { alive: shared.alive().collect(), stats: shared.stats() }
    }
}

/// Waits for the next end or acknowledgement. Returns `false` if the timeout has passed.
fn wait<C: Commit>(shared: &Shared<C>, deadline: Option<Instant>) -> bool {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    left != Some(Duration::ZERO) && (shared.drained.wait(left) || left.is_none())
}

impl<C: Commit> VirtualScheduler<C> {
    /// Steps 1 and 2 of a shutdown: refuses new processes and cancels all living ones. If a worker
    /// starts one before its next turn begins, another call finds that one.
    pub fn close(&mut self) {
        self.shared.advance(Phase::Closing);
        self.shared.sleep.wake_all();
        self.shared.cancel_all(&mut HashSet::new());
    }

    /// Every process that has not ended.
    #[must_use]
    pub fn alive(&self) -> Vec<Slot> {
        self.shared.alive().collect()
    }
}
