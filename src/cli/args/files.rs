//! Commands upon files and this machine.

use super::{DataArguments, HostArguments, RunningArguments};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost validate workflows/*.yaml
  wfhost validate flow.yaml --json | jq -r '.[].problems[] | \"\\(.at.file):\\(.at.line):\\(.at.column): \\(.message)\"'

With --json it is a list with an object for each file:
  file, valid
  steps      how many; null where the file is not valid
  count      how many problems there are; the first 100 are listed
  problems   code (a word that stays), message, hint (or null), at (file, line,
             column, end-line, end-column, from 1; null where the file cannot be
             read), related (other places of the same problem, where there are
             some: label, at)

Exit codes: 0 all files are valid, 2 they are not.")]
pub(in crate::cli) struct Validate {
    /// Workflow files; `-` is standard input.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub(in crate::cli) files: Vec<PathBuf>,
    /// Print the problems as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  wfhost plan workflows/weather/workflow.yaml
  wfhost plan flow.yaml --json | jq '.steps[] | select(.[\"timeout-ms\"] == null) | .id'

`wfhost plan --help` lists what --json prints.",
    after_long_help = "\
Examples:
  wfhost plan workflows/weather/workflow.yaml
  wfhost plan flow.yaml --json | jq '.steps[] | select(.[\"timeout-ms\"] == null) | .id'

Where the file cannot be used, --json gives status (refused), problem, and problems as `wfhost run --json` does. \
With --json it is one object. Durations are milliseconds, sizes are bytes; null is none, or no bound.
  name, digest   what the workflow is called, and what a run of it is pinned to
  inputs         name, required, schema (JSON Schema, with the default)
  components     name, source, digest
  steps          in an order in which each follows what it needs:
    id, pointer, stage          pointer leads to it in the file; those of one
                                stage can run together
    action                      uses, call, wait or set
    component, entry, with      of uses
    handler, with               of call
    wait, set                   their values, as the file has them
    needs, when, if             ids; an ending or [failed, unreached]; an
                                expression
    for-each, max-parallel      the list; how many items run at one time
    timeout-ms                  of one attempt
    retry                       max, backoff-min-ms, backoff-max-ms
    continue-on-error
    limits                      of uses: memory-bytes, fuel-per-step, fuel,
                                table-elements, commands-per-step, outstanding,
                                mailbox, payload-bytes, output-bytes,
                                spawn-depth, processes, links,
                                log-per-step-bytes, grace-ms
    allow                       for each capability its patterns
  outputs        names with values, as the file has them
  durability     journal or none"
)]
pub(in crate::cli) struct Plan {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// Print the plan as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost graph flow.yaml --format dot | dot -Tsvg > flow.svg
  wfhost graph flow.yaml --json | jq -r '.edges[] | \"\\(.from) \\(.to)\"' | tsort

Where the file cannot be used, --json gives status (refused), problem, and problems as `wfhost run --json` does. \
With --json it is one object:
  name
  nodes   id, action (uses, call, wait, set), label, stage (from 1),
          conditional, for-each (true or false)
  edges   from, to (ids), when (an ending, or [failed, unreached])")]
pub(in crate::cli) struct Graph {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// How to draw it.
    #[arg(short, long, value_enum, default_value_t = GraphFormat::Text)]
    pub(in crate::cli) format: GraphFormat,
    /// Print nodes and edges as JSON.
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum GraphFormat {
    /// Lines of text.
    Text,
    /// Mermaid, as Markdown renders it.
    Mermaid,
    /// Graphviz.
    Dot,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost inspect guests/built/hello.wasm
  wfhost inspect component.wasm --json | jq '.mismatches'
  wfhost inspect *.wasm

With --json it is one object, of several files a list of them:
  file, fits    whether it can be a step
  why, hint     where it cannot
  mismatches    where it cannot for its exports or imports: at, expected and
                found (as in WIT; null: nothing)
  digest, bytes, functions, exports, imports
  entries       what it says of its entry points, by name: description, input,
                output; null where it says nothing
  description   all that it says of itself; description-failure: why it could
                not
  pool          core-instances, memories, tables that each of its guests takes
  snapshots     fits, refused-for: whether it can give its slot to others while
                it waits without its help; saves-itself: whether it has the
                export `snapshot`, which helps where it does not fit

Exit codes: 0 each of them fits, 2 one does not.")]
pub(in crate::cli) struct Inspect {
    /// Components.
    #[arg(required = true, value_name = "COMPONENT", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) components: Vec<PathBuf>,
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost example
  wfhost example hello
  wfhost example weather some/folder

Without a name the examples are listed. Files that are there already are never overwritten.")]
pub(in crate::cli) struct Example {
    /// Which one.
    pub(in crate::cli) name: Option<String>,
    /// The folder that it is written to; it is made if it does not exist [default: one with the example's name].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the list, or what was written and the commands to run it, as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost doctor
  wfhost doctor --slots 1000 --json | jq .problems

Exit codes: 0 all is well, 1 there are problems.")]
pub(in crate::cli) struct Doctor {
    /// Print it as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) running: RunningArguments,
}
