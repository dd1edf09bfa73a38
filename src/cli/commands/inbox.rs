//! `wfhost inbox`: what waits for a person, over all runs.
//!
//! It is read from the records of the unfinished runs, which no host need have. Of a run that a
//! host has, the host's own calls in flight are not uncertain: there it counts what the host has
//! written when it parked the run.

use crate::cli::args::data::DataArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::store::{Ownership, OwnershipCache, Runs};
use crate::cli::table::{Table, moment, rfc3339};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::host::RunProjection;
use crate::journal::catalog::{Inbox as _, InboxFilter, WaitingRun};
use crate::journal::{Filter, Journal as _, Stored};
use crate::process::{Json, Timestamp};
use crate::run::{Awaited, AwaitedKind, system_time};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// What is waited for.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Kind {
    /// A signal.
    Signal,
    /// The outcome of a call that may have happened.
    Uncertain,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost inbox --kind signal --older-than 1h
  wfhost inbox --json | jq -r '.[] | select(.name == \"approve\").run'

--json prints a list with one object for each wait:
  run, workflow     the run's id, and the name of its workflow
  kind              signal: `wfhost signal RUN NAME` sends it;
                    uncertain: `wfhost resolve RUN PID/TAG` settles it
  name              the name of the signal, or PID/TAG of the call
  since             in RFC 3339
  detail            of a signal its title, text and schema; of a call its
                    handler and key; null if there is nothing more")]
pub(in crate::cli) struct Arguments {
    /// Only signals, or only calls whose outcome is unknown.
    #[arg(long, value_enum)]
    pub(in crate::cli) kind: Option<Kind>,
    /// Only the signal with this name.
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Only what has waited for so long, such as `1h`.
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(in crate::cli) older_than: Option<Duration>,
    /// Show at most N waits, the longest first [default: 50; with --json all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

/// Waits shown without `--limit`.
const ROWS_DEFAULT: u32 = 50;

pub(in crate::cli) fn inbox(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let before = |age: Duration| {
        let micros = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        Timestamp(system_time().0.saturating_sub(micros))
    };
    let kind = command.kind.map(|kind| match kind {
        Kind::Signal => AwaitedKind::Signal,
        Kind::Uncertain => AwaitedKind::Uncertain,
    });
    let (name, since_before) = (command.name.clone(), command.older_than.map(before));
    let filter = InboxFilter { kind, name, since_before, ..InboxFilter::default() };
    let mut waiting = match command.data.open()? {
        Some(runs) => waiting(&runs, &filter)?,
        None => Vec::new(),
    };
    let count = waiting.len();
    if let Some(limit) = command.limit.or((!command.json).then_some(ROWS_DEFAULT)) {
        waiting.truncate(limit as usize);
    }
    if command.json {
        print_json(&waiting.iter().map(to_json).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if waiting.is_empty() {
        say("nothing waits for a person");
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["RUN", "WORKFLOW", "WAITS FOR", "SINCE", "TITLE"]);
    for WaitingRun { run, workflow, awaited } in &waiting {
        let what = match awaited.kind {
            AwaitedKind::Signal => format!("signal {}", awaited.name),
            AwaitedKind::Uncertain => format!("call {}", awaited.name),
        };
        table.row(vec![run.to_string(), workflow.to_string(), what, moment(awaited.since), title(awaited)]);
    }
    print(&table.without_empty_columns().text())?;
    if count > waiting.len() {
        say(&format!("and {} more: --limit {count} shows them", count - waiting.len()));
    }
    for (kind, how) in [
        (AwaitedKind::Signal, "`wfhost signal RUN NAME BODY` sends a signal"),
        (AwaitedKind::Uncertain, "`wfhost resolve RUN PID/TAG` settles a call whose outcome is unknown"),
    ] {
        if waiting.iter().any(|one| one.awaited.kind == kind) {
            terminal.hint(how);
        }
    }
    Ok(Exit::Success)
}

/// The title of a signal, or the handler of a call.
fn title(awaited: &Awaited) -> String {
    let detail = awaited.detail.as_ref().map(Json::to_value).unwrap_or_default();
    let texts = ["title", "handler"].iter().find_map(|key| detail.get(key)?.as_str().map(str::to_owned));
    texts.unwrap_or_default()
}

fn to_json(WaitingRun { run, workflow, awaited }: &WaitingRun) -> Value {
    let mut detail = awaited.detail.as_ref().map(Json::to_value).unwrap_or_default();
    if let Value::Object(detail) = &mut detail {
        detail.shift_remove("name");
    }
    json!({
        "run": run,
        "workflow": workflow,
        "kind": awaited.kind.name(),
        "name": awaited.name,
        "since": rfc3339(awaited.since),
        "detail": detail,
    })
}

/// What the unfinished runs of a folder wait for, the longest wait first.
fn waiting(runs: &Runs, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError> {
    let rows = runs.store.waiting(&InboxFilter::default())?;
    let is_call = |row: &&WaitingRun| row.awaited.kind == AwaitedKind::Uncertain;
    let written: HashSet<_> = rows.iter().filter(is_call).map(|row| (&row.run, &row.awaited.name)).collect();
    let mut owners = OwnershipCache::default();
    let mut waiting = Vec::new();
    for stored in runs.store.list(&Filter { ended: Some(false), ..Filter::default() })? {
        // A damaged run waits for nothing that helps, and it may have been removed meanwhile.
        let Ok(projection) = runs.readable_projection(&stored.id)? else { continue };
        let is_owned = matches!(owners.ownership(runs, &stored)?, Ownership::Owned(_));
        let is_uncertain = |name: &Arc<str>| !is_owned || written.contains(&(&stored.id, name));
        waiting.extend(of_run(&stored, &projection, &is_uncertain).into_iter().filter(|one| filter.fits(one)));
    }
    waiting.sort_by_key(WaitingRun::place);
    Ok(waiting)
}

fn of_run(stored: &Stored, projection: &RunProjection, is_uncertain: &dyn Fn(&Arc<str>) -> bool) -> Vec<WaitingRun> {
    let mut signals = BTreeMap::new();
    for wait in projection.state().signal_waits() {
        signals.entry(Arc::clone(&wait.name)).or_insert(wait);
    }
    let signals = signals.into_values().map(|wait| Awaited {
        kind: AwaitedKind::Signal,
        name: wait.name,
        since: wait.since,
        detail: wait.prompt,
    });
    let calls = projection.state().uncertain().into_iter().map(|call| Awaited {
        kind: AwaitedKind::Uncertain,
        name: format!("{}/{}", call.pid.0, call.tag.0).into(),
        since: call.since,
        detail: Some(Json::from_value(&json!({ "handler": call.handler, "key": call.key }))),
    });
    let calls = calls.filter(|call| is_uncertain(&call.name));
    let (run, workflow) = (&stored.id, &stored.name);
    let of_run = |awaited| WaitingRun { run: Arc::clone(run), workflow: Arc::clone(workflow), awaited };
    signals.chain(calls).map(of_run).collect()
}
