//! `wfhost rm`: removing runs, and what only they needed.

use crate::cli::args::target::TargetArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, print, say};
use crate::journal::Retention;
use crate::process::Micros;
use crate::run::system_time;
use clap::Args;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost rm order-4711
  wfhost rm --older-than 30d
  wfhost rm --keep 1000

A run must be named by its full id. --older-than and --keep remove only runs that have ended. Components \
that no run uses are \
removed too once they are an hour old. An unfinished run that is not running is removed if it is named and \
--unfinished is given. The \
journal file does not shrink: new runs use its free space.")]
pub(in crate::cli) struct Arguments {
    /// Full ids of the runs to remove.
    #[arg(required_unless_present_any = ["older_than", "keep"])]
    pub(in crate::cli) runs: Vec<String>,
    /// Remove all runs that ended longer ago than this.
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(in crate::cli) older_than: Option<Duration>,
    /// Remove all ended runs except the newest N; combines with --older-than.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) keep: Option<u32>,
    /// Remove them even if they have not ended; they can then never be resumed.
    #[arg(long, requires = "runs")]
    pub(in crate::cli) unfinished: bool,
    /// Print how many were removed as JSON: `{"removed": 3}`.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

pub(in crate::cli) fn rm(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let removed = if command.target.address().is_some() { of_server(command)? } else { of_folder(command)? };
    if command.json {
        print(&json!({ "removed": removed.count }).to_string())?;
    } else {
        say(&removed.text());
    }
    Ok(Exit::Success)
}

/// Removes runs of a folder, and sweeps it.
fn of_folder(command: &Arguments) -> Result<Removed, CommandError> {
    let mut removed = named(command)?;
    let Some(runs) = command.target.data.open()? else { return Ok(removed) };
    let before = |age| system_time().saturating_sub(Micros::from(age));
    // With no bound given, the sweep removes only what the removed runs needed.
    let retention = Retention { ended_before: command.older_than.map(before), runs_max: command.keep.map(u64::from) };
    removed.count += runs.store.sweep(&retention)?;
    Ok(removed)
}

/// Removes runs of a server, which sweeps by itself.
fn of_server(command: &Arguments) -> Result<Removed, CommandError> {
    if command.older_than.is_some() || command.keep.is_some() || command.unfinished {
        let refused = UserError::new(kind::USAGE, "a server removes the runs that are named, once they have ended");
        return Err(refused.hint("`wfhost rm RUN --server URL`; --older-than and --keep are for a data folder").into());
    }
    named(command)
}

/// Removes the runs that are named.
fn named(command: &Arguments) -> Result<Removed, CommandError> {
    let mut removed = Removed::default();
    for id in command.target.open()?.remove(&command.runs, command.unfinished)? {
        removed.add(id);
    }
    Ok(removed)
}

/// Removed ids that are listed. Arbitrary: some lines.
const LISTED_MAX: usize = 20;

/// What was removed.
#[derive(Default)]
struct Removed {
    count: u64,
    /// The first of those that were named.
    listed: Vec<Arc<str>>,
}

impl Removed {
    fn add(&mut self, id: Arc<str>) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(id);
        }
    }

    fn text(&self) -> String {
        let plural = if self.count == 1 { "" } else { "s" };
        let more = if self.count > self.listed.len() as u64 { ", and more" } else { "" };
        let listed = if self.listed.is_empty() { String::new() } else { format!(": {}{more}", self.listed.join(", ")) };
        format!("removed {} run{plural}{listed}", self.count)
    }
}
