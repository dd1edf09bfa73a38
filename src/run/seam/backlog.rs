//! What a journal has accepted but not begun to write. While that is too much, no process of its
//! runs begins a step.
//!
//! A journal that falls behind has to slow its writers down. They cannot wait where they append: an
//! append happens under the commit lock of a run, and the journal's thread takes that lock to
//! report that records are durable. So an append never waits. A process that is about to begin a
//! step is *deferred* instead: it is paused, retains the events of that step, and continues when
//! there is room. No worker waits meanwhile, and runs of other journals continue. A step that has
//! begun runs to its end, and arrivals from outside are still recorded: the backlog exceeds its
//! bound by that much, which other bounds limit.
//!
//! A process that is deferred is between two steps, so like any paused process it gives up its
//! permit, and the events of its next step are stored beside its body. When there is room it joins
//! the admission queue, which is in order: it gets its turn however often it is deferred.
//!
//! **Protocol.** A process that is deferred is first paused, then checks once more, under the lock
//! of the list, and enters itself if there is still no room. The journal's thread first reports
//! that there is room, then takes the list under that lock. So either the process is in the list
//! that is taken, or it has seen that there is room. There is another reason to be paused, which
//! the run's state knows: an operator has paused the run. So a process is unpaused under the commit
//! lock, and only if that is not the case.

use crate::scheduler::Slot;
use parking_lot::Mutex;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A run whose processes can be deferred.
pub(in crate::run) trait DeferrableRun: Send + Sync {
    /// Lets one of its processes continue. Takes the commit lock.
    fn release(&self, slot: Slot);
}

/// Whether a journal is behind, and the processes that are deferred because of it.
#[derive(Default)]
pub struct Backlog {
    /// Read without the lock before each step; the read under the lock of the list decides.
    full: AtomicBool,
    deferred: Mutex<Deferred>,
}

#[derive(Default)]
struct Deferred {
    list: Vec<(Weak<dyn DeferrableRun>, Slot)>,
    /// How many times the list was taken.
    taken: u64,
}

impl Backlog {
    /// Sets whether the backlog is over its bound. May be called with any lock. A caller that
    /// clears it then calls [`Self::release`].
    pub fn set_full(&self, is_full: bool) {
        self.full.store(is_full, Relaxed);
    }

    /// Lets every process that was deferred continue. Takes commit locks.
    pub fn release(&self) {
        let list = {
            let mut deferred = self.deferred.lock();
            deferred.taken += 1;
            std::mem::take(&mut deferred.list)
        };
        for (run, slot) in list {
            if let Some(run) = run.upgrade() {
                run.release(slot);
            }
        }
    }

    pub(in crate::run) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Enters a process into the list, unless it is there already. Returns whether it has to wait:
    /// `false` if there is room.
    pub(in crate::run) fn enter(&self, run: &Weak<dyn DeferrableRun>, slot: Slot, entered: &mut Option<u64>) -> bool {
        let mut deferred = self.deferred.lock();
        if !self.is_full() {
            return false;
        }
        let taken = deferred.taken;
        if entered.replace(taken) != Some(taken) {
            deferred.list.push((Weak::clone(run), slot));
        }
        true
    }
}
