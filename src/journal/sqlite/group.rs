//! Writing a group: what one transaction does.

use super::batch::{Sealed, seal};
use super::heads::{Last, Save, Unsaved};
use super::queue::{Group, Owned, Queue};
use super::{StoreError, blob};
use crate::journal::NewRun;
use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::sync::Arc;

const INSERT: &str = "INSERT INTO log (run, seq, prev, data) VALUES (?1, ?2, ?3, ?4)";
const LEAVE: &str = "UPDATE run SET owner = NULL, head = ?2, records = ?3 WHERE run = ?1";
/// Bytes of records in a row of a run that is written at once. Arbitrary.
const ROW_BYTES: usize = 1 << 20;

/// What became of a batch.
pub(super) enum Fate {
    /// It is written; the run has this row, if any, and this last row in the log.
    Written { row: Option<i64>, head: i64 },
    /// The run is somebody else's, and nothing was written.
    Lost(StoreError),
}

/// What became of a group.
#[derive(Default)]
pub(super) struct Written {
    pub(super) fates: Vec<(Owned, Fate)>,
    /// The runs that have a new last row.
    lasts: Vec<Last>,
    /// The runs that are this host's no longer.
    gone: Vec<i64>,
    save: Option<Save>,
}

impl Written {
    /// It is durable.
    pub(super) fn note(&mut self, unsaved: &mut Unsaved) {
        unsaved.done(self.save.take(), &self.lasts, &self.gone);
    }
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

/// Makes the row of a run. None: there is one of its id.
fn create(change: &Connection, new: &NewRun, owner: Option<i64>) -> rusqlite::Result<Option<i64>> {
    let mut create = change.prepare_cached(
        "INSERT INTO run (id, name, owner, created) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING",
    )?;
    if create.execute(params![&*new.id, &*new.name, owner, new.created.0.cast_signed()])? == 0 {
        return Ok(None);
    }
    let row = change.last_insert_rowid();
    change.prepare_cached("INSERT INTO about (run, about) VALUES (?1, ?2)")?.execute(params![row, new.manifest])?;
    let mut names = change.prepare_cached("INSERT OR IGNORE INTO run_component (run, hash) VALUES (?1, ?2)")?;
    for hash in &new.components {
        names.execute(params![row, &**hash])?;
    }
    Ok(Some(row))
}

/// Writes a run that nobody has, with all its records. False: there is one of its id.
pub(super) fn write_whole(change: &Connection, new: &NewRun, records: &[Bytes]) -> rusqlite::Result<bool> {
    let Some(row) = create(change, new, None)? else { return Ok(false) };
    let (mut head, mut seq) = (0, 1);
    let mut insert = change.prepare_cached(INSERT)?;
    let mut rest = records;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |record: &&Bytes| {
            bytes += record.len();
            bytes - record.len() < ROW_BYTES
        };
        let taken = rest.iter().take_while(fits).count();
        let sealed = seal(&rest[..taken]);
        blob::write(change, row, &sealed)?;
        insert.execute(params![row, seq, head, sealed.bytes])?;
        head = change.last_insert_rowid();
        seq += (taken as u64).cast_signed();
        rest = &rest[taken..];
    }
    change.prepare_cached(LEAVE)?.execute(params![row, head, seq - 1])?;
    Ok(true)
}

/// The batches of a group as they are written.
pub(super) fn sealed(group: &Group) -> BTreeMap<Owned, Sealed> {
    let batches = group.iter().filter(|(_, batch)| batch.len() > 0);
    batches.map(|(owned, batch)| (*owned, seal(&batch.records()))).collect()
}

/// Writes a group within a transaction.
pub(super) fn write(
    change: &Connection,
    queue: &Mutex<Queue>,
    group: &Group,
    sealed: &BTreeMap<Owned, Sealed>,
    unsaved: &Unsaved,
    host: i64,
) -> rusqlite::Result<Written> {
    let mut epoch_of = change.prepare_cached("SELECT epoch FROM run WHERE run = ?1")?;
    let mut insert = change.prepare_cached(INSERT)?;
    let mut end = change.prepare_cached(
        "UPDATE run SET owner = NULL, head = ?2, records = ?3, status = ?4, ended = ?5, damage = NULL WHERE run = ?1",
    )?;
    let mut leave = change.prepare_cached(LEAVE)?;

    let mut written = Written::default();
    for Standing { owned, id, row, epoch, head, durable, new } in standings(queue, group) {
        let batch = &group[&owned];
        let row = match (row, new) {
            (Some(row), _) => {
                let found: Option<i64> = epoch_of.query_row([row], |row| row.get(0)).optional()?;
                if found != Some(epoch) {
                    written.gone.push(row);
                    written.fates.push((owned, Fate::Lost(StoreError::RunFenced(id))));
                    continue;
                }
                row
            }
            // It never began.
            (None, _) if batch.len() == 0 => {
                written.fates.push((owned, Fate::Written { row: None, head: 0 }));
                continue;
            }
            (None, Some(new)) => match create(change, &new, Some(host))? {
                Some(row) => row,
                None => {
                    written.fates.push((owned, Fate::Lost(StoreError::Exists(id))));
                    continue;
                }
            },
            (None, None) => unreachable!("invariant: a run has a row or is new"),
        };
        let records = durable + batch.len();
        let head = match sealed.get(&owned) {
            Some(sealed) => {
                blob::write(change, row, sealed)?;
                insert.execute(params![row, (durable + 1).cast_signed(), head, sealed.bytes])?;
                let head = change.last_insert_rowid();
                written.lasts.push(Last { run: row, row: head, records });
                head
            }
            None => head,
        };
        for mail in &batch.consumed {
            mail.write(change, row)?;
        }
        let records = records.cast_signed();
        if let Some(ended) = batch.ended {
            end.execute(params![row, head, records, ended.status.name(), ended.at.0.cast_signed()])?;
            written.gone.push(row);
        } else if batch.left {
            leave.execute(params![row, head, records])?;
            written.gone.push(row);
        }
        written.fates.push((owned, Fate::Written { row: Some(row), head }));
    }
    written.save = unsaved.plan(&written.lasts);
    if let Some(Save { runs, saved }) = &written.save {
        let mut save = change.prepare_cached("UPDATE run SET head = ?2, records = ?3 WHERE run = ?1 AND head < ?2")?;
        for last in runs {
            save.execute(params![last.run, last.row, last.records.cast_signed()])?;
        }
        change.prepare_cached("UPDATE host SET saved = ?2 WHERE host = ?1")?.execute(params![host, saved])?;
    }
    Ok(written)
}
