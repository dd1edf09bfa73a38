//! What waits for the writer, and what is known of the runs that this process owns.

use super::StoreError;
use crate::journal::NewRun;
use crate::run::{Awaited, RunEnd};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// Names a run that this process owns, for as long as it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct RunKey(u64);

/// What the writer knows of a run.
pub(super) struct KnownRun {
    pub(super) id: Arc<str>,
    /// The name of its workflow.
    pub(super) name: Arc<str>,
    /// Its row in the table of runs; `None` if it is still to be made.
    pub(super) row: Option<i64>,
    /// When it was created, in microseconds since 1970.
    pub(super) created: i64,
    pub(super) epoch: i64,
    /// Its last row in the log, or 0 if there is none.
    pub(super) head: i64,
    /// The number of records that are durable.
    pub(super) durable: u64,
    pub(super) new: Option<Arc<NewRun>>,
    /// Its concurrency group.
    pub(super) group: Option<Arc<str>>,
    /// The row for the thread of snapshots, which reads it after the run is released too: 0 if
    /// there is none.
    pub(super) shared_row: Arc<AtomicI64>,
    /// It is parked on disk.
    pub(super) parked: bool,
    /// Another host owns it: nothing of it is written any more.
    pub(super) lost: bool,
}

impl KnownRun {
    pub(super) fn begun(run: &NewRun) -> Self {
        let id = Arc::clone(&run.id);
        Self {
            id,
            name: Arc::clone(&run.name),
            row: None,
            created: run.created.0.cast_signed(),
            epoch: 1,
            head: 0,
            durable: 0,
            new: Some(Arc::new(run.clone())),
            group: run.group.as_ref().map(|entry| Arc::clone(&entry.group)),
            shared_row: Arc::default(),
            parked: false,
            lost: false,
        }
    }
}

/// Mail that a record is made of.
pub(super) struct Consumed {
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) digest: [u8; 16],
}

/// What a run has written since the last group.
#[derive(Default)]
pub(super) struct Batch {
    /// How the run ended, if it has.
    pub(super) ended: Option<RunEnd>,
    /// This process writes the run no more: when this is durable, no host owns it.
    pub(super) released: bool,
    /// It is parked until then: see `run.wake`.
    pub(super) wake: Option<i64>,
    /// The mail that its records are made of.
    pub(super) consumed: Vec<Consumed>,
    /// What it waits for from people, if that is to be written.
    pub(super) awaited: Option<Vec<Awaited>>,
    /// The records, one after the other.
    bytes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
}

impl Batch {
    fn put(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    /// The number of its records.
    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn records(&self) -> Vec<Bytes> {
        let bytes = Bytes::copy_from_slice(&self.bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| bytes.slice(start..*end)).collect()
    }
}

/// The batches that one transaction writes.
pub(super) type Group = BTreeMap<RunKey, Batch>;

#[derive(Default)]
pub(super) struct Queue {
    batches: Group,
    pub(super) bytes: usize,
    pub(super) known: HashMap<RunKey, KnownRun>,
    keys: HashMap<Arc<str>, RunKey>,
    last_key: u64,
    /// The group that is being written.
    flight: Option<Arc<Group>>,
    groups_taken: u64,
    /// Of those, how many are durable, and were reported to the listener.
    pub(super) groups_acknowledged: u64,
    /// Something that has gathered is to be written at once.
    pub(super) flush_soon: bool,
    pub(super) closing: bool,
    /// The disk is full, and the writer waits for room.
    pub(super) full: bool,
    pub(super) failed: Option<StoreError>,
}

impl Queue {
    /// Adds a run that this process owns from now on. Returns `None` if it owns it already.
    pub(super) fn add(&mut self, known: KnownRun) -> Option<RunKey> {
        if self.keys.contains_key(&known.id) {
            return None;
        }
        self.last_key += 1;
        let key = RunKey(self.last_key);
        self.keys.insert(Arc::clone(&known.id), key);
        self.known.insert(key, known);
        Some(key)
    }

    pub(super) fn remove(&mut self, run: RunKey) {
        if let Some(known) = self.known.remove(&run) {
            self.keys.remove(&known.id);
        }
    }

    /// The key of a run that this process owns, or whose release is not durable yet.
    pub(super) fn key_of(&self, id: &str) -> Option<RunKey> {
        self.keys.get(id).copied()
    }

    /// The last row in the log of a run that this process owns.
    pub(super) fn head_of(&self, id: &str) -> Option<i64> {
        self.keys.get(id).and_then(|key| self.known.get(key)).filter(|known| !known.lost).map(|known| known.head)
    }

    /// Returns whether this process has released a run of its own, or the run has ended.
    pub(super) fn is_released(&self, run: RunKey) -> bool {
        let releases = |group: &Group| group.get(&run).is_some_and(|batch| batch.released || batch.ended.is_some());
        releases(&self.batches) || self.flight.as_deref().is_some_and(releases)
    }

    /// Returns whether a part of a run waits for the next group.
    pub(super) fn gathers(&self, run: RunKey) -> bool {
        self.batches.contains_key(&run)
    }

    /// The number of groups after which everything that was appended so far is durable.
    pub(super) fn groups_until_durable(&self) -> u64 {
        self.groups_taken + u64::from(!self.batches.is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns whether nothing waits for the writer, and nothing is being written.
    pub(super) fn is_settled(&self) -> bool {
        self.batches.is_empty() && self.groups_taken == self.groups_acknowledged
    }

    /// What a run has written since the last group. `None` if nothing of it is written any more.
    pub(super) fn batch(&mut self, run: RunKey) -> Option<&mut Batch> {
        let is_written = self.failed.is_none() && self.known.get(&run).is_some_and(|known| !known.lost);
        is_written.then(|| self.batches.entry(run).or_default())
    }

    pub(super) fn append(&mut self, run: RunKey, record: &[u8], consumed: &mut Vec<Consumed>) {
        if let Some(batch) = self.batch(run) {
            batch.put(record);
            // It has returned to memory before it was parked on disk.
            batch.wake = None;
            batch.consumed.append(consumed);
            self.bytes += record.len();
        }
    }

    /// Takes the group that has gathered.
    pub(super) fn take(&mut self) -> Arc<Group> {
        let group = std::mem::take(&mut self.batches);
        self.flush_soon = false;
        self.bytes = 0;
        self.groups_taken += 1;
        let group = Arc::new(group);
        self.flight = Some(Arc::clone(&group));
        group
    }

    /// Notes that the group that was taken is written, or never will be.
    pub(super) fn group_done(&mut self) {
        self.flight = None;
    }

    /// What a run has written and is not durable: after how many records, and the batches in order.
    pub(super) fn undurable(&self, run: RunKey) -> (u64, Vec<Vec<Bytes>>) {
        let durable = self.known.get(&run).map_or(0, |known| known.durable);
        let flight = self.flight.as_ref().and_then(|group| group.get(&run)).map(Batch::records);
        (durable, flight.into_iter().chain(self.batches.get(&run).map(Batch::records)).collect())
    }
}
