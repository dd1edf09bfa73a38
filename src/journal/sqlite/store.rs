//! The store of a data folder.

use super::error::{io, sqlite};
use super::hosts::Locks;
use super::schema::{connect, make_folder, migrate};
use super::writer::Writer;
use super::{StoreError, wal};
use crate::journal::run_snapshots::RunSnapshots;
use crate::journal::{DurabilityListener, JournalStatistics, layout};
use crate::run::SnapshotStore;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A store. Cloning it is cheap; when the last clone and the last log are dropped, the writer ends
/// after everything that was appended is durable.
#[derive(Clone)]
pub struct Sqlite(pub(super) Arc<Writer>);

/// A store that may be closed: it does not hold the store open.
#[derive(Clone)]
pub struct WeakSqlite(Weak<Writer>);

impl WeakSqlite {
    /// Returns the store, if it is open.
    #[must_use]
    pub fn upgrade(&self) -> Option<Sqlite> {
        self.0.upgrade().map(Sqlite)
    }
}

impl Sqlite {
    /// Returns a handle that does not hold the store open.
    #[must_use]
    pub fn downgrade(&self) -> WeakSqlite {
        WeakSqlite(Arc::downgrade(&self.0))
    }

    /// Opens the store of a folder, which is made if it does not exist. Several processes may have
    /// it open. A process becomes one of its hosts when it first begins or recovers a run.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be used, or is of another release.
    pub fn open(folder: impl Into<PathBuf>, listener: Arc<dyn DurabilityListener>) -> Result<Self, StoreError> {
        Self::open_tuned(folder.into(), listener, |_| Ok(()))
    }

    /// Returns whether a folder was in use and has lost its store. Makes and opens nothing.
    ///
    /// # Errors
    /// Fails if SQLite's log is still there: it holds the latest writes, and the store is not
    /// opened without its file.
    pub fn is_lost(folder: &Path) -> Result<bool, StoreError> {
        wal::is_lost(&folder.join(layout::JOURNAL))
    }

    /// Opens a store whose writer's connection is set up further.
    pub(super) fn open_tuned(
        folder: PathBuf,
        listener: Arc<dyn DurabilityListener>,
        tune: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, StoreError> {
        make_folder(&folder)?;
        let locks = Locks::new(&folder)?;
        let path = folder.join(layout::JOURNAL);
        if wal::is_lost(&path)? {
            listener.recreated(&path);
        }
        if let Some(retained) = wal::retain_if_torn(&path)? {
            listener.torn(&retained);
        }
        let mut db = connect(&path)?;
        migrate(&mut db, &path)?;
        tune(&db).map_err(sqlite(&path))?;
        Writer::start(db, &folder, locks, listener).map(Self)
    }

    /// Copies SQLite's log into the file itself and empties it, if no other process has the file
    /// open. Call it before a process ends without dropping its stores: otherwise the records stand
    /// in two files until a process opens them again, and losing one of the files, or a bit of it,
    /// loses more than that. Nothing depends on it, and it waits for nothing.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Waits until everything that was appended before is durable, as
    /// [`Journal::flush`](crate::journal::Journal::flush) does, but not for room on a full disk.
    /// Returns whether it is durable; if not, the disk is full.
    ///
    /// # Errors
    /// Fails if it never will be; also if a file of the store was removed or replaced, and what was
    /// durable is gone with it.
    pub fn flush_while_room(&self) -> Result<bool, StoreError> {
        self.0.flush_while_room()
    }

    /// Stops waiting for room on a full disk: what is not durable by now never will be.
    pub fn give_up(&self) {
        self.0.give_up();
    }

    /// Returns whether the disk is full, and the store waits for room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.shared.queue.lock().full
    }

    /// Returns what this process has counted since it opened the store.
    #[must_use]
    pub fn statistics(&self) -> JournalStatistics {
        let queue = self.0.shared.queue.lock();
        let state = (queue.bytes as u64, queue.full, queue.failed.is_some());
        drop(queue);
        self.0.shared.statistics.read(self.0.path(), state)
    }

    /// Returns the logs of SQLite that were damaged or gone when the store was opened, each with
    /// the number of transactions that are behind the damage and not in the store; 0 if they are
    /// lost.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn torn(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        wal::retained(self.0.path()).map_err(io(self.0.path()))
    }

    /// Returns the snapshots of a run.
    pub fn shelf(&self, run: &str) -> Arc<dyn SnapshotStore> {
        shelf(&self.0, run.into())
    }
}

/// The snapshots of a run, which do not hold the store open.
pub(super) fn shelf(writer: &Arc<Writer>, run: Arc<str>) -> Arc<dyn SnapshotStore> {
    let writer = Arc::downgrade(writer);
    Arc::new(RunSnapshots::new(move || writer.upgrade().map(Sqlite), run))
}
