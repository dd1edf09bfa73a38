//! The one thread that writes, and what is handed to it.

use super::open::{NewRun, connect, io, sqlite};
use super::{Durables, StoreError, batch};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait for the writer: whoever appends beyond waits. Arbitrary.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// Groups after which the heads of runs are written down. Arbitrary.
const GROUPS_PER_SAVE: u32 = 1_000;
/// How long to wait before a full disk is tried again.
const FULL: Duration = Duration::from_millis(500);

/// A run that this process owns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Owned(u64);

/// What the writer knows of a run.
struct Known {
    id: Arc<str>,
    /// Its row in the table of runs; none where it is still to be made.
    run: Option<i64>,
    epoch: i64,
    /// Its last row in the log, or 0.
    head: i64,
    /// Its head since the last save.
    unsaved: bool,
    /// Records that are durable.
    durable: u64,
    new: Option<NewRun>,
    /// Nobody writes it any more.
    left: bool,
    /// Held as long as the run is known.
    _lock: File,
}

/// What a run has written since the last group.
#[derive(Default)]
struct Batch {
    /// The run is over.
    ended: bool,
    bytes: Vec<u8>,
    /// Bytes without the checksum.
    body: usize,
    records: u64,
}

type Group = BTreeMap<Owned, Batch>;

#[derive(Default)]
struct Queue {
    batches: Group,
    bytes: usize,
    known: HashMap<Owned, Known>,
    next: u64,
    /// The group that is on its way to the disk.
    flight: Option<Arc<Group>>,
    /// Somebody is still to be told of the group before.
    telling: bool,
    closing: bool,
    failed: Option<StoreError>,
}

/// The writer, for those who hand it records.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reader: Mutex<Connection>,
    locks: PathBuf,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or the end.
    work: Condvar,
    /// A group is done.
    done: Condvar,
    durables: Arc<dyn Durables>,
    path: PathBuf,
}

impl Writer {
    pub(super) fn start(
        db: Connection,
        path: PathBuf,
        locks: PathBuf,
        durables: Arc<dyn Durables>,
    ) -> Result<Arc<Self>, StoreError> {
        let reader = Mutex::new(connect(&path)?);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            durables,
            path: path.clone(),
        });
        let writes = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || writes.run(db));
        let thread = Mutex::new(Some(thread.map_err(io(&path))?));
        Ok(Arc::new(Self { shared, thread, reader, locks }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The connection of those who read, and who write what no run waits for.
    pub(super) fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock()
    }

    /// Locks a run for this process.
    pub(super) fn lock(&self, id: &str) -> Result<File, StoreError> {
        // The id is anybody's text: the file is named by its digest.
        let path = self.locks.join(format!("{}.lock", &blake3::hash(id.as_bytes()).to_hex()[..32]));
        let file = File::options().create(true).append(true).open(&path).map_err(io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(StoreError::Owned(id.into())),
            Err(TryLockError::Error(error)) => Err(io(&path)(error)),
        }
    }

    fn know(&self, known: Known) -> Owned {
        let mut queue = self.shared.queue.lock();
        queue.next += 1;
        let owned = Owned(queue.next);
        queue.known.insert(owned, known);
        owned
    }

    pub(super) fn begin(&self, run: &NewRun) -> Result<Owned, StoreError> {
        let lock = self.lock(&run.id)?;
        Ok(self.know(Known {
            id: Arc::clone(&run.id),
            run: None,
            epoch: 1,
            head: 0,
            unsaved: false,
            durable: 0,
            new: Some(run.clone()),
            left: false,
            _lock: lock,
        }))
    }

    pub(super) fn take_up(&self, (run, epoch): (i64, i64), id: &str, lock: File, (head, durable): (i64, u64)) -> Owned {
        self.know(Known {
            id: id.into(),
            run: Some(run),
            epoch,
            head,
            unsaved: true,
            durable,
            new: None,
            left: false,
            _lock: lock,
        })
    }

    pub(super) fn append(&self, run: &Owned, record: &[u8]) {
        let mut queue = self.shared.queue.lock();
        while queue.bytes > BACKLOG_BYTES_MAX && queue.failed.is_none() {
            self.shared.done.wait(&mut queue);
        }
        if queue.failed.is_some() {
            return;
        }
        let was_empty = queue.batches.is_empty();
        let batch = queue.batches.entry(*run).or_default();
        if batch.bytes.is_empty() {
            batch::begin(&mut batch.bytes);
        }
        batch::put(&mut batch.bytes, record);
        batch.body = batch.bytes.len();
        batch.records += 1;
        queue.bytes += record.len();
        if was_empty {
            self.shared.work.notify_one();
        }
    }

    /// A run is over.
    pub(super) fn end(&self, run: Owned) {
        let mut queue = self.shared.queue.lock();
        queue.batches.entry(run).or_default().ended = true;
        self.shared.work.notify_one();
    }

    /// What a run has written so far and is not durable: after how many records, and the batches in their order.
    pub(super) fn undurable(&self, run: Owned) -> (u64, Vec<Bytes>) {
        let queue = self.shared.queue.lock();
        let durable = queue.known.get(&run).map_or(0, |known| known.durable);
        let flight = queue.flight.as_ref().and_then(|group| group.get(&run)).map(Batch::body);
        (durable, flight.into_iter().chain(queue.batches.get(&run).map(Batch::body)).collect())
    }

    /// Waits until all that was handed over is durable.
    ///
    /// # Errors
    /// Why it never will be.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let mut queue = self.shared.queue.lock();
        while queue.failed.is_none() && (queue.telling || !queue.batches.is_empty()) {
            self.shared.done.wait(&mut queue);
        }
        queue.failed.clone().map_or(Ok(()), Err)
    }

    /// A run is no longer this process's, when what it wrote is durable. Does not wait: the writer's own thread may be the last that has
    /// a run.
    pub(super) fn let_go(&self, run: Owned) {
        let mut queue = self.shared.queue.lock();
        if queue.failed.is_none() && queue.has(run) {
            if let Some(known) = queue.known.get_mut(&run) {
                known.left = true;
            }
        } else {
            queue.known.remove(&run);
        }
    }
}

impl Batch {
    /// The records, without the checksum.
    fn body(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes[..self.body])
    }
}

impl Queue {
    /// Whether something of a run is on its way.
    fn has(&self, run: Owned) -> bool {
        self.batches.contains_key(&run) || self.flight.as_ref().is_some_and(|group| group.contains_key(&run))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.get_mut().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, mut db: Connection) {
        let mut groups = 0;
        loop {
            let mut queue = self.queue.lock();
            while queue.batches.is_empty() && !queue.closing {
                self.work.wait(&mut queue);
            }
            if queue.batches.is_empty() {
                return;
            }
            let mut group = std::mem::take(&mut queue.batches);
            queue.bytes = 0;
            for batch in group.values_mut().filter(|batch| batch.records > 0) {
                batch::seal(&mut batch.bytes);
            }
            let group = Arc::new(group);
            queue.flight = Some(Arc::clone(&group));
            queue.telling = true;
            drop(queue);
            groups += 1;
            if !self.commit(&mut db, &group, groups % GROUPS_PER_SAVE == 0) {
                return;
            }
        }
    }

    /// Makes a group durable and says so. False: nothing will be any more.
    fn commit(&self, db: &mut Connection, group: &Group, save: bool) -> bool {
        let mut is_full = false;
        let written = loop {
            match self.write(db, group, save) {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                    if !std::mem::replace(&mut is_full, true) {
                        self.durables.full(true);
                    }
                    std::thread::sleep(FULL);
                }
                other => break other,
            }
        };
        if is_full {
            self.durables.full(false);
        }
        let mut queue = self.queue.lock();
        let rows = match written {
            Ok(rows) => rows,
            Err(error) => {
                let error = sqlite(&self.path)(error);
                queue.flight = None;
                queue.failed = Some(error.clone());
                drop(queue);
                self.done.notify_all();
                self.durables.failed(&error);
                return false;
            }
        };
        let mut told = Vec::with_capacity(rows.len());
        for (owned, row) in rows {
            let queue = &mut *queue;
            let Some(known) = queue.known.get_mut(&owned) else { continue };
            let Some(Row { run, id }) = row else { continue };
            known.run = Some(run);
            known.new = None;
            known.head = id;
            known.unsaved = !save;
            known.durable += group[&owned].records;
            if group[&owned].records > 0 {
                told.push((Arc::clone(&known.id), known.durable));
            }
            if group[&owned].ended || known.left && !queue.batches.contains_key(&owned) {
                queue.known.remove(&owned);
            }
        }
        queue.flight = None;
        drop(queue);
        for (id, record) in told {
            self.durables.durable(&id, record);
        }
        self.queue.lock().telling = false;
        self.done.notify_all();
        true
    }

    /// Writes a group in one transaction. A run that is no longer this process's has no row.
    fn write(&self, db: &mut Connection, group: &Group, save: bool) -> rusqlite::Result<Vec<(Owned, Option<Row>)>> {
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rows = Vec::with_capacity(group.len());
        {
            let mut epoch_of = change.prepare_cached("SELECT epoch FROM run WHERE run = ?1")?;
            let mut create = change.prepare_cached("INSERT INTO run (id, created, about) VALUES (?1, ?2, ?3)")?;
            let mut insert = change.prepare_cached("INSERT INTO log (run, seq, prev, data) VALUES (?1, ?2, ?3, ?4)")?;
            let mut end = change.prepare_cached("UPDATE run SET state = 1 WHERE run = ?1")?;
            let mut heads = change.prepare_cached("UPDATE run SET head = ?2 WHERE run = ?1")?;
            let queue = self.queue.lock();
            let known: Vec<_> = group
                .keys()
                .filter_map(|owned| queue.known.get(owned).map(|known| (*owned, known)))
                .map(|(owned, known)| (owned, known.run, known.epoch, known.head, known.durable, known.new.clone()))
                .collect();
            drop(queue);
            for (owned, run, epoch, head, durable, new) in known {
                let run = match (run, new) {
                    (Some(run), _) => {
                        if epoch_of.query_row([run], |row| row.get::<_, i64>(0))? != epoch {
                            rows.push((owned, None));
                            continue;
                        }
                        run
                    }
                    (None, Some(new)) => {
                        create.execute(params![&*new.id, new.created.0.cast_signed(), new.about])?;
                        change.last_insert_rowid()
                    }
                    (None, None) => unreachable!("invariant: a run has a row or is new"),
                };
                let batch = &group[&owned];
                let id = if batch.records > 0 {
                    insert.execute(params![run, (durable + 1).cast_signed(), head, batch.bytes])?;
                    change.last_insert_rowid()
                } else {
                    head
                };
                if batch.ended {
                    end.execute([run])?;
                }
                if save {
                    heads.execute([run, id])?;
                }
                rows.push((owned, Some(Row { run, id })));
            }
        }
        change.commit()?;
        Ok(rows)
    }
}

/// Where a batch stands.
#[derive(Clone, Copy)]
struct Row {
    run: i64,
    id: i64,
}
