//! `wfhost retry` and `wfhost fork`: new runs out of one that was.

use crate::base::processors;
use crate::cli::Exit;
use crate::cli::args::inputs;
use crate::cli::args::{ChangeArguments, Fork, NewArguments, Other, Retry, RunningArguments};
use crate::cli::commands::run::{ANNOUNCED_WITHIN, INPUT_HINT, is_taken};
use crate::cli::load_file;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::{Talk, Warnings, Watching};
use crate::host::{ForkOptions, Host, LoadError, RerunError, RetryOptions, RunHandle, RunOptions, Workflow};
use crate::run::ForkError;
use crate::workflow::interpreter::{RepeatError, Rerun};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(in crate::cli) fn retry(command: &Retry, terminal: Terminal) -> anyhow::Result<Exit> {
    let again = command.from.clone().map_or(Rerun::Failed, Rerun::From);
    let begin = |talk: &Talk, host: &Host, run: &Known<'_>| {
        let Known { id, workflow, inputs, .. } = run;
        let loaded;
        let original = if command.others.is_empty() && command.changes.workflow.is_none() {
            workflow
        } else {
            loaded = host.workflow_of(id)?;
            &loaded
        };
        let records = crate::cli::commands::run::opened(host)?.all_records(id)?;
        let options = RetryOptions {
            again: again.clone(),
            inputs: inputs.clone(),
            substituted: !command.others.is_empty(),
            new_keys: command.new_keys,
        };
        let retrial = host.prepare_retry(original, &records, workflow, options).map_err(|error| refused(error, id))?;
        if command.dry_run {
            return Ok(Begun::Told(crate::cli::report::retry_plan::tell(id, &retrial, command.new.json)?));
        }
        command.new.running.check_addresses(&crate::cli::commands::run::opened(host)?, id, &talk.again)?;
        if original.source().text() == workflow.source().text() {
            for line in other_file(workflow, id, command.from.as_deref()) {
                talk.note(line);
            }
        }
        for line in crate::cli::report::retry_plan::summary(&retrial) {
            talk.note(line);
        }
        let (watching, watcher) = talk.watcher();
        let options = RunOptions { id: command.new.id.clone(), durable: Some(true), watcher, ..RunOptions::default() };
        let run = host.retry(workflow, retrial, options).map_err(|error| refused(error.into(), id))?;
        Ok(Begun::Run(run, watching))
    };
    new_run(&command.run, (&command.others, &command.changes), &command.new, terminal, &begin)
}

pub(in crate::cli) fn fork(command: &Fork, terminal: Terminal) -> anyhow::Result<Exit> {
    let begin = |talk: &Talk, host: &Host, run: &Known<'_>| {
        let Known { id, workflow, inputs, .. } = run;
        command.new.running.check_addresses(&crate::cli::commands::run::opened(host)?, id, &talk.again)?;
        let fork = ForkOptions {
            at: command.at,
            id: command.new.id.clone(),
            substituted: !command.others.is_empty() || command.changes.workflow.is_some(),
            inputs: inputs.clone(),
            resend: command.resend,
        };
        let new = host.fork(workflow, id, fork).map_err(|error| refused(error, id))?;
        let (watching, watcher) = talk.watcher_of(host, &new);
        Ok(Begun::Run(host.recover(workflow, &new, RunOptions { watcher, ..RunOptions::default() })?, watching))
    };
    new_run(&command.run, (&command.others, &command.changes), &command.new, terminal, &begin)
}

/// The run that a new one is made of, and what is another in that.
struct Known<'a> {
    id: &'a str,
    /// The workflow of the new run.
    workflow: &'a Workflow,
    /// Inputs that are others.
    inputs: Map<String, Value>,
}

/// What a command has done with it.
enum Begun {
    Run(RunHandle, Watching),
    /// It was to say what it would do.
    Told(Exit),
}

type Begin<'a> = &'a dyn Fn(&Talk, &Host, &Known<'_>) -> Result<Begun, Stop>;

/// Begins a new run, and follows it to its end.
fn new_run(
    given: &str,
    changes: (&[Other], &ChangeArguments),
    new: &NewArguments,
    terminal: Terminal,
    begin: Begin<'_>,
) -> anyhow::Result<Exit> {
    let mut talk = Talk::new(new.json, new.quiet, None, terminal);
    talk.again = new.running.again(talk.again);
    let mut place = None;
    let done = follow(given, changes, new, &mut talk, &mut place, begin);
    if let Some(host) = place {
        host.leave_folder();
        // The process ends.
        std::mem::forget(host);
    }
    done.or_else(|stop| talk.stop(stop))
}

fn follow(
    given: &str,
    (others, changes): (&[Other], &ChangeArguments),
    new: &NewArguments,
    talk: &mut Talk,
    place: &mut Option<Host>,
    begin: Begin<'_>,
) -> Result<Exit, Stop> {
    let (runs, stored) = new.data.find(given)?;
    drop(runs);
    let mut warnings = Warnings::new();
    let builder = new.running.host(processors()).on_compile(talk.compiling()).data(new.data.required()?);
    let host = place.insert(builder.build().map_err(Refused::from)?);
    new.running.check(host, &mut warnings);
    new.running.check_cache(host, &mut warnings);
    RunningArguments::check_data(host, &mut warnings);
    talk.warn(warnings);
    let workflow = match &changes.workflow {
        Some(file) => load_file(host, file).map_err(Refused::from)?,
        None => host.workflow_with(&stored.id, &by_name(others))?,
    };
    let declared = &workflow.plan().inputs;
    let inputs = inputs::read(&changes.inputs, |name, text| declared.parse_argument(name, text))
        .map_err(|why| Refused::new(kind::BAD_INPUT, why.message).hint(why.hint.unwrap_or(INPUT_HINT)))?;
    let known = Known { id: &stored.id, workflow: &workflow, inputs };
    let (run, watching) = match talk.signals.guard(|| begin(talk, host, &known))? {
        Begun::Run(run, watching) => (run, watching),
        Begun::Told(exit) => {
            talk.close();
            return Ok(exit);
        }
    };
    // Who is told of it can count on it. A disk that is full is told of otherwise.
    if run.started(ANNOUNCED_WITHIN) || run.outcome().is_none() {
        talk.note(format!("run {}", run.id()));
    }
    crate::cli::commands::resume::warn_of_uncertain(&run, talk);
    talk.show(&run, &workflow, watching);
    let ended = talk.to_the_end(host, &run, true);
    if is_taken(&ended.outcome) && !run.started(Duration::ZERO) {
        // Somebody began one of its id at the same time, and was quicker: nothing of this one left
        // the host.
        return Err(Refused::from(LoadError::Exists { id: run.id().to_string() }).into());
    }
    Ok(talk.tell(&ended, &workflow, host.guests().slots()))
}

/// What is said where the file that a run was started with is another one now.
fn other_file(workflow: &Workflow, id: &str, from: Option<&str>) -> Vec<String> {
    let (file, kept) = (workflow.source().name(), workflow.source().text());
    let is_other = Workflow::read(file).is_ok_and(|text| text != kept);
    let from = from.map_or_else(String::new, |step| format!(" --from {step}"));
    let lines = [
        format!("{file} is another one now; this retry uses the text that the run was started with"),
        format!("to use the new one: wfhost retry {id}{from} --workflow {file}"),
    ];
    if is_other { lines.into() } else { Vec::new() }
}

pub(in crate::cli) fn by_name(others: &[Other]) -> BTreeMap<String, PathBuf> {
    others.iter().map(|other| (other.name.clone(), other.file.clone())).collect()
}

fn refused(error: RerunError, id: &str) -> Refused {
    let hint = match &error {
        RerunError::Repeat(RepeatError::NotEnded) => Some(format!("`wfhost status {id}` shows how far it is")),
        RerunError::Repeat(RepeatError::NothingFailed) => {
            Some("--from STEP runs that step and what depends on it again; --workflow FILE and --input take what was changed".to_owned())
        }
        RerunError::Fork(ForkError::NoRecord { .. } | ForkError::Ended { .. }) => {
            Some(format!("`wfhost history {id}` shows the records with their numbers"))
        }
        RerunError::Fork(ForkError::Diverged(_)) => Some(format!(
            "what is another must have done the same up to the cut: fork {id} before that record; `wfhost replay {id} --with NAME=FILE` shows the difference of a component"
        )),
        _ => None,
    };
    match error {
        RerunError::TakeUp(error) => Refused::from(error),
        RerunError::Load(error) => Refused::from(error).hint_on_inputs(INPUT_HINT),
        RerunError::Repeat(RepeatError::Inputs(problem)) => {
            Refused::new(kind::BAD_INPUT, problem.to_string()).hint(INPUT_HINT)
        }
        RerunError::Journal(error) => Refused::from(error),
        error => Refused::new(kind::WRONG_STATE, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint),
    }
}
