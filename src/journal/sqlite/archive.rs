//! The records of ended runs: out of the log, one row for each run but the largest.
//!
//! So the log stays small and the rows of a run are together. A run is moved in one transaction,
//! with a few others: its records are in the log or here.

use super::error::ReadError;
use super::rows::{RunRow, rows};
use bytes::Bytes;
use rusqlite::{Connection, params};
use std::fmt::Display;

/// Bits of a part's key that number the parts of one run.
const PART_BITS: u32 = 20;
/// Bytes of a part, but for its last batch. Arbitrary.
const PART_BYTES: usize = 4 << 20;

/// A part of the records of an ended run.
pub(super) struct Part {
    key: i64,
    /// The number of its first record.
    pub(super) seq: i64,
    data: Bytes,
}

impl Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {}", self.key)
    }
}

impl Part {
    pub(super) fn batches(&self) -> Result<Vec<Bytes>, ReadError> {
        let mut batches = Vec::new();
        let mut rest = self.data.clone();
        while !rest.is_empty() {
            let cut = || ReadError::Damaged(format!("{self} is cut"));
            let length = rest.first_chunk().copied().map(u32::from_le_bytes).ok_or_else(cut)? as usize;
            let _ = rest.split_to(4);
            if length > rest.len() {
                return Err(cut());
            }
            batches.push(rest.split_to(length));
        }
        Ok(batches)
    }
}

/// The parts of a run.
pub(super) fn parts(db: &Connection, run: i64) -> rusqlite::Result<Vec<Part>> {
    let mut select =
        db.prepare_cached("SELECT part, seq, data FROM done WHERE part >= ?1 AND part < ?2 ORDER BY part")?;
    let parts = select.query_map([run << PART_BITS, (run + 1) << PART_BITS], |row| {
        Ok(Part { key: row.get(0)?, seq: row.get(1)?, data: row.get::<_, Vec<u8>>(2)?.into() })
    })?;
    parts.collect()
}

/// Where the parts of a run begin: their keys, and the numbers of their first records.
pub(super) fn places(db: &Connection, run: i64) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut select = db.prepare_cached("SELECT part, seq FROM done WHERE part >= ?1 AND part < ?2 ORDER BY part")?;
    let places = select.query_map([run << PART_BITS, (run + 1) << PART_BITS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    places.collect()
}

/// One of the parts of a run.
pub(super) fn part(db: &Connection, key: i64) -> rusqlite::Result<Part> {
    let mut select = db.prepare_cached("SELECT part, seq, data FROM done WHERE part = ?1")?;
    select
        .query_row([key], |row| Ok(Part { key: row.get(0)?, seq: row.get(1)?, data: row.get::<_, Vec<u8>>(2)?.into() }))
}

/// Returns the first ended run after this row of `run` whose records are still in the log.
pub(super) fn unmoved(db: &Connection, after: i64) -> rusqlite::Result<Option<RunRow>> {
    let mut select = db.prepare_cached(
        "SELECT run, created, epoch, head, records FROM run
         WHERE ended IS NOT NULL AND head > 0 AND run > ?1 ORDER BY run LIMIT 1",
    )?;
    rusqlite::OptionalExtension::optional(select.query_row([after], RunRow::ended))
}

/// Moves an ended run, and returns how many bytes that were. A run whose rows are damaged stays in
/// the log.
pub(super) fn add(change: &Connection, run: &RunRow) -> rusqlite::Result<usize> {
    let rows = match rows(change, run) {
        Ok(rows) => rows,
        Err(ReadError::Damaged(_)) => return Ok(0),
        Err(ReadError::Sqlite(error)) => return Err(error),
    };
    let mut insert = change.prepare_cached("INSERT INTO done (part, seq, data) VALUES (?1, ?2, ?3)")?;
    let mut delete = change.prepare_cached("DELETE FROM log WHERE id = ?1")?;
    let (mut key, mut seq, mut data, mut bytes) = (run.row << PART_BITS, 0, Vec::new(), 0);
    for row in rows {
        if data.len() >= PART_BYTES {
            insert.execute(params![key, seq, data])?;
            key += 1;
            data.clear();
        }
        if data.is_empty() {
            seq = row.seq;
        }
        let length = u32::try_from(row.data.len()).expect("invariant: SQLite has no larger rows");
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(&row.data);
        bytes += row.data.len();
        delete.execute([row.id])?;
    }
    insert.execute(params![key, seq, data])?;
    change.prepare_cached("UPDATE run SET head = 0 WHERE run = ?1")?.execute([run.row])?;
    Ok(bytes)
}

/// Removes all rows of a run from the log and from here, even if they are damaged.
pub(super) fn remove(change: &Connection, run: &RunRow) -> rusqlite::Result<()> {
    let mut delete = change.prepare_cached("DELETE FROM log WHERE id = ?1 AND run = ?2 RETURNING prev")?;
    let mut next = run.head;
    while next != 0 {
        let prev = delete.query_row(params![next, run.row], |row| row.get::<_, i64>(0));
        let prev = rusqlite::OptionalExtension::optional(prev)?;
        if prev.is_none_or(|prev| prev >= next) {
            // The rows before it are found by a scan of the whole log.
            change.prepare_cached("DELETE FROM log WHERE run = ?1")?.execute([run.row])?;
            break;
        }
        next = prev.unwrap_or(0);
    }
    change
        .prepare_cached("DELETE FROM done WHERE part >= ?1 AND part < ?2")?
        .execute([run.row << PART_BITS, (run.row + 1) << PART_BITS])?;
    Ok(())
}
