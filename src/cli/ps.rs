//! `wfhost ps`.

use super::Exit;
use super::arguments::Ps;
use super::refused::Stop;
use super::table::Table;
use super::terminal::{Terminal, print, say};
use crate::host::control::{Answer, Client, ControlError, Request, RunFacts};
use crate::journal::Journal as _;
use serde_json::{Value, json};

pub(super) fn ps(command: &Ps, terminal: Terminal) -> Result<Exit, Stop> {
    let folder = command.data.required()?;
    let runs = command.data.open()?;
    let hosts = if folder.is_dir() { Client::hosts(&folder)? } else { Vec::new() };
    let mut all = Vec::new();
    for host in hosts {
        match host.ask(Request::Runs) {
            Ok(Answer::Runs(facts)) => all.extend(facts),
            // It ended since it was found.
            Err(ControlError::Gone) => {}
            Ok(other) => {
                say(&terminal.warning_text(&format!("a host gave an answer to another question: {other:?}"), None));
            }
            Err(error) => say(&terminal.warning_text(&format!("{:#}", anyhow::Error::from(error)), None)),
        }
    }
    all.sort_by(|a: &RunFacts, b| a.run.cmp(&b.run));
    let name = |facts: &RunFacts| -> Result<Option<String>, Stop> {
        let stored = runs.as_ref().map(|runs| runs.store.run(&facts.run)).transpose()?.flatten();
        Ok(stored.map(|stored| stored.name.to_string()))
    };
    if command.json {
        let list = all.iter().map(|facts| Ok(to_json(facts, name(facts)?))).collect::<Result<Vec<_>, Stop>>()?;
        print(&serde_json::to_string_pretty(&list)?)?;
        return Ok(Exit::Success);
    }
    if all.is_empty() {
        say(&format!("nothing is being run in {}", folder.display()));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["RUN", "WORKFLOW", "STATE", "HOST", "PROCESSES", "STEPS", "UNCERTAIN"]);
    for facts in &all {
        let uncertain = if facts.uncertain > 0 { facts.uncertain.to_string() } else { String::new() };
        table.row(vec![
            facts.run.to_string(),
            name(facts)?.unwrap_or_default(),
            facts.state.name().to_owned(),
            facts.host.to_string(),
            facts.processes.to_string(),
            facts.counts.steps.to_string(),
            uncertain,
        ]);
    }
    print(&table.text())?;
    Ok(Exit::Success)
}

fn to_json(facts: &RunFacts, workflow: Option<String>) -> Value {
    let mut value = json!({ "run": facts.run, "workflow": workflow });
    let all = json!(facts);
    for key in ["state", "host", "processes", "uncertain", "counts"] {
        value[key] = all[key].clone();
    }
    value
}
