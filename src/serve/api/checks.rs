//! Checking a version with the runs that were recorded.

use super::batches::{BatchFilter, fitting};
use super::jobs::JobView;
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Segments, object};
use crate::serve::idempotency::{Key, REPLAYED, derived, digest};
use crate::serve::job::{CHECKED_MAX, Check, Kind};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::{OnDeploy, Service};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use utoipa::ToSchema;

/// Runs that are checked if nothing else is said.
const CHECKED: usize = 100;

/// With which runs a version is checked.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CheckVersion {
    /// The ids of the runs: 1 to 1,000.
    #[schema(min_items = 1, max_items = 1000)]
    pub ids: Option<Vec<String>>,
    /// Which runs of the workflow, if no ids are given; all without it. The newest come first.
    #[serde(deserialize_with = "object")]
    pub filter: Option<BatchFilter>,
    /// How many runs at most: 1 to 1,000; 100 if it is not given.
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Replays recorded runs on a version, as a job. Nothing leaves the server, and the runs stay as
/// they are.
///
/// The report has an outcome for each run: `fits`, if every step gave the same; `differs`, with the
/// first step that did not; or `unknown`, with the reason. That a run fits says that it did the
/// same so far. When this answers, the job is durable. The same request with the same
/// `Idempotency-Key` gives the same job. Needs `runs:read` too.
#[utoipa::path(post, path = "/v1/workflows/{name}/versions/{version}/check", tag = "workflows",
    params(("name" = String, Path), ("version" = u64, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body = Option<CheckVersion>,
    responses((status = 202, body = JobView, description = "The job has begun"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments((name, number)): Segments<(String, u64)>,
    JsonBody(body): JsonBody<CheckVersion>,
) -> Answered<Response> {
    caller.check(Scope::RunsRead)?;
    caller.check_workflow(&name)?;
    let digest = digest(&json!(["check", name, number, body]));
    let id = key.map(|key| derived('j', &[caller.name(), "check", &key]));
    let me = Arc::clone(&service);
    service
        .with_store(move |service| {
            service.deployed(&name, Some(number))?;
            // What fits the filter may differ by now: the check of the first request counts.
            let is_known = id.as_deref().map(|id| service.store.job(id)).transpose()?.flatten().is_some();
            let (runs, more) = if is_known { (Vec::new(), false) } else { selected(service, &caller, &name, body)? };
            let target = format!("{name}@{number}");
            let detail = json!({ "runs": runs.len() }).to_string();
            let check = json!(Check { name, version: number, runs, more });
            let (id, was_there) = me.begin_job(&caller, Kind::Check, id, check, digest)?;
            if !was_there {
                service.note(&caller, "workflows.check", &target, Some(detail))?;
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

/// Begins the check of a version that was activated, if the server does that. Returns the id of the
/// job; `None` if there are no runs, or the caller may not read them.
pub(super) fn check_activated(
    service: &Arc<Service>,
    caller: &Caller,
    name: &str,
    number: u64,
) -> Answered<Option<String>> {
    if service.options.on_deploy != OnDeploy::Check || !caller.has(Scope::RunsRead) {
        return Ok(None);
    }
    let (runs, more) = selected(service, caller, name, CheckVersion::default())?;
    if runs.is_empty() {
        return Ok(None);
    }
    let detail = json!({ "runs": runs.len() }).to_string();
    let check = json!(Check { name: name.to_owned(), version: number, runs, more });
    let digest = digest(&check);
    let (id, _) = service.begin_job(caller, Kind::Check, None, check, digest)?;
    service.note(caller, "workflows.check", &format!("{name}@{number}"), Some(detail))?;
    Ok(Some(id))
}

/// The ids of the runs, and whether there are more.
fn selected(service: &Service, caller: &Caller, workflow: &str, body: CheckVersion) -> Answered<(Vec<String>, bool)> {
    let fits = |pointer: &str, why: &str| ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why);
    let limit = body.limit.unwrap_or(CHECKED);
    if limit == 0 || limit > CHECKED_MAX {
        return Err(fits("/limit", "it is 1 to 1,000"));
    }
    if let Some(ids) = body.ids {
        if body.filter.is_some() || body.limit.is_some() {
            return Err(fits("", "it has either `ids`, or a `filter` and a `limit`"));
        }
        if ids.is_empty() || ids.len() > CHECKED_MAX {
            return Err(fits("/ids", "there are 1 to 1,000"));
        }
        let mut known = HashSet::new();
        return Ok((ids.into_iter().filter(|id| known.insert(id.clone())).collect(), false));
    }
    let mut filter = body.filter.unwrap_or_default();
    if filter.workflow.as_ref().is_some_and(|named| named != workflow) {
        return Err(fits("/filter/workflow", "runs of another workflow cannot be replayed on this version"));
    }
    filter.workflow = Some(workflow.to_owned());
    fitting(service, caller, filter, None, limit)
}
