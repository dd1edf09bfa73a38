//! `wfhost ls`.

use crate::cli::args::target::TargetArguments;
use crate::cli::args::values::{self, Since};
use crate::cli::commands::listing::{queue_text, status_name};
use crate::cli::commands::target::{ListWanted, Listed, Row, State};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::store::Ownership;
use crate::cli::table::{Table, moment, took};
use crate::cli::terminal::{Terminal, print, print_json, say};
use clap::Args;
use serde_json::Value;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost ls --status suspended
  wfhost ls --name billing --since 24h --json | jq -r '.[].run'

--json prints a list with one object per run:
  run, workflow     its id, and the name of its workflow
  status            running, suspended (not running: `wfhost resume`), damaged
                    (it cannot be resumed, as far as checked), succeeded,
                    failed, cancelled, timed-out
  started, ended    in RFC 3339; ended is null until it has
  records           how many there are; null while a host has the run
  state             of a running one: running, waiting, paused, queued or
                    stalled, as in `wfhost ps`
  group             the name of its concurrency group, if it has one
  queue             of one that waits for a place there: its number, how many
                    are waiting, and the runs ahead that have the places
  host              of a running one: the id of its process
  damage            of a damaged one, ended or not: what is wrong, as far as
                    checked")]
pub(in crate::cli) struct Arguments {
    /// Only runs with this status.
    #[arg(long, value_enum)]
    pub(in crate::cli) status: Option<State>,
    /// Only runs of the workflow with this name.
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Only runs started since then: `24h` ago, or a time like 2026-01-31 or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = values::since)]
    pub(in crate::cli) since: Option<Since>,
    /// Show at most N runs, the newest first [default: 50; with --json all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

/// Runs shown without `--limit`.
const ROWS_DEFAULT: u32 = 50;

pub(in crate::cli) fn ls(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let limit = command.limit.or((!command.json).then_some(ROWS_DEFAULT));
    let target = command.target.open()?;
    let Arguments { status, name, since, .. } = command;
    let (status, since) = (*status, since.map(|since| since.0));
    let Listed { rows, count } = target.list(&ListWanted { status, name: name.as_deref(), since, limit })?;
    if command.json {
        let list: Vec<Value> = rows.iter().map(Row::to_json).collect();
        print_json(&list)?;
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        say(&format!("no runs{} in {}", if is_filtered(command) { " of that kind" } else { "" }, target.name()));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["RUN", "WORKFLOW", "STATUS", "STARTED", "TOOK"]);
    for Row { stored, ownership, state, queue } in &rows {
        table.row(vec![
            stored.id.to_string(),
            stored.name.to_string(),
            match (stored.status, &stored.damage) {
                (Some(status), Some(_)) => format!("{} (damaged)", status.name()),
                _ => match queue {
                    Some(place) => queue_text(stored, place),
                    None => state.unwrap_or_else(|| status_name(stored, ownership)).to_owned(),
                },
            },
            moment(stored.created),
            stored.ended.map_or_else(String::new, |ended| took(stored.created, ended)),
        ]);
    }
    print(&table.text())?;
    let more = count.saturating_sub(rows.len() as u64);
    if more > 0 {
        say(&format!("and {more} more: --limit {count} shows them"));
    }
    if let Some(Row { stored, .. }) =
        rows.iter().find(|row| row.ownership == Ownership::Orphaned && row.stored.damage.is_some())
    {
        terminal.hint(&format!("`wfhost status {}` shows what is damaged", stored.id));
    }
    let suspended =
        rows.iter().filter(|row| row.ownership == Ownership::Orphaned && row.stored.damage.is_none()).count();
    if suspended > 0 {
        let whom = if suspended == 1 { "the suspended run" } else { "suspended runs" };
        terminal.hint(&format!("`wfhost resume RUN` resumes {whom}, `wfhost resume --all` all except paused ones"));
    }
    Ok(Exit::Success)
}

fn is_filtered(command: &Arguments) -> bool {
    command.status.is_some() || command.name.is_some() || command.since.is_some()
}
