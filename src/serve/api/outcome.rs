//! Waiting for the outcome of a run.

use crate::host::{Outcome, RunHandle};
use crate::process::problem::kind;
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{Params, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::Service;
use crate::serve::view::{OutcomeView, RunView};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;

/// How often a run of another process is looked at.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// How long is waited.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitParams {
    /// Waits so long for the outcome, such as `30s`; at most a minute.
    pub wait: Option<String>,
}

/// Shows how a run ended, and waits for that.
#[utoipa::path(get, path = "/v1/runs/{id}/outcome", tag = "runs", params(("id" = String, Path), WaitParams),
    responses((status = 200, body = OutcomeView, description = "It has ended"),
        (status = 202, body = RunView, description = "It has not"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn outcome(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<WaitParams>,
) -> Answered<Response> {
    let wait = query::wait(params.wait.as_deref())?.unwrap_or_default();
    let with_payload = caller.has(Scope::RunsPayloads);
    let run = id.clone();
    service.with_store(move |service| service.run_for(&caller, &run)).await?;
    wait_for(&service, &id, None, wait, with_payload).await
}

/// Answers with the outcome of a run, or with the run when the wait is over.
pub(in crate::serve) async fn wait_for(
    service: &Arc<Service>,
    id: &str,
    mut handle: Option<RunHandle>,
    wait: Duration,
    with_payload: bool,
) -> Answered<Response> {
    let _permit = Arc::clone(&service.waits)
        .try_acquire_owned()
        .map_err(|_| ServeProblem::new(ProblemKind::TooManyWaits).retry_after(1))?;
    let until = tokio::time::Instant::now() + wait;
    loop {
        let now = tokio::time::Instant::now();
        if let Some(run) = handle.take().or_else(|| service.host.run_of(id)) {
            let finished = tokio::select! {
                outcome = run.finished() => Some(outcome),
                () = tokio::time::sleep_until(until) => None,
                () = service.drained() => None,
            };
            match finished {
                Some(outcome) if !has_left(&outcome) => {
                    return Ok(Json(OutcomeView::of(&outcome, with_payload)).into_response());
                }
                _ => return unfinished(service, id).await,
            }
        }
        let run = id.to_owned();
        let ended = service.with_store(move |service| {
            let stored = service.store.run(&run)?.ok_or_else(|| ServeProblem::unknown(format_args!("run `{run}`")))?;
            if stored.status.is_none() {
                return Ok(None);
            }
            let outcome = service.projection(&run)?.outcome(&run);
            outcome.map(Some).ok_or_else(|| ServeProblem::new(ProblemKind::Damaged).detail("its end is not recorded"))
        });
        if let Some(outcome) = ended.await? {
            return Ok(Json(OutcomeView::of(&outcome, with_payload)).into_response());
        }
        if now >= until || service.is_draining() {
            return unfinished(service, id).await;
        }
        tokio::time::sleep_until(until.min(now + POLL_EVERY)).await;
    }
}

/// Returns whether a run has not ended, and only left this host: it continues in another.
fn has_left(outcome: &Outcome) -> bool {
    let kinds = [kind::SUSPENDED, kind::RUN_TAKEN, kind::JOURNAL_FAILED];
    outcome.result.as_ref().is_err_and(|problem| kinds.contains(&&*problem.kind))
}

async fn unfinished(service: &Arc<Service>, id: &str) -> Answered<Response> {
    let run = id.to_owned();
    let view = service.with_store(move |service| super::runs::durable_view(service, &run));
    Ok((StatusCode::ACCEPTED, Json(view.await?)).into_response())
}
