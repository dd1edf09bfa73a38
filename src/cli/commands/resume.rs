//! `wfhost resume`.

use crate::base::processors;
use crate::cli::args::data::DataArguments;
use crate::cli::args::host::RunningArguments;
use crate::cli::commands::acts;
use crate::cli::commands::launch::warn_of_uncertain;
use crate::cli::exit::Exit;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::report::hints::to_retry;
use crate::cli::report::journal::refused_of;
use crate::cli::report::outcome::Over;
use crate::cli::report::unresponsive::silent;
use crate::cli::report::warnings::Warnings;
use crate::cli::store::{Heard, Owners, Runs, Whose, living, opened};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::cli::watch::session::{Ended, Talk};
use crate::cli::watch::signals::{Running, Stage};
use crate::host::control::Request;
use crate::host::{Host, RecoverError, RunHandle, RunOptions, Status, Workflow};
use crate::journal::{Filter, Journal as _, StoreError, Stored};
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
  wfhost resume 0198
  wfhost resume --all

RUN is a run's id, or a unique prefix of it. A run whose process is gone goes on here, from its records:
nothing that was done is done again. A call without an answer is repeated under its key if that is safe; otherwise it waits for \
`wfhost resolve`. \
A paused run is unpaused. Outputs and exit codes are those of `wfhost run`. With --all there is a line for each run, and the \
highest exit code counts; paused runs stay paused, and are listed.")]
pub(in crate::cli) struct Arguments {
    /// The run.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(in crate::cli) run: Option<String>,
    /// Resume all suspended runs, except paused ones.
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// Print one JSON object, as `wfhost run --json` does; with --all a list of them.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// No progress, no logs, no warnings: only outputs and problems.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}

pub(in crate::cli) fn resume(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut talk = Talk::new(command.json, command.quiet, None, terminal);
    talk.again = command.running.again(talk.again);
    let mut host = None;
    let done = match &command.run {
        Some(given) => one(command, given, &mut talk, &mut host),
        None => all(command, &mut talk, &mut host),
    };
    if let Some(host) = host {
        host.leave_folder();
        // The process ends.
        std::mem::forget(host);
    }
    done.or_else(|stop| talk.stop(stop))
}

/// A host for what is taken up.
fn host<'a>(command: &Arguments, talk: &mut Talk, place: &'a mut Option<Host>) -> Result<&'a Host, Stop> {
    let mut warnings = Warnings::new();
    let builder = command
        .running
        .host(processors())
        .on_storage(talk.storage())
        .on_compile(talk.compiling())
        .data(command.data.required()?);
    let host = place.insert(builder.build().map_err(Refused::from)?);
    command.running.check(host, &mut warnings);
    command.running.check_cache(host, &mut warnings);
    RunningArguments::check_data(host, &mut warnings);
    talk.warn(warnings);
    Ok(host)
}

fn one(command: &Arguments, given: &str, talk: &mut Talk, place: &mut Option<Host>) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(given)?;
    let id = stored.id.to_string();
    match runs.whose(&stored)? {
        Whose::Over => {
            let over = acts::over(&stored);
            return Err(match stored.status {
                Some(EndStatus::Succeeded) | None => over.into(),
                _ => over.hint(to_retry(&id)).into(),
            });
        }
        Whose::Living(owner) => return go_on(&runs, stored, owner.pid, talk),
        Whose::Nobody => {}
    }
    command.running.check_addresses(&runs, &id, &talk.again)?;
    // The host has its own.
    drop(runs);
    let host = host(command, talk, place)?;
    let workflow = host.workflow_of(&id).map_err(|error| refused_of(&id, error))?;
    let (watching, watcher) = talk.watcher_of(host, &id);
    let run = talk.signals.guard(|| take_up(host, &workflow, &id, watcher)).map_err(|error| refused_of(&id, error))?;
    talk.note(format!("run {id}"));
    warn_of_uncertain(&run, talk);
    Ok(talk.follow(host, &workflow, &run, watching))
}

/// Lets a paused run of a living host go on.
fn go_on(runs: &Runs, stored: Stored, process: u32, talk: &Talk) -> Result<Exit, Stop> {
    let id = stored.id.to_string();
    let whose = runs.whose(&stored)?;
    // Whoever ends this command meanwhile ends nothing else.
    talk.signals.guard(|| talk.signals.enter(Stage::Attached { run: id.clone(), process }));
    let live = match living(runs, &stored, &whose)? {
        Heard::Nothing(process) => {
            let (title, hint) = silent(&id, process);
            return Err(Refused::new(kind::HOST_FAULT, title).hint(hint).into());
        }
        heard => heard.status(),
    };
    if live.is_none_or(|live| live.facts.state != crate::host::control::RunState::Paused) {
        let refused = Refused::new(kind::WRONG_STATE, format!("the run {id} is already running, in process {process}"));
        return Err(refused.hint(format!("to see what it does: wfhost logs -f {id}")).into());
    }
    acts::ask(runs, stored, &|run| Request::Resume { run: run.id.to_string(), id: None })?;
    talk.close();
    say(&format!("{id} is resumed, in process {process}"));
    Ok(Exit::Success)
}

/// Takes up a run, and lets it go on where it was paused.
fn take_up(host: &Host, workflow: &Workflow, id: &str, watcher: Option<Watcher>) -> Result<RunHandle, RecoverError> {
    let run = host.recover(workflow, id, RunOptions { watcher, ..RunOptions::default() })?;
    // It may have ended at once.
    let _ = run.inner().resume();
    Ok(run)
}

/// Takes up all that nobody runs, but what somebody has paused.
fn all(command: &Arguments, talk: &mut Talk, place: &mut Option<Host>) -> Result<Exit, Stop> {
    let waiting = match command.data.open()? {
        Some(runs) => waiting(&runs)?,
        None => Vec::new(),
    };
    if waiting.is_empty() {
        talk.close();
        return nothing(talk.json);
    }
    let host = host(command, talk, place)?;
    let mut taken = Vec::new();
    let mut refused = Vec::new();
    let mut workflows = Workflows { runs: opened(host)?, loaded: HashMap::new() };
    talk.signals.guard(|| {
        for stored in waiting {
            let resume = talk.again.about("resume", &stored.id);
            if let Err(why) = command.running.check_addresses(&workflows.runs, &stored.id, &resume) {
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
                // Somebody else was quicker.
                Err(RecoverError::Journal(StoreError::Owned(_) | StoreError::Ended(_) | StoreError::Unknown(_))) => {}
                Err(error) => {
                    let why = refused_of(&stored.id, error);
                    refused.push((stored.id, why));
                }
            }
        }
    });
    talk.note(if taken.len() == 1 { "1 run resumed".to_owned() } else { format!("{} runs resumed", taken.len()) });
    let runs = taken.iter().map(|(run, _)| run.clone()).collect();
    talk.signals.enter(Stage::Running(Running { runs, host: Some(host.clone()) }));
    let runs = opened(host)?;
    let ended = taken.into_iter().map(|(run, workflow)| (Ended::of(run.wait(), &runs), workflow));
    let ended: Vec<(Ended, Workflow)> = ended.collect();
    let is_late = ended.iter().any(|(ended, _)| ended.outcome.status == Status::TimedOut);
    talk.signals.enter(Stage::Over { late: is_late });
    talk.close();
    tell(&ended, refused, talk, host.guests().slots(), &runs)
}

/// The workflows of runs, each loaded once.
struct Workflows {
    runs: Runs,
    /// By the file's name, its text, and its components: what a run was started with beside its inputs.
    loaded: HashMap<(String, String, BTreeMap<String, String>), Workflow>,
}

impl Workflows {
    fn of(&mut self, host: &Host, id: &str) -> Result<Workflow, Refused> {
        let about = self.runs.about(id)?;
        match self.loaded.entry((about.file, about.source, about.components)) {
            Entry::Occupied(loaded) => Ok(loaded.get().clone()),
            Entry::Vacant(place) => Ok(place.insert(host.workflow_of(id)?).clone()),
        }
    }
}

/// The unfinished runs that nobody runs, the oldest first.
fn waiting(runs: &Runs) -> Result<Vec<Stored>, Stop> {
    let mut owners = Owners::default();
    let mut waiting = Vec::new();
    for stored in runs.store.list(&Filter { ended: Some(false), ..Filter::default() })? {
        if owners.whose(runs, &stored)? == Whose::Nobody {
            waiting.push(stored);
        }
    }
    waiting.reverse();
    Ok(waiting)
}

fn nothing(json: bool) -> Result<Exit, Stop> {
    if json {
        print("[]")?;
    } else {
        say("no run is suspended");
    }
    Ok(Exit::Success)
}

/// Tells what became of several runs.
fn tell(
    ended: &[(Ended, Workflow)],
    refused: Vec<(std::sync::Arc<str>, Refused)>,
    talk: &Talk,
    slots: u32,
    runs: &Runs,
) -> Result<Exit, Stop> {
    let again = &talk.again;
    let overs = ended.iter().map(|(Ended { outcome, uncertain }, workflow)| Over {
        outcome,
        uncertain,
        workflow,
        again,
        slots,
    });
    let mut exit = overs.clone().map(|over| over.exit()).max_by_key(|exit| exit.code()).unwrap_or(Exit::Success);
    if exit == Exit::Success && refused.iter().any(|(_, refused)| !refused.is_left()) {
        exit = Exit::Failed;
    }
    if talk.json {
        let mut list: Vec<Value> = overs.clone().map(|over| talk.to_json(&over)).collect();
        list.extend(refused.iter().map(|(id, refused)| {
            let mut value = refused.to_json();
            value["run"] = Value::from(&**id);
            value
        }));
        print_json(&list)?;
        return Ok(exit);
    }
    let mut text = String::new();
    for (Ended { outcome, .. }, _) in ended {
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
    overs.for_each(|over| over.say_uncertain(talk.terminal));
    for (id, refused) in refused {
        if refused.is_left() {
            say(&talk.terminal.warning_text(&format!("{}, and stays so", refused.title), refused.hint.as_deref()));
            continue;
        }
        talk.terminal.error(&format!("{id} is not resumed: {}", refused.title), refused.hint.as_deref());
    }
    Ok(exit)
}
