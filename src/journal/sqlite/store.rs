//! The store of a data folder.

use super::blob_holders::Holders;
use super::error::{io, sqlite};
use super::hosts::Locks;
use super::schema::{connect, make_folder, migrate};
use super::writer::Writer;
use super::{StoreError, wal};
use crate::journal::blobs::StoredBlobs;
use crate::journal::run_snapshots::RunSnapshots;
use crate::journal::{DurabilityListener, JournalStatistics, layout};
use crate::run::SnapshotStore;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store. Cloning it is cheap; when the last clone and the last log are dropped, the writer ends
/// after everything that was appended is durable.
#[derive(Clone)]
pub struct Sqlite(pub(super) Arc<Writer>);

impl Sqlite {
    /// Opens the store of a folder, which is made if it does not exist. Several processes may have
    /// it open. A process becomes one of its hosts when it first begins or recovers a run.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be used, or is of another release.
    pub fn open(folder: impl Into<PathBuf>, listener: Arc<dyn DurabilityListener>) -> Result<Self, StoreError> {
        Self::open_tuned(folder.into(), listener, |_| Ok(()))
    }

    pub(in crate::journal) fn is_lost(folder: &Path) -> Result<bool, StoreError> {
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

    pub(super) fn blobs(&self) -> StoredBlobs {
        StoredBlobs::new(Arc::clone(&self.0.blobs), Arc::new(Holders::new(&self.0)))
    }

    pub(super) fn settle(&self) {
        self.0.settle();
    }

    pub(super) fn flush_while_room(&self) -> Result<bool, StoreError> {
        self.0.flush_while_room()
    }

    pub(super) fn give_up(&self) {
        self.0.give_up();
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.shared.queue.lock().full
    }

    pub(super) fn statistics(&self) -> JournalStatistics {
        let queue = self.0.shared.queue.lock();
        let state = (queue.bytes as u64, queue.full, queue.failed.is_some());
        drop(queue);
        self.0.shared.statistics.read(self.0.path(), state)
    }

    pub(super) fn torn(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        wal::retained(self.0.path()).map_err(io(self.0.path()))
    }
}

/// The snapshots of a run, which do not hold the store open.
pub(super) fn shelf(writer: &Arc<Writer>, run: Arc<str>) -> Arc<dyn SnapshotStore> {
    let writer = Arc::downgrade(writer);
    Arc::new(RunSnapshots::new(move || writer.upgrade().map(Sqlite), run))
}
