//! Why a journal does not do what it should, and who is told what became of records.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who is told what became of records. The calls come from the journal's own thread: they do not wait for the journal.
pub trait DurabilityListener: Send + Sync {
    /// The records of a run up to this number, counted from 1, are durable. The end of a run counts as one more.
    fn durable(&self, run: &str, record: u64);

    /// A run belongs to somebody else: nothing that this host writes of it will be durable. Others go on.
    fn lost(&self, run: &str, error: &StoreError) {
        let _ = (run, error);
    }

    /// The disk is full, or has room again. While it is full nothing becomes durable, and nothing is lost.
    fn full(&self, is_full: bool) {
        let _ = is_full;
    }

    /// A snapshot could not be kept. Nothing depends on it.
    fn snapshot_failed(&self, error: &StoreError) {
        let _ = error;
    }

    /// SQLite's log was damaged or gone when the store was opened, and whole transactions with it: they are not in the store. What there was of
    /// the log is kept there.
    fn torn(&self, kept: &Path) {
        let _ = kept;
    }

    /// The folder was in use, and the store's file is gone: the store is a new one, without the runs that were in it.
    fn recreated(&self, path: &Path) {
        let _ = path;
    }

    /// Nothing will become durable any more.
    fn failed(&self, error: &StoreError);
}

impl StoreError {
    /// Whether it is what stands in the file, and not the disk or who may use it: the file is damaged, or is no database.
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

/// Why a store does not do what it should.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder or a file in it cannot be used.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<std::io::Error>,
    },
    /// SQLite says no.
    #[cfg(feature = "sqlite")]
    #[error("{path}: {error}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<rusqlite::Error>,
    },
    /// The file is of a release that this one does not know.
    #[error("{path}: the store has format {found}, and this release reads up to {known}{}",
        .release.as_ref().map(|release| format!(": wfhost {release} can read it")).unwrap_or_default())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// What this release knows.
        known: i64,
        /// The release that can read it, where the file says so.
        release: Option<String>,
    },
    /// The file is a database of something else.
    #[error("{path}: this is no journal of wfhost's")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is not there, and SQLite's log beside it is: it has what was written last, and is of no use alone.
    #[error("{path} is gone, and what was written last is in {log}, which is of no use without it")]
    Lost {
        /// The file.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// Somebody has removed the file, or put another in its place, while it was used: what was written since is lost.
    #[error("{0} was removed or replaced while it was used")]
    Gone(PathBuf),
    /// There is a run of that id.
    #[error("there is a run with the id {0:?} already")]
    Exists(Arc<str>),
    /// There is no run of that id.
    #[error("there is no run with the id {0:?}")]
    Unknown(Arc<str>),
    /// A living host has the run.
    #[error("the run {0:?} belongs to a host that is running")]
    Owned(Arc<str>),
    /// The run has fewer records than are asked for.
    #[error("the run {run:?} has {records} durable records, and the first is needed")]
    Short {
        /// The run.
        run: Arc<str>,
        /// How many it has.
        records: u64,
    },
    /// The run has ended.
    #[error("the run {0:?} has ended")]
    Ended(Arc<str>),
    /// Somebody else has taken up the run although this host had it.
    #[error("the run {0:?} was taken up by another host")]
    RunFenced(Arc<str>),
    /// Another host took this one for dead: its runs may be anybody's.
    #[error("another host took this one for dead")]
    HostFenced,
    /// The thread that writes has panicked.
    #[error("the journal's thread has stopped by a defect")]
    Stopped,
    /// The records of a run are damaged. The run cannot go on; others can.
    #[error("the records of the run {run:?} are damaged: {why}")]
    Damaged {
        /// The run.
        run: Arc<str>,
        /// What is wrong, and where.
        why: String,
    },
}
