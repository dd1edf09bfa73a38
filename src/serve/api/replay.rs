//! Replaying a run from its records, to see whether it does the same.

use super::reruns::changed;
use crate::host::ReplayOptions;
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

/// How long a request waits for those that replay before it.
const TURN_WAIT_MAX: Duration = Duration::from_secs(30);

/// How a run is replayed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ReplayRun {
    /// The number of the last record to replay; all if it is not given.
    #[schema(minimum = 1)]
    pub until: Option<u64>,
    /// The number of another version of the workflow.
    pub version: Option<u64>,
    /// Components in place of others: by the names that the workflow gives them, the digests of
    /// uploaded ones. Needs `deploy`.
    pub components: BTreeMap<String, String>,
}

/// Whether a run does the same again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", default)]
#[schema(as = Replay)]
pub struct ReplayView {
    /// `same`; `diverged`: a step gave something else; `cannot-replay`: this server ends a step
    /// that ended otherwise then, which says nothing about the workflow.
    pub answer: String,
    /// Steps that were the same, if all were; otherwise `step` has the one that was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Steps among them that used another amount of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel_differs: Option<u64>,
    /// Records that were read, if all steps were the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// The number of the record where it diverges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// The process that diverges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// The number of its step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The place of the process in the workflow, `<step>/<item>/<n>`, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The component of the process, if it is a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// What the step gave then, line by line. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Vec<String>>,
    /// What it gives now. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<Vec<String>>,
    /// The index of the first line that differs, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How the step ended now, if it cannot be replayed. Needs `runs:payloads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub problem: Option<Value>,
}

/// Replays a run from its records, without effects, and compares every step.
#[utoipa::path(post, path = "/v1/runs/{id}/replay", tag = "acts", params(("id" = String, Path)), request_body = Option<ReplayRun>,
    responses((status = 200, body = ReplayView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn replay(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    JsonBody(body): JsonBody<ReplayRun>,
) -> Answered<Json<ReplayView>> {
    let _turn = service.replay_turn().await?;
    service
        .with_store(move |service| {
            let changed = changed(service, &caller, &id, body.version, &body.components)?;
            let records = service.records(&id, 1, usize::MAX)?;
            if body.until == Some(0) {
                return Err(crate::serve::query::unfit("/until", "records are counted from 1"));
            }
            let options = ReplayOptions {
                until: crate::serve::query::number("/until", body.until)?,
                substituted: changed.is_other,
            };
            let replayed = service.host.replay(&changed.workflow, &records, options, |_| {});
            let replayed = replayed.map_err(|error| {
                ServeProblem::new(ProblemKind::Damaged).detail(format!("the run cannot be replayed: {error}"))
            })?;
            let mut view: ReplayView = serde_json::from_value(replayed.to_json()).map_err(|error| {
                tracing::error!(%error, "the answer of a replay cannot be written");
                ServeProblem::new(ProblemKind::HostFault)
            })?;
            if !caller.has(Scope::RunsPayloads) {
                (view.expected, view.got, view.problem) = (None, None, None);
            }
            Ok(Json(view))
        })
        .await
}

impl Service {
    /// Waits for a turn to execute recorded steps again.
    pub(in crate::serve) async fn replay_turn(&self) -> Answered<OwnedSemaphorePermit> {
        match tokio::time::timeout(TURN_WAIT_MAX, Arc::clone(&self.replays).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(ServeProblem::new(ProblemKind::TooManyWaits).detail("other runs are replayed").retry_after(5)),
        }
    }
}
