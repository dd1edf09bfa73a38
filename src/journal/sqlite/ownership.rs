//! Taking runs up, copying them and removing them: what changes who has a run, each in one write transaction.

use super::group::write_whole;
use super::inbox::mail;
use super::queue::Known;
use super::read::{Place, head, place, read, saved};
use super::schema::sqlite;
use super::{RunLog, Sqlite, StoreError, archive, blob, bytes_of};
use crate::journal::{NewRun, RecoveredRun};
use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use std::collections::HashMap;
use std::sync::Arc;

/// Removes a run, with all that belongs to it but its snapshots.
pub(super) fn delete(change: &Connection, place: &Place) -> rusqlite::Result<()> {
    archive::remove(change, place)?;
    blob::release(change, place.run)?;
    for table in ["inbox", "about", "run_component", "run"] {
        change.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([place.run])?;
    }
    Ok(())
}

impl Sqlite {
    pub(super) fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError> {
        let fails = sqlite(self.0.path());
        let host = self.0.host()?;
        loop {
            // The wait is before the connection is locked: the writer tells runs meanwhile, and those may want to read.
            if self.0.has(id) {
                return Err(StoreError::Owned(id.into()));
            }
            let mut db = self.0.reader();
            if self.0.shared.queue.lock().has(id).is_some() {
                continue;
            }
            // Nothing leaves for a run before a later record of it is durable, and what was written to the file before is durable then too:
            // so this commit need not be synced.
            db.pragma_update(None, "synchronous", "NORMAL").map_err(&fails)?;
            let owned = self.own(&mut db, id, host);
            db.pragma_update(None, "synchronous", "FULL").map_err(&fails)?;
            let (place, epoch) = owned?;
            let records = match read(&db, &place) {
                Ok(records) => records,
                Err(trouble) => {
                    // It is nobody's then, and its last row is known.
                    let error = trouble.of(id, self.0.path());
                    let damage = if let StoreError::Damaged { why, .. } = &error { Some(why) } else { None };
                    let _pen = self.0.pen();
                    db.execute("UPDATE run SET owner = NULL, damage = ?2 WHERE run = ?1", params![place.run, damage])
                        .map_err(&fails)?;
                    return Err(error);
                }
            };
            let inbox = mail(&db, place.run).map_err(&fails)?;
            let manifest = db.query_row("SELECT about FROM about WHERE run = ?1", [place.run], |row| row.get(0));
            let known = Known {
                id: id.into(),
                row: Some(place.run),
                created: place.created,
                epoch,
                head: place.head,
                durable: records.len() as u64,
                new: None,
                seat: Arc::new(place.run.into()),
                lost: false,
            };
            let run = self
                .0
                .know(known)
                .expect("invariant: whoever makes a run known of which there is a row has the connection");
            let log = Box::new(RunLog::new(&self.0, run, id.into(), bytes_of(&records)));
            return Ok(RecoveredRun { log, records, inbox, manifest: manifest.map_err(&fails)? });
        }
    }

    /// Notes that a run was found damaged: lists say so until it can be taken up.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn note_damage(&self, id: &str, why: &str) -> Result<(), StoreError> {
        self.0.beside(|| {
            let db = self.0.reader();
            let _pen = self.0.pen();
            db.execute("UPDATE run SET damage = ?2 WHERE id = ?1 AND damage IS NOT ?2", params![id, why])
                .map_err(sqlite(self.0.path()))?;
            Ok(())
        })
    }

    /// Makes this host the owner of a run that no living one has. Gives where it was found, and its epoch now.
    fn own(&self, db: &mut Connection, id: &str, host: i64) -> Result<(Place, i64), StoreError> {
        let fails = sqlite(self.0.path());
        let _pen = self.0.pen();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let found = self.free(&change, id, host)?;
        if found.ended {
            return Err(StoreError::Ended(id.into()));
        }
        let epoch = found.epoch + 1;
        change
            .prepare_cached("UPDATE run SET owner = ?2, epoch = ?3, damage = NULL WHERE run = ?1")
            .and_then(|mut update| update.execute(params![found.run, host, epoch]))
            .map_err(&fails)?;
        change.commit().map_err(&fails)?;
        Ok((found, epoch))
    }

    /// A run that no living host has; a dead one that had it is buried.
    fn free(&self, change: &Transaction<'_>, id: &str, host: i64) -> Result<Place, StoreError> {
        let fails = sqlite(self.0.path());
        let place = place(change, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        // A run of this host's own that it does not know is one that it failed to take up.
        if let Some(owner) = place.owner.filter(|owner| *owner != host) {
            if self.0.locks.is_alive(owner)? {
                return Err(StoreError::Owned(id.into()));
            }
            bury(change, owner).map_err(&fails)?;
            return super::read::place(change, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()));
        }
        Ok(place)
    }

    pub(super) fn remove(&self, id: &str) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().has(id).is_some() {
            return Err(StoreError::Owned(id.into()));
        }
        let _pen = self.0.pen();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let mut place = self.free(&change, id, 0)?;
        place.head = head(&change, &place).map_err(&fails)?;
        delete(&change, &place).map_err(&fails)?;
        change.commit().map_err(&fails)?;
        self.0.snapshots().forget(place.run)
    }

    pub(super) fn fork(&self, from: &str, run: &NewRun, records: u64, first: &[u8]) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        let mut all = self.0.records(from)?;
        if records == 0 || records > all.len() as u64 {
            return Err(StoreError::Short { run: from.into(), records: all.len() as u64 });
        }
        all.truncate(records as usize);
        all[0] = Bytes::copy_from_slice(first);
        let mut db = self.0.reader();
        if self.0.shared.queue.lock().has(&run.id).is_some() {
            return Err(StoreError::Exists(Arc::clone(&run.id)));
        }
        let _pen = self.0.pen();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        if !write_whole(&change, run, &all).map_err(&fails)? {
            return Err(StoreError::Exists(Arc::clone(&run.id)));
        }
        change.commit().map_err(&fails)
    }
}

/// Says that a host is dead, and that its runs are nobody's. Their last rows are found in one pass over the end of the log: one for each run
/// would cost the square of their number.
fn bury(change: &Connection, host: i64) -> rusqlite::Result<()> {
    change.execute("UPDATE host SET buried = 1 WHERE host = ?1", [host])?;
    let mut select = change.prepare("SELECT run, head, records FROM run WHERE owner = ?1")?;
    let rows = select.query_map([host], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    let mut runs: HashMap<i64, (i64, i64)> = rows.collect::<Result<_, _>>()?;
    let mut select = change.prepare("SELECT id, run, seq FROM log WHERE id > ?1 ORDER BY id")?;
    let mut rows = select.query([saved(change, host)?])?;
    while let Some(row) = rows.next()? {
        if let Some(last) = runs.get_mut(&row.get(1)?) {
            *last = (row.get(0)?, row.get(2)?);
        }
    }
    let mut leave = change.prepare("UPDATE run SET owner = NULL, head = ?2, records = ?3 WHERE run = ?1")?;
    for (run, (head, records)) in runs {
        leave.execute([run, head, records])?;
    }
    Ok(())
}
