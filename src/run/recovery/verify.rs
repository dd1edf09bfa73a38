//! Compares the snapshots of a run with its records alone.

use super::rebuild::{Rebuild, RebuildError};
use crate::process::{Body, Budget, Pid, ProcessSnapshot, Program};
use crate::run::record::kinds::Record;
use crate::run::seam::snapshot_store::{SnapshotEntry, SnapshotStore};
use crate::run::state::config::Programs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of comparing a run's records and its snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Verified {
    /// Steps that were replayed, all as recorded.
    pub steps: u64,
    /// The snapshots in the order of their processes and steps.
    pub snapshots: Vec<Compared>,
}

/// A snapshot compared with the replayed process.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Compared {
    /// The process of the snapshot.
    pub pid: Pid,
    /// The step that it follows.
    pub step: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// How a snapshot compares with the replayed process.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They are the same, to the byte.
    Equal,
    /// The replayed process differs after that step.
    Differs,
    /// A recovery would not use the snapshot, for this reason.
    Ignored(String),
}

/// Snapshots to compare while a run is rebuilt.
pub(in crate::run) struct Checks {
    store: Arc<dyn SnapshotStore>,
    wanted: BTreeMap<(Pid, u64), u64>,
    done: Vec<Compared>,
}

impl Checks {
    fn new(store: Arc<dyn SnapshotStore>) -> Result<Self, String> {
        let wanted = store.list()?.into_iter().map(|SnapshotEntry { pid, step, bytes }| ((pid, step), bytes)).collect();
        Ok(Self { store, wanted, done: Vec::new() })
    }

    /// Compares a process that has replayed a step with its snapshot, if there is one.
    pub(in crate::run) fn stepped(&mut self, pid: Pid, step: u64, body: &mut dyn Body) {
        let Some(bytes) = self.wanted.remove(&(pid, step)) else { return };
        let verdict = self.compare(pid, step, body).unwrap_or_else(Verdict::Ignored);
        self.done.push(Compared { pid, step, bytes, verdict });
    }

    fn compare(&self, pid: Pid, step: u64, body: &mut dyn Body) -> Result<Verdict, String> {
        let bytes = self.store.get(pid, step)?.ok_or("it is gone")?;
        let kept = ProcessSnapshot::decode(&bytes).map_err(|error| error.to_string())?;
        let taken = body.save().ok_or("the process cannot be saved by this host")?;
        let now = taken.pack().map_err(|error| error.to_string())?;
        kept.is_of(&now.program, &now.contract).map_err(|error| error.to_string())?;
        if kept.form != now.form {
            return Err("it is of another form than this host's".into());
        }
        Ok(if kept.digest == now.digest { Verdict::Equal } else { Verdict::Differs })
    }

    fn finish(mut self) -> Vec<Compared> {
        for ((pid, step), bytes) in self.wanted {
            let verdict = Verdict::Ignored("the records have no such step".into());
            self.done.push(Compared { pid, step, bytes, verdict });
        }
        self.done.sort_by_key(|compared| (compared.pid, compared.step));
        self.done
    }
}

/// Rebuilds a run from all of its records, and compares every snapshot of it. Instances are made
/// outside the pool, out of the budget if there is one.
///
/// # Errors
/// Fails if a record does not follow from those before it, or a process does not repeat its record.
pub fn verify(
    records: &[Record],
    root: &Arc<dyn Program>,
    programs: &Programs,
    budget: Option<Arc<Budget>>,
    store: Arc<dyn SnapshotStore>,
) -> Result<Verified, VerifyError> {
    let mut rebuild = Rebuild::new(Arc::clone(root), programs.clone());
    if let Some(budget) = budget {
        rebuild = rebuild.outside(budget);
    }
    rebuild.checks = Some(Checks::new(store).map_err(VerifyError::SnapshotStore)?);
    let mut rebuild = rebuild.apply_all(records)?;
    let snapshots = rebuild.checks.take().map(Checks::finish).unwrap_or_default();
    Ok(Verified { steps: rebuild.steps, snapshots })
}

/// Why a run cannot be verified.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Its records are not those of a run of these programs.
    #[error(transparent)]
    Records(#[from] RebuildError),
    /// Its snapshots cannot be listed.
    #[error("the snapshots cannot be listed: {0}")]
    SnapshotStore(String),
}
