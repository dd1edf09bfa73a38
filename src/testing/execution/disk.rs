//! The disk of a run: its records outlive its host.

use super::RECORDS_MAX;
use super::story::Story;
use crate::run::{Durability, Log, Record, RunEnd};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// What is on the disk.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) records: Vec<Bytes>,
    pub(super) story: Story,
    ended: bool,
    /// The host dies when so many records are on the disk.
    pub(super) dies_after: Option<usize>,
    /// The host is dead: nothing is written any more.
    pub(super) is_dead: bool,
}

impl Disk {
    /// Counts the records, the end included, as they are reported durable.
    pub(super) fn written(&self) -> u64 {
        self.records.len() as u64 + u64::from(self.ended)
    }

    /// Whether there are more records than an execution may have.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() > RECORDS_MAX
    }
}

/// The log of a run on that disk. Records are durable when the execution says so.
pub(super) struct DiskLog(pub(super) Arc<Mutex<Disk>>);

impl Log for DiskLog {
    fn append(&mut self, record: &[u8]) -> Durability {
        let mut disk = self.0.lock();
        if !disk.is_dead {
            let bytes = Bytes::copy_from_slice(record);
            let read = Record::decode(bytes.clone()).expect("invariant: it was written by this release");
            disk.story.apply(&read);
            disk.records.push(bytes);
            disk.is_dead = disk.dies_after.is_some_and(|dies| disk.records.len() >= dies);
        }
        Durability::Later
    }

    fn ended(&mut self, _: &RunEnd) -> Durability {
        let mut disk = self.0.lock();
        disk.ended |= !disk.is_dead;
        Durability::Later
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        Some(self.0.lock().records.clone())
    }
}
