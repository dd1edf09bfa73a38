//! Writing a group: what one transaction does.

use super::batch::{Sealed, seal};
use super::catalog::inbox as inbox_of_people;
use super::heads::{Head, HeadsToSave, UnsavedHeads};
use super::places::{Admitted, Entered, admit, enter};
use super::queue::{Batch, Group, Queue, RunKey};
use super::{StoreError, blob, inbox};
use crate::journal::{NewRun, Place};
use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::sync::Arc;

const INSERT: &str = "INSERT INTO log (run, seq, prev, data) VALUES (?1, ?2, ?3, ?4)";
const RELEASE: &str = "UPDATE run SET owner = NULL, head = ?2, records = ?3 WHERE run = ?1";
const END: &str =
    "UPDATE run SET owner = NULL, head = ?2, records = ?3, status = ?4, ended = ?5, damage = NULL WHERE run = ?1";
const PARK: &str = "UPDATE run SET wake = ?2, head = ?3, records = ?4 WHERE run = ?1";
const UNPARK: &str = "UPDATE run SET wake = NULL WHERE run = ?1";
/// Bytes of records in a row of a run that is written at once. Arbitrary.
const ROW_BYTES: usize = 1 << 20;

/// The outcome of a batch.
pub(super) enum BatchOutcome {
    /// It is written. The run has this row, if it has begun, and this last row in the log.
    Written { row: Option<i64>, head: i64 },
    /// Another host owns the run, and nothing was written.
    Lost(StoreError),
}

/// What a transaction changed in concurrency groups.
pub(super) struct PlaceChanges {
    /// Runs that have begun, and their places.
    pub(super) begun: Vec<(Arc<str>, Place)>,
    /// Runs that were given a place, of any host.
    pub(super) admitted: Vec<Admitted>,
    /// Groups of which runs were asked to end.
    pub(super) changed: Vec<Arc<str>>,
}

/// The outcome of a group.
#[derive(Default)]
pub(super) struct Written {
    pub(super) outcomes: Vec<(RunKey, BatchOutcome)>,
    /// The runs that have a new last row.
    heads: Vec<Head>,
    /// The runs whose last rows are written down: parked ones, and those that this host owns no
    /// more.
    released: Vec<i64>,
    save: Option<HeadsToSave>,
    /// Runs of concurrency groups that have begun, and their places.
    places: Vec<(Arc<str>, Place)>,
    /// Runs that were given a place, of any host.
    admitted: Vec<Admitted>,
    /// Groups of which runs were asked to end.
    changed: Vec<Arc<str>>,
}

impl Written {
    /// Takes what changed in concurrency groups: the runs that have begun, those that were given a
    /// place, by group, and the groups of which runs were asked to end.
    pub(super) fn take_places(&mut self) -> PlaceChanges {
        PlaceChanges {
            begun: std::mem::take(&mut self.places),
            admitted: std::mem::take(&mut self.admitted),
            changed: std::mem::take(&mut self.changed),
        }
    }

    /// Notes that the group is durable.
    pub(super) fn note(&mut self, unsaved: &mut UnsavedHeads) {
        unsaved.done(self.save.take(), &self.heads, &self.released);
    }
}

/// What the writer knows of a run when its batch is written.
struct Target {
    key: RunKey,
    id: Arc<str>,
    row: Option<i64>,
    epoch: i64,
    head: i64,
    durable: u64,
    parked: bool,
    new: Option<Arc<NewRun>>,
    /// Its concurrency group.
    group: Option<Arc<str>>,
}

fn targets(queue: &Mutex<Queue>, group: &Group) -> Vec<Target> {
    let queue = queue.lock();
    let known = group.keys().filter_map(|key| queue.known.get(key).map(|known| (*key, known)));
    known
        .map(|(key, known)| Target {
            key,
            id: Arc::clone(&known.id),
            row: known.row,
            epoch: known.epoch,
            head: known.head,
            durable: known.durable,
            parked: known.parked,
            new: known.new.clone(),
            group: known.group.clone(),
        })
        .collect()
}

/// A row that was made.
struct Created {
    row: i64,
    /// The place of a run that has a group.
    place: Option<Place>,
    /// The group, if other runs of it were asked to end.
    changed: Option<Arc<str>>,
}

/// Makes the row of a run. The inner error says why it does not begin: there is a run with this id,
/// or there is no place for it.
fn create(change: &Connection, new: &NewRun, owner: Option<i64>) -> rusqlite::Result<Result<Created, StoreError>> {
    let exists = || StoreError::Exists(Arc::clone(&new.id));
    let (mut place, mut changed) = (None, None);
    if let Some(entry) = &new.group {
        if change.prepare_cached("SELECT 1 FROM run WHERE id = ?1")?.exists([&*new.id])? {
            return Ok(Err(exists()));
        }
        let (entered, others_asked) = match enter(change, entry)? {
            Entered::Refused(error) => return Ok(Err(error)),
            Entered::Begins { place, others_asked } => (place, others_asked),
        };
        changed = others_asked.then(|| Arc::clone(&entry.group));
        place = Some(entered);
    }
    let mut create = change.prepare_cached(
        "INSERT INTO run (id, name, owner, created, version, grp, queued, places)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
    )?;
    let (created, version) = (new.created.0.cast_signed(), new.version.map(u64::cast_signed));
    let (group, limit) = new.group.as_ref().map(|entry| (&*entry.group, entry.limit)).unzip();
    let queued = place == Some(Place::Waits);
    if create.execute(params![&*new.id, &*new.name, owner, created, version, group, queued, limit])? == 0 {
        return Ok(Err(exists()));
    }
    let row = change.last_insert_rowid();
    change.prepare_cached("INSERT INTO about (run, about) VALUES (?1, ?2)")?.execute(params![row, new.manifest])?;
    let mut names = change.prepare_cached("INSERT OR IGNORE INTO run_component (run, hash) VALUES (?1, ?2)")?;
    for hash in &new.components {
        names.execute(params![row, &**hash])?;
    }
    for (key, value) in &new.labels {
        let insert = "INSERT OR IGNORE INTO label (run, key, value, created) VALUES (?1, ?2, ?3, ?4)";
        change.prepare_cached(insert)?.execute(params![row, &**key, &**value, created])?;
    }
    Ok(Ok(Created { row, place, changed }))
}

/// Writes a run that no host owns, with all its records. Returns its group if other runs of it were
/// asked to end. The inner error says why it does not begin.
pub(super) fn write_whole(
    change: &Connection,
    new: &NewRun,
    records: &[Bytes],
) -> rusqlite::Result<Result<Option<Arc<str>>, StoreError>> {
    let Created { row, changed, .. } = match create(change, new, None)? {
        Ok(created) => created,
        Err(error) => return Ok(Err(error)),
    };
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
    change.prepare_cached(RELEASE)?.execute(params![row, head, seq - 1])?;
    Ok(Ok(changed))
}

/// Appends records to a run that no living host owns, after its last row and so many records. Who
/// owned it stays as it was.
pub(super) fn write_more(
    change: &Connection,
    (row, head): (i64, i64),
    records: u64,
    sealed: &Sealed,
) -> rusqlite::Result<()> {
    let seq = (records + 1).cast_signed();
    blob::write(change, row, sealed)?;
    change.prepare_cached(INSERT)?.execute(params![row, seq, head, sealed.bytes])?;
    let mut update = change.prepare_cached("UPDATE run SET head = ?2, records = ?3 WHERE run = ?1")?;
    update.execute(params![row, change.last_insert_rowid(), seq])?;
    Ok(())
}

/// Encodes the batches of a group.
pub(super) fn sealed(group: &Group) -> BTreeMap<RunKey, Sealed> {
    let batches = group.iter().filter(|(_, batch)| batch.len() > 0);
    batches.map(|(key, batch)| (*key, seal(&batch.records()))).collect()
}

/// Writes a group within a transaction.
pub(super) fn write(
    change: &Connection,
    queue: &Mutex<Queue>,
    group: &Group,
    sealed: &BTreeMap<RunKey, Sealed>,
    unsaved: &UnsavedHeads,
    host: i64,
) -> rusqlite::Result<Written> {
    let mut writer = GroupWriter::new(change, host)?;
    for target in targets(queue, group) {
        let key = target.key;
        let outcome = writer.write(target, &group[&key], sealed.get(&key))?;
        writer.written.outcomes.push((key, outcome));
    }
    let mut written = writer.written;
    written.save = unsaved.plan(&written.heads);
    if let Some(save) = &written.save {
        save_heads(change, save, host)?;
    }
    Ok(written)
}

/// The statements that write the batches of a group.
struct GroupWriter<'a> {
    change: &'a Connection,
    host: i64,
    epoch_of: CachedStatement<'a>,
    insert: CachedStatement<'a>,
    end: CachedStatement<'a>,
    release: CachedStatement<'a>,
    written: Written,
}

impl<'a> GroupWriter<'a> {
    fn new(change: &'a Connection, host: i64) -> rusqlite::Result<Self> {
        Ok(Self {
            change,
            host,
            epoch_of: change.prepare_cached("SELECT epoch FROM run WHERE run = ?1")?,
            insert: change.prepare_cached(INSERT)?,
            end: change.prepare_cached(END)?,
            release: change.prepare_cached(RELEASE)?,
            written: Written::default(),
        })
    }

    /// Writes what a run has gathered, with the mail that it consumed and its end.
    fn write(&mut self, mut target: Target, batch: &Batch, sealed: Option<&Sealed>) -> rusqlite::Result<BatchOutcome> {
        // It never began.
        if target.row.is_none() && batch.len() == 0 {
            return Ok(BatchOutcome::Written { row: None, head: 0 });
        }
        let (durable, head, group) = (target.durable, target.head, target.group.take());
        let was_parked = target.parked;
        let row = match self.row(target)? {
            Ok(row) => row,
            Err(lost) => return Ok(BatchOutcome::Lost(lost)),
        };
        let records = durable + batch.len();
        let head = match sealed {
            Some(sealed) => {
                blob::write(self.change, row, sealed)?;
                self.insert.execute(params![row, (durable + 1).cast_signed(), head, sealed.bytes])?;
                let head = self.change.last_insert_rowid();
                self.written.heads.push(Head { run: row, row: head, records });
                if was_parked {
                    self.change.prepare_cached(UNPARK)?.execute([row])?;
                }
                head
            }
            None => head,
        };
        for mail in &batch.consumed {
            inbox::consume(self.change, row, mail)?;
        }
        if let Some(awaited) = &batch.awaited {
            inbox_of_people::replace(self.change, row, awaited)?;
        }
        let records = records.cast_signed();
        if let Some(wake) = batch.wake {
            self.change.prepare_cached(PARK)?.execute(params![row, wake, head, records])?;
            self.written.released.push(row);
        }
        if let Some(ended) = batch.ended {
            self.end.execute(params![row, head, records, ended.status.name(), ended.at.0.cast_signed()])?;
            self.written.released.push(row);
            if let Some(group) = group {
                self.written.admitted.extend(admit(self.change, &group)?);
            }
        } else if batch.released {
            self.release.execute(params![row, head, records])?;
            self.written.released.push(row);
        }
        Ok(BatchOutcome::Written { row: Some(row), head })
    }

    /// The row of a run, which is made if the run is new. The inner error says that another host
    /// has recovered the run, or that there is a run with its id.
    fn row(&mut self, target: Target) -> rusqlite::Result<Result<i64, StoreError>> {
        let Target { id, row, epoch, new, .. } = target;
        let Some(row) = row else {
            let new = new.expect("invariant: a run has a row or is new");
            return Ok(create(self.change, &new, Some(self.host))?.map(|created| {
                self.written.places.extend(created.place.map(|place| (id, place)));
                self.written.changed.extend(created.changed);
                created.row
            }));
        };
        let found: Option<i64> = self.epoch_of.query_row([row], |row| row.get(0)).optional()?;
        if found != Some(epoch) {
            self.written.released.push(row);
            return Ok(Err(StoreError::RunFenced(id)));
        }
        Ok(Ok(row))
    }
}

/// Saves the last rows of the runs that have waited longest for it.
fn save_heads(change: &Connection, save: &HeadsToSave, host: i64) -> rusqlite::Result<()> {
    let mut update = change.prepare_cached("UPDATE run SET head = ?2, records = ?3 WHERE run = ?1 AND head < ?2")?;
    for head in &save.runs {
        update.execute(params![head.run, head.row, head.records.cast_signed()])?;
    }
    change.prepare_cached("UPDATE host SET saved = ?2 WHERE host = ?1")?.execute(params![host, save.saved])?;
    Ok(())
}
