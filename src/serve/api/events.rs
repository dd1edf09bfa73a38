//! What happened in a run: its records, its log, the values that it exposes.

use crate::host::record_json;
use crate::process::Payload;
use crate::serve::access::Caller;
use crate::serve::body::{Params, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::Service;
use crate::serve::{changes, feed};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which records are read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RangeParams {
    /// The number of the first one, from 1.
    #[param(minimum = 1)]
    pub from: Option<u64>,
    /// Records of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// A page of records.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordPage {
    /// The records, as `wfhost history --json` prints them.
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<Value>,
    /// The `from` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Shows the records of a run.
#[utoipa::path(get, path = "/v1/runs/{id}/history", tag = "events", params(("id" = String, Path), RangeParams),
    responses((status = 200, body = RecordPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn history(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<RangeParams>,
) -> Answered<Json<RecordPage>> {
    let limit = query::limit(params.limit)? as usize;
    let from = params.from.unwrap_or(1).max(1);
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let mut records = service.records(&id, from, limit + 1)?;
            let next = (records.len() > limit).then_some(from + limit as u64);
            records.truncate(limit);
            let numbered = records.iter().zip(from..);
            let records = numbered
                .map(|(record, number)| record_json::record(usize::try_from(number).unwrap_or(usize::MAX), record))
                .collect();
            Ok(Json(RecordPage { records, next }))
        })
        .await
}

/// A line of a run's log.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineView {
    /// When it was written.
    pub at: String,
    /// The process that wrote it.
    pub pid: u64,
    /// The step that it belongs to, with the number of its item.
    pub step: String,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The text.
    pub text: String,
    /// More, as the guest wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub fields: Option<Value>,
    /// The number of its record.
    pub record: u64,
}

/// A page of a run's log.
#[derive(Debug, Serialize, ToSchema)]
pub struct LinePage {
    /// The lines.
    pub lines: Vec<LineView>,
    /// The `from` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Shows the log of a run: the lines of at most `limit` records that have some.
#[utoipa::path(get, path = "/v1/runs/{id}/logs", tag = "events", params(("id" = String, Path), RangeParams),
    responses((status = 200, body = LinePage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn logs(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<RangeParams>,
) -> Answered<Json<LinePage>> {
    let limit = query::limit(params.limit)? as usize;
    let from = params.from.unwrap_or(1).max(1);
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let mut projection = crate::host::RunProjection::default();
            let (mut lines, mut next, mut count) = (Vec::new(), None, 0);
            // Lines are named after the steps that came before them.
            for (record, number) in service.records(&id, 1, usize::MAX)?.iter().zip(1..) {
                let before = lines.len();
                projection.apply(record, &mut |line| {
                    if number >= from && count < limit && line.progress().is_none() {
                        lines.push(view(line, number));
                    }
                });
                if lines.len() > before {
                    count += 1;
                    if count == limit {
                        next = Some(number + 1);
                    }
                }
            }
            Ok(Json(LinePage { lines, next }))
        })
        .await
}

fn view(line: crate::host::Line, record: u64) -> LineView {
    LineView {
        at: query::rfc3339(line.at),
        pid: line.pid.0,
        step: line.process,
        level: json!(line.line.level).as_str().unwrap_or_default().to_owned(),
        text: line.line.text,
        fields: line.line.fields.map(|fields| fields.to_value()),
        record,
    }
}

/// Streams the records of a run as Server-Sent Events, until it has ended.
///
/// The id of an event is the number of its record; a reader that comes back with `Last-Event-ID`
/// misses nothing. Only durable records are sent. Events: `record`, `end`, `drain`, `problem`.
#[utoipa::path(get, path = "/v1/runs/{id}/events", tag = "events",
    params(("id" = String, Path), RangeParams, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<RangeParams>,
    headers: HeaderMap,
) -> Answered<Response> {
    let last = match headers.get("last-event-id") {
        None => None,
        Some(last) => Some(last.to_str().ok().and_then(|last| last.parse::<u64>().ok()).ok_or_else(|| {
            ServeProblem::new(ProblemKind::Malformed).part("Last-Event-ID", "it is the number of a record")
        })?),
    };
    let from = last.map_or(params.from.unwrap_or(1), |last| last.saturating_add(1));
    let permit = Arc::clone(&service.streams)
        .try_acquire_owned()
        .map_err(|_| ServeProblem::new(ProblemKind::TooManyWaits).retry_after(5))?;
    let run = id.clone();
    service.with_store(move |service| service.run_for(&caller, &run)).await?;
    Ok(feed::records(service, id, from, permit))
}

/// Which runs are followed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct FollowParams {
    /// The name of the workflow.
    pub workflow: Option<String>,
}

/// Streams changes of state of all runs of this server that the token may see, as Server-Sent
/// Events.
///
/// Events: `open`, where the stream begins; `run` with `run`, `workflow`, `state` (as in a list of
/// runs, or `removed`), `created` and `ended`; `resync`: changes are missing, so the list of runs
/// is to be asked for again; `drain`. Connect first, then ask for the list. A reader that comes
/// back with `Last-Event-ID` goes on there if the server still has what came after: the last 65,536
/// changes, for a minute after the last reader has gone. Runs that another process of the data
/// folder executes are not in it.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(FollowParams, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn all(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<FollowParams>,
    headers: HeaderMap,
) -> Answered<Response> {
    let last = headers.get("last-event-id").map(|last| last.to_str().unwrap_or_default().to_owned());
    let permit = Arc::clone(&service.streams)
        .try_acquire_owned()
        .map_err(|_| ServeProblem::new(ProblemKind::TooManyWaits).retry_after(5))?;
    Ok(changes::stream(service, caller, params.workflow, last, permit))
}

/// The names of the values that a run exposes.
#[utoipa::path(get, path = "/v1/runs/{id}/queries", tag = "events", params(("id" = String, Path)),
    responses((status = 200, body = Vec<String>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn queries(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<Json<Vec<String>>> {
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let projection = service.projection(&id)?;
            Ok(Json(projection.state().exposed().map(|(name, _)| name.to_string()).collect()))
        })
        .await
}

/// The value that a run last exposed under a name.
#[utoipa::path(get, path = "/v1/runs/{id}/queries/{name}", tag = "events",
    params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Value),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn query(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, name)): Segments<(String, String)>,
) -> Answered<Json<Value>> {
    service
        .with_store(move |service| {
            service.run_for(&caller, &id)?;
            let projection = service.projection(&id)?;
            let value =
                projection.state().exposed().find(|(other, _)| ***other == *name).map(|(_, value)| value.clone());
            match value {
                Some(Payload::Json(json)) => Ok(Json(json.to_value())),
                Some(_) => Err(ServeProblem::new(ProblemKind::DoesNotFit).detail("the value is bytes, and no JSON")),
                None => Err(ServeProblem::unknown(format_args!("value `{name}`"))),
            }
        })
        .await
}
