//! What of a run's log would be on disk: records that are durable, records that were written and may be lost, and what was told of them.

use super::Dice;
use crate::process::{Action, Pid, Tag};
use crate::run::{Decision, Durability, Log, MemorySnapshots, ParkedLog, Record, RunEnd, SnapshotStore};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log of one run, as far as anybody would find it again.
#[derive(Default)]
pub(super) struct Disk {
    records: Vec<Bytes>,
    /// Records that a crash leaves.
    durable: usize,
    /// Whether the last of them is followed by the run's end.
    ended: bool,
    /// The number of the record by which a call was decided.
    calls: BTreeMap<(Pid, Tag), usize>,
    /// The number of the record that says that a call leaves.
    leaving: BTreeMap<(Pid, Tag), usize>,
    /// How many of 100 records are durable as soon as they are written.
    prompt: u64,
    dice: Option<Dice>,
    /// Something was to be durable later, and nobody was told that it is.
    owes: bool,
    shelf: MemorySnapshots,
    /// The run is parked.
    parked: bool,
}

impl Disk {
    /// An empty one that is so quick.
    pub(super) fn new(prompt: u64, dice: Dice) -> Self {
        Self { prompt, dice: Some(dice), ..Self::default() }
    }

    /// What became of something that was just written, and of all before it.
    fn write(&mut self) -> Durability {
        let prompt = self.prompt;
        if self.dice.as_mut().is_some_and(|dice| dice.chance(prompt)) {
            self.durable = self.written();
            return Durability::Now;
        }
        self.owes = true;
        Durability::Later
    }

    /// Records, the end included.
    fn written(&self) -> usize {
        self.records.len() + usize::from(self.ended)
    }

    /// How much is durable, and how much is written.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.durable, self.written())
    }

    /// Whether a crash could take something.
    pub(super) fn is_behind(&self) -> bool {
        self.durable < self.written()
    }

    /// Whether somebody is to be told what is durable.
    pub(super) fn owes(&self) -> bool {
        self.owes
    }

    /// More is durable. Gives how much, which is told now.
    pub(super) fn sync(&mut self, to: usize) -> u64 {
        self.durable = self.durable.max(to.min(self.written()));
        self.owes = self.is_behind();
        self.durable as u64
    }

    /// The host dies: of what was written this much is there.
    pub(super) fn crash(&mut self, left: usize) {
        self.ended &= left > self.records.len();
        (self.parked, self.owes) = (false, false);
        self.records.truncate(left);
        self.durable = self.written();
        let count = self.records.len();
        self.calls.retain(|_, record| *record <= count);
        self.leaving.retain(|_, record| *record <= count);
    }

    /// Whether a call may leave the host: the record that asks for it is durable, and where it must not be repeated the one that says so.
    pub(super) fn may_leave(&self, pid: Pid, tag: Tag, is_repeatable: bool) -> bool {
        let durable = |known: &BTreeMap<_, usize>| known.get(&(pid, tag)).is_some_and(|record| *record <= self.durable);
        durable(&self.calls) && (is_repeatable || durable(&self.leaving))
    }

    /// Whether the run's end is durable.
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

/// The way to a disk that says later what is durable, or at once.
pub(super) struct SlowLog {
    pub(super) disk: Arc<Mutex<Disk>>,
    /// Whether its run may leave the memory.
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

    fn shelf(&self) -> Option<Arc<dyn SnapshotStore>> {
        Some(Arc::new(self.disk.lock().shelf.clone()))
    }

    fn can_park(&self) -> bool {
        self.parks
    }

    fn park(&mut self) -> Option<Box<dyn ParkedLog>> {
        let mut disk = self.disk.lock();
        assert!(!disk.is_behind(), "a run is parked before its records are durable");
        disk.parked = true;
        Some(Box::new(Self { disk: Arc::clone(&self.disk), parks: true }))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        Some(self.disk.lock().records.clone())
    }
}

impl ParkedLog for SlowLog {
    fn take_up(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        let records = {
            let mut disk = self.disk.lock();
            disk.parked = false;
            disk.records.clone()
        };
        Ok((self, records))
    }
}
