//! `wfhost retry` and `wfhost fork`: new runs out of one that was.

use crate::base::processors;
use crate::cli::args::data::DataArguments;
use crate::cli::args::host::RunningArguments;
use crate::cli::args::inputs::INPUT_HINT;
use crate::cli::args::values::{Substitution, by_name};
use crate::cli::args::workflow::load_file;
use crate::cli::args::{inputs, values};
use crate::cli::commands::launch::{ANNOUNCED_WITHIN, is_taken, warn_of_uncertain};
use crate::cli::exit::Exit;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::report::warnings::Warnings;
use crate::cli::terminal::Terminal;
use crate::cli::watch::session::{Talk, Watching};
use crate::host::{Host, LoadError, RerunError, RunHandle, Workflow};
use crate::run::ForkError;
use crate::workflow::interpreter::RepeatError;
use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// What of a run is another in the new one.
#[derive(Args, Debug)]
pub(in crate::cli) struct ChangeArguments {
    /// A workflow file in the place of the one that the run was started with: a corrected one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "others")]
    pub(in crate::cli) workflow: Option<PathBuf>,
    /// An input that is another than it was: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs).
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
    /// No progress, no logs, no warnings: only outputs and problems.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}

/// The run that a new one is made of, and what is another in that.
pub(in crate::cli) struct Known<'a> {
    pub(in crate::cli) id: &'a str,
    /// The workflow of the new run.
    pub(in crate::cli) workflow: &'a Workflow,
    /// Inputs that are others.
    pub(in crate::cli) inputs: Map<String, Value>,
}

/// What a command has done with it.
pub(in crate::cli) enum Begun {
    Run(RunHandle, Watching),
    /// It was to say what it would do.
    Told(Exit),
}

pub(in crate::cli) type Begin<'a> = &'a dyn Fn(&Talk, &Host, &Known<'_>) -> Result<Begun, Stop>;

/// Begins a new run, and follows it to its end.
pub(in crate::cli) fn new_run(
    given: &str,
    changes: (&[Substitution], &ChangeArguments),
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
    (others, changes): (&[Substitution], &ChangeArguments),
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
    warn_of_uncertain(&run, talk);
    talk.show(&run, &workflow, watching);
    let ended = talk.to_the_end(host, &run, true);
    if is_taken(&ended.outcome) && !run.started(Duration::ZERO) {
        // Somebody began one of its id at the same time, and was quicker: nothing of this one left
        // the host.
        return Err(Refused::from(LoadError::Exists { id: run.id().to_string() }).into());
    }
    Ok(talk.tell(&ended, &workflow, host.guests().slots()))
}

pub(in crate::cli) fn refused(error: RerunError, id: &str) -> Refused {
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
