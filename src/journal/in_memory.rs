//! A journal in memory: its runs outlive a host, but not the operating system process.

use super::component::{is_of, other_content};
use super::run_snapshots::RunSnapshots;
use super::stored::{MAIL_BYTES_MAX, MAIL_MAX, SNAPSHOTS_MAX};
use super::{
    Address, ComponentStoreError, Filter, Journal, Memory, NewRun, Owner, Posted, RecoveredRun, Retention, RunUpgrade,
    StoreError, Stored, StoredSnapshot, TakesWanted, Wanted, WantedWatch, WantedWhy,
};
use crate::process::Pid;
use crate::run::{Durability, Log, Mail, RunEnd, SnapshotStore};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

/// Runs in memory. Their records are durable at once. Cloning it is cheap.
#[derive(Clone, Default)]
pub struct InMemory(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    runs: BTreeMap<Arc<str>, Entry>,
    /// Grows each time that a run is begun or recovered.
    epoch: u64,
    address: Option<Address>,
    /// By their digests. They stay.
    components: BTreeMap<Box<str>, Bytes>,
}

struct Entry {
    new: NewRun,
    row: u64,
    log: Memory,
    records: u64,
    bytes: u64,
    end: Option<RunEnd>,
    /// The epoch in which its owner began or recovered it; 0 if it has none.
    owner: u64,
    inbox: Vec<Mail>,
    /// The digests of consumed mail.
    consumed: BTreeMap<Arc<str>, u128>,
    snapshots: Vec<StoredSnapshot>,
    damage: Option<Arc<str>>,
}

impl Entry {
    fn new(new: &NewRun) -> Self {
        let log = Memory::new(usize::MAX);
        Self {
            new: new.clone(),
            row: 0,
            log,
            records: 0,
            bytes: 0,
            end: None,
            owner: 0,
            inbox: Vec::new(),
            consumed: BTreeMap::new(),
            snapshots: Vec::new(),
            damage: None,
        }
    }

    fn append(&mut self, record: &[u8]) {
        let _ = self.log.append(record);
        self.records += 1;
        self.bytes += record.len() as u64;
    }

    fn all(&self) -> Vec<Bytes> {
        self.log.records().expect("invariant: it has no bound")
    }

    fn stored(&self) -> Stored {
        Stored {
            row: self.row,
            id: Arc::clone(&self.new.id),
            name: Arc::clone(&self.new.name),
            created: self.new.created,
            status: self.end.map(|end| end.status),
            ended: self.end.map(|end| end.at),
            records: self.records,
            owner: (self.owner > 0).then_some(1),
            damage: self.damage.clone(),
            group: self.new.group.as_ref().map(|entry| Arc::clone(&entry.group)),
            queued: false,
            parked: false,
        }
    }
}

/// The log of one run.
struct EntryLog {
    journal: InMemory,
    id: Arc<str>,
    epoch: u64,
    consumed: Vec<Mail>,
}

impl EntryLog {
    /// Acts on the run if this log still owns it.
    fn with<T>(&self, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.journal.0.lock().runs.get_mut(&self.id).filter(|entry| entry.owner == self.epoch).map(act)
    }
}

impl Log for EntryLog {
    fn append(&mut self, record: &[u8]) -> Durability {
        let consumed = std::mem::take(&mut self.consumed);
        self.with(|entry| {
            for mail in consumed {
                entry.inbox.retain(|left| left.id != mail.id);
                entry.consumed.insert(Arc::clone(&mail.id), mail.digest());
            }
            entry.append(record);
        });
        Durability::Now
    }

    fn bytes(&self) -> u64 {
        self.with(|entry| entry.bytes).unwrap_or_default()
    }

    fn consume(&mut self, mail: &Mail) {
        self.consumed.push(mail.clone());
    }

    fn ended(&mut self, end: &RunEnd) -> Durability {
        self.with(|entry| {
            entry.end = Some(*end);
            entry.owner = 0;
        });
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.journal.0.lock().runs.get(&self.id).map(Entry::all)
    }
}

impl Drop for EntryLog {
    fn drop(&mut self) {
        self.with(|entry| entry.owner = 0);
    }
}

impl InMemory {
    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Entry) -> Result<T, StoreError>) -> Result<T, StoreError> {
        act(self.0.lock().runs.get_mut(id).ok_or_else(|| StoreError::Unknown(id.into()))?)
    }

    fn add(&self, mut entry: Entry) -> Result<(), StoreError> {
        let id = Arc::clone(&entry.new.id);
        let mut journal = self.0.lock();
        if journal.runs.contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        journal.epoch += 1;
        entry.row = journal.epoch;
        journal.runs.insert(id, entry);
        Ok(())
    }

    /// Makes a new log the owner of a run that has none.
    fn own(&self, id: &str) -> Result<Box<dyn Log>, StoreError> {
        let mut journal = self.0.lock();
        journal.epoch += 1;
        let epoch = journal.epoch;
        let entry = journal.runs.get_mut(id).ok_or_else(|| StoreError::Unknown(id.into()))?;
        if entry.end.is_some() {
            return Err(StoreError::Ended(id.into()));
        }
        if entry.owner > 0 {
            let address = journal.address.clone();
            return Err(StoreError::owned(id, Some(host(address))));
        }
        (entry.owner, entry.damage) = (epoch, None);
        Ok(Box::new(EntryLog { journal: self.clone(), id: id.into(), epoch, consumed: Vec::new() }))
    }

    fn filtered(&self, filter: &Filter) -> Vec<Stored> {
        let journal = self.0.lock();
        let stored = journal.runs.values().map(|entry| (entry.stored(), &entry.new));
        let mut runs: Vec<_> = stored.filter(|(run, new)| filter.fits(run, new)).map(|(run, _)| run).collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.created, run.row)));
        runs
    }
}

/// The one host.
fn host(address: Option<Address>) -> Owner {
    Owner { host: 1, name: None, pid: Some(std::process::id()), address, alive: true }
}

/// Its runs want nothing but what was there: no other host ends or stores mail.
struct NothingWanted;

impl WantedWatch for NothingWanted {}

impl Journal for InMemory {
    fn begin(&self, run: &NewRun) -> Result<Box<dyn Log>, StoreError> {
        self.add(Entry::new(run))?;
        self.own(&run.id)
    }

    fn recover(&self, id: &str) -> Result<RecoveredRun, StoreError> {
        let log = self.own(id)?;
        self.with(id, |entry| {
            let (manifest, inbox) = (entry.new.manifest.clone(), entry.inbox.clone());
            Ok(RecoveredRun { log, records: entry.all(), inbox, manifest })
        })
    }

    fn records(&self, id: &str) -> Result<Vec<Bytes>, StoreError> {
        self.with(id, |entry| Ok(entry.all()))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.0.lock().runs.get(id).map(Entry::stored))
    }

    fn manifest(&self, id: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.lock().runs.get(id).map(|entry| entry.new.manifest.clone()))
    }

    fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError> {
        let mut runs = self.filtered(filter);
        runs.truncate(filter.limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(runs)
    }

    fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        Ok((self.filtered(filter).len() as u64).min(filter.limit.map_or(u64::MAX, u64::from)))
    }

    fn put_component(&self, hash: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if !is_of(bytes, hash) {
            return Err(StoreError::Io { path: hash.into(), error: Arc::new(other_content()) });
        }
        self.0.lock().components.insert(hash.into(), Bytes::copy_from_slice(bytes));
        Ok(())
    }

    fn component(&self, hash: &str) -> Result<Bytes, ComponentStoreError> {
        match self.0.lock().components.get(hash) {
            Some(bytes) if is_of(bytes, hash) => Ok(bytes.clone()),
            Some(_) => Err(ComponentStoreError::Damaged { path: hash.into() }),
            None => Err(ComponentStoreError::Unreadable { path: hash.into(), error: ErrorKind::NotFound.into() }),
        }
    }

    fn component_bytes(&self, hash: &str) -> Option<u64> {
        self.0.lock().components.get(hash).map(|bytes| bytes.len() as u64)
    }

    fn components_named(&self) -> Result<Vec<(String, Arc<str>)>, StoreError> {
        let journal = self.0.lock();
        let named = journal
            .runs
            .iter()
            .flat_map(|(id, entry)| entry.new.components.iter().map(|hash| (hash.to_string(), Arc::clone(id))));
        Ok(named.collect::<BTreeMap<_, _>>().into_iter().collect())
    }

    fn watch_wanted(&self, mut take: Box<dyn TakesWanted>) -> Result<Box<dyn WantedWatch>, StoreError> {
        let orphans = self.orphans()?.into_iter();
        let wanted: Vec<_> = orphans.map(|run| Wanted { id: run.id, why: WantedWhy::Orphan }).collect();
        if !wanted.is_empty() {
            take(Ok(&wanted));
        }
        Ok(Box::new(NothingWanted))
    }

    fn inherited(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn hosts(&self) -> Result<Vec<Owner>, StoreError> {
        let journal = self.0.lock();
        let is_host = journal.epoch > 0;
        Ok(is_host.then(|| host(journal.address.clone())).into_iter().collect())
    }

    fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError> {
        let owned = self.with(id, |entry| Ok(entry.owner > 0))?;
        let address = self.0.lock().address.clone();
        Ok(owned.then(|| host(address)))
    }

    fn set_address(&self, address: &Address) -> Result<(), StoreError> {
        self.0.lock().address = Some(address.clone());
        Ok(())
    }

    fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError> {
        let Ok(owner) = self.owner_of(run) else { return Ok(Posted::Unknown) };
        self.with(run, |entry| {
            let left = entry.inbox.iter().find(|left| left.id == mail.id).map(Mail::digest);
            Ok(match (left.or_else(|| entry.consumed.get(&mail.id).copied()), owner) {
                (Some(digest), _) if digest == mail.digest() => Posted::Duplicate,
                (Some(_), _) => Posted::Conflict,
                _ if entry.end.is_some() => Posted::Ended,
                (None, Some(owner)) => Posted::Owned(owner),
                (None, None) => {
                    let bytes: usize = entry.inbox.iter().map(|mail| mail.body.len()).sum();
                    if entry.inbox.len() >= MAIL_MAX as usize || bytes + mail.body.len() > MAIL_BYTES_MAX as usize {
                        return Ok(Posted::Full);
                    }
                    entry.inbox.push(mail.clone());
                    Posted::Stored
                }
            })
        })
    }

    fn inbox_of(&self, run: &str) -> Result<Vec<Mail>, StoreError> {
        self.with(run, |entry| Ok(entry.inbox.clone()))
    }

    fn note_damage(&self, id: &str, why: &str) -> Result<(), StoreError> {
        if let Some(entry) = self.0.lock().runs.get_mut(id) {
            entry.damage = Some(why.into());
        }
        Ok(())
    }

    fn create(&self, run: &NewRun, records: &[Bytes]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Err(StoreError::Short { run: Arc::clone(&run.id), records: 0 });
        }
        let mut entry = Entry::new(run);
        for record in records {
            entry.append(record);
        }
        self.add(entry)
    }

    fn upgrade(&self, id: &str, upgrade: &RunUpgrade) -> Result<bool, StoreError> {
        let address = self.0.lock().address.clone();
        self.with(id, |entry| match entry {
            Entry { end: Some(_), .. } => Err(StoreError::Ended(id.into())),
            Entry { owner: 1.., .. } => Err(StoreError::owned(id, Some(host(address)))),
            entry if entry.records != upgrade.records => Ok(false),
            entry => {
                entry.append(&upgrade.record);
                entry.new.manifest.clone_from(&upgrade.manifest);
                entry.new.components.clone_from(&upgrade.components);
                entry.new.version = upgrade.version;
                Ok(true)
            }
        })
    }

    fn remove(&self, id: &str) -> Result<(), StoreError> {
        let mut journal = self.0.lock();
        match journal.runs.get(id) {
            None => Err(StoreError::Unknown(id.into())),
            Some(entry) if entry.owner > 0 => Err(StoreError::owned(id, Some(host(journal.address.clone())))),
            Some(_) => {
                journal.runs.remove(id);
                Ok(())
            }
        }
    }

    fn sweep(&self, retention: &Retention) -> Result<u64, StoreError> {
        let mut journal = self.0.lock();
        let runs = journal.runs.iter().filter_map(|(id, entry)| entry.end.map(|end| (end.at, Arc::clone(id))));
        let mut ended: Vec<_> = runs.collect();
        ended.sort();
        let old = ended.iter().filter(|(at, _)| retention.ended_before.is_some_and(|before| *at < before)).count();
        let many = retention.runs_max.map_or(0, |most| ended.len().saturating_sub(most as usize));
        ended.truncate(old.max(many));
        for (_, id) in &ended {
            journal.runs.remove(id);
        }
        Ok(ended.len() as u64)
    }

    fn put_snapshot(&self, run: &str, pid: Pid, step: u64, key: &[u8], data: Vec<u8>) {
        let snapshot = StoredSnapshot { pid, step, key: Bytes::copy_from_slice(key), data: Some(data.into()) };
        let _ = self.with(run, |entry| {
            entry.snapshots.retain(|other| (other.pid, other.step) != (pid, step));
            entry.snapshots.push(snapshot);
            entry.snapshots.sort_by_key(|snapshot| (snapshot.pid, snapshot.step));
            let of_it = entry.snapshots.iter().filter(|snapshot| snapshot.pid == pid).count();
            if of_it > SNAPSHOTS_MAX as usize {
                let oldest = entry.snapshots.iter().position(|snapshot| snapshot.pid == pid);
                oldest.map(|oldest| entry.snapshots.remove(oldest));
            }
            Ok(())
        });
    }

    fn snapshot_store(&self, run: &str) -> Arc<dyn SnapshotStore> {
        let journal = Arc::downgrade(&self.0);
        Arc::new(RunSnapshots::new(move || journal.upgrade().map(Self), run.into()))
    }

    fn snapshots(&self, run: &str) -> Result<Vec<StoredSnapshot>, StoreError> {
        self.with(run, |entry| Ok(entry.snapshots.clone()))
    }

    fn snapshot(&self, run: &str, pid: Pid, step: u64) -> Result<Option<StoredSnapshot>, StoreError> {
        let is_meant = |snapshot: &&StoredSnapshot| (snapshot.pid, snapshot.step) == (pid, step);
        self.with(run, |entry| Ok(entry.snapshots.iter().find(is_meant).cloned()))
    }
}
