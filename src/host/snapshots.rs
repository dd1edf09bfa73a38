//! Snapshots of the processes of durable runs: how many there are, and whether they are what the records say.

use super::{Host, RecoverError};
use crate::run::{SnapshotCounts, Verified, VerifyError, verify};
use std::sync::Arc;

/// Why a run cannot be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyRunError {
    /// The journal does not give it, or its workflow cannot be loaded.
    #[error(transparent)]
    TakeUp(#[from] RecoverError),
    /// Its records do not tell a run of its workflow.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

impl Host {
    /// Executes every step of a durable run again, as far as it is on disk, and compares every snapshot of its processes with what they really
    /// were. The run may be over, or go on meanwhile in this host or another. Nothing leaves the host for it.
    ///
    /// # Errors
    /// There is no such run, its workflow cannot be loaded, or a process does not do again what it did.
    pub fn verify(&self, id: &str) -> Result<Verified, VerifyRunError> {
        let journal = self.journal().map_err(RecoverError::from)?.ok_or(RecoverError::NoJournal)?;
        // The snapshots first: those that are taken meanwhile follow steps that the records may not have.
        let shelf = journal.store().shelf(id);
        let workflow = self.workflow_of(id)?;
        let records = journal.records(id)?;
        let budget = Arc::clone(self.shared.guests.on_demand_memory());
        Ok(verify(&records, &self.root_for(&workflow, &records), &workflow.programs, Some(budget), shelf)?)
    }

    /// What became of the snapshots that this host has taken.
    pub fn snapshot_counts(&self) -> SnapshotCounts {
        self.shared.kernel.snapshot_counts()
    }

    /// The durable runs that have left the memory and are still this host's, in the order of their ids.
    pub fn parked(&self) -> Vec<Arc<str>> {
        self.shared.kernel.parked().into_iter().map(|(id, _)| id).collect()
    }

    /// Waits until the snapshots that were taken are written.
    pub fn flush_snapshots(&self) {
        self.shared.kernel.flush_snapshots();
    }
}
