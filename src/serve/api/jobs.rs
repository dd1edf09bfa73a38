//! Jobs: work that takes longer than a request.

use crate::journal::catalog::{Job, JobStatus};
use crate::process::Timestamp;
use crate::serve::access::{Caller, Scope};
use crate::serve::api::outcome::WaitParams;
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Job)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// What kind of work it is, `batch` or `check`.
    pub kind: String,
    /// `open`, `done`, `failed` (the report has a `problem`) or `cancelled`.
    pub state: String,
    /// When it was asked for.
    pub created: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Who asked for it.
    pub author: String,
    /// What was done so far; a list of jobs leaves it out. While the job is open it may be a second
    /// old. That of a batch has `total`; `counts` of each outcome; `more`, whether more runs fit
    /// the filter; and `outcomes`, in the order of the runs: `run`, `outcome` (`recorded`, `left`
    /// or `duplicate` as for one run; `retried` with the id of the `new` run; `upgraded` or
    /// `unchanged`; `removed`; `refused`
    /// with the `kind` of the problem and its `detail`). What was done in the last second before a
    /// crash of the server is done again under the same key: then it may be a `duplicate`, or
    /// `refused`.
    ///
    /// That of a check has `workflow`, `version`, `total`, `counts`, `more` and `outcomes`: `run`,
    /// `outcome` (`fits` with its `steps`; `differs`; `unknown` with `why`), and for a step that
    /// differs its `record`, `pid`, `step`, `scope`, `component`, and for the first 100 such runs
    /// what was `expected` and what it `did`: up to 10 lines from the first that differs. Those
    /// lines need `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub report: Option<Value>,
}

/// A page of jobs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which jobs are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct JobParams {
    /// Jobs of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

impl JobView {
    fn of(job: Job) -> Self {
        Self {
            id: job.id,
            kind: job.kind,
            state: job.status.name().to_owned(),
            created: rfc3339(job.created),
            ended: job.ended.map(rfc3339),
            author: job.author,
            report: job.report.as_deref().and_then(|report| serde_json::from_str(report).ok()),
        }
    }

    /// Removes what steps gave: it has payloads.
    fn hide_payloads(&mut self) {
        let outcomes = self.report.as_mut().and_then(|report| report.get_mut("outcomes")?.as_array_mut());
        for outcome in outcomes.into_iter().flatten().filter_map(Value::as_object_mut) {
            outcome.remove("expected");
            outcome.remove("did");
        }
    }
}

/// Whether a caller may see a job: it is theirs, or they may see all workflows.
fn may_see(caller: &Caller, job: &Job) -> bool {
    caller.may_touch_all() || caller.name() == job.author
}

impl Service {
    /// A job that the caller may see.
    pub(in crate::serve) fn job_for(&self, caller: &Caller, id: &str) -> Answered<JobView> {
        let job = self.store.job(id)?.filter(|job| may_see(caller, job));
        let mut job = job.map(JobView::of).ok_or_else(|| ServeProblem::unknown(format_args!("job `{id}`")))?;
        if !caller.has(Scope::RunsPayloads) {
            job.hide_payloads();
        }
        Ok(job)
    }
}

/// Lists the jobs of the caller; those of all for a token without patterns of workflows. The last
/// 1,000 that have ended are kept.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(JobParams),
    responses((status = 200, body = JobPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<JobParams>,
) -> Answered<Json<JobPage>> {
    let limit = query::limit(params.limit)? as usize;
    let mut before = params.cursor.as_deref().map(read_cursor).transpose()?;
    service
        .with_store(move |service| {
            let mut jobs = Vec::new();
            loop {
                let place = before.as_ref().map(|(at, id)| (*at, id.as_str()));
                let page = service.store.jobs(place, query::PAGE.1)?;
                let is_last = page.len() < query::PAGE.1 as usize;
                for job in page {
                    if jobs.len() == limit {
                        let next = before.map(|(at, id)| format!("{}.{id}", at.0));
                        return Ok(Json(JobPage { jobs, next }));
                    }
                    before = Some((job.created, job.id.clone()));
                    if may_see(&caller, &job) {
                        jobs.push(JobView::of(job));
                    }
                }
                if is_last {
                    return Ok(Json(JobPage { jobs, next: None }));
                }
            }
        })
        .await
}

fn read_cursor(cursor: &str) -> Answered<(Timestamp, String)> {
    let read = cursor.split_once('.').and_then(|(at, id)| Some((Timestamp(at.parse().ok()?), id.to_owned())));
    read.ok_or_else(|| ServeProblem::new(ProblemKind::DoesNotFit).part("cursor", "no page has given it"))
}

/// Shows a job, and waits for its end.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path), WaitParams),
    responses((status = 200, body = JobView, description = "It may be open still, when the wait is over"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<WaitParams>,
) -> Answered<Json<JobView>> {
    let wait = query::wait(params.wait.as_deref())?.unwrap_or_default();
    let _permit = Arc::clone(&service.waits)
        .try_acquire_owned()
        .map_err(|_| ServeProblem::new(ProblemKind::TooManyWaits).retry_after(1))?;
    let until = tokio::time::Instant::now() + wait;
    let mut ended = service.jobs.watch();
    loop {
        ended.mark_unchanged();
        let (reader, job) = (caller.clone(), id.clone());
        let job = service.with_store(move |service| service.job_for(&reader, &job)).await?;
        if job.ended.is_some() {
            return Ok(Json(job));
        }
        let is_over = tokio::select! {
            _ = ended.changed() => false,
            () = tokio::time::sleep_until(until) => true,
            () = service.drained() => true,
        };
        if is_over {
            return Ok(Json(job));
        }
    }
}

/// Nothing to say.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelJob {}

/// Stops a job. What it has done stays.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path)), request_body = Option<CancelJob>,
    responses((status = 202, description = "It ends in a moment"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    JsonBody(_): JsonBody<CancelJob>,
) -> Answered<StatusCode> {
    service
        .with_store(move |service| {
            let job = service.store.job(&id)?.filter(|job| may_see(&caller, job));
            let job = job.ok_or_else(|| ServeProblem::unknown(format_args!("job `{id}`")))?;
            if caller.name() != job.author && !caller.has(Scope::Admin) {
                return Err(ServeProblem::new(ProblemKind::NotGranted).detail("the job is somebody else's"));
            }
            if job.status == JobStatus::Open && service.jobs.stop(&id) {
                service.note(&caller, "jobs.cancel", &id, None)?;
            }
            Ok(StatusCode::ACCEPTED)
        })
        .await
}
