//! The one thread that writes.

use super::StoreError;
use super::batch::Sealed;
use super::checkpoint::Bell;
use super::group::{Fate, Written, sealed, write};
use super::heads::Unsaved;
use super::hosts::is_buried;
use super::queue::{Group, Owned, Queue};
use super::schema::sqlite;
use super::wal::log_of;
use crate::base::brief;
use crate::journal::DurabilityListener;
use crate::run::Backlog;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// How long what nobody waits for may wait for company. Arbitrary: many steps, and little that a crash would take back.
const UNHURRIED: Duration = Duration::from_millis(5);
/// How long to wait before a full disk is tried again.
const FULL: Duration = Duration::from_millis(500);

/// What the threads of a store share.
pub(super) struct Shared {
    pub(super) queue: Mutex<Queue>,
    /// There is something to write, or the end.
    pub(super) work: Condvar,
    /// A group is done.
    pub(super) done: Condvar,
    pub(super) durables: Arc<dyn DurabilityListener>,
    pub(super) path: PathBuf,
    /// The files that the store is in, as they were when it was opened.
    files: Files,
    /// Held by whoever of this process writes to the file, before SQLite's own lock, for which one can only wait by asking again and again.
    pub(super) pen: Mutex<()>,
    /// This process's number in the store; 0 where it has none. Written before the first run is known; the queue's lock orders the two.
    pub(super) host: AtomicI64,
    pub(super) bell: Bell,
    /// Whether those who append are to wait before their next step. Set under the queue's lock.
    pub(super) backlog: Arc<Backlog>,
}

/// The files of a store, by which it is seen that somebody has removed or replaced one: SQLite would write on to what nobody finds again.
struct Files(Vec<(PathBuf, Option<Identity>)>);

/// Device and number.
type Identity = (u64, u64);

impl Files {
    /// The store's file, and SQLite's log beside it, which is there as long as somebody has the store open.
    fn of(path: &Path) -> Self {
        let paths = [path.to_owned(), log_of(path)];
        Self(paths.map(|path| (identity(&path), path)).map(|(identity, path)| (path, identity)).into())
    }

    fn are_there(&self) -> bool {
        self.0.iter().all(|(path, known)| known.is_none() || identity(path) == *known)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Lets a connection write nothing when it is closed. What an fsync that failed left unsynced may be gone from the system's memory too: a
/// checkpoint would sync it once more, be told that all is well, and make the journal name what is not there.
pub(super) fn leave_as_it_is(db: &Connection) {
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
    pub(super) fn new(path: PathBuf, durables: Arc<dyn DurabilityListener>) -> Self {
        let (queue, pen, host, bell, backlog) = Default::default();
        let files = Files::of(&path);
        Self { queue, work: Condvar::new(), done: Condvar::new(), durables, path, files, pen, host, bell, backlog }
    }

    /// Waits until so many groups are durable, or the disk is full. False: it is full.
    pub(super) fn wait_while_room(&self, groups: u64) -> Result<bool, StoreError> {
        brief::waits();
        let mut queue = self.queue.lock();
        while queue.told < groups && queue.failed.is_none() && !queue.full {
            self.done.wait(&mut queue);
        }
        queue.failed.clone().map_or(Ok(queue.told >= groups), Err)
    }

    /// Sees whether the store's files are those that were opened; where they are not, nothing that they were told to have is there.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        if self.files.are_there() {
            return Ok(());
        }
        let gone = StoreError::Gone(self.path.clone());
        self.fail(gone.clone());
        Err(gone)
    }

    /// Waits until so many groups are durable. False: that never happens.
    pub(super) fn wait_for(&self, groups: u64) -> bool {
        brief::waits();
        let mut queue = self.queue.lock();
        while queue.told < groups && queue.failed.is_none() {
            self.done.wait(&mut queue);
        }
        queue.failed.is_none()
    }

    pub(super) fn run(&self, mut db: Connection) {
        let _alarm = Alarm(self);
        let mut unsaved = Unsaved::default();
        loop {
            let mut queue = self.queue.lock();
            while !queue.hurried && !queue.closing {
                if queue.is_empty() {
                    self.work.wait(&mut queue);
                } else if self.work.wait_for(&mut queue, UNHURRIED).timed_out() {
                    break;
                }
            }
            if queue.failed.is_some() {
                drop(queue);
                leave_as_it_is(&db);
                return;
            }
            if queue.is_empty() {
                return;
            }
            let group = queue.take();
            self.backlog.set_full(false);
            drop(queue);
            self.backlog.go_on();
            if !self.commit(&mut db, &group, &mut unsaved) {
                leave_as_it_is(&db);
                return;
            }
        }
    }

    /// Makes a group durable and says so. False: nothing will be any more.
    fn commit(&self, db: &mut Connection, group: &Group, unsaved: &mut Unsaved) -> bool {
        let sealed = sealed(group);
        let mut is_full = false;
        let written = loop {
            match self.try_write(db, group, &sealed, unsaved) {
                // Another process is in the middle of a transaction, and stands still perhaps: nothing of ours was written.
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && !self.queue.lock().closing => {}
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                    if !std::mem::replace(&mut is_full, true) {
                        self.durables.full(true);
                        self.queue.lock().full = true;
                        self.done.notify_all();
                    }
                    // Whoever ends the host meanwhile has not been told that anything of this is durable.
                    if self.queue.lock().closing {
                        break Err(error);
                    }
                    std::thread::sleep(FULL);
                }
                other => break other,
            }
        };
        if is_full {
            self.durables.full(false);
            self.queue.lock().full = false;
        }
        // Commits that another thread has found to be no good are not told.
        if self.has_failed() {
            return false;
        }
        let mut written = match written {
            Ok(Some(written)) if self.files.are_there() => written,
            Ok(Some(_)) => return self.fail(StoreError::Gone(self.path.clone())),
            Ok(None) => return self.fail(StoreError::HostFenced),
            Err(error) => return self.fail(sqlite(&self.path)(error)),
        };
        written.note(unsaved);
        // What changes beside the rows: the tables of runs, and where they are looked up.
        let bytes: usize = sealed.values().map(|batch| batch.bytes.len() + batch.blob_bytes() + 64).sum();
        self.bell.wrote(3 + bytes / 4_096 + group.values().filter(|batch| batch.ended.is_some()).count() / 2);
        let mut queue = self.queue.lock();
        queue.landed();
        let mut told = Vec::with_capacity(written.fates.len());
        for (run, fate) in written.fates {
            let batch = &group[&run];
            let Some(known) = queue.known.get_mut(&run) else { continue };
            let id = Arc::clone(&known.id);
            match fate {
                Fate::Written { row, head } => {
                    known.row = row;
                    known.seat.store(row.unwrap_or(0), Relaxed);
                    known.head = head;
                    known.new = None;
                    known.durable += batch.len();
                    let end = u64::from(batch.ended.is_some());
                    if batch.len() + end > 0 {
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
    fn try_write(
        &self,
        db: &mut Connection,
        group: &Group,
        sealed: &BTreeMap<Owned, Sealed>,
        unsaved: &Unsaved,
    ) -> rusqlite::Result<Option<Written>> {
        let host = self.host.load(Relaxed);
        let _pen = self.pen.lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_buried(&change, host)? {
            return Ok(None);
        }
        let written = write(&change, &self.queue, group, sealed, unsaved, host)?;
        change.commit()?;
        Ok(Some(written))
    }

    /// Nothing will be durable any more, and everybody is told, once.
    pub(super) fn fail(&self, error: StoreError) -> bool {
        let mut queue = self.queue.lock();
        queue.landed();
        let is_first = queue.failed.is_none();
        if is_first {
            queue.failed = Some(error.clone());
        }
        // What is appended from now on is dropped.
        self.backlog.set_full(false);
        drop(queue);
        self.backlog.go_on();
        self.done.notify_all();
        self.bell.close();
        if is_first {
            self.durables.failed(&error);
        }
        false
    }

    pub(super) fn has_failed(&self) -> bool {
        self.queue.lock().failed.is_some()
    }
}
