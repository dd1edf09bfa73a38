//! The port of a step: what it asks of the scheduler, on its own worker.

use super::Context;
use crate::base::Monotonic;
use crate::process::Permit;
use crate::scheduler::place::Posted;
use crate::scheduler::shared::{Job, Placed};
use crate::scheduler::state::Before;
use crate::scheduler::{Commit, Interrupt, Next, Pause, Port, Slot, TimerId, Wake};

impl<C: Commit> Context<'_, C> {
    #[inline]
    fn start(&mut self, process: C::Process, permit: Permit, before: Before) -> Result<Slot, C::Process> {
        if self.core.closing {
            return Err(process);
        }
        let counters = self.core.counters(self.shared);
        let (slot, placed) = self.shared.spawn(&mut self.core.free, counters, (process, permit), before)?;
        if placed == Placed::Enqueue {
            self.enqueue(slot, None, false);
        }
        Ok(slot)
    }

    fn enqueue(&mut self, slot: Slot, event: Option<C::Event>, woken_here: bool) {
        self.core.enqueue(self.shared, Job { slot, event, woken_here });
    }
}

impl<C: Commit> Port<C> for Context<'_, C> {
    #[inline]
    fn spawn(&mut self, process: C::Process, permit: Permit) -> Result<Slot, C::Process> {
        self.start(process, permit, Before::Nothing)
    }

    fn take_up(&mut self, process: C::Process, permit: Permit, next: Next) -> Result<Slot, C::Process> {
        self.start(process, permit, Before::Step(next))
    }

    fn can_ever_admit(&self, permit: Permit) -> bool {
        self.shared.can_ever_admit(permit)
    }

    #[inline]
    fn post(&mut self, slot: Slot, event: C::Event, wake: Wake) -> bool {
        match self.shared.post(slot, event, wake, Some(&mut self.core.buffers)) {
            Posted::Pending => {}
            Posted::Woken(event) => self.enqueue(slot, event, true),
            Posted::Admit => {
                if self.shared.readmit(slot) == Placed::Enqueue {
                    self.enqueue(slot, None, true);
                }
            }
            Posted::Gone(event) => {
                self.core.counters(self.shared).dropped_events.add(1);
                drop(event);
                return false;
            }
        }
        true
    }

    fn interrupt(&mut self, slot: Slot, why: Interrupt) {
        if self.shared.interrupt(slot, why) == Some(Placed::Enqueue) {
            self.enqueue(slot, None, true);
        }
    }

    fn pause(&mut self, slot: Slot, pause: Pause) {
        if self.shared.pause(slot, pause) == Some(Placed::Enqueue) {
            self.enqueue(slot, None, true);
        }
    }

    fn timer(&mut self, due: Monotonic, timer: C::Timer) -> TimerId {
        // This worker looks at the timers before it parks: no other worker needs to be woken.
        self.shared.timers.set(due, timer).0
    }

    fn unset_timer(&mut self, timer: TimerId) {
        self.shared.timers.unset(timer);
    }

    fn used(&mut self, fuel: u64) {
        self.core.fairness.used(fuel);
    }

    fn monotonic(&self) -> Monotonic {
        self.shared.clock.now()
    }
}
