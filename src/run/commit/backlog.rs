//! Deferring the processes of a run whose journal is behind: the run's side of
//! [`Backlog`](crate::run::seam::backlog::Backlog).

use super::kernel::Kernel;
use super::run::Run;
use super::task::Task;
use crate::process::Event;
use crate::run::seam::backlog::DeferrableRun;
use crate::scheduler::{Pause, Port, Slot};
use std::sync::{Arc, Weak};

impl Task {
    /// Defers a process that would begin a step with these events, unless there is room for what it
    /// may write. Returns whether it did.
    pub(in crate::run) fn defer_if_full<P: Port<Kernel>>(
        &mut self,
        port: &mut P,
        slot: Slot,
        events: &mut Vec<Event>,
    ) -> bool {
        let Self { run, state } = self;
        let Some(backlog) = run.backlog.as_ref().filter(|backlog| backlog.is_full()) else { return false };
        // A process that is to end does so whether or not there is room.
        if run.kernel.is_closing() {
            return false;
        }
        port.pause(slot, Pause::On);
        let this: Weak<dyn DeferrableRun> = Arc::downgrade(run) as _;
        if backlog.enter(&this, slot, &mut state.backlog_entry) {
            state.return_batch(events);
            return true;
        }
        run.release_with(port, slot);
        false
    }
}

impl Run {
    /// Continues a process that was paused for lack of room, unless an operator has paused the run
    /// too.
    fn release_with<P: Port<Kernel> + ?Sized>(&self, port: &mut P, slot: Slot) {
        let inner = self.inner.lock();
        if !inner.is_held() {
            port.pause(slot, Pause::Off);
        }
    }
}

impl DeferrableRun for Run {
    fn release(&self, slot: Slot) {
        self.kernel.with_port(|port| self.release_with(port, slot));
    }
}
