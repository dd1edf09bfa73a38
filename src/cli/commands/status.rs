//! `wfhost status`.

use crate::cli::args::target::TargetArguments;
use crate::cli::commands::listing::{SILENT, run_json, status_name};
use crate::cli::commands::target::RunView;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::report::hints::{check_first, retry_hint, with_changed};
use crate::cli::report::journal::removal_hint;
use crate::cli::report::outcome::undone;
use crate::cli::report::pending_acts::PendingAct;
use crate::cli::report::{cached, pending_acts, reasons, waits};
use crate::cli::store::Ownership;
use crate::cli::table::{Table, counted, moment, rfc3339, took};
use crate::cli::terminal::{Terminal, in_line, print, print_json, printable};
use crate::host::control::{RunState, RunStatus};
use crate::host::{ChangedScript, stored_line};
use crate::journal::QueuePlace;
use crate::process::{Payload, Pid, ProblemClass};
use crate::run::Origin;
use crate::run::{Doing, EndStatus, SignalStatus, Uncertain, system_time};
use crate::workflow::interpreter::kind::STEP_FAILED;
use crate::workflow::interpreter::progress::{Cause, NodeProgress, Wait};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost status order-4711
  wfhost status order-4711 --json | jq '.steps[] | select(.status == \"running\")'

--json prints one object:
  run, workflow, file, status, started, ended, records, host, damage     as
    in `wfhost ls --json`
  state              of a running one: running, waiting, paused; of a suspended
                     one only paused
  steps              node, status, total, done, failed, flying, attempts,
                     turns if it is repeated, cached and cached-from if
                     outcomes came from the cache, uncached (what the guest did)
                     if some were not kept there, and error if it failed; while
                     it runs also waiting and queued (items that wait for
                     something, and for their turn), deadline (when it times
                     out), and waits: for (signal, time, turn, attempt), since,
                     until, item, and name, or turn, or attempt, attempts-max,
                     kind, title
  processes          of a running one: pid, parent, component, entry, names,
                     doing, steps, fuel, mail, outstanding
  signals            of an unfinished one: name, waiting (calls that wait for
                     it), kept (how many are unclaimed)
  uncertain          calls whose outcome is unknown: pid, tag, handler, key
  left               of a suspended one: what takes effect when it is resumed:
                     act (signal, cancel, pause, resolve), id, and name and
                     bytes, reason and now, or pid, tag and outcome
  queries            names for `wfhost query`
  outputs, problem   of one that has ended
  counts             totals of what has happened")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

/// Scripts that have changed that are named. Arbitrary: a few lines.
const NOTED_MAX: usize = 3;

pub(in crate::cli) fn status(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let view = command.target.open()?.view(&command.run, terminal)?;
    let changed = view.scripts.as_ref().map(|(manifest, stored)| ChangedScript::of(manifest, &**stored));
    if command.json {
        print_json(&view.to_json())?;
    } else {
        print(&printable(&view.text()))?;
        for hint in view.hints() {
            terminal.hint(&command.target.hint(&hint, &view.stored.id));
        }
        for script in changed.iter().flatten().take(NOTED_MAX) {
            let (id, with) = (&view.stored.id, with_changed(&view.file, script));
            terminal.hint(&format!(
                "{} has changed since the run began; to use the new one: wfhost retry {id} {with}",
                script.file
            ));
        }
    }
    Ok(Exit::Success)
}

/// A step, with times in RFC 3339, and what it waits for in one object.
fn step_json(node: &NodeProgress) -> Value {
    let mut value = json!(node);
    if let Some(step) = value.as_object_mut() {
        step.remove("holds");
        if let Some(deadline) = node.deadline {
            step.insert("deadline".to_owned(), json!(rfc3339(deadline)));
        }
        if let Some(from) = &node.cached_from {
            step.insert("cached-from".to_owned(), json!({ "run": from.run, "at": rfc3339(from.at) }));
        }
        if !node.waits.is_empty() {
            step.insert("waits".to_owned(), node.waits.iter().map(wait_json).collect());
        }
    }
    value
}

fn wait_json(Wait { cause, item, since, until }: &Wait) -> Value {
    let mut value = match cause {
        Cause::Any { names } => json!({ "for": "any", "names": names }),
        Cause::Signal { name } => json!({ "for": "signal", "name": name }),
        Cause::Time => json!({ "for": "time" }),
        Cause::Turn { turn } => json!({ "for": "turn", "turn": turn }),
        Cause::Attempt { attempt, attempts_max, kind, title } => json!({
            "for": "attempt", "attempt": attempt, "attempts-max": attempts_max, "kind": kind, "title": title,
        }),
    };
    value["item"] = json!(item);
    value["since"] = json!(rfc3339(*since));
    value["until"] = json!(until.map(rfc3339));
    value
}

impl RunView {
    /// The calls whose outcome is unknown.
    fn uncertain(&self) -> Vec<Uncertain> {
        match (&self.live, &self.ownership) {
            (Some(live), _) => live.uncertain.clone(),
            (None, Ownership::Orphaned) => self.projection.state().uncertain(),
            (None, Ownership::Ended) if self.stored.status != Some(EndStatus::Succeeded) => {
                self.projection.given_up().to_vec()
            }
            (None, _) => Vec::new(),
        }
    }

    /// The signals that have waiters or are unclaimed.
    fn signals(&self) -> Vec<SignalStatus> {
        match (&self.live, &self.ownership) {
            (Some(live), _) => live.signals.clone(),
            (None, Ownership::Orphaned) => self.projection.state().signals(),
            (None, _) if self.silent => self.projection.state().signals(),
            (None, _) => Vec::new(),
        }
    }

    fn to_json(&self) -> Value {
        let mut value = run_json(&self.stored, &self.ownership);
        value["file"] = json!(self.file);
        if let Some(place) = &self.queue {
            value["queue"] = json!(place);
        }
        value["steps"] = self.projection.steps().iter().map(step_json).collect();
        if let Some(RunStatus { facts, processes, queries, .. }) = &self.live {
            value["state"] = json!(facts.state);
            value["stalled"] = json!(facts.stalled);
            value["processes"] = json!(processes);
            value["queries"] = json!(queries);
        } else {
            value["queries"] = self.projection.state().exposed().map(|(name, _)| json!(name)).collect();
        }
        if self.silent {
            value["state"] = json!(SILENT);
            value["signals"] = json!(self.signals());
        }
        if self.live.is_some() || self.ownership == Ownership::Orphaned {
            value["uncertain"] = json!(self.uncertain());
            value["signals"] = json!(self.signals());
        }
        if self.ownership == Ownership::Ended && !self.uncertain().is_empty() {
            value["uncertain"] = json!(self.uncertain());
        }
        if self.ownership == Ownership::Orphaned {
            value["left"] = self.pending.iter().map(PendingAct::to_json).collect();
            if self.projection.is_paused() {
                value["state"] = json!(RunState::Paused);
            }
        }
        if self.stored.status.is_some()
            && self.is_readable
            && let Some(outcome) = self.projection.outcome(&self.stored.id)
        {
            let outcome = outcome.to_json();
            for key in ["outputs", "problem"] {
                if let Some(part) = outcome.get(key) {
                    value[key] = part.clone();
                }
            }
        }
        if let Some(origin) = self.projection.origin() {
            let how = if origin.record == 0 { "retry" } else { "fork" };
            value["made-from"] = json!({ "run": origin.run, "by": how });
            if origin.record > 0 {
                value["made-from"]["record"] = json!(origin.record);
            }
        }
        if let Some(damage) = &self.damage {
            value["damage"] = json!(damage);
        }
        let counts = self.live.as_ref().map_or_else(|| self.projection.state().counts(), |live| live.facts.counts);
        if self.is_readable {
            // The store knows the number only if the last host released the run.
            value["records"] = json!(counts.records);
        }
        value["counts"] = json!(counts);
        value
    }

    fn text(&self) -> String {
        let Self { file, stored, projection, live, .. } = self;
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<10} {value}");
        };
        line("run", &stored.id);
        line("workflow", &format!("{} ({file})", stored.name));
        if let Some(origin) = projection.origin() {
            line("made from", &made_from(origin));
        }
        line("status", &self.state());
        stored.group.iter().for_each(|group| line("group", &self.group_text(group)));
        line("started", &moment(stored.created));
        if let Some(ended) = stored.ended {
            line("ended", &format!("{}, after {}", moment(ended), took(stored.created, ended)));
        }
        if let Some(damage) = self.damage.as_deref().or(stored.damage.as_deref()) {
            line("damage", damage);
        }
        let counts = live.as_ref().map_or_else(|| projection.state().counts(), |live| live.facts.counts);
        line(
            "counts",
            &[
                counted(counts.processes, "process", "processes"),
                counted(counts.steps, "step", "steps"),
                counted(counts.calls, "call", "calls"),
                counted(counts.records, "record", "records"),
            ]
            .join(", "),
        );
        text.push_str(&self.steps_text());
        if let Some(live) = live {
            text.push_str(&self.living_text(live));
        }
        text.push_str(&self.waiting_text());
        let names: Vec<&str> = match live {
            Some(live) => live.queries.iter().map(|name| &**name).collect(),
            None => projection.state().exposed().map(|(name, _)| &**name).collect(),
        };
        if !names.is_empty() {
            let _ = writeln!(text, "\nexposes {}", names.join(", "));
        }
        text.push_str(&self.outcome_text());
        text
    }

    /// Its concurrency group, and what it waits for there.
    fn group_text(&self, group: &str) -> String {
        match &self.queue {
            None => group.to_owned(),
            Some(QueuePlace { number: 0, .. }) => format!("{group}: a later run takes its place, and it ends"),
            Some(QueuePlace { number, waiting, ahead }) => {
                let have = match ahead.as_slice() {
                    [] => return format!("{group}: number {number} of {waiting} in the queue"),
                    [one] => format!("{one} has the place"),
                    [one, two] => format!("{one} and {two} have the places"),
                    [one, rest @ ..] => format!("{one} and {} more have the places", rest.len()),
                };
                format!("{group}: number {number} of {waiting} in the queue; {have}")
            }
        }
    }

    fn steps_text(&self) -> String {
        let steps = self.projection.steps();
        if steps.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["STEP", "STATUS", "ITEMS", "TURNS", "ATTEMPTS", "WHY"]).open();
        let now = self.projection.time(system_time());
        for node in &steps {
            let items = if node.total > 1 { node.items() } else { String::new() };
            let turns = if node.turns > 0 { node.turns.to_string() } else { String::new() };
            let attempts = if node.attempts > 1 { node.attempts.to_string() } else { String::new() };
            let status = if node.only_waits() { "waiting" } else { &node.status };
            let taken = || node.taken_over.then(|| "taken over from the former run".to_owned());
            let why = node.reason().or_else(|| waits::describe_in_full(node, now)).or_else(taken);
            let why = why
                .into_iter()
                .chain(cached::describe(node, now))
                .chain(self.queued(&node.node))
                .collect::<Vec<_>>()
                .join("; ");
            let why = in_line(&why).into_owned();
            table.row(vec![node.node.clone(), status.to_owned(), items, turns, attempts, why]);
        }
        format!("\n{}", table.without_empty_columns().text())
    }

    /// The outputs of a run that has ended, or why there are none.
    fn outcome_text(&self) -> String {
        let has_ended = self.stored.status.is_some() && self.is_readable;
        let Some(outcome) = has_ended.then(|| self.projection.outcome(&self.stored.id)).flatten() else {
            return String::new();
        };
        match &outcome.result {
            Ok(Payload::Json(json)) => format!("\noutputs {}\n", json.as_str()),
            Ok(_) => String::new(),
            Err(problem) => {
                let cause = problem.data.as_ref().map(|data| data.to_value()["cause"].take());
                let said = cause.as_ref().and_then(reasons::said).map_or_else(String::new, |said| said + "\n");
                let data = cause.as_ref().map(|cause| &cause["data"]);
                let line = self
                    .scripts
                    .as_ref()
                    .zip(data)
                    .and_then(|((manifest, stored), data)| stored_line(manifest, &**stored, data));
                let line = line.map_or_else(String::new, |line| format!("  {}\n", in_line(&line)));
                // The lines after the first are a stack, which `--json` has.
                let text = problem.to_string();
                let mut told = format!("\n{}\n{line}{said}", in_line(text.lines().next().unwrap_or_default()));
                for one in undone(problem) {
                    let _ = writeln!(told, "  {}", in_line(&one));
                }
                told
            }
        }
    }

    /// The guests of a step that wait for a slot.
    fn queued(&self, step: &str) -> Option<String> {
        let live = self.live.as_ref()?;
        let is_its = |pid: Pid| self.projection.step_of(pid).is_some_and(|(of, _)| of == step);
        let waits = live.processes.iter().filter(|process| process.doing == Doing::Queued && is_its(process.pid));
        match waits.count() {
            0 => None,
            1 => Some("1 guest waits for a slot".to_owned()),
            count => Some(format!("{count} guests wait for a slot")),
        }
    }

    fn state(&self) -> String {
        let status = status_name(&self.stored, &self.ownership);
        match (&self.ownership, &self.live) {
            (Ownership::Owned(owner), Some(live)) => {
                format!("{} ({}), by process {}", status, live.facts.state_name(), owner.pid)
            }
            (Ownership::Owned(owner), None) if self.silent => {
                format!("{status}, by process {}, which does not answer", owner.pid)
            }
            (Ownership::Owned(owner), None) => format!("{status}, by process {}", owner.pid),
            _ if self.stored.status.is_none() && self.projection.is_paused() => format!("{status} (paused)"),
            _ => status.to_owned(),
        }
    }

    fn living_text(&self, live: &RunStatus) -> String {
        let mut text = String::new();
        let mut table = Table::new(&["PID", "PROCESS", "DOING", "STEPS", "MAIL", "OUTSTANDING"]);
        for process in live.processes.iter().filter(|process| process.pid != Pid::ROOT) {
            let name = self.projection.name(process.pid).unwrap_or(&process.entry).to_owned();
            let doing = json!(process.doing).as_str().unwrap_or_default().to_owned();
            let mail = if process.mail > 0 { process.mail.to_string() } else { String::new() };
            let outstanding = if process.outstanding > 0 { process.outstanding.to_string() } else { String::new() };
            table.row(vec![process.pid.to_string(), name, doing, process.steps.to_string(), mail, outstanding]);
        }
        if live.processes.len() > 1 {
            let _ = write!(text, "\n{}", table.text());
        }
        text
    }

    /// Signals, uncertain calls and stored acts.
    fn waiting_text(&self) -> String {
        let mut text = String::new();
        let signals = self.signals();
        if !signals.is_empty() {
            let mut table = Table::new(&["SIGNAL", "WAITING", "KEPT"]);
            for signal in &signals {
                table.row(vec![signal.name.to_string(), signal.waiting.to_string(), signal.kept.to_string()]);
            }
            let _ = write!(text, "\n{}", table.text());
        }
        let uncertain = self.uncertain();
        if !uncertain.is_empty() {
            let mut table = Table::new(&["UNCERTAIN", "HANDLER", "KEY"]);
            for call in &uncertain {
                table.row(vec![format!("{}/{}", call.pid, call.tag), call.handler.to_string(), call.key.to_string()]);
            }
            let _ = write!(text, "\n{}", table.text());
        }
        if !self.pending.is_empty() {
            let _ = write!(text, "\n{}", pending_acts::text(&self.pending));
        }
        text
    }

    fn hints(&self) -> Vec<String> {
        let id = &self.stored.id;
        let mut hints = Vec::new();
        if self.ownership == Ownership::Orphaned && self.stored.damage.is_some() {
            return vec![format!("it cannot be resumed; {}", removal_hint(id))];
        }
        let outcome = self.projection.outcome(id).filter(|_| self.is_readable);
        let problem = outcome.as_ref().and_then(|outcome| outcome.result.as_ref().err());
        match self.stored.status {
            Some(EndStatus::Failed) if problem.is_some_and(|problem| problem.class == ProblemClass::Uncertain) => {
                hints.push(check_first(Some(&format!("wfhost retry {id}"))));
            }
            Some(EndStatus::Failed | EndStatus::TimedOut) if !self.uncertain().is_empty() => {}
            Some(EndStatus::Failed) if problem.is_some_and(|problem| problem.kind != STEP_FAILED) => {
                hints.push(format!("once the workflow file is corrected: wfhost retry {id} --workflow FILE"));
            }
            Some(EndStatus::Failed | EndStatus::TimedOut) => hints.push(retry_hint(id)),
            _ => {}
        }
        if self.ownership == Ownership::Orphaned {
            hints.push(format!("not running; to resume it: {}", self.resume));
        }
        let is_settled =
            |call: &Uncertain| self.pending.iter().any(|pending| pending.resolves() == Some((call.pid, call.tag)));
        let unsettled: Vec<Uncertain> = self.uncertain().into_iter().filter(|call| !is_settled(call)).collect();
        if let Some(call) = unsettled.first() {
            let call = format!("{}/{}", call.pid, call.tag);
            let more = match unsettled.len() - 1 {
                0 => String::new(),
                1 => ", and 1 more call".to_owned(),
                more => format!(", and {more} more calls"),
            };
            hints.push(if self.ownership == Ownership::Ended {
                let again = match self.stored.status {
                    Some(EndStatus::Cancelled) => String::new(),
                    _ => format!("; check, and then: wfhost retry {id}"),
                };
                format!("the outcome of {call}{more} is unknown: the run ended before the answer{again}")
            } else {
                format!(
                    "the outcome of {call}{more} is unknown; to settle it: wfhost resolve {id} {call} \
                --completed JSON, --failed or --again"
                )
            });
        } else if let Some(signal) = self.signals().iter().find(|signal| signal.waiting > 0) {
            hints.push(format!("it waits for a signal: wfhost signal {id} {} JSON", signal.name));
        }
        hints
    }
}

/// The run that another was made from, and how.
fn made_from(origin: &Origin) -> String {
    match origin.record {
        0 => format!("{}, by retry", origin.run),
        record => format!("{}, by fork at record {record}", origin.run),
    }
}
