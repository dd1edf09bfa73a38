//! The writer, for those who hand it records.

use super::commit_loop::{Shared, leave_as_it_is};
use super::hosts::{Host, Locks};
use super::inbox::Consumed;
use super::queue::{Known, Owned, Queue};
use super::schema::{connect, io, sqlite, waits};
use super::snapshots::{Pending, Snapshots};
use super::{StoreError, checkpoint};
use crate::base::brief;
use crate::journal::{DurabilityListener, NewRun};
use crate::run::RunEnd;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ffi};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait for the writer: beyond it no process begins a step, and no run begins. Arbitrary.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// The writer, for those who hand it records.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reader: Mutex<Connection>,
    pub(super) locks: Locks,
    host: Mutex<Option<Host>>,
    /// Where this process listens, for when it becomes a host.
    pub(super) socket: Mutex<Option<PathBuf>>,
    snapshots: Snapshots,
    checkpoints: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        db: Connection,
        folder: &Path,
        locks: Locks,
        durables: Arc<dyn DurabilityListener>,
    ) -> Result<Arc<Self>, StoreError> {
        let path = folder.join("journal.db");
        let reader = Mutex::new(connect(&path)?);
        let shared = Arc::new(Shared::new(path.clone(), durables));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map(|thread| Mutex::new(Some(thread)))
        };
        let writes = Arc::clone(&shared);
        let thread = spawn("journal", Box::new(move || writes.run(db))).map_err(io(&path))?;
        let beside = Arc::clone(&shared);
        let checkpoints = spawn("checkpoint", Box::new(move || checkpoint::run(&beside))).map_err(io(&path))?;
        let snapshots = Snapshots::new(folder.join("snapshots.db"), Arc::clone(&shared));
        let (host, socket) = Default::default();
        Ok(Arc::new(Self { shared, thread, reader, locks, host, socket, snapshots, checkpoints }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The connection of those who read, and who write what no run waits for.
    pub(super) fn reader(&self) -> MutexGuard<'_, Connection> {
        brief::waits();
        self.reader.lock()
    }

    /// Whoever writes over the reader's connection holds this meanwhile, and takes it after that connection.
    pub(super) fn pen(&self) -> MutexGuard<'_, ()> {
        brief::waits();
        self.shared.pen.lock()
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
            let _pen = self.pen();
            let socket = self.socket.lock().clone();
            let registered = host.insert(self.locks.register(&mut db, self.path(), socket.as_deref())?);
            self.shared.host.store(registered.number, Relaxed);
            Ok(registered.number)
        })
    }

    /// This process's number in the store, where it has one.
    pub(super) fn registered(&self) -> Option<i64> {
        self.host.lock().as_ref().map(|host| host.number)
    }

    /// Writes to the file beside the thread that writes runs. An fsync that fails is as final here as it is there: nothing is written by this
    /// process any more, by nobody, and everybody is told. `write` holds no lock when it returns.
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

    pub(super) fn begin(&self, run: &NewRun) -> Result<Owned, StoreError> {
        self.host()?;
        brief::waits();
        let mut queue = self.shared.queue.lock();
        while queue.bytes > BACKLOG_BYTES_MAX && queue.failed.is_none() {
            self.shared.done.wait(&mut queue);
        }
        drop(queue);
        self.know(Known::begun(run)).ok_or_else(|| StoreError::Exists(Arc::clone(&run.id)))
    }

    pub(super) fn know(&self, known: Known) -> Option<Owned> {
        self.shared.queue.lock().know(known)
    }

    pub(super) fn append(&self, run: Owned, record: &[u8], consumed: &mut Vec<Consumed>) {
        self.hand(self.shared.queue.lock(), false, |queue| {
            queue.append(run, record, consumed);
            if queue.bytes > BACKLOG_BYTES_MAX {
                queue.hurried = true;
                self.shared.backlog.set_full(true);
            }
        });
    }

    /// Somebody waits for what a run has appended.
    pub(super) fn hurry(&self, run: Owned) {
        let queue = self.shared.queue.lock();
        let is_here = queue.gathers(run);
        self.hand(queue, is_here, |_| {});
    }

    /// A run is over.
    pub(super) fn end(&self, run: Owned, end: RunEnd) {
        self.hand(self.shared.queue.lock(), true, |queue| {
            if let Some(batch) = queue.batch(run) {
                batch.ended = Some(end);
            }
        });
    }

    /// A run is no longer this process's, when what it wrote is durable. Does not wait: the writer's own thread may be the last that has
    /// a run.
    pub(super) fn let_go(&self, run: Owned) {
        self.hand(self.shared.queue.lock(), true, |queue| match queue.batch(run) {
            Some(batch) => batch.left = true,
            None => queue.forget(run),
        });
    }

    fn hand(&self, mut queue: MutexGuard<'_, Queue>, hurried: bool, put: impl FnOnce(&mut Queue)) {
        let (was_empty, was_hurried) = (queue.is_empty(), queue.hurried);
        put(&mut queue);
        queue.hurried |= hurried && !queue.is_empty();
        if (was_empty && !queue.is_empty()) || queue.hurried != was_hurried {
            self.shared.work.notify_one();
        }
    }

    /// What a run has written so far and is not durable: after how many records, and the batches in their order.
    pub(super) fn undurable(&self, run: Owned) -> (u64, Vec<Vec<Bytes>>) {
        self.shared.queue.lock().undurable(run)
    }

    /// Whether this process has a run. Waits, where it has let go of it, until that is durable.
    pub(super) fn has(&self, id: &str) -> bool {
        brief::waits();
        let mut queue = self.shared.queue.lock();
        while let Some(run) = queue.has(id) {
            if queue.failed.is_some() || !queue.is_left(run) {
                return true;
            }
            self.shared.done.wait(&mut queue);
        }
        false
    }

    /// Copies SQLite's log into the file and empties it, where nobody else uses the file and nothing has failed.
    pub(super) fn settle(&self) {
        if self.shared.has_failed() {
            return;
        }
        let mut db = self.reader();
        let _pen = self.pen();
        // Where somebody else has the file, that one will.
        if db.busy_timeout(Duration::ZERO).is_ok() {
            let settled = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            if let Err(error) = settled.and_then(|()| db.busy_handler(Some(waits)))
                && is_of_sync(&sqlite(self.path())(error))
            {
                leave_as_it_is(&db);
            }
        }
    }

    pub(super) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Keeps a snapshot when what was appended before is durable, if the run is this process's.
    pub(super) fn put_snapshot(&self, run: &str, pid: u64, step: u64, key: &[u8], data: Vec<u8>) {
        let queue = self.shared.queue.lock();
        let Some(owned) = queue.has(run) else { return };
        let after = queue.handed();
        let seat = queue.known.get(&owned).map(|known| (Arc::clone(&known.seat), known.created));
        drop(queue);
        let Some((seat, created)) = seat else { return };
        let key = Bytes::copy_from_slice(key);
        self.snapshots.put(owned, pid, Pending { step, key, data: data.into(), after, created, seat, number: 0 });
    }

    /// As [`Self::flush`], but waits for no room on a full disk, and sees whether what was written is still there. False: the disk is full, and
    /// what was handed over last is not durable.
    ///
    /// # Errors
    /// As those of [`Self::flush`]; and where somebody has removed or replaced a file of the store.
    pub(super) fn flush_while_room(&self) -> Result<bool, StoreError> {
        let mut until = 0;
        self.hand(self.shared.queue.lock(), true, |queue| until = queue.handed());
        let is_durable = self.shared.wait_while_room(until)?;
        if is_durable {
            self.snapshots.wait();
        }
        self.shared.check_files().map(|()| is_durable)
    }

    /// Waits for no room on a full disk any more: what is not durable by now is given up.
    pub(super) fn give_up(&self) {
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
    }

    /// Waits until all that was handed over before is durable and everybody was told, and snapshots that were are kept.
    ///
    /// # Errors
    /// Why it never will be.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let mut until = 0;
        self.hand(self.shared.queue.lock(), true, |queue| until = queue.handed());
        if self.shared.wait_for(until) {
            self.snapshots.wait();
            return Ok(());
        }
        Err(self.shared.queue.lock().failed.clone().expect("invariant: it was just seen"))
    }
}

/// Whether an fsync has failed: nobody knows what of the file is on the disk.
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
        // What snapshots wait for is told by the writer's thread.
        self.snapshots.close(!is_own);
        self.shared.bell.close();
        if let Some(checkpoints) = self.checkpoints.get_mut().take() {
            let _ = checkpoints.join();
        }
        if let Some(thread) = thread.filter(|_| !is_own) {
            let _ = thread.join();
        }
        if self.shared.queue.lock().failed.is_some() {
            leave_as_it_is(self.reader.get_mut());
        }
    }
}
