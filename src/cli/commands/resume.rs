//! `wfhost resume`.

use crate::base::processors;
use crate::cli::args::host::HostArguments;
use crate::cli::args::output::OutputArguments;
use crate::cli::args::target::TargetArguments;
use crate::cli::commands::acts;
use crate::cli::commands::launch::{note_queued, warn_of_uncertain};
use crate::cli::commands::target::Acted;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::hints::retry_hint;
use crate::cli::report::journal::recovery_error;
use crate::cli::report::outcome::Report;
use crate::cli::report::unresponsive::silent;
use crate::cli::report::warnings::Warnings;
use crate::cli::store::{LiveStatus, Ownership, OwnershipCache, Runs, live_status, runs_of};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::cli::watch::session::{EndedRun, Session};
use crate::cli::watch::signals::{Running, Stage};
use crate::host::control::Request;
use crate::host::{Host, RecoverError, RunHandle, RunOptions, Status, Workflow};
use crate::journal::{Filter, StoreError, Stored};
use crate::process::Payload;
use crate::run::{EndStatus, Watcher};
use clap::Args;
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost resume order-4711
  wfhost resume --all

A run whose process is gone continues in this process, from its records; completed work is not repeated. A call without \
an answer is repeated \
under its idempotency key if that is safe; otherwise it waits for `wfhost resolve`. \
A paused run is unpaused. Outputs and exit codes are the same as for `wfhost run`. With --all each run gets a line, \
and the command exits with the highest code; paused runs stay paused, and are listed.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(in crate::cli) run: Option<String>,
    /// Resume all suspended runs, except paused ones.
    #[arg(long, conflicts_with = "output_dir")]
    pub(in crate::cli) all: bool,
    /// Print one JSON object, as `wfhost run --json` does; with --all a list of them.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Print only outputs and problems: no progress, logs or warnings.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    #[command(flatten)]
    pub(in crate::cli) output: OutputArguments,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

pub(in crate::cli) fn resume(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    if command.target.address().is_some() {
        return on_server(command).or_else(|error| error.report(command.json, terminal));
    }
    let mut session = Session::new(command.json, command.quiet, None, terminal);
    session.invocation = command.host.invocation(session.invocation);
    let mut host = None;
    let done = match &command.run {
        Some(given) => one(command, given, &mut session, &mut host),
        None => all(command, &mut session, &mut host),
    };
    if let Some(host) = host {
        host.settle_folder();
        // The process ends.
        std::mem::forget(host);
    }
    done.or_else(|stop| session.report_error(stop))
}

/// Unpauses a run of a server: what is not paused there goes on by itself.
fn on_server(command: &Arguments) -> Result<Exit, CommandError> {
    if command.output.folder().is_some() {
        return Err(not_waited_for().into());
    }
    let Some(given) = command.run.as_deref().filter(|_| !command.host.chosen_addresses) else {
        let refused = UserError::new(kind::USAGE, "a server resumes its runs by itself, with its own addresses");
        return Err(refused.hint("`wfhost resume RUN --server URL` resumes a paused one").into());
    };
    let target = command.target.open()?;
    let request = |run: &str| Request::Unpause { run: run.to_owned(), id: None };
    let Acted { run, .. } = target.act(given, &request)?;
    say(&format!("{run} is resumed"));
    Ok(Exit::Success)
}

/// A host for the runs to recover.
fn host<'a>(command: &Arguments, session: &mut Session, slot: &'a mut Option<Host>) -> Result<&'a Host, CommandError> {
    let mut warnings = Warnings::new();
    let builder = command
        .host
        .host(processors())
        .on_storage(session.storage())
        .on_compile(session.compiling())
        .data(command.target.data.required()?);
    let host = slot.insert(builder.build().map_err(UserError::from)?);
    command.host.check(host, &mut warnings);
    command.host.check_cache(host, &mut warnings);
    HostArguments::check_data(host, &mut warnings);
    session.warn(warnings);
    Ok(host)
}

fn one(command: &Arguments, given: &str, session: &mut Session, slot: &mut Option<Host>) -> Result<Exit, CommandError> {
    let (runs, stored) = command.target.data.find(given)?;
    let id = stored.id.to_string();
    match runs.ownership(&stored)? {
        Ownership::Ended => {
            let report = acts::ended_error(&stored);
            return Err(match stored.status {
                Some(EndStatus::Succeeded) if command.output.folder().is_some() => {
                    report.hint(format!("to get its outputs: wfhost blob get {id} --output-dir DIR")).into()
                }
                Some(EndStatus::Succeeded) | None => report.into(),
                _ => report.hint(retry_hint(&id)).into(),
            });
        }
        Ownership::Owned(_) if command.output.folder().is_some() => return Err(not_waited_for().into()),
        Ownership::Owned(owner) => return unpause(&runs, stored, owner.pid, session),
        Ownership::Orphaned => {}
    }
    session.write_outputs_to(&command.output)?;
    command.host.check_permissions(&runs, &id, &session.invocation)?;
    // The host opens its own store.
    drop(runs);
    let host = host(command, session, slot)?;
    let workflow = host.workflow_of(&id).map_err(|error| recovery_error(&id, error))?;
    let (watch, watcher) = session.watcher_of(host, &id);
    let run =
        session.signals.guard(|| recover(host, &workflow, &id, watcher)).map_err(|error| recovery_error(&id, error))?;
    session.note(format!("run {id}"));
    note_queued(host, &run, session)?;
    warn_of_uncertain(&run, session);
    Ok(session.follow(host, &workflow, &run, watch))
}

/// The refusal of `--output-dir` where the run continues in another process.
fn not_waited_for() -> UserError {
    UserError::new(kind::USAGE, "the run continues in another process, and this command does not wait for its end")
        .hint("leave out --output-dir; once the run has ended: wfhost blob get RUN --output-dir DIR")
}

/// Unpauses a run of another host.
fn unpause(runs: &Runs, stored: Stored, process: u32, session: &Session) -> Result<Exit, CommandError> {
    let id = stored.id.to_string();
    let ownership = runs.ownership(&stored)?;
    // Ending this command ends nothing else.
    session.signals.guard(|| session.signals.enter(Stage::Attached { run: id.clone(), process }));
    let live = match live_status(runs, &stored, &ownership)? {
        LiveStatus::Silent(process) => {
            let (title, hint) = silent(&id, process);
            return Err(UserError::new(kind::HOST_FAULT, title).hint(hint).into());
        }
        answer => answer.status(),
    };
    if live.is_none_or(|live| live.facts.state != crate::host::control::RunState::Paused) {
        let refused =
            UserError::new(kind::WRONG_STATE, format!("the run {id} is already running, in process {process}"));
        return Err(refused.hint(format!("to see what it does: wfhost logs -f {id}")).into());
    }
    acts::ask(runs, stored, &|run| Request::Unpause { run: run.to_owned(), id: None })?;
    session.close();
    say(&format!("{id} is resumed, in process {process}"));
    Ok(Exit::Success)
}

/// Recovers a run, and unpauses it.
fn recover(host: &Host, workflow: &Workflow, id: &str, watcher: Option<Watcher>) -> Result<RunHandle, RecoverError> {
    let run = host.recover(workflow, id, RunOptions { watcher, ..RunOptions::default() })?;
    // It may have ended at once.
    let _ = run.inner().unpause();
    Ok(run)
}

/// Recovers all runs that are not running, except paused ones.
fn all(command: &Arguments, session: &mut Session, slot: &mut Option<Host>) -> Result<Exit, CommandError> {
    let waiting = match command.target.data.open()? {
        Some(runs) => waiting(&runs)?,
        None => Vec::new(),
    };
    if waiting.is_empty() {
        session.close();
        return nothing(session.json);
    }
    let host = host(command, session, slot)?;
    let mut taken = Vec::new();
    let mut refused = Vec::new();
    let mut workflows = Workflows { runs: runs_of(host)?, loaded: HashMap::new() };
    session.signals.guard(|| {
        for stored in waiting {
            let resume = session.invocation.for_run("resume", &stored.id);
            if let Err(why) = command.host.check_permissions(&workflows.runs, &stored.id, &resume) {
                refused.push((stored.id, why));
                continue;
            }
            let workflow = match workflows.of(host, &stored.id) {
                Ok(workflow) => workflow,
                Err(why) => {
                    refused.push((stored.id, why));
                    continue;
                }
            };
            let options = RunOptions { unless_paused: true, ..RunOptions::default() };
            match host.recover(&workflow, &stored.id, options) {
                Ok(run) => taken.push((run, workflow)),
                // Another host was quicker.
                Err(RecoverError::Journal(
                    StoreError::Owned { .. } | StoreError::Ended(_) | StoreError::Unknown(_),
                )) => {}
                Err(error) => {
                    let why = recovery_error(&stored.id, error);
                    refused.push((stored.id, why));
                }
            }
        }
    });
    session.note(if taken.len() == 1 { "1 run resumed".to_owned() } else { format!("{} runs resumed", taken.len()) });
    let runs = taken.iter().map(|(run, _)| run.clone()).collect();
    session.signals.enter(Stage::Running(Running { runs, host: Some(host.clone()) }));
    let runs = runs_of(host)?;
    let ended = taken.into_iter().map(|(run, workflow)| (EndedRun::of(run.wait(), &runs), workflow));
    let ended: Vec<(EndedRun, Workflow)> = ended.collect();
    let is_late = ended.iter().any(|(ended, _)| ended.outcome.status == Status::TimedOut);
    session.signals.enter(Stage::Ended { late: is_late });
    session.close();
    report(&ended, refused, session, host.guests().slots(), &runs)
}

/// The workflows of runs, each loaded once.
struct Workflows {
    runs: Runs,
    /// By the file's name, its text and its components: what a run was started with besides its
    /// inputs.
    loaded: HashMap<(String, String, BTreeMap<String, String>), Workflow>,
}

impl Workflows {
    fn of(&mut self, host: &Host, id: &str) -> Result<Workflow, UserError> {
        let about = self.runs.manifest(id)?;
        match self.loaded.entry((about.file, about.source, about.components)) {
            Entry::Occupied(loaded) => Ok(loaded.get().clone()),
            Entry::Vacant(slot) => Ok(slot.insert(host.workflow_of(id)?).clone()),
        }
    }
}

/// The runs that are suspended, the oldest first.
fn waiting(runs: &Runs) -> Result<Vec<Stored>, CommandError> {
    let mut owners = OwnershipCache::default();
    let mut waiting = Vec::new();
    for stored in runs.store.list(&Filter { ended: Some(false), ..Filter::default() })? {
        if owners.ownership(runs, &stored)? == Ownership::Orphaned {
            waiting.push(stored);
        }
    }
    waiting.reverse();
    Ok(waiting)
}

fn nothing(json: bool) -> Result<Exit, CommandError> {
    if json {
        print("[]")?;
    } else {
        say("no run is suspended");
    }
    Ok(Exit::Success)
}

/// Reports the outcomes of several runs.
fn report(
    ended: &[(EndedRun, Workflow)],
    refused: Vec<(std::sync::Arc<str>, UserError)>,
    session: &Session,
    slots: u32,
    runs: &Runs,
) -> Result<Exit, CommandError> {
    let invocation = &session.invocation;
    let reports = ended.iter().map(|(EndedRun { outcome, uncertain }, workflow)| Report {
        outcome,
        uncertain,
        workflow,
        invocation,
        slots,
    });
    let mut exit = reports.clone().map(|report| report.exit()).max_by_key(|exit| exit.code()).unwrap_or(Exit::Success);
    if exit == Exit::Success && refused.iter().any(|(_, refused)| !refused.is_suspended()) {
        exit = Exit::Failed;
    }
    if session.json {
        let mut list: Vec<Value> = reports.clone().map(|report| session.to_json(&report)).collect();
        list.extend(refused.iter().map(|(id, refused)| {
            let mut value = refused.to_json();
            value["run"] = Value::from(&**id);
            value
        }));
        print_json(&list)?;
        return Ok(exit);
    }
    let mut text = String::new();
    for (EndedRun { outcome, .. }, _) in ended {
        let name = runs.store.run(&outcome.run)?.map_or_else(String::new, |run| format!(" ({})", run.name));
        let status = serde_json::json!(outcome.status);
        let _ = write!(text, "{}{name} {}", outcome.run, status.as_str().unwrap_or_default());
        let _ = match &outcome.result {
            Ok(Payload::Json(json)) => writeln!(text, ": {}", json.as_str()),
            Ok(_) => writeln!(text),
            Err(_) if outcome.status == Status::Suspended => writeln!(text),
            Err(problem) => writeln!(text, ": {}", crate::cli::terminal::in_line(&problem.to_string())),
        };
    }
    print(&crate::cli::terminal::printable(&text))?;
    reports.for_each(|report| report.say_uncertain(session.terminal));
    for (id, refused) in refused {
        if refused.is_suspended() {
            say(&session
                .terminal
                .warning_text(&format!("{}, and stays paused", refused.title), refused.hint.as_deref()));
            continue;
        }
        session.terminal.error(&format!("{id} is not resumed: {}", refused.title), refused.hint.as_deref());
    }
    Ok(exit)
}
