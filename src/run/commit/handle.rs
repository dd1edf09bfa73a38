//! A handle of a run: what callers outside see of it and do to it.

use super::acts::{Acknowledged, Act};
use super::observe::{Events, Wakers};
use super::parking::residence::Residence;
use super::run::{Inner, Run};
use crate::process::{LogLine, Payload, Pid, Problem};
use crate::run::record::kinds::Record;

use crate::run::state::events::Outcome;
use crate::run::state::run_state::Counts;
use crate::run::state::signals::SignalStatus;
use crate::run::state::table::{Phase, WaitState};
use std::sync::Arc;
use std::time::Duration;

/// Why a run did not accept an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The run, or the process that it is for, has ended.
    #[error("the run or process has ended")]
    Ended,
    /// There is no room for it now: its queue is full.
    #[error("the queue is full")]
    Full,
    /// It is larger than the run may carry.
    #[error("it is larger than the run's payloads may be")]
    TooLarge,
    /// Its id was that of another act.
    #[error("its id was that of another act")]
    Conflict,
}

/// A process of a run, as of its last committed step.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ProcessStatus {
    /// Its id, unique in the run.
    pub pid: Pid,
    /// The process that spawned it; `None` for the root.
    pub parent: Option<Pid>,
    /// Its component; `None` is the root's program.
    pub component: Option<Arc<str>>,
    /// Its entry point.
    pub entry: Arc<str>,
    /// Its registered names.
    pub names: Vec<Arc<str>>,
    /// Its state of execution.
    pub doing: Doing,
    /// Committed steps.
    pub steps: u64,
    /// Fuel used by those.
    pub fuel: u64,
    /// Messages in its mailbox.
    pub mail: u32,
    /// Commands without an answer.
    pub outstanding: usize,
}

/// What a process is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// Waits for an instance: all of the pool's are in use.
    Queued,
    /// Waits for its first step, or takes it.
    Starting,
    /// Is being stepped, or will be without waiting for anything.
    Running,
    /// Waits for answers, exits or cancellation.
    Blocked,
    /// Waits for any event.
    Idle,
    /// Has been asked to end.
    Cancelling,
    /// Has ended and waits for its attached descendants.
    Ended,
}

/// A handle of a run. Cloning it is cheap, and dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle(pub(in crate::run) Arc<Residence>);

impl RunHandle {
    pub(in crate::run) fn new(run: Arc<Run>) -> Self {
        Self(Residence::of(run))
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// Returns the run's outcome once it has ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        self.0.outcome.get()
    }

    /// Waits on this thread until the run has ended.
    #[must_use]
    pub fn wait(&self) -> Arc<Outcome> {
        self.0.outcome.wait(None).expect("invariant: without a timeout it waits for the outcome")
    }

    /// Waits on this thread until the run has ended. `None` if the timeout comes first.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> Option<Arc<Outcome>> {
        self.0.outcome.wait(Some(timeout))
    }

    /// Waits until the run has ended.
    pub async fn finished(&self) -> Arc<Outcome> {
        self.0.outcome.future().await
    }

    /// Asks the run to end: its root receives cancel, and is ended when the grace has passed;
    /// without a grace, the root's own limit counts. It unpauses a paused run.
    ///
    /// # Errors
    /// Fails if the root has ended.
    pub fn cancel(&self, reason: &str, grace: Option<Duration>) -> Result<(), Refused> {
        self.act(Act::Cancel { reason: reason.into(), grace: grace.map(Into::into) }, None).map(drop)
    }

    /// As [`Self::cancel`], because the run takes longer than `after`: if it ends by this, it has
    /// timed out, and its journal says so.
    ///
    /// # Errors
    /// Fails if the root has ended.
    pub fn time_out(&self, after: Duration) -> Result<(), Refused> {
        self.act(Act::TimeOut { after: after.into() }, None).map(drop)
    }

    /// Ends the run now: every process ends, and takes no step after its slice.
    pub fn kill(&self, reason: &str) {
        let reason: Arc<str> = reason.into();
        while let Some(run) = self.run() {
            let mut is_killed = true;
            run.kernel.with_port(|port| is_killed = run.kill(port, &reason));
            if is_killed {
                return;
            }
            self.was_parked(&run);
        }
    }

    /// Pauses the run: its processes begin no step.
    ///
    /// # Errors
    /// Fails if the run has ended.
    pub fn pause(&self) -> Result<(), Refused> {
        self.act(Act::Pause, None).map(drop)
    }

    /// Continues a paused run.
    ///
    /// # Errors
    /// Fails if the run has ended.
    pub fn unpause(&self) -> Result<(), Refused> {
        self.act(Act::Resume, None).map(drop)
    }

    /// Sends a signal to the receiver that waits for its name: the call of the handler `signal`
    /// that has waited longest, else the process that has registered the name. A signal that
    /// nothing waits for is stored, in order.
    ///
    /// # Errors
    /// Fails if the run has ended, there is no room, or the signal is larger than a payload of the
    /// run may be.
    pub fn signal(&self, name: &str, body: Payload) -> Result<(), Refused> {
        self.act(Act::Signal { name: name.into(), body }, None).map(drop)
    }

    /// Logs a line that a handler writes for a call of a process: it goes where the process's own
    /// lines go. `scope` is the call's place in the workflow, if it has one.
    pub fn log(&self, pid: Pid, scope: Option<Arc<str>>, line: LogLine) {
        self.0.kernel.log(&self.0.id, pid, scope, line);
    }

    /// Returns whether an operator has paused it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.with(|_, inner| inner.state.paused.is_some()).unwrap_or_default()
    }

    /// Returns the names of signals that are awaited or stored.
    #[must_use]
    pub fn signals(&self) -> Vec<SignalStatus> {
        self.with(|_, inner| inner.state.signals.status()).unwrap_or_default()
    }

    /// Returns the value that a process last exposed under a name.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<Payload> {
        self.with(|_, inner| inner.state.exposed.get(name).cloned())?
    }

    /// Returns the names of exposed values.
    #[must_use]
    pub fn queries(&self) -> Vec<Arc<str>> {
        self.with(|_, inner| inner.state.exposed.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the acknowledgement that the run has begun: once it is durable, the run survives the
    /// host. `None` if the run has ended.
    pub fn started(&self) -> Option<Acknowledged> {
        self.with(|_, inner| inner.acknowledge(1))
    }

    /// Returns counts of what has happened in the run.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let counts = self.with(|_, inner| inner.state.counts);
        counts.or_else(|| Some(self.outcome()?.counts)).unwrap_or_default()
    }

    /// Returns the processes that live or wait for their descendants, in the order of their pids.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessStatus> {
        let processes = |inner: &Inner| {
            inner
                .state
                .table
                .iter()
                .map(|(pid, entry)| ProcessStatus {
                    pid,
                    parent: entry.parent.map(|(parent, _)| parent),
                    component: entry.component.clone(),
                    entry: Arc::clone(&entry.entrypoint),
                    names: entry.names().to_vec(),
                    doing: match (&entry.phase, entry.waits) {
                        (Phase::Ended(_), _) => Doing::Ended,
                        (Phase::Cancelling { .. }, _) => Doing::Cancelling,
                        (Phase::Live, _) if !entry.begun => Doing::Queued,
                        (Phase::Live, _) if entry.steps == 0 => Doing::Starting,
                        (Phase::Live, WaitState::Not | WaitState::Owes) => Doing::Running,
                        (Phase::Live, WaitState::Blocked) => Doing::Blocked,
                        (Phase::Live, WaitState::Idle) => Doing::Idle,
                    },
                    steps: entry.steps,
                    fuel: entry.fuel,
                    mail: entry.mail,
                    outstanding: entry.outstanding.len(),
                })
                .collect()
        };
        self.with(|_, inner| processes(inner)).unwrap_or_default()
    }

    /// Returns a stream of what happens in the run from now on, with at most `capacity` events
    /// waiting. The existing processes come first.
    #[must_use]
    pub fn observe(&self, capacity: usize) -> Events {
        self.watch(capacity).0
    }

    /// As [`Self::observe`], and the number of records by then: the stream does not repeat these.
    #[must_use]
    pub fn watch(&self, capacity: usize) -> (Events, u64) {
        let (events, shared) = Events::new(capacity);
        // Nothing can wait for these events yet.
        let mut wakers = Wakers::default();
        let watching = Arc::clone(&shared);
        let records = self.with(|_, inner| {
            inner.report_processes(&watching, &mut wakers);
            inner.watch(watching, &mut wakers);
            inner.state.counts.records
        });
        if records.is_none() {
            shared.close(&mut wakers);
        }
        wakers.wake();
        (events, records.unwrap_or_default())
    }

    /// Returns all records of the run, if its log has all at hand.
    #[must_use]
    pub fn records(&self) -> Option<Vec<Record>> {
        let (read, source) = self.with(|run, inner| (inner.reading(), run.config.effects.recalls(&run.config.id)))?;
        let records = Record::decode_run(read()?).ok()?;
        Record::recall_from(&records, source);
        Some(records)
    }

    /// Reports that no further record of the run will be durable: nothing leaves the host for it
    /// from now on, and callers that wait for its outcome receive this problem. On disk it stays as
    /// it is.
    pub fn abandon(&self, problem: &Problem) {
        self.0.kernel.abandon_run(&self.0.id, problem);
    }

    /// Notifies the run that its records up to this number, counted from 1, are durable: what
    /// waited for them leaves.
    pub fn durable(&self, record: u64) {
        if let Some(run) = self.run() {
            run.kernel.with_port(|port| run.durable(port, record));
        }
    }
}
