//! Reading the records of a run.

use super::error::ReadError;
use super::marks::Marks;
use super::rows::{LogRow, RunRow, ids_between, log_row, rows};
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

/// Reads at most `limit` records of a run, from number `from` on, counted from 1, and no more than
/// are together larger than `bytes_max`, but one.
pub(super) fn read_from(
    db: &Connection,
    run: &RunRow,
    marks: &mut Marks,
    from: u64,
    (limit, bytes_max): (usize, usize),
) -> Result<Vec<Bytes>, ReadError> {
    let mut some: Vec<Bytes> = Vec::new();
    let (mut bytes, mut is_full) = (0_usize, false);
    // The number of the record that comes next, once the first batch is found.
    let mut next = None;
    let mut add = |seq: i64, batches: Vec<Bytes>, name: &dyn Display| -> Result<Option<u64>, ReadError> {
        let seq = seq.cast_unsigned();
        if next.is_some_and(|next| next != seq) {
            return Err(format!("{name} begins with record {seq}, and not with {}", next.unwrap_or_default()).into());
        }
        let mut at = seq;
        for batch in batches {
            let mut opened = Vec::new();
            open(db, &mut opened, &batch, name)?;
            for record in opened {
                if at >= from && !is_full {
                    bytes = bytes.saturating_add(record.len());
                    is_full = some.len() >= limit || !some.is_empty() && bytes > bytes_max;
                    if !is_full {
                        some.push(record);
                    }
                }
                at += 1;
            }
        }
        next = Some(at);
        Ok(next.filter(|_| !is_full && some.len() < limit))
    };
    if run.is_moved() {
        let places = archive::places(db, run.row)?;
        let first = places.iter().rposition(|(_, seq)| seq.cast_unsigned() <= from).unwrap_or(0);
        for (key, _) in &places[first..] {
            let part = archive::part(db, *key)?;
            if add(part.seq, part.batches()?, &part)?.is_none() {
                break;
            }
        }
        return Ok(some);
    }
    // From one mark to the next.
    let (mut record, mut last) = (from, 0);
    while last != run.head {
        last = marks.start(db, run, record)?;
        for id in ids_between(db, run, record, last)? {
            let LogRow { id, seq, data } = log_row(db, id)?;
            match add(seq, vec![data.into()], &format!("row {id}"))? {
                Some(next) => record = next,
                None => return Ok(some),
            }
        }
    }
    Ok(some)
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
