//! Removing a run.

use super::error::{io, sqlite};
use super::places::admit;
use super::rows::{RunRow, head};
use super::{Sqlite, StoreError, archive, blob, blob_holders};
use crate::journal::layout;
use rusqlite::{Connection, TransactionBehavior};

/// Removes a run, with everything that belongs to it but its snapshots.
pub(super) fn remove_rows(change: &Connection, run: &RunRow) -> rusqlite::Result<()> {
    archive::remove(change, run)?;
    blob::remove(change, run.row)?;
    blob_holders::remove(change, run.row)?;
    for table in ["inbox", "about", "run_component", "label", "waiting", "run"] {
        change.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([run.row])?;
    }
    Ok(())
}

impl Sqlite {
    pub(super) fn remove(&self, id: &str) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        let folder = self.0.path().with_file_name(layout::BLOBS);
        let unswept = |error| io(&folder)(std::io::Error::other(error));
        let held = self.blobs().hashes_of(id).map_err(unswept)?;
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().key_of(id).is_some() {
            drop(db);
            return Err(self.owned_here(id));
        }
        let write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let mut run = self.without_owner(&change, id, 0)?;
        run.head = head(&change, &run).map_err(&fails)?;
        remove_rows(&change, &run).map_err(&fails)?;
        let group = run.group.filter(|_| !run.ended);
        let admitted = group.map_or_else(|| Ok(Vec::new()), |group| admit(&change, &group)).map_err(&fails)?;
        change.commit().map_err(&fails)?;
        drop((write_lock, db));
        self.0.shared.report_admitted(&admitted);
        self.0.snapshots().remove(run.row)?;
        // If that fails, the next sweep removes them.
        self.blobs().remove_if_unheld(&held).map_err(unswept)
    }
}
