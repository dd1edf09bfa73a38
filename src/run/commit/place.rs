//! Runs that wait for a place in their concurrency group.
//!
//! Which runs have a place is the journal's to say, and stands in no record: a run that is replayed
//! or forked does the same wherever it waited. A run without a place is in memory, takes signals
//! and acts, and none of its processes begins a step. Asked to end, all of it ends at once.

use super::handle::RunHandle;
use super::kernel::Kernel;
use super::outbox::AfterUnlock;
use super::run::Run;
use crate::scheduler::{Pause, Port};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Run {
    fn give_place<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P) {
        let mut inner = self.inner.lock();
        if !std::mem::replace(&mut inner.is_queued, false) {
            return;
        }
        let is_held = inner.is_held();
        self.is_held.store(is_held, Relaxed);
        if !is_held {
            for slot in inner.state.table.iter().filter_map(|(_, entry)| entry.slot) {
                port.pause(slot, Pause::Off);
            }
        }
        // Calls that a forked run is to send again.
        let (moment, mut after) = (self.moment(port.monotonic()), AfterUnlock::default());
        self.flush(&mut inner, port, moment, &mut after);
        drop(inner);
        self.after_unlock(port, after);
    }
}

impl Kernel {
    /// Lets a run that waits for a place in its group begin to step: the journal says that it has
    /// one. It takes the commit lock, and waits for nothing. Returns whether the run is here.
    pub fn give_place(&self, id: &str) -> bool {
        let run = self.in_memory(id);
        if let Some(run) = &run {
            self.with_port(|port| run.give_place(port));
        }
        run.is_some()
    }
}

impl RunHandle {
    /// Returns whether it waits for a place in its concurrency group.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.with(|_, inner| inner.is_queued).unwrap_or_default()
    }
}
