//! `wfhost rm`: removing runs, and what only they needed.

use crate::cli::args::data::DataArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::store::{Ownership, Runs};
use crate::cli::terminal::{Terminal, print, quoted, say};
use crate::journal::{Journal as _, Retention, StoreError, Stored};
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
    pub(in crate::cli) data: DataArguments,
}

pub(in crate::cli) fn rm(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let removed = match (command.data.open()?, command.runs.first()) {
        (Some(runs), _) => remove(&runs, command)?,
        (None, None) => Removed::default(),
        // This reports that the run does not exist.
        (None, Some(given)) => command.data.find(given).map(|_| Removed::default())?,
    };
    if command.json {
        print(&json!({ "removed": removed.count }).to_string())?;
    } else {
        say(&removed.text());
    }
    Ok(Exit::Success)
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

fn remove(runs: &Runs, command: &Arguments) -> Result<Removed, CommandError> {
    let mut meant = Vec::new();
    // Report what cannot be removed before removing anything.
    for given in &command.runs {
        let stored = runs.find(given)?;
        if *stored.id != **given {
            // Removal is final, so it never acts on a guess.
            let title = format!("there is no run `{}`, and a run to remove is named by its full id", quoted(given));
            let refused = UserError::new(kind::UNKNOWN_RUN, title);
            return Err(refused.hint(format!("one id begins so: wfhost rm {}", stored.id)).into());
        }
        check(runs, &stored, command.unfinished)?;
        meant.push(stored.id);
    }
    let mut removed = Removed::default();
    for id in meant {
        match runs.store.remove(&id) {
            Ok(()) => removed.add(id),
            // Another process was quicker, or the run was named twice.
            Err(StoreError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let before = |age| system_time().saturating_sub(Micros::from(age));
    // With no bound given, the sweep removes only what the removed runs needed.
    let retention = Retention { ended_before: command.older_than.map(before), runs_max: command.keep.map(u64::from) };
    removed.count += runs.store.sweep(&retention)?;
    Ok(removed)
}

fn check(runs: &Runs, stored: &Stored, unfinished: bool) -> Result<(), CommandError> {
    let id = &stored.id;
    match runs.ownership(stored)? {
        Ownership::Ended => Ok(()),
        Ownership::Orphaned if unfinished => Ok(()),
        Ownership::Orphaned => {
            let way = match &stored.damage {
                Some(why) => format!("it cannot be resumed: {why}"),
                None => format!("`wfhost resume {id}` resumes it"),
            };
            Err(UserError::new(kind::WRONG_STATE, format!("the run {id} has not ended"))
                .hint(format!("{way}; --unfinished removes it for good"))
                .into())
        }
        Ownership::Owned(owner) => {
            Err(UserError::new(kind::WRONG_STATE, format!("the run {id} is running in process {}", owner.pid))
                .hint(format!("to end it: wfhost cancel {id}"))
                .into())
        }
    }
}
