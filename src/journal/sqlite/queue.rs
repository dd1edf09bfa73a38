//! What is handed to the writer, and what is known of the runs that this process has.

use super::StoreError;
use super::inbox::Consumed;
use crate::journal::NewRun;
use crate::run::RunEnd;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// A run that this process owns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Owned(u64);

/// What the writer knows of a run.
pub(super) struct Known {
    pub(super) id: Arc<str>,
    /// Its row in the table of runs; none where it is still to be made.
    pub(super) row: Option<i64>,
    /// When it was created, in microseconds since 1970.
    pub(super) created: i64,
    pub(super) epoch: i64,
    /// Its last row in the log, or 0 where there is none.
    pub(super) head: i64,
    /// Records that are durable.
    pub(super) durable: u64,
    pub(super) new: Option<Arc<NewRun>>,
    /// The row as snapshots learn of it, also when the run is let go of: 0 where there is none.
    pub(super) seat: Arc<AtomicI64>,
    /// It is somebody else's: nothing of it is written any more.
    pub(super) lost: bool,
}

impl Known {
    pub(super) fn begun(run: &NewRun) -> Self {
        let id = Arc::clone(&run.id);
        Self {
            id,
            row: None,
            created: run.created.0.cast_signed(),
            epoch: 1,
            head: 0,
            durable: 0,
            new: Some(Arc::new(run.clone())),
            seat: Arc::default(),
            lost: false,
        }
    }
}

/// What a run has written since the last group.
#[derive(Default)]
pub(super) struct Batch {
    /// The run is over.
    pub(super) ended: Option<RunEnd>,
    /// Nobody writes the run any more: it is anybody's when this is durable.
    pub(super) left: bool,
    /// Mail that its records are of.
    pub(super) consumed: Vec<Consumed>,
    /// The records, one behind the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Batch {
    fn put(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    /// How many records it has.
    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn records(&self) -> Vec<Bytes> {
        let bytes = Bytes::copy_from_slice(&self.bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| bytes.slice(start..*end)).collect()
    }
}

/// What goes to the disk together.
pub(super) type Group = BTreeMap<Owned, Batch>;

#[derive(Default)]
pub(super) struct Queue {
    batches: Group,
    pub(super) bytes: usize,
    pub(super) known: HashMap<Owned, Known>,
    ids: HashMap<Arc<str>, Owned>,
    next: u64,
    /// The group that is on its way to the disk.
    flight: Option<Arc<Group>>,
    /// Groups that were taken so far.
    taken: u64,
    /// Of those, how many are durable, and everybody was told.
    pub(super) told: u64,
    /// Something that has gathered is to go to the disk at once.
    pub(super) hurried: bool,
    pub(super) closing: bool,
    /// The disk is full, and the writer waits for room.
    pub(super) full: bool,
    pub(super) failed: Option<StoreError>,
}

impl Queue {
    /// A run is this process's from now on. None: it is already.
    pub(super) fn know(&mut self, known: Known) -> Option<Owned> {
        if self.ids.contains_key(&known.id) {
            return None;
        }
        self.next += 1;
        let owned = Owned(self.next);
        self.ids.insert(Arc::clone(&known.id), owned);
        self.known.insert(owned, known);
        Some(owned)
    }

    pub(super) fn forget(&mut self, run: Owned) {
        if let Some(known) = self.known.remove(&run) {
            self.ids.remove(&known.id);
        }
    }

    /// Whether this process has a run, or has not let go of it yet.
    pub(super) fn has(&self, id: &str) -> Option<Owned> {
        self.ids.get(id).copied()
    }

    /// The last row of a run that this process has.
    pub(super) fn head_of(&self, id: &str) -> Option<i64> {
        self.ids.get(id).and_then(|owned| self.known.get(owned)).filter(|known| !known.lost).map(|known| known.head)
    }

    /// Whether nobody writes a run of this process's any more.
    pub(super) fn is_left(&self, run: Owned) -> bool {
        let leaves = |group: &Group| group.get(&run).is_some_and(|batch| batch.left || batch.ended.is_some());
        leaves(&self.batches) || self.flight.as_deref().is_some_and(leaves)
    }

    /// Whether something of a run waits for the next group.
    pub(super) fn gathers(&self, run: Owned) -> bool {
        self.batches.contains_key(&run)
    }

    /// When so many groups are durable, all is that was handed over so far.
    pub(super) fn handed(&self) -> u64 {
        self.taken + u64::from(!self.batches.is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// What a run has written since the last group. None where nothing of it is written any more.
    pub(super) fn batch(&mut self, run: Owned) -> Option<&mut Batch> {
        let is_written = self.failed.is_none() && self.known.get(&run).is_some_and(|known| !known.lost);
        is_written.then(|| self.batches.entry(run).or_default())
    }

    pub(super) fn append(&mut self, run: Owned, record: &[u8], consumed: &mut Vec<Consumed>) {
        if let Some(batch) = self.batch(run) {
            batch.put(record);
            batch.consumed.append(consumed);
            self.bytes += record.len();
        }
    }

    /// Takes what has gathered for the disk.
    pub(super) fn take(&mut self) -> Arc<Group> {
        let group = std::mem::take(&mut self.batches);
        self.hurried = false;
        self.bytes = 0;
        self.taken += 1;
        let group = Arc::new(group);
        self.flight = Some(Arc::clone(&group));
        group
    }

    /// The group that was taken has come to its end.
    pub(super) fn landed(&mut self) {
        self.flight = None;
    }

    /// What a run has written so far and is not durable: after how many records, and the batches in their order.
    pub(super) fn undurable(&self, run: Owned) -> (u64, Vec<Vec<Bytes>>) {
        let durable = self.known.get(&run).map_or(0, |known| known.durable);
        let flight = self.flight.as_ref().and_then(|group| group.get(&run)).map(Batch::records);
        (durable, flight.into_iter().chain(self.batches.get(&run).map(Batch::records)).collect())
    }
}
