//! `wfhost status`.

use super::Exit;
use super::arguments::Show;
use super::data::{Runs, Whose};
use super::ls;
use super::refused::Stop;
use super::table::{Table, moment, took};
use super::terminal::{Terminal, print, printable};
use crate::host::Story;
use crate::host::control::{Answer, Client, ControlError, Request, RunStatus};
use crate::journal::Stored;
use crate::process::{Payload, Pid};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(super) fn status(command: &Show, terminal: Terminal) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(&command.run)?;
    let whose = runs.whose(&stored)?;
    let seen = Seen { live: living(&runs, &stored, &whose)?, story: runs.story(&stored.id)?, stored, whose };
    let file = runs.about(&seen.stored.id)?.file;
    if command.json {
        print(&serde_json::to_string_pretty(&seen.to_json(&file))?)?;
    } else {
        print(&printable(&seen.text(&file)))?;
        if let Some(hint) = seen.hint() {
            terminal.hint(&hint);
        }
    }
    Ok(Exit::Success)
}

/// What the host says that runs it. None where it says nothing any more.
pub(super) fn living(runs: &Runs, stored: &Stored, whose: &Whose) -> Result<Option<RunStatus>, Stop> {
    let Whose::Living(owner) = whose else { return Ok(None) };
    Ok(runs.ask(owner, |host| ask(host, &stored.id))?)
}

fn ask(host: &Client, run: &str) -> Result<RunStatus, ControlError> {
    match host.ask(Request::Status { run: run.to_owned() })? {
        Answer::Status(status) => Ok(*status),
        _ => Err(ControlError::Malformed { path: host.path().to_owned(), why: "it is no status".to_owned() }),
    }
}

/// A run as it is known.
struct Seen {
    stored: Stored,
    whose: Whose,
    story: Story,
    live: Option<RunStatus>,
}

impl Seen {
    fn to_json(&self, file: &str) -> Value {
        let mut value = ls::to_json(&self.stored, &self.whose);
        value["file"] = json!(file);
        value["steps"] = json!(self.story.nodes());
        if let Some(RunStatus { facts, processes, uncertain, queries, signals }) = &self.live {
            value["state"] = json!(facts.state);
            value["processes"] = json!(processes);
            value["uncertain"] = json!(uncertain);
            value["signals"] = json!(signals);
            value["queries"] = json!(queries);
        } else {
            value["queries"] = self.story.exposed().map(|(name, _)| json!(name)).collect();
        }
        if self.stored.status.is_some()
            && let Some(outcome) = self.story.outcome(&self.stored.id)
        {
            let outcome = outcome.to_json();
            for key in ["outputs", "problem"] {
                if let Some(part) = outcome.get(key) {
                    value[key] = part.clone();
                }
            }
        }
        value["counts"] = json!(self.live.as_ref().map_or_else(|| self.story.counts(), |live| live.facts.counts));
        value
    }

    fn text(&self, file: &str) -> String {
        let Self { stored, story, live, .. } = self;
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<10} {value}");
        };
        line("run", &stored.id);
        line("workflow", &format!("{} ({file})", stored.name));
        line("status", &self.state());
        line("started", &moment(stored.created));
        if let Some(ended) = stored.ended {
            line("ended", &format!("{}, after {}", moment(ended), took(stored.created, ended)));
        }
        let counts = live.as_ref().map_or_else(|| story.counts(), |live| live.facts.counts);
        line(
            "counts",
            &format!(
                "{} processes, {} steps, {} calls, {} records",
                counts.processes, counts.steps, counts.calls, counts.records
            ),
        );
        if !story.nodes().is_empty() {
            let mut table = Table::new(&["STEP", "STATUS", "ITEMS", "ATTEMPTS"]);
            for node in story.nodes() {
                let items = if node.total > 1 { format!("{}/{}", node.done, node.total) } else { String::new() };
                let attempts = if node.attempts > 1 { node.attempts.to_string() } else { String::new() };
                table.row(vec![node.node.clone(), node.status.clone(), items, attempts]);
            }
            let _ = write!(text, "\n{}", table.text());
        }
        if let Some(live) = live {
            text.push_str(&self.living_text(live));
        }
        let names: Vec<&str> = match live {
            Some(live) => live.queries.iter().map(|name| &**name).collect(),
            None => story.exposed().map(|(name, _)| &**name).collect(),
        };
        if !names.is_empty() {
            let _ = writeln!(text, "\nexposes {}", names.join(", "));
        }
        if stored.status.is_some()
            && let Some(outcome) = story.outcome(&stored.id)
        {
            let _ = match &outcome.result {
                Ok(Payload::Json(json)) => writeln!(text, "\noutputs {}", json.as_str()),
                Ok(_) => Ok(()),
                Err(problem) => writeln!(text, "\n{problem}"),
            };
        }
        text
    }

    fn state(&self) -> String {
        let status = ls::status(&self.stored, &self.whose);
        match (&self.whose, &self.live) {
            (Whose::Living(owner), Some(live)) => {
                format!("{} ({}), by process {}", status, live.facts.state.name(), owner.pid)
            }
            (Whose::Living(owner), None) => format!("{status}, by process {}", owner.pid),
            _ if self.stored.status.is_none() && self.story.is_paused() => format!("{status} (paused)"),
            _ => status.to_owned(),
        }
    }

    fn living_text(&self, live: &RunStatus) -> String {
        let mut text = String::new();
        let mut table = Table::new(&["PID", "PROCESS", "DOING", "STEPS", "MAIL", "OUTSTANDING"]);
        for process in live.processes.iter().filter(|process| process.pid != Pid::ROOT) {
            let name = self.story.name(process.pid).unwrap_or(&process.entry).to_owned();
            let doing = json!(process.doing).as_str().unwrap_or_default().to_owned();
            let mail = if process.mail > 0 { process.mail.to_string() } else { String::new() };
            let outstanding = if process.outstanding > 0 { process.outstanding.to_string() } else { String::new() };
            table.row(vec![process.pid.to_string(), name, doing, process.steps.to_string(), mail, outstanding]);
        }
        if live.processes.len() > 1 {
            let _ = write!(text, "\n{}", table.text());
        }
        if !live.signals.is_empty() {
            let mut table = Table::new(&["SIGNAL", "WAITING", "KEPT"]);
            for signal in &live.signals {
                table.row(vec![signal.name.to_string(), signal.waiting.to_string(), signal.kept.to_string()]);
            }
            let _ = write!(text, "\n{}", table.text());
        }
        if !live.uncertain.is_empty() {
            let mut table = Table::new(&["UNCERTAIN", "HANDLER", "KEY"]);
            for call in &live.uncertain {
                table.row(vec![format!("{}/{}", call.pid, call.tag), call.handler.to_string(), call.key.to_string()]);
            }
            let _ = write!(text, "\n{}", table.text());
        }
        text
    }

    fn hint(&self) -> Option<String> {
        let id = &self.stored.id;
        let waited_for = |live: &RunStatus| live.signals.iter().find(|signal| signal.waiting > 0).cloned();
        match (&self.whose, &self.live) {
            (Whose::Nobody, _) => Some(format!("nobody runs it; to take it up: wfhost resume {id}")),
            (_, Some(live)) if !live.uncertain.is_empty() => {
                let call = &live.uncertain[0];
                let call = format!("{}/{}", call.pid, call.tag);
                Some(format!(
                    "nobody knows whether {call} happened; say it: wfhost resolve {id} {call} --completed JSON, --failed or --again"
                ))
            }
            (_, Some(live)) => {
                waited_for(live).map(|signal| format!("it waits for a signal: wfhost signal {id} {} JSON", signal.name))
            }
            _ => None,
        }
    }
}
