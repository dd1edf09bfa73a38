//! What happened in a run: its records, its log, the values that it exposes.

use crate::process::{Payload, Pid};
use crate::serve::access::Caller;
use crate::serve::body::{Params, Segments};
use crate::serve::feed::Style;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query;
use crate::serve::service::Service;
use crate::serve::shown::{Shown, Wanted};
use crate::serve::{changes, feed};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Which records are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RangeParams {
    /// The number of the first one, from 1.
    #[param(minimum = 1)]
    pub from: Option<u64>,
    /// The number of the last one.
    #[param(minimum = 1)]
    pub to: Option<u64>,
    /// Only those about this process.
    pub pid: Option<u64>,
    /// Only these kinds: `started`, `stepped`, `died`, `arrived`, `leaving`, separated by commas.
    #[param(pattern = "^(started|stepped|died|arrived|leaving)(,(started|stepped|died|arrived|leaving))*$")]
    pub kind: Option<String>,
    /// Only those with this text, in whatever case: 1 to 200 characters.
    #[param(min_length = 1, max_length = 200)]
    pub q: Option<String>,
    /// Records of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// Shows each as `number` and `record`: its bytes in the journal, in base64, for programs that
    /// have this crate. Not with `q`.
    pub encoded: bool,
}

impl RangeParams {
    fn wanted(&self) -> Answered<Wanted> {
        let Self { from, to, pid, kind, q, encoded, .. } = self;
        if *encoded && q.is_some() {
            return Err(query::unfit("q", "bytes have no text to look for"));
        }
        let (from, pid) = (from.unwrap_or(1), pid.map(Pid));
        Wanted { from, to: *to, pid, kinds: kind.clone(), text: q.clone(), encoded: *encoded }.checked(false)
    }
}

/// Which lines are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct LogParams {
    /// The number of the first record whose lines are shown, from 1.
    #[param(minimum = 1)]
    pub from: Option<u64>,
    /// The number of the last one.
    #[param(minimum = 1)]
    pub to: Option<u64>,
    /// Only those of this process.
    pub pid: Option<u64>,
    /// Only these levels: `trace`, `debug`, `info`, `warn`, `error`, separated by commas.
    #[param(pattern = "^(trace|debug|info|warn|error)(,(trace|debug|info|warn|error))*$")]
    pub kind: Option<String>,
    /// Only those with this text, in whatever case: 1 to 200 characters.
    #[param(min_length = 1, max_length = 200)]
    pub q: Option<String>,
    /// Records of a page that have lines: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl LogParams {
    fn wanted(&self) -> Answered<Wanted> {
        let Self { from, to, pid, kind, q, .. } = self;
        let (from, pid) = (from.unwrap_or(1), pid.map(Pid));
        Wanted { from, to: *to, pid, kinds: kind.clone(), text: q.clone(), encoded: false }.checked(true)
    }
}

/// How an answer is written, as `Accept` asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Page,
    Lines,
    Events,
}

impl Format {
    fn of(headers: &HeaderMap) -> Self {
        let accept = headers.get_all("accept").iter().filter_map(|accept| accept.to_str().ok());
        let mut kinds = accept.flat_map(|accept| accept.split(',')).map(|kind| {
            let essence = kind.split(';').next().unwrap_or_default();
            essence.trim().to_ascii_lowercase()
        });
        let known = kinds.find_map(|kind| match kind.as_str() {
            "text/event-stream" => Some(Self::Events),
            "application/x-ndjson" | "application/jsonl" | "application/ndjson" => Some(Self::Lines),
            "application/json" | "application/*" | "*/*" => Some(Self::Page),
            _ => None,
        });
        known.unwrap_or(Self::Page)
    }
}

/// An event of a stream.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamEvent {
    /// What it tells.
    pub event: String,
    /// JSON.
    pub data: String,
    /// The place in the stream, for `Last-Event-ID`.
    pub id: Option<String>,
    /// After how many milliseconds a reader that lost its connection comes back.
    pub retry: Option<u32>,
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
///
/// By `Accept` a page of JSON; `application/x-ndjson`: all that fit, one in each line (a last line
/// with `problem` if they cannot be read to the end); `text/event-stream`: as
/// `/v1/runs/{id}/events`. A page looks through at most 100,000 records: it may have fewer than
/// `limit`, and a `next`.
#[utoipa::path(get, path = "/v1/runs/{id}/history", tag = "events",
    params(("id" = String, Path), RangeParams, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content(
            (RecordPage = "application/json"), (String = "application/x-ndjson"), (String = "text/event-stream"))),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn history(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<RangeParams>,
    headers: HeaderMap,
) -> Answered<Response> {
    let wanted = params.wanted()?;
    let limit = query::limit(params.limit)? as usize;
    match Format::of(&headers) {
        Format::Page => {
            let page = service.with_store(move |service| {
                service.run_for(&caller, &id)?;
                service.record_page(&id, wanted, limit)
            });
            Ok(json_body(page.await?))
        }
        Format::Lines => streamed(service, caller, id, Shown::records(wanted), Style::Lines).await,
        Format::Events => {
            let from = after(&headers, wanted.from)?;
            let shown = Shown::records(Wanted { from, ..wanted });
            streamed(service, caller, id, shown, Style::Events("record")).await
        }
    }
}

fn json_body(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The number of the first record of a stream: after the one that a reader has seen.
fn after(headers: &HeaderMap, from: u64) -> Answered<u64> {
    let Some(last) = headers.get("last-event-id") else { return Ok(from) };
    let last = last.to_str().ok().and_then(|last| last.parse::<u64>().ok());
    let malformed = || ServeProblem::new(ProblemKind::DoesNotFit).part("Last-Event-ID", "it is the number of a record");
    Ok(last.ok_or_else(malformed)?.saturating_add(1).max(from))
}

/// Streams what is shown of a run that the caller may see.
async fn streamed(service: Arc<Service>, caller: Caller, id: String, shown: Shown, style: Style) -> Answered<Response> {
    let permit = Arc::clone(&service.streams)
        .try_acquire_owned()
        .map_err(|_| ServeProblem::new(ProblemKind::TooManyWaits).retry_after(5))?;
    let run = id.clone();
    let asks = caller.clone();
    service.with_store(move |service| service.run_for(&asks, &run)).await?;
    Ok(feed::stream(service, id, shown, style, (caller, permit)))
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
///
/// By `Accept` as for the records; `text/event-stream` follows the log until the run has ended: its
/// events are `line`, and their ids the numbers of records.
#[utoipa::path(get, path = "/v1/runs/{id}/logs", tag = "events",
    params(("id" = String, Path), LogParams, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content(
            (LinePage = "application/json"), (String = "application/x-ndjson"), (String = "text/event-stream"))),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn logs(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<LogParams>,
    headers: HeaderMap,
) -> Answered<Response> {
    let wanted = params.wanted()?;
    let limit = query::limit(params.limit)? as usize;
    match Format::of(&headers) {
        Format::Page => {
            let page = service.with_store(move |service| {
                service.run_for(&caller, &id)?;
                service.line_page(&id, wanted, limit)
            });
            Ok(json_body(page.await?))
        }
        Format::Lines => streamed(service, caller, id, Shown::lines(wanted), Style::Lines).await,
        Format::Events => {
            let from = after(&headers, wanted.from)?;
            let shown = Shown::lines(Wanted { from, ..wanted });
            streamed(service, caller, id, shown, Style::Events("line")).await
        }
    }
}

/// Streams the records of a run as Server-Sent Events, until it has ended.
///
/// The id of an event is the number of its record; a reader that comes back with `Last-Event-ID`
/// misses nothing. Only durable records are sent. Events: `record`, `end`, `drain`, `problem`.
#[utoipa::path(get, path = "/v1/runs/{id}/events", tag = "events",
    params(("id" = String, Path), RangeParams, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = StreamEvent),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(params): Params<RangeParams>,
    headers: HeaderMap,
) -> Answered<Response> {
    let wanted = params.wanted()?;
    let from = after(&headers, wanted.from)?;
    let shown = Shown::records(Wanted { from, ..wanted });
    streamed(service, caller, id, shown, Style::Events("record")).await
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
    responses((status = 200, content_type = "text/event-stream", body = StreamEvent),
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
