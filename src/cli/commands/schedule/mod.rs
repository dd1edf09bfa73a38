//! `wfhost schedule`.

mod next;
mod remote;

use crate::cli::args::server::ServerArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::terminal::Terminal;
use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost schedule next report.yaml
  wfhost schedule ls
  wfhost schedule pause report
  wfhost schedule backfill report --from 2027-03-01T00:00:00Z \\
    --until 2027-03-08T00:00:00Z --dry-run

A workflow file says under `schedule` when it is started; `wfhost serve` starts it. `next` reads the file, and needs no \
service. The others ask the service that --server or WFHOST_SERVER names, with the token in WFHOST_TOKEN.")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    pub(in crate::cli) action: Action,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Action {
    /// Show when a workflow is due next, and what changes of clocks do to it.
    Next(next::Arguments),
    /// List the schedules of a service.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Show a schedule, and what happened at its last due times.
    Show(Named),
    /// Pause a schedule until it is resumed.
    Pause(Named),
    /// Resume a schedule. What was due meanwhile is not caught up.
    Resume(Named),
    /// Start a run of a schedule now, and print its id.
    Run(Named),
    /// Start the runs of due times that have passed and have none.
    Backfill {
        #[command(flatten)]
        named: Named,
        /// From this time of RFC 3339 on.
        #[arg(long, value_name = "TIME", value_parser = time)]
        from: At,
        /// Until this time.
        #[arg(long, value_name = "TIME", value_parser = time)]
        until: At,
        /// Show what would be started, and start nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

/// A schedule of a service.
#[derive(Args, Debug)]
pub(in crate::cli) struct Named {
    /// Name of the schedule: that of the workflow, or the one that it has in the API.
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArguments,
}

/// A time that was written in RFC 3339.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct At(jiff::Timestamp);

/// Reads a time of RFC 3339.
fn time(text: &str) -> Result<At, String> {
    let at: jiff::Timestamp = text
        .parse()
        .map_err(|_| "a time is written as 2027-03-27T00:00:00Z or 2027-03-27T01:00:00+01:00".to_owned())?;
    if at < jiff::Timestamp::UNIX_EPOCH {
        return Err("times begin in 1970".to_owned());
    }
    Ok(At(at))
}

impl Arguments {
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::Next(command) => command.json,
            Action::Ls { json, .. } => *json,
            Action::Show(named) | Action::Pause(named) | Action::Resume(named) | Action::Run(named) => named.json,
            Action::Backfill { named, .. } => named.json,
        }
    }
}

pub(in crate::cli) fn schedule(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    match &command.action {
        Action::Next(command) => next::next(command, terminal),
        Action::Ls { json, server } => remote::ls(server, *json),
        Action::Show(named) => remote::show(named),
        Action::Pause(named) => remote::act(named, "pause"),
        Action::Resume(named) => remote::act(named, "resume"),
        Action::Run(named) => remote::act(named, "run"),
        Action::Backfill { named, from, until, dry_run } => remote::backfill(named, from, until, *dry_run),
    }
}
