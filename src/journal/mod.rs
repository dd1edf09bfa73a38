//! Journals: where the records of runs go.
//!
//! A [`Journal`] has runs: their records, who owns each, what was left for them, and snapshots of their processes. [`Sqlite`] keeps them on
//! disk, and what leaves the host waits until its record is there; [`InMemory`] keeps them as long as the process lives, for tests and the
//! simulator. [`Memory`] and [`Nothing`] are logs of runs that no journal knows.
//!
//! - **I1** A run has at most one owner. Only it appends, and whoever has lost a run appends nothing more.
//! - **I2** What is durable of a run is a prefix of what was appended.
//! - **I3** Mail is left, or the record that it became is durable, and never both or neither.
//! - **I4** A snapshot is only kept when the record of its step is durable. It may vanish at any time.
//!
//! The trait is on the level of runs, so that each journal brings the group commit that fits it: SQLite one transaction at a time, a server
//! several. Ownership here is by run and host, which a server's journal maps to its shards and leases: what is asked is the same.

mod error;
mod in_memory;
mod memory;
#[cfg(feature = "sqlite")]
mod shelf;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;

pub use error::{DurabilityListener, StoreError};
pub use in_memory::InMemory;
pub use memory::{Memory, Nothing};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use stored::{Filter, MAIL_BYTES_MAX, NewRun, Owner, Posted, RecoveredRun, Retention, Stored, StoredSnapshot};

use crate::run::{Log, Mail};
use bytes::Bytes;
use std::path::Path;

/// Where the records of many runs go.
///
/// Its calls may wait for a disk or a server, those of a [`Log`] do not. All of them fail with what the store says, beside what is named
/// for each.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those above; each names its own")]
pub trait Journal: Send + Sync + 'static {
    /// Begins a run, which is this host's: it is durable when its first record is. It may wait until less waits to be written.
    ///
    /// # Errors
    /// [`StoreError::Exists`]: there is a run of that id.
    fn begin(&self, run: &NewRun) -> Result<Box<dyn Log>, StoreError>;

    /// Takes up a run that no living host has: it is this host's from now on, and whoever had it before writes nothing more. When the log is
    /// dropped and what it has is durable, the run is anybody's.
    ///
    /// It may wait until this host itself has let go of the run, so it is not called by those who are told of records.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Ended`], [`StoreError::Owned`], [`StoreError::Damaged`].
    fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError>;

    /// The records of a run, as far as they are durable.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`].
    fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError>;

    /// Waits until everything that was handed over before is durable, and those who wait for it were told.
    fn flush(&self) -> Result<(), StoreError>;

    /// A run.
    fn run(&self, id: &str) -> Result<Option<Stored>, StoreError>;

    /// What was said of a run when it began.
    fn manifest(&self, id: &str) -> Result<Option<String>, StoreError>;

    /// The runs that a filter asks for, the newest first.
    fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError>;

    /// How many runs fit a filter, without its limit.
    fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// The unfinished runs, the oldest first.
    fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        let mut runs = self.list(&Filter { ended: Some(false), ..Filter::default() })?;
        runs.reverse();
        Ok(runs)
    }

    /// The host that has a run; none where nobody has it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError>;

    /// Says where this host listens, so that others find it by its runs.
    fn listens(&self, socket: &Path) -> Result<(), StoreError>;

    /// Leaves mail for a run that no living host has.
    fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError>;

    /// Makes a new run of the first records of another, which nobody has: whoever wants it to go on takes it up. Its first record, which names
    /// the run, is given.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`], [`StoreError::Exists`]; [`StoreError::Short`]: it has fewer records that are durable.
    fn fork(&self, from: &str, run: &NewRun, records: u64, first: &[u8]) -> Result<(), StoreError>;

    /// Removes a run, with all that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; [`StoreError::Owned`]: it is unfinished and a living host has it.
    fn remove(&self, id: &str) -> Result<(), StoreError>;

    /// Removes the ended runs that are too old or too many, with all that belongs to them, and says how many. What unfinished runs need is
    /// never removed.
    fn sweep(&self, retention: &Retention) -> Result<u64, StoreError>;

    /// Keeps a process as it is after a step whose record was appended before. Of each process the last few are kept. It does not wait, and
    /// nothing waits for it: where there is no room, or the run is none of this host's, it keeps nothing.
    fn put_snapshot(&self, run: &str, pid: u64, step: u64, key: &[u8], data: Vec<u8>);

    /// The snapshots of a run's processes, those of one process in the order of their steps.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn snapshots(&self, run: &str) -> Result<Vec<StoredSnapshot>, StoreError>;

    /// The snapshot of a process after a step; none where it is not kept.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn snapshot(&self, run: &str, pid: u64, step: u64) -> Result<Option<StoredSnapshot>, StoreError>;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
