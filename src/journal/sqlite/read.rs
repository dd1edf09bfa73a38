//! Reading the records of a run.

use super::error::ReadError;
use super::rows::{LogRow, RunRow, rows};
use super::{archive, batch, blob};
use bytes::Bytes;
use rusqlite::Connection;
use std::fmt::Display;

/// Reads the records of a run whose last row is known.
pub(super) fn read(db: &Connection, run: &RunRow) -> Result<Vec<Bytes>, ReadError> {
    let mut all = Vec::new();
    if run.is_moved() {
        for part in archive::parts(db, run.row)? {
            follows(&all, part.seq, &part)?;
            for batch in part.batches()? {
                open(db, &mut all, &batch, &part)?;
            }
        }
    } else {
        for LogRow { id, seq, data } in rows(db, run)? {
            let name = format!("row {id}");
            follows(&all, seq, &name)?;
            open(db, &mut all, &data.into(), &name)?;
        }
    }
    // While a host owns the run, this is an earlier number of them.
    if (all.len() as u64) < run.records {
        return Err(format!("there are {} records, and there were {}", all.len(), run.records).into());
    }
    Ok(all)
}

fn follows(all: &[Bytes], seq: i64, name: &dyn Display) -> Result<(), ReadError> {
    if seq.cast_unsigned() == all.len() as u64 + 1 {
        return Ok(());
    }
    Err(format!("{name} begins with record {seq}, and {} come before it", all.len()).into())
}

fn open(db: &Connection, all: &mut Vec<Bytes>, batch: &Bytes, name: &dyn Display) -> Result<(), ReadError> {
    let records = batch::open(batch, |hash| blob::read(db, hash)).map_err(|error| match error {
        ReadError::Damaged(why) => ReadError::Damaged(format!("{name}: {why}")),
        ReadError::Sqlite(error) => ReadError::Sqlite(error),
    })?;
    all.extend(records);
    Ok(())
}
