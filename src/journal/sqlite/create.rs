//! Making a run that no host owns.

use super::error::sqlite;
use super::group::write_whole;
use super::{Sqlite, StoreError};
use crate::journal::NewRun;
use bytes::Bytes;
use rusqlite::TransactionBehavior;
use std::sync::Arc;

impl Sqlite {
    /// One transaction has the run and all its records.
    pub(super) fn create(&self, run: &NewRun, records: &[Bytes]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Err(StoreError::Short { run: Arc::clone(&run.id), records: 0 });
        }
        let fails = sqlite(self.0.path());
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().key_of(&run.id).is_some() {
            return Err(StoreError::Exists(Arc::clone(&run.id)));
        }
        let write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let changed = write_whole(&change, run, records).map_err(&fails)??;
        change.commit().map_err(&fails)?;
        drop((write_lock, db));
        if let Some(group) = changed {
            self.0.shared.listener.group_changed(&group);
        }
        Ok(())
    }
}
