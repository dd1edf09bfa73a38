//! The progress of a run's nodes: log lines with fields, for terminals and records.
//!
//! A step of the interpreter writes at most one line for each node that changed in it, so these
//! lines of a run are bounded by its steps and nodes, not by its items. A line with the same text
//! as the one before has level debug. The text is for people; `fields` is a JSON object with one
//! key:
//!
//! - `wfhost.node`: [`NodeProgress`]. `status` is waiting, running, succeeded, failed, skipped,
//!   unreached or cancelled; `total` counts items (1 without `for-each`, 0 before they are known).
//!   A failed node has `error` as well: the object that expressions see.
//! - `wfhost.retry`: [`RetryProgress`]: an attempt failed and will be repeated.
//! - `wfhost.item`: [`ItemFailure`]: an item of a `for-each` failed for good; the first
//!   `FAILURES_REPORTED_MAX` of a node are reported.
//! - Steps within a step are named by their path, `deploy.build`, and with the item if the step has
//!   a list of them: `deploy[3].build`. Of the latter, those that ended within the step of the
//!   interpreter that they began in are told of only if the item failed.
//!
//! [`Progress::of`] reads them back.
//!
//! *Rejected*: `expose`. A query reads the whole state, so each change would write all of it again.

pub use super::cached::CachedFrom;
pub use super::node_ending::NodeEnding;
use super::state::{NodeState, Stage, Status};
use super::{Interpreter, ItemKey};
use crate::process::{Context, Json, Level, LogLine, Micros, Problem, Timestamp};
use crate::workflow::plan::Action;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most items of a node whose waits are listed; the rest are counted. Arbitrary: what a person
/// reads.
const WAITS_MAX: usize = 5;

/// Most items of a node whose failures have their own lines. Arbitrary: what a person reads.
pub(super) const FAILURES_REPORTED_MAX: usize = 100;

/// The content of a log line of the interpreter.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
pub enum Progress {
    /// A node has changed.
    #[serde(rename = "wfhost.node")]
    Node(NodeProgress),
    /// An attempt failed and will be repeated.
    #[serde(rename = "wfhost.retry")]
    Retry(RetryProgress),
    /// An item failed for good.
    #[serde(rename = "wfhost.item")]
    Item(ItemFailure),
}

/// The step of a scope, `<step>/<item>/<n>` after those of the steps that it is within, as a path:
/// `deploy[3].build`. A step has its item if `is_list` says so of the path up to it.
#[must_use]
pub fn path_of(scope: &str, is_list: impl Fn(&str) -> bool) -> String {
    let mut path = String::new();
    let mut parts = scope.split('/');
    while let Some(step) = parts.next() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(step);
        if let Some(item) = parts.next().filter(|_| is_list(&path)) {
            // After a dot stands the turn.
            let _ = write!(path, "[{}]", item.split('.').next().unwrap_or_default());
        }
        parts.next();
    }
    path
}

/// A path without the items in it: `deploy.build`.
#[must_use]
pub fn without_items(path: &str) -> String {
    let parts = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    parts.collect::<Vec<_>>().join(".")
}

/// The progress of a node.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct NodeProgress {
    /// The step's id.
    pub node: String,
    /// `waiting`, `running`, or how it ended.
    pub status: String,
    /// The number of items: 1 without `for-each`, 0 before it is known.
    pub total: usize,
    /// Items that ended, including those that failed.
    pub done: usize,
    /// Items that failed.
    pub failed: usize,
    /// Attempts in flight.
    #[serde(rename = "flying")]
    pub in_flight: usize,
    /// Items that wait; `waits` lists them.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub waiting: usize,
    /// Items that start when others have ended.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub queued: usize,
    /// What the waiting items wait for, the first few in the order of items.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waits: Vec<Wait>,
    /// When the first of the attempts in flight times out, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<Timestamp>,
    /// Whether the deadline pauses with the run: that of calls does, that of guests does not.
    #[serde(rename = "holds", skip_serializing_if = "std::ops::Not::not", default)]
    pub deadline_pauses: bool,
    /// The most attempts that one item took.
    pub attempts: u32,
    /// The most turns that one item took, of a step with `repeat`.
    #[serde(skip_serializing_if = "is_none", default)]
    pub turns: u32,
    /// Items and turns whose outcome came from the cache of steps.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub cached: usize,
    /// Where the first of these came from.
    #[serde(rename = "cached-from", skip_serializing_if = "Option::is_none", default)]
    pub cached_from: Option<CachedFrom>,
    /// Why outcomes of it were not kept, as far as is known: what the guest did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uncached: Option<String>,
    /// Whether its result is taken over from the run that this one repeats.
    #[serde(rename = "taken-over", skip_serializing_if = "std::ops::Not::not", default)]
    pub taken_over: bool,
    /// Why it failed: the object that expressions see.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub error: Value,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

/// An item that waits.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Wait {
    /// What it waits for.
    #[serde(rename = "for")]
    pub cause: Cause,
    /// The index of the item, if the node has `for-each`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub item: Option<usize>,
    /// Since when, in microseconds since 1970.
    pub since: Timestamp,
    /// The end of the wait at the latest, in microseconds since 1970. `None` if there is no bound.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Timestamp>,
}

/// What an item waits for.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Cause {
    /// A signal. Its timeout pauses with the run.
    Signal {
        /// The name of the signal.
        name: String,
    },
    /// The first of several signals, or a time. It pauses with the run.
    Any {
        /// The names of the signals.
        names: Vec<String>,
    },
    /// A point in time.
    Time,
    /// The next turn of a `repeat`.
    Turn {
        /// Its number, from 0.
        turn: u32,
    },
    /// The next attempt.
    Attempt {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The number of the last attempt allowed.
        attempts_max: u32,
        /// The kind of the previous attempt's problem.
        kind: String,
        /// The title of that problem.
        title: String,
    },
}

impl Cause {
    /// The names of the signals that end the wait.
    #[must_use]
    pub fn signals(&self) -> &[String] {
        match self {
            Self::Signal { name } => std::slice::from_ref(name),
            Self::Any { names } => names,
            _ => &[],
        }
    }
}

/// An item of a `for-each` that has failed for good.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ItemFailure {
    /// The step's id.
    pub node: String,
    /// The index of the item.
    pub item: usize,
    /// The attempt that failed, from 1; 0 if no attempt was made.
    pub attempt: u32,
    /// The problem's kind.
    pub kind: String,
    /// The problem's title.
    pub title: String,
    /// The problem's detail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

/// An attempt that will be repeated.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RetryProgress {
    /// The step's id.
    pub node: String,
    /// The index of the item, if the node has `for-each`.
    pub item: Option<usize>,
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// The problem's kind.
    pub kind: String,
    /// The problem's title.
    pub title: String,
    /// Microseconds until the next attempt.
    pub delay_us: u64,
}

impl Progress {
    /// Reads the fields of a log line. `None` if it is not a line of progress.
    #[must_use]
    pub fn of(line: &LogLine) -> Option<Self> {
        let fields = line.fields.as_ref()?.as_str();
        if !fields.starts_with("{\"wfhost.") {
            return None;
        }
        serde_json::from_str(fields).ok()
    }
}

impl NodeProgress {
    /// Items that succeeded.
    #[must_use]
    pub fn succeeded(&self) -> usize {
        self.done.saturating_sub(self.failed)
    }

    /// Returns whether it is running, but all its live items wait.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        self.status == "running" && self.in_flight == 0 && self.waiting > 0
    }

    /// A summary of its items: `3 of 6 done` while it runs, then `6 items`, or `5 of 6 succeeded, 1
    /// failed`.
    #[must_use]
    pub fn items(&self) -> String {
        let mut text = match self.status.as_str() {
            "succeeded" if self.total == 1 => "1 item".to_owned(),
            "succeeded" => format!("{} items", self.total),
            "running" => format!("{} of {} done", self.done, self.total),
            _ => format!("{} of {} succeeded", self.succeeded(), self.total),
        };
        if self.failed > 0 {
            let _ = write!(text, ", {} failed", self.failed);
        }
        text
    }

    /// Why it failed, in one line: `item 3: the server answered 404 Not Found (http-status),
    /// attempt 2`.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        reason(&self.error)
    }
}

/// The signals that a node waits for, in words; empty if there are none.
#[must_use]
pub fn waits_for(node: &NodeProgress) -> String {
    let name = |wait: &Wait| match &wait.cause {
        Cause::Signal { name } => Some(format!("the signal `{name}`")),
        _ => None,
    };
    node.waits.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}

/// The reason of an error in one line.
fn reason(error: &Value) -> Option<String> {
    let (title, kind) = (error["title"].as_str()?, error["kind"].as_str().unwrap_or_default());
    let item = error["item"].as_u64().map_or_else(String::new, |item| format!("item {item}: "));
    let attempt = error["attempt"].as_u64().filter(|attempt| *attempt > 1);
    let attempt = attempt.map_or_else(String::new, |attempt| format!(", attempt {attempt}"));
    let doubt = if error["class"] == "uncertain" { ", may have happened" } else { "" };
    Some(format!("{item}{title} ({kind}){attempt}{doubt}"))
}

impl Interpreter {
    /// Writes a line for each item that failed in this step, then one for each node that changed.
    pub(super) fn report_changes(&mut self, context: &mut Context<'_>) {
        for failure in std::mem::take(&mut self.failures) {
            let ItemFailure { node, item, attempt, kind, title, .. } = &failure;
            let attempt = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            context.log(LogLine {
                level: Level::Warn,
                text: format!("{node}[{item}]: failed: {title} ({kind}){attempt}"),
                fields: Some(Json::from_value(&json!({"wfhost.item": failure}))),
            });
        }
        for index in std::mem::take(&mut self.changed) {
            self.report_node(context, index);
        }
    }

    /// Writes the last lines of the nodes of a block that has ended. Of those within the items of a
    /// list, which may be many, only of those that were told of before, or of all if `all`.
    pub(super) fn report_ended(&mut self, context: &mut Context<'_>, place: usize, all: bool) {
        for index in self.nodes_in(place) {
            let is_told = all || self.tells_all || self.nodes[index].is_told || !self.is_of_list(index);
            if self.changed.remove(&index) && is_told {
                self.report_node(context, index);
            }
        }
    }

    fn report_node(&mut self, context: &mut Context<'_>, index: usize) {
        let progress = self.progress_of(index);
        let is_list = self.node(index).for_each.is_some();
        let text = text_of(&progress, is_list);
        let state = &mut self.nodes[index];
        let is_new = state.last_line.as_deref() != Some(&*text);
        let level = match state.status {
            Status::Failed => Level::Error,
            Status::Waiting => Level::Debug,
            _ if is_new => Level::Info,
            _ => Level::Debug,
        };
        if is_new {
            state.last_line = (!state.status.is_end()).then(|| text.as_str().into());
        }
        state.is_told = true;
        let fields = Some(Json::from_value(&json!({"wfhost.node": progress})));
        context.log(LogLine { level, text, fields });
    }

    fn progress_of(&self, index: usize) -> NodeProgress {
        let state = &self.nodes[index];
        let NodeState { status, total, done, failed, attempts, turns, taken_over, error, running, .. } = state;
        let node = self.node(index);
        let mut in_flight = 0;
        let mut waiting = 0;
        let mut waits = Vec::new();
        let mut deadline = None::<Timestamp>;
        for item in running.iter().flat_map(|running| running.live.values()) {
            match (&item.wait, item.stage) {
                (Some(wait), _) => {
                    waiting += 1;
                    if waits.len() < WAITS_MAX {
                        waits.push(Wait::clone(wait));
                    }
                }
                (None, Stage::InFlight(_) | Stage::Inside(_)) => {
                    in_flight += 1;
                    deadline = deadline.into_iter().chain(item.until).min();
                }
                (None, _) => {}
            }
        }
        let queued = running.as_ref().filter(|running| !running.stopped);
        NodeProgress {
            node: self.path(index),
            status: status.name().to_owned(),
            total: *total,
            done: *done,
            failed: *failed,
            in_flight,
            waiting,
            queued: queued.map_or(0, |running| running.total - running.next + running.queued.len()),
            waits,
            deadline,
            deadline_pauses: deadline.is_some() && matches!(node.action, Action::Call { .. }),
            attempts: *attempts,
            turns: *turns,
            cached: state.cached,
            cached_from: state.cached_from.clone(),
            uncached: None,
            taken_over: *taken_over,
            error: error.clone(),
        }
    }

    pub(super) fn report_retry(
        &self,
        context: &mut Context<'_>,
        (index, item): ItemKey,
        attempt: u32,
        problem: &Problem,
        delay: Micros,
    ) {
        let node = self.node(index);
        let progress = RetryProgress {
            node: self.path(index),
            item: node.for_each.is_some().then_some(item),
            attempt,
            kind: problem.kind.to_string(),
            title: problem.title.to_string(),
            delay_us: delay.0,
        };
        let place = progress.item.map_or(String::new(), |item| format!("[{item}]"));
        let text = format!(
            "{}{place}: attempt {attempt} failed, next in {:?}: {problem}",
            progress.node,
            std::time::Duration::from(delay)
        );
        context.log(LogLine {
            level: Level::Warn,
            text,
            fields: Some(Json::from_value(&json!({"wfhost.retry": progress}))),
        });
    }
}

/// The text of a node's line.
fn text_of(progress: &NodeProgress, is_list: bool) -> String {
    let mut text = format!("{}: {}", progress.node, progress.status);
    if progress.taken_over {
        text.push_str(", taken over");
    }
    if is_list && progress.total > 0 {
        let _ = write!(text, ", {}", progress.items());
    }
    text.push_str(&super::cached::in_words(progress));
    let signals = progress.waits.iter().map(|wait| wait.cause.signals()).find(|names| !names.is_empty());
    if let Some(names) = signals {
        let _ = write!(text, ", waits for signal {}", names.join(" or "));
    }
    if let Some(reason) = progress.reason() {
        let _ = write!(text, ": {reason}");
    }
    text
}
