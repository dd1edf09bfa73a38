//! `wfhost inbox`: what waits for a person, over all runs.

use crate::cli::args::target::TargetArguments;
use crate::cli::args::values;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::table::{Table, moment, rfc3339};
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::journal::catalog::{InboxFilter, WaitingRun};
use crate::process::{Json, Timestamp};
use crate::run::{Awaited, AwaitedKind, system_time};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
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
    pub(in crate::cli) target: TargetArguments,
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
    let mut waiting = command.target.open()?.waiting(&filter)?;
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
