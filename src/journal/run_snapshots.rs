//! The snapshots of one run in a journal.

use super::Journal;
use crate::process::Pid;
use crate::run::{SnapshotEntry, SnapshotStore};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The snapshots of a run. They do not hold the journal open: `journal` returns it while it is.
pub(super) struct RunSnapshots<F> {
    journal: F,
    run: Arc<str>,
    /// What was read with the list, and not taken yet.
    read: Mutex<BTreeMap<(Pid, u64), Bytes>>,
}

impl<F> RunSnapshots<F> {
    pub(super) fn new(journal: F, run: Arc<str>) -> Self {
        Self { journal, run, read: Mutex::default() }
    }
}

impl<J: Journal, F: Fn() -> Option<J> + Send + Sync> RunSnapshots<F> {
    fn journal(&self) -> Result<J, String> {
        (self.journal)().ok_or_else(|| "the journal is closed".to_owned())
    }
}

impl<J: Journal, F: Fn() -> Option<J> + Send + Sync> SnapshotStore for RunSnapshots<F> {
    fn put(&self, pid: Pid, step: u64, key: &[u8], data: Bytes) -> Result<(), String> {
        self.journal()?.put_snapshot(&self.run, pid, step, key, data.into());
        Ok(())
    }

    fn list(&self) -> Result<Vec<SnapshotEntry>, String> {
        let stored = self.journal()?.snapshots(&self.run).map_err(|error| error.to_string())?;
        let mut read = self.read.lock();
        read.clear();
        let shelved = stored.into_iter().map(|snapshot| {
            let (pid, step) = (snapshot.pid, snapshot.step);
            let bytes = snapshot.data.as_ref().map_or(0, |data| data.len() as u64);
            if let Some(data) = snapshot.data {
                read.insert((pid, step), data);
            }
            SnapshotEntry { pid, step, bytes }
        });
        Ok(shelved.collect())
    }

    fn get(&self, pid: Pid, step: u64) -> Result<Option<Bytes>, String> {
        if let Some(data) = self.read.lock().remove(&(pid, step)) {
            return Ok(Some(data));
        }
        let stored = self.journal()?.snapshot(&self.run, pid, step).map_err(|error| error.to_string())?;
        let Some(found) = stored else { return Ok(None) };
        found.data.map(Some).ok_or_else(|| "the snapshot is damaged: its checksum is wrong".to_owned())
    }
}
