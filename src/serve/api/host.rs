//! The server itself.

use crate::serve::access::Caller;
use crate::serve::body::Params;
use crate::serve::problem::{Answered, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// The server.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Host)]
pub struct HostView {
    /// The release of wfhost.
    pub release: String,
    /// The id of its operating system process. This and all counts are for tokens that are for all
    /// workflows: they tell of the runs of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What its workers did since it started, and have now: the counters of the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<BTreeMap<String, u64>>,
    /// The same of each worker: what it counts by itself; the others are 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<BTreeMap<String, u64>>>,
    /// Runs in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<usize>,
    /// Runs that wait and are not in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parked: Option<usize>,
    /// Whether it takes no new work.
    pub draining: bool,
    /// Whether the disk is full.
    pub disk_full: bool,
}

/// Shows the server.
#[utoipa::path(get, path = "/v1/host", tag = "server", responses((status = 200, body = HostView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(State(service): State<Arc<Service>>, caller: Caller) -> Answered<Json<HostView>> {
    let counts = caller.may_touch_all().then(|| service.host.run_counts());
    let host = counts.map(|_| &service.host);
    Ok(Json(HostView {
        release: env!("CARGO_PKG_VERSION").to_owned(),
        pid: counts.map(|_| std::process::id()),
        scheduler: host.map(|host| counters(host.stats())),
        workers: host.map(|host| host.worker_stats().into_iter().map(counters).collect()),
        resident: counts.map(|(resident, _)| resident),
        parked: counts.map(|(_, parked)| parked),
        draining: service.is_draining(),
        disk_full: service.host.is_full(),
    }))
}

/// The counters of a scheduler or a worker, by their names.
fn counters(stats: crate::scheduler::Stats) -> BTreeMap<String, u64> {
    serde_json::to_value(stats).and_then(serde_json::from_value).unwrap_or_default()
}

/// Stops the server: it takes no new work, ends its requests, and lets its runs go.
#[utoipa::path(post, path = "/v1/host/drain", tag = "server", responses((status = 202),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn drain(State(service): State<Arc<Service>>, caller: Caller) -> Answered<StatusCode> {
    service
        .with_store(move |service| {
            service.note(&caller, "host.drain", "", None)?;
            service.drain();
            Ok(StatusCode::ACCEPTED)
        })
        .await
}

/// Whether the server can do its work.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Readiness {
    /// Whether all of the following is as it should be.
    pub ready: bool,
    /// Whether it has resumed the runs that no process had.
    pub runs_resumed: bool,
    /// Whether the journal can be read.
    pub journal: bool,
    /// Whether the disk is full.
    pub disk_full: bool,
    /// Whether it takes no new work.
    pub draining: bool,
    /// Workflow files of the server's folder that cannot be used: their names. They do not keep it
    /// from being ready; the log of the server says what is wrong with them.
    pub faulty: Vec<String>,
}

/// Answers while the server lives.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn alive() -> &'static str {
    "ok\n"
}

/// Says whether the server can do its work.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, body = Readiness), (status = 503, body = Readiness),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn ready(State(service): State<Arc<Service>>) -> Response {
    let journal = service.with_store(|service| Ok(service.store.run("").is_ok())).await.unwrap_or(false);
    let mut readiness = Readiness {
        ready: false,
        runs_resumed: service.is_ready(),
        journal,
        disk_full: service.host.is_full(),
        draining: service.is_draining(),
        faulty: service.faulty(),
    };
    readiness.ready = readiness.runs_resumed && journal && !readiness.disk_full && !readiness.draining;
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

/// Which acts are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
    /// Only those on this, such as the id of a run.
    pub target: Option<String>,
    /// Only those before this row.
    pub before: Option<u64>,
    /// Acts of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// An act that somebody did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct AuditView {
    /// Its place in the list: grows.
    pub row: u64,
    /// When.
    pub at: String,
    /// The id of the token.
    pub token: String,
    /// Whose token it was.
    pub name: String,
    /// What was done.
    pub act: String,
    /// To what.
    pub target: String,
}

/// Lists who did what, the newest first.
#[utoipa::path(get, path = "/v1/audit", tag = "server", params(AuditParams),
    responses((status = 200, body = Vec<AuditView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn audit(
    State(service): State<Arc<Service>>,
    _: Caller,
    Params(params): Params<AuditParams>,
) -> Answered<Json<Vec<AuditView>>> {
    let limit = query::limit(params.limit)?;
    let before = query::number("before", params.before)?;
    service
        .with_store(move |service| {
            let acts = service.store.acts(params.target.as_deref(), before, limit)?;
            let view = acts.into_iter().map(|entry| AuditView {
                row: entry.row,
                at: rfc3339(entry.at),
                token: entry.token,
                name: entry.name,
                act: entry.act,
                target: entry.target,
            });
            Ok(Json(view.collect()))
        })
        .await
}
