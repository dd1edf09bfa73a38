//! Starting a run.

use super::handle::RunHandle;
use super::kernel::Kernel;
use super::observe::Watcher;
use super::outbox::AfterUnlock;
use super::run::Run;
use super::task::Task;
use crate::process::{Grants, Limits, Payload, Pid, Problem, Program, Tag, Timestamp};
use crate::run::record::kinds::{Bounds, Origin, Record, Started};
use crate::run::seam::effects::Effects;
use crate::run::seam::log::{Log, LogSink};
use crate::run::state::config::{Programs, RunConfig};
use crate::run::state::run_state::State;
use crate::scheduler::Pause;
use std::sync::Arc;

/// What a run is started from.
pub struct RunSpec {
    /// Its id: unique among the unfinished runs of the host.
    pub id: Arc<str>,
    /// The key of its random streams.
    pub seed: [u8; 32],
    /// The program of its root process.
    pub root: Arc<dyn Program>,
    /// The root's entry point.
    pub entry: Arc<str>,
    /// The root's input.
    pub input: Payload,
    /// The root's limits; each child has its parent's, or less.
    pub limits: Limits,
    /// The root's grants; each child has its parent's, or less.
    pub grants: Grants,
    /// What all its processes together may hold.
    pub bounds: Bounds,
    /// The programs that its processes may spawn.
    pub programs: Programs,
    /// Its log.
    pub log: Box<dyn Log>,
    /// The handlers of its calls.
    pub effects: Arc<dyn Effects>,
    /// The sink of its log lines, if there is one.
    pub sink: Option<Arc<dyn LogSink>>,
    /// A watcher that observes it from its first step on.
    pub watcher: Option<Watcher>,
    /// The run that it repeats; `None` if it is the first of its kind.
    pub origin: Option<Origin>,
}

/// Why a run was not started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is an unfinished run with that id.
    #[error("there is an unfinished run with the id {0:?}")]
    Exists(Arc<str>),
    /// The root's program made no body.
    #[error("the root process cannot be made")]
    Root(#[source] Box<Problem>),
    /// The scheduler takes no more processes.
    #[error("the host is shutting down or full")]
    Refused,
}

impl RunSpec {
    /// The first record of the run.
    fn started(&self, at: Timestamp) -> Started {
        Started {
            run: Arc::clone(&self.id),
            seed: self.seed,
            at,
            root: self.root.digest(),
            programs: self.programs.iter().map(|(name, program)| (Arc::clone(name), program.digest())).collect(),
            entry: Arc::clone(&self.entry),
            input: self.input.clone(),
            limits: self.limits.clone(),
            grants: self.grants.clone(),
            bounds: self.bounds,
            origin: self.origin.clone(),
        }
    }
}

impl Kernel {
    /// Starts a run.
    ///
    /// # Errors
    /// Fails if a run with that id is unfinished, the root cannot be made, or the scheduler refuses
    /// it.
    pub fn start(&self, spec: RunSpec) -> Result<RunHandle, StartError> {
        let mut spec = Some(spec);
        let mut started = Err(StartError::Refused);
        self.with_port(|port| {
            if let Some(spec) = spec.take() {
                started = self.start_on(port, spec);
            }
        });
        started
    }

    /// Starts a run by a port of the scheduler.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        &self,
        port: &mut dyn crate::scheduler::Port<Self>,
        spec: RunSpec,
    ) -> Result<RunHandle, StartError> {
        let mono = port.monotonic();
        let at = self.clock().at(mono);
        let started = spec.started(at);
        let RunSpec { id, root, programs, log, effects, sink, watcher, .. } = spec;
        let config = RunConfig::new(&started, root, programs, effects, sink);
        let state = State::new(&started);
        let entry = &state.table[Pid::ROOT];
        let root = (&entry.limits, &entry.grants);
        let body = config
            .body(&config.root, Pid::ROOT, Tag(1), &started.entry, &started.input, root, false)
            .map_err(StartError::Root)?;
        let program = Arc::clone(&config.root);
        let permit = program.permit().within(root.0);
        let run = Arc::new(Run::new(config, self.clone(), (at, mono), state, log));
        let mut inner = run.inner.lock();
        let Some(registered) = self.register(&run, false) else { return Err(StartError::Exists(id)) };
        let mut after = AfterUnlock::default();
        let task = Task::new(Arc::clone(&run), Pid::ROOT, program, body, permit.is_none());
        let native = task.state.native;
        let slot = match port.spawn(task, permit) {
            Ok(slot) => slot,
            Err(task) => {
                drop(inner);
                drop(task);
                self.unregister(&run);
                return Err(StartError::Refused);
            }
        };
        // Only once it is certain that the run begins: a log with records is a run. Its first step
        // waits for the lock.
        inner.append(&Record::Started(Box::new(started)));
        inner.watched_by(watcher, &mut after.add().wakers);
        let root = inner.state.living_mut(Pid::ROOT).expect("invariant: the root was just entered");
        root.slot = Some(slot);
        root.begun = native;
        if inner.is_queued {
            port.pause(slot, Pause::On);
        }
        run.schedule_first_check(&mut inner, port);
        drop(inner);
        run.after_unlock(port, after);
        self.registered(&run, registered);
        self.sweep(port, Some(&run));
        Ok(RunHandle::new(run))
    }
}
