//! The writer, for those that append records or write to the file beside it.

use super::commit_loop::Shared;
use super::components::ComponentStore;
use super::error::{io, sqlite};
use super::hosts::{Host, Locks};
use super::marks::Marks;
use super::queue::{Consumed, KnownRun, Queue, RunKey};
use super::read::{read, read_from};
use super::rows::{RunRow, head, run_row};
use super::schema::{connect, do_not_checkpoint_on_close, waits};
use super::snapshots::{PendingSnapshot, RunIdentity, Snapshots};
use super::{StoreError, checkpoint, wal};
use crate::base::brief;
use crate::journal::blobs::BlobFolder;
use crate::journal::{Address, DurabilityListener, NewRun, layout};
use crate::process::Pid;
use crate::run::{Awaited, RunEnd};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, Transaction, ffi};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait for the writer: beyond it no process begins a step, and no run begins.
/// Arbitrary.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Pages of SQLite's log that a change of a few rows takes, about.
const SMALL_CHANGE_PAGES: usize = 4;

/// The writer of a store, with its threads and connections.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reader: Mutex<Connection>,
    /// Locked after the reader.
    marks: Mutex<Marks>,
    pub(super) locks: Locks,
    pub(super) components: ComponentStore,
    pub(super) blobs: Arc<BlobFolder>,
    host: Mutex<Option<Host>>,
    /// Where this process listens, for when it becomes a host.
    pub(super) address: Mutex<Option<Address>>,
    snapshots: Snapshots,
    checkpoints: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        db: Connection,
        folder: &Path,
        locks: Locks,
        listener: Arc<dyn DurabilityListener>,
    ) -> Result<Arc<Self>, StoreError> {
        let path = folder.join(layout::JOURNAL);
        let reader = Mutex::new(connect(&path)?);
        let shared = Arc::new(Shared::new(path.clone(), listener));
        shared.checkpoint_signal.found(std::fs::metadata(wal::log_of(&path)).map_or(0, |log| log.len()));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map(|thread| Mutex::new(Some(thread)))
        };
        let writes = Arc::clone(&shared);
        let thread = spawn("journal", Box::new(move || writes.run(db))).map_err(io(&path))?;
        let beside = Arc::clone(&shared);
        let checkpoints = spawn("checkpoint", Box::new(move || checkpoint::run(&beside))).map_err(io(&path))?;
        let snapshots = Snapshots::new(folder.join(layout::SNAPSHOTS), Arc::clone(&shared));
        let components = ComponentStore::of(folder);
        let blobs = Arc::new(BlobFolder::new(folder.join(layout::BLOBS)));
        // What killed processes were writing, which can be large. A file that stays is no reason to
        // fail.
        let _ = blobs.remove_abandoned();
        let (host, address, marks) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Arc::new(Self {
            shared,
            thread,
            reader,
            marks,
            locks,
            components,
            blobs,
            host,
            address,
            snapshots,
            checkpoints,
        }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The connection for reading, and for writing what no run waits for.
    pub(super) fn reader(&self) -> MutexGuard<'_, Connection> {
        brief::waits();
        self.reader.lock()
    }

    /// The lock to hold while writing over the reader's connection; taken after that connection.
    pub(super) fn write_lock(&self) -> MutexGuard<'_, ()> {
        brief::waits();
        self.shared.checkpoint_signal.wrote(SMALL_CHANGE_PAGES);
        self.shared.write_lock.lock()
    }

    /// This process's number in the store, which it is given when it first needs one.
    pub(super) fn host(&self) -> Result<i64, StoreError> {
        if let Some(host) = &*self.host.lock() {
            return Ok(host.number);
        }
        self.beside(|| {
            let mut host = self.host.lock();
            if let Some(host) = &*host {
                return Ok(host.number);
            }
            let mut db = self.reader();
            let _write_lock = self.write_lock();
            let address = self.address.lock().clone();
            let registered = host.insert(self.locks.register(&mut db, self.path(), address.as_ref())?);
            self.shared.host.store(registered.number, Relaxed);
            Ok(registered.number)
        })
    }

    /// This process's number in the store, if it has one.
    pub(super) fn registered(&self) -> Option<i64> {
        self.host.lock().as_ref().map(|host| host.number)
    }

    /// Writes to the file beside the thread that writes runs. A failed fsync is fatal here too:
    /// this process writes nothing more, and every waiter is notified. `write` holds no lock when
    /// it returns.
    pub(super) fn beside<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(failed) = &self.shared.queue.lock().failed {
            return Err(failed.clone());
        }
        let written = write();
        if let Err(error) = &written
            && is_of_sync(error)
        {
            self.shared.fail(error.clone());
        }
        written
    }

    pub(super) fn begin(&self, run: &NewRun) -> Result<RunKey, StoreError> {
        self.host()?;
        brief::waits();
        let mut queue = self.shared.queue.lock();
        while queue.bytes > BACKLOG_BYTES_MAX && queue.failed.is_none() {
            self.shared.done.wait(&mut queue);
        }
        drop(queue);
        self.add(KnownRun::begun(run)).ok_or_else(|| StoreError::Exists(Arc::clone(&run.id)))
    }

    /// Adds a run that this process owns from now on. Returns `None` if it owns it already.
    pub(super) fn add(&self, known: KnownRun) -> Option<RunKey> {
        self.shared.queue.lock().add(known)
    }

    pub(super) fn append(&self, run: RunKey, record: &[u8], consumed: &mut Vec<Consumed>) {
        self.enqueue(self.shared.queue.lock(), false, |queue| {
            queue.append(run, record, consumed);
            if queue.bytes > BACKLOG_BYTES_MAX {
                queue.flush_soon = true;
                self.shared.backlog.set_full(true);
            }
        });
    }

    /// Writes what a run has appended soon: a caller waits for it.
    pub(super) fn flush_soon(&self, run: RunKey) {
        let queue = self.shared.queue.lock();
        let is_here = queue.gathers(run);
        self.enqueue(queue, is_here, |_| {});
    }

    /// Ends a run.
    pub(super) fn end(&self, run: RunKey, end: RunEnd) {
        self.enqueue(self.shared.queue.lock(), true, |queue| {
            if let Some(batch) = queue.batch(run) {
                batch.ended = Some(end);
            }
        });
    }

    /// Writes what a run waits for from people.
    pub(super) fn awaits(&self, run: RunKey, awaited: Vec<Awaited>) {
        self.enqueue(self.shared.queue.lock(), false, |queue| {
            if let Some(batch) = queue.batch(run) {
                batch.awaited = Some(awaited);
            }
        });
    }

    /// Writes that a run is parked until then: see `run.wake`.
    pub(super) fn parks(&self, run: RunKey, wake: i64) {
        self.enqueue(self.shared.queue.lock(), false, |queue| {
            if let Some(batch) = queue.batch(run) {
                batch.wake = Some(wake);
            }
        });
    }

    /// Waits until the rows of everything that was appended before can be read, or the disk is
    /// full.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub(super) fn flush_rows(&self) -> Result<(), StoreError> {
        if self.shared.queue.lock().is_settled() {
            return Ok(());
        }
        self.shared.wait_while_room(self.flush_all_soon()).map(|_| ())
    }

    /// Releases a run: no host owns it when what this process wrote is durable. Does not wait: the
    /// writer's own thread may be the last that holds the run's log.
    pub(super) fn release(&self, run: RunKey) {
        self.enqueue(self.shared.queue.lock(), true, |queue| match queue.batch(run) {
            Some(batch) => batch.released = true,
            None => queue.remove(run),
        });
    }

    fn enqueue(&self, mut queue: MutexGuard<'_, Queue>, flush_soon: bool, put: impl FnOnce(&mut Queue)) {
        let (was_empty, was_soon) = (queue.is_empty(), queue.flush_soon);
        put(&mut queue);
        queue.flush_soon |= flush_soon && !queue.is_empty();
        if (was_empty && !queue.is_empty()) || queue.flush_soon != was_soon {
            self.shared.work.notify_one();
        }
    }

    /// Returns the records of a run that are on disk.
    pub(super) fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        let mut db = self.reader();
        let (db, run) = self.run_now(&mut db, id)?;
        read(&db, &run).map_err(|error| error.of(id, self.path()))
    }

    /// Returns a run with its last row, in one state of the file, whatever is written meanwhile.
    fn run_now<'a>(&self, db: &'a mut Connection, id: &str) -> Result<(Transaction<'a>, RunRow), StoreError> {
        let fails = sqlite(self.path());
        // Before the file is read: what this process knows then is there.
        let (known, host) = (self.shared.queue.lock().head_of(id), self.shared.host.load(Relaxed));
        let db = db.transaction().map_err(&fails)?;
        let mut run = run_row(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        run.head = match known {
            // What this process knows of its own run is durable, and saves a search for the last
            // row.
            Some(known) if run.owner == Some(host) => run.head.max(known),
            _ => head(&db, &run).map_err(&fails)?,
        };
        Ok((db, run))
    }

    /// Returns at most `limit` records of a run that are on disk, from number `from` on.
    pub(super) fn records_within(&self, id: &str, from: u64, most: (usize, usize)) -> Result<Vec<Bytes>, StoreError> {
        let mut db = self.reader();
        let (db, run) = self.run_now(&mut db, id)?;
        read_from(&db, &run, &mut self.marks.lock(), from.max(1), most).map_err(|error| error.of(id, self.path()))
    }

    /// Returns the records of a run that this process owns, whether or not they are on disk.
    pub(super) fn all_records(&self, run: RunKey, id: &str) -> Option<Vec<Bytes>> {
        let (durable, batches) = self.shared.queue.lock().undurable(run);
        let mut records = match self.records(id) {
            Err(StoreError::Unknown(_)) => Vec::new(),
            records => records.ok()?,
        };
        let mut expected = durable;
        for batch in batches {
            expected += batch.len() as u64;
            // It may have been written meanwhile.
            if (records.len() as u64) < expected {
                records.extend(batch);
            }
        }
        Some(records)
    }

    /// Reads the row of a run.
    fn run_row(&self, id: &str) -> Result<RunRow, StoreError> {
        run_row(&self.reader(), id).map_err(sqlite(self.path()))?.ok_or_else(|| StoreError::Unknown(id.into()))
    }

    /// Returns what names a run in the file of snapshots, and its key if this process owns it.
    pub(super) fn identity(&self, run: &str) -> Result<(RunIdentity, Option<RunKey>), StoreError> {
        let key = self.shared.queue.lock().key_of(run);
        match self.run_row(run) {
            // It has begun, and is not durable yet.
            Err(StoreError::Unknown(_)) if key.is_some() => Ok((RunIdentity { row: 0, created: 0 }, key)),
            run => {
                let RunRow { row, created, .. } = run?;
                Ok((RunIdentity { row, created }, key))
            }
        }
    }

    /// Returns whether this process owns a run. If it has released the run, waits until that is
    /// durable.
    pub(super) fn owns(&self, id: &str) -> bool {
        brief::waits();
        let mut queue = self.shared.queue.lock();
        while let Some(run) = queue.key_of(id) {
            if queue.failed.is_some() || !queue.is_released(run) {
                return true;
            }
            self.shared.done.wait(&mut queue);
        }
        false
    }

    /// Copies SQLite's log into the file and empties it, if no other process uses the file and
    /// nothing has failed.
    pub(super) fn settle(&self) {
        if self.shared.has_failed() {
            return;
        }
        let mut db = self.reader();
        let _write_lock = self.write_lock();
        // If another process has the file open, that one will do it.
        if db.busy_timeout(Duration::ZERO).is_ok() {
            let settled = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            if let Err(error) = settled.and_then(|()| db.busy_handler(Some(waits)))
                && is_of_sync(&sqlite(self.path())(error))
            {
                do_not_checkpoint_on_close(&db);
            }
        }
    }

    pub(super) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Stores a snapshot when what was appended before is durable, if this process owns the run.
    pub(super) fn put_snapshot(&self, run: &str, pid: Pid, step: u64, key: &[u8], data: Vec<u8>) {
        let queue = self.shared.queue.lock();
        let Some(owned) = queue.key_of(run) else { return };
        let after = queue.groups_until_durable();
        let known = queue.known.get(&owned).map(|known| (Arc::clone(&known.shared_row), known.created));
        drop(queue);
        let Some((row, created)) = known else { return };
        let key = Bytes::copy_from_slice(key);
        self.snapshots.put(
            owned,
            pid,
            PendingSnapshot { step, key, data: data.into(), after, created, row, number: 0 },
        );
    }

    /// As [`Self::flush`], but does not wait for room on a full disk, and checks that what was
    /// written is still there. Returns false if the disk is full, and what was appended last is not
    /// durable.
    ///
    /// # Errors
    /// As [`Self::flush`]; also fails if a file of the store was removed or replaced.
    pub(super) fn flush_while_room(&self) -> Result<bool, StoreError> {
        let is_durable = self.shared.wait_while_room(self.flush_all_soon())?;
        if is_durable {
            self.snapshots.wait();
        }
        self.shared.check_files().map(|()| is_durable)
    }

    /// Stops waiting for room on a full disk: what is not durable by now is given up.
    pub(super) fn give_up(&self) {
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
    }

    /// Waits until everything that was appended before is durable and reported, and the snapshots
    /// that were put before are stored.
    ///
    /// # Errors
    /// Says why it never will be.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        if self.shared.wait_for(self.flush_all_soon()) {
            self.snapshots.wait();
            return Ok(());
        }
        Err(self.shared.queue.lock().failed.clone().expect("invariant: it was just seen"))
    }

    /// Writes what has gathered soon. Returns the number of groups after which it is durable.
    fn flush_all_soon(&self) -> u64 {
        let mut groups = 0;
        self.enqueue(self.shared.queue.lock(), true, |queue| groups = queue.groups_until_durable());
        groups
    }
}

/// Returns whether an fsync has failed: then it is unknown what of the file is on disk.
fn is_of_sync(error: &StoreError) -> bool {
    let StoreError::Sqlite { error, .. } = error else { return false };
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

impl Drop for Writer {
    fn drop(&mut self) {
        brief::waits();
        let thread = self.thread.get_mut().take();
        let is_own = thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id());
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
        // The groups that snapshots wait for are reported by the writer's thread.
        self.snapshots.close(!is_own);
        self.shared.checkpoint_signal.close();
        if let Some(checkpoints) = self.checkpoints.get_mut().take() {
            let _ = checkpoints.join();
        }
        if let Some(thread) = thread.filter(|_| !is_own) {
            let _ = thread.join();
        }
        if self.shared.queue.lock().failed.is_some() {
            do_not_checkpoint_on_close(self.reader.get_mut());
        }
    }
}
