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
//! [`open`] makes one, and is the one place that names an engine. What a service stores beside the
//! runs is in [`catalog`]; what is only about a file is a [`JournalFile`].
//!
//! The trait is on the level of runs, so that each journal brings the group commit that fits it:
//! SQLite one transaction at a time, a server several. Ownership here is by run and host, which a
//! server's journal maps to its shards and leases: the questions are the same.

#[cfg(feature = "sqlite")]
pub(crate) mod blobs;
pub mod catalog;
pub(crate) mod component;
mod error;
#[cfg(feature = "sqlite")]
mod file;
mod in_memory;
#[cfg(feature = "sqlite")]
pub(crate) mod layout;
mod memory;
#[cfg(feature = "sqlite")]
mod open;
mod owner;
mod place;
mod run_snapshots;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod statistics;
mod stored;
mod wanted;

pub use component::{COMPONENT_BYTES_MAX, ComponentStoreError};
pub use error::{DurabilityListener, StoreError};
#[cfg(feature = "sqlite")]
pub use file::{CopyContents, CopyError, JournalFile};
pub use in_memory::InMemory;
pub use memory::{Memory, Nothing};
#[cfg(feature = "sqlite")]
pub use open::{Location, check_copy, is_lost, open};
pub use owner::{Address, Owner};
pub use place::{GroupEntry, Place, QueuePlace, RunInGroup};
#[cfg(feature = "wasm")]
pub(crate) use sqlite::ComponentStore;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "sqlite")]
pub use sqlite::step_cache::{CacheBounds, CacheCounts, CacheEntry, Found, NewEntry, Question, Removal, StepCache};
#[cfg(feature = "sqlite")]
pub use statistics::{JournalStatistics, RunStatistics};
#[cfg(feature = "sqlite")]
pub(crate) use stored::pattern_fits;
pub use stored::{
    Filter, ListPlace, MAIL_BYTES_MAX, NewRun, Posted, RecoveredRun, Retention, RunUpgrade, Stored, StoredSnapshot,
};
pub use wanted::{TakesWanted, Wanted, WantedWatch, WantedWhy};

use crate::process::Pid;
use crate::run::{BlobStore, Log, Mail, SnapshotEntry, SnapshotStore};
use bytes::Bytes;
use std::sync::Arc;

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

    /// As [`Self::flush`], but does not wait for room on a full disk. Returns false if the disk is
    /// full, and what was appended last is not durable.
    ///
    /// # Errors
    /// It never will be durable; also if the journal's files were removed or replaced, and what was
    /// durable is gone with them.
    fn flush_while_room(&self) -> Result<bool, StoreError> {
        self.flush().map(|()| true)
    }

    /// Stops waiting for room on a full disk: what is not durable by now never will be.
    fn give_up(&self) {}

    /// Returns whether the disk is full, and the journal waits for room.
    fn is_full(&self) -> bool {
        false
    }

    /// Brings what is stored into order. Call it before a process ends without dropping its
    /// journals: a folder's records otherwise stand in two files until a process opens them again,
    /// and losing one of the files, or a bit of it, loses more than that. Nothing depends on it,
    /// and it waits for nothing.
    fn settle(&self) {}

    /// Returns what this process has counted since it opened the journal.
    #[cfg(feature = "sqlite")]
    fn statistics(&self) -> JournalStatistics {
        JournalStatistics::default()
    }

    /// Returns the journal as a file, if it is one.
    #[cfg(feature = "sqlite")]
    fn file(&self) -> Option<&dyn JournalFile> {
        None
    }

    /// Returns a run; `None` if there is no run with this id.
    fn run(&self, id: &str) -> Result<Option<Stored>, StoreError>;

    /// Returns the manifest that a run began with; `None` if there is no run with this id.
    fn manifest(&self, id: &str) -> Result<Option<String>, StoreError>;

    /// Returns the runs that fit a filter, the newest first.
    fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError>;

    /// Returns how many runs fit a filter; it counts no further than its limit.
    fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// Returns the unfinished runs, the oldest first.
    fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        let mut runs = self.list(&Filter { ended: Some(false), ..Filter::default() })?;
        runs.reverse();
        Ok(runs)
    }

    /// Returns the ids with this prefix, in their order, at most `most`.
    fn ids(&self, prefix: &str, most: u32) -> Result<Vec<Arc<str>>, StoreError> {
        let fitting = self.list(&Filter { id_prefix: Some(prefix.to_owned()), ..Filter::default() })?;
        let mut ids: Vec<_> = fitting.into_iter().map(|run| run.id).collect();
        ids.sort();
        ids.truncate(most as usize);
        Ok(ids)
    }

    /// Returns the BLAKE3 of the components that runs name, in hexadecimal and in their order, each
    /// with one of these runs.
    fn components_named(&self) -> Result<Vec<(String, Arc<str>)>, StoreError>;

    /// Stores a component. `hash` is the BLAKE3 of its bytes in hexadecimal, which are at most
    /// [`COMPONENT_BYTES_MAX`]. It is durable when this returns, and stays while a run or a version
    /// names it, and a while in any case. One that is damaged is replaced.
    ///
    /// # Errors
    /// The bytes have another digest; or they cannot be written.
    fn put_component(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads a stored component. Its digest is checked at each read: a disk, or a person, may have
    /// changed it.
    ///
    /// # Errors
    /// It is not stored, or is not what its digest says.
    fn component(&self, hash: &str) -> Result<Bytes, ComponentStoreError>;

    /// Returns the number of bytes of a stored component; `None` if there is none, or the text is
    /// no BLAKE3 in hexadecimal. It stays for a while from now on.
    fn component_bytes(&self, hash: &str) -> Option<u64>;

    /// Returns the blobs of its runs, which do not hold the journal open. `None` if it stores none.
    fn blobs(&self) -> Option<Arc<dyn BlobStore>> {
        None
    }

    /// Returns the unfinished runs that no living host has, the oldest first.
    fn orphans(&self) -> Result<Vec<Stored>, StoreError> {
        let mut orphans = Vec::new();
        for run in self.unfinished()? {
            if self.is_free(&run.id)? {
                orphans.push(run);
            }
        }
        Ok(orphans)
    }

    /// Returns whether this host may recover a run: it is unfinished, and no living host owns it,
    /// or this one has it as the heir. False if there is no such run.
    fn is_free(&self, id: &str) -> Result<bool, StoreError> {
        let is_unfinished = self.run(id)?.is_some_and(|run| run.status.is_none());
        Ok(is_unfinished && self.owner_of(id)?.is_none_or(|owner| !owner.alive))
    }

    /// Passes on the runs that want a host now before it returns, and later ones on a thread, as
    /// soon as they do, until what it returns is dropped. If it cannot be seen any more which do,
    /// that error is passed on.
    ///
    /// # Errors
    /// The journal cannot be read or written, or there is no thread.
    fn watch_wanted(&self, take: Box<dyn TakesWanted>) -> Result<Box<dyn WantedWatch>, StoreError>;

    /// Counts the parked runs whose host is gone, by an entry of an index for each.
    fn inherited(&self) -> Result<u64, StoreError>;

    /// Returns the hosts that live and have begun or recovered a run.
    fn hosts(&self) -> Result<Vec<Owner>, StoreError>;

    /// Returns the host that owns a run; `None` if no host does.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError>;

    /// Records where this host listens, so that other hosts and processes find it by its runs.
    fn set_address(&self, address: &Address) -> Result<(), StoreError>;

    /// Stores mail for a run that no living host owns.
    fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError>;

    /// Returns the mail of a run that is in none of its records, in the order in which it came.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn inbox_of(&self, run: &str) -> Result<Vec<Mail>, StoreError>;

    /// Tells the hosts that there is mail for runs that no living host owns. It is a hint: they
    /// find it later in any case.
    fn announce_mail(&self) {}

    /// Returns the runs of this host that wait for a place, each with its concurrency group.
    fn queued(&self) -> Result<Vec<RunInGroup>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the mail of the unfinished runs of a concurrency group that is in none of their
    /// records: those that a host owns have to be told of it.
    fn mail_in(&self, group: &str) -> Result<Vec<(Arc<str>, Mail)>, StoreError> {
        let _ = group;
        Ok(Vec::new())
    }

    /// Returns the place of a run in the queue of its concurrency group; `None` if it does not
    /// wait.
    ///
    /// # Errors
    /// [`StoreError::Unknown`].
    fn queue_place(&self, id: &str) -> Result<Option<QueuePlace>, StoreError> {
        self.run(id)?.map(|_| None).ok_or_else(|| StoreError::Unknown(id.into()))
    }

    /// Notes that a run was found damaged: lists show it until the run can be recovered.
    fn note_damage(&self, id: &str, why: &str) -> Result<(), StoreError>;

    /// Makes a new run with its first records, all or nothing: they are durable when this returns.
    /// No host owns it: it continues when it is recovered.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::Short`]: there is no record;
    /// [`StoreError::NoPlace`] and [`StoreError::QueueFull`]: its concurrency group has no room.
    fn create(&self, run: &NewRun, records: &[Bytes]) -> Result<(), StoreError>;

    /// Makes a new run of the first `records` records of another, as [`Self::create`] does. `first`
    /// replaces the first record, which names the run.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::Damaged`], [`StoreError::Exists`];
    /// [`StoreError::Short`]: it has fewer durable records.
    fn fork(&self, from: &str, run: &NewRun, records: u64, first: &[u8]) -> Result<(), StoreError> {
        let mut all = self.records(from)?;
        if records == 0 || records > all.len() as u64 {
            return Err(StoreError::Short { run: from.into(), records: all.len() as u64 });
        }
        all.truncate(records as usize);
        all[0] = Bytes::copy_from_slice(first);
        self.create(run, &all)
    }

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

    /// Returns the snapshots of a run, which do not hold the journal open.
    fn snapshot_store(&self, run: &str) -> Arc<dyn SnapshotStore>;

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
