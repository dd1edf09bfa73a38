//! `wfhost retry` and `wfhost fork`: new runs out of one that was.

use super::Exit;
use super::arguments::{Fork, NewArguments, Other, Retry, RunningArguments};
use super::follow::{Talk, Warnings, Watching};
use super::refused::{Refused, Stop, kind};
use super::run::{ANNOUNCED_WITHIN, is_taken};
use super::terminal::Terminal;
use crate::base::processors;
use crate::host::{AgainError, ForkOptions, Host, LoadError, RunHandle, RunOptions, Workflow};
use crate::run::ForkError;
use crate::workflow::interpreter::{Again, RepeatError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn retry(command: &Retry, terminal: Terminal) -> anyhow::Result<Exit> {
    let again = command.from.clone().map_or(Again::Failed, Again::From);
    let begin = |talk: &Talk, host: &Host, id: &str, workflow: &Workflow, options: RunOptions| {
        let loaded;
        let original = if command.others.is_empty() {
            workflow
        } else {
            loaded = host.workflow_of(id)?;
            &loaded
        };
        let records = super::run::opened(host)?.all_records(id)?;
        let (watching, watcher) = talk.watcher();
        let options = RunOptions { watcher, ..options };
        let run = host.retry(original, &records, &again, workflow, options).map_err(|error| refused(error, id))?;
        Ok((run, watching))
    };
    new_run(&command.run, &command.others, &command.new, terminal, &begin)
}

pub(super) fn fork(command: &Fork, terminal: Terminal) -> anyhow::Result<Exit> {
    let begin = |talk: &Talk, host: &Host, id: &str, workflow: &Workflow, options: RunOptions| {
        let fork = ForkOptions {
            at: command.at,
            id: options.id.clone(),
            substituted: !command.others.is_empty(),
            resend: command.resend,
        };
        let new = host.fork(workflow, id, fork).map_err(|error| refused(error, id))?;
        let (watching, watcher) = talk.watcher_of(host, &new);
        Ok((host.resume(workflow, &new, RunOptions { watcher, ..options })?, watching))
    };
    new_run(&command.run, &command.others, &command.new, terminal, &begin)
}

/// How a new run begins: by the host, the id of the other one, and the workflow.
type Begin<'a> = &'a dyn Fn(&Talk, &Host, &str, &Workflow, RunOptions) -> Result<(RunHandle, Watching), Stop>;

/// Begins a new run, and follows it to its end.
fn new_run(
    given: &str,
    others: &[Other],
    new: &NewArguments,
    terminal: Terminal,
    begin: Begin<'_>,
) -> anyhow::Result<Exit> {
    let mut talk = Talk::new(new.json, new.quiet, None, terminal);
    let mut place = None;
    let done = follow(given, others, new, &mut talk, &mut place, begin);
    if let Some(host) = place {
        host.leave_folder();
        // The process ends.
        std::mem::forget(host);
    }
    done.or_else(|stop| talk.stop(stop))
}

fn follow(
    given: &str,
    others: &[Other],
    new: &NewArguments,
    talk: &mut Talk,
    place: &mut Option<Host>,
    begin: Begin<'_>,
) -> Result<Exit, Stop> {
    let (runs, stored) = new.data.find(given)?;
    drop(runs);
    let mut warnings = Warnings::new();
    let builder = new.running.host(processors()).data(new.data.required()?);
    let host = place.insert(builder.build().map_err(Refused::from)?);
    new.running.check(host, &mut warnings);
    new.running.check_cache(host, &mut warnings);
    RunningArguments::check_data(host, &mut warnings);
    talk.warn(warnings);
    let workflow = host.workflow_with(&stored.id, &by_name(others))?;
    let options = RunOptions { id: new.id.clone(), durable: Some(true), ..RunOptions::default() };
    let (run, watching) = talk.signals.guard(|| begin(talk, host, &stored.id, &workflow, options))?;
    // Who is told of it can count on it. A disk that is full is told of otherwise.
    if run.started(ANNOUNCED_WITHIN) || run.outcome().is_none() {
        talk.note(format!("run {}", run.id()));
    }
    super::resume::warn_of_uncertain(&run, talk);
    talk.show(&run, &workflow, watching);
    let ended = talk.to_the_end(host, &run, true);
    if is_taken(&ended.outcome) && !run.started(Duration::ZERO) {
        // Somebody began one of its id at the same time, and was quicker: nothing of this one left the host.
        return Err(Refused::from(LoadError::Exists { id: run.id().to_string() }).into());
    }
    Ok(talk.tell(&ended, &workflow, host.guests().slots()))
}

pub(super) fn by_name(others: &[Other]) -> BTreeMap<String, PathBuf> {
    others.iter().map(|other| (other.name.clone(), other.file.clone())).collect()
}

fn refused(error: AgainError, id: &str) -> Refused {
    let hint = match &error {
        AgainError::Repeat(RepeatError::NotEnded) => Some(format!("`wfhost status {id}` shows how far it is")),
        AgainError::Repeat(RepeatError::NothingFailed) => {
            Some("--from STEP runs that step and what depends on it again".to_owned())
        }
        AgainError::Fork(ForkError::NoRecord { .. } | ForkError::Ended { .. }) => {
            Some(format!("`wfhost history {id}` shows the records with their numbers"))
        }
        AgainError::Fork(ForkError::Diverged(_)) => {
            Some(format!("`wfhost replay {id} --with NAME=FILE` shows the difference; fork it before that record"))
        }
        _ => None,
    };
    match error {
        AgainError::TakeUp(error) => Refused::from(error),
        AgainError::Load(error) => Refused::from(error),
        AgainError::Journal(error) => Refused::from(error),
        error => Refused::new(kind::WRONG_STATE, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint),
    }
}
