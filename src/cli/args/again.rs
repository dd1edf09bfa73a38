//! Commands upon runs that were.

use super::{DataArguments, RunningArguments};
use crate::cli::args::values;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Another component in the place of one of the workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Other {
    /// The name that the workflow gives it.
    pub(in crate::cli) name: String,
    /// The file.
    pub(in crate::cli) file: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost retry 0198                                     # what did not succeed
  wfhost retry 0198 --dry-run                           # what would run again, why, and under which keys
  wfhost retry order-4711 --workflow order.yaml         # the file was corrected
  wfhost retry order-4711 --input limit=200             # an input was wrong
  wfhost retry order-4711 --from ship
  wfhost retry order-4711 --with ship=fixed.wasm

RUN is a run's id, or a unique prefix of it. The new run has an id of its own, and ends as `wfhost run` ends.

A step is taken over where it succeeded or was skipped, and nothing that it depends on is another: the steps that it needs or reads are \
taken over, its definition and its component are the same, and so are the inputs that it reads. All other steps run again. `retry`, \
`timeout`, `max-parallel`, `continue-on-error`, `limits` and `allow` of a step are no part of that. Items of a `for-each` are known by \
their place in its list. A run's store `kv` begins empty: steps that may write to it run again, and what depends on them.

A call that is made again has the idempotency key that it had, with two exceptions: where it is known that the former call did not \
happen, and where the outcome of the former call is known and the arguments are others now. A new key has a digest of what is asked for \
in it: two retries of one run that ask for the same have the same key.

With --dry-run --json it prints:
  run         the run
  steps       in the order of the file:
    id, before, now   before: how it ended, null for a new step;
                      now: taken-over or runs-again
    why               kind: ended, asked, needs, changed, inputs, store or new,
                      with step, keys or inputs
    items             of a for-each that runs again: taken-over, total
    keys, keys-total  of the first 20 items: item, key, reuse (always: nobody
                      knows of its outcome; same: with the same arguments;
                      never: it is a new one)
  gone        steps that there are no more: id, before
  undeclared  inputs that are left out: the workflow does not declare them
  signals     signals that nobody took: the new run is not sent them")]
pub(in crate::cli) struct Retry {
    /// The run.
    pub(in crate::cli) run: String,
    /// Run this step again, and all that depend on it.
    #[arg(long, value_name = "STEP", conflicts_with = "failed")]
    pub(in crate::cli) from: Option<String>,
    /// Run what did not succeed again: the default.
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Say what would be taken over and what would run again, and begin nothing.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Use no idempotency key of the run again: each call that is made again is a new one.
    #[arg(long)]
    pub(in crate::cli) new_keys: bool,
    /// Another file in the place of a component of the workflow. What succeeded with the former one is taken over.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Other>,
    #[command(flatten)]
    pub(in crate::cli) changes: ChangeArguments,
    #[command(flatten)]
    pub(in crate::cli) new: NewArguments,
}

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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost history 0198
  wfhost fork 0198 --at 12
  wfhost fork order-4711 --at 12 --with ship=fixed.wasm
  wfhost fork order-4711 --at 12 --workflow order.yaml

RUN is a run's id, or a unique prefix of it. The new run has the first records of the other, an id and idempotency keys \
of its own, and goes on by itself from there. It ends as `wfhost run` ends. What is another in it, a component, the workflow or an input, \
must have done the same up to the cut.")]
pub(in crate::cli) struct Fork {
    /// The run.
    pub(in crate::cli) run: String,
    /// The number of the last record that the new run has too: `wfhost history` shows them.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) at: u64,
    /// Another file in the place of a component of the workflow.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Other>,
    /// Send calls again that were in flight at the cut [default: they wait for `wfhost resolve`].
    #[arg(long)]
    pub(in crate::cli) resend: bool,
    #[command(flatten)]
    pub(in crate::cli) changes: ChangeArguments,
    #[command(flatten)]
    pub(in crate::cli) new: NewArguments,
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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost replay 0198
  wfhost replay order-4711 --with ship=fixed.wasm
  wfhost replay 0198 --until 12 --verbose

RUN is a run's id, or a unique prefix of it. Nothing leaves the host: calls get the answers that were recorded. The first step that \
does otherwise is shown. A step that this host cannot repeat, as where a limit ends it that did not end it then, is a third answer: it \
says nothing of the component. \
With --json it is one object:
  answer                same, diverged, or cannot-replay
  steps, fuel-differs, records
                        where it is the same: how many of each
  record, pid, step, scope, component
                        else: where it is otherwise
  expected, got, line   lines of what was recorded, and of what is; the first
                        one that differs
  problem               how this host ends the step

Exit codes: 0 the same, 1 it is not, or cannot be said.")]
pub(in crate::cli) struct Replay {
    /// The run.
    pub(in crate::cli) run: String,
    /// Stop after the record of this number.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) until: Option<u64>,
    /// Show each step.
    #[arg(short, long)]
    pub(in crate::cli) verbose: bool,
    /// Another file in the place of a component of the workflow.
    #[arg(long = "with", value_name = "NAME=FILE", value_parser = values::other)]
    pub(in crate::cli) others: Vec<Other>,
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost verify 0198
  wfhost verify order-4711 --json | jq '.snapshots[] | select(.verdict != \"equal\")'

RUN is a run's id, or a unique prefix of it. Every step is stepped again from the first record on, without any snapshot. \
With --json it is one object:
  steps       that were stepped again, all as recorded
  snapshots   pid, step, bytes, verdict: equal, differs, or ignored with the
              reason

Exit codes: 0 the run is what its records say, and so are its snapshots; 1 it is not.")]
pub(in crate::cli) struct Verify {
    /// The run.
    pub(in crate::cli) run: String,
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}
