//! Deliveries: `POST /hooks/{name}`.
//!
//! 1. The webhook is found, and the body is read as it came.
//! 2. The delivery is verified. Nothing was parsed before.
//! 3. The webhook's expressions decide what it does.
//! 4. The run is begun or signalled under an id that is derived from the delivery's: the same
//!    delivery is one run or one signal, however often it comes.
//! 5. The answer is sent when that is durable; if it takes too long, the sender is asked to send
//!    the delivery again.

use super::delivery_log::GATHER;
use super::hooks::UNUSABLE;
use super::mapping::{Deed, Unfit};
use super::spec::CheckedWebhook;
use super::verify::{Genuine, Received, Refusal, Verify};
use crate::host::{ActError, DeployedVersion, LoadError, RunOptions, StartNotes};
use crate::journal::catalog::Delivery;
use crate::process::Payload;
use crate::run::{Act, Refused, system_time};
use crate::serve::api::acts::act_problem;
use crate::serve::api::runs::{start_problem, without_secrets};
use crate::serve::body::{self, BODY_BYTES_MAX, Segments};
use crate::serve::idempotency::derived;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::{Deployed, Service};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// How long a delivery may take to be durable. Senders wait about as long.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(10);

/// After how many seconds a sender should try again.
const AGAIN_SECONDS: u64 = 10;

/// What a delivery did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct DeliveryAnswer {
    /// `started`, `signalled`, `duplicate` (it came before), or `filtered` (the webhook does not
    /// accept it, and nothing was done).
    pub outcome: &'static str,
    /// The run that was started or signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What Slack has sent to see whether the server is there, when the webhook is entered there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
}

/// A delivery as far as it has got, for the list.
struct Course {
    id: Option<String>,
    answer: Result<DeliveryAnswer, (ServeProblem, String)>,
}

/// Takes a delivery.
///
/// When this answers 202, the run that it started, or the signal, is durable. The same delivery
/// again is answered with 200 and the same run.
#[utoipa::path(post, path = "/hooks/{name}", tag = "webhooks", params(("name" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "What the sender signs, unchanged"),
    responses((status = 202, body = DeliveryAnswer, description = "It counts"),
        (status = 200, body = DeliveryAnswer, description = "It came before, or the webhook does not accept it"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn receive(
    State(service): State<Arc<Service>>,
    Segments(name): Segments<String>,
    request: Request,
) -> Answered<Response> {
    if service.is_draining() {
        return Err(ServeProblem::new(ProblemKind::Draining).retry_after(AGAIN_SECONDS));
    }
    if service.host.is_full() {
        return Err(ServeProblem::new(ProblemKind::DiskFull).retry_after(AGAIN_SECONDS));
    }
    let webhook: Arc<str> = name.as_str().into();
    let hook = service.with_store(move |service| service.hook(&name)).await?;
    let (headers, query) = (request.headers().clone(), request.uri().query().map(str::to_owned));
    let (name, body) = (Arc::clone(&webhook), body::read(request, BODY_BYTES_MAX).await);
    let work = service.with_store(move |service| {
        Ok(match body {
            Ok(body) => service.deliver(&name, &hook, &headers, query.as_deref(), &body),
            Err(problem) => Course::refused(None, problem.clone(), problem.detail.unwrap_or(problem.title)),
        })
    });
    let course = match tokio::time::timeout(DURABLE_TIME_MAX, work).await {
        Ok(course) => course?,
        Err(_) => Course::refused(None, unsure(), "it did not become durable in time".to_owned()),
    };
    let delivery = course.entry(&webhook);
    if service.hooks.deliveries.add(delivery) {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            tokio::time::sleep(GATHER).await;
            let written = service.with_store(|service| {
                service.hooks.deliveries.write();
                Ok(())
            });
            let _ = written.await;
        });
    }
    let answer = course.answer.map_err(|(problem, _)| problem)?;
    let counts = matches!(answer.outcome, "started" | "signalled");
    let status = if counts { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(answer)).into_response())
}

fn unsure() -> ServeProblem {
    ServeProblem::new(ProblemKind::Unsure).retry_after(AGAIN_SECONDS)
}

impl Course {
    fn refused(id: Option<String>, problem: ServeProblem, reason: String) -> Self {
        Self { id, answer: Err((problem, reason)) }
    }

    fn done(id: Option<String>, outcome: &'static str, run: Option<String>) -> Self {
        Self { id, answer: Ok(DeliveryAnswer { outcome, run, challenge: None }) }
    }

    /// The entry in the list of deliveries.
    fn entry(&self, webhook: &Arc<str>) -> Delivery {
        let (outcome, run, reason) = match &self.answer {
            Ok(answer) => (answer.outcome, answer.run.as_deref(), None),
            Err((problem, reason)) if problem.status < 500 => ("refused", None, Some(reason.clone())),
            Err((_, reason)) => ("failed", None, Some(reason.clone())),
        };
        let (webhook, id, run) = (Arc::clone(webhook), self.id.clone(), run.map(Arc::from));
        Delivery { webhook, id, at: system_time(), outcome: outcome.into(), run, reason }
    }
}

impl Service {
    /// Verifies a delivery, and does what it asks for.
    fn deliver(
        &self,
        name: &str,
        hook: &CheckedWebhook,
        headers: &HeaderMap,
        query: Option<&str>,
        body: &[u8],
    ) -> Course {
        let now = system_time().0 / 1_000_000;
        let reach = self.reach(hook.is_trusted);
        let Genuine { key, id } = match hook.spec.verify.check(&Received { headers, body, now }, reach) {
            Ok(genuine) => genuine,
            Err(refusal) => {
                let problem = refusal_problem(&refusal);
                let reason = if problem.status < 500 { refusal.to_string() } else { UNUSABLE.to_owned() };
                return Course::refused(None, problem, reason);
            }
        };
        if let (Verify::Slack { .. }, Some(challenge)) = (&hook.spec.verify, challenge(body)) {
            let answer = DeliveryAnswer { outcome: "filtered", run: None, challenge: Some(challenge) };
            return Course { id, answer: Ok(answer) };
        }
        let deed = match hook.decide(self.host.expressions(), headers, query, body) {
            Ok(deed) => deed,
            Err(unfit) => return Course::refused(id, unfit_problem(&unfit), unfit.to_string()),
        };
        let derive = |letter| key.as_deref().map(|key| derived(letter, &["webhook", name, key]));
        match deed {
            Deed::Filtered => Course::done(id, "filtered", None),
            Deed::Start { workflow, inputs } => {
                let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
                self.begin_by_hook(name, &workflow, inputs, derive('h'), id, traceparent)
            }
            Deed::Signal { run, name: signal, body } => {
                let act = Act::Signal { name: signal.as_str().into(), body: Payload::json(&body) };
                match self.host.act(&run, &act, derive('h').as_deref()) {
                    Ok(crate::host::Acted::Duplicate) => Course::done(id, "duplicate", Some(run)),
                    Ok(_) => Course::done(id, "signalled", Some(run)),
                    // The run has taken the same delivery before, and its expressions gave another
                    // body then.
                    Err(ActError::Refused(Refused::Conflict)) => Course::done(id, "duplicate", Some(run)),
                    Err(error) => {
                        let reason = error.to_string();
                        Course::refused(id, act_problem(error), reason)
                    }
                }
            }
        }
    }

    fn begin_by_hook(
        &self,
        name: &str,
        workflow: &str,
        inputs: Map<String, Value>,
        run: Option<String>,
        id: Option<String>,
        traceparent: Option<&str>,
    ) -> Course {
        // It may have been deployed anew since: the first delivery has decided.
        if let Some(run) = run.as_deref().filter(|run| matches!(self.store.run(run), Ok(Some(_)))) {
            return Course::done(id, "duplicate", Some(run.to_owned()));
        }
        let Deployed { version, workflow } = match self.deployed(workflow, None) {
            Ok(deployed) => deployed,
            Err(problem) => {
                let reason = problem.detail.clone().unwrap_or_else(|| problem.title.clone());
                // The sender cannot know of it, and may send the delivery again.
                let not_deployed = || ServeProblem::new(ProblemKind::NotDeployed).retry_after(AGAIN_SECONDS);
                let problem = if problem.is(ProblemKind::Unknown) { not_deployed() } else { problem };
                return Course::refused(id, problem, reason);
            }
        };
        let notes = StartNotes {
            labels: BTreeMap::from([("webhook".to_owned(), name.to_owned())]),
            version: Some(DeployedVersion { row: version.row, number: version.number }),
            started_by: Some("webhook".to_owned()),
            author: Some(name.to_owned()),
            request: None,
            traceparent: traceparent.map(str::to_owned),
        };
        let options = RunOptions { id: run, durable: Some(true), notes, ..RunOptions::default() };
        match self.host.start(&workflow, inputs, options) {
            Ok(run) if run.started(DURABLE_TIME_MAX) => Course::done(id, "started", Some(run.id().to_string())),
            Ok(_) => Course::refused(id, unsure(), "it did not become durable in time".to_owned()),
            // A twin was faster: it counts when that one is durable.
            Err(LoadError::Exists { id: run }) => match self.host.run_of(&run).map(|run| run.started(DURABLE_TIME_MAX))
            {
                Some(false) => Course::refused(id, unsure(), "it did not become durable in time".to_owned()),
                _ => Course::done(id, "duplicate", Some(run)),
            },
            Err(error) => {
                let reason = match &error {
                    LoadError::Inputs(violations) => {
                        let texts = violations.iter().map(|(pointer, message)| format!("{pointer}: {message}"));
                        format!("the inputs do not fit: {}", texts.collect::<Vec<_>>().join("; "))
                    }
                    LoadError::Secrets(missing) => without_secrets(missing),
                    error => error.to_string(),
                };
                Course::refused(id, start_problem(error), reason)
            }
        }
    }
}

/// What Slack sends when the webhook is entered there, and expects in the answer.
fn challenge(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Challenge {
        r#type: String,
        challenge: String,
    }
    let challenge: Challenge = serde_json::from_slice(body).ok()?;
    (challenge.r#type == "url_verification").then_some(challenge.challenge)
}

/// What the sender of a delivery is told that is not genuine.
fn refusal_problem(refusal: &Refusal) -> ServeProblem {
    match refusal {
        // What is wrong with the server is for its log.
        Refusal::Secret(_) | Refusal::NotBase64 => {
            tracing::error!(why = %refusal, "deliveries of a webhook cannot be verified");
            ServeProblem::new(ProblemKind::WebhookUnusable)
        }
        _ => ServeProblem::new(ProblemKind::NotGenuine).detail(refusal.to_string()),
    }
}

fn unfit_problem(unfit: &Unfit) -> ServeProblem {
    let kind = match unfit {
        Unfit::NotJson(_) | Unfit::NotText | Unfit::TooManyFields => ProblemKind::Malformed,
        Unfit::Expression { .. } | Unfit::Inputs(_) | Unfit::RunId(_) => ProblemKind::DoesNotFit,
    };
    ServeProblem::new(kind).detail(unfit.to_string())
}
