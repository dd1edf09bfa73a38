//! What the cases of a file gave, as text and as JSON.

use super::case_file::Case;
use super::execution::{End, Execution};
use super::judge::difference::shown;
use super::judge::rounded;
use crate::process::{Micros, Timestamp};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Source;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What the cases of a file gave.
#[derive(Debug)]
pub struct SuiteResult {
    /// The case file, as messages name it.
    pub file: String,
    /// The workflow's file.
    pub workflow: PathBuf,
    /// The cases that were executed, in file order.
    pub cases: Vec<CaseResult>,
}

/// What a case gave.
#[derive(Debug)]
pub struct CaseResult {
    /// The case's name.
    pub name: String,
    /// Where it stands in its file: line and column.
    pub at: (usize, usize),
    /// Why it has failed; empty if it has passed.
    pub failures: Diagnostics,
    /// The faults that it was executed with, as text; empty if there were none.
    pub faults: String,
    /// Of these faults, those that hit nothing, each with why.
    pub missed: Vec<(String, String)>,
    /// How many more executions there were, each with faults that were drawn.
    pub executions: u64,
    /// How long the run took in its own time.
    pub takes: Micros,
    /// Real time.
    pub took: Duration,
    /// How many records the run has.
    pub records: u64,
    /// The BLAKE3 of the records in hexadecimal: the same case has the same each time.
    pub digest: String,
    /// What happened, a line each.
    pub trace: Vec<String>,
    /// The steps that ran, without items.
    pub reached: std::collections::BTreeSet<String>,
}

impl CaseResult {
    /// Makes the result of an execution.
    pub(super) fn new(source: &Source, case: &Case, execution: &Execution, failures: Vec<Diagnostic>) -> Self {
        let position = source.position(case.name.span.start);
        let mut all = Diagnostics::new(source.clone());
        for failure in failures {
            all.push(failure);
        }
        let story = &execution.story;
        let ran = story.steps.iter().filter(|(_, step)| step.begun.is_some());
        let reached = ran.map(|(path, _)| crate::workflow::interpreter::progress::without_items(path)).collect();
        Self {
            name: case.name.value.clone(),
            at: (position.line, position.column),
            failures: all,
            faults: String::new(),
            missed: Vec::new(),
            executions: 0,
            takes: story.ended.since(story.started),
            took: execution.took,
            records: story.records,
            digest: execution.digest.clone(),
            trace: trace(case, execution),
            reached,
        }
    }

    /// Whether it has passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The virtual time that it took, in words.
    #[must_use]
    pub fn takes_in_words(&self) -> String {
        rounded(self.takes)
    }

    /// All of it but its trace as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "status": if self.passed() { "passed" } else { "failed" },
            "at": { "line": self.at.0, "column": self.at.1 },
            "failures": self.failures.to_json()["problems"],
            "faults": self.faults,
            "missed": self.missed.iter().map(|(fault, why)| json!({ "fault": fault, "why": why })).collect::<Vec<_>>(),
            "executions": 1 + self.executions,
            "takes-ms": crate::workflow::model::millis(self.takes),
            "real-ms": self.took.as_micros() as f64 / 1e3,
            "records": self.records,
            "digest": self.digest,
        })
    }
}

impl SuiteResult {
    /// How many cases have passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passed()).count()
    }

    /// How many cases have failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.cases.len() - self.passed()
    }

    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "file": self.file,
            "workflow": self.workflow,
            "passed": self.passed(),
            "failed": self.failed(),
            "cases": self.cases.iter().map(CaseResult::to_json).collect::<Vec<_>>(),
        })
    }
}

/// What happened in an execution: steps, calls and lines in the order of records.
fn trace(case: &Case, execution: &Execution) -> Vec<String> {
    let story = &execution.story;
    let mut events: Vec<(u64, u8, Timestamp, String)> = Vec::new();
    for (path, step) in &story.steps {
        if let (Some(record), Some(at)) = (step.begun, step.begun_at)
            && step.ended != Some(record)
        {
            events.push((record, 1, at, format!("{path} begins")));
        }
        if let (Some(record), Some(at)) = (step.ended, step.ended_at) {
            let why = step.error["title"].as_str().map_or_else(String::new, |title| format!(": {title}"));
            events.push((record, 0, at, format!("{path} {}{why}", step.status)));
        }
    }
    for call in &execution.calls {
        let answer = match &call.answer {
            Some(Ok(payload)) => match payload {
                crate::process::Payload::Json(json) => shown(&json.to_value()),
                other => format!("{} bytes", other.size()),
            },
            Some(Err(problem)) => format!("a problem: {problem}"),
            None => "nothing".to_owned(),
        };
        let (handler, number, step) = (&call.handler, call.number, &call.step);
        let again = if call.sends > 1 { format!(", sent {} times", call.sends) } else { String::new() };
        let late = call.gave_up.map_or_else(String::new, |after| {
            format!(", which comes too late: the call waits for {}", crate::workflow::model::write_duration(after))
        });
        let args = shown(&call.args);
        let text = format!("call {handler}#{number} by {step}: {args} is answered {answer}{again}{late}");
        events.push((call.record, 2, call.at, text));
    }
    for (record, at, text) in &execution.incidents {
        events.push((*record, 4, *at, text.clone()));
    }
    for line in &story.logs {
        let step = if line.step.is_empty() { String::new() } else { format!("{}: ", line.step) };
        events.push((line.record, 3, line.at, format!("log {step}{}", line.text)));
    }
    events.sort_by_key(|event| (event.0, event.1));
    let mut lines: Vec<String> = Vec::new();
    for (record, _, at, text) in events {
        let mut line = String::new();
        let _ = write!(line, "{:>12}  {record:>4}  {text}", rounded(at.since(story.started)));
        lines.push(line);
    }
    for signal in &execution.unsent {
        lines.push(format!("the signal `{}` was not sent: the run had ended", case.signals[*signal].name.value));
    }
    if let End::Refused(error) = &execution.end {
        lines.push(format!("there was no run: {error}"));
    }
    if let End::Ended(outcome) = &execution.end {
        let result = outcome.outputs().map_or_else(String::new, |outputs| format!(": {}", shown(&outputs)));
        let status = json!(outcome.status);
        lines.push(format!("the run: {}{result}", status.as_str().unwrap_or_default()));
    }
    lines
}
