//! Where snapshots of a run's processes are kept, beside its records.
//!
//! A snapshot says what a process was after one of its steps. It saves work and is never the only copy of anything: what is not there,
//! or does not fit, is replayed from the records.

use crate::process::Pid;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The snapshots of one run. Its functions may wait for a disk: none is called under the commit lock, and on a
/// worker only [`Self::get`], of a snapshot that the taking up has not read ahead.
pub trait SnapshotStore: Send + Sync {
    /// Keeps what a process was after a step, whose record is durable. The key says what it fits: the digest of the program. Of those before
    /// it, all but the last may go.
    ///
    /// # Errors
    /// Why it is not kept. Nothing depends on it.
    fn put(&self, pid: Pid, step: u64, key: &[u8], data: Bytes) -> Result<(), String>;

    /// What is kept, in any order.
    ///
    /// # Errors
    /// Why nobody can tell.
    fn list(&self) -> Result<Vec<SnapshotEntry>, String>;

    /// What a process was after a step. None: it is not there.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn get(&self, pid: Pid, step: u64) -> Result<Option<Bytes>, String>;
}

/// A snapshot on a shelf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnapshotEntry {
    /// The process.
    pub pid: Pid,
    /// The step that it follows.
    pub step: u64,
    /// Its size.
    pub bytes: u64,
}

/// A snapshot that was not used.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct UnusedSnapshot {
    /// The process.
    pub pid: Pid,
    /// The step that it follows.
    pub step: u64,
    /// Why.
    pub why: String,
}

/// Snapshots of each process. One before the last is kept too: it serves where the last does not fit.
const KEPT_MAX: usize = 2;

/// A shelf in memory.
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
