//! The command line: one file per command, and the terminal.
//!
//! Data goes to standard output, talk to standard error. Exit codes: 0 success, 1 the run failed, 2 usage or definition error,
//! 3 cancelled, timed out or suspended; a reader that closes its pipe has what it wanted.
//!
//! It decides nothing: everything here can be done by an embedder through [`crate::host`].

mod args;
mod commands;
mod report;
mod store;
mod table;
mod terminal;
mod usage;
mod watch;

use crate::host::{Host, LoadError, Workflow, read_definition};
use args::settings::Settings;
use args::{Arguments, Command, HostArguments};
use clap::Parser;
use commands::{
    acts, completions, doctor, example, graph, history, inspect, logs, ls, new_run, plan, ps, query, replay, resume,
    rm, run, status, validate,
};
use report::compiling::say_compiling;
use report::error::{Refused, Stop};
use std::path::Path;
use std::process::ExitCode;
use terminal::Terminal;

/// What a command came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    Success,
    /// The run failed.
    Failed,
    /// A usage or definition error.
    Usage,
    /// Cancelled, timed out, or suspended.
    Cancelled,
}

impl Exit {
    fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Cancelled => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code() as u8)
    }
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    crate::guest::serve_compiler();
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::tell(error).into(),
    };
    let terminal = Terminal::new(arguments.color);
    let (settings, unusable) = match Settings::fill(&mut arguments) {
        Ok(filled) => filled,
        Err(refused) => return usage::refuse(refused, terminal).into(),
    };
    let done = match arguments.command {
        Command::Run(command) => run::run(&command, terminal),
        Command::Resume(command) => resume::resume(&command, terminal),
        Command::Ls(command) => told(ls::ls(&command, terminal), command.json, terminal),
        Command::Ps(command) => told(ps::ps(&command, terminal), command.json, terminal),
        Command::Status(command) => told(status::status(&command, terminal), command.json, terminal),
        Command::Logs(command) => told(logs::logs(&command, terminal), command.json, terminal),
        Command::History(command) => told(history::history(&command, terminal), command.json, terminal),
        Command::Cancel(command) => told(acts::cancel(&command, terminal), false, terminal),
        Command::Pause(command) => told(acts::pause(&command, terminal), false, terminal),
        Command::Signal(command) => told(acts::signal(&command, terminal), false, terminal),
        Command::Query(command) => told(query::query(&command, terminal), false, terminal),
        Command::Resolve(command) => told(acts::resolve(&command, terminal), false, terminal),
        Command::Retry(command) => new_run::retry(&command, terminal),
        Command::Fork(command) => new_run::fork(&command, terminal),
        Command::Replay(command) => told(replay::replay(&command, terminal), command.json, terminal),
        Command::Verify(command) => told(replay::verify(&command, terminal), command.json, terminal),
        Command::Rm(command) => told(rm::rm(&command, terminal), command.json, terminal),
        Command::Validate(command) => validate::validate(&command, terminal),
        Command::Plan(command) => plan::plan(&command, terminal),
        Command::Graph(command) => graph::graph(&command, terminal),
        Command::Inspect(command) => inspect::inspect(&command, terminal),
        Command::Example(command) => told(example::example(&command), command.json, terminal),
        Command::Doctor(command) => doctor::doctor(&command, &settings, unusable),
        Command::Completions { shell } => completions::completions(shell),
        Command::Complete { words } => completions::complete(&words),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal.error(&format!("{error:#}"), None);
            // What cannot be written is no fault of the command's words.
            if error.is::<std::io::Error>() { Exit::Failed.into() } else { Exit::Usage.into() }
        }
    }
}

/// How a command ends that may have been stopped: why is told as people or programs want it.
fn told(done: Result<Exit, Stop>, json: bool, terminal: Terminal) -> anyhow::Result<Exit> {
    done.or_else(|stop| stop.tell(json, terminal))
}

/// What a workflow is called that comes from standard input.
const STDIN: &str = "stdin";

/// Loads a workflow file, or what comes from standard input: then paths are taken from the current folder.
fn load_file(host: &Host, file: &Path) -> Result<Workflow, LoadError> {
    if file != Path::new("-") {
        return host.load(file);
    }
    let text = read_definition(Path::new("/dev/stdin"))?;
    host.parse(STDIN, &text, ".")
}

/// Loads a workflow that is looked at and not run. None where it has problems: they have been told.
fn load(host: &HostArguments, file: &Path, json: bool, terminal: Terminal) -> anyhow::Result<Option<Workflow>> {
    let host = host.builder(validate::NO_SLOTS).workers(1).on_compile(say_compiling(json)).build()?;
    match load_file(&host, file).map_err(Refused::from) {
        Ok(workflow) => Ok(Some(workflow)),
        Err(refused) => {
            if json {
                refused.print()?;
            } else {
                refused.say(terminal);
            }
            Ok(None)
        }
    }
}
