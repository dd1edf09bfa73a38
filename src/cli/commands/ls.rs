//! `wfhost ls`.

use crate::cli::args::data::DataArguments;
use crate::cli::args::values::{self, Since};
use crate::cli::commands::listing::{queue_place, queue_text, run_json, status_name};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::store::{Ownership, OwnershipCache, Runs};
use crate::cli::table::{Table, moment, took};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::host::control::{Answer, Client, Request, RunState};
use crate::journal::{Filter, Journal as _, QueuePlace, Stored};
use crate::run::EndStatus;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The status of a run.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum State {
    /// A host executes it, even if it only waits.
    Running,
    /// A host executes it, and everything in it is waiting for a signal, a timer or a reply.
    Waiting,
    /// A host executes it, and an operator has paused it.
    Paused,
    /// It waits for a place in its concurrency group, whether or not a host executes it.
    Queued,
    /// It has not ended and is not running: `wfhost resume` continues it.
    Suspended,
    /// It has not ended and cannot be resumed: its records are damaged.
    Damaged,
    /// It produced its outputs.
    Succeeded,
    /// It ended with a problem.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled because it took too long.
    TimedOut,
}

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
    pub(in crate::cli) data: DataArguments,
}

/// Runs shown without `--limit`.
const ROWS_DEFAULT: u32 = 50;

pub(in crate::cli) fn ls(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let limit = command.limit.or((!command.json).then_some(ROWS_DEFAULT));
    let (rows, count) = match command.data.open()? {
        Some(runs) => rows(&runs, command, limit)?,
        None => (Vec::new(), 0),
    };
    if command.json {
        let list: Vec<Value> = rows.iter().map(Row::to_json).collect();
        print_json(&list)?;
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        say(&format!(
            "no runs{} in {}",
            if is_filtered(command) { " of that kind" } else { "" },
            command.data.required()?.display()
        ));
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

/// A run and its ownership.
struct Row {
    stored: Stored,
    ownership: Ownership,
    /// Its state, if its host reports one.
    state: Option<&'static str>,
    /// Its place in the queue of its concurrency group.
    queue: Option<QueuePlace>,
}

impl Row {
    fn to_json(&self) -> Value {
        let mut value = run_json(&self.stored, &self.ownership);
        if let Some(state) = self.state {
            value["state"] = json!(state);
        }
        if let Some(place) = &self.queue {
            value["queue"] = json!(place);
        }
        value
    }
}

/// How long a host may take to report the states of its runs. Arbitrary: a list is not worth more;
/// without an answer they are running.
const STATES_WITHIN: Duration = Duration::from_secs(1);

/// The states of the runs of live hosts, by id.
fn states(owners: &OwnershipCache) -> BTreeMap<Arc<str>, &'static str> {
    let ask = |host: Client| match host.ask_within(STATES_WITHIN, Request::Runs) {
        Ok(Answer::Runs(facts)) => facts,
        _ => Vec::new(),
    };
    let hosts = owners.0.values().flatten().filter_map(|owner| Client::recorded(owner.socket.as_deref()?));
    std::thread::scope(|scope| {
        let asked: Vec<_> = hosts.map(|host| scope.spawn(move || ask(host))).collect();
        let facts = asked.into_iter().filter_map(|asked| asked.join().ok()).flatten();
        facts.map(|facts| (Arc::clone(&facts.run), facts.state_name())).collect()
    })
}

/// Checks that the workflow and inputs of a suspended run can still be read, and notes the damage
/// in the journal if not. They are small and have a digest; the records are left to `status` and
/// `doctor`.
fn examine(runs: &Runs, stored: &mut Stored, ownership: &Ownership) {
    // It may have been removed in the meantime.
    if *ownership == Ownership::Orphaned
        && stored.damage.is_none()
        && let Ok(Err(why)) = runs.try_manifest(&stored.id)
    {
        // If the note cannot be written, the damage is found again next time.
        let _ = runs.store.note_damage(&stored.id, &why);
        stored.damage = Some(why.into());
    }
}

/// The requested runs, and how many there would be without the limit.
fn rows(runs: &Runs, command: &Arguments, limit: Option<u32>) -> Result<(Vec<Row>, u64), CommandError> {
    let mut filter = Filter { name: command.name.clone(), ..Filter::default() };
    filter.created_min = command.since.map(|since| since.0);
    match command.status {
        None => {}
        Some(State::Running | State::Waiting | State::Paused | State::Suspended) => filter.ended = Some(false),
        Some(State::Queued) => (filter.ended, filter.queued) = (Some(false), true),
        Some(State::Damaged) => filter.damaged = true,
        Some(State::Succeeded) => filter.status = Some(EndStatus::Succeeded),
        Some(State::Failed) => filter.status = Some(EndStatus::Failed),
        Some(State::Cancelled) => filter.status = Some(EndStatus::Cancelled),
        Some(State::TimedOut) => filter.status = Some(EndStatus::TimedOut),
    }
    // The store does not know whether an unfinished run has a live host.
    let is_wanted = |stored: &Stored, ownership: &Ownership| match command.status {
        Some(State::Running | State::Waiting | State::Paused) => matches!(ownership, Ownership::Owned(_)),
        Some(State::Queued) => stored.queued,
        Some(State::Suspended) => *ownership == Ownership::Orphaned && stored.damage.is_none(),
        Some(State::Damaged) => !matches!(ownership, Ownership::Owned(_)),
        _ => true,
    };
    let is_exact = filter.ended.is_none() && !filter.damaged;
    filter.limit = limit.filter(|_| is_exact);
    let mut owners = OwnershipCache::default();
    if matches!(command.status, Some(State::Damaged)) {
        for mut stored in runs.store.list(&Filter { ended: Some(false), damaged: false, ..filter.clone() })? {
            let ownership = owners.ownership(runs, &stored)?;
            examine(runs, &mut stored, &ownership);
        }
    }
    let mut rows = Vec::new();
    for mut stored in runs.store.list(&filter)? {
        let ownership = owners.ownership(runs, &stored)?;
        examine(runs, &mut stored, &ownership);
        if is_wanted(&stored, &ownership) {
            let queue = queue_place(runs, &stored)?;
            rows.push(Row { stored, ownership, state: None, queue });
        }
    }
    let states = states(&owners);
    for row in rows.iter_mut().filter(|row| matches!(row.ownership, Ownership::Owned(_))) {
        row.state = states.get(&row.stored.id).copied();
    }
    let state = match command.status {
        Some(State::Waiting) => Some(RunState::Waiting),
        Some(State::Paused) => Some(RunState::Paused),
        _ => None,
    };
    if let Some(state) = state {
        rows.retain(|row| row.state == Some(state.name()));
    }
    let count = if is_exact { runs.store.count(&filter)? } else { rows.len() as u64 };
    if let Some(limit) = limit {
        rows.truncate(limit as usize);
    }
    Ok((rows, count))
}
