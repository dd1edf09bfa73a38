//! `wfhost ps`.

use crate::cli::args::data::DataArguments;
use crate::cli::commands::listing::{SILENT, queue_place, queue_text};
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::report::journal::{FULL, FULL_HINT};
use crate::cli::report::unresponsive::{from_records, waiting_for};
use crate::cli::store::{Ownership, OwnershipCache, Runs};
use crate::cli::table::Table;
use crate::cli::terminal::{Terminal, print, print_json, say};
use crate::host::control::{Answer, Client, ControlError, Request, RunFacts};
use crate::journal::{Filter, QueuePlace, StoreError, Stored};
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost ps
  wfhost ps --json | jq '.[] | select(.uncertain > 0) | .run'

--json prints a list with one object per run:
  run, workflow     its id, and the name of its workflow; null if it is not
                    durable: such a run shows only beside durable ones of the
                    same process, so never one of `wfhost run --durability none`
  state             running, waiting (all its processes wait), paused, stalled,
                    queued (for a place in its concurrency group)
  queue             of a queued one, as in `wfhost ls`
  host              the id of the process that executes it
  processes         how many live
  uncertain         calls whose outcome is unknown: `wfhost resolve`
  counts            totals of what has happened")]
pub(in crate::cli) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

/// A run that a host executes.
struct Row {
    run: Arc<str>,
    workflow: Option<Arc<str>>,
    process: u32,
    /// `None` if its host does not answer.
    facts: Option<RunFacts>,
    /// Its place in the queue of its concurrency group, for people and as it is.
    queue: Option<(String, QueuePlace)>,
}

pub(in crate::cli) fn ps(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let folder = command.data.required()?;
    let runs = command.data.open()?;
    let hosts = hosts(&folder, runs.as_ref())?;
    let mut rows = Vec::new();
    let mut silent = Vec::new();
    for (host, answer) in ask_all(hosts) {
        match answer {
            Ok(Answer::Runs(facts)) => {
                for facts in facts {
                    let stored = runs.as_ref().map(|runs| runs.store.run(&facts.run)).transpose()?.flatten();
                    let queue = stored.as_ref().zip(runs.as_ref()).map(|(stored, runs)| queue(runs, stored));
                    let (queue, workflow) = (queue.transpose()?.flatten(), stored.map(|stored| stored.name));
                    rows.push(Row { run: facts.run.clone(), workflow, process: facts.host, facts: Some(facts), queue });
                }
            }
            // It has ended since it was listed.
            Err(ControlError::Gone) => {}
            Err(ControlError::Silent { .. }) => silent.extend(host.process()),
            Ok(other) => {
                say(&terminal.warning_text(&format!("a host gave an unexpected answer: {other:?}"), None));
            }
            Err(error) => say(&terminal.warning_text(&format!("{:#}", anyhow::Error::from(error)), None)),
        }
    }
    if rows.iter().any(|row| row.facts.as_ref().is_some_and(|facts| facts.stalled)) {
        say(&terminal.warning_text(FULL, Some(FULL_HINT)));
    }
    for process in &silent {
        let (title, hint) = from_records(*process);
        say(&terminal.warning_text(&title, Some(&hint)));
    }
    if let Some(runs) = runs.as_ref().filter(|_| !silent.is_empty()) {
        rows.extend(recorded(runs, &silent)?);
    }
    rows.sort_by(|a, b| a.run.cmp(&b.run));
    if command.json {
        print_json(&rows.iter().map(to_json).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        say(&format!("no run is executing in {}", folder.display()));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["RUN", "WORKFLOW", "STATE", "HOST", "PROCESSES", "STEPS", "UNCERTAIN"]);
    for Row { run, workflow, process, facts, queue } in &rows {
        let number = |of: fn(&RunFacts) -> u64| facts.as_ref().map_or_else(String::new, |facts| of(facts).to_string());
        let uncertain = facts.as_ref().map_or(0, |facts| facts.uncertain);
        table.row(vec![
            run.to_string(),
            workflow.as_deref().unwrap_or_default().to_owned(),
            match (facts, queue) {
                (Some(_), Some((text, _))) => text.clone(),
                (facts, _) => facts.as_ref().map_or(SILENT, RunFacts::state_name).to_owned(),
            },
            process.to_string(),
            number(|facts| facts.processes as u64),
            number(|facts| facts.counts.steps),
            if uncertain > 0 { uncertain.to_string() } else { String::new() },
        ]);
    }
    print(&table.text())?;
    Ok(Exit::Success)
}

/// The place of a run in the queue of its concurrency group.
fn queue(runs: &Runs, stored: &Stored) -> Result<Option<(String, QueuePlace)>, StoreError> {
    Ok(queue_place(runs, stored)?.map(|place| (queue_text(stored, &place), place)))
}

/// The hosts of a folder: those whose sockets are where this process would have its own, and those
/// listed in the store.
fn hosts(folder: &Path, runs: Option<&Runs>) -> Result<Vec<Client>, CommandError> {
    let mut hosts = if folder.is_dir() { Client::hosts(folder)? } else { Vec::new() };
    let owners = runs.map(|runs| runs.store.hosts()).transpose()?.unwrap_or_default();
    for host in owners.iter().filter_map(|owner| Client::recorded(owner.address.as_ref()?.socket()?)) {
        if !hosts.iter().any(|known| known.path() == host.path()) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Asks all hosts at once: a host that does not answer delays the others by one timeout at most.
fn ask_all(hosts: Vec<Client>) -> Vec<(Client, Result<Answer, ControlError>)> {
    let process = if let [host] = &hosts[..] { host.process() } else { None };
    waiting_for(process, Vec::new(), || {
        std::thread::scope(|scope| {
            let asked: Vec<_> = hosts
                .into_iter()
                .map(|host| {
                    scope.spawn(move || {
                        let answer = host.ask(Request::Runs);
                        (host, answer)
                    })
                })
                .collect();
            asked.into_iter().filter_map(|asked| asked.join().ok()).collect()
        })
    })
}

/// The runs of processes that do not answer, as the store has them.
fn recorded(runs: &Runs, silent: &[u32]) -> Result<Vec<Row>, CommandError> {
    let mut owners = OwnershipCache::default();
    let mut rows = Vec::new();
    for stored in runs.store.list(&Filter { ended: Some(false), ..Filter::default() })? {
        if let Ownership::Owned(owner) = owners.ownership(runs, &stored)?
            && silent.contains(&owner.pid)
        {
            let queue = queue(runs, &stored)?;
            rows.push(Row { run: stored.id, workflow: Some(stored.name), process: owner.pid, facts: None, queue });
        }
    }
    Ok(rows)
}

fn to_json(row: &Row) -> Value {
    let Row { run, workflow, process, facts, queue } = row;
    let mut value = json!({ "run": run, "workflow": workflow, "state": SILENT, "host": process });
    if let Some(facts) = facts {
        let all = json!(facts);
        for key in ["state", "stalled", "host", "processes", "uncertain", "counts"] {
            value[key] = all[key].clone();
        }
    }
    if let Some((_, place)) = queue {
        value["queue"] = json!(place);
    }
    value
}
