//! Why the file cannot be used, or a run in it cannot be read.

use super::StoreError;
use std::path::Path;
use std::sync::Arc;

/// Maps an error of SQLite with this file.
pub(super) fn sqlite(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |error| StoreError::Sqlite { path: path.clone(), error: Arc::new(error) }
}

/// Maps an error of the operating system with this file.
pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |error| StoreError::Io { path: path.clone(), error: Arc::new(error) }
}

/// Why records cannot be read.
pub(super) enum ReadError {
    Sqlite(rusqlite::Error),
    Damaged(String),
}

impl ReadError {
    /// The same for a run of this file.
    pub(super) fn of(self, run: &str, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => sqlite(path)(error),
            Self::Damaged(why) => StoreError::Damaged { run: run.into(), why },
        }
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<String> for ReadError {
    fn from(why: String) -> Self {
        Self::Damaged(why)
    }
}
