//! Ending a suspended run without loading its workflow.

use super::durable::OwnedRun;
use super::{Host, RecoverError, RunHandle};
use crate::process::{Body, Problem, ProcessInit, Program, problem::kind};
use crate::run::{Record, RecoveryError, RecoverySpec, Started};
use std::sync::Arc;

/// Stands for a program that the run began with: no process of the run is stepped.
struct Absent(Arc<str>);

impl Program for Absent {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    fn body(&self, _: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Err(Problem::new(kind::HOST_FAULT, "The run was recovered to be ended, not to be run"))
    }
}

impl Host {
    /// Ends a durable run that no living host owns, at once: its pending acts are applied, and then
    /// all its processes are cancelled without a grace. Neither its workflow nor its components are
    /// loaded, none of its processes is stepped and no call of it leaves, so a call without an
    /// answer stays without one.
    ///
    /// # Errors
    /// Fails if there is no such run, it has ended, a living host owns it, or its records are
    /// damaged.
    pub fn end(&self, id: &str, reason: &str) -> Result<RunHandle, RecoverError> {
        let (_, journal) = self.opened()?;
        self.recover_to_end(id, reason).inspect_err(|error| journal.note_damage(id, error))
    }

    fn recover_to_end(&self, id: &str, reason: &str) -> Result<RunHandle, RecoverError> {
        let OwnedRun { records, pending, log, .. } = self.own_records(id)?;
        let Some(Started { root, programs, .. }) = records.first().and_then(Record::started) else {
            return Err(RecoveryError::Empty.into());
        };
        let absent = |digest: &Arc<str>| Arc::new(Absent(Arc::clone(digest))) as Arc<dyn Program>;
        let spec = RecoverySpec {
            root: absent(root),
            programs: programs.iter().map(|(name, digest)| (Arc::clone(name), absent(digest))).collect(),
            left: pending,
            unless_paused: false,
            log,
            effects: Arc::clone(&self.shared.dispatcher) as _,
            sink: None,
            watcher: None,
        };
        Ok(RunHandle { run: self.shared.kernel.end(spec, &records, reason)? })
    }
}
