//! The one thread that writes, for those who hand it records.

use super::StoreError;
use super::group::{Fate, write};
use super::hosts::{Host, Locks, is_buried};
use super::inbox::Consumed;
use super::queue::{Group, Known, Owned, Queue};
use super::schema::{connect, io, sqlite};
use super::snapshots::{Pending, Snapshots};
use crate::journal::{Durables, NewRun};
use crate::run::RunEnd;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait for the writer: whoever appends beyond waits. Arbitrary.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
/// How long to wait before a full disk is tried again.
const FULL: Duration = Duration::from_millis(500);

/// The writer, for those who hand it records.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reader: Mutex<Connection>,
    pub(super) locks: Locks,
    host: Mutex<Option<Host>>,
    snapshots: Snapshots,
}

pub(super) struct Shared {
    pub(super) queue: Mutex<Queue>,
    /// There is something to write, or the end.
    work: Condvar,
    /// A group is done.
    done: Condvar,
    pub(super) durables: Arc<dyn Durables>,
    path: PathBuf,
    /// Held by whoever of this process writes to the file, before SQLite's own lock, for which one can only wait by asking again and again.
    pen: Mutex<()>,
    /// This process's number in the store; 0 where it has none. Written before the first run is known, under the queue's lock after that.
    host: AtomicI64,
}

impl Writer {
    pub(super) fn start(
        db: Connection,
        folder: &Path,
        locks: Locks,
        durables: Arc<dyn Durables>,
    ) -> Result<Arc<Self>, StoreError> {
        let path = folder.join("journal.db");
        let reader = Mutex::new(connect(&path)?);
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            durables,
            path: path.clone(),
            pen: Mutex::new(()),
            host: AtomicI64::new(0),
        });
        let writes = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || writes.run(db));
        let thread = Mutex::new(Some(thread.map_err(io(&path))?));
        let snapshots = Snapshots::new(folder.join("snapshots.db"), Arc::clone(&shared));
        Ok(Arc::new(Self { shared, thread, reader, locks, host: Mutex::default(), snapshots }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The connection of those who read, and who write what no run waits for.
    pub(super) fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock()
    }

    /// Whoever writes over the reader's connection holds this meanwhile, and takes it after that connection.
    pub(super) fn pen(&self) -> MutexGuard<'_, ()> {
        self.shared.pen.lock()
    }

    /// This process's number in the store, which it is given when it first needs one.
    pub(super) fn host(&self) -> Result<i64, StoreError> {
        let mut host = self.host.lock();
        if let Some(host) = &*host {
            return Ok(host.number);
        }
        let mut db = self.reader();
        let _pen = self.pen();
        let registered = host.insert(self.locks.register(&mut db, self.path())?);
        self.shared.host.store(registered.number, Relaxed);
        Ok(registered.number)
    }

    pub(super) fn begin(&self, run: &NewRun) -> Result<Owned, StoreError> {
        self.host()?;
        self.know(Known::begun(run)).ok_or_else(|| StoreError::Exists(Arc::clone(&run.id)))
    }

    pub(super) fn know(&self, known: Known) -> Option<Owned> {
        self.shared.queue.lock().know(known)
    }

    pub(super) fn append(&self, run: Owned, record: &[u8], consumed: &mut Vec<Consumed>) {
        let mut queue = self.shared.queue.lock();
        while queue.bytes > BACKLOG_BYTES_MAX && queue.failed.is_none() {
            self.shared.done.wait(&mut queue);
        }
        self.hand(queue, |queue| queue.append(run, record, consumed));
    }

    /// A run is over.
    pub(super) fn end(&self, run: Owned, end: RunEnd) {
        self.hand(self.shared.queue.lock(), |queue| {
            if let Some(batch) = queue.batch(run) {
                batch.ended = Some(end);
            }
        });
    }

    /// A run is no longer this process's, when what it wrote is durable. Does not wait: the writer's own thread may be the last that has
    /// a run.
    pub(super) fn let_go(&self, run: Owned) {
        self.hand(self.shared.queue.lock(), |queue| match queue.batch(run) {
            Some(batch) => batch.left = true,
            None => queue.forget(run),
        });
    }

    fn hand(&self, mut queue: MutexGuard<'_, Queue>, put: impl FnOnce(&mut Queue)) {
        let was_empty = queue.is_empty();
        put(&mut queue);
        if was_empty && !queue.is_empty() {
            self.shared.work.notify_one();
        }
    }

    /// What a run has written so far and is not durable: after how many records, and the batches in their order.
    pub(super) fn undurable(&self, run: Owned) -> (u64, Vec<Bytes>) {
        self.shared.queue.lock().undurable(run)
    }

    /// Whether this process has a run. Waits, where it has let go of it, until that is durable.
    pub(super) fn has(&self, id: &str) -> bool {
        let mut queue = self.shared.queue.lock();
        while let Some(run) = queue.has(id) {
            if queue.failed.is_some() || !queue.is_left(run) {
                return true;
            }
            self.shared.done.wait(&mut queue);
        }
        false
    }

    pub(super) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Keeps a snapshot when what was appended before is durable, if the run is this process's.
    pub(super) fn put_snapshot(&self, run: &str, pid: u64, step: u64, key: &[u8], data: Vec<u8>) {
        let queue = self.shared.queue.lock();
        let Some(owned) = queue.has(run) else { return };
        let (after, seat) = (queue.handed(), queue.known.get(&owned).map(|known| Arc::clone(&known.seat)));
        drop(queue);
        let Some(seat) = seat else { return };
        let key = Bytes::copy_from_slice(key);
        self.snapshots.put(owned, pid, Pending { step, key, data: data.into(), after, seat, number: 0 });
    }

    /// Waits until all that was handed over before is durable and everybody was told, and snapshots that were are kept.
    ///
    /// # Errors
    /// Why it never will be.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let until = self.shared.queue.lock().handed();
        if self.shared.wait_for(until) {
            self.snapshots.wait();
            return Ok(());
        }
        Err(self.shared.queue.lock().failed.clone().expect("invariant: it was just seen"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().take();
        let is_own = thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id());
        // What snapshots wait for is told by the writer's thread.
        self.snapshots.close(!is_own);
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = thread.filter(|_| !is_own) {
            let _ = thread.join();
        }
        if self.shared.queue.lock().failed.is_some() {
            leave_as_it_is(self.reader.get_mut());
        }
    }
}

/// Lets a connection write nothing when it is closed. What an fsync that failed left unsynced may be gone from the system's memory too: a
/// checkpoint would sync it once more, be told that all is well, and make the journal name what is not there.
fn leave_as_it_is(db: &Connection) {
    let _ = db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

/// Says that nothing will be durable any more where the thread panics, which is a defect: whoever waits would wait for ever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreError::Stopped);
        }
    }
}

impl Shared {
    /// Waits until so many groups are durable. False: that never happens.
    pub(super) fn wait_for(&self, groups: u64) -> bool {
        let mut queue = self.queue.lock();
        while queue.told < groups && queue.failed.is_none() {
            self.done.wait(&mut queue);
        }
        queue.failed.is_none()
    }

    fn run(&self, mut db: Connection) {
        let _alarm = Alarm(self);
        loop {
            let mut queue = self.queue.lock();
            while queue.is_empty() && !queue.closing {
                self.work.wait(&mut queue);
            }
            if queue.is_empty() {
                return;
            }
            let group = queue.take();
            drop(queue);
            if !self.commit(&mut db, &group) {
                leave_as_it_is(&db);
                return;
            }
        }
    }

    /// Makes a group durable and says so. False: nothing will be any more.
    fn commit(&self, db: &mut Connection, group: &Group) -> bool {
        let mut is_full = false;
        let written = loop {
            match self.try_write(db, group) {
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
        let fates = match written {
            Ok(Some(fates)) => fates,
            Ok(None) => return self.fail(StoreError::Buried),
            Err(error) => return self.fail(sqlite(&self.path)(error)),
        };
        let mut queue = self.queue.lock();
        queue.landed();
        let mut told = Vec::with_capacity(fates.len());
        for (run, fate) in fates {
            let batch = &group[&run];
            let Some(known) = queue.known.get_mut(&run) else { continue };
            let id = Arc::clone(&known.id);
            match fate {
                Fate::Written { row, head } => {
                    known.row = row;
                    known.seat.store(row.unwrap_or(0), Relaxed);
                    known.head = head;
                    known.new = None;
                    known.durable += batch.records;
                    let end = u64::from(batch.ended.is_some());
                    if batch.records + end > 0 {
                        told.push((id, Ok(known.durable + end)));
                    }
                }
                Fate::Lost(error) => {
                    known.lost = true;
                    known.seat.store(0, Relaxed);
                    told.push((id, Err(error)));
                }
            }
            if batch.left || batch.ended.is_some() {
                queue.forget(run);
            }
        }
        drop(queue);
        for (id, fate) in told {
            match fate {
                Ok(record) => self.durables.durable(&id, record),
                Err(error) => self.durables.lost(&id, &error),
            }
        }
        let mut queue = self.queue.lock();
        queue.told += 1;
        drop(queue);
        self.done.notify_all();
        true
    }

    /// None: this host is taken for dead.
    fn try_write(&self, db: &mut Connection, group: &Group) -> rusqlite::Result<Option<Vec<(Owned, Fate)>>> {
        let host = self.host.load(Relaxed);
        let _pen = self.pen.lock();
        let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if is_buried(&change, host)? {
            return Ok(None);
        }
        let fates = write(&change, &self.queue, group, host)?;
        change.commit()?;
        Ok(Some(fates))
    }

    fn fail(&self, error: StoreError) -> bool {
        let mut queue = self.queue.lock();
        queue.landed();
        queue.failed = Some(error.clone());
        drop(queue);
        self.done.notify_all();
        self.durables.failed(&error);
        false
    }
}
