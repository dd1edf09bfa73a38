//! One act on many runs.

use super::acts::check_signal;
use super::jobs::JobView;
use super::run_lists::{ListParams, filter, of_version};
use crate::journal::Filter;
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, object};
use crate::serve::idempotency::{Key, REPLAYED, derived, digest};
use crate::serve::job::{Batch, BatchAct, Kind, RUNS_MAX};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use crate::workflow::model::parse_duration;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use utoipa::ToSchema;

/// Runs that are read at a time.
const PAGE: u32 = 1_000;

/// What is done to each run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchWord {
    /// Cancels unfinished ones.
    Cancel,
    /// Pauses unfinished ones.
    Pause,
    /// Continues paused ones.
    Resume,
    /// Sends unfinished ones a signal.
    Signal,
    /// Makes a new run of each that has ended.
    Retry,
    /// Makes unfinished ones runs of another version of their workflow.
    Upgrade,
    /// Removes ended ones, with their records.
    Delete,
}

/// One act on many runs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NewBatch {
    /// What is done to each.
    pub act: BatchWord,
    /// The ids of the runs: 1 to 10,000.
    #[serde(default)]
    #[schema(max_items = 10000)]
    pub ids: Option<Vec<String>>,
    /// Which runs, as in a list of runs, if no ids are given: at most 10,000, the newest first.
    #[serde(default, deserialize_with = "object")]
    pub filter: Option<BatchFilter>,
    /// Shows which runs it would be, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Of `cancel`: why.
    #[serde(default)]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// Of `cancel`: how long a run may take to end, such as `30s`.
    #[serde(default)]
    pub grace: Option<String>,
    /// Of `signal`: its name.
    #[serde(default)]
    pub signal: Option<String>,
    /// Of `signal`: its payload.
    #[serde(default)]
    pub body: Option<Value>,
    /// Of `retry`: as for one run.
    #[serde(default)]
    pub from: Option<String>,
    /// Of `retry`: as for one run. Of `upgrade`: the number of the version.
    #[serde(default)]
    pub version: Option<u64>,
}

/// Which runs: those that fit all that is given, and something is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BatchFilter {
    /// As in a list of runs. Without it, those that the act is for: unfinished or ended ones.
    pub state: Option<String>,
    /// The name of the workflow.
    pub workflow: Option<String>,
    /// The number of a version of that workflow.
    #[schema(minimum = 1)]
    pub version: Option<u64>,
    /// A label, as `key=value`; several are separated by commas.
    pub label: Option<String>,
    /// What the id begins with.
    pub q: Option<String>,
    /// Created at this time of RFC 3339 or later.
    pub created_after: Option<String>,
    /// Created before this time.
    pub created_before: Option<String>,
}

/// What a batch would act on.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchPlan {
    /// What would be done to each.
    pub act: BatchWord,
    /// The ids of the runs.
    pub runs: Vec<String>,
    /// Whether more runs fit the filter.
    pub more: bool,
}

/// Does one act to many runs, one after another, as a job. Its report has an outcome for each.
///
/// When this answers, the job is durable, and goes on if the server is restarted. The same request
/// with the same `Idempotency-Key` gives the same job.
#[utoipa::path(post, path = "/v1/batches", tag = "acts", params(("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body = NewBatch,
    responses((status = 202, body = JobView, description = "The job has begun"),
        (status = 200, body = BatchPlan, description = "What it would act on, as `dry-run` asked"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    JsonBody(body): JsonBody<NewBatch>,
) -> Answered<Response> {
    let act = act_of(&caller, &body)?;
    let digest = digest(&json!(body));
    let id = key.map(|key| derived('j', &[caller.name(), "batch", &key]));
    let me = Arc::clone(&service);
    service
        .with_store(move |service| {
            // What fits the filter may differ by now: the batch of the first request counts.
            let is_known =
                !body.dry_run && id.as_deref().is_some_and(|id| matches!(service.store.job(id), Ok(Some(_))));
            let (runs, more) = if is_known { (Vec::new(), false) } else { selected(service, &caller, &body)? };
            if body.dry_run {
                return Ok(Json(BatchPlan { act: body.act, runs, more }).into_response());
            }
            let count = runs.len();
            let batch = json!(Batch { act, runs, more });
            let (id, was_there) = me.begin_job(&caller, Kind::Batch, id, batch, digest)?;
            if !was_there {
                let detail = json!({ "act": body.act, "runs": count });
                service.note(&caller, "batches.create", &id, Some(detail.to_string()))?;
            }
            let job = service.job_for(&caller, &id)?;
            let mut response = (StatusCode::ACCEPTED, Json(job)).into_response();
            let location = HeaderValue::from_str(&format!("/v1/jobs/{id}"));
            response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
            if was_there {
                response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            }
            Ok(response)
        })
        .await
}

/// What is done to each run. What belongs to another act is refused.
fn act_of(caller: &Caller, body: &NewBatch) -> Answered<BatchAct> {
    use BatchWord::{Cancel, Pause, Resume, Retry, Signal, Upgrade};
    let fits = |pointer: &str, why: &str| ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why);
    let of = [
        ("/reason", body.reason.is_some(), Cancel),
        ("/grace", body.grace.is_some(), Cancel),
        ("/signal", body.signal.is_some(), Signal),
        ("/body", body.body.is_some(), Signal),
        ("/from", body.from.is_some(), Retry),
        ("/version", body.version.is_some() && body.act != Upgrade, Retry),
    ];
    if let Some((pointer, ..)) = of.into_iter().find(|(_, is_given, act)| *is_given && *act != body.act) {
        return Err(fits(pointer, "it belongs to another act"));
    }
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > 1_000) {
        return Err(fits("/reason", "it has at most 1,000 characters"));
    }
    Ok(match body.act {
        Cancel => {
            let grace = body.grace.as_deref().map(parse_duration).transpose().map_err(|why| fits("/grace", &why))?;
            let reason = body.reason.clone().unwrap_or_else(|| format!("cancelled by {}", caller.name()));
            BatchAct::Cancel { reason, grace: grace.map(|grace| grace.0) }
        }
        Pause => BatchAct::Pause,
        Resume => BatchAct::Resume,
        Signal => {
            let name = body.signal.clone().unwrap_or_default();
            check_signal("/signal", &name)?;
            BatchAct::Signal { name, body: body.body.clone().unwrap_or_default() }
        }
        Retry => BatchAct::Retry { from: body.from.clone(), version: body.version },
        Upgrade => {
            caller.check(Scope::Deploy)?;
            let version = body.version.ok_or_else(|| fits("/version", "an upgrade is to a version"))?;
            BatchAct::Upgrade { version }
        }
        BatchWord::Delete => BatchAct::Remove,
    })
}

/// The ids of the runs, and whether there are more.
fn selected(service: &Service, caller: &Caller, body: &NewBatch) -> Answered<(Vec<String>, bool)> {
    let fits = |pointer: &str, why: &str| ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why);
    let given = match (&body.ids, &body.filter) {
        (Some(ids), None) => {
            if ids.is_empty() || ids.len() > RUNS_MAX {
                return Err(fits("/ids", "there are 1 to 10,000"));
            }
            let mut known = HashSet::new();
            return Ok((ids.iter().filter(|id| known.insert(*id)).cloned().collect(), false));
        }
        (None, Some(filter)) => filter.clone(),
        _ => return Err(fits("", "it has either `ids` or a `filter`")),
    };
    if given.is_empty() {
        return Err(fits("/filter", "it is empty, and all runs would fit").hint("`state` names all of one kind"));
    }
    let ended = Some(matches!(body.act, BatchWord::Retry | BatchWord::Delete));
    fitting(service, caller, given, ended, RUNS_MAX)
}

impl BatchFilter {
    fn is_empty(&self) -> bool {
        let Self { state, workflow, version, label, q, created_after, created_before } = self;
        version.is_none() && [state, workflow, label, q, created_after, created_before].iter().all(|it| it.is_none())
    }
}

/// The ids of the newest runs that fit a filter and that the caller may touch, and whether there
/// are more. `ended` counts where the filter names no state.
pub(super) fn fitting(
    service: &Service,
    caller: &Caller,
    given: BatchFilter,
    ended: Option<bool>,
    runs_max: usize,
) -> Answered<(Vec<String>, bool)> {
    let BatchFilter { state, workflow, version, label, q, created_after, created_before } = given;
    let params =
        ListParams { state, workflow, version, label, q, created_after, created_before, ..ListParams::default() };
    let (mut filter, _) = filter(&params)?;
    of_version(service, caller, &params, &mut filter)?;
    if params.state.is_none() {
        filter.ended = ended;
    }
    let mut runs = Vec::new();
    loop {
        filter = Filter { limit: Some(PAGE), ..filter };
        let page = service.store.list(&filter)?;
        let is_last = page.len() < PAGE as usize;
        for stored in page {
            filter.after = Some(stored.place());
            if !caller.may_touch(&stored.name) {
                continue;
            }
            if runs.len() == runs_max {
                return Ok((runs, true));
            }
            runs.push(stored.id.to_string());
        }
        if is_last {
            return Ok((runs, false));
        }
    }
}
