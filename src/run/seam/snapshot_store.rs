//! Where snapshots of a run's processes are stored, beside its records.
//!
//! A snapshot is the state of a process after one of its steps. It saves work and is never the only
//! copy of anything: a process whose snapshot is missing, or does not fit, is replayed from the
//! records.

use crate::process::Pid;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The snapshots of one run. These functions may wait for a disk: none is called under the commit
/// lock, and on a worker only [`Self::get`], for a snapshot that recovery has not read ahead.
pub trait SnapshotStore: Send + Sync {
    /// Stores the state of a process after a step whose record is durable. The key is the digest of
    /// the program that the snapshot fits. Of the process's earlier snapshots, all but the last may
    /// be removed.
    ///
    /// # Errors
    /// Says why it is not stored. Nothing depends on it.
    fn put(&self, pid: Pid, step: u64, key: &[u8], data: Bytes) -> Result<(), String>;

    /// The stored snapshots, in any order.
    ///
    /// # Errors
    /// Says why they cannot be listed.
    fn list(&self) -> Result<Vec<SnapshotEntry>, String>;

    /// The state of a process after a step. `None` if it is not stored.
    ///
    /// # Errors
    /// Says why it cannot be read.
    fn get(&self, pid: Pid, step: u64) -> Result<Option<Bytes>, String>;
}

/// A snapshot in a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnapshotEntry {
    /// The process whose state it is.
    pub pid: Pid,
    /// The step that it follows.
    pub step: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A snapshot that was not used.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct UnusedSnapshot {
    /// The process whose state it is.
    pub pid: Pid,
    /// The step that it follows.
    pub step: u64,
    /// The reason, for people.
    pub why: String,
}

/// Snapshots stored per process. The one before the last serves if the last does not fit.
const KEPT_MAX: usize = 2;

/// A snapshot store in memory.
#[derive(Clone, Default)]
pub struct MemorySnapshots(Arc<Mutex<BTreeMap<(Pid, u64), Bytes>>>);

impl SnapshotStore for MemorySnapshots {
    fn put(&self, pid: Pid, step: u64, _: &[u8], data: Bytes) -> Result<(), String> {
        let mut all = self.0.lock();
        all.insert((pid, step), data);
        let of_pid: Vec<_> = all.range((pid, 0)..=(pid, u64::MAX)).map(|(key, _)| *key).collect();
        for old in of_pid.iter().rev().skip(KEPT_MAX) {
            all.remove(old);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<SnapshotEntry>, String> {
        let all = self.0.lock();
        Ok(all.iter().map(|(&(pid, step), data)| SnapshotEntry { pid, step, bytes: data.len() as u64 }).collect())
    }

    fn get(&self, pid: Pid, step: u64) -> Result<Option<Bytes>, String> {
        Ok(self.0.lock().get(&(pid, step)).cloned())
    }
}
