//! A run as its records give it, for display: its lines, its steps, the names of its processes, how
//! it ended.
//!
//! What the run is after its records is the state that [`Projection`] folds; here stands what the
//! records say beside it, noted in the same pass. No program is needed and nothing is executed.
//! Where a record does not follow from those before it, the state stays as it was there, and the
//! rest is noted as far as it can be read.

mod steps;

use super::Outcome;
use crate::process::handler::LOG;
use crate::process::{Action, Answer, Ending, Json, Level, LogLine, Payload, Pid, Status, Timestamp};
use crate::run::{
    Decided, Decision, Origin, Outcome as RunOutcome, Projection, Record, RunEvent, Stepped, Uncertain, answer_of,
};
use crate::workflow::interpreter::progress::{NodeProgress, Progress, path_of};
use serde::Serialize;
use std::collections::BTreeMap;

/// A line of a run's log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Line {
    /// When it was written, in microseconds since 1970.
    pub at: Timestamp,
    /// The process that wrote it.
    pub pid: Pid,
    /// The name of that process for people: the step that it belongs to, with the number of its
    /// item, else its entry point. Empty for the workflow itself.
    pub process: String,
    /// Its level, text and fields.
    #[serde(flatten)]
    pub line: LogLine,
}

impl Line {
    /// How far a step is, if the workflow itself says so in this line.
    pub fn progress(&self) -> Option<Progress> {
        // A guest that writes such lines is just a guest that writes lines.
        (self.pid == Pid::ROOT && self.process.is_empty()).then(|| Progress::of(&self.line)).flatten()
    }
}

/// A run as some of its records give it.
#[derive(Default, Debug)]
pub struct RunProjection {
    state: Projection,
    /// The names of the processes that live.
    names: BTreeMap<Pid, String>,
    /// Steps in the order of their first lines.
    nodes: Vec<NodeProgress>,
    /// Why outcomes of a step were not kept in the cache, by the step's path without items.
    uncached: BTreeMap<String, String>,
    given_up: Vec<Uncertain>,
    end: Option<(Ending, Answer)>,
}

/// Calls that are listed of those that were given up. Arbitrary.
const GIVEN_UP_MAX: usize = 1_000;

impl RunProjection {
    /// The run that these records give.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut projection = Self::default();
        records.into_iter().for_each(|record| projection.apply(record, &mut |_| {}));
        projection
    }

    /// Applies the next record; its lines are reported.
    pub fn apply(&mut self, record: &Record, report: &mut dyn FnMut(Line)) {
        let paused = self.state.paused();
        let open = self.open_calls(record);
        // One that does not follow changes nothing in the state.
        let _ = self.state.apply(record);
        let given_up = open.into_iter().filter(|call| !self.state.is_outstanding(call.pid, call.tag));
        self.given_up.extend(given_up.take(GIVEN_UP_MAX - self.given_up.len()));
        match record {
            Record::Started(_) => {
                self.names.insert(Pid::ROOT, String::new());
            }
            Record::Stepped(stepped) => self.stepped(stepped, report),
            Record::Died(died) => {
                self.lines(died.pid, died.at, &died.log, report);
                self.ended(died.pid, &died.ending, || answer_of(&died.ending));
            }
            Record::Arrived(arrived) => {
                if let (Some(since), None) = (paused, self.state.paused()) {
                    self.shift(arrived.at.since(since));
                }
            }
            Record::Leaving { .. } | Record::Upgraded(_) => {}
        }
    }

    /// The calls of unknown outcome whose answers are no longer awaited after a record, or may be.
    fn open_calls(&self, record: &Record) -> Vec<Uncertain> {
        let cancels = |decided: &Decided| matches!(decided.command.action, Action::Cancel(_));
        match record {
            Record::Died(died) => self.state.uncertain_of(died.pid),
            Record::Stepped(stepped) if ends(stepped) || stepped.decided.iter().any(cancels) => {
                self.state.uncertain_of(stepped.pid)
            }
            _ => Vec::new(),
        }
    }

    /// Applies an event of a run that is not in the records yet; if it is a line, returns it.
    pub fn apply_event(&mut self, event: &RunEvent) -> Option<Line> {
        match event {
            RunEvent::Spawned { pid, parent, entry, scope, .. } => {
                let name = self.name_of(*parent, scope.as_deref(), entry);
                self.names.insert(*pid, name);
                None
            }
            RunEvent::Ended { pid, .. } => {
                self.names.remove(pid);
                None
            }
            RunEvent::Logged { pid, scope, at, line } => {
                let process = match scope {
                    Some(scope) => self.step(scope),
                    None => self.names.get(pid).cloned().unwrap_or_default(),
                };
                let line = Line { at: *at, pid: *pid, process, line: line.clone() };
                self.node(&line);
                Some(line)
            }
            _ => None,
        }
    }

    /// The state that the records give.
    pub fn state(&self) -> &Projection {
        &self.state
    }

    /// The run that it was made from, if it was.
    pub fn origin(&self) -> Option<&Origin> {
        self.state.started()?.origin.as_ref()
    }

    /// The steps, in the order of their first lines.
    pub fn nodes(&self) -> &[NodeProgress] {
        &self.nodes
    }

    /// The calls that may have happened, and whose answers were given up: by a cancel, a timeout of
    /// the run, or the end of their process.
    pub fn given_up(&self) -> &[Uncertain] {
        &self.given_up
    }

    /// Whether an operator has paused the run.
    pub fn is_paused(&self) -> bool {
        self.state.paused().is_some()
    }

    /// The time by which deadlines of calls and signals count: that of a paused run stands still.
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.state.paused().unwrap_or(now)
    }

    /// The name of a process that lives. Empty for the workflow itself.
    pub fn name(&self, pid: Pid) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Whether the root has ended.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// The outcome of the run of this id; `None` if it has not ended.
    pub fn outcome(&self, run: &str) -> Option<Outcome> {
        let (ending, result) = self.end.clone()?;
        let (abandoned, abandoned_more) = self.state.abandoned();
        let outcome = RunOutcome {
            ending,
            result,
            late: self.state.late(),
            abandoned: abandoned.to_vec(),
            abandoned_more,
            counts: self.state.counts(),
        };
        Some(Outcome::new(run.into(), &outcome))
    }

    fn stepped(&mut self, stepped: &Stepped, report: &mut dyn FnMut(Line)) {
        let Stepped { pid, at, .. } = *stepped;
        self.lines(pid, at, &stepped.log, report);
        for Decided { command, decision } in &stepped.decided {
            match (&command.action, decision) {
                (Action::Spawn(spawn), Decision::Spawned(child)) => {
                    let scope = spawn.placement.as_ref().map(|placement| &*placement.scope);
                    let name = self.name_of(Some(pid), scope, &spawn.entry);
                    self.names.insert(*child, name);
                }
                (Action::Call(call), Decision::Called(_)) if &*call.handler == LOG => {
                    let Some(line) = line_of(&call.args) else { continue };
                    let process = match &call.placement {
                        Some(placement) => self.step(&placement.scope),
                        None => self.names.get(&pid).cloned().unwrap_or_default(),
                    };
                    report(Line { at, pid, process, line });
                }
                _ => {}
            }
        }
        match &stepped.status {
            Status::Complete(output) => self.ended(pid, &Ending::Completed, || Ok(output.clone())),
            Status::Failed(problem) => self.ended(pid, &Ending::Failed(problem.clone()), || Err(problem.clone())),
            _ => {}
        }
    }

    fn lines(&mut self, pid: Pid, at: Timestamp, lines: &[LogLine], report: &mut dyn FnMut(Line)) {
        let process = self.names.get(&pid).cloned().unwrap_or_default();
        for line in lines {
            let line = Line { at, pid, process: process.clone(), line: line.clone() };
            self.node(&line);
            self.note_uncached(&line);
            report(line);
        }
    }

    fn node(&mut self, line: &Line) {
        let Some(Progress::Node(node)) = line.progress() else { return };
        // Of the steps within the items of a list, which are many, those that live and those that
        // tell of a failure are kept.
        let is_over = node.node.contains("].") && matches!(node.status.as_str(), "succeeded" | "skipped" | "cancelled");
        match self.nodes.iter().position(|known| known.node == node.node) {
            Some(at) if is_over => _ = self.nodes.remove(at),
            Some(at) => self.nodes[at] = node,
            None if is_over => {}
            None => self.nodes.push(node),
        }
    }

    fn ended(&mut self, pid: Pid, ending: &Ending, answer: impl FnOnce() -> Answer) {
        self.names.remove(&pid);
        if pid == Pid::ROOT {
            self.cut_off();
            self.end = Some((ending.clone(), answer()));
        }
    }

    fn name_of(&self, parent: Option<Pid>, scope: Option<&str>, entry: &str) -> String {
        match (scope, parent.and_then(|parent| self.names.get(&parent))) {
            (Some(scope), _) => self.step(scope),
            (None, Some(parent)) if parent.is_empty() => entry.to_owned(),
            (None, Some(parent)) => format!("{} > {entry}", parent.split(" > ").next().unwrap_or_default()),
            (None, None) if parent.is_none() => String::new(),
            (None, None) => entry.to_owned(),
        }
    }

    /// The step of a scope, with its item if the step has several.
    fn step(&self, scope: &str) -> String {
        path_of(scope, |path| self.nodes.iter().any(|node| node.node == path && node.total > 1))
    }

    /// The step that a command with this scope belongs to, as far as steps within steps are known.
    pub(super) fn known_step(&self, scope: &str) -> String {
        let path = self.step(scope);
        let place = path.strip_suffix(']').and_then(|path| path.rsplit_once('[')).map_or(&*path, |(path, _)| path);
        let is_known = self.nodes.iter().any(|node| node.node == place);
        if is_known { place } else { scope.split('/').next().unwrap_or_default() }.to_owned()
    }
}

fn ends(stepped: &Stepped) -> bool {
    matches!(stepped.status, Status::Complete(_) | Status::Failed(_))
}

/// The line that a call of `log` writes.
fn line_of(args: &Payload) -> Option<LogLine> {
    let Payload::Json(json) = args else { return None };
    let value = json.to_value();
    let level = match value["level"].as_str() {
        Some("trace") => Level::Trace,
        Some("debug") => Level::Debug,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        _ => Level::Info,
    };
    let fields = value.get("fields").filter(|fields| fields.is_object()).map(Json::from_value);
    Some(LogLine { level, text: value["message"].as_str()?.to_owned(), fields })
}

#[cfg(test)]
mod tests;
