//! Snapshots: a file of its own, and the thread that writes it.
//!
//! No commit of this file is synced, and nothing of the journal waits for it. Loss or damage costs
//! no more than time: a process is replayed instead. So a file that cannot be used is thrown away.
//!
//! A snapshot is written when the records that were appended before it are durable. Otherwise a
//! snapshot of a step that a crash took back could be found beside another step of the same number.

use super::StoreError;
use super::commit_loop::Shared;
use super::error::{io, sqlite};
use super::queue::RunKey;
use super::schema::make_file;
use crate::base::brief;
use crate::journal::StoredSnapshot;
use crate::journal::stored::SNAPSHOTS_MAX;
use crate::process::Pid;
use crate::run::SnapshotEntry;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of snapshots that may wait for the disk: beyond it further ones are dropped. Arbitrary.
const BACKLOG_BYTES_MAX: usize = 128 << 20;
/// Snapshots in one transaction. Arbitrary.
const GROUP: usize = 64;
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(2);
const FORMAT: i64 = 2;

const SCHEMA: &str = "
CREATE TABLE snapshot (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    step INTEGER NOT NULL,
    key BLOB NOT NULL,
    data BLOB NOT NULL,
    -- Of all the others, and of when the run was created: XXH3, 128 bits. In another journal another run has that number.
    sum BLOB NOT NULL,
    UNIQUE (run, pid, step)
) STRICT;
";

/// Names a run in the file of snapshots. In another journal another run may have the same row.
#[derive(Clone, Copy)]
pub(super) struct RunIdentity {
    pub(super) row: i64,
    /// When the run was created, in microseconds since 1970.
    pub(super) created: i64,
}

/// A snapshot to be written.
#[derive(Clone)]
pub(super) struct PendingSnapshot {
    pub(super) step: u64,
    pub(super) key: Bytes,
    pub(super) data: Bytes,
    /// Written when this many groups of the journal are durable.
    pub(super) after: u64,
    /// When the run was created, in microseconds since 1970.
    pub(super) created: i64,
    /// The run's row then, or 0. The number of groups, read under the queue's lock, orders it.
    pub(super) row: Arc<AtomicI64>,
    /// The position of this snapshot among all that were put.
    pub(super) number: u64,
}

impl PendingSnapshot {
    fn bytes(&self) -> usize {
        self.key.len() + self.data.len()
    }
}

#[derive(Default)]
struct SnapshotQueue {
    /// By run and process: a newer one replaces an older one that waits.
    pending: BTreeMap<(RunKey, Pid), PendingSnapshot>,
    bytes: usize,
    /// The number of snapshots that were put.
    put: u64,
    /// Those that are being written.
    writing: Vec<(RunKey, Pid, PendingSnapshot)>,
    closing: bool,
}

impl SnapshotQueue {
    /// The snapshots of a run that are not written yet.
    fn of(&self, run: RunKey) -> impl Iterator<Item = StoredSnapshot> {
        let pending =
            self.pending.range((run, Pid(0))..=(run, Pid(u64::MAX))).map(|((_, pid), snapshot)| (*pid, snapshot));
        let writing = self.writing.iter().filter(move |(other, ..)| *other == run);
        pending.chain(writing.map(|(_, pid, snapshot)| (*pid, snapshot))).map(
            |(pid, PendingSnapshot { step, key, data, .. })| StoredSnapshot {
                pid,
                step: *step,
                key: key.clone(),
                data: Some(data.clone()),
            },
        )
    }
}

struct Inner {
    path: PathBuf,
    shared: Arc<Shared>,
    db: Mutex<Option<Connection>>,
    queue: Mutex<SnapshotQueue>,
    work: Condvar,
    done: Condvar,
}

/// The snapshots of a store. Neither the file nor the thread exists before the first one.
pub(super) struct Snapshots {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Snapshots {
    pub(super) fn new(path: PathBuf, shared: Arc<Shared>) -> Self {
        let (work, done) = (Condvar::new(), Condvar::new());
        let inner = Inner { path, shared, db: Mutex::default(), queue: Mutex::default(), work, done };
        Self { inner: Arc::new(inner), thread: Mutex::default() }
    }

    /// Passes a snapshot to the thread. Does not wait.
    pub(super) fn put(&self, run: RunKey, pid: Pid, mut snapshot: PendingSnapshot) {
        let mut queue = self.inner.queue.lock();
        if queue.closing || queue.bytes + snapshot.bytes() > BACKLOG_BYTES_MAX {
            return;
        }
        queue.bytes += snapshot.bytes();
        queue.put += 1;
        snapshot.number = queue.put;
        if let Some(older) = queue.pending.insert((run, pid), snapshot) {
            queue.bytes -= older.bytes();
        }
        drop(queue);
        self.inner.work.notify_one();
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let inner = Arc::clone(&self.inner);
            match std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || inner.run()) {
                Ok(started) => *thread = Some(started),
                Err(error) => {
                    self.inner.give_up();
                    self.inner.report(&io(&self.inner.path)(error));
                }
            }
        }
    }

    /// Reads the snapshots of a run, including those that wait to be written.
    pub(super) fn of(&self, run: RunIdentity, key: Option<RunKey>) -> Result<Vec<StoredSnapshot>, StoreError> {
        let inner = &self.inner;
        let waiting: Vec<_> = key.map(|key| inner.queue.lock().of(key).collect()).unwrap_or_default();
        let written = inner.with(|db| {
            let mut select =
                db.prepare_cached("SELECT pid, step, key, data, sum FROM snapshot WHERE run = ?1 ORDER BY pid, step")?;
            let rows = select.query_map([run.row], |row| stored(run, row))?;
            rows.collect::<Result<Vec<_>, _>>()
        })?;
        let mut all: BTreeMap<_, _> =
            written.unwrap_or_default().into_iter().map(|snapshot| ((snapshot.pid, snapshot.step), snapshot)).collect();
        all.extend(waiting.into_iter().map(|snapshot| ((snapshot.pid, snapshot.step), snapshot)));
        Ok(all.into_values().collect())
    }

    /// Reads how large the snapshots of a run are, from a process on, without reading them; those
    /// that wait to be written too.
    pub(super) fn sizes(
        &self,
        run: RunIdentity,
        key: Option<RunKey>,
        from: Pid,
        limit: u32,
    ) -> Result<Vec<SnapshotEntry>, StoreError> {
        let inner = &self.inner;
        let waiting: Vec<_> = key.map(|key| inner.queue.lock().of(key).collect()).unwrap_or_default();
        let written = inner.with(|db| {
            let mut select = db.prepare_cached(
                "SELECT pid, step, length(data) FROM snapshot WHERE run = ?1 AND pid >= ?2 ORDER BY pid, step LIMIT ?3",
            )?;
            let rows = select.query_map(params![run.row, from.0.cast_signed(), limit], |row| {
                let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
                Ok(((Pid(number(0)?), number(1)?), number(2)?))
            })?;
            rows.collect::<Result<BTreeMap<_, _>, _>>()
        })?;
        let mut all = written.unwrap_or_default();
        let waiting = waiting.into_iter().filter(|snapshot: &StoredSnapshot| snapshot.pid >= from);
        all.extend(
            waiting.map(|snapshot| ((snapshot.pid, snapshot.step), snapshot.data.map_or(0, |data| data.len() as u64))),
        );
        let sizes = all.into_iter().map(|((pid, step), bytes)| SnapshotEntry { pid, step, bytes });
        Ok(sizes.take(limit as usize).collect())
    }

    /// Reads the snapshot of a process after a step, even if it waits to be written. Reads no
    /// other.
    pub(super) fn one(
        &self,
        run: RunIdentity,
        key: Option<RunKey>,
        (pid, step): (Pid, u64),
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        let inner = &self.inner;
        let waiting = key.and_then(|key| {
            let queue = inner.queue.lock();
            queue.of(key).find(|snapshot| (snapshot.pid, snapshot.step) == (pid, step))
        });
        if waiting.is_some() {
            return Ok(waiting);
        }
        let written = inner.with(|db| {
            let mut select = db.prepare_cached(
                "SELECT pid, step, key, data, sum FROM snapshot WHERE run = ?1 AND pid = ?2 AND step = ?3",
            )?;
            select
                .query_row(params![run.row, pid.0.cast_signed(), step.cast_signed()], |row| stored(run, row))
                .optional()
        });
        written.map(Option::flatten)
    }

    /// Reads the rows of the runs that have snapshots.
    pub(super) fn runs(&self) -> Result<Vec<i64>, StoreError> {
        let runs = self.inner.with(|db| {
            let mut select = db.prepare_cached("SELECT DISTINCT run FROM snapshot")?;
            let runs = select.query_map([], |row| row.get(0))?;
            runs.collect::<Result<Vec<_>, _>>()
        });
        runs.map(Option::unwrap_or_default)
    }

    /// Removes the snapshots of a run.
    pub(super) fn remove(&self, run: i64) -> Result<(), StoreError> {
        self.inner.with(|db| db.execute("DELETE FROM snapshot WHERE run = ?1", [run])).map(|_| ())
    }

    /// Waits until the snapshots that were put before are written or given up.
    pub(super) fn wait(&self) {
        brief::waits();
        let mut queue = self.inner.queue.lock();
        let put = queue.put;
        let is_old = |snapshot: &PendingSnapshot| snapshot.number <= put;
        while queue.pending.values().any(is_old) || queue.writing.iter().any(|(.., snapshot)| is_old(snapshot)) {
            self.inner.done.wait(&mut queue);
        }
    }

    /// Ends the thread when everything that was put is written, and waits for that if `wait`.
    pub(super) fn close(&self, wait: bool) {
        self.inner.queue.lock().closing = true;
        self.inner.work.notify_one();
        if let Some(thread) = self.thread.lock().take().filter(|_| wait) {
            let _ = thread.join();
        }
    }
}

/// Ends all waits if the thread panics, which is a defect.
struct Alarm<'a>(&'a Inner);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

impl Inner {
    /// Drops what waits, and takes no more.
    fn give_up(&self) {
        let mut queue = self.queue.lock();
        queue.closing = true;
        queue.pending.clear();
        queue.writing.clear();
        self.done.notify_all();
    }

    fn run(&self) {
        let _alarm = Alarm(self);
        loop {
            let mut queue = self.queue.lock();
            while queue.pending.is_empty() && !queue.closing {
                self.work.wait(&mut queue);
            }
            if queue.pending.is_empty() {
                return;
            }
            let mut group = Vec::new();
            while let Some(((run, pid), snapshot)) = queue.pending.pop_first() {
                queue.bytes -= snapshot.bytes();
                group.push((run, pid, snapshot));
                if group.len() == GROUP {
                    break;
                }
            }
            queue.writing.clone_from(&group);
            drop(queue);
            if let Err(error) = self.write(group) {
                self.report(&error);
            }
            self.queue.lock().writing.clear();
            self.done.notify_all();
        }
    }

    fn report(&self, error: &StoreError) {
        self.shared.listener.snapshot_failed(error);
    }

    fn write(&self, group: Vec<(RunKey, Pid, PendingSnapshot)>) -> Result<(), StoreError> {
        let rows = group.into_iter().filter_map(|(_, pid, snapshot)| {
            let row = self.shared.wait_for(snapshot.after).then(|| snapshot.row.load(Relaxed))?;
            (row > 0).then_some((row, pid, snapshot))
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        let put = |db: &Connection| {
            let change = db.unchecked_transaction()?;
            let mut insert = change.prepare_cached(
                "INSERT OR REPLACE INTO snapshot (run, pid, step, key, data, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            let mut prune = change.prepare_cached(
                "DELETE FROM snapshot WHERE id IN
                 (SELECT id FROM snapshot WHERE run = ?1 AND pid = ?2 ORDER BY step DESC LIMIT -1 OFFSET ?3)",
            )?;
            for (run, pid, snapshot) in &rows {
                let PendingSnapshot { step, key, data, created, .. } = snapshot;
                let sum = sum(RunIdentity { row: *run, created: *created }, *pid, *step, key, data);
                insert.execute(params![run, pid.0.cast_signed(), step.cast_signed(), &key[..], &data[..], &sum[..]])?;
                prune.execute(params![run, pid.0.cast_signed(), SNAPSHOTS_MAX])?;
            }
            drop((insert, prune));
            change.commit()
        };
        self.make()?;
        self.with(put).map(|_| ())
    }

    /// Opens the file, and makes it if it does not exist.
    fn make(&self) -> Result<(), StoreError> {
        let mut db = self.db.lock();
        if db.is_none() {
            let opened = open(&self.path).or_else(|error| {
                self.throw_away(error)?;
                open(&self.path)
            });
            *db = Some(opened.map_err(sqlite(&self.path))?);
        }
        Ok(())
    }

    /// Acts on the file. `None` if there is none, or it could not be used and was removed.
    fn with<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<Option<T>, StoreError> {
        if !self.path.exists() {
            return Ok(None);
        }
        self.make()?;
        let mut db = self.db.lock();
        let Some(connection) = &*db else { return Ok(None) };
        match act(connection) {
            Ok(done) => Ok(Some(done)),
            Err(error) => {
                if is_unusable(&error) {
                    *db = None;
                }
                self.throw_away(error).map_err(sqlite(&self.path))?;
                Ok(None)
            }
        }
    }

    /// Removes a file that cannot be used, and reports that. Returns any other error.
    fn throw_away(&self, error: rusqlite::Error) -> rusqlite::Result<()> {
        if !is_unusable(&error) {
            return Err(error);
        }
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path);
        }
        self.report(&sqlite(&self.path)(error));
        Ok(())
    }
}

fn is_unusable(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::InvalidQuery)
        || matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    make_file(path);
    let mut db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // Only checkpoints are synced.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let format: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match format {
        FORMAT => {}
        0 => {
            change.execute_batch(SCHEMA)?;
            change.pragma_update(None, "user_version", FORMAT)?;
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    change.commit()?;
    Ok(db)
}

/// Reads a snapshot of a run from its row.
fn stored(run: RunIdentity, row: &Row<'_>) -> rusqlite::Result<StoredSnapshot> {
    let (pid, step): (i64, i64) = (row.get(0)?, row.get(1)?);
    let (key, data): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
    let (pid, step) = (Pid(pid.cast_unsigned()), step.cast_unsigned());
    let is_whole = row.get::<_, Vec<u8>>(4)? == sum(run, pid, step, &key, &data);
    let (key, data) = (Bytes::from(key), is_whole.then(|| data.into()));
    Ok(StoredSnapshot { pid, step, key, data })
}

fn sum(run: RunIdentity, pid: Pid, step: u64, key: &[u8], data: &[u8]) -> [u8; 16] {
    let mut sum = xxhash_rust::xxh3::Xxh3::new();
    for number in [run.row.cast_unsigned(), run.created.cast_unsigned(), pid.0, step, key.len() as u64] {
        sum.update(&number.to_le_bytes());
    }
    sum.update(key);
    sum.update(data);
    sum.digest128().to_le_bytes()
}
