//! The store as a [`Journal`].

use super::error::{io, sqlite};
use super::run_log::RunLog;
use super::store::shelf;
use super::{Sqlite, StoreError};
use crate::journal::{
    Address, ComponentStoreError, Filter, Journal, JournalFile, JournalStatistics, NewRun, Owner, Posted, QueuePlace,
    RecoveredRun, Retention, RunInGroup, RunUpgrade, Stored, StoredSnapshot, TakesWanted, WantedWatch, layout,
};
use crate::process::Pid;
use crate::run::{BlobStore, Log, Mail, SnapshotEntry, SnapshotStore};
use bytes::Bytes;
use std::sync::Arc;

impl Journal for Sqlite {
    fn begin(&self, run: &NewRun) -> Result<Box<dyn Log>, StoreError> {
        if self.run(&run.id)?.is_some() {
            return Err(StoreError::Exists(Arc::clone(&run.id)));
        }
        let key = self.0.begin(run)?;
        Ok(Box::new(RunLog::new(&self.0, key, Arc::clone(&run.id), 0).waiting(run.group.is_some())))
    }

    fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError> {
        Sqlite::recover(self, id)
    }

    fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        self.0.records(id)
    }

    fn records_from(&self, id: &str, from: u64, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        self.0.records_within(id, from, (limit, usize::MAX))
    }

    fn records_within(&self, id: &str, from: u64, limit: usize, bytes_max: usize) -> Result<Vec<Bytes>, StoreError> {
        self.0.records_within(id, from, (limit, bytes_max))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.flush()
    }

    fn flush_while_room(&self) -> Result<bool, StoreError> {
        Sqlite::flush_while_room(self)
    }

    fn give_up(&self) {
        Sqlite::give_up(self);
    }

    fn is_full(&self) -> bool {
        Sqlite::is_full(self)
    }

    fn settle(&self) {
        Sqlite::settle(self);
    }

    fn statistics(&self) -> JournalStatistics {
        Sqlite::statistics(self)
    }

    fn file(&self) -> Option<&dyn JournalFile> {
        Some(self)
    }

    fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        Sqlite::run(self, id)
    }

    fn manifest(&self, id: &str) -> Result<Option<String>, StoreError> {
        Sqlite::manifest(self, id)
    }

    fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError> {
        Sqlite::list(self, filter)
    }

    fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        Sqlite::count(self, filter)
    }

    fn ids(&self, prefix: &str, most: u32) -> Result<Vec<Arc<str>>, StoreError> {
        Sqlite::ids(self, prefix, most)
    }

    fn blobs(&self) -> Option<Arc<dyn BlobStore>> {
        Some(Arc::new(Sqlite::blobs(self)))
    }

    fn put_component(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.0.path().with_file_name(layout::COMPONENTS);
        self.0.components.store(hash, bytes).map_err(io(&folder))
    }

    fn component(&self, hash: &str) -> Result<Bytes, ComponentStoreError> {
        self.0.components.read(hash).map(Bytes::from)
    }

    fn component_bytes(&self, hash: &str) -> Option<u64> {
        self.0.components.bytes(hash)
    }

    fn components_named(&self) -> Result<Vec<(String, Arc<str>)>, StoreError> {
        Sqlite::components_named(self)
    }

    fn orphans(&self) -> Result<Vec<Stored>, StoreError> {
        Sqlite::orphans(self)
    }

    fn is_free(&self, id: &str) -> Result<bool, StoreError> {
        Sqlite::is_free(self, id)
    }

    fn watch_wanted(&self, take: Box<dyn TakesWanted>) -> Result<Box<dyn WantedWatch>, StoreError> {
        Ok(Box::new(Sqlite::watch_wanted(self, take)?))
    }

    fn hosts(&self) -> Result<Vec<Owner>, StoreError> {
        Sqlite::hosts(self)
    }

    fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError> {
        Sqlite::owner_of(self, id)
    }

    fn set_address(&self, address: &Address) -> Result<(), StoreError> {
        *self.0.address.lock() = Some(address.clone());
        let Some(host) = self.0.registered() else { return Ok(()) };
        self.0.beside(|| {
            let db = self.0.reader();
            let _write_lock = self.0.write_lock();
            db.execute("UPDATE host SET socket = ?2 WHERE host = ?1", (host, address.to_string()))
                .map_err(sqlite(self.0.path()))?;
            Ok(())
        })
    }

    fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError> {
        let posted = self.0.beside(|| Sqlite::post(self, run, mail))?;
        if posted == Posted::Stored {
            self.announce_mail();
        }
        Ok(posted)
    }

    fn inherited(&self) -> Result<u64, StoreError> {
        Sqlite::inherited(self)
    }

    fn inbox_of(&self, run: &str) -> Result<Vec<Mail>, StoreError> {
        Sqlite::inbox_of(self, run)
    }

    fn announce_mail(&self) {
        Sqlite::announce_mail(self);
    }

    fn queued(&self) -> Result<Vec<RunInGroup>, StoreError> {
        Sqlite::queued(self)
    }

    fn mail_in(&self, group: &str) -> Result<Vec<(Arc<str>, Mail)>, StoreError> {
        Sqlite::mail_in(self, group)
    }

    fn queue_place(&self, id: &str) -> Result<Option<QueuePlace>, StoreError> {
        Sqlite::queue_place(self, id)
    }

    fn note_damage(&self, id: &str, why: &str) -> Result<(), StoreError> {
        Sqlite::note_damage(self, id, why)
    }

    fn create(&self, run: &NewRun, records: &[Bytes]) -> Result<(), StoreError> {
        self.0.beside(|| Sqlite::create(self, run, records))
    }

    fn upgrade(&self, id: &str, upgrade: &RunUpgrade) -> Result<bool, StoreError> {
        self.0.beside(|| Sqlite::upgrade(self, id, upgrade))
    }

    fn remove(&self, id: &str) -> Result<(), StoreError> {
        self.0.beside(|| Sqlite::remove(self, id))
    }

    fn sweep(&self, retention: &Retention) -> Result<u64, StoreError> {
        self.0.beside(|| Sqlite::sweep(self, retention))
    }

    fn put_snapshot(&self, run: &str, pid: Pid, step: u64, key: &[u8], data: Vec<u8>) {
        self.0.put_snapshot(run, pid, step, key, data);
    }

    fn snapshot_store(&self, run: &str) -> Arc<dyn SnapshotStore> {
        shelf(&self.0, run.into())
    }

    fn snapshots(&self, run: &str) -> Result<Vec<StoredSnapshot>, StoreError> {
        let (run, key) = self.0.identity(run)?;
        self.0.snapshots().of(run, key)
    }

    fn snapshot_sizes(&self, run: &str, from: Pid, limit: u32) -> Result<Vec<SnapshotEntry>, StoreError> {
        let (run, key) = self.0.identity(run)?;
        self.0.snapshots().sizes(run, key, from, limit)
    }

    fn snapshot(&self, run: &str, pid: Pid, step: u64) -> Result<Option<StoredSnapshot>, StoreError> {
        let (run, key) = self.0.identity(run)?;
        self.0.snapshots().one(run, key, (pid, step))
    }
}
