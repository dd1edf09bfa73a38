//! Reading the records of a run.

use super::schema::sqlite;
use super::writer::Writer;
use super::{StoreError, archive, batch, blob};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Where a run is in the store.
pub(super) struct Place {
    pub(super) run: i64,
    /// When it was created, in microseconds since 1970.
    pub(super) created: i64,
    pub(super) owner: Option<i64>,
    pub(super) epoch: i64,
    pub(super) ended: bool,
    /// A row at or before its last one; 0 where it has none there.
    pub(super) head: i64,
    pub(super) records: u64,
}

impl Place {
    /// The place of a run that has ended, of a row of `run`: its `run`, `created`, `epoch`, `head` and `records`.
    pub(super) fn ended(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (run, created, epoch, head, records) = row.try_into()?;
        Ok(Self { run, created, owner: None, epoch, ended: true, head, records: i64::cast_unsigned(records) })
    }

    /// Whether its records are in `done`.
    fn is_moved(&self) -> bool {
        self.ended && self.head == 0
    }
}

impl Writer {
    /// The records of a run, as far as they are on disk.
    pub(super) fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        let fails = sqlite(self.path());
        let (known, host) = (self.shared.queue.lock().head_of(id), self.shared.host.load(Relaxed));
        let mut db = self.reader();
        // One state of the file, whatever is written meanwhile.
        let db = db.transaction().map_err(&fails)?;
        let mut place = place(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        place.head = match known {
            // What this process knows of its own run is durable, and saves it from looking for the last row.
            Some(known) if place.owner == Some(host) => place.head.max(known),
            _ => head(&db, &place).map_err(&fails)?,
        };
        read(&db, &place).map_err(|trouble| trouble.of(id, self.path()))
    }

    /// Where a run is.
    pub(super) fn place(&self, id: &str) -> Result<Place, StoreError> {
        place(&self.reader(), id).map_err(sqlite(self.path()))?.ok_or_else(|| StoreError::Unknown(id.into()))
    }
}

pub(super) fn place(db: &Connection, id: &str) -> rusqlite::Result<Option<Place>> {
    let mut select = db.prepare_cached(
        "SELECT run, owner, epoch, status IS NOT NULL, head, records, created FROM run WHERE id = ?1",
    )?;
    let place = select.query_row([id], |row| {
        Ok(Place {
            run: row.get(0)?,
            owner: row.get(1)?,
            epoch: row.get(2)?,
            ended: row.get(3)?,
            head: row.get(4)?,
            records: row.get::<_, i64>(5)?.cast_unsigned(),
            created: row.get(6)?,
        })
    });
    place.optional()
}

/// The log from which on the last rows of a host's runs may not be written down.
pub(super) fn saved(db: &Connection, host: i64) -> rusqlite::Result<i64> {
    let mut select = db.prepare_cached("SELECT saved FROM host WHERE host = ?1")?;
    Ok(select.query_row([host], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// The run's last row.
pub(super) fn head(db: &Connection, place: &Place) -> rusqlite::Result<i64> {
    let Some(owner) = place.owner else { return Ok(place.head) };
    let from = place.head.max(saved(db, owner)?);
    let mut select = db.prepare_cached("SELECT max(id) FROM log WHERE id > ?1 AND run = ?2")?;
    let later: Option<i64> = select.query_row([from, place.run], |row| row.get(0))?;
    Ok(later.unwrap_or(place.head))
}

/// Why records cannot be read.
pub(super) enum Trouble {
    Sqlite(rusqlite::Error),
    Damaged(String),
}

impl Trouble {
    /// Of this run in this file.
    pub(super) fn of(self, run: &str, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => sqlite(path)(error),
            Self::Damaged(why) => StoreError::Damaged { run: run.into(), why },
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Damaged(why)
    }
}

/// A row of a run, as it was written.
pub(super) struct LogRow {
    pub(super) id: i64,
    /// The number of its first record.
    pub(super) seq: i64,
    pub(super) data: Vec<u8>,
}

/// The rows of a run in the log, the first one first.
pub(super) fn rows(db: &Connection, place: &Place) -> Result<Vec<LogRow>, Trouble> {
    let mut select = db.prepare_cached("SELECT run, seq, prev, data FROM log WHERE id = ?1")?;
    let mut all = Vec::new();
    let mut id = place.head;
    while id != 0 {
        let row = select.query_row([id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(2)?, LogRow { id, seq: row.get(1)?, data: row.get(3)? }))
        });
        let (run, prev, row) = row.optional()?.ok_or_else(|| format!("row {id} is missing"))?;
        if run != place.run || prev >= id {
            return Err(format!("row {id} is not what the row after it says").into());
        }
        all.push(row);
        id = prev;
    }
    all.reverse();
    Ok(all)
}

/// The records of a run whose last row is known.
pub(super) fn read(db: &Connection, place: &Place) -> Result<Vec<Bytes>, Trouble> {
    let mut all = Vec::new();
    if place.is_moved() {
        for part in archive::parts(db, place.run)? {
            follows(&all, part.seq, &part)?;
            for batch in part.batches()? {
                open(db, &mut all, &batch, &part)?;
            }
        }
    } else {
        for LogRow { id, seq, data } in rows(db, place)? {
            let name = format!("row {id}");
            follows(&all, seq, &name)?;
            open(db, &mut all, &data.into(), &name)?;
        }
    }
    // Of a run that is owned it is what they were some time ago.
    if (all.len() as u64) < place.records {
        return Err(format!("there are {} records, and there were {}", all.len(), place.records).into());
    }
    Ok(all)
}

fn follows(all: &[Bytes], seq: i64, name: &dyn Display) -> Result<(), Trouble> {
    if seq.cast_unsigned() == all.len() as u64 + 1 {
        return Ok(());
    }
    Err(format!("{name} begins with record {seq}, and {} go before it", all.len()).into())
}

fn open(db: &Connection, all: &mut Vec<Bytes>, batch: &Bytes, name: &dyn Display) -> Result<(), Trouble> {
    let records = batch::open(batch, |hash| blob::read(db, hash)).map_err(|trouble| match trouble {
        Trouble::Damaged(why) => Trouble::Damaged(format!("{name}: {why}")),
        Trouble::Sqlite(error) => Trouble::Sqlite(error),
    })?;
    all.extend(records);
    Ok(())
}
