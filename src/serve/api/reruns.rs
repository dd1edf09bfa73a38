//! New runs made of earlier ones: retry and fork.

use super::deploy::definition_problem;
use super::runs::{Begun, check_labels, check_room, checked_id, existing, start_problem};
use crate::host::{
    DeployedVersion, ForkOptions, LoadError, RecoverError, RerunError, Resumed, RetryOptions, RunOptions, StartNotes,
    Workflow,
};
use crate::journal::StoreError;
use crate::run::{ForkError, Record};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::idempotency::{Key, digest, rerun_id, two_keys};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::Service;
use crate::serve::view::{OutcomeView, RunView};
use crate::workflow::interpreter::{RepeatError, Rerun, Undone};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Labels, by their keys.
type Labels = BTreeMap<String, String>;

/// What a retry changes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RetryRun {
    /// This step runs again, with all that depend on it; without it, the steps that did not
    /// succeed.
    pub from: Option<String>,
    /// The number of the version that the new run is of; that of the run if it is not given.
    pub version: Option<u64>,
    /// Components in place of others: by the names that the workflow gives them, the digests of
    /// uploaded ones. Needs `deploy`.
    pub components: BTreeMap<String, String>,
    /// Inputs that differ from those of the run. Needs `runs:start`.
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// Whether repeated calls get new idempotency keys.
    pub new_keys: bool,
    /// Steps whose undoing failed after it had begun, and which are undone: they run again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<String>,
    /// The same, of those that are not undone: they are taken over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<String>,
    /// By what the new run is found in lists; the labels of the run if they are not given.
    pub labels: Option<Labels>,
    /// The id of the new run: as for a start.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]*$")]
    pub run_id: Option<String>,
}

/// How a run is forked.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ForkRun {
    /// The number of the last record that the new run shares.
    #[schema(minimum = 1)]
    pub at: u64,
    /// As for a retry. It must do the same up to that record.
    #[serde(default)]
    pub version: Option<u64>,
    /// As for a retry. They must do the same up to that record.
    #[serde(default)]
    pub components: BTreeMap<String, String>,
    /// As for a retry. With them the run must do the same up to that record.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub inputs: Map<String, Value>,
    /// Whether calls that were in flight at that record are sent again; otherwise they wait until
    /// somebody settles them.
    #[serde(default)]
    pub resend: bool,
    /// As for a retry.
    #[serde(default)]
    pub labels: Option<Labels>,
    /// As for a retry.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]*$")]
    pub run_id: Option<String>,
}

/// How a run is retried.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RetryParams {
    /// Waits so long for the outcome, such as `30s`; at most a minute.
    pub wait: Option<String>,
    /// Shows what would be taken over and what would run again, and starts nothing.
    pub dry_run: bool,
}

/// How a run is forked.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ForkParams {
    /// Waits so long for the outcome, such as `30s`; at most a minute.
    pub wait: Option<String>,
}

/// What a retry would do, as `wfhost retry --dry-run --json` prints it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RetryPlan {
    /// The run that would be retried.
    pub run: String,
    /// The steps: `id`, `before`, `now` (`taken-over` or `runs-again`), `why`, `items`; `keys` with
    /// the scope `runs:payloads`.
    #[schema(value_type = Vec<Object>)]
    pub steps: Vec<Value>,
    /// Steps that no longer exist: `id`, `before`.
    #[schema(value_type = Vec<Object>)]
    pub gone: Vec<Value>,
    /// Inputs that are dropped, as the workflow does not declare them.
    pub undeclared: Vec<String>,
    /// The names of unclaimed signals, which are not sent to the new run.
    pub signals: Vec<String>,
}

/// Makes a new run of one that has ended: what succeeded is taken over, the rest runs again.
///
/// When this answers, the new run's start is durable. The same request with the same
/// `Idempotency-Key` gives the same run.
#[utoipa::path(post, path = "/v1/runs/{id}/retry", tag = "acts",
    params(("id" = String, Path), RetryParams, ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = Option<RetryRun>,
    responses((status = 201, body = RunView, description = "The new run has begun"),
        (status = 200, body = RetryAnswer, description = "It has ended, as `wait` asked; or what it would do, as `dry-run` asked"),
        (status = 202, body = RunView, description = "It has not ended when the wait was over"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn retry(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(id): Segments<String>,
    Params(params): Params<RetryParams>,
    JsonBody(body): JsonBody<RetryRun>,
) -> Answered<Response> {
    let wait = query::wait(params.wait.as_deref())?;
    check_room(&service)?;
    let with_payload = caller.has(Scope::RunsPayloads);
    if params.dry_run {
        let plan = service.with_store(move |service| retry_plan(service, &caller, &id, body));
        return Ok(Json(plan.await?).into_response());
    }
    let begun = service.with_store(move |service| retry_now(service, &caller, &id, key.as_deref(), body)).await?;
    begun.answer(&service, wait, with_payload).await
}

/// What a retry answers with the status 200.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it only stands in the API's document")]
pub enum RetryAnswer {
    /// How the new run ended.
    Outcome(OutcomeView),
    /// What would be done.
    Plan(RetryPlan),
}

/// Makes a new run of the first records of another, which continues independently.
///
/// When this answers, the new run is durable. The same request with the same `Idempotency-Key`
/// gives the same run.
#[utoipa::path(post, path = "/v1/runs/{id}/fork", tag = "acts",
    params(("id" = String, Path), ForkParams, ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = ForkRun,
    responses((status = 201, body = RunView, description = "The new run has begun"),
        (status = 200, body = OutcomeView, description = "It has ended, as `wait` asked"),
        (status = 202, body = RunView, description = "It has not ended when the wait was over"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn fork(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(id): Segments<String>,
    Params(params): Params<ForkParams>,
    JsonBody(body): JsonBody<ForkRun>,
) -> Answered<Response> {
    let wait = query::wait(params.wait.as_deref())?;
    check_room(&service)?;
    let with_payload = caller.has(Scope::RunsPayloads);
    let _turn = service.replay_turn().await?;
    let begun = service.with_store(move |service| fork_now(service, &caller, &id, key.as_deref(), body)).await?;
    begun.answer(&service, wait, with_payload).await
}

/// The workflow that a new run is made with.
pub(super) struct Changed {
    pub(super) workflow: Workflow,
    /// Whether components or the version differ from those of the run.
    pub(super) is_other: bool,
    /// The version that the new run is of, if it is one that is deployed.
    version: Option<DeployedVersion>,
    /// The labels of the run.
    labels: Labels,
}

/// The workflow of a run, with another version or other components if they are asked for.
pub(super) fn changed(
    service: &Service,
    caller: &Caller,
    id: &str,
    version: Option<u64>,
    components: &BTreeMap<String, String>,
) -> Answered<Changed> {
    let stored = service.run_for(caller, id)?;
    if !components.is_empty() {
        caller.check(Scope::Deploy)?;
        let has = |digest: &&String| !service.host.has_component(digest);
        let missing: Vec<String> = components.values().filter(has).cloned().collect();
        if !missing.is_empty() {
            return Err(ServeProblem { missing, ..ServeProblem::new(ProblemKind::MissingComponents) });
        }
    }
    let notes = service.manifest(id).map(|manifest| manifest.notes).unwrap_or_default();
    let (workflow, of) = match version {
        Some(number) => {
            let deployed = service.deployed(&stored.name, Some(number))?;
            let version = &deployed.version;
            let of = DeployedVersion { row: version.row, number };
            if components.is_empty() {
                (deployed.workflow, Some(of))
            } else {
                let pinned = serde_json::from_str(&version.components).unwrap_or_default();
                let workflow = service.host.load_replaced(&version.file, &version.source, pinned, components);
                (workflow.map_err(recover_problem)?, None)
            }
        }
        None => {
            let workflow = service.host.workflow_replaced(id, components).map_err(recover_problem)?;
            (workflow, notes.version.filter(|_| components.is_empty()))
        }
    };
    let is_other = !components.is_empty() || (version.is_some() && of != notes.version);
    Ok(Changed { workflow, is_other, version: of, labels: notes.labels })
}

/// The id of a new run, and the digest of the request for it.
struct Request {
    id: Option<String>,
    digest: String,
}

impl Request {
    fn new(
        caller: &Caller,
        act: &str,
        run: &str,
        key: Option<&str>,
        given: Option<&str>,
        body: &impl Serialize,
    ) -> Answered<Self> {
        let id = match (key, given) {
            (Some(_), Some(_)) => return Err(two_keys("/run-id")),
            (Some(key), None) => Some(rerun_id(caller, act, run, key)),
            (None, given) => given.map(checked_id).transpose()?,
        };
        Ok(Self { id, digest: digest(&json!([act, run, body])) })
    }

    /// The run of the same request before, if there is one.
    fn before(&self, service: &Service, caller: &Caller, has_key: bool) -> Answered<Option<Begun>> {
        let Some(id) = &self.id else { return Ok(None) };
        if service.store.run(id)?.is_none() && service.host.run_of(id).is_none() {
            return Ok(None);
        }
        existing(service, caller, id, &self.digest, has_key).map(Some)
    }

    fn notes(&self, caller: &Caller, changed: &Changed, labels: Option<Labels>, act: &str) -> StartNotes {
        StartNotes {
            labels: labels.unwrap_or_else(|| changed.labels.clone()),
            version: changed.version,
            started_by: Some(act.to_owned()),
            author: Some(caller.name().to_owned()),
            request: Some(self.digest.clone()),
            traceparent: None,
        }
    }
}

fn check_inputs(caller: &Caller, inputs: &Map<String, Value>) -> Answered<()> {
    if inputs.is_empty() { Ok(()) } else { caller.check(Scope::RunsStart) }
}

/// Prepares the retry of a run.
fn prepare(service: &Service, id: &str, changed: &Changed, body: &RetryRun) -> Answered<crate::host::PreparedRetry> {
    let loaded;
    let original = if changed.is_other {
        loaded = service.host.workflow_of(id).map_err(recover_problem)?;
        &loaded
    } else {
        &changed.workflow
    };
    let records: Vec<Record> = service.records(id, 1, usize::MAX)?;
    let options = RetryOptions {
        again: body.from.clone().map_or(Rerun::Failed, Rerun::From),
        inputs: body.inputs.clone(),
        substituted: !body.components.is_empty(),
        new_keys: body.new_keys,
        undone: Undone { are: body.undone.clone(), are_not: body.not_undone.clone() },
    };
    service.host.prepare_retry(original, &records, &changed.workflow, options).map_err(rerun_problem)
}

fn retry_plan(service: &Service, caller: &Caller, id: &str, body: RetryRun) -> Answered<RetryPlan> {
    check_inputs(caller, &body.inputs)?;
    let changed = changed(service, caller, id, body.version, &body.components)?;
    let prepared = prepare(service, id, &changed, &body)?;
    let mut plan = prepared.to_json(id);
    let mut list = |key: &str| match plan.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let mut steps = list("steps");
    if !caller.has(Scope::RunsPayloads) {
        for step in steps.iter_mut().filter_map(Value::as_object_mut) {
            step.remove("keys");
        }
    }
    Ok(RetryPlan {
        run: id.to_owned(),
        steps,
        gone: list("gone"),
        undeclared: prepared.undeclared,
        signals: prepared.repetition.signals.iter().map(ToString::to_string).collect(),
    })
}

/// Retries a run.
pub(in crate::serve) fn retry_now(
    service: &Service,
    caller: &Caller,
    id: &str,
    key: Option<&str>,
    body: RetryRun,
) -> Answered<Begun> {
    check_inputs(caller, &body.inputs)?;
    check_labels(body.labels.as_ref().unwrap_or(&Labels::new()))?;
    let request = Request::new(caller, "retry", id, key, body.run_id.as_deref(), &body)?;
    service.run_for(caller, id)?;
    if let Some(begun) = request.before(service, caller, key.is_some())? {
        return Ok(begun);
    }
    let changed = changed(service, caller, id, body.version, &body.components)?;
    let prepared = prepare(service, id, &changed, &body)?;
    let notes = request.notes(caller, &changed, body.labels, "retry");
    let (id_of_new, blob_holders) = (request.id.clone(), vec![super::blobs::holder(caller)]);
    let options = RunOptions { id: id_of_new, durable: Some(true), notes, blob_holders, ..RunOptions::default() };
    match service.host.retry(&changed.workflow, prepared, options) {
        Ok(run) => {
            let new = run.id().to_string();
            service.note(caller, "runs.retry", id, Some(json!({ "run": new }).to_string()))?;
            Ok(Begun { id: new, handle: Some(run), is_replayed: false })
        }
        Err(LoadError::Exists { id }) => existing(service, caller, &id, &request.digest, key.is_some()),
        Err(error) => Err(start_problem(error)),
    }
}

fn fork_now(service: &Service, caller: &Caller, id: &str, key: Option<&str>, body: ForkRun) -> Answered<Begun> {
    check_inputs(caller, &body.inputs)?;
    check_labels(body.labels.as_ref().unwrap_or(&Labels::new()))?;
    let request = Request::new(caller, "fork", id, key, body.run_id.as_deref(), &body)?;
    service.run_for(caller, id)?;
    if let Some(begun) = request.before(service, caller, key.is_some())? {
        resume_left(service, &begun.id)?;
        return Ok(begun);
    }
    let changed = changed(service, caller, id, body.version, &body.components)?;
    let notes = request.notes(caller, &changed, body.labels, "fork");
    let options = ForkOptions {
        at: body.at,
        id: request.id.clone(),
        substituted: changed.is_other,
        inputs: body.inputs,
        resend: body.resend,
        notes,
        blob_holders: vec![super::blobs::holder(caller)],
    };
    let new = match service.host.fork(&changed.workflow, id, options) {
        Ok(new) => new,
        Err(RerunError::Journal(StoreError::Exists(id))) => {
            return existing(service, caller, &id, &request.digest, key.is_some());
        }
        Err(error) => return Err(rerun_problem(error)),
    };
    service.note(caller, "runs.fork", id, Some(json!({ "run": &*new, "at": body.at }).to_string()))?;
    resume_left(service, &new)?;
    Ok(Begun { id: new.to_string(), handle: service.host.run_of(&new), is_replayed: false })
}

/// Resumes a forked run that no host has: its fork is durable, and the server may have ended before
/// it resumed it.
fn resume_left(service: &Service, id: &str) -> Answered<()> {
    let is_left = service.store.run(id)?.is_some_and(|stored| stored.status.is_none() && stored.owner.is_none());
    if is_left && let Resumed::Failed(error) = service.host.resume(id) {
        tracing::error!(run = id, %error, "a forked run cannot be resumed");
    }
    Ok(())
}

/// The problem of a run or a version that cannot be loaded.
pub(in crate::serve) fn recover_problem(error: RecoverError) -> ServeProblem {
    if let Some(why) = error.damage() {
        return ServeProblem::new(ProblemKind::Damaged).detail(why);
    }
    match error {
        RecoverError::Journal(error) => error.into(),
        RecoverError::NoComponent { .. } => {
            ServeProblem::new(ProblemKind::DoesNotFit).part("/components", error.to_string())
        }
        RecoverError::Workflow(LoadError::Definition(problems)) => definition_problem(&problems),
        RecoverError::Workflow(error) => start_problem(error),
        error => {
            tracing::error!(%error, "a run cannot be read");
            ServeProblem::new(ProblemKind::HostFault)
        }
    }
}

fn rerun_problem(error: RerunError) -> ServeProblem {
    let fits = |pointer: &str, why: String| ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why);
    match error {
        RerunError::TakeUp(error) => recover_problem(error),
        RerunError::Load(error) => start_problem(error),
        RerunError::Journal(error) => error.into(),
        RerunError::Repeat(RepeatError::NotEnded) => ServeProblem::new(ProblemKind::RunUnfinished),
        RerunError::Repeat(RepeatError::NothingFailed) => ServeProblem::new(ProblemKind::NothingToRetry),
        RerunError::Repeat(error @ RepeatError::Unsure { .. }) => ServeProblem::new(ProblemKind::DoesNotFit)
            .part("/undone", error.to_string())
            .hint("name each step in `undone`, which runs it again, or in `not-undone`, which takes it over"),
        error @ RerunError::Retried { .. } => ServeProblem::new(ProblemKind::Retried).detail(error.to_string()),
        RerunError::Repeat(error @ RepeatError::NoStep { .. }) => fits("/from", error.to_string()),
        RerunError::Repeat(error @ (RepeatError::Inputs(_) | RepeatError::NotBegun(_))) => {
            fits("/inputs", error.to_string())
        }
        RerunError::Fork(error @ (ForkError::NoRecord { .. } | ForkError::Ended { .. })) => {
            fits("/at", error.to_string()).hint("`GET /v1/runs/{id}/history` shows the records with their numbers")
        }
        RerunError::Fork(error @ (ForkError::Diverged(_) | ForkError::CannotReplay(_))) => {
            ServeProblem::new(ProblemKind::Diverged).detail(error.to_string())
        }
        RerunError::TakenOver => ServeProblem::new(ProblemKind::Diverged).detail(error.to_string()),
        error => ServeProblem::new(ProblemKind::Damaged).detail(error.to_string()),
    }
}
