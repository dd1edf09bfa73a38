//! `wfhost cache`: what is kept of steps with `cache`.

use crate::cli::args::data::DataArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::units::rough_size;
use crate::cli::table::{Table, counted, rfc3339, took};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::journal::{CacheEntry, Removal, StepCache};
use crate::process::{Micros, Timestamp};
use crate::run::system_time;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost cache ls
  wfhost cache ls --json | jq 'map(.bytes) | add'
  wfhost cache rm 4f0c
  wfhost cache rm --workflow thumbnails
  wfhost cache rm --older 7d

A step with `cache` uses what an earlier run computed, if that is here. The cache is a file of the data folder, \
and can be removed at any time: the next run computes anew what it needs. `wfhost run --no-cache` neither uses \
nor keeps anything.")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    pub(in crate::cli) action: Action,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Action {
    /// List the outcomes that are kept, the last used first.
    #[command(after_help = "\
--json prints a list with one object for each outcome:
  key               what it is found by
  workflow, step    what it is the outcome of
  run               the run that computed it
  at, used          when that was, and when it was last used, in RFC 3339
  expires           from when on it is not used; null if never
  hits              how often it was used
  bytes             what it takes")]
    Ls {
        /// Show at most N outcomes [default: 50; with --json all].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove outcomes.
    Rm {
        /// Remove the outcomes whose key begins so.
        #[arg(required_unless_present_any = ["workflow", "older", "all"])]
        key: Option<String>,
        /// Remove those of the workflow with this name.
        #[arg(long, value_name = "NAME", conflicts_with = "key")]
        workflow: Option<String>,
        /// Remove those that were computed longer ago than this.
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        #[arg(conflicts_with_all = ["key", "workflow"])]
        older: Option<Duration>,
        /// Remove all.
        #[arg(long, conflicts_with_all = ["key", "workflow", "older"])]
        all: bool,
        /// Print JSON: `{"removed": 3, "bytes": 1200}`.
        #[arg(long)]
        json: bool,
    },
}

/// Outcomes shown without `--limit`.
const ROWS_DEFAULT: u32 = 50;
/// Characters of a key that are shown: enough to name it.
const KEY_CHARS: usize = 12;

impl Arguments {
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::Ls { json, .. } | Action::Rm { json, .. } => *json,
        }
    }
}

pub(in crate::cli) fn cache(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    match &command.action {
        Action::Ls { limit, json } => ls(&command.data, *limit, *json)?,
        Action::Rm { key, workflow, older, json, all: _ } => {
            let which = match (key, workflow, older) {
                (Some(key), ..) => Removal::Key(key.clone()),
                (_, Some(name), _) => Removal::Workflow(name.clone()),
                (.., Some(age)) => Removal::Before(system_time().saturating_sub(Micros::from(*age))),
                _ => Removal::All,
            };
            rm(&command.data, &which, *json)?;
        }
    }
    Ok(Exit::Success)
}

fn unreadable(why: String) -> UserError {
    UserError::new(kind::UNREADABLE, "the cache of steps cannot be used").hint(why)
}

fn ls(data: &DataArguments, limit: Option<u32>, as_json: bool) -> Result<(), CommandError> {
    let entries = StepCache::list(&data.required()?).map_err(unreadable)?;
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    if as_json {
        let list: Vec<Value> = entries.iter().take(most).map(entry_json).collect();
        print_json(&Value::Array(list))?;
        return Ok(());
    }
    if entries.is_empty() {
        say("nothing is kept");
        return Ok(());
    }
    let most = if limit.is_none() { ROWS_DEFAULT as usize } else { most };
    let now = system_time();
    let mut table = Table::new(&["KEY", "STEP", "SIZE", "HITS", "AGE", "EXPIRES", "RUN"]);
    for entry in entries.iter().take(most) {
        let expires = entry.expires.map_or(String::new(), |expires| {
            if expires > now { format!("in {}", took(now, expires)) } else { "expired".to_owned() }
        });
        table.row(vec![
            entry.key.chars().take(KEY_CHARS).collect(),
            entry.of.clone(),
            rough_size(entry.bytes),
            entry.hits.to_string(),
            took(entry.at, now.max(entry.at)),
            expires,
            entry.run.clone(),
        ]);
    }
    print(&table.without_empty_columns().text())?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let more = entries.len().saturating_sub(most);
    let more = if more > 0 { format!("; {more} not shown") } else { String::new() };
    say(&format!("{}, {}{more}", counted(entries.len() as u64, "outcome", "outcomes"), rough_size(bytes)));
    Ok(())
}

fn entry_json(entry: &CacheEntry) -> Value {
    let CacheEntry { key, of, run, at, used, expires, hits, bytes } = entry;
    let (workflow, step) = of.rsplit_once('/').unwrap_or(("", of));
    let time = |time: Timestamp| rfc3339(time);
    json!({
        "key": key, "workflow": workflow, "step": step, "run": run, "at": time(*at), "used": time(*used),
        "expires": expires.map(time), "hits": hits, "bytes": bytes,
    })
}

fn rm(data: &DataArguments, which: &Removal, as_json: bool) -> Result<(), CommandError> {
    let (removed, bytes) = StepCache::remove(&data.required()?, which).map_err(unreadable)?;
    if as_json {
        print_json(&json!({ "removed": removed, "bytes": bytes }))?;
    } else {
        say(&format!("removed {}, {}", counted(removed, "outcome", "outcomes"), rough_size(bytes)));
    }
    Ok(())
}
