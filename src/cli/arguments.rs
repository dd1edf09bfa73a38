//! The command line as clap reads it.

use super::values::{self, CacheDir};
use crate::dispatch::http::Permission;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Runs workflows whose steps are sandboxed WebAssembly components.
#[derive(Parser, Debug)]
#[command(name = "wfhost", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  wfhost run workflows/hello.yaml --input name=Ann
  wfhost validate workflows/*.yaml
  wfhost inspect guests/built/hello.wasm

Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled or timed out.")]
pub(super) struct Arguments {
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(super) color: Colour,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Run a workflow and print its outputs.
    Run(Run),
    /// Check workflow files: every problem of each file, with its place.
    Validate(Validate),
    /// Show what a run would do: order, grants, digests.
    Plan(Plan),
    /// Draw a workflow's graph.
    Graph(Graph),
    /// Show what a component exports, imports and needs, and whether it fits.
    Inspect(Inspect),
    /// Look at this machine: pool sizes, kernel limits, cache.
    Doctor(Doctor),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  wfhost completions bash > ~/.local/share/bash-completion/completions/wfhost")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

macro_rules! run_help {
    () => {
        "\
Examples:
  wfhost run workflows/hello.yaml --input name=Ann
  wfhost run flow.yaml --input @inputs.json --input retries=5
  wfhost run flow.yaml --input csv=@weather.csv --json | jq .outputs
  wfhost run flow.yaml --timeout 10m --allow-address 127.0.0.0/8

Outputs go to standard output; progress, logs and problems go to standard error.
Ctrl-C cancels the run cleanly; pressed twice it ends the run at once.
Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled or timed out."
    };
}

#[derive(Args, Debug)]
#[command(
    after_help = run_help!(),
    after_long_help = concat!(
        run_help!(),
        "

With --json standard output is one object, however the run ends:
  status     succeeded, failed, cancelled, timed-out, or refused: nothing was run (exit code 2)
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
pub(super) struct Run {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs). A value is JSON where the input's type
    /// is not string. Later ones win.
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(super) inputs: Vec<String>,
    /// Print one JSON object: status, outputs or problem, statistics.
    #[arg(long)]
    pub(super) json: bool,
    /// Cancel the run after this long: `500ms`, `30s`, `5m`, `24h`, `PT1H` [default: never].
    #[arg(long, value_name = "DURATION", value_parser = values::timeout)]
    pub(super) timeout: Option<Duration>,
    /// No progress, no logs, no warnings: only outputs and problems.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Worker threads [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = values::workers, help_heading = "Host")]
    pub(super) workers: Option<usize>,
    /// Permit `http` to reach an address although it is loopback or private: an address, a network (`10.0.0.0/8`), `localhost`, or
    /// a name. Repeatable [default: public addresses only].
    #[arg(long = "allow-address", value_name = "ADDRESS", value_parser = values::address, help_heading = "Host")]
    pub(super) allow_addresses: Vec<Permission>,
    #[command(flatten)]
    pub(super) host: EngineArguments,
}

/// The engine of guests, for commands that start some.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(super) struct EngineArguments {
    /// Instance slots: how many guests may be live at once; others wait or are evicted [default: 64].
    #[arg(long, value_name = "N", value_parser = values::slots)]
    pub(super) slots: Option<u32>,
    /// Memory profile of guests [default: fast].
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(super) profile: Option<MemoryProfile>,
    #[command(flatten)]
    pub(super) code: HostArguments,
}

/// What every command may say that loads components.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(super) struct HostArguments {
    /// Folder of compiled code; an empty one: none is kept [default: `wfhost` in the user's cache folder].
    #[arg(long, env = "WFHOST_CACHE", hide_env_values = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(value_parser = OsStringValueParser::new().map(CacheDir::from))]
    pub(super) cache: Option<CacheDir>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryProfile {
    /// 4 GiB of address space each, no bounds checks.
    Fast,
    /// 64 MiB of address space each, explicit bounds checks: more guests in one host.
    Dense,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost validate workflows/*.yaml
  wfhost validate flow.yaml --json | jq -r '.[].problems[] | \"\\(.at.file):\\(.at.line):\\(.at.column): \\(.message)\"'

With --json it is a list with an object for each file:
  file, valid
  steps      how many; null where the file is not valid
  count      how many problems there are; the first 100 are listed
  problems   code (a word that stays), message, hint (or null),
             at (file, line, column, end-line, end-column, from 1; null where the file cannot be read),
             related (other places of the same problem, where there are some: label, at)

Exit codes: 0 all files are valid, 2 they are not.")]
pub(super) struct Validate {
    /// Workflow files.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,
    /// Print the problems as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
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

Where the file cannot be used, --json gives status (refused), problem, and problems as `wfhost run --json` does.
With --json it is one object. Durations are milliseconds, sizes are bytes; null is none, or no bound.
  name, digest   what the workflow is called, and what a run of it is pinned to
  inputs         name, required, schema (JSON Schema, with the default)
  components     name, source, digest
  steps          in an order in which each follows what it needs:
    id, pointer, stage          pointer leads to it in the file; those of one stage can run together
    action                      uses, call, wait or set
    component, entry, with      of uses
    handler, with               of call
    wait, set                   their values, as the file has them
    needs, when, if             ids; succeeded, failed, done or any; an expression
    for-each, max-parallel      the list; how many items run at one time
    timeout-ms                  of one attempt
    retry                       max, backoff-min-ms, backoff-max-ms
    continue-on-error
    limits                      of uses: memory-bytes, fuel-per-step, fuel, table-elements, commands-per-step,
                                outstanding, mailbox, payload-bytes, output-bytes, spawn-depth, processes, links,
                                log-per-step-bytes, grace-ms
    allow                       for each capability its patterns
  outputs        names with values, as the file has them
  durability     journal or none"
)]
pub(super) struct Plan {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Print the plan as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost graph flow.yaml --format dot | dot -Tsvg > flow.svg
  wfhost graph flow.yaml --json | jq -r '.edges[] | \"\\(.from) \\(.to)\"' | tsort

Where the file cannot be used, --json gives status (refused), problem, and problems as `wfhost run --json` does.
With --json it is one object:
  name
  nodes   id, action (uses, call, wait, set), label, stage (from 1), conditional, for-each (true or false)
  edges   from, to (ids), when (succeeded, failed, done, any)")]
pub(super) struct Graph {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// How to draw it.
    #[arg(short, long, value_enum, default_value_t = GraphFormat::Text)]
    pub(super) format: GraphFormat,
    /// Print nodes and edges as JSON.
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GraphFormat {
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

With --json it is one object:
  file, fits    whether it can be a step
  why, hint     where it cannot
  mismatches    where it cannot for its exports or imports: at, expected and found (as in WIT; null: nothing)
  digest, bytes, functions, exports, imports
  entries       what it says of its entry points, by name: description, input, output; null where it says nothing
  description   all that it says of itself; description-failure: why it could not
  pool          core-instances, memories, tables that each of its guests takes
  snapshots     fits, refused-for: whether it can give its slot to others while it waits

Exit codes: 0 it fits, 2 it does not.")]
pub(super) struct Inspect {
    /// The component.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) component: PathBuf,
    /// Print it as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost doctor
  wfhost doctor --slots 1000 --json | jq .problems

Exit codes: 0 all is well, 1 there are problems.")]
pub(super) struct Doctor {
    /// Print it as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: EngineArguments,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}
