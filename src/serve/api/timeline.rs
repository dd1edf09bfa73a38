//! A run over time, read from its records: its spans, its processes, and what caused what.

use super::parts::{no_record, problem_kind};
use crate::host::{Caused, Flow, RunCauses, RunProcess, RunProcesses, RunSpans, Span, Traced};
use crate::process::{Pid, Timestamp};
use crate::run::{Record, system_time};
use crate::serve::access::Caller;
use crate::serve::body::{Params, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Spans of a page: unless the request says otherwise, and at most.
const SPANS: (usize, usize) = (1_000, 10_000);

/// Which spans are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TimelineParams {
    /// The index of the first span, and of the first flow, from 0.
    pub from: Option<u64>,
    /// Spans and flows of a page: 1 to 10,000; 1,000 if it is not given.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
}

/// What took how long, by columns: the values at one index are of one span. Those that have ended
/// come first, in that order.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SpanColumns {
    /// The ids.
    pub id: Vec<String>,
    /// The ids of the spans that they are within.
    pub parent: Vec<Option<String>>,
    /// `run`, `step`, `process`, `call`, `wait` or `sleep`.
    pub kind: Vec<&'static str>,
    /// The step, the process, what is called or waited for.
    pub name: Vec<String>,
    /// The process, or whose command it is.
    pub pid: Vec<u64>,
    /// When it began, in microseconds since 1970.
    pub begin: Vec<u64>,
    /// When it ended, in microseconds since 1970; the time of this answer if it has not.
    pub end: Vec<u64>,
    /// `succeeded`, `failed`, `cancelled` or `unfinished`.
    pub state: Vec<&'static str>,
    /// The kind of the problem, if it failed.
    pub problem: Vec<Option<String>>,
}

/// Messages and spawns, by columns.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FlowColumns {
    /// `spawn`, or the topic of the message.
    pub name: Vec<String>,
    /// The process that caused it.
    pub from: Vec<u64>,
    /// When, in microseconds since 1970.
    pub sent: Vec<u64>,
    /// The process that it reached.
    pub to: Vec<u64>,
    /// When that one next took a step.
    pub taken: Vec<u64>,
}

/// A run over time.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Timeline {
    /// The spans.
    pub spans: SpanColumns,
    /// What went from one process to another.
    pub flows: FlowColumns,
    /// The number of records that this was read from.
    pub records: u64,
    /// The `from` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The columns of a page, while they are filled.
struct Window {
    from: u64,
    to: u64,
    spans: u64,
    flows: u64,
    timeline: Timeline,
}

impl Window {
    fn takes(&mut self, traced: Traced) {
        match traced {
            Traced::Ended(span) => {
                if (self.from..self.to).contains(&self.spans) {
                    self.timeline.spans.push(span);
                }
                self.spans += 1;
            }
            Traced::Flow(flow) => {
                if (self.from..self.to).contains(&self.flows) {
                    self.timeline.flows.push(&flow);
                }
                self.flows += 1;
            }
            _ => {}
        }
    }
}

impl SpanColumns {
    fn push(&mut self, span: Span) {
        let id = |id: crate::host::SpanId| format!("{:016x}", u64::from_be_bytes(id.0));
        self.id.push(id(span.id));
        self.parent.push(span.parent.map(id));
        self.kind.push(span.kind.word());
        self.name.push(span.name);
        self.pid.push(span.pid.0);
        self.begin.push(span.from.0);
        self.end.push(span.to.0);
        self.state.push(span.end.word());
        self.problem.push(problem_kind(&span.end));
    }
}

impl FlowColumns {
    fn push(&mut self, flow: &Flow) {
        self.name.push(flow.name.to_string());
        self.from.push(flow.from.0.0);
        self.sent.push(flow.from.1.0);
        self.to.push(flow.to.0.0);
        self.taken.push(flow.to.1.0);
    }
}

/// Shows a run over time.
#[utoipa::path(get, path = "/v1/runs/{id}/timeline", tag = "parts", params(("id" = String, Path), TimelineParams),
    responses((status = 200, body = Timeline),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn timeline(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<TimelineParams>,
) -> Answered<Json<Timeline>> {
    let limit = params.limit.map_or(SPANS.0, |limit| limit as usize);
    if limit == 0 || limit > SPANS.1 {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("limit", format!("it is 1 to {}", SPANS.1)));
    }
    let from = query::number("from", params.from)?.unwrap_or(0);
    service
        .with_store(move |service| {
            let stored = service.run_for(&caller, &id)?;
            let to = from.saturating_add(limit as u64);
            let mut window = Window { from, to, spans: 0, flows: 0, timeline: Timeline::default() };
            let mut spans = RunSpans::of(Arc::clone(&stored.id), &*stored.name);
            service.each_record(&id, 1, None, |number, record| {
                spans.apply(record, &mut |traced| window.takes(traced));
                window.timeline.records = number;
                true
            })?;
            spans.finish(system_time(), &mut |traced| window.takes(traced));
            window.timeline.next = (window.spans.max(window.flows) > to).then_some(to);
            Ok(Json(window.timeline))
        })
        .await
}

/// A process of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Process)]
pub struct ProcessView {
    /// Its number in the run.
    pub pid: u64,
    /// The process that spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The step that it belongs to, with the number of its item, else its entry point. Empty for
    /// the workflow itself.
    pub name: String,
    /// Its place in the workflow, `<step>/<item>/<n>`, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Its component, if the spawn names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Its entry point.
    pub entry: String,
    /// `unfinished`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    /// What it does now, if it lives and its run is in memory here: `queued`, `starting`,
    /// `running`, `blocked`, `idle`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// The kind of its problem, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// When it was spawned.
    pub began: String,
    /// The number of that record.
    pub record: u64,
    /// The number of its own last record.
    pub last_record: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Steps that it took.
    pub steps: u64,
    /// Fuel of those.
    pub fuel: u64,
    /// Calls that it made.
    pub calls: u64,
    /// Messages that it sent and that were delivered.
    pub sent: u64,
    /// Processes that it spawned.
    pub spawned: u64,
}

impl ProcessView {
    fn of(pid: Pid, process: &RunProcess, doing: &BTreeMap<Pid, String>) -> Self {
        let is_open = process.ended.is_none();
        Self {
            pid: pid.0,
            parent: process.parent.map(|pid| pid.0),
            name: process.name.clone(),
            scope: process.scope.as_ref().map(ToString::to_string),
            component: process.component.as_ref().map(ToString::to_string),
            entry: process.entry.to_string(),
            state: process.end.word().to_owned(),
            doing: doing.get(&pid).filter(|_| is_open).cloned(),
            kind: problem_kind(&process.end),
            began: rfc3339(process.began.1),
            record: process.began.0,
            last_record: process.last.0,
            ended: process.ended.map(|(_, at)| rfc3339(at)),
            steps: process.steps,
            fuel: process.fuel,
            calls: process.calls,
            sent: process.sent,
            spawned: process.spawned,
        }
    }
}

/// Which processes are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ProcessParams {
    /// The first one.
    pub from: Option<u64>,
    /// Only those that live, or that have ended.
    pub ended: Option<bool>,
    /// Processes of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// A page of processes.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProcessPage {
    /// The processes, in the order in which they were spawned.
    pub processes: Vec<ProcessView>,
    /// The `from` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

fn processes_of(service: &Service, id: &str) -> Answered<(RunProcesses, BTreeMap<Pid, String>)> {
    let mut processes = RunProcesses::default();
    service.each_record(id, 1, None, |_, record| {
        processes.apply(record);
        true
    })?;
    // A parked run stays parked.
    let here = service.host.run_of(id).filter(|_| service.host.parked_run(id).is_none());
    let word = |doing| serde_json::json!(doing).as_str().unwrap_or_default().to_owned();
    let living = here.map(|run| run.processes()).unwrap_or_default();
    Ok((processes, living.into_iter().map(|process| (process.pid, word(process.doing))).collect()))
}

/// Lists the processes of a run, those that have ended too.
#[utoipa::path(get, path = "/v1/runs/{id}/processes", tag = "parts", params(("id" = String, Path), ProcessParams),
    responses((status = 200, body = ProcessPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn processes(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<ProcessParams>,
) -> Answered<Json<ProcessPage>> {
    let (limit, from) = (query::limit(params.limit)? as usize, query::number("from", params.from)?);
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let (processes, doing) = processes_of(service, &id)?;
            let fits = |process: &RunProcess| params.ended.is_none_or(|ended| ended == process.ended.is_some());
            let mut found = processes.from(Pid(from.unwrap_or(0))).filter(|(_, process)| fits(process));
            let page = found.by_ref().take(limit);
            let page = page.map(|(pid, process)| ProcessView::of(pid, process, &doing)).collect();
            Ok(Json(ProcessPage { processes: page, next: found.next().map(|(pid, _)| pid.0) }))
        })
        .await
}

/// Shows a process of a run.
#[utoipa::path(get, path = "/v1/runs/{id}/processes/{pid}", tag = "parts",
    params(("id" = String, Path), ("pid" = u64, Path)),
    responses((status = 200, body = ProcessView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn process(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, pid)): Segments<(String, u64)>,
) -> Answered<Json<ProcessView>> {
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let (processes, doing) = processes_of(service, &id)?;
            let process = processes.get(Pid(pid));
            let view = process.map(|process| Json(ProcessView::of(Pid(pid), process, &doing)));
            view.ok_or_else(|| ServeProblem::unknown(format_args!("process {pid} in the run `{id}`")))
        })
        .await
}

/// How many causes are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CauseParams {
    /// At most so many, the nearest: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// A record that is a cause or an effect.
#[derive(Debug, Serialize, ToSchema)]
pub struct CauseNode {
    /// Its number.
    pub record: u64,
    /// `started`, `stepped`, `died`, `arrived` or `leaving`.
    pub kind: &'static str,
    /// The process that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// One record caused another.
#[derive(Debug, Serialize, ToSchema)]
pub struct CauseEdge {
    /// The record that was caused.
    pub record: u64,
    /// The record that caused it.
    pub by: u64,
    /// `step` (the process's step before), `spawn`, `message`, `asked` (it made the call, or
    /// waited), `answer`, `timer`, `signal`, `cancel`, or `end` (of a process that it spawned,
    /// monitors or is linked to).
    pub how: &'static str,
}

/// What caused a record, and what it caused.
#[derive(Debug, Serialize, ToSchema)]
pub struct Causes {
    /// The number of the record.
    pub record: u64,
    /// What caused it, and what caused that, the nearest first.
    pub causes: Vec<CauseEdge>,
    /// What it caused directly.
    pub effects: Vec<CauseEdge>,
    /// The records that are named, in their order.
    pub records: Vec<CauseNode>,
    /// Whether there are more causes.
    pub more: bool,
}

/// Shows what caused a record, and what it caused: spawns, messages, answers, timers, signals.
///
/// What has reached a process is taken for a cause of its next step.
#[utoipa::path(get, path = "/v1/runs/{id}/causes/{record}", tag = "parts",
    params(("id" = String, Path), ("record" = u64, Path, minimum = 1), CauseParams),
    responses((status = 200, body = Causes),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn causes(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, record)): Segments<(String, u64)>,
    Params(params): Params<CauseParams>,
) -> Answered<Json<Causes>> {
    let limit = query::limit(params.limit)? as usize;
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let mut causes = RunCauses::default();
            service.each_record(&id, 1, None, |_, record| {
                causes.apply(record);
                true
            })?;
            if record == 0 || record > causes.records() {
                return Err(no_record(&id, record));
            }
            let (found, more) = causes.of(record, limit);
            let effects = causes.effects(record, limit);
            let named = found.iter().chain(&effects).flat_map(|edge| [edge.record, edge.by]);
            let named: BTreeSet<u64> = named.chain([record]).collect();
            let mut records = Vec::new();
            for number in named {
                records.extend(service.records(&id, number, 1)?.iter().map(|record| node(number, record)));
            }
            let edges = |edges: Vec<Caused>| {
                edges.into_iter().map(|Caused { record, by, how }| CauseEdge { record, by, how: how.word() }).collect()
            };
            Ok(Json(Causes { record, causes: edges(found), effects: edges(effects), records, more }))
        })
        .await
}

fn node(number: u64, record: &Record) -> CauseNode {
    let (kind, pid, at): (_, _, Option<Timestamp>) = match record {
        Record::Started(started) => ("started", Some(Pid::ROOT), Some(started.at)),
        Record::Stepped(stepped) => ("stepped", Some(stepped.pid), Some(stepped.at)),
        Record::Died(died) => ("died", Some(died.pid), Some(died.at)),
        Record::Arrived(arrived) => ("arrived", crate::host::record_json::pid_of(&arrived.news), Some(arrived.at)),
        Record::Leaving { pid, .. } => ("leaving", Some(*pid), None),
        Record::Upgraded(upgraded) => ("upgraded", None, Some(upgraded.at)),
    };
    CauseNode { record: number, kind, pid: pid.map(|pid| pid.0), at: at.map(rfc3339) }
}
