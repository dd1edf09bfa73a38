//! Journals: they store the records of runs.
//!
//! A [`Journal`] has runs: their records, the owner of each, the mail for it, and snapshots of its
//! processes. [`Sqlite`] stores them on disk, and nothing leaves the host before its record is
//! there; [`InMemory`] stores them as long as the operating system process lives, for tests and the
//! simulator. [`Memory`] and [`Nothing`] are logs of runs that are in no journal.
//!
//! - **I1** A run has at most one owner. Only the owner appends to it, and a host that has lost a
//!   run appends nothing more.
//! - **I2** What is durable of a run is a prefix of what was appended.
//! - **I3** Either mail is pending, or the record that it became is durable: never both, and never
//!   neither.
//! - **I4** A snapshot is only stored when the record of its step is durable. It may vanish at any
//!   time.
//!
//! The trait is on the level of runs, so that each journal brings the group commit that fits it:
//! SQLite one transaction at a time, a server several. Ownership here is by run and host, which a
//! server's journal maps to its shards and leases: the questions are the same.

pub mod catalog;
mod error;
mod in_memory;
#[cfg(feature = "sqlite")]
pub(crate) mod layout;
mod memory;
mod place;
#[cfg(feature = "sqlite")]
mod run_snapshots;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod statistics;
mod stored;

pub use error::{DurabilityListener, StoreError};
pub use in_memory::InMemory;
pub use memory::{Memory, Nothing};
pub use place::{GroupEntry, Place, QueuePlace};
#[cfg(feature = "wasm")]
pub(crate) use sqlite::CopyError;
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, TakesWanted, WantedWatch, WeakSqlite};
#[cfg(feature = "sqlite")]
pub use statistics::{JournalStatistics, RunStatistics};
pub(crate) use stored::pattern_fits;
pub use stored::{
    Filter, ListPlace, MAIL_BYTES_MAX, NewRun, Owner, Posted, RecoveredRun, Retention, RunUpgrade, Stored,
    StoredSnapshot, Wanted, WantedWhy,
};

use crate::process::Pid;
use crate::run::{Log, Mail, SnapshotEntry};
use bytes::Bytes;
use std::path::Path;

/// Stores the records of many runs.
///
/// Its calls may wait for a disk or a server; those of a [`Log`] do not. Each can fail with an
/// error of the store, besides those that it names.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those above; each names its own")]
pub trait Journal: Send + Sync + 'static {
    /// Begins a run that this host owns: it is durable when its first record is. Waits while the
    /// backlog is full.
    ///
    /// # Errors
    /// [`StoreError::Exists`]: there is a run with this id.
    fn begin(&self, run: &NewRun) -> Result<Box<dyn Log>, StoreError>;

    /// Recovers a run that no living host owns: this host owns it from now on, and an earlier owner
    /// writes nothing more. When the log is dropped and its records are durable, no host owns the
    /// run.
    ///
    /// If this host itself is releasing the run, it waits for that, so a [`DurabilityListener`]
    /// must not call it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Ended`], [`StoreError::Owned`],
    /// [`StoreError::Damaged`].
    fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError>;

    /// Returns the durable records of a run.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`].
    fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError>;

    /// Returns at most `limit` durable records of a run, from number `from` on, counted from 1.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`].
    fn records_from(&self, id: &str, from: u64, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(self.records(id)?.into_iter().skip(skipped).take(limit).collect())
    }

    /// As [`Self::records_from`], and no more than are together larger than `bytes_max`, but one.
    /// So only an empty answer says that there is no further record.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`].
    fn records_within(&self, id: &str, from: u64, limit: usize, bytes_max: usize) -> Result<Vec<Bytes>, StoreError> {
        let mut bytes = 0;
        let fits = |record: &Bytes| {
            let is_first = bytes == 0;
            bytes += record.len().max(1);
            is_first || bytes <= bytes_max
        };
        Ok(self.records_from(id, from, limit)?.into_iter().take_while(fits).collect())
    }

    /// Waits until everything that was appended before is durable and was reported.
    fn flush(&self) -> Result<(), StoreError>;

    /// Returns a run; `None` if there is no run with this id.
    fn run(&self, id: &str) -> Result<Option<Stored>, StoreError>;

    /// Returns the manifest that a run began with; `None` if there is no run with this id.
    fn manifest(&self, id: &str) -> Result<Option<String>, StoreError>;

    /// Returns the runs that fit a filter, the newest first.
    fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError>;

    /// Returns how many runs fit a filter, without its limit.
    fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// Returns the unfinished runs, the oldest first.
    fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        let mut runs = self.list(&Filter { ended: Some(false), ..Filter::default() })?;
        runs.reverse();
        Ok(runs)
    }

    /// Returns the host that owns a run; `None` if no host does.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError>;

    /// Records where this host listens, so that other processes find it by its runs.
    fn set_socket(&self, socket: &Path) -> Result<(), StoreError>;

    /// Stores mail for a run that no living host owns.
    fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError>;

    /// Makes a new run of the first `records` records of another. No host owns it: it continues
    /// when it is recovered. `first` replaces the first record, which names the run.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`], [`StoreError::Exists`];
    /// [`StoreError::Short`]: it has fewer durable records.
    fn fork(&self, from: &str, run: &NewRun, records: u64, first: &[u8]) -> Result<(), StoreError>;

    /// Appends a record to a run that no living host owns, and replaces what a host needs to
    /// recover it: both, or nothing. It is durable when this returns. Returns false, and changes
    /// nothing, if the run has another number of records than is expected.
    ///
    /// As for [`Self::recover`], it waits if this host itself is releasing the run.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Ended`], [`StoreError::Owned`],
    /// [`StoreError::Damaged`].
    fn upgrade(&self, id: &str, upgrade: &RunUpgrade) -> Result<bool, StoreError>;

    /// Removes a run, with everything that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Owned`]: it is unfinished and a living host owns it.
    fn remove(&self, id: &str) -> Result<(), StoreError>;

    /// Removes the ended runs that are too old or too many, with everything that belongs to them,
    /// and returns how many. What unfinished runs need is never removed.
    fn sweep(&self, retention: &Retention) -> Result<u64, StoreError>;

    /// Stores a process as it is after a step whose record was appended before. The last few of
    /// each process are retained. It does not wait, and nothing waits for it: if there is no room,
    /// or this host does not own the run, it stores nothing.
    fn put_snapshot(&self, run: &str, pid: Pid, step: u64, key: &[u8], data: Vec<u8>);

    /// Returns the snapshots of a run's processes, those of one process in the order of their
    /// steps.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn snapshots(&self, run: &str) -> Result<Vec<StoredSnapshot>, StoreError>;

    /// Returns how large the snapshots of a run's processes are, from a process on: at most
    /// `limit`, in the order of the processes and steps.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn snapshot_sizes(&self, run: &str, from: Pid, limit: u32) -> Result<Vec<SnapshotEntry>, StoreError> {
        let all = self.snapshots(run)?.into_iter().filter(|snapshot| snapshot.pid >= from);
        let size = |StoredSnapshot { pid, step, data, .. }| SnapshotEntry {
            pid,
            step,
            bytes: data.map_or(0, |data: Bytes| data.len() as u64),
        };
        Ok(all.take(limit as usize).map(size).collect())
    }

    /// Returns the snapshot of a process after a step; `None` if it is not stored.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn snapshot(&self, run: &str, pid: Pid, step: u64) -> Result<Option<StoredSnapshot>, StoreError>;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
