//! When the checkpoint thread has work.

use parking_lot::{Condvar, Mutex};

/// Pages of SQLite's log after which there is a checkpoint: a commit takes less on a log that is
/// overwritten (127 µs, by a prototype) than on one that grows (193 µs).
const PAGES: usize = 1_000;

/// Wakes the checkpoint thread when enough was written, or the store closes.
#[derive(Default)]
pub(super) struct CheckpointSignal {
    state: Mutex<SignalState>,
    raised: Condvar,
}

#[derive(Default)]
struct SignalState {
    /// Written since the last wait ended.
    pages: usize,
    closing: bool,
}

impl CheckpointSignal {
    /// Counts pages that were written, about so many.
    pub(super) fn wrote(&self, pages: usize) {
        let mut state = self.state.lock();
        state.pages += pages;
        if state.pages >= PAGES {
            self.raised.notify_one();
        }
    }

    /// Counts the log that a store has when it is opened: a process that was killed has left it,
    /// and one that is killed again and again would never write enough of it for a checkpoint.
    pub(super) fn found(&self, log_bytes: u64) {
        self.wrote(usize::try_from(log_bytes / 4_096).unwrap_or(PAGES));
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.raised.notify_one();
    }

    /// Waits for work. Returns false if the store closes.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.pages < PAGES && !state.closing {
            self.raised.wait(&mut state);
        }
        state.pages = 0;
        !state.closing
    }

    /// Returns whether there is new work, or the store closes.
    pub(super) fn is_raised(&self) -> bool {
        let state = self.state.lock();
        state.pages >= PAGES || state.closing
    }
}
