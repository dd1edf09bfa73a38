//! The outcome of a run, as an embedder and a person see it.

use crate::process::problem::kind;
use crate::process::{Answer, Micros, Payload, Problem, ProblemClass};
use crate::run::{Abandoned, Counts, EndStatus, TIMEOUT_REASON};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It returned its outputs.
    Succeeded,
    /// It ended with a problem.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled because it took too long: see
    /// [`RunHandle::time_out`](super::RunHandle::time_out).
    TimedOut,
    /// It has not ended: its host stopped.
    Suspended,
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// The id of the run.
    pub run: Arc<str>,
    /// The outputs, or the problem that ended it.
    pub result: Answer,
    /// How it ended.
    pub status: Status,
    /// Calls whose answer was no longer needed, up to a bound.
    pub abandoned: Vec<Abandoned>,
    /// The counts of what happened in the run.
    pub counts: Counts,
}

impl Outcome {
    pub(crate) fn new(run: Arc<str>, outcome: &crate::run::Outcome) -> Self {
        let status = match &outcome.result {
            Err(problem) if problem.kind == kind::SUSPENDED => Status::Suspended,
            result => match EndStatus::of(&outcome.ending, result, outcome.late) {
                EndStatus::Succeeded => Status::Succeeded,
                EndStatus::Failed => Status::Failed,
                EndStatus::Cancelled => Status::Cancelled,
                EndStatus::TimedOut => Status::TimedOut,
            },
        };
        let result = match (&outcome.result, outcome.late) {
            (Err(problem), Some(after)) if status == Status::TimedOut => Err(Arc::new(timed_out(after, problem))),
            (result, _) => result.clone(),
        };
        Self { run, result, status, abandoned: outcome.abandoned.clone(), counts: outcome.counts }
    }

    /// Returns the outputs as a value; `None` if there are none, or they are bytes.
    pub fn outputs(&self) -> Option<Value> {
        match &self.result {
            Ok(Payload::Json(json)) => Some(json.to_value()),
            _ => None,
        }
    }

    /// Returns all of it as JSON: `run`, `status`, `outputs` or `problem`, `abandoned`, `counts`.
    pub fn to_json(&self) -> Value {
        let mut value = json!({ "run": &*self.run, "status": self.status });
        match &self.result {
            Ok(_) => value["outputs"] = self.outputs().unwrap_or(Value::Null),
            Err(problem) => value["problem"] = problem_json(problem),
        }
        value["abandoned"] = json!(self.abandoned);
        value["counts"] = json!(self.counts);
        value
    }
}

/// The problem of a run that took too long. Its root was cancelled, and that problem says what was
/// undone and what was not.
fn timed_out(after: Micros, cancelled: &Problem) -> Problem {
    let detail = cancelled.detail.as_deref().unwrap_or(TIMEOUT_REASON);
    let more = match detail.strip_prefix(TIMEOUT_REASON) {
        Some(more) => more.to_owned(),
        None => format!("; {detail}"),
    };
    let problem = Problem::new(kind::TIMED_OUT, "The run took too long")
        .with_detail(format!("it had not ended after {:?}{more}", Duration::from(after)))
        .with_class(ProblemClass::Retryable);
    Problem { data: cancelled.data.clone(), ..problem }
}

/// Writes a problem as JSON, with its extension members as values and not as text.
fn problem_json(problem: &Problem) -> Value {
    let mut value = json!(problem);
    if let Some(data) = &problem.data {
        value["data"] = data.to_value();
    }
    value
}
