//! Starting runs, and reading what they are.

use crate::base::text::steers;
use crate::host::{LoadError, MissingSecret, RunHandle, RunOptions, StartNotes, TraceContext};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::idempotency::{Key, REPLAYED, request_digest, run_id, two_keys};
use crate::serve::problem::{Answered, PartProblem, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::{Deployed, Service};
use crate::serve::view::{OutcomeView, RunDetail, RunView};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::{IntoParams, ToSchema};

/// How long a start may take to be durable.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a twin of a request may take to begin its run.
const TWIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Labels of a run, and characters of each key and value.
pub(super) const LABELS_MAX: (usize, usize) = (32, 256);

/// Characters of an id that a caller gives.
const ID_CHARS_MAX: usize = 128;

/// A run to be started.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StartRun {
    /// The inputs of the workflow, by name.
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// The number of the version; the active one if it is not given.
    pub version: Option<u64>,
    /// By what the run is found in lists.
    pub labels: BTreeMap<String, String>,
    /// An id that means something, such as `order-7`: 1 to 128 letters, digits and `-._:`.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]*$")]
    pub run_id: Option<String>,
}

/// What a start answers that does not leave its run behind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StartAnswer {
    /// The run has ended.
    Ended(Box<OutcomeView>),
    /// Nothing was started.
    Fits {
        /// Nothing is wrong with the inputs.
        fits: bool,
    },
}

/// How a run is started.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StartParams {
    /// Waits so long for the outcome, such as `30s`; at most a minute.
    pub wait: Option<String>,
    /// Checks the inputs, and starts nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Starts a run.
///
/// When this answers, the run's start is durable. The same request with the same `Idempotency-Key`
/// gives the same run.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs", tag = "runs",
    params(("name" = String, Path), StartParams,
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$", description = "1 to 255 visible characters")),
    request_body = Option<StartRun>,
    responses(
        (status = 201, body = RunView, description = "It has begun"),
        (status = 200, body = StartAnswer, description = "It has ended, as `wait` asked; or nothing is wrong with the inputs, as `dry-run` asked"),
        (status = 202, body = RunView, description = "It has not ended when the wait was over"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn start(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(name): Segments<String>,
    Params(params): Params<StartParams>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<StartRun>,
) -> Answered<Response> {
    caller.check_workflow(&name)?;
    let traceparent = traceparent(&headers);
    let wait = query::wait(params.wait.as_deref())?;
    check_room(&service)?;
    let sees_all = caller.has(Scope::RunsPayloads);
    let begun = service
        .with_store(move |service| begin(service, &caller, &name, key.as_deref(), traceparent, body, params.dry_run));
    let Some(begun) = begun.await? else {
        return Ok(Json(StartAnswer::Fits { fits: true }).into_response());
    };
    // Who starts a run may see what comes of it; of one that was there, only who may see payloads.
    let with_payload = sees_all || !begun.is_replayed;
    begun.answer(&service, wait, with_payload).await
}

/// A run that has begun, now or by an earlier request.
pub(in crate::serve) struct Begun {
    pub(in crate::serve) id: String,
    /// What it is waited for by, if this request has begun it.
    pub(super) handle: Option<RunHandle>,
    pub(super) is_replayed: bool,
}

impl Begun {
    /// Waits until the run's start is durable.
    pub(in crate::serve) fn is_durable(&self, service: &Service) -> Answered<()> {
        match &self.handle {
            Some(run) if !run.started(DURABLE_TIME_MAX) => Err(not_durable(service)),
            _ => Ok(()),
        }
    }

    /// Answers with the run when its start is durable, or with its outcome if that is waited for.
    pub(super) async fn answer(
        self,
        service: &Arc<Service>,
        wait: Option<Duration>,
        with_payload: bool,
    ) -> Answered<Response> {
        let mut response = match wait {
            None => {
                let id = self.id.clone();
                let run = service.with_store(move |service| durable_view(service, &id)).await?;
                let location = HeaderValue::from_str(&format!("/v1/runs/{}", self.id));
                let mut response = (StatusCode::CREATED, Json(run)).into_response();
                response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
                response
            }
            // Its end is on disk after its start, so nothing but the end is waited for.
            Some(wait) => super::outcome::wait_for(service, &self.id, self.handle, wait, with_payload).await?,
        };
        if self.is_replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }
}

/// Shows a run when its start is durable.
pub(in crate::serve) fn durable_view(service: &Service, id: &str) -> Answered<RunView> {
    if let Some(run) = service.host.run_of(id)
        && !run.started(DURABLE_TIME_MAX)
    {
        return Err(not_durable(service));
    }
    let stored = service.store.run(id)?.ok_or_else(|| not_durable(service))?;
    let manifest = service.manifest(id);
    Ok(service.run_view(&stored, manifest.as_ref()))
}

/// Refuses new runs while the server stops, or the disk is full.
pub(in crate::serve) fn check_room(service: &Service) -> Answered<()> {
    if service.is_draining() {
        return Err(ServeProblem::new(ProblemKind::Draining).retry_after(5));
    }
    if service.host.is_full() {
        return Err(ServeProblem::new(ProblemKind::DiskFull).retry_after(30));
    }
    Ok(())
}

fn begin(
    service: &Service,
    caller: &Caller,
    name: &str,
    key: Option<&str>,
    traceparent: Option<String>,
    body: StartRun,
    dry_run: bool,
) -> Answered<Option<Begun>> {
    check_labels(&body.labels)?;
    let id = match (key, body.run_id.as_deref()) {
        (Some(_), Some(_)) => return Err(two_keys("/run-id")),
        (Some(key), None) => Some(run_id(caller, name, key)),
        (None, given) => given.map(checked_id).transpose()?,
    };
    let request = request_digest(name, body.version, &body.inputs, &body.labels);
    // Before the version that is active now is asked: it may be another one.
    if let Some(id) = id.as_deref().filter(|_| !dry_run)
        && (service.store.run(id)?.is_some() || service.host.run_of(id).is_some())
    {
        return existing(service, caller, id, &request, key.is_some()).map(Some);
    }
    let Deployed { version, workflow } = service.deployed(name, body.version)?;
    if dry_run {
        let checked = workflow.plan().inputs.accept(body.inputs);
        return match checked {
            Ok(_) => Ok(None),
            Err(violations) => Err(inputs_problem(
                violations.into_iter().map(|violation| (violation.pointer, violation.message)).collect(),
            )),
        };
    }
    let notes = StartNotes {
        labels: body.labels,
        version: Some(crate::host::DeployedVersion { row: version.row, number: version.number }),
        started_by: Some("api".to_owned()),
        author: Some(caller.name().to_owned()),
        request: Some(request.clone()),
        traceparent,
    };
    let blob_holders = vec![super::blobs::holder(caller)];
    let options = RunOptions { id: id.clone(), durable: Some(true), blob_holders, notes, ..RunOptions::default() };
    match service.host.start(&workflow, body.inputs, options) {
        Ok(run) => Ok(Some(Begun { id: run.id().to_string(), handle: Some(run), is_replayed: false })),
        Err(LoadError::Exists { id }) => existing(service, caller, &id, &request, key.is_some()).map(Some),
        Err(error) => Err(start_problem(error)),
    }
}

/// The place of a start in its caller's trace, if it has one that can be read.
pub(in crate::serve) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let given = headers.get("traceparent")?.to_str().ok()?;
    TraceContext::read(given).map(|_| given.trim().to_owned())
}

/// The run of an earlier request.
pub(super) fn existing(service: &Service, caller: &Caller, id: &str, request: &str, has_key: bool) -> Answered<Begun> {
    // A twin of this request may be about to begin it.
    let begun = Instant::now();
    while service.store.run(id)?.is_none() && service.host.run_of(id).is_none() && begun.elapsed() < TWIN_TIME_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
    let stored = service.run_for(caller, id)?;
    let manifest = service.manifest(id);
    let before = manifest.as_ref().and_then(|manifest| manifest.notes.request.as_deref());
    if before == Some(request) {
        return Ok(Begun { id: stored.id.to_string(), handle: None, is_replayed: true });
    }
    let problem = if has_key {
        ServeProblem::new(ProblemKind::KeyReused)
            .detail(format!("the key was used for the run `{id}`, by another request"))
    } else {
        ServeProblem::new(ProblemKind::RunExists).detail(format!("another request made the run `{id}`"))
    };
    Err(problem.hint(format!("`GET /v1/runs/{id}` shows it; only the same request gives it again")))
}

fn not_durable(service: &Service) -> ServeProblem {
    if service.host.is_full() {
        return ServeProblem::new(ProblemKind::DiskFull).retry_after(30);
    }
    ServeProblem::new(ProblemKind::Unsure)
        .detail("the start of the run is not durable yet")
        .hint("send the same request again, with the same `Idempotency-Key` or `run-id`: there will be one run")
        .retry_after(5)
}

pub(in crate::serve) fn start_problem(error: LoadError) -> ServeProblem {
    match error {
        LoadError::Inputs(violations) => inputs_problem(violations),
        LoadError::ShuttingDown => ServeProblem::new(ProblemKind::Draining).retry_after(5),
        LoadError::Journal(error) => error.into(),
        LoadError::Secrets(missing) => ServeProblem::new(ProblemKind::MissingSecrets).detail(without_secrets(&missing)),
        error @ LoadError::NoPlace { .. } => ServeProblem::new(ProblemKind::NoPlace).detail(error.to_string()),
        error @ LoadError::QueueFull { .. } => {
            ServeProblem::new(ProblemKind::QueueFull).detail(error.to_string()).retry_after(5)
        }
        error @ (LoadError::Group(_) | LoadError::GroupNeedsJournal) => {
            ServeProblem::new(ProblemKind::DoesNotFit).detail(error.to_string())
        }
        error => {
            tracing::error!(%error, "a run cannot be started");
            ServeProblem::new(ProblemKind::HostFault)
        }
    }
}

/// Says which secrets cannot be used, and only to the log why: that names places of the server.
pub(in crate::serve) fn without_secrets(missing: &[MissingSecret]) -> String {
    for secret in missing {
        tracing::warn!(secret = secret.error.name, why = secret.error.why, "a workflow cannot use a secret");
    }
    let names: Vec<&str> = missing.iter().map(|secret| secret.error.name.as_str()).collect();
    format!("the server cannot use {}", names.join(", "))
}

fn inputs_problem(violations: Vec<(String, String)>) -> ServeProblem {
    let mut problem = ServeProblem::new(ProblemKind::DoesNotFit).detail("the inputs do not fit");
    problem.errors = violations
        .into_iter()
        .map(|(pointer, message)| {
            let pointer = if pointer == "/" { "/inputs".to_owned() } else { format!("/inputs{pointer}") };
            PartProblem { pointer, message, line: None, column: None, hint: None }
        })
        .collect();
    problem
}

pub(super) fn checked_id(given: &str) -> Answered<String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let begins = given.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && given.len() <= ID_CHARS_MAX && given.bytes().all(is_good) {
        return Ok(given.to_owned());
    }
    Err(ServeProblem::new(ProblemKind::DoesNotFit).part(
        "/run-id",
        format!("it has 1 to {ID_CHARS_MAX} letters, digits and `-._:`, the first a letter or a digit"),
    ))
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Answered<()> {
    let (most, chars) = LABELS_MAX;
    let is_text = |text: &str| text.chars().count() <= chars && !text.chars().any(steers);
    if labels.len() > most {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("/labels", format!("there are at most {most}")));
    }
    for (key, value) in labels {
        if key.is_empty() || !is_text(key) || !is_text(value) || key.contains('=') {
            return Err(ServeProblem::new(ProblemKind::DoesNotFit).part(
                format!("/labels/{}", key.replace('~', "~0").replace('/', "~1")),
                format!(
                    "a label has at most {chars} characters, none of them one that controls how text is shown, and no \
                     `=` in its key"
                ),
            ));
        }
    }
    Ok(())
}

/// Shows a run with what happened in it.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, body = RunDetail),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<Json<RunDetail>> {
    service
        .with_store(move |service| {
            let stored = service.run_for(&caller, &id)?;
            service.run_detail(&stored, caller.has(Scope::RunsPayloads)).map(Json)
        })
        .await
}

/// Removes a run that has ended, with its records.
#[utoipa::path(delete, path = "/v1/runs/{id}", tag = "runs", params(("id" = String, Path)),
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn remove(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<StatusCode> {
    service.with_store(move |service| remove_now(service, &caller, &id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a run that has ended.
pub(in crate::serve) fn remove_now(service: &Service, caller: &Caller, id: &str) -> Answered<()> {
    let stored = service.run_for(caller, id)?;
    if stored.status.is_none() {
        return Err(ServeProblem::new(ProblemKind::RunUnfinished)
            .detail(format!("the run `{id}` has not ended"))
            .hint("cancel it first"));
    }
    service.store.remove(id)?;
    service.changes.removed(&stored);
    service.note(caller, "runs.remove", id, None)
}
