//! Parts of a run, read from its records: its steps, its graph, its snapshots, and all of it as it
//! was at a record.

use super::reruns::recover_problem;
use crate::host::{Attempt, RunProjection, SpanEnd, StepAttempts};
use crate::process::{Answer, Payload};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{Params, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use crate::serve::view::step_json;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which attempts of a step are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct StepParams {
    /// Only those of the item with this index.
    pub item: Option<u64>,
    /// At most so many, the first ones: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// A step of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepView {
    /// As `GET /v1/runs/{id}` shows it; null if it has not begun.
    #[schema(value_type = Option<Object>)]
    pub step: Option<Value>,
    /// Its attempts: guests and calls, in the order in which they began. Those of a step that
    /// waits, or sets a value, are none: the workflow itself does it.
    pub attempts: Vec<AttemptView>,
    /// How many there were beyond the limit.
    pub more: u64,
}

/// An attempt of a step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Attempt)]
pub struct AttemptView {
    /// The index of the item; 0 without a `for-each`.
    pub item: u64,
    /// The number of the attempt, from 1.
    pub number: u64,
    /// The process, if it is a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// What was called, or the entry point of the guest.
    pub target: String,
    /// When it began.
    pub began: String,
    /// The number of that record.
    pub record: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The number of that record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_record: Option<u64>,
    /// `succeeded`, `failed`, `cancelled` or `unfinished`.
    pub state: String,
    /// The kind of its problem, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it was given. Needs `runs:payloads`, as `output` and `problem` do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub problem: Option<Value>,
}

impl AttemptView {
    fn of(attempt: Attempt, with_payload: bool) -> Self {
        let (output, problem) = match &attempt.answer {
            Some(Answer::Ok(output)) => (Some(payload_json(output)), None),
            Some(Answer::Err(problem)) => (None, Some(json!(problem))),
            None => (None, None),
        };
        Self {
            item: attempt.item,
            number: attempt.number,
            pid: attempt.pid.map(|pid| pid.0),
            target: attempt.target.to_string(),
            began: rfc3339(attempt.began.1),
            record: attempt.began.0,
            ended: attempt.ended.map(|(_, at)| rfc3339(at)),
            end_record: attempt.ended.map(|(record, _)| record),
            state: attempt.end.word().to_owned(),
            kind: problem_kind(&attempt.end),
            input: with_payload.then(|| payload_json(&attempt.input)),
            output: output.filter(|_| with_payload),
            problem: problem.filter(|_| with_payload),
        }
    }
}

/// The kind of the problem that something ended with.
pub(super) fn problem_kind(end: &SpanEnd) -> Option<String> {
    match end {
        SpanEnd::Failed(kind) => Some(kind.clone()),
        _ => None,
    }
}

/// A payload: its JSON, or `base64` or `blob` as in a record.
fn payload_json(payload: &Payload) -> Value {
    match payload {
        Payload::Json(json) => json.to_value(),
        other => crate::host::record_json::payload(other),
    }
}

/// Shows a step of a run, with its attempts.
#[utoipa::path(get, path = "/v1/runs/{id}/steps/{step}", tag = "parts",
    params(("id" = String, Path), ("step" = String, Path), StepParams),
    responses((status = 200, body = StepView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn step(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, step)): Segments<(String, String)>,
    Params(params): Params<StepParams>,
) -> Answered<Json<StepView>> {
    let (limit, item) = (query::limit(params.limit)? as usize, query::number("item", params.item)?);
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let with_payload = caller.has(Scope::RunsPayloads);
            let mut attempts = StepAttempts::of(&step, item, limit);
            service.each_record(&id, 1, None, |_, record| {
                attempts.apply(record);
                true
            })?;
            let (attempts, more, projection) = attempts.finish();
            let node = projection.steps().into_iter().find(|node| node.node == step);
            if node.is_none() && attempts.is_empty() {
                // It may be one that has not begun.
                let plan = service.host.plan_of(&id).map_err(recover_problem)?;
                if plan.node(&step).is_none() {
                    return Err(ServeProblem::unknown(format_args!("step `{step}`")));
                }
            }
            let attempts = attempts.into_iter().map(|attempt| AttemptView::of(attempt, with_payload)).collect();
            Ok(Json(StepView { step: node.map(|node| step_json(&node, with_payload)), attempts, more }))
        })
        .await
}

/// The graph of a run's workflow, with what its steps do.
#[derive(Debug, Serialize, ToSchema)]
pub struct GraphView {
    /// The name of the workflow.
    pub name: String,
    /// The steps: `id`, `action`, `label`, `stage`, `conditional`, `for-each`; those that have
    /// begun also `state`, as `GET /v1/runs/{id}` shows it under `steps`.
    #[schema(value_type = Vec<Object>)]
    pub nodes: Vec<Value>,
    /// What needs what: `from`, `to`, `when`.
    #[schema(value_type = Vec<Object>)]
    pub edges: Vec<Value>,
    /// The number of records that this was read from.
    pub records: u64,
}

/// Shows the graph of a run.
#[utoipa::path(get, path = "/v1/runs/{id}/graph", tag = "parts", params(("id" = String, Path)),
    responses((status = 200, body = GraphView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn graph(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<Json<GraphView>> {
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let with_payload = caller.has(Scope::RunsPayloads);
            let plan = service.host.plan_of(&id).map_err(recover_problem)?;
            let mut graph = plan.graph_view();
            let projection = service.projection(&id)?;
            let states: BTreeMap<String, Value> =
                projection.steps().iter().map(|step| (step.node.clone(), step_json(step, with_payload))).collect();
            let mut list = |key: &str| match graph.get_mut(key).map(Value::take) {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            let mut nodes = list("nodes");
            for node in &mut nodes {
                if let Some(state) = node["id"].as_str().and_then(|id| states.get(id)) {
                    node["state"] = state.clone();
                }
            }
            let records = projection.state().counts().records;
            Ok(Json(GraphView { name: plan.name.to_string(), nodes, edges: list("edges"), records }))
        })
        .await
}

/// A run as it was when it had some of its records.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunAt {
    /// Its id.
    pub run: String,
    /// The number of the last of those records.
    pub record: u64,
    /// The latest time in them.
    pub at: String,
    /// How it had ended: `succeeded`, `failed`, `cancelled` or `timed-out`; `paused`, or
    /// `unfinished`.
    pub state: String,
    /// Its steps.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<Value>,
    /// The signals that it waited for or kept: `name`, `waiting`, `kept`.
    #[schema(value_type = Vec<Object>)]
    pub signals: Vec<Value>,
    /// Its calls whose outcome would have been unknown if its host had ended then.
    #[schema(value_type = Vec<Object>)]
    pub uncertain: Vec<Value>,
    /// The names of the values that it exposed.
    pub queries: Vec<String>,
    /// Those values. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub values: Option<BTreeMap<String, Value>>,
    /// Counts of what had happened.
    #[schema(value_type = Object)]
    pub counts: Value,
}

/// Shows a run as it was when it had its first records. Nothing is executed.
#[utoipa::path(get, path = "/v1/runs/{id}/at/{record}", tag = "parts",
    params(("id" = String, Path), ("record" = u64, Path, minimum = 1)),
    responses((status = 200, body = RunAt),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn at(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, record)): Segments<(String, u64)>,
) -> Answered<Json<RunAt>> {
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let with_payload = caller.has(Scope::RunsPayloads);
            let mut projection = RunProjection::default();
            let mut last = 0;
            service.each_record(&id, 1, Some(record), |number, record| {
                projection.apply(record, &mut |_| {});
                last = number;
                true
            })?;
            if last != record || record == 0 {
                return Err(no_record(&id, record));
            }
            let state = projection.state();
            let word = match projection.outcome(&id) {
                Some(outcome) => json!(outcome.status).as_str().unwrap_or_default().to_owned(),
                None if projection.is_paused() => "paused".to_owned(),
                None => "unfinished".to_owned(),
            };
            let exposed = state.exposed().map(|(name, value)| (name.to_string(), payload_json(value)));
            Ok(Json(RunAt {
                record,
                at: rfc3339(state.at()),
                state: word,
                steps: projection.steps().iter().map(|step| step_json(step, with_payload)).collect(),
                signals: state.signals().iter().map(|signal| json!(signal)).collect(),
                uncertain: state.uncertain().iter().map(|call| json!(call)).collect(),
                queries: state.exposed().map(|(name, _)| name.to_string()).collect(),
                values: with_payload.then(|| exposed.collect()),
                counts: json!(state.counts()),
                run: id,
            }))
        })
        .await
}

/// The problem of a record that a run does not have.
pub(super) fn no_record(id: &str, record: u64) -> ServeProblem {
    ServeProblem::new(ProblemKind::Unknown).detail(format!("the run `{id}` has no record {record}"))
}

/// A snapshot of a process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshot)]
pub struct SnapshotView {
    /// The process.
    pub pid: u64,
    /// The step after which it was taken.
    pub step: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Which snapshots are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SnapshotParams {
    /// Those of this process and the ones after it.
    pub pid: Option<u64>,
    /// Snapshots of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// The snapshots of a run's processes.
#[derive(Debug, Serialize, ToSchema)]
pub struct SnapshotPage {
    /// The snapshots, in the order of their processes and steps: the last few of each.
    pub snapshots: Vec<SnapshotView>,
    /// The `pid` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Lists the snapshots that are stored of a run's processes: with them a process goes on without
/// its steps being repeated.
#[utoipa::path(get, path = "/v1/runs/{id}/snapshots", tag = "parts", params(("id" = String, Path), SnapshotParams),
    responses((status = 200, body = SnapshotPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn snapshots(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<SnapshotParams>,
) -> Answered<Json<SnapshotPage>> {
    let limit = query::limit(params.limit)?;
    let from = crate::process::Pid(query::number("pid", params.pid)?.unwrap_or(0));
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let mut found = service.store.snapshot_sizes(&id, from, limit.saturating_add(1))?;
            let next = if found.len() > limit as usize {
                // A process is not cut in two, unless it is alone.
                let last = found.last().map(|size| size.pid);
                let whole = found.iter().take_while(|size| Some(size.pid) != last).count();
                found.truncate(if whole == 0 { limit as usize } else { whole });
                last.map(|pid| if whole == 0 { pid.0.saturating_add(1) } else { pid.0 })
            } else {
                None
            };
            let view =
                |size: &crate::run::SnapshotEntry| SnapshotView { pid: size.pid.0, step: size.step, bytes: size.bytes };
            Ok(Json(SnapshotPage { snapshots: found.iter().map(view).collect(), next }))
        })
        .await
}
