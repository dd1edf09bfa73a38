//! Which host owns a run: recovering runs, and fencing dead hosts, each in one write transaction.

use super::error::sqlite;
use super::queue::KnownRun;
use super::read::read;
use super::rows::{RunRow, run_row, saved};
use super::run_log::{RunLog, bytes_of};
use super::{Sqlite, StoreError, inbox};
use crate::journal::{Owner, RecoveredRun};
use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use std::collections::HashMap;
use std::sync::Arc;

impl Sqlite {
    pub(super) fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError> {
        let fails = sqlite(self.0.path());
        let host = self.0.host()?;
        loop {
            // The wait is before the connection is locked: the writer notifies runs meanwhile, and
            // those may want to read.
            if self.0.owns(id) {
                return Err(self.owned_here(id));
            }
            let mut db = self.0.reader();
            if self.0.shared.queue.lock().key_of(id).is_some() {
                continue;
            }
            // Nothing leaves the host for a run before a later record of it is durable, and what
            // was written to the file before is durable then too: so this commit need not be
            // synced.
            db.pragma_update(None, "synchronous", "NORMAL").map_err(&fails)?;
            let owned = self.own(&mut db, id, host);
            db.pragma_update(None, "synchronous", "FULL").map_err(&fails)?;
            let (run, epoch) = owned?;
            let records = self.records_or_release(&db, &run, id)?;
            let inbox = inbox::pending(&db, run.row).map_err(&fails)?;
            let manifest = db.query_row("SELECT about FROM about WHERE run = ?1", [run.row], |row| row.get(0));
            let name = db.query_row("SELECT name FROM run WHERE run = ?1", [run.row], |row| row.get::<_, String>(0));
            let known = KnownRun {
                id: id.into(),
                name: name.map_err(&fails)?.into(),
                row: Some(run.row),
                created: run.created,
                epoch,
                head: run.head,
                durable: records.len() as u64,
                new: None,
                group: run.group.clone(),
                shared_row: Arc::new(run.row.into()),
                parked: false,
                lost: false,
            };
            let key =
                self.0.add(known).expect("invariant: only a thread with the connection adds a run that has a row");
            let log = Box::new(RunLog::new(&self.0, key, id.into(), bytes_of(&records)).waiting(run.queued));
            return Ok(RecoveredRun { log, records, inbox, manifest: manifest.map_err(&fails)? });
        }
    }

    /// The error for a run that this host owns. It takes the lock of its number, which comes before
    /// that of the reader's connection.
    pub(super) fn owned_here(&self, id: &str) -> StoreError {
        let address = self.0.address.lock().clone();
        let owner = self.0.registered().map(|host| Owner {
            host: host.cast_unsigned(),
            name: None,
            pid: Some(std::process::id()),
            address,
            alive: true,
        });
        StoreError::owned(id, owner)
    }

    /// Reads the records of a run that this host owns since just now. If they cannot be read, no
    /// host owns it then, and its last row is known.
    fn records_or_release(&self, db: &Connection, run: &RunRow, id: &str) -> Result<Vec<Bytes>, StoreError> {
        let error = match read(db, run) {
            Ok(records) => return Ok(records),
            Err(error) => error.of(id, self.0.path()),
        };
        let damage = if let StoreError::Damaged { why, .. } = &error { Some(why) } else { None };
        let _write_lock = self.0.write_lock();
        db.execute("UPDATE run SET owner = NULL, damage = ?2 WHERE run = ?1", params![run.row, damage])
            .map_err(sqlite(self.0.path()))?;
        Err(error)
    }

    pub(super) fn note_damage(&self, id: &str, why: &str) -> Result<(), StoreError> {
        self.0.beside(|| {
            let db = self.0.reader();
            let _write_lock = self.0.write_lock();
            db.execute("UPDATE run SET damage = ?2 WHERE id = ?1 AND damage IS NOT ?2", params![id, why])
                .map_err(sqlite(self.0.path()))?;
            Ok(())
        })
    }

    /// Makes this host the owner of a run that no living host owns. Returns its row as it was
    /// found, and its epoch now.
    fn own(&self, db: &mut Connection, id: &str, host: i64) -> Result<(RunRow, i64), StoreError> {
        let fails = sqlite(self.0.path());
        let _write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let found = self.without_owner(&change, id, host)?;
        if found.ended {
            return Err(StoreError::Ended(id.into()));
        }
        let epoch = found.epoch + 1;
        change
            .prepare_cached("UPDATE run SET owner = ?2, epoch = ?3, damage = NULL, wake = NULL WHERE run = ?1")
            .and_then(|mut update| update.execute(params![found.row, host, epoch]))
            .map_err(&fails)?;
        change.commit().map_err(&fails)?;
        Ok((found, epoch))
    }

    /// Reads the row of a run that no living host owns. A dead owner is fenced.
    pub(super) fn without_owner(&self, change: &Transaction<'_>, id: &str, host: i64) -> Result<RunRow, StoreError> {
        let find = || {
            let found = run_row(change, id).map_err(sqlite(self.0.path()))?;
            found.ok_or_else(|| StoreError::Unknown(id.into()))
        };
        let run = find()?;
        if run.parked {
            let owner = self.0.locks.owner_or_heir(change, run.owner, true, self.0.path())?;
            return match owner {
                Some(owner) if owner.alive && owner.host.cast_signed() != host => {
                    Err(StoreError::owned(id, Some(owner)))
                }
                // What is parked is exact, and each recovery fences its former owner.
                _ => Ok(run),
            };
        }
        // A run that this host owns and does not know is one that it failed to recover.
        let Some(owner) = run.owner.filter(|owner| *owner != host) else { return Ok(run) };
        if self.0.locks.is_alive(owner)? {
            let owner = self.0.locks.owner(change, owner, self.0.path())?;
            return Err(StoreError::owned(id, Some(owner)));
        }
        fence(change, owner).map_err(sqlite(self.0.path()))?;
        find()
    }
}

/// Fences a dead host, and releases its runs but those that are parked: nothing is written for
/// them, however many they are. The last rows of the others are found in one pass over the end of
/// the log: one pass for each run would cost the square of their number.
pub(super) fn fence(change: &Connection, host: i64) -> rusqlite::Result<()> {
    if change.execute("UPDATE host SET buried = 1 WHERE host = ?1 AND buried = 0", [host])? == 0 {
        return Ok(());
    }
    let mut select =
        change.prepare("SELECT run, head, records FROM run INDEXED BY run_owner WHERE owner = ?1 AND wake IS NULL")?;
    let rows = select.query_map([host], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    let mut runs: HashMap<i64, (i64, i64)> = rows.collect::<Result<_, _>>()?;
    if runs.is_empty() {
        return Ok(());
    }
    let mut select = change.prepare("SELECT id, run, seq FROM log WHERE id > ?1 ORDER BY id")?;
    let mut rows = select.query([saved(change, host)?])?;
    while let Some(row) = rows.next()? {
        if let Some(last) = runs.get_mut(&row.get(1)?) {
            *last = (row.get(0)?, row.get(2)?);
        }
    }
    let mut release = change.prepare("UPDATE run SET owner = NULL, head = ?2, records = ?3 WHERE run = ?1")?;
    for (run, (head, records)) in runs {
        release.execute([run, head, records])?;
    }
    Ok(())
}
