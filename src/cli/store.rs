//! The folder of durable runs, and the runs in it.

use crate::cli::args::data::DataArguments;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::{ALLOW_ADDRESS, PLAIN_SECRETS};
use crate::cli::report::journal::{ANOTHER_FOLDER, RECREATED_HINT, TORN_HINT, gone, recovery_error, recreated, torn};
use crate::cli::report::unresponsive::waiting_for;
use crate::cli::terminal::{quoted, say};
use crate::host::control::{Answer, Client, ControlError, Refusal, Request, RunStatus};
use crate::host::{Host, Outcome, RecoverError, RunManifest, RunProjection, Status};
use crate::journal::catalog::Catalog;
use crate::journal::{self, Address, DurabilityListener, Filter, Owner, StoreError, Stored, layout};
use crate::run::{DamagedRecord, Record, Uncertain};
use crate::workflow::diagnostics::closest;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs whose ids are compared with an unknown one. Arbitrary: a user means a recent one.
const CANDIDATES_MAX: u32 = 1_000;

/// Ids listed if a prefix matches several.
const LISTED_MAX: usize = 5;

/// How often the records on disk are checked while a host may have more.
pub(in crate::cli) const POLL_EVERY: Duration = Duration::from_millis(20);

/// Upper bound of these checks. Arbitrary: ten seconds, far more than a disk takes.
pub(in crate::cli) const POLLS_MAX: u32 = 500;

impl DataArguments {
    /// The runs of the folder. `None` if nothing was ever run in it.
    pub(in crate::cli) fn open(&self) -> Result<Option<Runs>, UserError> {
        let folder = self.required()?;
        match std::fs::metadata(folder.join(layout::JOURNAL)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if journal::is_lost(&folder)? {
                    say(&format!("warning: {}\nhint: {RECREATED_HINT}", gone(&folder.join(layout::JOURNAL))));
                }
                return Ok(None);
            }
            Err(error) => {
                let title = format!("{}: {error}", folder.join(layout::JOURNAL).display());
                return Err(UserError::new(kind::JOURNAL, title).hint(ANOTHER_FOLDER));
            }
        }
        let store = journal::open(&(&folder).into(), Arc::new(NoListener))?;
        Ok(Some(Runs { folder, store }))
    }

    /// A run of the folder, by its id or a unique prefix.
    pub(in crate::cli) fn find(&self, given: &str) -> Result<(Runs, Stored), UserError> {
        let Some(runs) = self.open()? else {
            let title = format!("there is no run `{}`: {} has no runs", quoted(given), self.required()?.display());
            return Err(UserError::new(kind::UNKNOWN_RUN, title).hint(ANOTHER_FOLDER));
        };
        let run = runs.find(given)?;
        Ok((runs, run))
    }
}

/// A reader writes nothing that could become durable.
struct NoListener;

impl DurabilityListener for NoListener {
    fn durable(&self, _: &str, _: u64) {}

    fn torn(&self, kept: &Path) {
        say(&format!("warning: {}\nhint: {TORN_HINT}", torn(kept)));
    }

    fn recreated(&self, path: &Path) {
        say(&format!("warning: {}\nhint: {RECREATED_HINT}", recreated(path)));
    }

    fn failed(&self, _: &StoreError) {}
}

/// The runs of a folder.
pub(in crate::cli) struct Runs {
    pub(in crate::cli) folder: PathBuf,
    pub(in crate::cli) store: Arc<dyn Catalog>,
}

/// The process of this machine whose host owns a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct OwnerProcess {
    /// The id of the process.
    pub(in crate::cli) pid: u32,
    /// The socket of the host, if it has one.
    pub(in crate::cli) socket: Option<PathBuf>,
}

impl OwnerProcess {
    fn of(run: &str, owner: Owner) -> Result<Self, UserError> {
        let Some(pid) = owner.pid else {
            let at = owner.address.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string());
            let title = format!("the host of the run {run} is on another machine, at {at}");
            return Err(UserError::new(kind::JOURNAL, title).hint("ask that one with --server"));
        };
        let socket = owner.address.as_ref().and_then(Address::socket).map(Path::to_owned);
        Ok(Self { pid, socket })
    }
}

/// The ownership of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Ownership {
    /// It has ended.
    Ended,
    /// A live host owns it.
    Owned(OwnerProcess),
    /// No live host owns it: it can be recovered.
    Orphaned,
}

impl Runs {
    /// A run, by its id or a unique prefix.
    pub(in crate::cli) fn find(&self, given: &str) -> Result<Stored, UserError> {
        if let Some(run) = self.store.run(given)? {
            return Ok(run);
        }
        let mut ids = if given.is_empty() { Vec::new() } else { self.store.ids(given, LISTED_MAX as u32 + 1)? };
        if ids.len() == 1 {
            let id = ids.remove(0);
            return self.store.run(&id)?.ok_or_else(|| StoreError::Unknown(id).into());
        }
        if ids.len() > 1 {
            let more = if ids.len() > LISTED_MAX { ", and more" } else { "" };
            let listed = ids.iter().take(LISTED_MAX).map(|id| &**id).collect::<Vec<_>>().join(", ");
            let refused = UserError::new(kind::UNKNOWN_RUN, format!("several runs begin with `{}`", quoted(given)));
            return Err(refused.hint(format!("they are {listed}{more}")));
        }
        let recent = self.store.list(&Filter { limit: Some(CANDIDATES_MAX), ..Filter::default() })?;
        let hint = match closest(given, recent.iter().map(|run| &*run.id)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("`wfhost ls` lists the runs of {}; {ANOTHER_FOLDER}", self.folder.display()),
        };
        Err(UserError::new(kind::UNKNOWN_RUN, format!("there is no run `{}`", quoted(given))).hint(hint))
    }

    /// The current ownership of a run.
    pub(in crate::cli) fn ownership(&self, run: &Stored) -> Result<Ownership, UserError> {
        if run.status.is_some() {
            return Ok(Ownership::Ended);
        }
        if run.owner.is_none() {
            return Ok(Ownership::Orphaned);
        }
        Ok(match self.store.owner_of(&run.id)? {
            Some(owner) if owner.alive => Ownership::Owned(OwnerProcess::of(&run.id, owner)?),
            _ => Ownership::Orphaned,
        })
    }

    /// The answer of the owner's host that has the run. `None` if no host has it any more.
    pub(in crate::cli) fn ask<T>(
        &self,
        owner: &OwnerProcess,
        ask: impl Fn(&Client) -> Result<T, ControlError>,
    ) -> Result<Option<T>, ControlError> {
        // The store has the host's socket, whose path depends on the host's environment. A process
        // may have several hosts.
        let hosts = match owner.socket.as_deref().and_then(Client::recorded) {
            Some(host) => vec![host],
            None => Client::hosts_in(&self.folder, owner.pid)?,
        };
        waiting_for(Some(owner.pid), hosts.clone(), || {
            for host in &hosts {
                match ask(host) {
                    Ok(answer) => return Ok(Some(answer)),
                    Err(ControlError::Gone | ControlError::Refused(Refusal::UnknownRun { .. } | Refusal::Ended)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        })
    }

    /// The records of a run, as far as they are on disk.
    pub(in crate::cli) fn records_of(&self, id: &str) -> Result<Vec<Record>, UserError> {
        let damaged = |why: String| StoreError::Damaged { run: id.into(), why };
        self.try_records(id)?.map_err(|why| damaged(why).into())
    }

    /// The same, or what is wrong with them.
    fn try_records(&self, id: &str) -> Result<Result<Vec<Record>, String>, UserError> {
        let mut records = Vec::new();
        Ok(self.each_record(id, |record| records.push(record))?.map(|()| records))
    }

    /// Reads the records of a run one by one; the inner error is what is wrong with them.
    pub(in crate::cli) fn each_record(
        &self,
        id: &str,
        mut read: impl FnMut(Record),
    ) -> Result<Result<(), String>, UserError> {
        let records = match self.store.records(id) {
            Err(StoreError::Damaged { why, .. }) => return Ok(Err(why)),
            records => records.map_err(|error| recovery_error(id, error.into()))?,
        };
        let damaged = |DamagedRecord { number, why }| format!("record {number}: {why}");
        Ok(Record::decode_each(records).try_for_each(|record| record.map(&mut read)).map_err(damaged))
    }

    /// A run as its records give it.
    pub(in crate::cli) fn projection(&self, id: &str) -> Result<RunProjection, UserError> {
        let damaged = |why: String| StoreError::Damaged { run: id.into(), why };
        self.readable_projection(id)?.map_err(|why| damaged(why).into())
    }

    /// The same, or what is wrong with the records.
    pub(in crate::cli) fn readable_projection(&self, id: &str) -> Result<Result<RunProjection, String>, UserError> {
        let mut projection = RunProjection::default();
        Ok(self.each_record(id, |record| projection.apply(&record, &mut |_| {}))?.map(|()| projection))
    }

    /// The calls that were in flight when a run ended without success: each may have taken effect.
    /// Empty if the records cannot be read.
    pub(in crate::cli) fn given_up(&self, outcome: &Outcome) -> Vec<Uncertain> {
        let is_reported = match outcome.status {
            Status::Failed | Status::Cancelled | Status::TimedOut => outcome.counts.calls > 0,
            Status::Succeeded | Status::Suspended => false,
        };
        let projection = is_reported.then(|| self.projection(&outcome.run).ok()).flatten();
        // A run that only this host has lost continues elsewhere.
        let ended = projection.filter(RunProjection::has_ended);
        ended.map_or_else(Vec::new, |projection| projection.given_up().to_vec())
    }

    /// The manifest of a run: what it was started with.
    pub(in crate::cli) fn manifest(&self, id: &str) -> Result<RunManifest, UserError> {
        self.try_manifest(id)?.map_err(|why| StoreError::Damaged { run: id.into(), why }.into())
    }

    /// The same, or what is wrong with it.
    pub(in crate::cli) fn try_manifest(&self, id: &str) -> Result<Result<RunManifest, String>, UserError> {
        let manifest = match self.store.manifest(id) {
            Err(StoreError::Damaged { why, .. }) => return Ok(Err(why)),
            manifest => manifest?.ok_or_else(|| StoreError::Unknown(id.into()))?,
        };
        Ok(RunManifest::read(&manifest).map_err(|why| RecoverError::Manifest(why).to_string()))
    }

    /// The records of a run, or the first `count`: waits while the host has written more than is on
    /// disk.
    pub(in crate::cli) fn records(&self, id: &str, count: Option<u64>) -> Result<Vec<Record>, CommandError> {
        let mut records = self.records_of(id)?;
        let Some(count) = count else { return Ok(records) };
        for _ in 0..POLLS_MAX {
            if records.len() as u64 >= count {
                break;
            }
            std::thread::sleep(POLL_EVERY);
            records = self.records_of(id)?;
        }
        records.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(records)
    }

    /// The command that resumes a run, with what it was permitted when it was started.
    pub(in crate::cli) fn resume_command(&self, id: &str) -> String {
        let mut command = format!("wfhost resume {id}");
        if let Ok(Ok(manifest)) = self.try_manifest(id) {
            if !manifest.addresses.is_empty() {
                let _ = write!(command, " {ALLOW_ADDRESS} {}", manifest.addresses.join(","));
            }
            if manifest.plain_secrets {
                let _ = write!(command, " {PLAIN_SECRETS}");
            }
        }
        command
    }
}

/// Ownership of runs, with each host checked once.
#[derive(Default)]
pub(in crate::cli) struct OwnershipCache(pub(in crate::cli) BTreeMap<u64, Option<OwnerProcess>>);

impl OwnershipCache {
    pub(in crate::cli) fn ownership(&mut self, runs: &Runs, stored: &Stored) -> Result<Ownership, CommandError> {
        let (None, Some(host)) = (stored.status, stored.owner) else { return Ok(runs.ownership(stored)?) };
        if let Some(known) = self.0.get(&host) {
            return Ok(known.clone().map_or(Ownership::Orphaned, Ownership::Owned));
        }
        let ownership = runs.ownership(stored)?;
        let owner = match &ownership {
            Ownership::Owned(owner) => Some(owner.clone()),
            _ => None,
        };
        self.0.insert(host, owner);
        Ok(ownership)
    }
}

/// The answer of the host that owns a run.
pub(in crate::cli) enum LiveStatus {
    /// This.
    Status(Box<RunStatus>),
    /// The host has ended, or no longer owns the run.
    Gone,
    /// The host is alive and does not answer: this process.
    Silent(u32),
}

impl LiveStatus {
    pub(in crate::cli) fn status(self) -> Option<RunStatus> {
        if let Self::Status(status) = self { Some(*status) } else { None }
    }
}

/// Asks the host that owns a run for its status.
pub(in crate::cli) fn live_status(
    runs: &Runs,
    stored: &Stored,
    ownership: &Ownership,
) -> Result<LiveStatus, CommandError> {
    let Ownership::Owned(owner) = ownership else { return Ok(LiveStatus::Gone) };
    match runs.ask(owner, |host| ask(host, &stored.id)) {
        Ok(Some(status)) => Ok(LiveStatus::Status(Box::new(status))),
        Ok(None) => Ok(LiveStatus::Gone),
        Err(ControlError::Silent { .. }) => Ok(LiveStatus::Silent(owner.pid)),
        Err(error) => Err(error.into()),
    }
}

fn ask(host: &Client, run: &str) -> Result<RunStatus, ControlError> {
    match host.ask(Request::Status { run: run.to_owned() })? {
        Answer::Status(status) => Ok(*status),
        _ => Err(ControlError::Malformed { path: host.path().to_owned(), why: "it is no status".to_owned() }),
    }
}

/// The runs of the host's folder.
pub(in crate::cli) fn runs_of(host: &Host) -> Result<Runs, CommandError> {
    match (host.data_folder(), host.journal()?) {
        (Some(folder), Some(journal)) => Ok(Runs { folder: folder.to_owned(), store: Arc::clone(journal.store()) }),
        _ => Err(anyhow::anyhow!("invariant: the host has a data folder").into()),
    }
}
