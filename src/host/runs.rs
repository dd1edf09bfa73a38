//! The runs of a host by their ids, and acting on a run wherever it is.

use super::control::{Client, ControlError, Refusal, Request, Resolve};
use super::durable_watch::{DurableChange, DurableRecords};
use super::{Host, RecoverError, RunHandle, RunManifest, RunOptions, Workflow};
use crate::journal::{Address, Journal, Posted, StoreError, Stored, Wanted, WantedWatch};
use crate::process::Micros;
use crate::run::{Act, ActId, ParkedRun, RebuildError, Record, RecoveryError, Refused, Resolution};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::broadcast;

/// How often the host of a run is looked for again: it may be ending or starting.
const TRIES_MAX: u32 = 100;

/// The pause between these attempts.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// In how many of its last records an act of a run that has ended is looked for. Arbitrary: some
/// milliseconds.
const RECORDS_SEEN_MAX: u64 = 10_000;

/// How long an act may take to be durable. A busy disk delays it.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(30);

/// Workflows that are held loaded for the runs that are taken over. Arbitrary.
const LOADED_MAX: usize = 64;

/// The outcome of an act that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acted {
    /// It is a durable record of the run.
    Recorded,
    /// No living host has the run: the act is stored durably, and takes effect when the run is
    /// recovered.
    Stored,
    /// It was stored before, under the same id.
    Duplicate,
}

/// Counts acts by their outcome.
#[derive(Default)]
pub(super) struct ActCounts {
    recorded: AtomicU64,
    stored: AtomicU64,
    duplicate: AtomicU64,
    refused: AtomicU64,
}

impl ActCounts {
    fn note(&self, acted: &Result<Acted, ActError>) {
        let count = match acted {
            Ok(Acted::Recorded) => &self.recorded,
            Ok(Acted::Stored) => &self.stored,
            Ok(Acted::Duplicate) => &self.duplicate,
            Err(_) => &self.refused,
        };
        count.fetch_add(1, Relaxed);
    }

    fn counts(&self) -> [(&'static str, u64); 4] {
        let counts = [
            ("recorded", &self.recorded),
            ("left", &self.stored),
            ("duplicate", &self.duplicate),
            ("refused", &self.refused),
        ];
        counts.map(|(outcome, count)| (outcome, count.load(Relaxed)))
    }
}

/// Why an act does not count.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// There is no run with this id.
    #[error("there is no run with the id {0:?}")]
    Unknown(String),
    /// The run does not take it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No uncertain call has this tag.
    #[error("no uncertain call has the tag")]
    NoSuchCall,
    /// It is not known whether it counts: it did not become durable in time, or its host ended.
    #[error("it is not known whether it counts: {why}")]
    Unsure {
        /// The cause.
        why: String,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] StoreError),
}

crate::base::report_debug::report_debug!(ActError);

/// What happened to a run that should be recovered.
#[non_exhaustive]
pub enum Resumed {
    /// This host owns it.
    Run(RunHandle),
    /// Another host was faster, or it has ended meanwhile.
    Elsewhere,
    /// It cannot be recovered.
    Failed(RecoverError),
}

impl Host {
    /// Returns the unfinished runs that this host has in memory, in the order of their ids.
    pub fn runs(&self) -> Vec<RunHandle> {
        self.shared.kernel.runs().into_iter().map(|run| RunHandle { run }).collect()
    }

    /// Returns an unfinished run of this host. A parked one stays parked until an operation needs
    /// it in memory.
    pub fn run_of(&self, id: &str) -> Option<RunHandle> {
        self.shared.kernel.run(id).map(|run| RunHandle { run })
    }

    /// Returns what is known of a run of this host that is parked, without recovering it.
    pub fn parked_run(&self, id: &str) -> Option<ParkedRun> {
        self.shared.kernel.parked_run(id)
    }

    /// Returns what a run of this host does at this moment. `None` if it is parked, or not here.
    pub fn status_of(&self, id: &str) -> Option<super::control::RunStatus> {
        let is_parked = self.parked_run(id).is_some();
        let run = (!is_parked).then(|| self.shared.kernel.run(id)).flatten()?;
        Some(super::control::status(&self.shared.kernel, &run))
    }

    /// Returns how many runs of this host are in memory, and how many are parked.
    pub fn run_counts(&self) -> (usize, usize) {
        (self.shared.kernel.runs().len(), self.shared.kernel.parked().len())
    }

    /// Does what may block (loading, acting, reading the journal, retrying) on a thread for that,
    /// and awaits it. What was begun is completed, also if the future is dropped.
    ///
    /// # Panics
    /// If the work does, or outside of a tokio runtime.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let host = self.clone();
        match tokio::task::spawn_blocking(move || work(&host)).await {
            Ok(done) => done,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Watches which records of a run are on disk. `None` if the host has no folder of durable
    /// runs.
    pub fn watch_durable(&self, id: &str) -> Option<DurableRecords> {
        Some(self.shared.data.as_ref()?.durable_watchers.watch(id))
    }

    /// How many records of a run that is [watched](Self::watch_durable) became durable since then;
    /// its end counts as one more.
    #[cfg(feature = "serve")]
    pub(crate) fn durable_records(&self, id: &str) -> Option<u64> {
        self.shared.data.as_ref()?.durable_watchers.last(id)
    }

    /// Watches which records of all runs are on disk. A reader that falls far behind misses some,
    /// and is told. `None` if the host has no folder of durable runs.
    pub fn watch_all(&self) -> Option<broadcast::Receiver<DurableChange>> {
        Some(self.shared.data.as_ref()?.durable_watchers.all())
    }

    /// Recovers every run of the folder that no living host has, the oldest first, and reports
    /// each. Paused runs stay paused. A run that cannot be recovered is noted as damaged if it is,
    /// and does not keep the others from being recovered.
    ///
    /// # Errors
    /// Fails if the host has no folder of durable runs, or the runs cannot be listed.
    pub fn resume_all(&self, report: &mut dyn FnMut(&Stored, Resumed)) -> Result<(), RecoverError> {
        let (_, journal) = self.opened()?;
        let mut workflows = LoadedWorkflows::default();
        for stored in journal.store().orphans()? {
            let resumed = self.resume_with(&stored.id, &mut workflows);
            report(&stored, resumed);
        }
        Ok(())
    }

    /// Takes over the runs that no living host of the folder has, until what it returns is dropped:
    /// drop it before the host is suspended. Those that were in memory when their host ended are
    /// recovered before this returns; those of hosts that end later, as soon as they do. A parked
    /// run is recovered when its first timer is due, or something comes for it: until then it costs
    /// no memory. `report` is told each run that was wanted; or why none can be found.
    ///
    /// # Errors
    /// Fails if the host has no folder of durable runs, or that cannot be read.
    pub fn take_over(
        &self,
        mut report: impl FnMut(Result<(&str, Resumed), RecoverError>) + Send + 'static,
    ) -> Result<TakeOver, RecoverError> {
        let (_, journal) = self.opened()?;
        let mut taken = TakeOver { watch: None, host: self.clone() };
        let shared = Arc::downgrade(&self.shared);
        self.shared.kernel.recover_by(Some(Arc::new(move |run| {
            if let Some(shared) = shared.upgrade() {
                Host { shared }.resume_if_free(run);
            }
        })));
        let host = self.clone();
        let mut workflows = LoadedWorkflows::default();
        taken.watch = Some(journal.store().watch_wanted(Box::new(move |wanted: Result<&[Wanted], StoreError>| {
            let wanted = match wanted {
                Ok(wanted) => wanted,
                Err(error) => {
                    report(Err(error.into()));
                    return false;
                }
            };
            let mut had_room = true;
            for run in wanted {
                let resumed = host.resume_with(&run.id, &mut workflows);
                had_room &= !matches!(resumed, Resumed::Failed(RecoverError::Run(RecoveryError::Refused)));
                report(Ok((&run.id, resumed)));
            }
            workflows.forget_some();
            had_room
        }))?);
        Ok(taken)
    }

    /// Recovers a run if this host may have it. Why it cannot is reported when it is due.
    fn resume_if_free(&self, id: &str) {
        let Ok((_, journal)) = self.opened() else { return };
        if journal.store().is_free(id).unwrap_or(false) {
            self.resume(id);
        }
    }

    /// Recovers a run that no living host has.
    pub fn resume(&self, id: &str) -> Resumed {
        self.resume_with(id, &mut LoadedWorkflows::default())
    }

    fn resume_with(&self, id: &str, workflows: &mut LoadedWorkflows) -> Resumed {
        let mut resume =
            || workflows.of(self, id).and_then(|workflow| self.recover(&workflow, id, RunOptions::default()));
        let resumed = match resume() {
            // It was upgraded after its workflow was read.
            Err(RecoverError::Run(RecoveryError::Records(
                RebuildError::OtherRoot { .. } | RebuildError::OtherProgram { .. },
            ))) => resume(),
            resumed => resumed,
        };
        match resumed {
            Ok(run) => Resumed::Run(run),
            Err(
                RecoverError::Journal(StoreError::Owned { .. } | StoreError::Ended(_) | StoreError::Unknown(_))
                | RecoverError::Run(RecoveryError::Ended(_)),
            ) => Resumed::Elsewhere,
            Err(error) => Resumed::Failed(error),
        }
    }

    /// Acts on a run wherever it is: in this host, in another one of its folder, or in none; then
    /// the act is stored for it. When this returns, it is durable. Acts of one run with the same id
    /// count once.
    ///
    /// It waits on this thread.
    ///
    /// # Errors
    /// Says why it does not count.
    pub fn act(&self, run: &str, act: &Act, id: Option<&str>) -> Result<Acted, ActError> {
        let acted = self.act_uncounted(run, act, id);
        if matches!(act, Act::Signal { .. }) {
            self.shared.signals.note(&acted);
        }
        acted
    }

    /// Returns how many signals came to runs through this host, by their outcome.
    pub fn signal_counts(&self) -> [(&'static str, u64); 4] {
        self.shared.signals.counts()
    }

    fn act_uncounted(&self, run: &str, act: &Act, id: Option<&str>) -> Result<Acted, ActError> {
        let fresh;
        let id = match id {
            Some(id) => id,
            None => {
                fresh = super::start::fresh_id();
                &fresh
            }
        };
        for _ in 0..TRIES_MAX {
            if let Some(here) = self.shared.kernel.find(run) {
                match here.act(act.clone(), Some(id)) {
                    Ok(acknowledged) => return durable(&acknowledged),
                    // It may have ended by this very act.
                    Err(Refused::Ended) if here.outcome().is_none() => return Err(gone(act)),
                    Err(Refused::Ended) => {}
                    Err(refused) => return Err(refused.into()),
                }
            }
            let Some(data) = &self.shared.data else { return Err(ActError::Unknown(run.to_owned())) };
            let store = data.journal()?.store();
            match store.post(run, &act.to_mail(id))? {
                Posted::Stored => return Ok(Acted::Stored),
                Posted::Duplicate => return Ok(Acted::Duplicate),
                Posted::Conflict => return Err(Refused::Conflict.into()),
                Posted::Full => return Err(Refused::Full.into()),
                Posted::Unknown if self.shared.kernel.run(run).is_none() => {
                    return Err(ActError::Unknown(run.to_owned()));
                }
                // Begun here, and not durable yet.
                Posted::Unknown => {}
                // Perhaps by this very act, whose answer was lost.
                Posted::Ended => return acted_before(&**store, run, &act.identity(id)),
                Posted::Owned(owner) => {
                    if let Some(acted) = ask_other(data.folder(), &owner, run, act, id)? {
                        return Ok(acted);
                    }
                }
            }
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
        Err(ActError::Unsure { why: "its host does not answer".to_owned() })
    }

    /// As [`Self::act`], without waiting on this thread.
    ///
    /// # Errors
    /// As [`Self::act`].
    pub async fn act_async(&self, run: &str, act: Act, id: Option<String>) -> Result<Acted, ActError> {
        let (host, run) = (self.clone(), run.to_owned());
        let acted = tokio::task::spawn_blocking(move || host.act(&run, &act, id.as_deref())).await;
        acted.unwrap_or_else(|error| Err(ActError::Unsure { why: error.to_string() }))
    }

    /// Sends a signal to a run wherever it is: see [`Self::act`].
    ///
    /// # Errors
    /// As [`Self::act`].
    pub fn signal(&self, run: &str, name: &str, body: &serde_json::Value, id: Option<&str>) -> Result<Acted, ActError> {
        self.act(run, &Act::Signal { name: name.into(), body: crate::process::Payload::json(body) }, id)
    }
}

/// Whether a run that has ended took an act before: its last records tell, as the run itself would.
fn acted_before(store: &dyn Journal, run: &str, act: &ActId) -> Result<Acted, ActError> {
    let records = store.run(run)?.map_or(0, |stored| stored.records);
    let from = records.saturating_sub(RECORDS_SEEN_MAX) + 1;
    let page = usize::try_from(RECORDS_SEEN_MAX).unwrap_or(usize::MAX);
    let seen = match store.records_from(run, from, page) {
        Ok(seen) => seen,
        // It cannot be told.
        Err(StoreError::Damaged { .. }) => return Err(Refused::Ended.into()),
        Err(error) => return Err(error.into()),
    };
    let ids = seen.into_iter().rev().filter_map(|record| match Record::decode(record) {
        Ok(Record::Arrived(arrived)) => arrived.act,
        _ => None,
    });
    match ids.into_iter().find(|known| known.id == act.id) {
        Some(known) if known.digest == act.digest => Ok(Acted::Duplicate),
        Some(_) => Err(Refused::Conflict.into()),
        None => Err(Refused::Ended.into()),
    }
}

/// The error for an act whose target in the run is gone.
fn gone(act: &Act) -> ActError {
    if matches!(act, Act::Resolve { .. }) { ActError::NoSuchCall } else { Refused::Ended.into() }
}

fn durable(acknowledged: &crate::run::Acknowledged) -> Result<Acted, ActError> {
    match acknowledged.wait_for(DURABLE_TIME_MAX) {
        Ok(Some(())) => Ok(Acted::Recorded),
        Ok(None) => Err(ActError::Unsure { why: "the disk is slow or full".to_owned() }),
        Err(error) => Err(ActError::Unsure { why: error.to_string() }),
    }
}

/// Asks the host of another process to act. `None` if it has the run no more.
fn ask_other(
    data: &std::path::Path,
    owner: &crate::journal::Owner,
    run: &str,
    act: &Act,
    id: &str,
) -> Result<Option<Acted>, ActError> {
    let unsure = |why: &dyn std::fmt::Display| ActError::Unsure { why: why.to_string() };
    let hosts = match (owner.address.as_ref().and_then(Address::socket).and_then(Client::recorded), owner.pid) {
        (Some(host), _) => vec![host],
        (None, Some(pid)) => Client::hosts_in(data, pid).map_err(|error| unsure(&error))?,
        (None, None) => return Err(unsure(&"its host is on another machine")),
    };
    for host in hosts {
        match host.ask(request(run, act, id)) {
            Ok(_) => return Ok(Some(Acted::Recorded)),
            Err(ControlError::Gone | ControlError::Refused(Refusal::UnknownRun { .. } | Refusal::Ended)) => {}
            Err(ControlError::Refused(Refusal::Full)) => return Err(Refused::Full.into()),
            Err(ControlError::Refused(Refusal::TooLarge)) => return Err(Refused::TooLarge.into()),
            Err(ControlError::Refused(Refusal::Conflict { .. })) => return Err(Refused::Conflict.into()),
            Err(ControlError::Refused(Refusal::NoSuchCall { .. })) => return Err(ActError::NoSuchCall),
            Err(error) => return Err(unsure(&error)),
        }
    }
    Ok(None)
}

/// The request that asks another host for an act.
fn request(run: &str, act: &Act, id: &str) -> Request {
    let (run, id) = (run.to_owned(), Some(id.to_owned()));
    match act.clone() {
        Act::Signal { name, body } => Request::Signal { run, name: name.to_string(), body, id },
        Act::Cancel { reason, grace } => {
            Request::Cancel { run, reason: reason.to_string(), now: grace == Some(Micros(0)), id }
        }
        Act::TimeOut { after } => Request::TimeOut { run, after },
        Act::Pause => Request::Pause { run, id },
        Act::Resume => Request::Unpause { run, id },
        Act::Resolve { pid, tag, resolution } => {
            let outcome = match resolution {
                Resolution::Answered(Ok(answer)) => Resolve::Completed(answer),
                Resolution::Answered(Err(_)) => Resolve::Failed,
                Resolution::Again => Resolve::Resend,
            };
            Request::Resolve { run, pid: Some(pid), tag, outcome, id }
        }
    }
}

/// A host takes over the runs of its folder that no living host has: see [`Host::take_over`].
#[must_use = "it takes over until it is dropped"]
pub struct TakeOver {
    watch: Option<Box<dyn WantedWatch>>,
    host: Host,
}

impl Drop for TakeOver {
    fn drop(&mut self) {
        self.host.shared.kernel.recover_by(None);
        self.watch = None;
    }
}

/// The workflows of runs, each loaded once.
#[derive(Default)]
struct LoadedWorkflows {
    /// By the file's name, its text and its components: what a run was started with besides its
    /// inputs.
    loaded: HashMap<(String, String, BTreeMap<String, String>), Workflow>,
}

impl LoadedWorkflows {
    /// Bounds what is held.
    fn forget_some(&mut self) {
        if self.loaded.len() > LOADED_MAX {
            self.loaded.clear();
        }
    }

    fn of(&mut self, host: &Host, id: &str) -> Result<Workflow, RecoverError> {
        let (_, journal) = host.opened()?;
        let RunManifest { file, source, components, .. } =
            journal.manifest(id).inspect_err(|error| journal.note_damage(id, error))?;
        let key = (file, source, components);
        if let Some(workflow) = self.loaded.get(&key) {
            return Ok(workflow.clone());
        }
        let workflow = host.workflow_of(id)?;
        self.loaded.insert(key, workflow.clone());
        Ok(workflow)
    }
}
