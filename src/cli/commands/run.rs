//! `wfhost run`.

use crate::base::processors;
use crate::cli::Exit;
use crate::cli::args::inputs;
use crate::cli::args::{DurabilityChoice, Run, RunningArguments};
use crate::cli::commands::existing_run::Start;
use crate::cli::commands::validate::plan_warnings;
use crate::cli::load_file;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::store::{ANOTHER_FOLDER, Runs};
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::{Talk, Warnings};
use crate::dispatch::http::HttpConfig;
use crate::host::{Host, HostBuilder, LoadError, Outcome, RunHandle, RunOptions, Status, Workflow};
use crate::journal::{Filter, Journal as _};
use crate::process::problem;
use crate::run::Watcher;
use crate::workflow::model::Durability;
use serde_json::{Map, Value};
use std::time::Duration;

/// Slots of a host that runs one workflow: few, since each costs an mprotect at the start.
pub(in crate::cli) const SLOTS_DEFAULT: u32 = 64;

/// Runs that nobody runs, as far as they are counted at each start. Arbitrary.
const UNFINISHED_MAX: u32 = 1_000;

/// How inputs are given.
pub(in crate::cli) const INPUT_HINT: &str = "--input key=value, --input key=@file, or --input @file.json";

/// How long the note of a run's start waits for that start to be durable. Arbitrary.
pub(in crate::cli) const ANNOUNCED_WITHIN: Duration = Duration::from_secs(1);

pub(in crate::cli) fn run(command: &Run, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut talk = Talk::new(command.json, command.quiet, command.timeout, terminal);
    talk.again = command.running.again(talk.again);
    let (host, workflow) = match prepare(command, &mut talk) {
        Ok(prepared) => prepared,
        Err(refused) => return talk.stop(refused.into()),
    };
    talk.durable = is_durable(command, &host, &workflow);
    let done = begin(command, &talk, &host, &workflow);
    // Whoever watches hears the end, and nobody finds a socket of a process that is no more.
    host.leave_folder();
    // The process ends: its memory need not be given back piece by piece, and no thread has anything left to do.
    std::mem::forget((host, workflow));
    done.or_else(|stop| talk.stop(stop))
}

fn prepare(command: &Run, talk: &mut Talk) -> Result<(Host, Workflow), Refused> {
    let mut warnings = Warnings::new();
    let mut builder = command.running.host(processors()).on_storage(talk.storage()).on_compile(talk.compiling());
    if command.durability != Some(DurabilityChoice::None) {
        match command.data.folder() {
            Some(folder) => builder = builder.data(folder),
            None if command.durability.is_some() || command.id.is_some() => {
                command.data.required()?;
            }
            None => warnings.push((
                "the run is not durable: you have no home, and so there is no folder for it".to_owned(),
                "--data DIR or WFHOST_DATA names one".to_owned(),
            )),
        }
    }
    let host = builder.build()?;
    command.running.check(&host, &mut warnings);
    let workflow = load_file(&host, &command.file)?;
    command.running.check_cache(&host, &mut warnings);
    RunningArguments::check_data(&host, &mut warnings);
    warnings.extend(plan_warnings(&workflow));
    talk.warn(warnings);
    Ok((host, workflow))
}

/// Whether the run is to be durable.
fn is_durable(command: &Run, host: &Host, workflow: &Workflow) -> bool {
    match command.durability {
        Some(DurabilityChoice::Journal) => true,
        Some(DurabilityChoice::None) => false,
        None => host.data_folder().is_some() && workflow.plan().durability() == Durability::Journal,
    }
}

fn begin(command: &Run, talk: &Talk, host: &Host, workflow: &Workflow) -> Result<Exit, Stop> {
    let is_durable = talk.durable;
    if command.id.is_some() && !is_durable {
        let refused = Refused::new(kind::USAGE, "a run that is not durable cannot be started again by its id");
        return Err(refused.hint("leave --run-id out, or give --durability journal").into());
    }
    // From here on a signal cancels the run, or leaves it for another.
    let (watching, watcher) = talk.watcher();
    let started = talk.signals.guard(|| start(command, host, workflow, is_durable, watcher));
    let (run, inputs) = match started {
        Ok((Some(run), inputs)) => (run, inputs),
        Ok((None, inputs)) => return same(command, host, workflow, &inputs)?.again(&opened(host)?, talk),
        Err(refused) => return Err(refused.into()),
    };
    if is_durable && talk.follower.is_some() {
        // Who is told of it can count on it. A disk that is full is told of otherwise.
        let is_known = run.started(ANNOUNCED_WITHIN);
        // Where it never will be, its outcome comes at once, and says why.
        let ended = if is_known { run.outcome() } else { run.inner().wait_for(ANNOUNCED_WITHIN).map(|_| run.wait()) };
        if command.id.is_some() && ended.is_some_and(|outcome| is_taken(&outcome)) {
            // What this one did until then counts for nothing.
            return same(command, host, workflow, &inputs)?.again(&opened(host)?, talk);
        }
        talk.note(format!("run {}", run.id()));
    }
    if is_durable {
        others(host, talk)?;
    }
    talk.show(&run, workflow, watching);
    let ended = talk.to_the_end(host, &run, is_durable);
    if command.id.is_some() && is_taken(&ended.outcome) {
        // Somebody began it at the same time, and was quicker.
        return same(command, host, workflow, &inputs)?.again(&opened(host)?, talk);
    }
    Ok(talk.tell(&ended, workflow, host.guests().slots()))
}

/// The run, with its inputs; no run where there is one of its id already.
fn start(
    command: &Run,
    host: &Host,
    workflow: &Workflow,
    is_durable: bool,
    watcher: Option<Watcher>,
) -> Result<(Option<RunHandle>, Map<String, Value>), Refused> {
    let declared = &workflow.plan().inputs;
    let inputs = inputs::read(&command.inputs, |name, text| declared.parse_argument(name, text))
        .map_err(|why| Refused::new(kind::BAD_INPUT, why.message).hint(why.hint.unwrap_or(INPUT_HINT)))?;
    let options = RunOptions { id: command.id.clone(), durable: Some(is_durable), watcher, ..RunOptions::default() };
    match host.start(workflow, inputs.clone(), options) {
        Ok(run) => Ok((Some(run), inputs)),
        Err(LoadError::Exists { .. }) if command.id.is_some() => Ok((None, inputs)),
        Err(error) => Err(Refused::from(error).hint_on_inputs(INPUT_HINT)),
    }
}

/// What is to be run, where there is a run of its id.
fn same<'a>(
    command: &'a Run,
    host: &'a Host,
    workflow: &'a Workflow,
    inputs: &Map<String, Value>,
) -> Result<Start<'a>, Stop> {
    let inputs = workflow.plan().inputs.accept(inputs.clone());
    let inputs = inputs.map_err(|_| anyhow::anyhow!("invariant: the inputs were accepted before"))?;
    let id = command.id.as_deref().unwrap_or_default();
    Ok(Start { host, workflow, inputs, id, running: &command.running })
}

/// The runs of the host's folder.
pub(in crate::cli) fn opened(host: &Host) -> Result<Runs, Stop> {
    match (host.data_folder(), host.journal()?) {
        (Some(folder), Some(journal)) => Ok(Runs { folder: folder.to_owned(), store: journal.store().clone() }),
        _ => Err(anyhow::anyhow!("invariant: the host has a data folder").into()),
    }
}

/// Whether the run turned out to be another host's.
pub(in crate::cli) fn is_taken(outcome: &Outcome) -> bool {
    outcome.status == Status::Failed
        && outcome.result.as_ref().is_err_and(|problem| problem.kind == problem::kind::RUN_TAKEN)
}

/// Says how many runs there are that nobody runs.
fn others(host: &Host, talk: &Talk) -> Result<(), Stop> {
    if talk.follower.is_none() {
        return Ok(());
    }
    let runs = opened(host)?;
    let filter = Filter { ended: Some(false), limit: Some(UNFINISHED_MAX), ..Filter::default() };
    let mut owners = crate::cli::commands::ls::Owners::default();
    let mut count = 0;
    for stored in runs.store.list(&filter)? {
        // One that ends meanwhile is nobody's too.
        let is_left = owners.whose(&runs, &stored)? == crate::cli::store::Whose::Nobody
            && runs.store.run(&stored.id)?.is_some_and(|run| run.ended.is_none());
        count += u32::from(is_left);
    }
    let (runs, are) = if count == 1 { ("run", "is") } else { ("runs", "are") };
    let more = if count == UNFINISHED_MAX { " or more" } else { "" };
    if count > 0 {
        talk.note(format!("{count}{more} {runs} {are} suspended: wfhost ls --status suspended"));
    }
    Ok(())
}

impl RunningArguments {
    /// A host with so many workers where nobody says how many.
    pub(in crate::cli) fn host(&self, workers: usize) -> HostBuilder {
        let mut http = HttpConfig::default();
        http.permissions.clone_from(&self.allow_addresses);
        self.engine.builder(SLOTS_DEFAULT).http(http).workers(self.workers.unwrap_or(workers))
    }

    /// Finds out whether the host has what was asked for.
    pub(in crate::cli) fn check(&self, host: &Host, warnings: &mut Warnings) {
        let asked = self.engine.slots.unwrap_or(SLOTS_DEFAULT);
        if host.guests().slots() < asked {
            let message = format!("the machine gave {} of {asked} slots", host.guests().slots());
            warnings.push((message, "`wfhost doctor` shows the limits".to_owned()));
        }
    }

    /// Finds out whether compiled code is kept.
    pub(in crate::cli) fn check_cache(&self, host: &Host, warnings: &mut Warnings) {
        if let Err(reason) = host.guests().cache().dir()
            && !self.engine.code.keeps_nothing()
        {
            let message = format!("compiled code is not kept, so each start compiles anew: {reason}");
            warnings.push((message, "--cache DIR or WFHOST_CACHE names another folder".to_owned()));
        }
    }

    /// Finds out whether the folder of durable runs is this user's alone.
    pub(in crate::cli) fn check_data(host: &Host, warnings: &mut Warnings) {
        if let Some(reason) = host.data_exposed() {
            warnings.push((exposed(&reason), ANOTHER_FOLDER.to_owned()));
        }
    }
}

/// What is said of a data folder that others can write.
pub(in crate::cli) fn exposed(reason: &str) -> String {
    format!("others can read or change what runs are given and give: {reason}")
}
