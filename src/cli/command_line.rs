//! The command line as clap reads it.

use super::args::server;
use super::args::settings::{Settings, Unset};
use super::commands::{
    backup, blob, build, cache, cancel, check, deploy, dev, doctor, engine, example, fmt, fork, graph, history, inbox,
    inspect, lock, login, logs, ls, lsp, man, new, pause, plan, ps, push, query, replay, resolve, restore, resume,
    retry, rm, run, schedule, schema, serve, signal, status, test, token, top, trace, upgrade, validate, verify,
    workflow,
};
use super::report::error::{UserError, kind};
use super::terminal::Colour;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueHint};
use std::path::PathBuf;

const ABOUT: &str = "Run workflows that survive crashes: \
a step is an HTTP call, a wait, a value or a sandboxed WebAssembly component";

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "wfhost", version, about = ABOUT, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  wfhost example hello
  wfhost run hello/hello.yaml --input name=Ann
  wfhost ls
  wfhost resume --all
  wfhost validate workflows/*.yaml
  wfhost inspect guests/built/hello.wasm

Settings: a flag overrides its environment variable (WFHOST_ALLOW_ADDRESS, WFHOST_SLOTS, WFHOST_WORKERS, \
WFHOST_PROFILE, \
WFHOST_DATA, WFHOST_CACHE, WFHOST_CACHE_BYTES), and a variable overrides the configuration file, which has the same keys: \
`allow-address: [ localhost ]`. \
The file is wfhost/config.yaml in $XDG_CONFIG_HOME or ~/.config, unless --config or WFHOST_CONFIG names \
another. `wfhost doctor` \
shows the settings in effect.

Exit codes: 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled, timed out or suspended.")]
pub(in crate::cli) struct CommandLine {
    /// When to use colours: auto, always or never.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    #[arg(hide_possible_values = true, help_heading = "Global options")]
    pub(in crate::cli) color: Colour,
    /// Configuration file; an empty name reads none [default: `wfhost/config.yaml` in the user's
    /// configuration folder].
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Global options")]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(in crate::cli) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Command {
    /// Run a workflow and print its outputs.
    Run(Box<run::Arguments>),
    /// Resume suspended or paused runs.
    Resume(resume::Arguments),
    /// Serve an HTTP API over the data folder, and run what is in it.
    Serve(Box<serve::Arguments>),
    /// Make, list and revoke the tokens of the service.
    Token(token::Arguments),
    /// Show when scheduled workflows are due, and change the schedules of a service.
    Schedule(schedule::Arguments),
    /// Log in to a server: store its token for the commands that ask it.
    Login(login::Arguments),
    /// Log out of a server: remove its token here.
    Logout(login::LogoutArguments),
    /// Send workflows to a server, with their components, and activate them.
    Deploy(deploy::Arguments),
    /// List the workflows of a service, and activate or roll back their versions.
    Workflow(workflow::Arguments),
    /// Replay recorded runs on a version of a service, before anybody uses it.
    Check(check::Arguments),
    /// List runs, the newest first.
    Ls(ls::Arguments),
    /// List the runs that are executing now, in all processes of the data folder.
    Ps(ps::Arguments),
    /// List what waits for a person: signals, and calls whose outcome is unknown.
    Inbox(inbox::Arguments),
    /// Show the progress of a run.
    Status(status::Arguments),
    /// Show the log of a run.
    Logs(logs::Arguments),
    /// Show everything that happened in a run, record by record.
    History(history::Arguments),
    /// Show what a server does, in a table that changes.
    Top(top::Arguments),
    /// Draw a run over time, for Perfetto.
    Trace(trace::Arguments),
    /// Cancel a run.
    Cancel(cancel::Arguments),
    /// Pause a run until it is resumed.
    Pause(pause::Arguments),
    /// Send a signal to a run.
    Signal(signal::Arguments),
    /// Show a value that a run exposes, or the names of all.
    Query(query::Arguments),
    /// Settle a call whose outcome is unknown.
    Resolve(resolve::Arguments),
    /// Run the failed part of a run again, in a new run.
    Retry(retry::Arguments),
    /// Start a new run from the first records of another.
    Fork(fork::Arguments),
    /// Make a run that has not ended one of another version of its workflow.
    Upgrade(upgrade::Arguments),
    /// Replay a run from its records and show the first step that diverges.
    Replay(replay::Arguments),
    /// Replay a run from its records and compare its snapshots.
    Verify(verify::Arguments),
    /// Remove runs that have ended.
    Rm(rm::Arguments),
    /// List the blobs that a run holds, or get one of them.
    Blob(blob::Arguments),
    /// List or remove what is kept of steps with `cache`.
    Cache(cache::Arguments),
    /// Copy the data folder while runs execute in it.
    Backup(backup::Arguments),
    /// Make a data folder of such a copy.
    Restore(restore::Arguments),
    /// Execute the cases of workflows: guests are real, time is virtual.
    Test(test::Arguments),
    /// Check workflow files and show every problem with its position.
    Validate(validate::Arguments),
    /// Write down what workflows consist of, so that nothing else is run: wfhost.lock.
    Lock(lock::Arguments),
    /// Show what a run would do: order, grants, digests.
    Plan(plan::Arguments),
    /// Format workflow files.
    Fmt(fmt::Arguments),
    /// Serve an editor: the Language Server Protocol on standard input and output.
    Lsp(lsp::Arguments),
    /// Print the JSON Schema of workflow files, for editors.
    Schema(schema::Arguments),
    /// Draw a workflow's graph.
    Graph(graph::Arguments),
    /// Show what a component exports, imports and needs, and whether it fits.
    Inspect(inspect::Arguments),
    /// Push a component to an OCI registry.
    Push(push::Arguments),
    /// Make a folder to start from: a program, its workflow and the SDK of its language.
    New(new::Arguments),
    /// Build the component of a project, and check that it can be a step.
    Build(build::Arguments),
    /// Run a workflow again whenever one of its files changes.
    Dev(dev::Arguments),
    /// List the engines of scripts, or get that of Python.
    Engine(engine::Arguments),
    /// Write an example to start from: a workflow and its components.
    Example(example::Arguments),
    /// Check this machine: settings, pool sizes, kernel limits, folders of compiled code and runs.
    Doctor(doctor::Arguments),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  wfhost completions bash > ~/.local/share/bash-completion/completions/wfhost")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual, or write its pages to a folder.
    Man(man::Arguments),
    /// Print candidates for the last word, for completion scripts.
    #[command(hide = true)]
    Complete {
        /// The words after `wfhost`, the last one possibly incomplete.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

impl Command {
    /// Fills in what the flags do not set. Returns the settings in effect, and why the
    /// configuration file cannot be used, which only `doctor` tolerates.
    ///
    /// # Errors
    /// A flag, a variable of the environment or the configuration file cannot be used.
    pub(super) fn fill(&mut self, config: Option<PathBuf>) -> Result<(Settings, Option<UserError>), UserError> {
        if matches!(
            self,
            Self::Example(_)
                | Self::New(_)
                | Self::Man(_)
                | Self::Schema(_)
                | Self::Completions { .. }
                | Self::Complete { .. }
        ) {
            return Ok((Settings::none(), None));
        }
        let (mut settings, unusable) = Settings::read(config, matches!(self, Self::Doctor(_)))?;
        settings.fill(self.unset())?;
        self.check_folder()?;
        Ok((settings, unusable))
    }

    /// Refuses to do in a folder what the environment may mean for a server.
    fn check_folder(&self) -> Result<(), UserError> {
        let (name, data) = match self {
            Self::Replay(command) => ("replay", &command.data),
            Self::Verify(command) => ("verify", &command.data),
            Self::Ps(command) => ("ps", &command.data),
            Self::Backup(command) => ("backup", &command.data),
            Self::Cache(command) => ("cache", &command.data),
            _ => return Ok(()),
        };
        match server::of_environment().filter(|_| !data.is_flag) {
            None => Ok(()),
            Some(url) => {
                let title = format!("`wfhost {name}` works on a data folder, and WFHOST_SERVER names {url}");
                Err(UserError::new(kind::USAGE, title).hint("--data DIR names the folder; or unset WFHOST_SERVER"))
            }
        }
    }

    fn unset(&mut self) -> Unset<'_> {
        let (data, host) = match self {
            Self::Run(command) => (&mut command.target.data, Some(&mut command.host)),
            Self::Resume(command) => (&mut command.target.data, Some(&mut command.host)),
            Self::Retry(command) => (&mut command.new.target.data, Some(&mut command.new.host)),
            Self::Fork(command) => (&mut command.new.target.data, Some(&mut command.new.host)),
            Self::Upgrade(command) => (&mut command.target.data, Some(&mut command.host)),
            Self::Replay(command) => (&mut command.data, Some(&mut command.host)),
            Self::Verify(command) => (&mut command.data, Some(&mut command.host)),
            Self::Doctor(command) => (&mut command.data, Some(&mut command.host)),
            Self::Ls(command) => (&mut command.target.data, None),
            Self::Ps(command) => (&mut command.data, None),
            Self::Inbox(command) => (&mut command.target.data, None),
            Self::Status(command) => (&mut command.target.data, None),
            Self::Logs(command) => (&mut command.target.data, None),
            Self::History(command) => (&mut command.target.data, None),
            Self::Trace(command) => (&mut command.target.data, None),
            Self::Cancel(command) => (&mut command.act.target.data, None),
            Self::Pause(command) => (&mut command.act.target.data, None),
            Self::Signal(command) => (&mut command.act.target.data, None),
            Self::Query(command) => (&mut command.target.data, None),
            Self::Resolve(command) => (&mut command.act.target.data, None),
            Self::Rm(command) => (&mut command.target.data, None),
            Self::Blob(command) => (&mut command.target_mut().data, None),
            Self::Serve(command) => {
                let (data, host) = (Some(&mut command.data), Some(&mut command.host));
                return Unset { data, host, cache: None, webhooks: Some(&mut command.webhooks) };
            }
            Self::Token(command) => (&mut command.data, None),
            Self::Backup(command) => (&mut command.data, None),
            Self::Cache(command) => (&mut command.data, None),
            Self::Restore(command) => (&mut command.data, None),
            Self::Test(test::Arguments { cache, .. })
            | Self::Validate(validate::Arguments { cache, .. })
            | Self::Lsp(lsp::Arguments { cache, .. })
            | Self::Fmt(fmt::Arguments { cache, .. })
            | Self::Plan(plan::Arguments { cache, .. })
            | Self::Lock(lock::Arguments { cache, .. })
            | Self::Graph(graph::Arguments { cache, .. })
            | Self::Build(build::Arguments { cache, .. })
            | Self::Engine(engine::Arguments { cache, .. })
            | Self::Deploy(deploy::Arguments { cache, .. })
            | Self::Inspect(inspect::Arguments { cache, .. })
            | Self::Push(push::Arguments { cache, .. }) => {
                return Unset { cache: Some(cache), ..Unset::default() };
            }
            Self::Schedule(schedule) => {
                let cache = match &mut schedule.action {
                    schedule::Action::Next(next) => Some(&mut next.cache),
                    _ => None,
                };
                return Unset { cache, ..Unset::default() };
            }
            Self::Dev(command) => return Unset { host: Some(&mut command.host), ..Unset::default() },
            Self::Top(_)
            | Self::Login(_)
            | Self::Logout(_)
            | Self::Check(_)
            | Self::Workflow(_)
            | Self::Example(_)
            | Self::New(_)
            | Self::Man(_)
            | Self::Schema(_)
            | Self::Completions { .. }
            | Self::Complete { .. } => {
                return Unset::default();
            }
        };
        Unset { data: Some(data), host, ..Unset::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::CommandLine;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }

    /// An indented line fits in 80 columns, and no other text is wrapped by hand: the terminal
    /// wraps it once.
    #[test]
    fn the_text_below_help_is_wrapped_once() {
        let mut all = vec![CommandLine::command()];
        all.extend(CommandLine::command().get_subcommands().cloned());
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
