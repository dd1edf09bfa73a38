//! What happened in a run, as its records tell it.

use crate::host::RunProjection;
use crate::process::{Level, Pid, Timestamp};
use crate::run::Record;
use crate::workflow::interpreter::progress::{NodeEnding, NodeProgress, Progress, waits_for};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What happened in a run.
#[derive(Default)]
pub struct Story {
    /// When it started.
    pub started: Timestamp,
    /// When the last record was written.
    pub ended: Timestamp,
    /// How many records there are.
    pub records: u64,
    /// The steps by their paths, `deploy[3].build`.
    pub steps: BTreeMap<String, StepStory>,
    /// The lines that guests and `log` wrote.
    pub logs: Vec<LogText>,
    /// Items of lists that failed: the step, and the index.
    failed_items: BTreeSet<(String, usize)>,
    /// The ids of the acts that are on the disk.
    acts: BTreeSet<String>,
    projection: RunProjection,
}

/// What happened to a step.
#[derive(Clone, PartialEq, Debug)]
pub struct StepStory {
    /// `waiting`, `running`, or how it ended.
    pub status: String,
    /// Items that it has; 1 without `for-each`.
    pub total: usize,
    /// Items that have ended.
    pub done: usize,
    /// The most attempts that one item took.
    pub attempts: u32,
    /// Why it failed, as expressions see it.
    pub error: Value,
    /// The record that tells of its beginning, from 1; `None` if it never ran.
    pub begun: Option<u64>,
    /// When that was.
    pub begun_at: Option<Timestamp>,
    /// The record that tells of its end.
    pub ended: Option<u64>,
    /// When that was.
    pub ended_at: Option<Timestamp>,
    /// What it waits for, of one that has not ended.
    pub waits: String,
}

/// A line of the log.
#[derive(Clone, PartialEq, Debug)]
pub struct LogText {
    /// When it was written.
    pub at: Timestamp,
    /// The record that has it.
    pub record: u64,
    /// The step that wrote it.
    pub step: String,
    /// Its level.
    pub level: Level,
    /// Its text.
    pub text: String,
}

impl Story {
    /// Applies the next record.
    pub(super) fn apply(&mut self, record: &Record) {
        self.records += 1;
        let mut lines = Vec::new();
        self.projection.apply(record, &mut |line| lines.push(line));
        self.ended = self.projection.state().at();
        if let Some(started) = record.started() {
            self.started = started.at;
        }
        if let Record::Arrived(arrived) = record
            && let Some(act) = &arrived.act
        {
            self.acts.insert(act.id.to_string());
        }
        for line in lines {
            match line.progress() {
                Some(Progress::Node(node)) => self.note(node, line.at),
                Some(Progress::Item(failure)) => {
                    self.failed_items.insert((failure.node, failure.item));
                }
                Some(Progress::Retry(_)) => {}
                None => {
                    let (level, text) = (line.line.level, line.line.text);
                    self.logs.push(LogText { at: line.at, record: self.records, step: line.process, level, text });
                }
            }
        }
    }

    fn note(&mut self, node: NodeProgress, at: Timestamp) {
        let record = self.records;
        let waits = waits_for(&node);
        let step = self.steps.entry(node.node).or_insert_with(|| StepStory {
            status: String::new(),
            total: 0,
            done: 0,
            attempts: 0,
            error: Value::Null,
            begun: None,
            begun_at: None,
            ended: None,
            ended_at: None,
            waits: String::new(),
        });
        let is_end = !matches!(node.status.as_str(), "waiting" | "running");
        let has_run = node.status == "running" || node.attempts > 0 || node.status == "succeeded";
        if has_run && step.begun.is_none() {
            (step.begun, step.begun_at) = (Some(record), Some(at));
        }
        if is_end && step.ended.is_none() {
            (step.ended, step.ended_at) = (Some(record), Some(at));
        }
        (step.status, step.attempts, step.error, step.waits) = (node.status, node.attempts, node.error, waits);
        (step.total, step.done) = (node.total, node.done);
    }

    /// How a step ended, or an item of one, `order[2]`. `None` if nothing is known of it.
    #[must_use]
    pub fn status(&self, path: &str) -> Option<&str> {
        let word = |status: &str| NodeEnding::ALL.into_iter().map(NodeEnding::name).find(|name| *name == status);
        if let Some(step) = self.steps.get(path) {
            // One that had not ended was cut off by the end of the run.
            return Some(word(&step.status).unwrap_or(NodeEnding::Cancelled.name()));
        }
        let (step, item) = path.strip_suffix(']')?.rsplit_once('[')?;
        let (item, known) = (item.parse::<usize>().ok()?, self.steps.get(step)?);
        if item >= known.total {
            return None;
        }
        if self.failed_items.contains(&(step.to_owned(), item)) {
            return Some(NodeEnding::Failed.name());
        }
        (known.done == known.total).then(|| NodeEnding::Succeeded.name())
    }

    /// Whether an act is on the disk.
    pub(super) fn knows(&self, act: &str) -> bool {
        self.acts.contains(act)
    }

    /// The name of a process for people: its step, with its item.
    pub(super) fn name(&self, pid: Pid) -> String {
        self.projection.name(pid).unwrap_or_default().to_owned()
    }

    /// Whether an uncertain call waits for somebody to settle it.
    pub(super) fn is_uncertain(&self) -> bool {
        !self.projection.state().uncertain().is_empty()
    }

    /// How the run of this id ended; `None` if it has not.
    pub(super) fn outcome(&self, run: &str) -> Option<crate::host::Outcome> {
        self.projection.outcome(run)
    }

    /// The steps that have not ended, each with what it waits for.
    #[must_use]
    pub fn open(&self) -> Vec<(&str, &str)> {
        let open = self.steps.iter().filter(|(_, step)| step.status == "running");
        open.map(|(path, step)| (path.as_str(), step.waits.as_str())).collect()
    }
}
