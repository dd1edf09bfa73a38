//! Snapshots of the processes of durable runs: counting and verifying them.

use super::{Host, RecoverError};
use crate::run::{SnapshotCounts, Verified, VerifyError, verify};
use std::sync::Arc;

/// Why a run cannot be verified.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum VerifyRunError {
    /// The journal cannot read it, or its workflow cannot be loaded.
    #[error(transparent)]
    TakeUp(#[from] RecoverError),
    /// Its records are not of a run of its workflow.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

crate::base::report_debug::report_debug!(VerifyRunError);

impl Host {
    /// Replays every step of a durable run that is on disk, and compares every snapshot of its
    /// processes with the replayed process. The run may have ended, or continue meanwhile in this
    /// host or another. Nothing leaves the host for it.
    ///
    /// # Errors
    /// Fails if there is no such run, its workflow cannot be loaded, or a process diverges.
    pub fn verify(&self, id: &str) -> Result<Verified, VerifyRunError> {
        let journal = self.journal().map_err(RecoverError::from)?.ok_or(RecoverError::NoJournal)?;
        // The snapshots first: those taken meanwhile may be of steps that the records do not have.
        let shelf = journal.store().snapshot_store(id);
        let workflow = self.workflow_of(id)?;
        let records = journal.records(id)?;
        let budget = Arc::clone(self.shared.guests.on_demand_memory());
        Ok(verify(&records, &self.root_for(&workflow, &records), &workflow.programs, Some(budget), shelf)?)
    }

    /// Returns the outcomes of the snapshots that this host has taken, in numbers.
    pub fn snapshot_counts(&self) -> SnapshotCounts {
        self.shared.kernel.snapshot_counts()
    }

    /// Returns the parked runs of this host, in the order of their ids.
    pub fn parked(&self) -> Vec<Arc<str>> {
        self.shared.kernel.parked().into_iter().map(|(id, _)| id).collect()
    }

    /// Waits until the snapshots that were taken are written.
    pub fn flush_snapshots(&self) {
        self.shared.kernel.flush_snapshots();
    }
}
