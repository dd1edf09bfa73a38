//! Ending a durable run that nobody runs, without what it takes to run it.

use super::durable::OwnedRun;
use super::{Host, RecoverError, RunHandle};
use crate::process::{Body, Problem, ProcessInit, Program, problem::kind};
use crate::run::{Record, ResumeError, ResumeSpec, Started};
use std::sync::Arc;

/// A program that the run began with, in name alone: nothing of the run is stepped.
struct Absent(Arc<str>);

impl Program for Absent {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    fn body(&self, _: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Err(Problem::new(kind::HOST_FAULT, "The run was taken up to be ended, and not to be run"))
    }
}

impl Host {
    /// Ends a durable run that no living host has, at once: what was left for it is delivered, and
    /// then all its processes are cancelled without a grace. Neither its workflow nor its
    /// components are loaded, none of its processes is stepped and no call of it leaves, so a call
    /// without an answer stays without one.
    ///
    /// # Errors
    /// There is no such run, it has ended, a living host has it, or its records are damaged.
    pub fn end(&self, id: &str, reason: &str) -> Result<RunHandle, RecoverError> {
        let (_, journal) = self.opened()?;
        self.recover_to_end(id, reason).inspect_err(|error| journal.note_damage(id, error))
    }

    fn recover_to_end(&self, id: &str, reason: &str) -> Result<RunHandle, RecoverError> {
        let OwnedRun { records, left, log } = self.own_records(id)?;
        let Some(Started { root, programs, .. }) = records.first().and_then(Record::started) else {
            return Err(ResumeError::Empty.into());
        };
        let absent = |digest: &Arc<str>| Arc::new(Absent(Arc::clone(digest))) as Arc<dyn Program>;
        let spec = ResumeSpec {
            root: absent(root),
            programs: programs.iter().map(|(name, digest)| (Arc::clone(name), absent(digest))).collect(),
            left,
            unless_paused: false,
            log,
            effects: Arc::clone(&self.shared.dispatcher) as _,
            sink: None,
            watcher: None,
        };
        Ok(RunHandle { run: self.shared.kernel.end(spec, &records, reason)? })
    }
}
