//! Copying the first records of a run into a new run.

use super::error::sqlite;
use super::group::write_whole;
use super::{Sqlite, StoreError};
use crate::journal::NewRun;
use bytes::Bytes;
use rusqlite::TransactionBehavior;
use std::sync::Arc;

impl Sqlite {
    pub(super) fn fork(&self, from: &str, run: &NewRun, records: u64, first: &[u8]) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        let mut all = self.0.records(from)?;
        if records == 0 || records > all.len() as u64 {
            return Err(StoreError::Short { run: from.into(), records: all.len() as u64 });
        }
        all.truncate(records as usize);
        all[0] = Bytes::copy_from_slice(first);
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().key_of(&run.id).is_some() {
            return Err(StoreError::Exists(Arc::clone(&run.id)));
        }
        let write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let changed = write_whole(&change, run, &all).map_err(&fails)??;
        change.commit().map_err(&fails)?;
        drop((write_lock, db));
        if let Some(group) = changed {
            self.0.shared.listener.group_changed(&group);
        }
        Ok(())
    }
}
