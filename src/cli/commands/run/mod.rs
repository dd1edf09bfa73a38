//! `wfhost run`.

mod existing;
mod remote;

use crate::base::processors;
use crate::cli::args::host::HostArguments;
use crate::cli::args::inputs::INPUT_HINT;
use crate::cli::args::output::OutputArguments;
use crate::cli::args::target::TargetArguments;
use crate::cli::args::uploads::Uploads;
use crate::cli::args::workflow::load_file;
use crate::cli::args::{inputs, values};
use crate::cli::commands::launch::{ANNOUNCE_WAIT_MAX, belongs_to_another_host, note_queued};
use crate::cli::commands::lock::LockArguments;
use crate::cli::commands::run::existing::ExistingRun;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::warnings::{Warnings, plan_warnings};
use crate::cli::store::{OwnershipCache, runs_of};
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::Session;
use crate::host::{Host, LoadError, RunHandle, RunOptions, Workflow};
use crate::journal::Filter;
use crate::run::Watcher;
use crate::workflow::model::Durability;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

macro_rules! run_help {
    () => {
        "\
Examples:
  wfhost run workflows/hello.yaml --input name=Ann
  wfhost run flow.yaml --input @inputs.json --input retries=5
  wfhost run flow.yaml --input csv=@weather.csv --json | jq .outputs
  wfhost run flow.yaml --timeout 10m --allow-address 127.0.0.0/8
  wfhost run flow.yaml --run-id order-4711

Outputs go to standard output; progress, logs and problems go to standard error.

A run is durable: whatever ends this process, `wfhost resume RUN` continues the run where it stopped. With \
--run-id the \
same command can be repeated: it follows or resumes the existing run, or reports how it ended.

With --server or WFHOST_SERVER the run is one of the server: a FILE is deployed there for it, and not activated; \
a NAME is that of a deployed workflow. Its log is shown until it ends, and Ctrl-C ends only this command.

Ctrl-C cancels the run cleanly; a second one ends it at once. On a terminal, Ctrl-C asks first if the run \
is durable: c cancels \
it, d suspends it until `wfhost resume`. SIGTERM suspends a durable run, and cancels any other.

Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled, timed out, or suspended."
    };
}
#[derive(Args, Debug)]
#[command(
    after_help = run_help!(),
    after_long_help = concat!(
        run_help!(),
        "

--json prints one object, however the run ends:
  status     succeeded, failed, cancelled, timed-out, suspended (`wfhost
             resume` continues it), or refused: nothing was run (exit code 2)
  run        the run's id, if one was started
  outputs    if it succeeded
  problem    otherwise: kind, title, class, and if known detail, data, hint,
             at; if a step failed, kind is step-failed and the step's own
             problem is data.cause
  failed     steps that failed: step, at (file, line, column)
  problems   of a refused workflow, or of its inputs: message, at or pointer,
             hint
  warnings   sentences, if there are any
  abandoned, counts
Lines that guests and `call: log` write are shown neither with --json nor with -q."
    )
)]
pub(in crate::cli) struct Arguments {
    /// The workflow file; `-` reads it from standard input. With a server also NAME or NAME@VERSION
    /// of a deployed workflow.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text, or itself as a blob), `@file.json` (an object
    /// of inputs). A value is read as JSON unless the input's type is string. Later ones win.
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
    /// Print one JSON object: status, outputs or problem, statistics.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) output: OutputArguments,
    /// Cancel the run after this time, including load time: `500ms`, `30s`, `5m`, `24h`, `PT1H`. If
    /// another process executes the run, this command stops following it instead [default: never].
    #[arg(long, value_name = "DURATION", value_parser = values::timeout)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Print only outputs and problems: no progress, logs or warnings.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    /// The id of the run. An existing run with that id must have the same workflow and inputs;
    /// this command then follows it, resumes it, or reports how it ended [default: a fresh id].
    #[arg(long = "run-id", value_name = "ID", value_parser = values::run_id)]
    pub(in crate::cli) id: Option<String>,
    /// Whether the run outlives this process [default: as the workflow says, else journal].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(in crate::cli) durability: Option<DurabilityChoice>,
    #[command(flatten)]
    pub(in crate::cli) lock: LockArguments,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum DurabilityChoice {
    /// The run survives a crash: each step is recorded before it takes effect.
    Journal,
    /// The run is lost when this process ends.
    None,
}

/// Suspended runs are counted up to this number at each start. Arbitrary.
const UNFINISHED_MAX: u32 = 1_000;

pub(in crate::cli) fn run(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    if let Some(address) = command.target.address() {
        return remote::run(command, &address, terminal).or_else(|error| error.report(command.json, terminal));
    }
    let mut session = Session::new(command.json, command.quiet, command.timeout, terminal);
    if let Err(refused) = session.write_outputs_to(&command.output) {
        return session.report_error(refused.into());
    }
    session.invocation = command.host.invocation(session.invocation);
    let (host, workflow) = match prepare(command, &mut session) {
        Ok(prepared) => prepared,
        Err(refused) => return session.report_error(refused.into()),
    };
    session.durable = is_durable(command, &host, &workflow);
    let done = begin(command, &session, &host, &workflow);
    // Watchers receive the end, and the socket of this process disappears.
    host.settle_folder();
    // The process ends: its memory need not be freed piece by piece, and no thread has work left.
    std::mem::forget((host, workflow));
    done.or_else(|stop| session.report_error(stop))
}

fn prepare(command: &Arguments, session: &mut Session) -> Result<(Host, Workflow), UserError> {
    let mut warnings = Warnings::new();
    let mut builder = command.host.host(processors()).on_storage(session.storage()).on_compile(session.compiling());
    builder = builder.locking(command.lock.locking());
    if command.durability != Some(DurabilityChoice::None) {
        match command.target.data.folder() {
            Some(folder) => builder = builder.data(folder),
            None if command.durability.is_some() || command.id.is_some() => {
                command.target.data.required()?;
            }
            None => warnings.push((
                "the run is not durable: there is no home directory, and so no folder for it".to_owned(),
                "--data DIR or WFHOST_DATA names one".to_owned(),
            )),
        }
    }
    if let Some(folder) = command.target.data.folder() {
        // What a run leaves for others does not depend on whether it is durable.
        builder = builder.step_cache(command.host.cached.caching(Some(&folder)));
    }
    let host = builder.build()?;
    command.host.check(&host, &mut warnings);
    let workflow = load_file(&host, &command.file)?;
    command.host.check_cache(&host, &mut warnings);
    HostArguments::check_data(&host, &mut warnings);
    warnings.extend(plan_warnings(&workflow));
    session.warn(warnings);
    Ok((host, workflow))
}

/// Returns whether the run is to be durable.
fn is_durable(command: &Arguments, host: &Host, workflow: &Workflow) -> bool {
    match command.durability {
        Some(DurabilityChoice::Journal) => true,
        Some(DurabilityChoice::None) => false,
        None => host.data_folder().is_some() && workflow.plan().durability() == Durability::Journal,
    }
}

fn begin(command: &Arguments, session: &Session, host: &Host, workflow: &Workflow) -> Result<Exit, CommandError> {
    let is_durable = session.durable;
    if command.id.is_some() && !is_durable {
        let refused = UserError::new(kind::USAGE, "a run that is not durable cannot be started again by its id");
        return Err(refused.hint("omit --run-id, or use --durability journal").into());
    }
    // From here on a signal cancels or suspends the run.
    let (watch, watcher) = session.watcher();
    let started = session.signals.guard(|| start(command, host, workflow, is_durable, watcher));
    let (run, inputs) = match started {
        Ok((Some(run), inputs)) => (run, inputs),
        Ok((None, inputs)) => {
            return existing(command, host, workflow, &inputs)?.continue_run(&runs_of(host)?, session);
        }
        Err(refused) => return Err(refused.into()),
    };
    if is_durable && session.follower.is_some() {
        // A run that is announced is durable. A full disk is reported elsewhere.
        let is_known = run.started(ANNOUNCE_WAIT_MAX);
        // If it never becomes durable, its outcome says why at once.
        let ended = if is_known { run.outcome() } else { run.inner().wait_for(ANNOUNCE_WAIT_MAX).map(|_| run.wait()) };
        if command.id.is_some() && ended.is_some_and(|outcome| belongs_to_another_host(&outcome)) {
            // The work of this run until then is discarded.
            return existing(command, host, workflow, &inputs)?.continue_run(&runs_of(host)?, session);
        }
        session.note(format!("run {}", run.id()));
    }
    if is_durable {
        note_queued(host, &run, session)?;
        note_suspended(host, session)?;
    }
    session.show(&run, workflow, watch);
    let ended = session.wait_to_the_end(host, &run, is_durable);
    if command.id.is_some() && belongs_to_another_host(&ended.outcome) {
        // Another process started it first.
        return existing(command, host, workflow, &inputs)?.continue_run(&runs_of(host)?, session);
    }
    Ok(session.report(host, &ended, workflow))
}

/// The run with its inputs; no run if one with its id already exists.
fn start(
    command: &Arguments,
    host: &Host,
    workflow: &Workflow,
    is_durable: bool,
    watcher: Option<Watcher>,
) -> Result<(Option<RunHandle>, Map<String, Value>), UserError> {
    let declared = &workflow.plan().inputs;
    let uploads = Uploads::new(host, is_durable);
    let mut store = |name: &str, path: &str| uploads.store(declared.takes_blob(name), path);
    let inputs = inputs::read(&command.inputs, |name, text| declared.parse_argument(name, text), &mut store)?;
    let (id, blob_holders) = (command.id.clone(), vec![uploads.holder()]);
    let options = RunOptions { id, durable: Some(is_durable), watcher, blob_holders, ..RunOptions::default() };
    match host.start(workflow, inputs.clone(), options) {
        Ok(run) => Ok((Some(run), inputs)),
        Err(LoadError::Exists { .. }) if command.id.is_some() => Ok((None, inputs)),
        Err(error) => Err(UserError::from(error).hint_on_inputs(INPUT_HINT)),
    }
}

/// The run of that id, which already exists.
fn existing<'a>(
    command: &'a Arguments,
    host: &'a Host,
    workflow: &'a Workflow,
    inputs: &Map<String, Value>,
) -> Result<ExistingRun<'a>, CommandError> {
    let inputs = workflow.plan().inputs.accept(inputs.clone());
    let inputs = inputs.map_err(|_| anyhow::anyhow!("invariant: the inputs were accepted before"))?;
    let id = command.id.as_deref().unwrap_or_default();
    Ok(ExistingRun { host, workflow, inputs, id, arguments: &command.host })
}

/// Notes how many runs are suspended.
fn note_suspended(host: &Host, session: &Session) -> Result<(), CommandError> {
    if session.follower.is_none() {
        return Ok(());
    }
    let runs = runs_of(host)?;
    let filter = Filter { ended: Some(false), limit: Some(UNFINISHED_MAX), ..Filter::default() };
    let mut owners = OwnershipCache::default();
    let mut count = 0;
    for stored in runs.store.list(&filter)? {
        // A run that has just ended has no owner either.
        let is_left = owners.ownership(&runs, &stored)? == crate::cli::store::Ownership::Orphaned
            && runs.store.run(&stored.id)?.is_some_and(|run| run.ended.is_none());
        count += u32::from(is_left);
    }
    let (runs, are) = if count == 1 { ("run", "is") } else { ("runs", "are") };
    let more = if count == UNFINISHED_MAX { " or more" } else { "" };
    if count > 0 {
        session.note(format!("{count}{more} {runs} {are} suspended: wfhost ls --status suspended"));
    }
    Ok(())
}
