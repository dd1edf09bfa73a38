//! What a journal has taken and not begun to write. Where that is too much, no process of its runs begins a step.
//!
//! A journal that cannot keep up slows those down who write to it. They cannot wait where they write: that is under the commit lock of a run,
//! which the journal's thread takes to say that records are durable. So an append never waits. A process that would begin a step is *put off*:
//! it is paused, keeps the events that it was to hear, and goes on when there is room. No worker waits meanwhile, and runs that are written
//! elsewhere go on. A step in its middle goes on to its end, and what comes from outside is recorded: by so much, which other bounds hold, the
//! backlog exceeds its own.
//!
//! Who is put off is between two steps, so it gives its permit to others as any paused process does, and what it was to hear is kept beside
//! its body. When there is room it joins the admission queue, which is in order: it gets its turn however often it is put off.
//!
//! **Protocol.** A process that is put off is paused first, then looks once more, under the lock of the list, and enters itself if there is still no
//! room. Whoever makes room first says so, then takes the list under that lock. So either the process is in the list that is taken, or it has
//! seen that there is room. Pausing has another reason, which the run's state tells: an operator has paused the run. So a process is let go on
//! under the commit lock, and only if that is not so.

use crate::scheduler::Slot;
use parking_lot::Mutex;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A run, as far as the list of those who are put off knows it.
pub(in crate::run) trait PutOffRun: Send + Sync {
    /// Lets a process of it go on. It takes the commit lock.
    fn go_on(&self, slot: Slot);
}

/// Whether a journal is behind, and the processes that are put off for it.
#[derive(Default)]
pub struct Backlog {
    /// Read without the lock before each step; what counts is what is read under the lock of the list.
    full: AtomicBool,
    put_off: Mutex<PutOff>,
}

#[derive(Default)]
struct PutOff {
    list: Vec<(Weak<dyn PutOffRun>, Slot)>,
    /// How often the list was taken.
    taken: u64,
}

impl Backlog {
    /// Says whether there is too much. It may be called with any lock. [`Self::go_on`] follows where there is room again.
    pub fn set_full(&self, is_full: bool) {
        self.full.store(is_full, Relaxed);
    }

    /// Lets those go on who were put off. It takes commit locks.
    pub fn go_on(&self) {
        let list = {
            let mut put_off = self.put_off.lock();
            put_off.taken += 1;
            std::mem::take(&mut put_off.list)
        };
        for (run, slot) in list {
            if let Some(run) = run.upgrade() {
                run.go_on(slot);
            }
        }
    }

    pub(in crate::run) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Enters a process into the list, unless it is there. False: there is room.
    pub(in crate::run) fn enter(&self, run: &Weak<dyn PutOffRun>, slot: Slot, entered: &mut Option<u64>) -> bool {
        let mut put_off = self.put_off.lock();
        if !self.is_full() {
            return false;
        }
        let taken = put_off.taken;
        if entered.replace(taken) != Some(taken) {
            put_off.list.push((Weak::clone(run), slot));
        }
        true
    }
}
