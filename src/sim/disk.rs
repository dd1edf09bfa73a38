//! The simulated disk of a run's log: records that are durable, records that were written and may
//! be lost, and whether their durability was reported.

use super::Dice;
use crate::process::{Action, Pid, Tag};
use crate::run::{Decision, Durability, Log, MemorySnapshots, Nap, ParkedLog, Parking, Record, RunEnd, SnapshotStore};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log of one run, as a later host would find it.
#[derive(Default)]
pub(super) struct Disk {
    records: Vec<Bytes>,
    /// Records, the end included, that survive a crash.
    durable: usize,
    /// Whether the run's end is written after the last record.
    ended: bool,
    /// The number of the record that decided a call.
    calls: BTreeMap<(Pid, Tag), usize>,
    /// The number of the record that announces the sending of a call.
    leaving: BTreeMap<(Pid, Tag), usize>,
    /// Records of 100 that are durable as soon as they are written.
    durable_at_once_percent: u64,
    dice: Option<Dice>,
    /// Whether the durability of a record was deferred and has not been reported.
    has_unreported: bool,
    shelf: MemorySnapshots,
    /// Whether the run is parked.
    parked: bool,
}

impl Disk {
    /// Creates an empty disk.
    pub(super) fn new(durable_at_once_percent: u64, dice: Dice) -> Self {
        Self { durable_at_once_percent, dice: Some(dice), ..Self::default() }
    }

    /// Draws whether the last write is durable at once, and with it all before it.
    fn write(&mut self) -> Durability {
        let durable_at_once_percent = self.durable_at_once_percent;
        if self.dice.as_mut().is_some_and(|dice| dice.chance(durable_at_once_percent)) {
            self.durable = self.written();
            return Durability::Now;
        }
        self.has_unreported = true;
        Durability::Later
    }

    /// Counts the records, the end included.
    fn written(&self) -> usize {
        self.records.len() + usize::from(self.ended)
    }

    /// Returns how many records are durable and how many are written.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.durable, self.written())
    }

    /// Returns whether a crash could lose a record.
    pub(super) fn is_behind(&self) -> bool {
        self.durable < self.written()
    }

    /// Returns whether durability must be reported.
    pub(super) fn has_unreported(&self) -> bool {
        self.has_unreported
    }

    /// Makes more records durable. Returns how many are, to be reported now.
    pub(super) fn sync(&mut self, to: usize) -> u64 {
        self.durable = self.durable.max(to.min(self.written()));
        self.has_unreported = self.is_behind();
        self.durable as u64
    }

    /// Kills the host: the first `left` records survive.
    pub(super) fn crash(&mut self, left: usize) {
        self.ended &= left > self.records.len();
        self.parked = false;
        self.has_unreported = false;
        self.records.truncate(left);
        self.durable = self.written();
        let count = self.records.len();
        self.calls.retain(|_, record| *record <= count);
        self.leaving.retain(|_, record| *record <= count);
    }

    /// Returns whether a call may be sent: its record is durable, and if it must not be repeated,
    /// the record that announces the sending is, too.
    pub(super) fn may_leave(&self, pid: Pid, tag: Tag, is_repeatable: bool) -> bool {
        let durable = |known: &BTreeMap<_, usize>| known.get(&(pid, tag)).is_some_and(|record| *record <= self.durable);
        durable(&self.calls) && (is_repeatable || durable(&self.leaving))
    }

    /// Returns whether the run's end is durable.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.durable == self.written()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        let decode = |bytes: &Bytes| Record::decode(bytes.clone()).expect("invariant: it was written by this release");
        self.records.iter().map(decode).collect()
    }

    fn note(&mut self, record: &Record) {
        let number = self.records.len();
        match record {
            Record::Stepped(stepped) => {
                for decided in &stepped.decided {
                    if let (Action::Call(_), Decision::Called(_)) = (&decided.command.action, &decided.decision) {
                        self.calls.insert((stepped.pid, decided.command.tag), number);
                    }
                }
            }
            Record::Leaving { pid, tag } => {
                self.leaving.insert((*pid, *tag), number);
            }
            _ => {}
        }
    }
}

/// A log on a simulated disk, whose records are durable at once or later.
pub(super) struct SlowLog {
    pub(super) disk: Arc<Mutex<Disk>>,
    /// Whether the run may be parked.
    pub(super) parks: bool,
}

impl Log for SlowLog {
    fn append(&mut self, record: &[u8]) -> Durability {
        let mut disk = self.disk.lock();
        assert!(!disk.parked, "a run that is parked writes");
        let bytes = Bytes::copy_from_slice(record);
        disk.records.push(bytes.clone());
        disk.note(&Record::decode(bytes).expect("invariant: it was written by this release"));
        disk.write()
    }

    fn ended(&mut self, _: &RunEnd) -> Durability {
        let mut disk = self.disk.lock();
        disk.ended = true;
        disk.write()
    }

    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        Some(Arc::new(self.disk.lock().shelf.clone()))
    }

    fn can_park(&self) -> bool {
        self.parks
    }

    fn park(&mut self, _: &Nap) -> Option<Parking> {
        let mut disk = self.disk.lock();
        assert!(!disk.is_behind(), "a run is parked before its records are durable");
        disk.parked = true;
        Some(Parking::Kept(Box::new(Self { disk: Arc::clone(&self.disk), parks: true })))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        Some(self.disk.lock().records.clone())
    }
}

impl ParkedLog for SlowLog {
    fn recover(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        let records = {
            let mut disk = self.disk.lock();
            disk.parked = false;
            disk.records.clone()
        };
        Ok((self, records))
    }
}
