//! What happens in a run, in this process or in another.

use crate::run::{Events, RunEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Events of another process that may wait to be shown. Arbitrary: more wait in the other process.
const WAITING_MAX: usize = 1_000;

/// Where events come from.
pub(in crate::cli) enum EventSource {
    /// A run of this process.
    Local(Events),
    /// A run of another process.
    Remote(RemoteEvents),
}

impl EventSource {
    pub(in crate::cli) fn wait_for(&self, timeout: Duration) -> Option<RunEvent> {
        match self {
            Self::Local(events) => events.wait_for(timeout),
            Self::Remote(remote) => remote.wait_for(timeout),
        }
    }

    pub(in crate::cli) fn is_over(&self) -> bool {
        match self {
            Self::Local(events) => events.is_over(),
            Self::Remote(remote) => remote.ended.load(Relaxed),
        }
    }

    pub(in crate::cli) fn dropped(&self) -> u64 {
        match self {
            Self::Local(events) => events.dropped(),
            Self::Remote(remote) => remote.dropped.load(Relaxed),
        }
    }
}

/// The events of a run of another process.
pub(in crate::cli) struct RemoteEvents {
    events: Receiver<RunEvent>,
    /// Written only by this side, when all events were taken.
    ended: AtomicBool,
    /// Written by the other side, read when all events were taken.
    dropped: Arc<AtomicU64>,
}

/// The sending side. Dropping it ends the stream.
pub(in crate::cli) struct RemoteSender {
    events: SyncSender<RunEvent>,
    dropped: Arc<AtomicU64>,
}

impl RemoteEvents {
    pub(in crate::cli) fn new() -> (Self, RemoteSender) {
        // A slow terminal makes the other process wait, which drops events and says how many.
        let (sender, events) = sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let ended = AtomicBool::new(false);
        (Self { events, ended, dropped: Arc::clone(&dropped) }, RemoteSender { events: sender, dropped })
    }

    pub(in crate::cli) fn wait_for(&self, timeout: Duration) -> Option<RunEvent> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.ended.store(true, Relaxed);
                None
            }
        }
    }
}

impl RemoteSender {
    pub(in crate::cli) fn send(&self, event: RunEvent) {
        // Without a display there is no receiver.
        let _ = self.events.send(event);
    }

    pub(in crate::cli) fn dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Relaxed);
    }
}
