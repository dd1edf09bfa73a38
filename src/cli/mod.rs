//! The command line. Data goes to standard output, everything else to standard error.
//!
//! Imports run one way: `command_line`, `usage` → [`commands`] → [`watch`] → [`store`] →
//! [`output_dir`] → [`args`] → [`project`] → [`report`] → `table`, `terminal`, `exit`. Exit codes:
//! 0 success, 1 the run failed, 2 usage or definition error, 3 cancelled, timed out or suspended. A
//! closed pipe is success: its reader has what it wanted.
//!
//! The command line decides nothing: an embedder can do all of this through [`crate::host`].

mod args;
mod command_line;
mod commands;
mod exit;
mod output_dir;
mod project;
mod report;
mod store;
mod table;
mod terminal;
mod usage;
mod watch;

use clap::{CommandFactory as _, Parser as _};
use command_line::{Command, CommandLine};
use commands::{
    backup, blob, build, cache, cancel, check, completions, deploy, dev, doctor, engine, example, fmt, fork, graph,
    history, inbox, inspect, lock, login, logs, ls, lsp, man, new, pause, plan, ps, push, query, replay, resolve,
    restore, resume, retry, rm, run, schedule, schema, serve, signal, status, test, token, top, trace, upgrade,
    validate, verify, workflow,
};
use exit::Exit;
use report::error::CommandError;
use std::process::ExitCode;
use terminal::Terminal;

/// Parses the command line and executes its command.
pub fn main() -> ExitCode {
    crate::guest::serve_compiler();
    let mut arguments = match CommandLine::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::report(error).into(),
    };
    let terminal = Terminal::new(arguments.color);
    let (settings, unusable) = match arguments.command.fill(arguments.config.take()) {
        Ok(filled) => filled,
        Err(refused) => return usage::report_user_error(refused, terminal).into(),
    };
    let done = match arguments.command {
        Command::Run(command) => run::run(&command, terminal),
        Command::Resume(command) => resume::resume(&command, terminal),
        Command::Serve(command) => reported(serve::serve(&command, terminal), false, terminal),
        Command::Token(command) => reported(token::token(&command), command.json(), terminal),
        Command::Schedule(command) => reported(schedule::schedule(&command, terminal), command.json(), terminal),
        Command::Login(command) => reported(login::login(&command), false, terminal),
        Command::Logout(command) => reported(login::logout(&command), false, terminal),
        Command::Deploy(command) => reported(deploy::deploy(&command, terminal), command.json, terminal),
        Command::Workflow(command) => reported(workflow::workflow(&command), command.json(), terminal),
        Command::Test(command) => reported(test::test(&command, terminal), command.json, terminal),
        Command::Check(command) => reported(check::check(&command, terminal), command.json, terminal),
        Command::Ls(command) => reported(ls::ls(&command, terminal), command.json, terminal),
        Command::Ps(command) => reported(ps::ps(&command, terminal), command.json, terminal),
        Command::Inbox(command) => reported(inbox::inbox(&command, terminal), command.json, terminal),
        Command::Status(command) => reported(status::status(&command, terminal), command.json, terminal),
        Command::Logs(command) => reported(logs::logs(&command, terminal), command.json, terminal),
        Command::Top(command) => reported(top::top(&command, terminal), false, terminal),
        Command::Trace(command) => reported(trace::trace(&command, terminal), false, terminal),
        Command::History(command) => reported(history::history(&command, terminal), command.json, terminal),
        Command::Cancel(command) => reported(cancel::cancel(&command, terminal), false, terminal),
        Command::Pause(command) => reported(pause::pause(&command, terminal), false, terminal),
        Command::Signal(command) => reported(signal::signal(&command, terminal), false, terminal),
        Command::Query(command) => reported(query::query(&command, terminal), false, terminal),
        Command::Resolve(command) => reported(resolve::resolve(&command, terminal), false, terminal),
        Command::Retry(command) => retry::retry(&command, terminal),
        Command::Fork(command) => fork::fork(&command, terminal),
        Command::Upgrade(command) => reported(upgrade::upgrade(&command, terminal), command.json, terminal),
        Command::Replay(command) => reported(replay::replay(&command, terminal), command.json, terminal),
        Command::Verify(command) => reported(verify::verify(&command, terminal), command.json, terminal),
        Command::Rm(command) => reported(rm::rm(&command, terminal), command.json, terminal),
        Command::Blob(command) => reported(blob::blob(&command, terminal), command.json(), terminal),
        Command::Cache(command) => reported(cache::cache(&command, terminal), command.json(), terminal),
        Command::Backup(command) => reported(backup::backup(&command, terminal), command.json, terminal),
        Command::Restore(command) => reported(restore::restore(&command, terminal), command.json, terminal),
        Command::Validate(command) => validate::validate(&command, terminal),
        Command::Lock(command) => reported(lock::lock(&command, terminal), command.json, terminal),
        Command::Plan(command) => plan::plan(&command, terminal),
        Command::Fmt(command) => fmt::fmt(&command, terminal),
        Command::Lsp(command) => lsp::lsp(&command),
        Command::Schema(command) => schema::schema(&command),
        Command::Graph(command) => graph::graph(&command, terminal),
        Command::Inspect(command) => inspect::inspect(&command, terminal),
        Command::Push(command) => reported(push::push(&command), command.json, terminal),
        Command::New(command) => reported(new::new(&command), command.json, terminal),
        Command::Build(command) => reported(build::build(&command, terminal), command.json, terminal),
        Command::Dev(command) => reported(dev::dev(&command, terminal), false, terminal),
        Command::Engine(command) => reported(engine::engine(&command), command.json, terminal),
        Command::Example(command) => reported(example::example(&command), command.json, terminal),
        Command::Doctor(command) => doctor::doctor(&command, &settings, unusable),
        Command::Completions { shell } => completions::completions(shell, CommandLine::command()),
        Command::Man(command) => reported(man::man(&command, CommandLine::command()), false, terminal),
        Command::Complete { words } => completions::complete(&words),
    };
    done.unwrap_or_else(|error| internal(&error, terminal)).into()
}

/// The exit of a command that failed.
fn internal(error: &anyhow::Error, terminal: Terminal) -> Exit {
    terminal.error(&format!("{error:#}"), None);
    // Output that cannot be written is not a usage error.
    if error.is::<std::io::Error>() { Exit::Failed } else { Exit::Usage }
}

/// The exit of a command; an error is reported as text or as JSON.
fn reported(done: Result<Exit, CommandError>, json: bool, terminal: Terminal) -> anyhow::Result<Exit> {
    done.or_else(|error| error.report(json, terminal))
}
