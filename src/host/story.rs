//! What the records of a run tell people: its lines, its steps, what it exposed, how it ended. No program is needed for it, and nothing is
//! executed.

use super::Outcome;
use super::waits::Waits;
use crate::process::{Action, Answer, Ending, Json, Level, LogLine, Micros, Payload, Pid, Status, Tag};
use crate::run::{
    Abandoned, Counts, Decided, Decision, News, Origin, Outcome as RunOutcome, Record, RunEvent, SignalStatus,
    Uncertain, answer_of,
};
use crate::workflow::interpreter::progress::{NodeProgress, Progress};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[path = "story_steps.rs"]
mod steps;

/// The handler whose calls are lines.
const LOG: &str = "log";

/// A line of a run's log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Line {
    /// When it was written.
    pub at: Micros,
    /// The process that wrote it.
    pub pid: Pid,
    /// What people call that process: the step that it belongs to, with the number of its item, else its entry point. Empty: the workflow.
    pub process: String,
    /// The line.
    #[serde(flatten)]
    pub line: LogLine,
}

impl Line {
    /// Whether the workflow itself says how far a step is.
    pub fn progress(&self) -> Option<Progress> {
        // A guest that writes such lines is just a guest that writes lines.
        (self.pid == Pid::ROOT && self.process.is_empty()).then(|| Progress::of(&self.line)).flatten()
    }
}

/// What is known of a run after some of its records.
#[derive(Clone, Default, Debug)]
pub struct Story {
    /// What processes are called.
    names: BTreeMap<Pid, String>,
    /// Steps in the order in which they were first heard of.
    nodes: Vec<NodeProgress>,
    exposed: BTreeMap<Arc<str>, Payload>,
    /// Calls without an answer.
    calls: BTreeMap<(Pid, Tag), Open>,
    waits: Waits,
    /// The run that it was cut from.
    origin: Option<Origin>,
    abandoned: Vec<Abandoned>,
    given_up: Vec<Uncertain>,
    counts: Counts,
    began: Micros,
    at: Micros,
    input: Option<Payload>,
    /// Since when an operator has stopped it.
    paused: Option<Micros>,
    /// How long it was to take at most, where it was asked to end for taking longer.
    late: Option<Micros>,
    /// Somebody has asked it to end.
    is_cancelled: bool,
    end: Option<(Ending, Answer)>,
}

/// A call without an answer.
#[derive(Clone, Debug)]
struct Open {
    handler: Arc<str>,
    key: Arc<str>,
    /// It may have happened, and must not be repeated without being asked.
    is_leaving: bool,
}

/// Calls that are listed of those that were given up. Arbitrary.
const GIVEN_UP_MAX: usize = 1_000;

impl Story {
    /// The story that these records tell.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut story = Self::default();
        records.into_iter().for_each(|record| story.hear(record, &mut |_| {}));
        story
    }

    /// Goes on with a record; the lines in it are told.
    pub fn hear(&mut self, record: &Record, tell: &mut dyn FnMut(Line)) {
        self.counts.records += 1;
        match record {
            Record::Started(started) => {
                (self.began, self.at) = (started.at, started.at);
                self.input = Some(started.input.clone());
                self.origin.clone_from(&started.origin);
                self.counts.processes = 1;
                self.names.insert(Pid::ROOT, String::new());
            }
            Record::Stepped(stepped) => {
                self.at = self.at.max(stepped.at);
                self.counts.steps += 1;
                self.counts.fuel = self.counts.fuel.saturating_add(stepped.fuel);
                self.counts.log_dropped += stepped.log_dropped;
                self.lines(stepped.pid, stepped.at, &stepped.log, tell);
                for decided in &stepped.decided {
                    self.decided(stepped.pid, stepped.at, decided, tell);
                }
                match &stepped.status {
                    Status::Complete(output) => self.ended(stepped.pid, Ending::Completed, Ok(output.clone())),
                    Status::Failed(problem) => {
                        self.ended(stepped.pid, Ending::Failed(problem.clone()), Err(problem.clone()));
                    }
                    _ => {}
                }
            }
            Record::Died(died) => {
                self.at = self.at.max(died.at);
                self.counts.fuel = self.counts.fuel.saturating_add(died.fuel);
                self.counts.log_dropped += died.log_dropped;
                self.lines(died.pid, died.at, &died.log, tell);
                self.ended(died.pid, died.ending.clone(), answer_of(&died.ending));
            }
            Record::Arrived(arrived) => {
                self.at = self.at.max(arrived.at);
                match &arrived.news {
                    News::Answered { pid, tag, .. } => {
                        self.calls.remove(&(*pid, *tag));
                        self.waits.end(*pid, *tag);
                    }
                    News::Again { pid, tag } => self.leave(*pid, *tag, false),
                    News::Signal { name, .. } => self.waits.hear(name),
                    News::Message { .. } => self.counts.messages += 1,
                    News::Paused(true) => {
                        self.paused.get_or_insert(arrived.at);
                    }
                    News::Paused(false) => self.unpause(arrived.at),
                    // Either lets a paused run go on.
                    News::Cancel { pid: Pid::ROOT, .. } => {
                        self.is_cancelled = true;
                        self.unpause(arrived.at);
                    }
                    News::TimedOut { after } => {
                        self.unpause(arrived.at);
                        if !self.is_cancelled {
                            self.late = Some(*after);
                        }
                    }
                    _ => {}
                }
            }
            Record::Leaving { pid, tag } => self.leave(*pid, *tag, true),
        }
        if let Some(held) = self.origin.as_ref().and_then(|origin| origin.cut(self.counts.records)) {
            // What is in flight is in flight in the other run.
            self.calls.values_mut().for_each(|call| call.is_leaving = held);
        }
    }

    fn leave(&mut self, pid: Pid, tag: Tag, is_leaving: bool) {
        if let Some(call) = self.calls.get_mut(&(pid, tag)) {
            call.is_leaving = is_leaving;
        }
    }

    /// Goes on with what is told of a run while it goes on; where it is a line, that is given. What has a record is to be heard once.
    pub fn hear_event(&mut self, event: &RunEvent) -> Option<Line> {
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

    /// The steps, in the order in which they were first heard of, as far as they are.
    pub fn nodes(&self) -> &[NodeProgress] {
        &self.nodes
    }

    /// What was last exposed, by name.
    pub fn exposed(&self) -> impl Iterator<Item = (&Arc<str>, &Payload)> {
        self.exposed.iter()
    }

    /// The calls without an answer, in the order of their processes and tags.
    pub fn calls(&self) -> impl Iterator<Item = (Pid, Tag)> {
        self.calls.keys().copied()
    }

    /// The calls of which nobody knows whether they happened, if no host has the run any more, in the order of their processes and tags.
    pub fn uncertain(&self) -> Vec<Uncertain> {
        let open = self.calls.iter().filter(|(_, call)| call.is_leaving);
        open.map(|(&(pid, tag), Open { handler, key, .. })| Uncertain {
            pid,
            tag,
            handler: Arc::clone(handler),
            key: Arc::clone(key),
        })
        .collect()
    }

    /// The calls that may have happened, and that were given up before their answer came: by a cancel, a timeout, or the end of their process.
    pub fn given_up(&self) -> &[Uncertain] {
        &self.given_up
    }

    /// The signals that calls wait for, or that are kept.
    pub fn signals(&self) -> Vec<SignalStatus> {
        self.waits.status()
    }

    /// Whether somebody would take a signal of this name: a call, or the mailbox of whoever has registered it.
    pub fn takes_signal(&self, name: &str) -> bool {
        self.waits.takes(name)
    }

    /// What the run was started with.
    pub fn input(&self) -> Option<&Payload> {
        self.input.as_ref()
    }

    /// The run that it was made from, where it was.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// When it began.
    pub fn began(&self) -> Micros {
        self.began
    }

    /// When it last did something.
    pub fn at(&self) -> Micros {
        self.at
    }

    /// Whether an operator has stopped it.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// The time by which deadlines of calls and signals count: that of a paused run stands still.
    pub fn time(&self, now: Micros) -> Micros {
        self.paused.unwrap_or(now)
    }

    /// Processes that live.
    pub fn processes(&self) -> usize {
        self.names.len()
    }

    /// What has happened, in numbers.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What people call a process that lives. Empty: the workflow itself.
    pub fn name(&self, pid: Pid) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Whether the run has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// How the run of this id ended, where it has.
    pub fn outcome(&self, run: &str) -> Option<Outcome> {
        let (ending, result) = self.end.clone()?;
        let (late, abandoned, counts) = (self.late, self.abandoned.clone(), self.counts);
        let outcome = RunOutcome { ending, result, late, abandoned, abandoned_more: 0, counts };
        Some(Outcome::new(run.into(), &outcome))
    }

    fn lines(&mut self, pid: Pid, at: Micros, lines: &[LogLine], tell: &mut dyn FnMut(Line)) {
        let process = self.names.get(&pid).cloned().unwrap_or_default();
        for line in lines {
            let line = Line { at, pid, process: process.clone(), line: line.clone() };
            self.node(&line);
            tell(line);
        }
    }

    fn node(&mut self, line: &Line) {
        let Some(Progress::Node(node)) = line.progress() else { return };
        match self.nodes.iter_mut().find(|known| known.node == node.node) {
            Some(known) => *known = node,
            None => self.nodes.push(node),
        }
    }

    fn decided(&mut self, pid: Pid, at: Micros, decided: &Decided, tell: &mut dyn FnMut(Line)) {
        self.counts.commands += 1;
        match (&decided.command.action, &decided.decision) {
            (Action::Spawn(spawn), Decision::Spawned(child)) => {
                self.counts.processes += 1;
                let scope = spawn.placement.as_ref().map(|placement| &*placement.scope);
                let name = self.name_of(Some(pid), scope, &spawn.entry);
                self.names.insert(*child, name);
            }
            (Action::Call(call), Decision::Called(key)) => {
                self.counts.calls += 1;
                let open = Open { handler: Arc::clone(&call.handler), key: Arc::clone(key), is_leaving: false };
                self.calls.insert((pid, decided.command.tag), open);
                if &*call.handler == LOG
                    && let Some(line) = line_of(&call.args)
                {
                    let process = match &call.placement {
                        Some(placement) => self.step(&placement.scope),
                        None => self.names.get(&pid).cloned().unwrap_or_default(),
                    };
                    tell(Line { at, pid, process, line });
                }
            }
            (Action::Call(call), Decision::Waits) => {
                self.waits.begin((pid, decided.command.tag), &call.args, at, call.timeout);
            }
            (Action::Call(call), Decision::Took(_)) => self.waits.took(&call.args),
            (Action::Register(name), Decision::Answered(Ok(_))) => self.waits.register(pid, name),
            (Action::Cancel(tag), _) => {
                self.give_up(pid, *tag);
                self.waits.end(pid, *tag);
            }
            (Action::Expose { query, value }, Decision::Done) => {
                self.exposed.insert(Arc::clone(query), value.clone());
            }
            (Action::Send(_), Decision::Delivered(_)) => self.counts.messages += 1,
            _ => {}
        }
    }

    fn ended(&mut self, pid: Pid, ending: Ending, answer: Answer) {
        self.names.remove(&pid);
        self.waits.forget(pid);
        let own: Vec<Tag> = self.calls.range((pid, Tag(0))..=(pid, Tag(u64::MAX))).map(|((_, tag), _)| *tag).collect();
        for tag in own {
            if let Some(Open { handler, key, .. }) = self.give_up(pid, tag)
                && ending == Ending::Completed
            {
                self.abandoned.push(Abandoned { pid, tag, handler, key });
            }
        }
        if pid == Pid::ROOT {
            self.cut_off();
            self.end = Some((ending, answer));
        }
    }

    /// A call's answer is waited for no more.
    fn give_up(&mut self, pid: Pid, tag: Tag) -> Option<Open> {
        let call = self.calls.remove(&(pid, tag))?;
        if call.is_leaving && self.given_up.len() < GIVEN_UP_MAX {
            let (handler, key) = (Arc::clone(&call.handler), Arc::clone(&call.key));
            self.given_up.push(Uncertain { pid, tag, handler, key });
        }
        Some(call)
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

    /// The step of a place, `<step>/<item>/<n>`, with the item where it has several.
    fn step(&self, scope: &str) -> String {
        let mut parts = scope.split('/');
        let step = parts.next().unwrap_or_default();
        let is_list = self.nodes.iter().any(|node| node.node == step && node.total > 1);
        match parts.next() {
            Some(item) if is_list => format!("{step}[{item}]"),
            _ => step.to_owned(),
        }
    }
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
#[path = "story_tests.rs"]
mod tests;
