//! Reading the records of a run, and taking a run up.

use super::open::sqlite;
use super::{RunLog, Sqlite, StoreError, batch};
use crate::run::Log;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

/// A run that was taken up: its log, and the records so far.
pub struct TakenUp {
    /// Where its further records go.
    pub log: Box<dyn Log>,
    /// The records from the first on.
    pub records: Vec<Bytes>,
    /// What was said of it when it began.
    pub about: String,
}

/// What the table of runs says of one.
struct Known {
    run: i64,
    epoch: i64,
    head: i64,
    about: String,
}

impl Sqlite {
    /// Takes up a run that no living host has: its lock is this host's from now on, and whoever had it before writes nothing more.
    ///
    /// # Errors
    /// Where there is no such run, another host has it, or its records are damaged.
    pub fn take_up(&self, id: &str) -> Result<TakenUp, StoreError> {
        let fails = sqlite(self.0.path());
        let lock = self.0.lock(id)?;
        let db = self.0.reader();
        db.execute("UPDATE run SET epoch = epoch + 1 WHERE id = ?1", [id]).map_err(&fails)?;
        let known = known(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        let (head, records) = records(&db, id, &known, &fails)?;
        drop(db);
        let owned = self.0.take_up((known.run, known.epoch), id, lock, (head, records.len() as u64));
        let log = Box::new(RunLog { writer: Arc::clone(&self.0), run: owned, id: id.into() });
        Ok(TakenUp { log, records, about: known.about })
    }

    /// The records of a run, as far as they are on disk.
    ///
    /// # Errors
    /// Where there is no such run, or its records are damaged.
    pub fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        let fails = sqlite(self.0.path());
        let db = self.0.reader();
        let known = known(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        Ok(records(&db, id, &known, &fails)?.1)
    }
}

fn known(db: &Connection, id: &str) -> rusqlite::Result<Option<Known>> {
    db.query_row("SELECT run, epoch, head, about FROM run WHERE id = ?1", [id], |row| {
        Ok(Known { run: row.get(0)?, epoch: row.get(1)?, head: row.get(2)?, about: row.get(3)? })
    })
    .optional()
}

/// The run's last row, and its records.
fn records(
    db: &Connection,
    id: &str,
    known: &Known,
    fails: &impl Fn(rusqlite::Error) -> StoreError,
) -> Result<(i64, Vec<Bytes>), StoreError> {
    let damaged = |why: String| StoreError::Damaged { run: id.into(), why };
    let later: Option<i64> = db
        .prepare_cached("SELECT max(id) FROM log WHERE id > ?1 AND run = ?2")
        .and_then(|mut select| select.query_row([known.head, known.run], |row| row.get(0)))
        .map_err(fails)?;
    let head = later.unwrap_or(known.head);
    let mut rows = Vec::new();
    let mut next = head;
    let mut select = db.prepare_cached("SELECT run, seq, prev, data FROM log WHERE id = ?1").map_err(fails)?;
    while next != 0 {
        let row = select.query_row([next], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, Vec<u8>>(3)?))
        });
        let (run, seq, prev, data) =
            row.optional().map_err(fails)?.ok_or_else(|| damaged(format!("row {next} is missing")))?;
        if run != known.run || prev >= next {
            return Err(damaged(format!("row {next} is not what the row after it says")));
        }
        rows.push((next, seq, data));
        next = prev;
    }
    let mut all = Vec::new();
    for (row, seq, data) in rows.into_iter().rev() {
        if seq != all.len() as i64 + 1 {
            return Err(damaged(format!("row {row} begins with record {seq}, and {} go before it", all.len())));
        }
        all.extend(batch::open(data.into()).map_err(|why| damaged(format!("row {row}: {why}")))?);
    }
    Ok((head, all))
}
