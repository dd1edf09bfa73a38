//! Opening a journal: the one place that names an engine.

use super::catalog::Catalog;
use super::{CopyContents, CopyError, DurabilityListener, Sqlite, StoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a journal is, which says of which engine it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Location {
    /// A folder on this machine: SQLite.
    Folder(PathBuf),
}

impl<T: Into<PathBuf>> From<T> for Location {
    fn from(folder: T) -> Self {
        Self::Folder(folder.into())
    }
}

/// Opens a journal. A folder is made if it does not exist, and several processes may have it open.
/// A process becomes one of its hosts when it first begins or recovers a run.
///
/// # Errors
/// Fails if the journal cannot be used, or is of another release.
pub fn open(location: &Location, listener: Arc<dyn DurabilityListener>) -> Result<Arc<dyn Catalog>, StoreError> {
    match location {
        Location::Folder(folder) => Ok(Arc::new(Sqlite::open(folder, listener)?)),
    }
}

/// Returns whether a folder was in use and has lost its journal. Makes and opens nothing.
///
/// # Errors
/// Fails if SQLite's log is still there: it holds the latest writes, and the journal is not opened
/// without its file.
pub fn is_lost(folder: &Path) -> Result<bool, StoreError> {
    Sqlite::is_lost(folder)
}

/// Checks a copy of a journal's file: its format, and what SQLite finds.
///
/// # Errors
/// Fails if it is damaged, or is not a journal that this release can open.
pub fn check_copy(path: &Path) -> Result<CopyContents, CopyError> {
    Sqlite::check_copy(path)
}
