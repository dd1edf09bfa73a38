//! Watching which records of durable runs are on disk.
//!
//! Readers of a run's records wait here for more of them, and never for what a crash could take
//! back. A run is neither kept in memory nor recovered by it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{broadcast, watch};

/// A run has more durable records.
#[derive(Clone, Debug)]
pub struct DurableChange {
    /// The id of the run.
    pub run: Arc<str>,
    /// The number of its durable records; its end counts as one more.
    pub records: u64,
}

/// Those who wait for durable records.
pub(super) struct DurableWatchers {
    /// How many runs are watched: the journal's thread looks no further if there are none.
    watched: AtomicUsize,
    runs: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
    all: broadcast::Sender<DurableChange>,
}

impl DurableWatchers {
    pub(super) fn new(changes_max: usize) -> Self {
        Self { watched: AtomicUsize::new(0), runs: Mutex::default(), all: broadcast::channel(changes_max).0 }
    }

    /// Notifies those who wait. Called by the journal's thread: it waits for nothing.
    pub(super) fn notify(&self, run: &str, records: u64) {
        if self.watched.load(Relaxed) > 0
            && let Some(sender) = self.runs.lock().get(run)
        {
            sender.send_replace(records);
        }
        if self.all.receiver_count() > 0 {
            let _ = self.all.send(DurableChange { run: run.into(), records });
        }
    }

    pub(super) fn watch(self: &Arc<Self>, run: &str) -> DurableRecords {
        let mut runs = self.runs.lock();
        let receiver = match runs.get(run) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(0);
                runs.insert(run.into(), sender);
                self.watched.fetch_add(1, Relaxed);
                receiver
            }
        };
        DurableRecords { run: run.into(), receiver: Some(receiver), watchers: Arc::clone(self) }
    }

    /// The last number of a run that is watched, since the watching began; its end counts as one
    /// more.
    pub(super) fn last(&self, run: &str) -> Option<u64> {
        self.runs.lock().get(run).map(|sender| *sender.borrow())
    }

    pub(super) fn all(&self) -> broadcast::Receiver<DurableChange> {
        self.all.subscribe()
    }
}

/// Waits for durable records of one run.
pub struct DurableRecords {
    run: Arc<str>,
    /// `None` only while it is dropped.
    receiver: Option<watch::Receiver<u64>>,
    watchers: Arc<DurableWatchers>,
}

impl DurableRecords {
    /// Waits until the record of this number is durable, or the end of a run that has one fewer. A
    /// run of another host has none here.
    pub async fn reach(&mut self, record: u64) {
        while self.receiver.as_ref().is_some_and(|receiver| *receiver.borrow() < record) {
            self.more().await;
        }
    }

    /// Waits until more records are durable than when this was last asked, or were when the
    /// watching began. A run of another host never has more here.
    pub async fn more(&mut self) {
        if let Some(receiver) = &mut self.receiver
            && receiver.changed().await.is_err()
        {
            // The sender lives as long as a receiver does.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for DurableRecords {
    fn drop(&mut self) {
        let mut runs = self.watchers.runs.lock();
        drop(self.receiver.take());
        if runs.get(&*self.run).is_some_and(|sender| sender.receiver_count() == 0) {
            runs.remove(&*self.run);
            self.watchers.watched.fetch_sub(1, Relaxed);
        }
    }
}
