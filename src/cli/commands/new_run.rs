//! What `retry` and `fork` share: a new run made from an earlier one.

use crate::base::processors;
use crate::cli::args::host::HostArguments;
use crate::cli::args::inputs::INPUT_HINT;
use crate::cli::args::output::OutputArguments;
use crate::cli::args::target::TargetArguments;
use crate::cli::args::uploads::Uploads;
use crate::cli::args::values::{Substitution, by_name};
use crate::cli::args::workflow::load_file;
use crate::cli::args::{inputs, values};
use crate::cli::commands::launch::{ANNOUNCE_WAIT_MAX, belongs_to_another_host, note_queued, warn_of_uncertain};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::warnings::Warnings;
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::{Session, Watch};
use crate::host::{Host, LoadError, RerunError, RunHandle, Workflow};
use crate::run::ForkError;
use crate::workflow::interpreter::RepeatError;
use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What changes in the new run.
#[derive(Args, Debug)]
pub(in crate::cli) struct ChangeArguments {
    /// Replace the workflow with this file, a corrected one for example.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "others")]
    pub(in crate::cli) workflow: Option<PathBuf>,
    /// Change an input: `key=value`, `key=@file` (its text, or itself as a blob), `@file.json` (an
    /// object of inputs).
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
}

/// The new run.
#[derive(Args, Debug)]
pub(in crate::cli) struct NewArguments {
    /// The id of the new run [default: a fresh one].
    #[arg(long = "run-id", value_name = "ID", value_parser = values::run_id)]
    pub(in crate::cli) id: Option<String>,
    /// Print one JSON object, as `wfhost run --json` does.
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

/// The run that a new one is made from, and what changes.
pub(in crate::cli) struct Original<'a> {
    pub(in crate::cli) id: &'a str,
    /// The workflow of the new run.
    pub(in crate::cli) workflow: &'a Workflow,
    /// Changed inputs.
    pub(in crate::cli) inputs: Map<String, Value>,
    /// What holds the blobs of changed inputs.
    pub(in crate::cli) blob_holders: Vec<Arc<str>>,
}

/// What a command did with it.
pub(in crate::cli) enum Started {
    Run(RunHandle, Watch),
    /// It only showed what it would do.
    DryRun(Exit),
}

pub(in crate::cli) type Start<'a> = &'a dyn Fn(&Session, &Host, &Original<'_>) -> Result<Started, CommandError>;

/// Starts a new run and follows it to its end.
pub(in crate::cli) fn new_run(
    given: &str,
    changes: (&[Substitution], &ChangeArguments),
    new: &NewArguments,
    terminal: Terminal,
    start: Start<'_>,
) -> anyhow::Result<Exit> {
    let mut session = Session::new(new.json, new.quiet, None, terminal);
    session.invocation = new.host.invocation(session.invocation);
    let mut slot = None;
    let done = follow(given, changes, new, &mut session, &mut slot, start);
    if let Some(host) = slot {
        host.settle_folder();
        // The process ends.
        std::mem::forget(host);
    }
    done.or_else(|stop| session.report_error(stop))
}

fn follow(
    given: &str,
    (others, changes): (&[Substitution], &ChangeArguments),
    new: &NewArguments,
    session: &mut Session,
    slot: &mut Option<Host>,
    start: Start<'_>,
) -> Result<Exit, CommandError> {
    session.write_outputs_to(&new.output)?;
    let (runs, stored) = new.target.data.find(given)?;
    drop(runs);
    let mut warnings = Warnings::new();
    let builder = new.host.host(processors()).on_compile(session.compiling()).data(new.target.data.required()?);
    let host = slot.insert(builder.build().map_err(UserError::from)?);
    new.host.check(host, &mut warnings);
    new.host.check_cache(host, &mut warnings);
    HostArguments::check_data(host, &mut warnings);
    session.warn(warnings);
    let workflow = match &changes.workflow {
        Some(file) => load_file(host, file).map_err(UserError::from)?,
        None => host.workflow_with(&stored.id, &by_name(others))?,
    };
    let declared = &workflow.plan().inputs;
    let uploads = Uploads::new(host, true);
    let mut store = |name: &str, path: &str| uploads.store(declared.takes_blob(name), path);
    let inputs = inputs::read(&changes.inputs, |name, text| declared.parse_argument(name, text), &mut store)
        .map_err(UserError::from)?;
    let original = Original { id: &stored.id, workflow: &workflow, inputs, blob_holders: vec![uploads.holder()] };
    let (run, watch) = match session.signals.guard(|| start(session, host, &original))? {
        Started::Run(run, watch) => (run, watch),
        Started::DryRun(exit) => {
            session.close();
            return Ok(exit);
        }
    };
    // It holds its inputs now.
    drop(uploads);
    // A run that is announced is durable. A full disk is reported elsewhere.
    if run.started(ANNOUNCE_WAIT_MAX) || run.outcome().is_none() {
        session.note(format!("run {}", run.id()));
    }
    note_queued(host, &run, session)?;
    warn_of_uncertain(&run, session);
    session.show(&run, &workflow, watch);
    let ended = session.wait_to_the_end(host, &run, true);
    if belongs_to_another_host(&ended.outcome) && !run.started(Duration::ZERO) {
        // Another process started a run of this id first: nothing of this one left the host.
        return Err(UserError::from(LoadError::Exists { id: run.id().to_string() }).into());
    }
    Ok(session.report(host, &ended, &workflow))
}

pub(in crate::cli) fn rerun_error(error: RerunError, id: &str) -> UserError {
    let hint = match &error {
        RerunError::Repeat(RepeatError::NotEnded) => Some(format!("`wfhost status {id}` shows how far it is")),
        RerunError::Repeat(RepeatError::NothingFailed) => Some(
            "--from STEP runs that step and what depends on it again; --workflow FILE and --input apply changes"
                .to_owned(),
        ),
        RerunError::Repeat(RepeatError::Unsure { steps }) => {
            let step = steps.first().map_or("STEP", String::as_str);
            Some(format!(
                "look at what it did, and tell: --undone {step} runs it again, --not-undone {step} takes it over"
            ))
        }
        RerunError::Retried { by } => {
            Some(format!("`wfhost retry {by}` goes on from there; --new-keys does all of it once more"))
        }
        RerunError::Fork(ForkError::NoRecord { .. } | ForkError::Ended { .. }) => {
            Some(format!("`wfhost history {id}` shows the records with their numbers"))
        }
        RerunError::Fork(ForkError::Diverged(_)) => Some(format!(
            "a change must reproduce the records up to the cut: fork {id} before that record; `wfhost \
            replay {id} --with NAME=FILE` shows how a component differs"
        )),
        _ => None,
    };
    match error {
        RerunError::TakeUp(error) => UserError::from(error),
        RerunError::Load(error) => UserError::from(error).hint_on_inputs(INPUT_HINT),
        RerunError::Repeat(RepeatError::Inputs(problem)) => {
            UserError::new(kind::BAD_INPUT, problem.to_string()).hint(INPUT_HINT)
        }
        RerunError::Journal(error) => UserError::from(error),
        error => UserError::new(kind::WRONG_STATE, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint),
    }
}
