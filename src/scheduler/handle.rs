//! The port of all threads other than workers.

use super::place::Posted;
use super::shared::{Job, Placed, Shared};
use super::state::Before;
use super::{Commit, Interrupt, Next, Pause, Port, Slot, Stats, TimerId, Wake};
use crate::base::Monotonic;
use crate::process::Permit;
use std::sync::Arc;

/// A [`Port`] for any thread. The processes that it wakes go to the global queue. Clones are the
/// same handle.
///
/// It keeps the scheduler's tables alive, though not its workers: a commit point that stores one is
/// never freed before it drops it.
pub struct Handle<C: Commit>(pub(crate) Arc<Shared<C>>);

impl<C: Commit> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Commit> std::fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<C: Commit> Handle<C> {
    /// The counters of the scheduler so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// The commit point.
    #[must_use]
    pub fn commit(&self) -> &Arc<C> {
        &self.0.commit
    }

    pub(super) fn enqueue(&self, slot: Slot, event: Option<C::Event>) {
        let _ = self.0.global.push(Job { slot, event, woken_here: false });
        self.0.sleep.notify();
    }

    pub(super) fn follow(&self, slot: Slot, placed: Placed) {
        match placed {
            Placed::Enqueue => self.enqueue(slot, None),
            // A worker has to look after the admission queue.
            Placed::Waits => self.0.sleep.notify(),
        }
    }
}

impl<C: Commit> Port<C> for Handle<C> {
    fn spawn(&mut self, process: C::Process, permit: Permit) -> Result<Slot, C::Process> {
        let (slot, placed) = self.0.spawn_from_outside(process, permit, Before::Nothing)?;
        self.follow(slot, placed);
        Ok(slot)
    }

    fn take_up(&mut self, process: C::Process, permit: Permit, next: Next) -> Result<Slot, C::Process> {
        let (slot, placed) = self.0.spawn_from_outside(process, permit, Before::Step(next))?;
        self.follow(slot, placed);
        Ok(slot)
    }

    fn can_ever_admit(&self, permit: Permit) -> bool {
        self.0.can_ever_admit(permit)
    }

    fn post(&mut self, slot: Slot, event: C::Event, wake: Wake) -> bool {
        match self.0.post(slot, event, wake, None) {
            Posted::Pending => {}
            Posted::Woken(event) => self.enqueue(slot, event),
            Posted::Admit => self.follow(slot, self.0.readmit(slot)),
            Posted::Gone(event) => {
                drop(event);
                self.0.drop_from_outside(1);
                return false;
            }
        }
        true
    }

    fn interrupt(&mut self, slot: Slot, why: Interrupt) {
        if let Some(placed) = self.0.interrupt(slot, why) {
            self.follow(slot, placed);
        }
    }

    fn pause(&mut self, slot: Slot, pause: Pause) {
        if let Some(placed) = self.0.pause(slot, pause) {
            self.follow(slot, placed);
        }
    }

    fn timer(&mut self, due: Monotonic, timer: C::Timer) -> TimerId {
        let (timer, is_first) = self.0.timers.set(due, timer);
        if is_first {
            self.0.sleep.notify();
        }
        timer
    }

    fn unset_timer(&mut self, timer: TimerId) {
        self.0.timers.unset(timer);
    }

    fn monotonic(&self) -> Monotonic {
        self.0.clock.now()
    }
}
