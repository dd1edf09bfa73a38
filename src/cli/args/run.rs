//! `wfhost run`.

use super::{DataArguments, RunningArguments};
use crate::cli::args::values;
use clap::{Args, ValueEnum, ValueHint};
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


 \
A run is durable: whatever ends this process, `wfhost resume RUN` continues the run where it was. With --run-id the \
same command may be given again: it follows or resumes the existing run, or reports how it ended.

Ctrl-C cancels the run cleanly; pressed twice it ends the run at once. On a terminal a durable run is asked about first: c cancels \
it, d leaves it for `wfhost resume`. SIGTERM leaves a durable run for `wfhost resume`, and cancels any other.

Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled, timed out, or suspended."
    };
}

#[derive(Args, Debug)]
#[command(
    after_help = run_help!(),
    after_long_help = concat!(
        run_help!(),
        "

With --json standard output is one object, however the run ends:
  status     succeeded, failed, cancelled, timed-out, suspended (somebody may
             take it up), or refused: nothing was run (exit code 2)
  run        the run's id, where one was started
  outputs    where it succeeded
  problem    else: kind, title, class, and as far as they are known detail,
             data, hint, at; where a step failed kind is step-failed, and the
             step's own problem is data.cause
  failed     steps that failed: step, at (file, line, column)
  problems   of a refused workflow, or of its inputs: message, at or pointer,
             hint
  warnings   sentences, where there is something to say
  abandoned, counts
What guests and `call: log` write is not shown with it, nor with -q."
    )
)]
pub(in crate::cli) struct Run {
    /// The workflow file; `-` reads it from standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs). A value is JSON where the input's type
    /// is not string. Later ones win.
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
    /// Print one JSON object: status, outputs or problem, statistics.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Cancel the run after this time, loading included: `500ms`, `30s`, `5m`, `24h`, `PT1H`. A run
    /// of another process is only no longer followed then [default: never].
    #[arg(long, value_name = "DURATION", value_parser = values::timeout)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// No progress, no logs, no warnings: only outputs and problems.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    /// The id of the run. If there is a run with that id, it must have the same workflow and
    /// inputs, and is followed, resumed, or reported again [default: a fresh id].
    #[arg(long = "run-id", value_name = "ID", value_parser = values::run_id)]
    pub(in crate::cli) id: Option<String>,
    /// Whether the run outlives this process [default: as the workflow says, else journal].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(in crate::cli) durability: Option<DurabilityChoice>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum DurabilityChoice {
    /// It does: every step is recorded before anything follows from it.
    Journal,
    /// It does not.
    None,
}

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
pub(in crate::cli) struct Resume {
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
