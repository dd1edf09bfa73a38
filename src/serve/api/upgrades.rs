//! Upgrading a run that has not ended to another version of its workflow.

use super::reruns::recover_problem;
use super::runs::start_problem;
use crate::host::{DeployedVersion, Upgrade, UpgradeError};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Segments};
use crate::serve::idempotency::Key;
use crate::serve::job::differs;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;

/// To what a run is upgraded.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UpgradeRun {
    /// The number of the version.
    #[schema(minimum = 1)]
    pub to: u64,
}

/// The outcome of an upgrade: it is durable.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct UpgradeView {
    /// The id of the run.
    pub run: String,
    /// `upgraded`, or `unchanged`: it is a run of this version already.
    pub outcome: String,
    /// The number of the version.
    pub version: u64,
    /// The number of the record that says so, if it was upgraded now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
}

/// Makes a run that has not ended one of another version of its workflow.
///
/// All of its records are replayed on the version first. If every step does the same, the run goes
/// on with it, and one record of the run says so; otherwise the problem `diverged` names the first
/// step that differs, and the run goes on as it was. That it did the same so far says nothing about
/// what comes: `fork` tries a version on a copy. Its inputs, limits and concurrency group stay.
/// Needs `deploy` too.
#[utoipa::path(post, path = "/v1/runs/{id}/upgrade", tag = "acts",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")), request_body = UpgradeRun,
    responses((status = 200, body = UpgradeView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn upgrade(
    State(service): State<Arc<Service>>,
    caller: Caller,
    // An upgrade to a version is done once, under any key.
    Key(_): Key,
    Segments(id): Segments<String>,
    JsonBody(body): JsonBody<UpgradeRun>,
) -> Answered<Json<UpgradeView>> {
    caller.check(Scope::Deploy)?;
    let _turn = service.replay_turn().await?;
    service.with_store(move |service| upgrade_now(service, &caller, &id, body.to).map(Json)).await
}

/// Upgrades a run.
pub(in crate::serve) fn upgrade_now(
    service: &Service,
    caller: &Caller,
    id: &str,
    number: u64,
) -> Answered<UpgradeView> {
    let stored = service.run_for(caller, id)?;
    let deployed = service.deployed(&stored.name, Some(number))?;
    let version = DeployedVersion { row: deployed.version.row, number };
    let upgraded = service.host.upgrade(&deployed.workflow, id, Some(version));
    let view = |outcome: &str, record| UpgradeView {
        run: id.to_owned(),
        outcome: outcome.to_owned(),
        version: number,
        record,
    };
    match upgraded.map_err(|error| upgrade_problem(caller, id, error))? {
        Upgrade::Unchanged => Ok(view("unchanged", None)),
        Upgrade::Done { record } => {
            service.note(caller, "runs.upgrade", id, Some(json!({ "to": number, "record": record }).to_string()))?;
            Ok(view("upgraded", Some(record)))
        }
    }
}

fn upgrade_problem(caller: &Caller, id: &str, error: UpgradeError) -> ServeProblem {
    let detail = error.to_string();
    match error {
        UpgradeError::Run(error) => recover_problem(error),
        UpgradeError::Load(error) => start_problem(error),
        UpgradeError::Ended(id) => ServeProblem::ended(id),
        UpgradeError::Owned(_) | UpgradeError::Busy(_) => {
            ServeProblem::new(ProblemKind::RunBusy).detail(detail).retry_after(5)
        }
        UpgradeError::Inputs(parts) => {
            let problem = ServeProblem::new(ProblemKind::Diverged).detail(detail);
            parts.into_iter().fold(problem, |problem, (pointer, why)| problem.part(pointer, why))
        }
        UpgradeError::Differs(difference) => {
            let mut checked = differs(id, *difference);
            if !caller.has(Scope::RunsPayloads) {
                (checked.expected, checked.did) = (None, None);
            }
            ServeProblem { difference: Some(json!(checked)), ..ServeProblem::new(ProblemKind::Diverged).detail(detail) }
        }
        UpgradeError::Records(_) => ServeProblem::new(ProblemKind::Damaged).detail(detail),
        UpgradeError::Unrecovered { .. } => {
            tracing::error!(run = id, detail, "a run cannot go on after an upgrade");
            ServeProblem::new(ProblemKind::HostFault).detail(detail)
        }
        UpgradeError::OtherWorkflow(_)
        | UpgradeError::TakenOver
        | UpgradeError::CannotReplay(_)
        | UpgradeError::TooLong(_) => ServeProblem::new(ProblemKind::Diverged).detail(detail),
    }
}
