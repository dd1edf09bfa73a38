//! The log of one run in a store.

use super::queue::{Consumed, RunKey};
use super::store::shelf;
use super::writer::Writer;
use crate::run::{Awaited, Backlog, Durability, Log, Mail, Nap, ParkedLog, Parking, Reading, RunEnd, SnapshotStore};
use bytes::Bytes;
use std::sync::Arc;

/// The log of one run in a store. Dropping it releases the run.
pub(super) struct RunLog {
    writer: Arc<Writer>,
    run: RunKey,
    id: Arc<str>,
    /// The mail that the next record is made of.
    consumed: Vec<Consumed>,
    /// Bytes of all its records.
    bytes: u64,
    /// The store may have rows of what the run waits for from people.
    is_listed: bool,
    /// Another log writes the run from now on.
    passed_on: bool,
    /// The run has no place in its group yet.
    waits: bool,
}

impl RunLog {
    /// The log of a run with so many bytes of records.
    pub(super) fn new(writer: &Arc<Writer>, run: RunKey, id: Arc<str>, bytes: u64) -> Self {
        // A run that is new has no rows.
        let is_listed = bytes > 0;
        let (writer, consumed) = (Arc::clone(writer), Vec::new());
        Self { writer, run, id, consumed, bytes, is_listed, passed_on: false, waits: false }
    }

    /// The same of a run that waits for a place in its group.
    pub(super) fn waiting(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }
}

/// Bytes of these records.
pub(super) fn bytes_of(records: &[Bytes]) -> u64 {
    records.iter().map(|record| record.len() as u64).sum()
}

/// The log of a run that is parked.
struct ParkedRunLog(RunLog);

impl ParkedLog for ParkedRunLog {
    fn recover(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        let RunLog { writer, id, .. } = &self.0;
        let records = writer.records(id).map_err(|error| error.to_string())?;
        let mut log = self.0;
        log.bytes = bytes_of(&records);
        Ok((Box::new(log), records))
    }
}

impl Log for RunLog {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.writer.append(self.run, record, &mut self.consumed);
        self.bytes += record.len() as u64;
        Durability::Later
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn flush_soon(&mut self) {
        self.writer.flush_soon(self.run);
    }

    fn consume(&mut self, mail: &Mail) {
        let (id, kind) = (Arc::clone(&mail.id), Arc::clone(&mail.kind));
        self.consumed.push(Consumed { id, kind, digest: mail.digest().to_le_bytes() });
    }

    fn awaits(&mut self, awaited: Vec<Awaited>) {
        if self.is_listed || !awaited.is_empty() {
            self.is_listed = !awaited.is_empty();
            self.writer.awaits(self.run, awaited);
        }
    }

    fn ended(&mut self, end: &RunEnd) -> Durability {
        self.awaits(Vec::new());
        self.writer.end(self.run, *end);
        Durability::Later
    }

    fn backlog(&self) -> Option<Arc<Backlog>> {
        Some(Arc::clone(&self.writer.shared.backlog))
    }

    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        Some(shelf(&self.writer, Arc::clone(&self.id)))
    }

    fn waits_for_place(&self) -> bool {
        self.waits
    }

    fn can_park(&self) -> bool {
        true
    }

    fn park(&mut self, nap: &Nap) -> Option<Parking> {
        // A host that takes over has paused runs in memory, to show them as such.
        if !nap.is_paused {
            self.writer.parks(self.run, nap.due.map_or(i64::MAX, |due| due.0.cast_signed()));
        }
        self.passed_on = true;
        let mut log = Self::new(&self.writer, self.run, Arc::clone(&self.id), self.bytes);
        log.is_listed = self.is_listed;
        Some(Parking::Kept(Box::new(ParkedRunLog(log))))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.writer.all_records(self.run, &self.id)
    }

    fn reading(&self) -> Option<Reading> {
        let (writer, run, id) = (Arc::clone(&self.writer), self.run, Arc::clone(&self.id));
        Some(Box::new(move || writer.all_records(run, &id)))
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        if !self.passed_on {
            self.writer.release(self.run);
        }
    }
}
