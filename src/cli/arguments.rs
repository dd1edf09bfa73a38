//! The command line as clap reads it.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost run workflows/hello.yaml --input name=Ann
  wfhost run flow.yaml --input @inputs.json --input retries=5
  wfhost run flow.yaml --input csv=@weather.csv --json | jq .outputs
  wfhost run flow.yaml --timeout 10m --allow-address 127.0.0.0/8

Outputs go to standard output; progress, logs and problems go to standard error.
Ctrl-C cancels the run cleanly; pressed twice it ends at once.")]
pub(super) struct Run {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// An input: `key=value`, `key=@file` (its text), `@file.json` (an object of inputs). A value is JSON where the input's type
    /// is not string. Later ones win.
    #[arg(short, long = "input", value_name = "INPUT")]
    pub(super) inputs: Vec<String>,
    /// Worker threads; as many as the machine has processors where absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) workers: Option<u16>,
    /// Print one JSON object: status, outputs or problem, statistics.
    #[arg(long)]
    pub(super) json: bool,
    /// Cancel the run after this long (`500ms`, `30s`, `5m`, `24h`, `PT1H`).
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<String>,
    /// No progress, only outputs and problems.
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
}

/// The knobs of the host itself.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(super) struct HostArguments {
    /// Instance slots: how many guests may be live at once; others wait or are evicted.
    #[arg(long, value_name = "N")]
    pub(super) slots: Option<u32>,
    /// Memory profile of guests.
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(super) profile: Option<MemoryProfile>,
    /// Permit `http` to reach these addresses although they are loopback or private: a CIDR block. Repeatable.
    #[arg(long = "allow-address", value_name = "CIDR")]
    pub(super) allow_addresses: Vec<String>,
    /// Folder of compiled code.
    #[arg(long, env = "WFHOST_CACHE", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) cache: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryProfile {
    /// 4 GiB of address space each, no bounds checks.
    Fast,
    /// 64 MiB of address space each, explicit bounds checks: more guests in one host.
    Dense,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  wfhost validate workflows/*.yaml")]
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
#[command(after_help = "Example:\n  wfhost plan workflows/weather/workflow.yaml")]
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
#[command(after_help = "Example:\n  wfhost graph flow.yaml --format dot | dot -Tsvg > flow.svg")]
pub(super) struct Graph {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// How to draw it.
    #[arg(short, long, value_enum, default_value_t = GraphFormat::Text)]
    pub(super) format: GraphFormat,
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
#[command(after_help = "Example:\n  wfhost inspect guests/built/hello.wasm")]
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
pub(super) struct Doctor {
    /// Print it as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) host: HostArguments,
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
