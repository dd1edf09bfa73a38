//! What a run tells of its nodes while it goes on: log lines with fields, for terminals and records.
//!
//! A step of the interpreter writes at most one line for each node that changed in it, so the lines of a run are bounded by its
//! steps and nodes, not by its items. The text is for people; `fields` is a JSON object with one key:
//!
//! - `wfhost.node`: `{node, status, total, done, failed, flying, attempts}`. `status` is waiting, running, succeeded, failed, skipped,
//!   unreached or cancelled; `total` counts items (1 without `for-each`, 0 before they are known).
//!   A failed node has `error` as well: the object that expressions see.
//! - `wfhost.retry`: `{node, item, attempt, kind, title, delay-us}`: an attempt failed and will be repeated.
//!
//! [`Progress::of`] reads them back.
//!
//! *Rejected*: `expose`. A query reads the whole state, so each change would write all of it again.

use super::state::{Stage, Status};
use super::{Interpreter, ItemKey};
use crate::process::{Context, Json, Level, LogLine, Micros, Problem};
use serde_json::{Value, json};

/// What a log line of the interpreter says.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
pub enum Progress {
    /// A node has changed.
    #[serde(rename = "wfhost.node")]
    Node(NodeProgress),
    /// An attempt failed and will be repeated.
    #[serde(rename = "wfhost.retry")]
    Retry(RetryProgress),
}

/// How far a node is.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct NodeProgress {
    /// The step's id.
    pub node: String,
    /// `waiting`, `running`, or how it ended.
    pub status: String,
    /// Items in all: 1 without `for-each`, 0 before they are known.
    pub total: usize,
    /// Items that ended, those that failed included.
    pub done: usize,
    /// Items that failed.
    pub failed: usize,
    /// Attempts in flight.
    pub flying: usize,
    /// The most attempts that one item took.
    pub attempts: u32,
    /// Why it failed.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub error: Value,
}

/// An attempt that will be repeated.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RetryProgress {
    /// The step's id.
    pub node: String,
    /// Which item, where it has `for-each`.
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
    /// What a line says, where it is one of these.
    #[must_use]
    pub fn of(line: &LogLine) -> Option<Self> {
        let fields = line.fields.as_ref()?.as_str();
        if !fields.starts_with("{\"wfhost.") {
            return None;
        }
        serde_json::from_str(fields).ok()
    }
}

impl Interpreter {
    /// Writes a line for each node that changed in this step.
    pub(super) fn tell_changes(&mut self, context: &mut Context<'_>) {
        for index in std::mem::take(&mut self.changed) {
            let state = &self.nodes[index];
            let flying = state.running.as_ref().map_or(0, |running| {
                running.live.values().filter(|item| matches!(item.stage, Stage::Flying(_))).count()
            });
            let progress = NodeProgress {
                node: self.plan.nodes[index].id.to_string(),
                status: state.status.name().to_owned(),
                total: state.total,
                done: state.done,
                failed: state.failed,
                flying,
                attempts: state.attempts,
                error: state.error.clone(),
            };
            let items = if self.plan.nodes[index].for_each.is_some() && state.total > 0 {
                format!(" {}/{}", state.done, state.total)
            } else {
                String::new()
            };
            let level = match state.status {
                Status::Failed => Level::Error,
                Status::Waiting => Level::Debug,
                _ => Level::Info,
            };
            context.log(LogLine {
                level,
                text: format!("{}: {}{items}", progress.node, progress.status),
                fields: Some(Json::from_value(&json!({"wfhost.node": progress}))),
            });
        }
    }

    pub(super) fn tell_retry(
        &self,
        context: &mut Context<'_>,
        (index, item): ItemKey,
        attempt: u32,
        problem: &Problem,
        delay: Micros,
    ) {
        let node = &self.plan.nodes[index];
        let progress = RetryProgress {
            node: node.id.to_string(),
            item: node.for_each.is_some().then_some(item),
            attempt,
            kind: problem.kind.to_string(),
            title: problem.title.to_string(),
            delay_us: delay.0,
        };
        let place = progress.item.map_or(String::new(), |item| format!("[{item}]"));
        let text = format!(
            "{}{place}: attempt {attempt} failed, next in {:?}: {problem}",
            node.id,
            std::time::Duration::from(delay)
        );
        context.log(LogLine {
            level: Level::Warn,
            text,
            fields: Some(Json::from_value(&json!({"wfhost.retry": progress}))),
        });
    }
}
