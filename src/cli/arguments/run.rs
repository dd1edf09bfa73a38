//! `wfhost run`.

use super::super::values;
use super::{DataArguments, RunningArguments};
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
A run is durable: whatever ends this process, `wfhost resume RUN` takes the run up where it was. With --run-id the
same command may be given again: it follows, takes up, or tells the end of the run that there is.
Ctrl-C cancels the run cleanly; pressed twice it ends the run at once. Of a durable run a terminal asks first, and d
leaves it for `wfhost resume`. SIGTERM leaves a durable run for `wfhost resume`, and cancels any other.
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
  status     succeeded, failed, cancelled, timed-out, suspended (somebody may take it up),
             or refused: nothing was run (exit code 2)
  run        the run's id, where one was started
  outputs    where it succeeded
  problem    else: kind, title, class, and as far as they are known detail, data, hint, at;
             where a step failed kind is step-failed, and the step's own problem is data.cause
  failed     steps that failed: step, at (file, line, column)
  problems   of a refused workflow, or of its inputs: message, at or pointer, hint
  warnings   sentences, where there is something to say
  abandoned, counts
What guests and `call: log` write is not shown with it, nor with -q."
    )
)]
pub(in crate::cli) struct Run {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs). A value is JSON where the input's type
    /// is not string. Later ones win.
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(in crate::cli) inputs: Vec<String>,
    /// Print one JSON object: status, outputs or problem, statistics.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Cancel the run when this command has taken so long, loading included: `500ms`, `30s`, `5m`, `24h`, `PT1H`; one that another process
    /// runs is not followed any more then, and goes on [default: never].
    #[arg(long, value_name = "DURATION", value_parser = values::timeout)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// No progress, no logs, no warnings: only outputs and problems.
    #[arg(short, long)]
    pub(in crate::cli) quiet: bool,
    /// The id of the run; where there is a run of that id, it must be of the same workflow and inputs, and is followed, taken up, or
    /// told of again [default: a fresh one].
    #[arg(long = "run-id", value_name = "ID", value_parser = values::run_id)]
    pub(in crate::cli) id: Option<String>,
    /// What of the run outlives this process [default: what the workflow says, else journal].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(in crate::cli) durability: Option<DurabilityChoice>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum DurabilityChoice {
    /// All of it: every step is written down before anything follows from it.
    Journal,
    /// Nothing.
    None,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost resume 0198
  wfhost resume --all

A run is named by its id, or by the beginning of it. One whose host is gone is taken up here, from what was written down:
nothing that was done is done again. A call without an answer is repeated under its key where that is safe; one that is not, and may
have happened, waits for `wfhost resolve`.
One that is paused goes on. It ends as `wfhost run` ends: the same outputs, the same exit codes. With --all they are those of
several: a line for each, and the highest exit code. Runs that somebody has paused are left alone then, and told.")]
pub(in crate::cli) struct Resume {
    /// The run.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(in crate::cli) run: Option<String>,
    /// All runs that have not ended and that nobody runs, but those that are paused.
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
