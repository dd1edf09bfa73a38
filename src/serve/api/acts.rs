//! Acting on runs: signals, cancel, pause, resume, and settling calls of unknown outcome.

use crate::base::text::steers;
use crate::host::{ActError, Acted};
use crate::process::{Micros, Payload, Pid, Problem, ProblemClass, Tag};
use crate::run::{Act, Refused, Resolution};
use crate::serve::access::Caller;
use crate::serve::body::{AnyJson, JsonBody, Segments};
use crate::serve::idempotency::{Key, derived};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use crate::workflow::model::parse_duration;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// Bytes of a signal's name.
const SIGNAL_BYTES_MAX: usize = 1_024;

/// The outcome of an act: it is durable.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActView {
    /// The id of the run.
    pub run: String,
    /// `recorded`: it is a record of the run. `left`: it is not running, and gets it
    /// when it is resumed. `duplicate`: it was left before.
    pub outcome: String,
}

async fn act(
    service: &Arc<Service>,
    caller: Caller,
    id: String,
    key: Option<String>,
    act: Act,
    name: &'static str,
) -> Answered<Json<ActView>> {
    let key = key.map(|key| derived('a', &[caller.name(), &id, &key]));
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let acted = service.host.act(&id, &act, key.as_deref()).map_err(|error| match error {
                ActError::Refused(Refused::Ended) => ServeProblem::ended(&id),
                error => act_problem(error),
            })?;
            service.note(&caller, name, &id, None)?;
            let outcome = match acted {
                Acted::Recorded => "recorded",
                Acted::Stored => "left",
                Acted::Duplicate => "duplicate",
            };
            Ok(Json(ActView { run: id, outcome: outcome.to_owned() }))
        })
        .await
}

pub(in crate::serve) fn act_problem(error: ActError) -> ServeProblem {
    match error {
        ActError::Unknown(id) => ServeProblem::unknown(format_args!("run `{id}`")),
        ActError::Refused(Refused::Ended) => ServeProblem::new(ProblemKind::RunEnded),
        ActError::Refused(Refused::Full) => ServeProblem::new(ProblemKind::MailboxFull).retry_after(1),
        ActError::Refused(Refused::TooLarge) => {
            ServeProblem::new(ProblemKind::TooLarge).detail("the run takes no payload of this size")
        }
        ActError::Refused(_) => ServeProblem::new(ProblemKind::KeyReused),
        ActError::NoSuchCall => ServeProblem::new(ProblemKind::NoSuchCall),
        ActError::Unsure { why } => ServeProblem::new(ProblemKind::Unsure).detail(why).retry_after(1),
        ActError::Journal(error) => error.into(),
    }
}

/// Refuses what cannot be the name of a signal.
pub(super) fn check_signal(pointer: &str, name: &str) -> Answered<()> {
    if !name.is_empty() && name.len() <= SIGNAL_BYTES_MAX && !name.chars().any(steers) {
        return Ok(());
    }
    let why = format!(
        "the name of a signal has 1 to {SIGNAL_BYTES_MAX} bytes, none of them of a character that controls how text is \
         shown"
    );
    Err(ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why))
}

/// Sends a signal to a run. The body is its payload.
#[utoipa::path(post, path = "/v1/runs/{id}/signals/{name}", tag = "acts",
    params(("id" = String, Path), ("name" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body(content = Value, content_type = "application/json"),
    responses((status = 200, body = ActView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn signal(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments((id, name)): Segments<(String, String)>,
    AnyJson(body): AnyJson,
) -> Answered<Json<ActView>> {
    check_signal("name", &name)?;
    let signal = Act::Signal { name: name.as_str().into(), body: Payload::json(&body) };
    act(&service, caller, id, key, signal, "runs.signal").await
}

/// How a run is cancelled.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CancelRun {
    /// The reason that the run is told.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// How long it may take to end, such as `10s`. Its own limit if it is not given; `0s` ends it
    /// now.
    pub grace: Option<String>,
}

/// Cancels a run.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "acts",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = Option<CancelRun>,
    responses((status = 200, body = ActView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(id): Segments<String>,
    JsonBody(body): JsonBody<CancelRun>,
) -> Answered<Json<ActView>> {
    let reason = body.reason.unwrap_or_else(|| format!("cancelled by {}", caller.name()));
    if reason.chars().count() > 1_000 {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("/reason", "it has at most 1,000 characters"));
    }
    let grace = body.grace.map(|text| parse_duration(&text)).transpose();
    let grace = grace.map_err(|why| ServeProblem::new(ProblemKind::DoesNotFit).part("/grace", why))?;
    let cancel = Act::Cancel { reason: reason.into(), grace: grace.map(|grace| Micros(grace.0)) };
    act(&service, caller, id, key, cancel, "runs.cancel").await
}

/// An act without particulars.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Pauses a run: its processes begin no step.
#[utoipa::path(post, path = "/v1/runs/{id}/pause", tag = "acts",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = Option<Nothing>,
    responses((status = 200, body = ActView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn pause(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(id): Segments<String>,
    JsonBody(_): JsonBody<Nothing>,
) -> Answered<Json<ActView>> {
    act(&service, caller, id, key, Act::Pause, "runs.pause").await
}

/// Continues a paused run.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", tag = "acts",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = Option<Nothing>,
    responses((status = 200, body = ActView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn resume(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments(id): Segments<String>,
    JsonBody(_): JsonBody<Nothing>,
) -> Answered<Json<ActView>> {
    act(&service, caller, id, key, Act::Resume, "runs.resume").await
}

/// What became known of a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ResolveCall {
    /// What happened.
    pub outcome: CallOutcome,
    /// The answer, if it happened.
    #[serde(default)]
    pub answer: Option<Value>,
}

/// What happened with a call of unknown outcome.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallOutcome {
    /// It happened, and has this answer.
    Completed,
    /// It did not happen: the step may try again, under a new key.
    Failed,
    /// It should be sent again under its key.
    Again,
}

/// Settles a call of unknown outcome.
#[utoipa::path(post, path = "/v1/runs/{id}/uncertain/{pid}/{call}", tag = "acts",
    params(("id" = String, Path), ("pid" = u64, Path), ("call" = u64, Path, description = "its tag"),
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body = ResolveCall,
    responses((status = 200, body = ActView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn resolve(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Key(key): Key,
    Segments((id, pid, tag)): Segments<(String, u64, u64)>,
    JsonBody(body): JsonBody<ResolveCall>,
) -> Answered<Json<ActView>> {
    let resolution = match (body.outcome, body.answer) {
        (CallOutcome::Completed, answer) => Resolution::Answered(Ok(Payload::json(&answer.unwrap_or_default()))),
        (_, Some(_)) => {
            return Err(ServeProblem::new(ProblemKind::DoesNotFit)
                .part("/answer", "only a call that has completed has an answer"));
        }
        (CallOutcome::Failed, None) => {
            let problem = Problem::new("did-not-happen", "Somebody said that the call did not happen");
            Resolution::Answered(Err(Arc::new(problem.with_class(ProblemClass::Retryable))))
        }
        (CallOutcome::Again, None) => Resolution::Again,
    };
    let resolve = Act::Resolve { pid: Pid(pid), tag: Tag(tag), resolution };
    act(&service, caller, id, key, resolve, "runs.resolve").await
}
