//! What a journal reports: the durability of records, and why it fails.

use super::{Owner, Place};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Receives reports on the durability of records. The calls come from the journal's own thread, and
/// must not wait for the journal.
pub trait DurabilityListener: Send + Sync {
    /// The records of a run up to this number, counted from 1, are durable. The end of a run counts
    /// as one more.
    fn durable(&self, run: &str, record: u64);

    /// Another host owns the run: nothing that this host writes of it will be durable. Other runs
    /// continue.
    fn lost(&self, run: &str, error: &StoreError) {
        let _ = (run, error);
    }

    /// A run has a place in its concurrency group from now on, or waits for one. One that waits is
    /// owned by this host, any other perhaps by another. For a run that begins, this comes before
    /// its first record is reported.
    fn placed(&self, run: &str, place: Place) {
        let _ = (run, place);
    }

    /// Mail is stored for runs of this group, although hosts own them.
    fn group_changed(&self, group: &Arc<str>) {
        let _ = group;
    }

    /// The disk is full, or has room again. While it is full nothing becomes durable, and nothing
    /// is lost.
    fn full(&self, is_full: bool) {
        let _ = is_full;
    }

    /// A snapshot could not be stored. Nothing depends on it.
    fn snapshot_failed(&self, error: &StoreError) {
        let _ = error;
    }

    /// SQLite's log was damaged or gone when the store was opened, and whole transactions with it:
    /// they are not in the store. What remained of the log is in the file `retained`.
    fn torn(&self, retained: &Path) {
        let _ = retained;
    }

    /// The folder was in use, and the store's file is gone: the store is a new one, without the
    /// runs that were in it.
    fn recreated(&self, path: &Path) {
        let _ = path;
    }

    /// Nothing will become durable any more.
    fn failed(&self, error: &StoreError);
}

impl StoreError {
    /// A living host owns the run.
    pub(super) fn owned(run: &str, owner: Option<Owner>) -> Self {
        Self::Owned { run: run.into(), owner: owner.map(Arc::new) }
    }

    /// Returns whether the cause is the content of the file, and not the disk or a missing right:
    /// the file is damaged, or is no database.
    #[must_use]
    pub fn is_of_the_file(&self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite { error, .. } => matches!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt)
            ),
            Self::Foreign { .. } | Self::Format { .. } | Self::Damaged { .. } => true,
            _ => false,
        }
    }
}

/// Why a store cannot do what it should.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder or a file in it cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: Arc<std::io::Error>,
    },
    /// SQLite reports an error.
    #[cfg(feature = "sqlite")]
    #[error("{path}: {error}")]
    Sqlite {
        /// The file of the store.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        error: Arc<rusqlite::Error>,
    },
    /// The format of the file is unknown to this release.
    #[error("{path}: the store has format {found}, and this release reads up to {known}{}",
        .release.as_ref().map(|release| format!(": wfhost {release} can read it")).unwrap_or_default())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format that this release knows.
        known: i64,
        /// The release that can read it, if the file says so.
        release: Option<String>,
    },
    /// The file is a database of another application.
    #[error("{path}: this is not a journal of wfhost")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is gone, but SQLite's log beside it exists: the log holds the latest writes, and
    /// cannot be read alone.
    #[error("{path} is gone; the latest writes are in {log}, which cannot be read without it")]
    Lost {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// The file was removed or replaced while it was used: what was written since is lost.
    #[error("{0} was removed or replaced while it was in use")]
    Gone(PathBuf),
    /// There is a run with this id already.
    #[error("there is a run with the id {0:?} already")]
    Exists(Arc<str>),
    /// The run found no place in its concurrency group, and does not wait for one.
    #[error("the concurrency group {group:?} has no place: {run:?} has it")]
    NoPlace {
        /// The group.
        group: Arc<str>,
        /// The run that has the place longest, or waits longest.
        run: Arc<str>,
    },
    /// As many runs wait for a place in the concurrency group as may.
    #[error("{waiting} runs wait for a place in the concurrency group {group:?}, as many as may")]
    QueueFull {
        /// The group.
        group: Arc<str>,
        /// How many wait.
        waiting: u32,
    },
    /// There is no run with this id.
    #[error("there is no run with the id {0:?}")]
    Unknown(Arc<str>),
    /// A living host owns the run.
    #[error("the run {run:?} belongs to a host that is running")]
    Owned {
        /// The id of the run.
        run: Arc<str>,
        /// The host, if it is known.
        owner: Option<Arc<Owner>>,
    },
    /// The run has fewer records than requested.
    #[error("the run {run:?} has {records} durable records, and the first is needed")]
    Short {
        /// The id of the run.
        run: Arc<str>,
        /// The number of its durable records.
        records: u64,
    },
    /// The run has ended.
    #[error("the run {0:?} has ended")]
    Ended(Arc<str>),
    /// Another host has recovered the run although this one owned it.
    #[error("the run {0:?} was recovered by another host")]
    RunFenced(Arc<str>),
    /// Another host took this one for dead: other hosts may own its runs.
    #[error("another host took this one for dead")]
    HostFenced,
    /// The thread that writes has panicked.
    #[error("the journal's thread has stopped because of a defect")]
    Stopped,
    /// The records of a run are damaged. The run cannot continue; others can.
    #[error("the records of the run {run:?} are damaged: {why}")]
    Damaged {
        /// The id of the run.
        run: Arc<str>,
        /// What is wrong, and where.
        why: String,
    },
}

crate::base::report_debug::report_debug!(StoreError);
