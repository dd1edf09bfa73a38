//! The store as a [`JournalFile`].

use super::{Sqlite, StoreError};
use crate::journal::{CopyContents, JournalFile};
use std::path::{Path, PathBuf};

impl JournalFile for Sqlite {
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn format(&self) -> Result<i64, StoreError> {
        Sqlite::format(self)
    }

    fn check(&self, most: u32) -> Result<Vec<String>, StoreError> {
        Sqlite::check(self, most)
    }

    fn torn(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        Sqlite::torn(self)
    }

    fn copy_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<CopyContents, StoreError> {
        Sqlite::copy_to(self, to, progress)
    }

    fn copy_snapshots_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, StoreError> {
        Sqlite::copy_snapshots_to(self, to, progress)
    }
}
