//! What is only about a journal that is a file: checking and copying it.

use super::StoreError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A journal that is a file of a folder. A journal on a server has none: its server checks and
/// copies what it stores.
#[allow(clippy::missing_errors_doc, reason = "each fails if the file cannot be read, or the copy not be written")]
pub trait JournalFile {
    /// The path of the file.
    fn path(&self) -> PathBuf;

    /// Returns the format of the file.
    fn format(&self) -> Result<i64, StoreError>;

    /// Returns what is wrong with the file itself, at most this many findings. It reads the whole
    /// file, and cannot find a record whose bytes were changed and then stored well.
    fn check(&self, most: u32) -> Result<Vec<String>, StoreError>;

    /// Returns the logs of the file that were damaged or gone when it was opened, each with the
    /// number of transactions that are behind the damage and not in the journal; 0 if they are
    /// lost.
    fn torn(&self) -> Result<Vec<(PathBuf, u64)>, StoreError>;

    /// Copies the file as it is now; in the copy no host owns a run. `progress` gets the bytes that
    /// are copied, and how many there are. The copy is complete and not yet synced when it returns.
    fn copy_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<CopyContents, StoreError>;

    /// Copies the file of snapshots as it is now. Returns false if there is none. It must be copied
    /// before the journal: a snapshot of a step that is not in the journal would be one of another
    /// future.
    fn copy_snapshots_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, StoreError>;
}

/// What a copy of a journal's file has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyContents {
    /// The number of runs.
    pub runs: u64,
    /// The number of those that have not ended.
    pub unfinished: u64,
    /// The BLAKE3 of the components that its runs and deployed workflows name, in hexadecimal.
    pub components: BTreeSet<String>,
    /// The BLAKE3 of the blobs that its runs hold, in hexadecimal.
    pub blobs: BTreeSet<String>,
}

/// Why a copy cannot be used.
#[derive(Debug)]
pub enum CopyError {
    /// It cannot be read.
    Store(StoreError),
    /// What is wrong with its file.
    Damaged(String),
}
