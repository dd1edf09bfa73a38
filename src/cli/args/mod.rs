//! The command line as clap reads it.

mod again;
mod builders;
pub(in crate::cli) mod config;
mod files;
pub(in crate::cli) mod inputs;
mod run;
mod runs;
pub(in crate::cli) mod settings;
pub(in crate::cli) mod values;

pub(in crate::cli) use again::{ChangeArguments, Fork, NewArguments, Other, Replay, Retry, Verify};
pub(in crate::cli) use files::{Doctor, Example, Graph, GraphFormat, Inspect, Plan, Validate};
pub(in crate::cli) use run::{DurabilityChoice, Resume, Run};
pub(in crate::cli) use runs::{
    ActArguments, Cancel, History, Logs, Ls, Pause, Ps, Query, Remove, Resolve, Show, Signal, State,
};

use crate::dispatch::http::Permission;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use values::{Addresses, CacheDir};

/// Runs workflows whose steps are sandboxed WebAssembly components.
#[derive(Parser, Debug)]
#[command(name = "wfhost", version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  wfhost example hello
  wfhost run hello/hello.yaml --input name=Ann
  wfhost ls
  wfhost resume --all
  wfhost validate workflows/*.yaml
  wfhost inspect guests/built/hello.wasm

Settings: a flag comes before its environment variable (WFHOST_ALLOW_ADDRESS, WFHOST_SLOTS, WFHOST_WORKERS, WFHOST_PROFILE, \
WFHOST_DATA, WFHOST_CACHE), and that before the configuration file, which has the same keys: `allow-address: [ localhost ]`. \
The file is wfhost/config.yaml in $XDG_CONFIG_HOME or ~/.config, or what --config or WFHOST_CONFIG names. `wfhost doctor` \
shows the settings in effect.

Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled, timed out or suspended.")]
pub(in crate::cli) struct Arguments {
    /// When to use colours: auto, always or never.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", hide_possible_values = true)]
    #[arg(help_heading = "Global options")]
    pub(in crate::cli) color: Colour,
    /// Configuration file; an empty one: none is read [default: `wfhost/config.yaml` in the user's
    /// configuration folder].
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Global options")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(in crate::cli) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Command {
    /// Run a workflow and print its outputs.
    Run(Box<Run>),
    /// Resume suspended or paused runs.
    Resume(Resume),
    /// List runs, the newest first.
    Ls(Ls),
    /// List the runs that are executing now, in all processes of the data folder.
    Ps(Ps),
    /// Show the progress of a run.
    Status(Show),
    /// Show the log of a run.
    Logs(Logs),
    /// Show everything that happened in a run, record by record.
    History(History),
    /// Cancel a run.
    Cancel(Cancel),
    /// Pause a run until it is resumed.
    Pause(Pause),
    /// Send a signal to a run.
    Signal(Signal),
    /// Show the values that a run exposes.
    Query(Query),
    /// Settle a call whose outcome is unknown.
    Resolve(Resolve),
    /// Run the failed part of a run again, in a new run.
    Retry(Retry),
    /// Start a new run from the first records of another.
    Fork(Fork),
    /// Execute a run again from its records, and show the first difference.
    Replay(Replay),
    /// Execute a run again from its records, and compare its snapshots.
    Verify(Verify),
    /// Remove runs that have ended.
    Rm(Remove),
    /// Check workflow files: every problem, with its place.
    Validate(Validate),
    /// Show what a run would do: order, grants, digests.
    Plan(Plan),
    /// Draw a workflow's graph.
    Graph(Graph),
    /// Show what a component exports, imports and needs, and whether it fits.
    Inspect(Inspect),
    /// Write an example to begin with: a workflow and its components.
    Example(Example),
    /// Check this machine: settings, pool sizes, kernel limits, the folders of code and of runs.
    Doctor(Doctor),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  wfhost completions bash > ~/.local/share/bash-completion/completions/wfhost")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print what may stand in place of the last word: for completion scripts.
    #[command(hide = true)]
    Complete {
        /// The words after `wfhost`, the last one as far as it is written.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// The engine of guests, for commands that start some.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct EngineArguments {
    /// Instance slots: how many guests may be live at once; others wait or are evicted [default: 64].
    #[arg(long, value_name = "N", value_parser = values::slots)]
    pub(in crate::cli) slots: Option<u32>,
    /// Memory profile of guests [default: fast].
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(in crate::cli) profile: Option<MemoryProfile>,
    #[command(flatten)]
    pub(in crate::cli) code: HostArguments,
}

/// The host, for commands that run something.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct RunningArguments {
    /// Worker threads [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = values::workers)]
    pub(in crate::cli) workers: Option<usize>,
    /// Permit `http` to reach an address although it is loopback or private: an address, a network (`10.0.0.0/8`), `localhost`, or
    /// a name. Repeatable; `none` permits none [default: public addresses only].
    #[arg(long = "allow-address", value_name = "ADDRESS", value_parser = values::addresses)]
    pub(in crate::cli) allow: Vec<Addresses>,
    /// Those in effect, wherever they come from.
    #[arg(skip)]
    pub(in crate::cli) allow_addresses: Vec<Permission>,
    /// Whether they were chosen for this command alone.
    #[arg(skip)]
    pub(in crate::cli) chosen_addresses: bool,
    #[command(flatten)]
    pub(in crate::cli) engine: EngineArguments,
}

/// Where durable runs are.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct DataArguments {
    /// Folder of durable runs [default: `wfhost` in the user's data folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) data: Option<PathBuf>,
}

/// What every command may say that loads components.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Host")]
pub(in crate::cli) struct HostArguments {
    /// Folder of compiled code; an empty one: none is kept [default: `wfhost` in the user's cache folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(value_parser = OsStringValueParser::new().map(CacheDir::from))]
    pub(in crate::cli) cache: Option<CacheDir>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum MemoryProfile {
    /// 4 GiB of address space each, no bounds checks.
    Fast,
    /// 64 MiB of address space each, explicit bounds checks: more guests in one host.
    Dense,
}

impl MemoryProfile {
    /// As flags and files have it.
    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Dense => "dense",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// What stands in a line of its own stays in it on 80 columns, and nothing else is broken by
    /// hand: the terminal's width breaks it once.
    #[test]
    fn the_text_below_help_is_wrapped_once() {
        let mut all = vec![Arguments::command()];
        all.extend(Arguments::command().get_subcommands().cloned());
        for command in all {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            for line in texts
                .into_iter()
                .flatten()
                .flat_map(|text| text.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            {
                let is_whole = match line.strip_prefix("  ") {
                    Some(item) => item.starts_with("wfhost ") || line.chars().count() <= 80,
                    None => line.is_empty() || line.ends_with(['.', ':']),
                };
                assert!(is_whole, "{}: {line}", command.get_name());
            }
        }
    }
}
