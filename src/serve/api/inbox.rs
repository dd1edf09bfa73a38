//! The inbox: what waits for a person, over all runs.

use crate::journal::catalog::{InboxFilter, InboxPlace, WaitingRun};
use crate::process::{Json as JsonText, Timestamp};
use crate::run::{AwaitedKind, system_time};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::Params;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use crate::workflow::model::parse_duration;
use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// What of the inbox is listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct InboxParams {
    /// `signal` or `uncertain`; both if it is not given.
    pub kind: Option<String>,
    /// The name of the signal.
    pub name: Option<String>,
    /// Only what has waited for so long, such as `1h`.
    pub older_than: Option<String>,
    /// Items of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// Something that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct InboxItem {
    /// The run that waits.
    pub run: String,
    /// The name of its workflow.
    pub workflow: String,
    /// `signal`: it waits for a signal. `uncertain`: it waits until somebody settles a call whose
    /// outcome is unknown.
    pub kind: String,
    /// The name of the signal. `POST /v1/runs/{run}/signals/{name}` sends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Since when it waits.
    pub since: String,
    /// What a person is shown. Without the scope `runs:payloads` it is left out, as `text` and
    /// `schema` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The same in more words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON Schema of the signal's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The process that made the call. `POST /v1/runs/{run}/uncertain/{pid}/{call}` settles it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The handler that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The idempotency key of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A page of the inbox, the longest wait first.
#[derive(Debug, Serialize, ToSchema)]
pub struct InboxPage {
    /// What waits.
    pub items: Vec<InboxItem>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl InboxItem {
    fn of(waiting: &WaitingRun, with_payloads: bool) -> Self {
        let awaited = &waiting.awaited;
        let detail = awaited.detail.as_ref().map(JsonText::to_value).unwrap_or_default();
        let text = |key: &str| detail.get(key).and_then(Value::as_str).map(str::to_owned);
        let shown = |key: &str| text(key).filter(|_| with_payloads);
        let call = awaited.name.split_once('/').filter(|_| awaited.kind == AwaitedKind::Uncertain);
        Self {
            run: waiting.run.to_string(),
            workflow: waiting.workflow.to_string(),
            kind: awaited.kind.name().to_owned(),
            name: (awaited.kind == AwaitedKind::Signal).then(|| awaited.name.to_string()),
            since: rfc3339(awaited.since),
            title: shown("title"),
            text: shown("text"),
            schema: detail.get("schema").filter(|_| with_payloads).cloned(),
            pid: call.and_then(|(pid, _)| pid.parse().ok()),
            call: call.and_then(|(_, call)| call.parse().ok()),
            handler: text("handler"),
            key: text("key"),
        }
    }
}

/// Lists what waits for a person, the longest wait first.
#[utoipa::path(get, path = "/v1/inbox", tag = "inbox", params(InboxParams),
    responses((status = 200, body = InboxPage),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Params(params): Params<InboxParams>,
) -> Answered<Json<InboxPage>> {
    let limit = query::limit(params.limit)?;
    let filter = InboxFilter {
        run: None,
        kind: kind(params.kind.as_deref())?,
        name: params.name,
        since_before: older_than(params.older_than.as_deref())?,
        after: params.cursor.as_deref().map(place).transpose()?,
        limit: Some(limit + 1),
    };
    service
        .with_store(move |service| {
            let found = service.host.inbox(&filter, &|workflow| caller.may_touch(workflow)).map_err(|error| {
                tracing::error!(%error, "the inbox cannot be read");
                ServeProblem::new(ProblemKind::JournalFailed).retry_after(5)
            })?;
            let with_payloads = caller.has(Scope::RunsPayloads);
            let page = &found[..found.len().min(limit as usize)];
            let next = page.last().filter(|_| found.len() > page.len()).map(|last| cursor(&last.place()));
            let items = page.iter().map(|waiting| InboxItem::of(waiting, with_payloads)).collect();
            Ok(Json(InboxPage { items, next }))
        })
        .await
}

fn kind(text: Option<&str>) -> Answered<Option<AwaitedKind>> {
    let wrong = || ServeProblem::new(ProblemKind::DoesNotFit).part("kind", "it is `signal` or `uncertain`");
    text.map(|text| AwaitedKind::named(text).ok_or_else(wrong)).transpose()
}

fn older_than(text: Option<&str>) -> Answered<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |why: String| ServeProblem::new(ProblemKind::DoesNotFit).part("older-than", why);
    let age = parse_duration(text).map_err(wrong)?;
    Ok(Some(Timestamp(system_time().0.saturating_sub(age.0))))
}

fn cursor(place: &InboxPlace) -> String {
    let InboxPlace { since, run, kind, name } = place;
    URL_SAFE_NO_PAD.encode(serde_json::json!([since.0, run, kind.name(), name]).to_string())
}

fn place(cursor: &str) -> Answered<InboxPlace> {
    let read = || {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (since, run, kind, name): (u64, String, String, String) = serde_json::from_slice(&bytes).ok()?;
        let since = Timestamp(since.min(i64::MAX.cast_unsigned()));
        Some(InboxPlace { since, run: run.into(), kind: AwaitedKind::named(&kind)?, name: name.into() })
    };
    read().ok_or_else(|| ServeProblem::new(ProblemKind::DoesNotFit).part("cursor", "no page has given it"))
}
