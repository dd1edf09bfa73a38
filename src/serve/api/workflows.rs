//! Deployed workflows.

use crate::journal::catalog::Version;
use crate::serve::access::Caller;
use crate::serve::body::Segments;
use crate::serve::problem::{Answered, ServeProblem};
use crate::serve::query::rfc3339;
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// A workflow, as lists show it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Workflow)]
pub struct WorkflowView {
    /// Its name.
    pub name: String,
    /// The number of its active version, if it has one: new runs get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<u64>,
}

/// A version of a workflow.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Version)]
pub struct VersionView {
    /// The name of the workflow.
    pub name: String,
    /// Its number among the versions of the workflow, from 1.
    pub version: u64,
    /// Whether new runs get it.
    pub active: bool,
    /// The BLAKE3 of its file's name, its text and its components.
    pub digest: String,
    /// The name of the file.
    pub file: String,
    /// The components that the text names, with the BLAKE3 of their bytes.
    pub components: BTreeMap<String, String>,
    /// When it was deployed.
    pub created: String,
    /// Who deployed it.
    pub author: String,
    /// What they said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A version with what it does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = VersionDetail)]
pub struct VersionDetail {
    /// As lists show it.
    #[serde(flatten)]
    pub version: VersionView,
    /// The text of the file.
    pub source: String,
    /// The plan, as `wfhost plan --json` prints it: inputs, components, steps, outputs.
    #[schema(value_type = Object)]
    pub plan: Value,
    /// The graph: nodes and edges.
    #[schema(value_type = Object)]
    pub graph: Value,
}

impl VersionView {
    pub(in crate::serve) fn of(version: &Version, is_active: bool) -> Self {
        Self {
            name: version.name.clone(),
            version: version.number,
            active: is_active,
            digest: version.digest.clone(),
            file: version.file.clone(),
            components: serde_json::from_str(&version.components).unwrap_or_default(),
            created: rfc3339(version.created),
            author: version.author.clone(),
            note: version.note.clone(),
        }
    }
}

/// The number of the active version of a workflow.
pub(in crate::serve) fn active(service: &Service, name: &str) -> Answered<Option<u64>> {
    let versions = service.store.active_versions()?;
    Ok(versions.into_iter().find(|version| version.name == name).map(|version| version.number))
}

/// Lists the deployed workflows.
#[utoipa::path(get, path = "/v1/workflows", tag = "workflows",
    responses((status = 200, body = Vec<WorkflowView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Answered<Json<Vec<WorkflowView>>> {
    service
        .with_store(move |service| {
            let active: BTreeMap<String, u64> =
                service.store.active_versions()?.into_iter().map(|version| (version.name, version.number)).collect();
            let names = service.store.workflow_names()?.into_iter().filter(|name| caller.may_touch(name));
            Ok(Json(names.map(|name| WorkflowView { active: active.get(&name).copied(), name }).collect()))
        })
        .await
}

/// Shows the active version of a workflow.
#[utoipa::path(get, path = "/v1/workflows/{name}", tag = "workflows", params(("name" = String, Path)),
    responses((status = 200, body = VersionDetail),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Json<VersionDetail>> {
    service
        .with_store(move |service| {
            seen(&caller, &name)?;
            detail(service, &name, None).map(Json)
        })
        .await
}

/// Lists the versions of a workflow, the newest first.
#[utoipa::path(get, path = "/v1/workflows/{name}/versions", tag = "workflows", params(("name" = String, Path)),
    responses((status = 200, body = Vec<VersionView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn versions(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Json<Vec<VersionView>>> {
    service
        .with_store(move |service| {
            seen(&caller, &name)?;
            let active = active(service, &name)?;
            let versions = service.store.versions(&name)?;
            if versions.is_empty() {
                return Err(ServeProblem::unknown(format_args!("workflow `{name}`")));
            }
            let view = |version: &Version| VersionView::of(version, active == Some(version.number));
            Ok(Json(versions.iter().map(view).collect()))
        })
        .await
}

/// Shows a version of a workflow.
#[utoipa::path(get, path = "/v1/workflows/{name}/versions/{version}", tag = "workflows",
    params(("name" = String, Path), ("version" = u64, Path)),
    responses((status = 200, body = VersionDetail),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn version(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((name, number)): Segments<(String, u64)>,
) -> Answered<Json<VersionDetail>> {
    service
        .with_store(move |service| {
            seen(&caller, &name)?;
            detail(service, &name, Some(number)).map(Json)
        })
        .await
}

/// Hides a workflow from a token that is not for it.
fn seen(caller: &Caller, name: &str) -> Answered<()> {
    if caller.may_touch(name) { Ok(()) } else { Err(ServeProblem::unknown(format_args!("workflow `{name}`"))) }
}

fn detail(service: &Service, name: &str, number: Option<u64>) -> Answered<VersionDetail> {
    let deployed = service.deployed(name, number)?;
    let is_active = active(service, name)? == Some(deployed.version.number);
    let plan = deployed.workflow.plan();
    Ok(VersionDetail {
        version: VersionView::of(&deployed.version, is_active),
        source: deployed.version.source.clone(),
        plan: plan.view(),
        graph: plan.graph_view(),
    })
}
