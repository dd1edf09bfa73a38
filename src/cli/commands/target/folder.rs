//! The runs of a data folder.

use super::{
    Acted, Cancel, CancelOutcome, Cancelled, ListWanted, Listed, Row, RunBlobs, RunView, State, TakeLine, Target,
    folder_inbox, folder_log, folder_remove,
};
use crate::cli::args::data::DataArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::commands::acts::{RequestOutcome, ask, was_performed};
use crate::cli::commands::listing::queue_place;
use crate::cli::commands::target::server_view::may_wait_for;
use crate::cli::exit::Exit;
use crate::cli::output_dir;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::{FULL, FULL_HINT, recovery_error};
use crate::cli::report::pending_acts::PendingAct;
use crate::cli::report::unresponsive::from_records;
use crate::cli::store::{LiveStatus, Ownership, OwnershipCache, Runs, live_status};
use crate::cli::terminal::{Terminal, say};
use crate::guest::EngineOptions;
use crate::host::control::{Answer, Client, ControlError, Refusal, Request, RunState};
use crate::host::{Host, RunProjection};
use crate::journal::catalog::{InboxFilter, WaitingRun};
use crate::journal::{Filter, Stored};
use crate::run::{BlobBounds, EndStatus, Record, SignalStatus};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The runs of this folder.
pub(in crate::cli) struct Folder(pub(in crate::cli) DataArguments);

impl Target for Folder {
    fn name(&self) -> String {
        self.0.folder().unwrap_or_default().display().to_string()
    }

    fn list(&self, wanted: &ListWanted<'_>) -> Result<Listed, CommandError> {
        match self.0.open()? {
            Some(runs) => rows(&runs, wanted),
            None => Ok(Listed { rows: Vec::new(), count: 0 }),
        }
    }

    fn view(&self, given: &str, terminal: Terminal) -> Result<RunView, CommandError> {
        let (runs, mut stored) = self.0.find(given)?;
        let ownership = runs.ownership(&stored)?;
        let pending = if ownership == Ownership::Orphaned { runs.store.inbox_of(&stored.id)? } else { Vec::new() };
        let pending = pending.iter().map(PendingAct::from).collect();
        let answer = live_status(&runs, &stored, &ownership)?;
        let silent = match answer {
            LiveStatus::Silent(process) => Some(process),
            _ => None,
        };
        let live = answer.status();
        let (projection, damage) = match runs.readable_projection(&stored.id)? {
            Ok(projection) => (projection, None),
            Err(why) => (RunProjection::default(), Some(why)),
        };
        let about = runs.try_manifest(&stored.id)?;
        // What the records say is shown although the run cannot be recovered.
        let is_readable = damage.is_none();
        let damage = damage.or_else(|| about.as_ref().err().cloned());
        if let Some(why) = damage.as_ref().filter(|_| !matches!(ownership, Ownership::Owned(_))) {
            // Lists show the damage too, if it can be written.
            let _ = runs.store.note_damage(&stored.id, why);
            stored.damage = Some(why.as_str().into());
        }
        if let Some(process) = silent {
            let (title, hint) = from_records(process);
            say(&terminal.warning_text(&title, Some(&hint)));
        }
        if live.as_ref().is_some_and(|live| live.facts.stalled) {
            say(&terminal.warning_text(FULL, Some(FULL_HINT)));
        }
        let resume = runs.resume_command(&stored.id);
        let manifest = about.ok();
        let file = manifest.as_ref().map_or_else(|| "unknown".to_owned(), |manifest| manifest.file.clone());
        let has_failed = matches!(stored.status, Some(EndStatus::Failed | EndStatus::TimedOut));
        let scripts = manifest.filter(|_| has_failed).map(|manifest| (manifest, Arc::clone(&runs.store)));
        let silent = silent.is_some();
        let queue = queue_place(&runs, &stored)?;
        Ok(RunView {
            file,
            queue,
            resume,
            stored,
            ownership,
            projection,
            live,
            silent,
            pending,
            damage,
            is_readable,
            scripts,
        })
    }

    fn act(&self, given: &str, request: &dyn Fn(&str) -> Request) -> Result<Acted, CommandError> {
        let (runs, stored) = self.0.find(given)?;
        let run = stored.id.to_string();
        let is_done = was_performed(ask(&runs, stored, request)?)?;
        Ok(Acted { run, is_done })
    }

    fn cancel(&self, given: &str, cancel: &Cancel<'_>) -> Result<Cancelled, CommandError> {
        let request = |run: &str| Request::Cancel {
            run: run.to_owned(),
            reason: cancel.reason.to_owned(),
            now: cancel.now,
            id: Some(cancel.id.to_owned()),
        };
        let (runs, stored) = self.0.find(given)?;
        let run = stored.id.to_string();
        let is_asked = was_performed(ask(&runs, stored, &request)?)?;
        if is_asked && !cancel.now {
            return Ok(Cancelled { run, outcome: CancelOutcome::Asked, has_end_steps: false });
        }
        // The host opens its own store.
        let folder = runs.folder.clone();
        drop(runs);
        // Of a text that this release does not understand nothing could be run.
        let has_end_steps = |host: &Host| host.plan_of(&run).is_ok_and(|plan| plan.ends_by_steps());
        if is_asked {
            let has_end_steps = idle_host(folder).is_ok_and(|host| has_end_steps(&host));
            return Ok(Cancelled { run, outcome: CancelOutcome::Asked, has_end_steps });
        }
        let host = idle_host(folder)?;
        let has_end_steps = has_end_steps(&host);
        if has_end_steps && !cancel.now {
            return Ok(Cancelled { run, outcome: CancelOutcome::Stored(None), has_end_steps });
        }
        let ended = end(host, &run, cancel.reason);
        let (runs, stored) = self.0.find(&run)?;
        let outcome = match (ended, stored.status) {
            (_, Some(status)) => CancelOutcome::Ended(status, runs.projection(&run)?.given_up().len()),
            (Err(why), None) if runs.ownership(&stored)? == Ownership::Orphaned => CancelOutcome::Stored(Some(why)),
            // Another host has recovered it and carries the request out.
            (_, None) => CancelOutcome::Asked,
        };
        Ok(Cancelled { run, outcome, has_end_steps })
    }

    fn unclaimed(&self, given: &str, name: &str) -> Result<Option<Vec<String>>, CommandError> {
        let (runs, stored) = self.0.find(given)?;
        let about = runs.manifest(&stored.id)?;
        if may_wait_for(&about.file, &about.source, name) {
            return Ok(None);
        }
        let waited = |signals: &[SignalStatus]| {
            signals.iter().filter(|one| one.waiting > 0).map(|one| one.name.to_string()).collect::<Vec<_>>()
        };
        let ownership = runs.ownership(&stored)?;
        Ok(match live_status(&runs, &stored, &ownership)?.status() {
            Some(live) => {
                let is_kept = live.signals.iter().any(|one| *one.name == *name && one.kept > 0);
                is_kept.then(|| waited(&live.signals))
            }
            None if ownership == Ownership::Orphaned => {
                let projection = runs.projection(&stored.id)?;
                let state = projection.state();
                (!state.takes_signal(name)).then(|| waited(&state.signals()))
            }
            // It has ended, or its host does not answer.
            None => None,
        })
    }

    fn records(&self, given: &str) -> Result<(Stored, Vec<Record>), CommandError> {
        let (runs, stored) = self.0.find(given)?;
        let records = runs.records_of(&stored.id)?;
        Ok((stored, records))
    }

    fn remove(&self, given: &[String], unfinished: bool) -> Result<Vec<Arc<str>>, CommandError> {
        match (self.0.open()?, given.first()) {
            (Some(runs), _) => folder_remove::remove(&runs, given, unfinished),
            // This reports that the run does not exist.
            (None, Some(given)) => Ok(self.0.find(given).map(|_| Vec::new())?),
            (None, None) => Ok(Vec::new()),
        }
    }

    fn log(&self, given: &str, follow: bool, terminal: Terminal, take: TakeLine<'_>) -> Result<Exit, CommandError> {
        let (runs, stored) = self.0.find(given)?;
        folder_log::show((&runs, &stored), follow, terminal, take)
    }

    fn waiting(&self, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError> {
        self.0.open()?.map_or_else(|| Ok(Vec::new()), |runs| folder_inbox::waiting(&runs, filter))
    }

    fn blobs(&self, given: &str) -> Result<RunBlobs, CommandError> {
        let (runs, stored) = self.0.find(given)?;
        let held = stored_blobs(&runs, &stored.id)?.all();
        let held = held.map_err(|error| UserError::new(kind::UNREADABLE, error.to_string()))?;
        Ok(RunBlobs::new(&stored.id, held, &runs.records_of(&stored.id)?))
    }

    fn copy_blob(&self, run: &str, digest: &str, to: &mut dyn std::io::Write) -> Result<(), String> {
        let (runs, stored) = self.0.find(run).map_err(|error| error.title)?;
        output_dir::copy(&stored_blobs(&runs, &stored.id).map_err(|error| error.title)?, digest, to)
    }

    fn query(&self, given: &str, name: Option<&str>, terminal: Terminal) -> Result<Answer, CommandError> {
        let (runs, stored) = self.0.find(given)?;
        let Ownership::Owned(_) = runs.ownership(&stored)? else { return written(&runs, &stored, name) };
        let request = |run: &str| Request::Query { run: run.to_owned(), name: name.map(str::to_owned) };
        match ask(&runs, stored.clone(), &request)? {
            RequestOutcome::Answered(answer) => Ok(answer),
            // Its host has ended in the meantime.
            RequestOutcome::Posted => written(&runs, &stored, name),
            RequestOutcome::Silent(process) => {
                let (title, hint) = from_records(process);
                say(&terminal.warning_text(&title, Some(&hint)));
                written(&runs, &stored, name)
            }
        }
    }
}

/// A host that runs nothing.
fn idle_host(folder: PathBuf) -> Result<Host, UserError> {
    let host = Host::builder().guests(EngineOptions { slots: Some(NO_SLOTS), ..Default::default() });
    Ok(host.data(folder).workers(1).build()?)
}

/// Ends a run that is not running, and waits until that is durable. Nothing of it is loaded or
/// executed.
fn end(host: Host, id: &str, reason: &str) -> Result<(), UserError> {
    let ended = host.end(id, reason).map(|run| drop(run.wait()));
    host.settle_folder();
    ended.map_err(|error| recovery_error(id, error))
}

/// The blobs of a run in the folder.
fn stored_blobs(runs: &Runs, id: &Arc<str>) -> Result<crate::run::RunBlobs, UserError> {
    let store = runs.store.blobs().ok_or_else(|| UserError::new(kind::UNREADABLE, "the journal stores no blobs"))?;
    Ok(crate::run::RunBlobs::new(store, Arc::clone(id), BlobBounds::default()))
}

/// The answer according to the records.
fn written(runs: &Runs, stored: &Stored, name: Option<&str>) -> Result<Answer, CommandError> {
    let projection = runs.projection(&stored.id)?;
    let names = || projection.state().exposed().map(|(name, _)| Arc::clone(name)).collect();
    let Some(name) = name else { return Ok(Answer::Names(names())) };
    match projection.state().exposed().find(|(known, _)| ***known == *name) {
        Some((_, value)) => Ok(Answer::Value(value.clone())),
        None => {
            let refusal = Refusal::NotExposed { name: name.to_owned(), names: names() };
            Err(ControlError::Refused(refusal).into())
        }
    }
}

/// How long a host may take to report the states of its runs. Arbitrary: a list is not worth more;
/// without an answer they are running.
const STATES_WITHIN: Duration = Duration::from_secs(1);

/// The states of the runs of live hosts, by id.
fn states(owners: &OwnershipCache) -> BTreeMap<Arc<str>, &'static str> {
    let ask = |host: Client| match host.ask_within(STATES_WITHIN, Request::Runs) {
        Ok(Answer::Runs(facts)) => facts,
        _ => Vec::new(),
    };
    let hosts = owners.0.values().flatten().filter_map(|owner| Client::recorded(owner.socket.as_deref()?));
    std::thread::scope(|scope| {
        let asked: Vec<_> = hosts.map(|host| scope.spawn(move || ask(host))).collect();
        let facts = asked.into_iter().filter_map(|asked| asked.join().ok()).flatten();
        facts.map(|facts| (Arc::clone(&facts.run), facts.state_name())).collect()
    })
}

/// Checks that the workflow and inputs of a suspended run can still be read, and notes the damage
/// in the journal if not. They are small and have a digest; the records are left to `status` and
/// `doctor`.
fn examine(runs: &Runs, stored: &mut Stored, ownership: &Ownership) {
    // It may have been removed in the meantime.
    if *ownership == Ownership::Orphaned
        && stored.damage.is_none()
        && let Ok(Err(why)) = runs.try_manifest(&stored.id)
    {
        // If the note cannot be written, the damage is found again next time.
        let _ = runs.store.note_damage(&stored.id, &why);
        stored.damage = Some(why.into());
    }
}

/// The requested runs, and how many there would be without the limit.
fn rows(runs: &Runs, wanted: &ListWanted<'_>) -> Result<Listed, CommandError> {
    let mut filter = Filter { name: wanted.name.map(str::to_owned), ..Filter::default() };
    filter.created_min = wanted.since;
    match wanted.status {
        None => {}
        Some(State::Running | State::Waiting | State::Paused | State::Suspended) => filter.ended = Some(false),
        Some(State::Queued) => (filter.ended, filter.queued) = (Some(false), true),
        Some(State::Damaged) => filter.damaged = true,
        Some(State::Succeeded) => filter.status = Some(EndStatus::Succeeded),
        Some(State::Failed) => filter.status = Some(EndStatus::Failed),
        Some(State::Cancelled) => filter.status = Some(EndStatus::Cancelled),
        Some(State::TimedOut) => filter.status = Some(EndStatus::TimedOut),
    }
    // The store does not know whether an unfinished run has a live host.
    let is_wanted = |stored: &Stored, ownership: &Ownership| match wanted.status {
        Some(State::Running | State::Waiting | State::Paused) => matches!(ownership, Ownership::Owned(_)),
        Some(State::Queued) => stored.queued,
        Some(State::Suspended) => *ownership == Ownership::Orphaned && stored.damage.is_none(),
        Some(State::Damaged) => !matches!(ownership, Ownership::Owned(_)),
        _ => true,
    };
    let is_exact = filter.ended.is_none() && !filter.damaged;
    filter.limit = wanted.limit.filter(|_| is_exact);
    let mut owners = OwnershipCache::default();
    if matches!(wanted.status, Some(State::Damaged)) {
        for mut stored in runs.store.list(&Filter { ended: Some(false), damaged: false, ..filter.clone() })? {
            let ownership = owners.ownership(runs, &stored)?;
            examine(runs, &mut stored, &ownership);
        }
    }
    let mut rows = Vec::new();
    for mut stored in runs.store.list(&filter)? {
        let ownership = owners.ownership(runs, &stored)?;
        examine(runs, &mut stored, &ownership);
        if is_wanted(&stored, &ownership) {
            let queue = queue_place(runs, &stored)?;
            rows.push(Row { stored, ownership, state: None, queue });
        }
    }
    let states = states(&owners);
    for row in rows.iter_mut().filter(|row| matches!(row.ownership, Ownership::Owned(_))) {
        // A host that took a parked run over from another one leaves it in the journal.
        let parked = row.stored.parked.then(|| RunState::Waiting.name());
        row.state = states.get(&row.stored.id).copied().or(parked);
    }
    let state = match wanted.status {
        Some(State::Waiting) => Some(RunState::Waiting),
        Some(State::Paused) => Some(RunState::Paused),
        _ => None,
    };
    if let Some(state) = state {
        rows.retain(|row| row.state == Some(state.name()));
    }
    let count = if is_exact { runs.store.count(&Filter { limit: None, ..filter })? } else { rows.len() as u64 };
    if let Some(limit) = wanted.limit {
        rows.truncate(limit as usize);
    }
    Ok(Listed { rows, count })
}
