//! Reading the records of a run.

use super::schema::sqlite;
use super::writer::Writer;
use super::{StoreError, batch};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

/// Where a run is in the store.
pub(super) struct Place {
    pub(super) run: i64,
    pub(super) owner: Option<i64>,
    pub(super) epoch: i64,
    pub(super) ended: bool,
    /// A row at or before its last one.
    pub(super) head: i64,
}

impl Writer {
    /// The records of a run, as far as they are on disk.
    pub(super) fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        let fails = sqlite(self.path());
        let mut db = self.reader();
        // One state of the file, whatever is written meanwhile.
        let db = db.transaction().map_err(&fails)?;
        let place = place(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        Ok(read(&db, id, &place, &fails)?.1)
    }

    /// Where a run is.
    pub(super) fn place(&self, id: &str) -> Result<Place, StoreError> {
        place(&self.reader(), id).map_err(sqlite(self.path()))?.ok_or_else(|| StoreError::Unknown(id.into()))
    }
}

pub(super) fn place(db: &Connection, id: &str) -> rusqlite::Result<Option<Place>> {
    let mut select = db.prepare_cached("SELECT run, owner, epoch, status IS NOT NULL, head FROM run WHERE id = ?1")?;
    let place = select.query_row([id], |row| {
        Ok(Place { run: row.get(0)?, owner: row.get(1)?, epoch: row.get(2)?, ended: row.get(3)?, head: row.get(4)? })
    });
    place.optional()
}

/// The run's last row.
pub(super) fn head(db: &Connection, place: &Place) -> rusqlite::Result<i64> {
    if place.owner.is_none() {
        return Ok(place.head);
    }
    let mut select = db.prepare_cached("SELECT max(id) FROM log WHERE id > ?1 AND run = ?2")?;
    let later: Option<i64> = select.query_row([place.head, place.run], |row| row.get(0))?;
    Ok(later.unwrap_or(place.head))
}

/// The run's last row, and its records.
pub(super) fn read(
    db: &Connection,
    id: &str,
    place: &Place,
    fails: &impl Fn(rusqlite::Error) -> StoreError,
) -> Result<(i64, Vec<Bytes>), StoreError> {
    let damaged = |why: String| StoreError::Damaged { run: id.into(), why };
    let head = head(db, place).map_err(fails)?;
    let mut rows = Vec::new();
    let mut next = head;
    let mut select = db.prepare_cached("SELECT run, seq, prev, data FROM log WHERE id = ?1").map_err(fails)?;
    while next != 0 {
        let row = select.query_row([next], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, Vec<u8>>(3)?))
        });
        let (run, seq, prev, data) =
            row.optional().map_err(fails)?.ok_or_else(|| damaged(format!("row {next} is missing")))?;
        if run != place.run || prev >= next {
            return Err(damaged(format!("row {next} is not what the row after it says")));
        }
        rows.push((next, seq, data));
        next = prev;
    }
    let mut all = Vec::new();
    for (row, seq, data) in rows.into_iter().rev() {
        if seq.cast_unsigned() != all.len() as u64 + 1 {
            return Err(damaged(format!("row {row} begins with record {seq}, and {} go before it", all.len())));
        }
        all.extend(batch::open(data.into()).map_err(|why| damaged(format!("row {row}: {why}")))?);
    }
    Ok((head, all))
}
