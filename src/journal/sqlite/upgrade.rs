//! Making a run one of another version of its workflow.

use super::batch::seal;
use super::error::{ReadError, sqlite};
use super::group::write_more;
use super::rows::{head, log_row};
use super::{Sqlite, StoreError, batch, blob};
use crate::journal::RunUpgrade;
use rusqlite::{Connection, TransactionBehavior, params};
use std::slice::from_ref;

impl Sqlite {
    /// One transaction has the record and all that it says: a crash leaves the one version or the
    /// other.
    pub(super) fn upgrade(&self, id: &str, upgrade: &RunUpgrade) -> Result<bool, StoreError> {
        let fails = sqlite(self.0.path());
        let host = self.0.host()?;
        // The wait is before the connection is locked, as where a run is recovered.
        if self.0.owns(id) {
            return Err(self.owned_here(id));
        }
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().key_of(id).is_some() {
            drop(db);
            return Err(self.owned_here(id));
        }
        let write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let mut run = self.without_owner(&change, id, host)?;
        if run.ended {
            return Err(StoreError::Ended(id.into()));
        }
        run.head = head(&change, &run).map_err(&fails)?;
        let records = records_until(&change, run.head).map_err(|error| error.of(id, self.0.path()))?;
        if records != upgrade.records {
            return Ok(false);
        }
        let sealed = seal(from_ref(&upgrade.record));
        write_more(&change, (run.row, run.head), upgrade.records, &sealed).map_err(&fails)?;
        replace(&change, run.row, upgrade).map_err(&fails)?;
        change.commit().map_err(&fails)?;
        drop((write_lock, db));
        self.0.shared.listener.durable(id, upgrade.records + 1);
        Ok(true)
    }
}

/// The number of the last record of a run, by its last row.
fn records_until(db: &Connection, head: i64) -> Result<u64, ReadError> {
    if head == 0 {
        return Ok(0);
    }
    let row = log_row(db, head)?;
    let records = batch::open(&row.data.into(), |hash| blob::read(db, hash))?;
    Ok(row.seq.cast_unsigned() - 1 + records.len() as u64)
}

/// Replaces what a host needs to recover a run.
fn replace(change: &Connection, row: i64, upgrade: &RunUpgrade) -> rusqlite::Result<()> {
    let version = upgrade.version.map(u64::cast_signed);
    change.prepare_cached("UPDATE about SET about = ?2 WHERE run = ?1")?.execute(params![row, upgrade.manifest])?;
    change
        .prepare_cached("UPDATE run SET version = ?2, damage = NULL WHERE run = ?1")?
        .execute(params![row, version])?;
    change.prepare_cached("DELETE FROM run_component WHERE run = ?1")?.execute([row])?;
    let mut names = change.prepare_cached("INSERT OR IGNORE INTO run_component (run, hash) VALUES (?1, ?2)")?;
    for hash in &upgrade.components {
        names.execute(params![row, &**hash])?;
    }
    Ok(())
}
