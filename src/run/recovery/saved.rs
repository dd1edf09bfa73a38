//! Finds the snapshots of a run's processes when the run is recovered.

use super::replaying::{History, SnapshotChain};
use crate::process::Pid;
use crate::run::commit::remarks::Remarks;
use crate::run::commit::run::Run;
use crate::run::seam::log::Log;
use crate::run::seam::snapshot_store::{SnapshotStore, UnusedSnapshot};
use crate::run::state::run_state::State;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of snapshots that are read when a run is recovered, off the workers; further ones are read
/// when their process is next stepped. Arbitrary.
const READ_AHEAD_BYTES_MAX: u64 = 64 << 20;

/// The snapshots of a run that is being recovered.
#[derive(Default)]
pub(in crate::run) struct Snapshots {
    store: Option<Arc<dyn SnapshotStore>>,
    /// Those that follow a recorded step, by process, the last one last.
    of: BTreeMap<Pid, Vec<(u64, Option<Bytes>)>>,
    /// Still to be reported.
    ignored: Vec<UnusedSnapshot>,
}

impl Snapshots {
    /// Finds the snapshots in the log's store that follow steps of these histories. Reads from a
    /// disk.
    pub(in crate::run) fn of(log: &dyn Log, state: &State, pasts: &BTreeMap<Pid, History>) -> Self {
        let Some(store) = log.snapshot_store() else { return Self::default() };
        let mut found = Self { store: Some(Arc::clone(&store)), ..Self::default() };
        let mut list = match store.list() {
            Ok(list) => list,
            Err(why) => {
                found.ignored.push(UnusedSnapshot { pid: Pid::ROOT, step: 0, why });
                return found;
            }
        };
        list.sort_unstable();
        let mut bytes = 0;
        for kept in list.into_iter().rev() {
            // A process that has ended needs none.
            let (Some(history), Some(entry)) = (pasts.get(&kept.pid), state.living(kept.pid)) else { continue };
            if kept.step > entry.steps {
                let why = format!("it follows step {}, and the records end with step {}", kept.step, entry.steps);
                found.ignored.push(UnusedSnapshot { pid: kept.pid, step: kept.step, why });
                continue;
            }
            // A snapshot from before a renewal belongs to the process's former life.
            if history.steps.front().is_none_or(|first| kept.step < first.number) {
                continue;
            }
            let of_pid = found.of.entry(kept.pid).or_default();
            bytes += kept.bytes;
            let ahead = bytes <= READ_AHEAD_BYTES_MAX;
            let read = if ahead { store.get(kept.pid, kept.step).ok().flatten() } else { None };
            of_pid.insert(0, (kept.step, read));
        }
        found
    }

    /// Reports the snapshots that are not used.
    pub(in crate::run) fn report(&mut self, run: &Run) {
        for ignored in self.ignored.drain(..) {
            run.remarks.ignore(ignored);
        }
    }

    /// Takes out the snapshots that a process can begin from.
    pub(in crate::run) fn take(&mut self, pid: Pid, remarks: &Arc<Remarks>) -> Option<SnapshotChain> {
        let steps = self.of.remove(&pid)?;
        Some(SnapshotChain { store: self.store.clone()?, steps, remarks: Arc::clone(remarks) })
    }
}
