//! Starting runs, and shutting the host down.

use super::random::fill;
use super::{Host, LoadError, Outcome, StartNotes, Workflow};
use crate::dispatch::HandlerStatistics;
use crate::journal;
use crate::process::{Limits, Payload, Program};
use crate::run::{
    Bounds, Effects, Events, Log, LogSink, Origin, ProcessStatus, Rebuild, RebuildError, Record, Refused, RunSpec,
    StartError, Watcher,
};
use crate::scheduler::Stats;
use crate::workflow::interpreter::progress::NodeEnding;
use crate::workflow::model::Durability;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a run's inputs, and of its outputs. Arbitrary; payloads between guests have the limit
/// of the guests.
const RUN_PAYLOAD_BYTES_MAX: u64 = 16 << 20;

/// How a run is started. The default is a fresh id and a fresh seed.
#[derive(Default)]
pub struct RunOptions {
    /// The id of the run; unique among the unfinished runs of the host.
    pub id: Option<String>,
    /// Keys its random streams and the jitter of its retries.
    pub seed: Option<[u8; 32]>,
    /// Takes its log lines. It is called on a worker and must neither block nor make a system call.
    pub sink: Option<Arc<dyn LogSink>>,
    /// Watches it from its first step on ([`Events::of_new_run`]), or, if it is recovered, from the
    /// end of its records on.
    pub watcher: Option<Watcher>,
    /// Whether its records are retained in memory, to be read by [`RunHandle::records`]. They grow
    /// with the run.
    pub records: bool,
    /// Whether the run outlives its host: then it is written to the journal in the host's folder
    /// ([`HostBuilder::data`](super::HostBuilder::data)). `None`: if the host has a folder.
    pub durable: Option<bool>,
    /// Who else holds the blobs that its inputs name, besides the run itself
    /// ([`Host::blobs`](super::Host::blobs)): they are given to the run.
    pub blob_holders: Vec<Arc<str>>,
    /// Whether a paused run is not recovered, but refused with
    /// [`RecoveryError::Paused`](crate::run::RecoveryError::Paused).
    pub unless_paused: bool,
    /// What is noted of the start of a durable run, for lists and for those who ask for it.
    pub notes: StartNotes,
}

/// A run that was started. Cloning it is cheap; dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle {
    pub(super) run: crate::run::RunHandle,
}

/// What a run begins with.
pub(super) struct Beginning {
    pub(super) id: Arc<str>,
    pub(super) entry: &'static str,
    pub(super) input: Payload,
    /// The inputs of the workflow.
    pub(super) inputs: Map<String, Value>,
    pub(super) origin: Option<Origin>,
    /// The program of the workflow itself.
    pub(super) root: Arc<dyn Program>,
}

impl Host {
    /// Runs a workflow to its end.
    ///
    /// # Errors
    /// Fails if the inputs do not fit, or the host is shutting down. A run that fails is no error
    /// of this kind: see [`Outcome::result`].
    pub async fn run(&self, workflow: &Workflow, inputs: Map<String, Value>) -> Result<Outcome, LoadError> {
        let run = self.start(workflow, inputs, RunOptions::default())?;
        Ok(run.finished().await)
    }

    /// Starts a run.
    ///
    /// # Errors
    /// As [`Self::run`]; also fails if there is an unfinished run with the same id.
    pub fn start(
        &self,
        workflow: &Workflow,
        inputs: Map<String, Value>,
        options: RunOptions,
    ) -> Result<RunHandle, LoadError> {
        let inputs = workflow.plan.inputs.accept(inputs).map_err(|violations| {
            LoadError::Inputs(violations.into_iter().map(|one| (one.pointer, one.message)).collect())
        })?;
        let id = options.id.clone().unwrap_or_else(|| id_of(&self.shared.random.bytes())).into();
        self.begin(
            workflow,
            Beginning {
                id,
                entry: "run",
                input: Payload::json(&inputs),
                inputs,
                origin: None,
                root: Arc::clone(&workflow.root),
            },
            options,
        )
    }

    /// Starts a run, or one that repeats another.
    pub(super) fn begin(
        &self,
        workflow: &Workflow,
        beginning: Beginning,
        options: RunOptions,
    ) -> Result<RunHandle, LoadError> {
        let Beginning { id, entry, input, inputs, origin, root } = beginning;
        self.check_secrets(workflow)?;
        self.give_blobs_of(&id, &inputs, origin.as_ref(), &options)?;
        let is_wanted = || self.shared.data.is_some() && workflow.plan.durability() == Durability::Journal;
        let log: Box<dyn Log> = if options.durable.unwrap_or_else(is_wanted) {
            let source = if origin.is_some() { "retry" } else { "host" };
            self.log(&id, workflow, &inputs, &options.notes, source)?
        } else if workflow.plan.concurrency.is_some() {
            return Err(LoadError::GroupNeedsJournal);
        } else if options.records {
            self.shared.blobs.passing_log(&id, journal::Memory::default())
        } else {
            self.shared.blobs.passing_log(&id, journal::Nothing)
        };
        let effects = self.effects(&id, &workflow.plan, options.notes.traceparent.as_deref());
        let seed = options.seed.unwrap_or_else(|| self.shared.random.bytes());
        let spec = RunSpec {
            entry: entry.into(),
            sink: Some(self.shared.steps.sink(&workflow.plan.name, options.sink)),
            watcher: options.watcher,
            origin,
            ..spec(workflow, (id, seed), root, input, (log, effects))
        };
        let run = self.shared.kernel.start(spec).map_err(|error| match error {
            StartError::Exists(id) => LoadError::Exists { id: id.to_string() },
            StartError::Root(problem) => LoadError::Inputs(vec![("/".to_owned(), problem.to_string())]),
            _ => LoadError::ShuttingDown,
        })?;
        if workflow.plan.concurrency.is_some() {
            self.await_place(&run)?;
        }
        Ok(RunHandle { run })
    }

    /// Gives a run the blobs that it begins with.
    fn give_blobs_of(
        &self,
        id: &Arc<str>,
        inputs: &Map<String, Value>,
        origin: Option<&Origin>,
        options: &RunOptions,
    ) -> Result<(), LoadError> {
        if let Some(origin) = origin {
            let inherited = self.inherit_blobs(&origin.run, id);
            inherited.map_err(LoadError::Blobs)?;
        }
        self.give_blobs(id, inputs, &options.blob_holders)
    }

    /// Rebuilds a run of this workflow from its records alone: every step is replayed, and compared
    /// with its record.
    ///
    /// Its guests take no slots of the pool: they are allocated on demand, and share that memory
    /// with the runs.
    ///
    /// # Errors
    /// Fails if the run is of another workflow, a record does not follow from those before it, a
    /// process diverges, or there is no room for guests that cannot be evicted.
    pub fn rebuild(&self, workflow: &Workflow, records: &[Record]) -> Result<Rebuild, RebuildError> {
        let rebuild = Rebuild::new(self.root_for(workflow, records), (*workflow.programs).clone());
        rebuild.outside(Arc::clone(self.shared.guests.on_demand_memory())).apply_all(records)
    }

    /// Returns the statistics of the scheduler.
    pub fn stats(&self) -> Stats {
        self.shared.scheduler.lock().as_ref().map(crate::scheduler::Scheduler::stats).unwrap_or_default()
    }

    /// Returns the statistics of each worker: those that a worker has of its own; the others are 0.
    pub fn worker_stats(&self) -> Vec<Stats> {
        self.shared.scheduler.lock().as_ref().map(crate::scheduler::Scheduler::worker_stats).unwrap_or_default()
    }

    /// Records what each worker does from now on, until the recording is ended. `None` if somebody
    /// records already, or the host has shut down.
    pub fn record_workers(&self) -> Option<crate::scheduler::WorkerRecording> {
        self.shared.scheduler.lock().as_ref()?.record()
    }

    /// Counts each handler's calls, by the handler's name.
    pub fn call_statistics(&self) -> BTreeMap<String, HandlerStatistics> {
        self.shared.dispatcher.statistics()
    }

    /// Counts the steps of workflows that have ended, by the workflow's name and by how: at most
    /// 1,000 names, and all further ones under `other`. What a run takes over from another does
    /// not count.
    pub fn step_counts(&self) -> Vec<(Arc<str>, NodeEnding, u64)> {
        self.shared.steps.read()
    }

    /// Returns the bytes that the processes of all runs make the host hold, except less than 16 KiB
    /// of each run.
    pub fn held_bytes(&self) -> u64 {
        self.shared.kernel.held_bytes()
    }

    /// Refuses new runs, cancels every run in memory, waits until all have ended or `timeout` has
    /// passed, and stops the workers. It returns how many processes had not ended. Parked runs stay
    /// as they are on disk.
    pub async fn shutdown(&self, timeout: Duration) -> usize {
        let host = self.clone();
        let (done, wait) = tokio::sync::oneshot::channel();
        // Waiting for threads belongs on a thread.
        let spawned = std::thread::Builder::new().name("wfhost-shutdown".into()).spawn(move || {
            let _ = done.send(host.shutdown_blocking(timeout));
        });
        match spawned {
            Ok(_) => wait.await.unwrap_or(0),
            Err(_) => self.shutdown_blocking(timeout),
        }
    }

    /// As [`Self::shutdown`], on this thread.
    pub fn shutdown_blocking(&self, timeout: Duration) -> usize {
        self.shared.kernel.never_stall();
        let scheduler = self.shared.scheduler.lock().take();
        let alive = scheduler.map_or(0, |scheduler| scheduler.shutdown(timeout).alive.len());
        self.shared.release_parked();
        alive
    }
}

/// What a run of a workflow has, whoever starts it.
pub(super) fn spec(
    workflow: &Workflow,
    (id, seed): (Arc<str>, [u8; 32]),
    root: Arc<dyn Program>,
    input: Payload,
    (log, effects): (Box<dyn Log>, Arc<dyn Effects>),
) -> RunSpec {
    RunSpec {
        id,
        seed,
        root,
        entry: "run".into(),
        input,
        limits: Limits {
            payload_bytes: RUN_PAYLOAD_BYTES_MAX,
            grace: workflow.plan.grace().unwrap_or(Limits::default().grace),
            ..Limits::default()
        },
        grants: workflow.plan.grants(),
        bounds: Bounds::default(),
        programs: (*workflow.programs).clone(),
        log,
        effects,
        sink: None,
        watcher: None,
        origin: None,
    }
}

impl RunHandle {
    /// Returns the run's id.
    pub fn id(&self) -> &Arc<str> {
        self.run.id()
    }

    /// Whether an operator has paused the run.
    pub fn is_paused(&self) -> bool {
        self.run.is_paused()
    }

    /// Waits until the run has ended.
    pub async fn finished(&self) -> Outcome {
        let outcome = self.run.finished().await;
        Outcome::new(Arc::clone(self.run.id()), &outcome)
    }

    /// Waits on this thread until the run has ended.
    pub fn wait(&self) -> Outcome {
        Outcome::new(Arc::clone(self.run.id()), &self.run.wait())
    }

    /// Returns the outcome of the run; `None` while it has not ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.run.outcome().map(|outcome| Outcome::new(Arc::clone(self.run.id()), &outcome))
    }

    /// Waits on this thread until the start of the run is durable. Returns false if `timeout`
    /// passes first, or it will never be known.
    ///
    /// If the host dies before that, the run may be in no journal. Then nothing of it has left the
    /// host.
    pub fn started(&self, timeout: Duration) -> bool {
        self.run.started().is_none_or(|started| started.wait_for(timeout) == Ok(Some(())))
    }

    /// Asks the run to end; after the grace the host ends it.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn cancel(&self, reason: &str, grace: Option<Duration>) -> Result<(), Refused> {
        self.run.cancel(reason, grace)
    }

    /// Asks the run to end, as [`Self::cancel`] does, because it takes longer than `after`: its
    /// outcome is that it has timed out, unless it ends otherwise before the request reaches it.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn time_out(&self, after: Duration) -> Result<(), Refused> {
        self.run.time_out(after)
    }

    /// Ends the run at once.
    pub fn kill(&self, reason: &str) {
        self.run.kill(reason);
    }

    /// Sends the run a signal: to the process that waits for its name, or that will.
    ///
    /// # Errors
    /// Fails if the run has ended, retains as many signals as it may, or this one is too large.
    pub fn signal(&self, name: &str, body: &Value) -> Result<(), Refused> {
        self.run.signal(name, Payload::json(body))
    }

    /// Returns the events of the run from now on, of which at most `capacity` wait.
    pub fn observe(&self, capacity: usize) -> Events {
        self.run.observe(capacity)
    }

    /// Returns the processes that live.
    pub fn processes(&self) -> Vec<ProcessStatus> {
        self.run.processes()
    }

    /// Returns what a process last exposed under a name.
    pub fn query(&self, name: &str) -> Option<Payload> {
        self.run.query(name)
    }

    /// Returns all records, if [`RunOptions::records`] was set.
    pub fn records(&self) -> Option<Vec<Record>> {
        self.run.records()
    }

    /// Returns the run itself, with all its operations.
    pub fn inner(&self) -> &crate::run::RunHandle {
        &self.run
    }
}

/// Makes an id for a run that this host does not start.
pub(super) fn fresh_id() -> String {
    let mut random = [0; 32];
    fill(&mut random);
    id_of(&random)
}

/// Milliseconds since 1970 and 40 random bits, in hexadecimal: ids sort by the time of their start.
fn id_of(random: &[u8; 32]) -> String {
    let millis = crate::run::system_time().0 / 1_000;
    format!("{millis:012x}-{:02x}{:02x}{:02x}{:02x}{:02x}", random[0], random[1], random[2], random[3], random[4])
}
