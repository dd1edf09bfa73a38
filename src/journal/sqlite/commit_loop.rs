//! The one thread that writes records, and what the threads of a store share.

use super::StoreError;
use super::batch::Sealed;
use super::checkpoint_signal::CheckpointSignal;
use super::error::sqlite;
use super::group::{BatchOutcome, PlaceChanges, Written, sealed, write};
use super::heads::UnsavedHeads;
use super::hosts::is_fenced;
use super::places::Admitted;
use super::queue::{Batch, Group, Queue, RunKey};
use super::schema::do_not_checkpoint_on_close;
use super::statistics::{Change, Statistics};
use super::wal::log_of;
use crate::base::brief;
use crate::journal::{DurabilityListener, Place};
use crate::run::Backlog;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long records gather that no caller waits for. Arbitrary: many steps, and little that a crash
/// would take back.
const GATHER_TIME: Duration = Duration::from_millis(5);
/// How long to wait before a full disk is tried again.
const FULL_RETRY_AFTER: Duration = Duration::from_millis(500);

/// What the threads of a store share.
pub(super) struct Shared {
    pub(super) queue: Mutex<Queue>,
    /// There is something to write, or the store closes.
    pub(super) work: Condvar,
    /// A group is done.
    pub(super) done: Condvar,
    pub(super) listener: Arc<dyn DurabilityListener>,
    pub(super) path: PathBuf,
    /// The files that the store is in, as they were when it was opened.
    files: Files,
    /// Held by each thread of this process that writes to the file, and taken before SQLite's own
    /// lock, which can only be waited for by asking again and again.
    pub(super) write_lock: Mutex<()>,
    /// This process's number in the store; 0 if it has none. Written before the first run is known;
    /// the queue's lock orders the two.
    pub(super) host: AtomicI64,
    pub(super) checkpoint_signal: CheckpointSignal,
    /// Whether appending runs wait before their next step. Set under the queue's lock.
    pub(super) backlog: Arc<Backlog>,
    pub(super) statistics: Statistics,
}

/// The files of a store, to notice when one was removed or replaced: SQLite would write on to a
/// file that no process finds again.
struct Files(Vec<(PathBuf, Option<Identity>)>);

/// Device and inode.
type Identity = (u64, u64);

impl Files {
    /// The store's file, and SQLite's log beside it, which exists while a process has the store
    /// open.
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

/// Fails the store if the thread panics, which is a defect: waiters would wait for ever.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreError::Stopped);
        }
    }
}

impl Shared {
    pub(super) fn new(path: PathBuf, listener: Arc<dyn DurabilityListener>) -> Self {
        Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            listener,
            files: Files::of(&path),
            path,
            write_lock: Mutex::default(),
            host: AtomicI64::default(),
            checkpoint_signal: CheckpointSignal::default(),
            backlog: Arc::default(),
            statistics: Statistics::default(),
        }
    }

    /// Waits until this many groups are durable, or the disk is full. Returns whether they are
    /// durable.
    pub(super) fn wait_while_room(&self, groups: u64) -> Result<bool, StoreError> {
        brief::waits();
        let mut queue = self.queue.lock();
        while queue.groups_acknowledged < groups && queue.failed.is_none() && !queue.full {
            self.done.wait(&mut queue);
        }
        queue.failed.clone().map_or(Ok(queue.groups_acknowledged >= groups), Err)
    }

    /// Checks that the store's files are those that were opened. If not, what was reported as
    /// durable is not in them.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        if self.files.are_there() {
            return Ok(());
        }
        let gone = StoreError::Gone(self.path.clone());
        self.fail(gone.clone());
        Err(gone)
    }

    /// Waits until this many groups are durable. Returns false if they never will be.
    pub(super) fn wait_for(&self, groups: u64) -> bool {
        brief::waits();
        let mut queue = self.queue.lock();
        while queue.groups_acknowledged < groups && queue.failed.is_none() {
            self.done.wait(&mut queue);
        }
        queue.failed.is_none()
    }

    pub(super) fn run(&self, mut db: Connection) {
        let _alarm = Alarm(self);
        let mut unsaved = UnsavedHeads::default();
        loop {
            let mut queue = self.queue.lock();
            while !queue.flush_soon && !queue.closing {
                if queue.is_empty() {
                    self.work.wait(&mut queue);
                } else if self.work.wait_for(&mut queue, GATHER_TIME).timed_out() {
                    break;
                }
            }
            if queue.failed.is_some() {
                drop(queue);
                do_not_checkpoint_on_close(&db);
                return;
            }
            if queue.is_empty() {
                return;
            }
            let group = queue.take();
            self.backlog.set_full(false);
            drop(queue);
            self.backlog.release();
            if !self.commit(&mut db, &group, &mut unsaved) {
                do_not_checkpoint_on_close(&db);
                return;
            }
        }
    }

    /// Makes a group durable and reports it. Returns false if the store has failed.
    fn commit(&self, db: &mut Connection, group: &Group, unsaved: &mut UnsavedHeads) -> bool {
        let sealed = sealed(group);
        let begun = Instant::now();
        let written = self.write_until_done(db, group, &sealed, unsaved);
        // Commits that another thread has found to be invalid are not reported.
        if self.has_failed() {
            return false;
        }
        let mut written = match written {
            Ok(Some(written)) if self.files.are_there() => written,
            Ok(Some(_)) => return self.fail(StoreError::Gone(self.path.clone())),
            Ok(None) => return self.fail(StoreError::HostFenced),
            Err(error) => return self.fail(sqlite(&self.path)(error)),
        };
        self.statistics.commits.add_since(begun);
        self.statistics.group_records.add(group.values().map(Batch::len).sum());
        written.note(unsaved);
        self.count_pages(group, &sealed);
        self.report_places(written.take_places());
        self.report(self.record_outcomes(written, group));
        true
    }

    /// Tries to write a group until it is written or cannot be. `None` if this host is fenced.
    fn write_until_done(
        &self,
        db: &mut Connection,
        group: &Group,
        sealed: &BTreeMap<RunKey, Sealed>,
        unsaved: &UnsavedHeads,
    ) -> rusqlite::Result<Option<Written>> {
        let mut is_full = false;
        let written = loop {
            match self.try_write(db, group, sealed, unsaved) {
                // Another process is in the middle of a transaction, and is stopped perhaps:
                // nothing of this group was written.
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && !self.queue.lock().closing => {}
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                    if !is_full {
                        is_full = true;
                        self.disk_is_full();
                    }
                    // If the host ends meanwhile, nothing of this was reported as durable.
                    if self.queue.lock().closing {
                        break Err(error);
                    }
                    std::thread::sleep(FULL_RETRY_AFTER);
                }
                other => break other,
            }
        };
        if is_full {
            self.listener.full(false);
            self.queue.lock().full = false;
        }
        written
    }

    fn disk_is_full(&self) {
        self.listener.full(true);
        self.queue.lock().full = true;
        self.done.notify_all();
    }

    /// Counts what a group has changed for the next checkpoint: its rows, the tables of runs, and
    /// their indexes.
    fn count_pages(&self, group: &Group, sealed: &BTreeMap<RunKey, Sealed>) {
        let bytes: usize = sealed.values().map(|batch| batch.bytes.len() + batch.blob_bytes() + 64).sum();
        let ended = group.values().filter(|batch| batch.ended.is_some()).count();
        self.checkpoint_signal.wrote(3 + bytes / 4_096 + ended / 2);
    }

    /// Records the outcome of a group in the queue. Returns what to report of each run: the number
    /// of its last durable record, or why it is lost.
    fn record_outcomes(&self, written: Written, group: &Group) -> Vec<(Arc<str>, Result<u64, StoreError>)> {
        let mut queue = self.queue.lock();
        queue.group_done();
        let mut reports = Vec::with_capacity(written.outcomes.len());
        let mut changes = Vec::new();
        for (run, outcome) in written.outcomes {
            let batch = &group[&run];
            let Some(known) = queue.known.get_mut(&run) else { continue };
            let id = Arc::clone(&known.id);
            match outcome {
                BatchOutcome::Written { row, head } => {
                    known.row = row;
                    known.shared_row.store(row.unwrap_or(0), Relaxed);
                    known.head = head;
                    let name = &known.name;
                    if let Some(new) = known.new.take() {
                        changes.push(Change::Began { name: Arc::clone(name), source: Arc::clone(&new.source) });
                    }
                    if let Some(end) = batch.ended {
                        changes.push(Change::Ended { name: Arc::clone(name), created: known.created, end });
                    }
                    known.durable += batch.len();
                    if batch.len() > 0 || batch.wake.is_some() {
                        known.parked = batch.wake.is_some();
                    }
                    let end = u64::from(batch.ended.is_some());
                    if batch.len() + end > 0 {
                        reports.push((id, Ok(known.durable + end)));
                    }
                }
                BatchOutcome::Lost(error) => {
                    known.lost = true;
                    known.shared_row.store(0, Relaxed);
                    reports.push((id, Err(error)));
                }
            }
            if batch.released || batch.ended.is_some() {
                queue.remove(run);
            }
        }
        drop(queue);
        self.statistics.note(changes);
        reports
    }

    /// Reports the places of runs in concurrency groups, once they are durable.
    fn report_places(&self, changes: PlaceChanges) {
        for (id, place) in changes.begun {
            self.listener.placed(&id, place);
        }
        self.report_admitted(&changes.admitted);
        for group in changes.changed {
            self.listener.group_changed(&group);
        }
    }

    /// Reports runs that have a place from now on.
    pub(super) fn report_admitted(&self, admitted: &[Admitted]) {
        for run in admitted.iter().filter(|run| run.owner.is_some()) {
            self.listener.placed(&run.id, Place::Has);
        }
    }

    /// Reports to the listener, and then wakes those that wait for the group.
    fn report(&self, reports: Vec<(Arc<str>, Result<u64, StoreError>)>) {
        for (id, report) in reports {
            match report {
                Ok(record) => self.listener.durable(&id, record),
                Err(error) => self.listener.lost(&id, &error),
            }
        }
        let mut queue = self.queue.lock();
        queue.groups_acknowledged += 1;
        drop(queue);
        self.done.notify_all();
    }

    /// Writes a group in one transaction. `None` if this host is fenced.
    fn try_write(
        &self,
        db: &mut Connection,
        group: &Group,
        sealed: &BTreeMap<RunKey, Sealed>,
        unsaved: &UnsavedHeads,
    ) -> rusqlite::Result<Option<Written>> {
        let host = self.host.load(Relaxed);
        let _write_lock = self.write_lock.lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_fenced(&change, host)? {
            return Ok(None);
        }
        let written = write(&change, &self.queue, group, sealed, unsaved, host)?;
        change.commit()?;
        Ok(Some(written))
    }

    /// Fails the store: nothing becomes durable any more. Reports it once, and returns false.
    pub(super) fn fail(&self, error: StoreError) -> bool {
        let mut queue = self.queue.lock();
        queue.group_done();
        let is_first = queue.failed.is_none();
        if is_first {
            queue.failed = Some(error.clone());
        }
        // What is appended from now on is dropped.
        self.backlog.set_full(false);
        drop(queue);
        self.backlog.release();
        self.done.notify_all();
        self.checkpoint_signal.close();
        if is_first {
            self.listener.failed(&error);
        }
        false
    }

    pub(super) fn has_failed(&self) -> bool {
        self.queue.lock().failed.is_some()
    }
}
