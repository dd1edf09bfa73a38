//! Schedules: when the service starts workflows by itself.

use crate::journal::catalog::{Firing, Schedule, ScheduleWrite, StoredSchedule};
use crate::run::system_time;
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::problem::{Answered, PartProblem, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::schedule::{API, WORKFLOW};
use crate::serve::service::Service;
use crate::workflow::schedule::{DueTime, ScheduleFault, ScheduleSpec, Timetable, upcoming};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Bytes of a schedule's name.
const NAME_BYTES_MAX: usize = 128;

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Schedule)]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// The workflow that it starts.
    pub workflow: String,
    /// What it says. Its inputs need `runs:payloads` or `schedules`.
    pub spec: ScheduleSpec,
    /// The time zone in which its times are meant.
    pub zone: String,
    /// Where it was described: `workflow`, in the file of a deployed one, or `api`.
    pub origin: String,
    /// Changes with each change, as the `ETag` does.
    pub revision: u64,
    /// When it was made.
    pub created: String,
    /// When it was last changed or resumed.
    pub changed: String,
    /// Who changed it last.
    pub author: String,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// When it is due next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl ScheduleView {
    pub(super) fn of(stored: StoredSchedule, caller: &Caller) -> Answered<Self> {
        let (mut spec, table) = read(&stored)?;
        if !caller.has(Scope::RunsPayloads) && !caller.has(Scope::Schedules) {
            spec.inputs.clear();
        }
        let StoredSchedule { schedule, revision, created, changed, paused, .. } = stored;
        let next = if paused.is_some() { None } else { table.next(system_time()) };
        Ok(Self {
            name: schedule.name,
            workflow: schedule.workflow,
            spec,
            zone: table.zone().to_owned(),
            origin: schedule.origin,
            revision,
            created: rfc3339(created),
            changed: rfc3339(changed),
            author: schedule.author,
            paused: paused.map(rfc3339),
            next: next.map(rfc3339),
        })
    }

    pub(super) fn answer(self, status: StatusCode) -> Response {
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.revision));
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        response
    }
}

pub(super) fn read(stored: &StoredSchedule) -> Answered<(ScheduleSpec, Timetable)> {
    let fault = |error: &dyn std::fmt::Debug| {
        tracing::error!(schedule = stored.schedule.name, ?error, "a schedule cannot be read");
        ServeProblem::new(ProblemKind::HostFault)
    };
    let mut spec: ScheduleSpec = serde_json::from_str(&stored.schedule.spec).map_err(|error| fault(&error))?;
    let table = spec.check().map_err(|faults| fault(&faults))?;
    Ok((spec, table))
}

pub(super) fn found(service: &Service, caller: &Caller, name: &str) -> Answered<StoredSchedule> {
    let unknown = || ServeProblem::unknown(format_args!("schedule `{name}`"));
    let stored = service.store.schedule(name)?.ok_or_else(unknown)?;
    if caller.may_touch(&stored.schedule.workflow) { Ok(stored) } else { Err(unknown()) }
}

/// The revision that `If-Match` and `If-None-Match` ask for; 0 is none.
fn expected(headers: &HeaderMap) -> Answered<Option<u64>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(None),
        (None, Some("*")) => Ok(Some(0)),
        (Some(tag), None) => {
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            // A tag that is none of ours names no revision.
            Ok(Some(number.filter(|number| *number > 0).unwrap_or(u64::MAX)))
        }
        _ => Err(ServeProblem::new(ProblemKind::DoesNotFit)
            .detail("`If-Match` has an `ETag`, or `If-None-Match` has `*`; not both")),
    }
}

fn mismatch(found: Option<u64>) -> ServeProblem {
    let detail = match found {
        Some(revision) => format!("its revision is \"{revision}\""),
        None => "there is none of this name".to_owned(),
    };
    ServeProblem::new(ProblemKind::Precondition).detail(detail)
}

/// Lists the schedules that the caller may see, by name.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules",
    responses((status = 200, body = Vec<ScheduleView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Answered<Json<Vec<ScheduleView>>> {
    service
        .with_store(move |service| {
            let all = service.store.schedules()?;
            let seen = all.into_iter().filter(|stored| caller.may_touch(&stored.schedule.workflow));
            Ok(Json(seen.map(|stored| ScheduleView::of(stored, &caller)).collect::<Answered<Vec<_>>>()?))
        })
        .await
}

/// Shows a schedule.
#[utoipa::path(get, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path)),
    responses((status = 200, body = ScheduleView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Response> {
    let found = service.with_store(move |service| ScheduleView::of(found(service, &caller, &name)?, &caller)).await?;
    Ok(found.answer(StatusCode::OK))
}

/// Writes a schedule: makes it, or replaces it.
///
/// The workflow must have an active version, and the inputs must fit it. The same description again
/// changes nothing. A changed schedule catches up no due time before its change.
#[utoipa::path(put, path = "/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that is to be replaced"),
        ("If-None-Match" = Option<String>, Header, pattern = "^\\*$", description = "`*`: there must be none")),
    request_body = ScheduleSpec,
    responses((status = 200, body = ScheduleView, description = "It is changed, or was the same"),
        (status = 201, body = ScheduleView, description = "It is new"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn put(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    headers: HeaderMap,
    JsonBody(spec): JsonBody<ScheduleSpec>,
) -> Answered<Response> {
    let expected = expected(&headers)?;
    caller.check_workflow(&spec.workflow)?;
    service
        .with_store(move |service| {
            check_name(&name)?;
            if service.store.schedule(&name)?.is_some() {
                let found = found(service, &caller, &name)?;
                if found.schedule.origin == WORKFLOW {
                    return Err(of_workflow(&name));
                }
            }
            let mut spec = spec;
            check(service, &name, &mut spec)?;
            let schedule = Schedule {
                origin: API.to_owned(),
                workflow: spec.workflow.clone(),
                spec: serde_json::json!(spec).to_string(),
                author: caller.name().to_owned(),
                name: name.clone(),
            };
            match service.store.put_schedule(&schedule, expected, system_time())? {
                ScheduleWrite::Mismatch(found) => Err(mismatch(found)),
                ScheduleWrite::Stored { schedule, is_new } => {
                    service.schedules.wake();
                    service.note(&caller, "schedules.put", &name, None)?;
                    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                    Ok(ScheduleView::of(schedule, &caller)?.answer(status))
                }
            }
        })
        .await
}

fn of_workflow(name: &str) -> ServeProblem {
    ServeProblem::new(ProblemKind::InUse)
        .detail(format!("the schedule `{name}` is described in the file of the workflow"))
        .hint("deploy a version with another `schedule`, or pause this one")
}

fn check_name(name: &str) -> Answered<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        return Ok(());
    }
    let detail = format!("the name of a schedule has 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`");
    Err(ServeProblem::new(ProblemKind::DoesNotFit).detail(detail))
}

/// Checks a description: its times, its inputs, and that these fit the workflow.
fn check(service: &Service, name: &str, spec: &mut ScheduleSpec) -> Answered<()> {
    let problem = |faults: Vec<ScheduleFault>| {
        let mut problem = ServeProblem::new(ProblemKind::DoesNotFit).detail("the schedule cannot be used");
        let part = |fault: ScheduleFault| PartProblem {
            pointer: format!("/{}", fault.key),
            message: fault.message,
            line: None,
            column: None,
            hint: fault.hint,
        };
        problem.errors = faults.into_iter().map(part).collect();
        problem
    };
    if spec.workflow.is_empty() {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("/workflow", "it names no workflow"));
    }
    let table = spec.check().map_err(problem)?;
    spec.check_inputs(service.host.expressions()).map_err(problem)?;
    let deployed = service.deployed_for(&spec.workflow, "/workflow")?;
    let wrong = |message: String| ServeProblem::new(ProblemKind::DoesNotFit).part("/inputs", message);
    let due = table.next(system_time()).unwrap_or_else(system_time);
    let inputs = spec.inputs_at(service.host.expressions(), &table, name, due).map_err(wrong)?;
    if let Err(violations) = deployed.workflow.plan().inputs.accept(inputs) {
        let mut problem = ServeProblem::new(ProblemKind::DoesNotFit).detail("the inputs do not fit the workflow");
        for violation in violations {
            problem = problem.part(format!("/inputs{}", violation.pointer), violation.message);
        }
        return Err(problem);
    }
    Ok(())
}

/// Removes a schedule with its history. Its runs stay.
#[utoipa::path(delete, path = "/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn remove(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    headers: HeaderMap,
) -> Answered<StatusCode> {
    let expected = expected(&headers)?;
    service
        .with_store(move |service| {
            if found(service, &caller, &name)?.schedule.origin == WORKFLOW {
                return Err(of_workflow(&name));
            }
            match service.store.remove_schedule(&name, expected)? {
                Ok(true) => {
                    service.schedules.wake();
                    service.note(&caller, "schedules.remove", &name, None)?;
                    Ok(StatusCode::NO_CONTENT)
                }
                Ok(false) => Err(ServeProblem::unknown(format_args!("schedule `{name}`"))),
                Err(found) => Err(mismatch(Some(found))),
            }
        })
        .await
}

/// How many due times are shown.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NextParams {
    /// 1 to 1,000; 5 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub n: Option<u32>,
    /// After this time of RFC 3339, instead of now.
    pub from: Option<String>,
}

/// A due time that is to come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DueTime)]
pub struct DueView {
    /// The time.
    pub due: String,
    /// What clocks in the zone show then, with its offset.
    pub local: String,
    /// What a change of clocks does to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Shows when a schedule is due next, and what changes of clocks do to it.
#[utoipa::path(get, path = "/v1/schedules/{name}/next", tag = "schedules",
    params(("name" = String, Path), NextParams),
    responses((status = 200, body = Vec<DueView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn next(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Params(params): Params<NextParams>,
) -> Answered<Json<Vec<DueView>>> {
    let count = query::limit(Some(params.n.unwrap_or(5)))?;
    let from = query::time("from", params.from.as_deref())?.unwrap_or_else(system_time);
    service
        .with_store(move |service| {
            let (_, table) = read(&found(service, &caller, &name)?)?;
            let view = |due: DueTime| DueView {
                due: rfc3339(due.at),
                local: due.local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
                note: due.note,
            };
            Ok(Json(upcoming(&table, from, count as usize).into_iter().map(view).collect()))
        })
        .await
}

/// Which part of a schedule's history is listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FiringParams {
    /// Only due times before this one.
    pub before: Option<String>,
    /// Due times of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// What happened at a due time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Firing)]
pub struct FiringView {
    /// The due time.
    pub due: String,
    /// When it was handled.
    pub at: String,
    /// `fired`, `caught-up`, `backfilled`, `manual`, `queued`, `skipped`, `missed` or `failed`.
    pub outcome: String,
    /// The run that was started, or is going to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why it was not started on time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl FiringView {
    pub(super) fn of(firing: Firing) -> Self {
        let Firing { due, at, outcome, run, reason } = firing;
        Self { due: rfc3339(due), at: rfc3339(at), outcome, run, reason }
    }
}

/// Lists what happened at the last 1,000 due times of a schedule, the latest first.
#[utoipa::path(get, path = "/v1/schedules/{name}/history", tag = "schedules",
    params(("name" = String, Path), FiringParams),
    responses((status = 200, body = Vec<FiringView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn history(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Params(params): Params<FiringParams>,
) -> Answered<Json<Vec<FiringView>>> {
    let limit = query::limit(params.limit)?;
    let before = query::time("before", params.before.as_deref())?;
    service
        .with_store(move |service| {
            found(service, &caller, &name)?;
            let firings = service.store.firings(&name, before, limit)?;
            Ok(Json(firings.into_iter().map(FiringView::of).collect()))
        })
        .await
}
