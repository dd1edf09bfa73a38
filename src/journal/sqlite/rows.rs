//! The rows of a run: its own in `run`, and those of its records in `log`.

use super::error::ReadError;
use rusqlite::{Connection, OptionalExtension, Row};
use std::sync::Arc;

/// What the row of a run in `run` says.
pub(super) struct RunRow {
    pub(super) row: i64,
    /// When it was created, in microseconds since 1970.
    pub(super) created: i64,
    pub(super) owner: Option<i64>,
    pub(super) epoch: i64,
    pub(super) ended: bool,
    /// Whether it is parked: then `head` and `records` are exact.
    pub(super) parked: bool,
    /// A row of the log at or before the run's last one; 0 if it has none there.
    pub(super) head: i64,
    pub(super) records: u64,
    /// Its concurrency group.
    pub(super) group: Option<Arc<str>>,
    /// Whether it waits for a place there.
    pub(super) queued: bool,
}

impl RunRow {
    /// Reads `run`, `created`, `epoch`, `head` and `records` of a run that has ended.
    pub(super) fn ended(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (row, created, epoch, head, records) = row.try_into()?;
        Ok(Self {
            row,
            created,
            owner: None,
            epoch,
            ended: true,
            parked: false,
            head,
            records: i64::cast_unsigned(records),
            group: None,
            queued: false,
        })
    }

    /// Returns whether its records are in `done`.
    pub(super) fn is_moved(&self) -> bool {
        self.ended && self.head == 0
    }
}

/// Reads the row of a run; `None` if there is no run with this id.
pub(super) fn run_row(db: &Connection, id: &str) -> rusqlite::Result<Option<RunRow>> {
    let mut select = db.prepare_cached(
        "SELECT run, owner, epoch, status IS NOT NULL, head, records, created, grp, queued,
                wake IS NOT NULL FROM run WHERE id = ?1",
    )?;
    let run = select.query_row([id], |row| {
        Ok(RunRow {
            row: row.get(0)?,
            owner: row.get(1)?,
            epoch: row.get(2)?,
            ended: row.get(3)?,
            head: row.get(4)?,
            records: row.get::<_, i64>(5)?.cast_unsigned(),
            created: row.get(6)?,
            group: row.get::<_, Option<String>>(7)?.map(Arc::from),
            queued: row.get::<_, i64>(8)? > 0,
            parked: row.get(9)?,
        })
    });
    run.optional()
}

/// Returns the row of the log up to which the last rows of a host's runs are saved.
pub(super) fn saved(db: &Connection, host: i64) -> rusqlite::Result<i64> {
    let mut select = db.prepare_cached("SELECT saved FROM host WHERE host = ?1")?;
    Ok(select.query_row([host], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Finds the run's last row in the log.
pub(super) fn head(db: &Connection, run: &RunRow) -> rusqlite::Result<i64> {
    let Some(owner) = run.owner.filter(|_| !run.parked) else { return Ok(run.head) };
    let from = run.head.max(saved(db, owner)?);
    let mut select = db.prepare_cached("SELECT max(id) FROM log WHERE id > ?1 AND run = ?2")?;
    let later: Option<i64> = select.query_row([from, run.row], |row| row.get(0))?;
    Ok(later.unwrap_or(run.head))
}

/// A row of the log, as it was written.
pub(super) struct LogRow {
    pub(super) id: i64,
    /// The number of its first record.
    pub(super) seq: i64,
    pub(super) data: Vec<u8>,
}

/// Where a row of the log stands.
pub(super) struct Link {
    /// The number of its first record.
    pub(super) seq: i64,
    /// The run's row before it, or 0.
    pub(super) prev: i64,
}

/// Reads where a row of a run stands, without what it holds.
pub(super) fn link(db: &Connection, run: &RunRow, id: i64) -> Result<Link, ReadError> {
    let mut select = db.prepare_cached("SELECT run, seq, prev FROM log WHERE id = ?1")?;
    let row: Option<(i64, i64, i64)> = select.query_row([id], |row| row.try_into()).optional()?;
    let (owner, seq, prev) = row.ok_or_else(|| missing(id))?;
    check_link(run, id, owner, prev)?;
    Ok(Link { seq, prev })
}

fn check_link(run: &RunRow, id: i64, owner: i64, prev: i64) -> Result<(), ReadError> {
    if owner != run.row || prev >= id {
        return Err(format!("row {id} is not what the row after it says").into());
    }
    Ok(())
}

/// Reads a row of the log.
pub(super) fn log_row(db: &Connection, id: i64) -> Result<LogRow, ReadError> {
    let mut select = db.prepare_cached("SELECT seq, data FROM log WHERE id = ?1")?;
    let row = select.query_row([id], |row| Ok(LogRow { id, seq: row.get(0)?, data: row.get(1)? }));
    row.optional()?.ok_or_else(|| missing(id).into())
}

fn missing(id: i64) -> String {
    format!("row {id} is missing")
}

/// Returns the rows of a run in the log from the one with this record to `last`, the first one
/// first.
pub(super) fn ids_between(db: &Connection, run: &RunRow, record: u64, last: i64) -> Result<Vec<i64>, ReadError> {
    let mut ids = Vec::new();
    let mut id = last;
    while id != 0 {
        ids.push(id);
        let Link { seq, prev } = link(db, run, id)?;
        id = if seq.cast_unsigned() <= record { 0 } else { prev };
    }
    ids.reverse();
    Ok(ids)
}

/// Reads the rows of a run in the log, the first one first.
pub(super) fn rows(db: &Connection, run: &RunRow) -> Result<Vec<LogRow>, ReadError> {
    let mut select = db.prepare_cached("SELECT run, seq, prev, data FROM log WHERE id = ?1")?;
    let mut all = Vec::new();
    let mut id = run.head;
    while id != 0 {
        let row = select
            .query_row([id], |row| Ok((row.get(0)?, row.get(2)?, LogRow { id, seq: row.get(1)?, data: row.get(3)? })));
        let (owner, prev, row) = row.optional()?.ok_or_else(|| missing(id))?;
        check_link(run, id, owner, prev)?;
        all.push(row);
        id = prev;
    }
    all.reverse();
    Ok(all)
}
