//! Writing a group: what one transaction does.

use super::queue::{Group, Owned, Queue};
use super::{StoreError, batch};
use crate::journal::NewRun;
use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

/// What became of a batch.
pub(super) enum Fate {
    /// It is written; the run has this row, if any, and this last row in the log.
    Written { row: Option<i64>, head: i64 },
    /// The run is somebody else's, and nothing was written.
    Lost(StoreError),
}

/// What the writer knows of a run when its batch is written.
struct Standing {
    owned: Owned,
    id: Arc<str>,
    row: Option<i64>,
    epoch: i64,
    head: i64,
    durable: u64,
    new: Option<Arc<NewRun>>,
}

fn standings(queue: &Mutex<Queue>, group: &Group) -> Vec<Standing> {
    let queue = queue.lock();
    let known = group.keys().filter_map(|owned| queue.known.get(owned).map(|known| (*owned, known)));
    known
        .map(|(owned, known)| Standing {
            owned,
            id: Arc::clone(&known.id),
            row: known.row,
            epoch: known.epoch,
            head: known.head,
            durable: known.durable,
            new: known.new.clone(),
        })
        .collect()
}

const INSERT: &str = "INSERT INTO log (run, seq, prev, data) VALUES (?1, ?2, ?3, ?4)";
const LEAVE: &str = "UPDATE run SET owner = NULL, head = ?2, records = ?3 WHERE run = ?1";
/// Bytes of records in a row of a run that is written at once. Arbitrary.
const ROW_BYTES: usize = 1 << 20;

/// Makes the row of a run. None: there is one of its id.
fn create(change: &Connection, new: &NewRun, owner: Option<i64>) -> rusqlite::Result<Option<i64>> {
    let mut create = change.prepare_cached(
        "INSERT INTO run (id, name, owner, created, about, head)
         VALUES (?1, ?2, ?3, ?4, ?5, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'log'), 0))
         ON CONFLICT (id) DO NOTHING",
    )?;
    let created = new.created.0.cast_signed();
    let rows = create.execute(params![&*new.id, &*new.name, owner, created, new.about])?;
    Ok((rows > 0).then(|| change.last_insert_rowid()))
}

/// Writes a run that nobody has, with all its records. False: there is one of its id.
pub(super) fn write_whole(change: &Connection, new: &NewRun, records: &[Bytes]) -> rusqlite::Result<bool> {
    let Some(row) = create(change, new, None)? else { return Ok(false) };
    let (mut head, mut seq) = (0, 1);
    let mut insert = change.prepare_cached(INSERT)?;
    let mut rest = records;
    while !rest.is_empty() {
        let mut bytes = Vec::new();
        batch::begin(&mut bytes);
        let mut taken = 0;
        while taken < rest.len() && bytes.len() < ROW_BYTES {
            batch::put(&mut bytes, &rest[taken]);
            taken += 1;
        }
        batch::seal(&mut bytes);
        insert.execute(params![row, seq, head, bytes])?;
        head = change.last_insert_rowid();
        seq += (taken as u64).cast_signed();
        rest = &rest[taken..];
    }
    change.prepare_cached(LEAVE)?.execute(params![row, head, seq - 1])?;
    Ok(true)
}

/// Writes a group within a transaction.
pub(super) fn write(
    change: &Connection,
    queue: &Mutex<Queue>,
    group: &Group,
    host: i64,
) -> rusqlite::Result<Vec<(Owned, Fate)>> {
    let mut epoch_of = change.prepare_cached("SELECT epoch FROM run WHERE run = ?1")?;
    let mut insert = change.prepare_cached(INSERT)?;
    let mut end = change.prepare_cached(
        "UPDATE run SET owner = NULL, head = ?2, records = ?3, status = ?4, ended = ?5 WHERE run = ?1",
    )?;
    let mut leave = change.prepare_cached(LEAVE)?;

    let mut fates = Vec::with_capacity(group.len());
    for Standing { owned, id, row, epoch, head, durable, new } in standings(queue, group) {
        let batch = &group[&owned];
        let row = match (row, new) {
            (Some(row), _) => {
                let found: Option<i64> = epoch_of.query_row([row], |row| row.get(0)).optional()?;
                if found != Some(epoch) {
                    fates.push((owned, Fate::Lost(StoreError::Fenced(id))));
                    continue;
                }
                row
            }
            // It never began.
            (None, _) if batch.records == 0 => {
                fates.push((owned, Fate::Written { row: None, head: 0 }));
                continue;
            }
            (None, Some(new)) => match create(change, &new, Some(host))? {
                Some(row) => row,
                None => {
                    fates.push((owned, Fate::Lost(StoreError::Exists(id))));
                    continue;
                }
            },
            (None, None) => unreachable!("invariant: a run has a row or is new"),
        };
        let head = if batch.records > 0 {
            insert.execute(params![row, (durable + 1).cast_signed(), head, batch.bytes])?;
            change.last_insert_rowid()
        } else {
            head
        };
        for mail in &batch.consumed {
            mail.write(change, row)?;
        }
        let records = (durable + batch.records).cast_signed();
        if let Some(ended) = batch.ended {
            end.execute(params![row, head, records, ended.status.name(), ended.at.0.cast_signed()])?;
        } else if batch.left {
            leave.execute(params![row, head, records])?;
        }
        fates.push((owned, Fate::Written { row: Some(row), head }));
    }
    Ok(fates)
}
