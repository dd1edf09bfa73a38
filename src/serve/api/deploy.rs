//! Deploying versions, and activating them.

use super::checks::check_activated;
use super::workflows::{VersionView, active};
use crate::base::text::steers;
use crate::host::LoadError;
use crate::journal::catalog::Activated;
use crate::serve::access::Caller;
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::problem::{Answered, PartProblem, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use crate::workflow::diagnostics::Diagnostics;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// A version to be deployed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeployVersion {
    /// What diagnostics call the file.
    #[schema(min_length = 1, max_length = 1000)]
    pub file: String,
    /// The text of the workflow.
    pub source: String,
    /// The components that the text names, with the BLAKE3 of their bytes in hexadecimal; they were
    /// uploaded before.
    #[serde(default)]
    pub components: BTreeMap<String, String>,
    /// Whether new runs get it from now on.
    #[serde(default)]
    pub activate: bool,
    /// The number of the version that should be active now; 0 if none should be.
    #[serde(default)]
    pub expect_active: Option<u64>,
    /// What is said of it.
    #[serde(default)]
    #[schema(max_length = 1000)]
    pub note: Option<String>,
}

/// How a version is deployed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DeployParams {
    /// Checks everything, and deploys nothing.
    pub dry_run: bool,
}

/// What a deployment answers that makes no version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DeployAnswer {
    /// It was deployed before.
    Version(Box<VersionView>),
    /// Nothing was deployed.
    Fits {
        /// Nothing is wrong with it.
        fits: bool,
        /// The name of the workflow.
        name: String,
    },
}

/// Deploys a version of a workflow. The same version again is the same.
#[utoipa::path(post, path = "/v1/workflows", tag = "workflows", params(DeployParams), request_body = DeployVersion,
    responses((status = 201, body = VersionView), (status = 200, body = DeployAnswer, description = "It was deployed before, or nothing is wrong with it, as `dry-run` asked"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn deploy(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<DeployParams>,
    JsonBody(body): JsonBody<DeployVersion>,
) -> Answered<Response> {
    let me = Arc::clone(&service);
    service.deploying(move |_| deploy_now(&me, &caller, body, params.dry_run)).await
}

fn deploy_now(service: &Arc<Service>, caller: &Caller, body: DeployVersion, dry_run: bool) -> Answered<Response> {
    let is_text = |text: &str| !text.is_empty() && text.chars().count() <= 1_000 && !text.chars().any(steers);
    if !is_text(&body.file) {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit)
            .part("/file", "it has 1 to 1,000 characters, none of them one that controls how text is shown"));
    }
    let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    for (source, hash) in &body.components {
        if !is_hash(hash) {
            return Err(ServeProblem::new(ProblemKind::DoesNotFit)
                .part("/components", format!("`{source}`: a digest is 64 hexadecimal digits")));
        }
    }
    let missing: Vec<String> =
        body.components.values().filter(|hash| !service.host.has_component(hash)).cloned().collect();
    if !missing.is_empty() {
        let problem = ServeProblem::new(ProblemKind::MissingComponents);
        return Err(ServeProblem { missing, ..problem });
    }
    let workflow =
        service.host.load_stored(&body.file, &body.source, &body.components).map_err(|error| match error {
            LoadError::Definition(problems) => definition_problem(&problems),
            error => super::runs::start_problem(error),
        })?;
    let name = workflow.plan().name.to_string();
    caller.check_workflow(&name)?;
    if dry_run {
        service.host.check_secrets(&workflow).map_err(super::runs::start_problem)?;
        return Ok(Json(DeployAnswer::Fits { fits: true, name }).into_response());
    }
    let (deployed, is_new) = service.deploy(workflow, caller.name(), body.note).map_err(super::runs::start_problem)?;
    let number = deployed.version.number;
    if is_new {
        service.note(caller, "workflows.deploy", &format!("{name}@{number}"), None)?;
    }
    let mut check = HeaderMap::new();
    if body.activate {
        check = activate_now(service, caller, &name, number, body.expect_active)?;
    }
    let view = VersionView::of(&deployed.version, active(service, &name)? == Some(number));
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, check, Json(view)).into_response())
}

pub(super) fn definition_problem(problems: &Diagnostics) -> ServeProblem {
    let mut problem = ServeProblem::new(ProblemKind::DoesNotFit).detail(problems.render(false));
    let source = problems.source();
    problem.errors = problems
        .iter()
        .map(|one| {
            let at = source.position(one.span.start);
            PartProblem {
                pointer: "/source".to_owned(),
                message: one.message.clone(),
                line: Some(at.line),
                column: Some(at.column),
                hint: one.hint.clone(),
            }
        })
        .collect();
    problem
}

/// Which version should be active before.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ActivateVersion {
    /// The number of the version that should be active now; 0 if none should be.
    pub expect_active: Option<u64>,
}

/// Makes a version the one that new runs get.
///
/// If the server was started with `--on-deploy check`, a check of the version with the newest 100
/// runs begins, and the header `Link` names its job (`rel="monitor"`).
#[utoipa::path(post, path = "/v1/workflows/{name}/versions/{version}/activate", tag = "workflows",
    params(("name" = String, Path), ("version" = u64, Path)), request_body = Option<ActivateVersion>,
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn activate(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((name, number)): Segments<(String, u64)>,
    JsonBody(body): JsonBody<ActivateVersion>,
) -> Answered<Response> {
    let me = Arc::clone(&service);
    service
        .with_store(move |_| {
            caller.check_workflow(&name)?;
            let check = activate_now(&me, &caller, &name, number, body.expect_active)?;
            Ok((StatusCode::NO_CONTENT, check).into_response())
        })
        .await
}

/// Activates a version. Returns the header that names the job that checks it, if one does.
fn activate_now(
    service: &Arc<Service>,
    caller: &Caller,
    name: &str,
    number: u64,
    expected: Option<u64>,
) -> Answered<HeaderMap> {
    match service.activate(name, number, caller.name(), expected)? {
        Activated::Done => {
            service.note(caller, "workflows.activate", &format!("{name}@{number}"), None)?;
            // It is active, whatever becomes of the check.
            let job = check_activated(service, caller, name, number).unwrap_or_else(|problem| {
                tracing::warn!(workflow = name, version = number, problem = problem.detail, "it is not checked");
                None
            });
            let link = job.and_then(|id| HeaderValue::try_from(format!("</v1/jobs/{id}>; rel=\"monitor\"")).ok());
            Ok(link.map(|link| (header::LINK, link)).into_iter().collect())
        }
        Activated::Unknown => Err(ServeProblem::unknown(format_args!("version {number} of `{name}`"))),
        Activated::Other(now) => {
            let now = now.map_or_else(|| "no version".to_owned(), |now| format!("version {now}"));
            Err(ServeProblem::new(ProblemKind::NotActive)
                .detail(format!("{now} of `{name}` is active, and the request expected another")))
        }
    }
}

/// Removes a version that is not active and that no run uses.
#[utoipa::path(delete, path = "/v1/workflows/{name}/versions/{version}", tag = "workflows",
    params(("name" = String, Path), ("version" = u64, Path)),
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn remove(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((name, number)): Segments<(String, u64)>,
) -> Answered<StatusCode> {
    service
        .with_store(move |service| {
            caller.check_workflow(&name)?;
            match service.remove_version(&name, number)? {
                Some(true) => service.note(&caller, "workflows.remove", &format!("{name}@{number}"), None)?,
                Some(false) => return Err(needed(service, &name, number)?),
                None => return Err(ServeProblem::unknown(format_args!("version {number} of `{name}`"))),
            }
            Ok(StatusCode::NO_CONTENT)
        })
        .await
}

/// The problem of a version that cannot be removed: what needs it.
fn needed(service: &Service, name: &str, number: u64) -> Answered<ServeProblem> {
    let problem = ServeProblem::new(ProblemKind::InUse);
    if service.active(name)?.is_some_and(|active| active.number == number) {
        return Ok(problem
            .detail(format!("version {number} of `{name}` is active: new runs get it"))
            .hint("activate another version first"));
    }
    Ok(problem
        .detail(format!("version {number} of `{name}` is that of runs"))
        .hint(format!("`GET /v1/runs?workflow={name}&version={number}` lists them; remove them first")))
}
