//! Webhooks: what deliveries of others do.

use crate::journal::catalog::{Delivery, Expected, StoredWebhook};
use crate::serve::access::{Caller, Scope};
use crate::serve::body::{JsonBody, Params, Segments};
use crate::serve::hook::hooks::{API, CONFIG, mismatch};
use crate::serve::hook::spec::WebhookSpec;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::{self, rfc3339};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    /// Its name. Deliveries go to `/hooks/` and this.
    pub name: String,
    /// What it does.
    pub spec: WebhookSpec,
    /// Where it was described: `api`, or `config`, the server's configuration file.
    pub origin: String,
    /// Changes with each change, as the `ETag` does.
    pub revision: String,
    /// When it was made.
    pub created: String,
    /// When it was last changed.
    pub changed: String,
    /// Who changed it last.
    pub author: String,
}

impl WebhookView {
    fn of(stored: StoredWebhook) -> Answered<Self> {
        let StoredWebhook { webhook, revision, created, changed } = stored;
        let spec = serde_json::from_str(&webhook.spec).map_err(|error| {
            tracing::error!(webhook = &*webhook.name, %error, "a webhook cannot be read");
            ServeProblem::new(ProblemKind::HostFault)
        })?;
        Ok(Self {
            name: webhook.name.to_string(),
            spec,
            origin: webhook.origin.to_string(),
            revision: revision.to_string(),
            created: rfc3339(created),
            changed: rfc3339(changed),
            author: webhook.author.to_string(),
        })
    }

    fn answer(self, status: StatusCode) -> Response {
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.revision));
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        response
    }
}

/// Refuses a token that is not for what a webhook does.
fn check_right(caller: &Caller, spec: &WebhookSpec) -> Answered<()> {
    match &spec.starts {
        Some(workflow) => caller.check_workflow(workflow),
        None if caller.may_touch_all() => Ok(()),
        None => Err(ServeProblem::new(ProblemKind::NotGranted)
            .detail("a webhook that signals runs needs a token that is for all workflows")),
    }
}

/// The revision that `If-Match` and `If-None-Match` ask for.
fn expected(headers: &HeaderMap) -> Answered<Expected> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(Expected::Any),
        (None, Some("*")) => Ok(Expected::Absent),
        (Some(tag), None) => {
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            // A tag that is none of ours names no revision.
            Ok(Expected::Revision(number.unwrap_or(0)))
        }
        _ => Err(ServeProblem::new(ProblemKind::DoesNotFit)
            .detail("`If-Match` has an `ETag`, or `If-None-Match` has `*`; not both")),
    }
}

/// Lists the webhooks that the caller may see.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks",
    responses((status = 200, body = Vec<WebhookView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Answered<Json<Vec<WebhookView>>> {
    service
        .with_store(move |service| {
            let all = service.store.webhooks()?.into_iter().map(WebhookView::of).collect::<Answered<Vec<_>>>()?;
            Ok(Json(all.into_iter().filter(|webhook| check_right(&caller, &webhook.spec).is_ok()).collect()))
        })
        .await
}

/// Shows a webhook.
#[utoipa::path(get, path = "/v1/webhooks/{name}", tag = "webhooks", params(("name" = String, Path)),
    responses((status = 200, body = WebhookView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answered<Response> {
    service.with_store(move |service| Ok(found(service, &caller, &name)?.answer(StatusCode::OK))).await
}

fn found(service: &Service, caller: &Caller, name: &str) -> Answered<WebhookView> {
    let unknown = || ServeProblem::unknown(format_args!("webhook `{name}`"));
    let view = WebhookView::of(service.store.webhook(name)?.ok_or_else(unknown)?)?;
    if check_right(caller, &view.spec).is_ok() { Ok(view) } else { Err(unknown()) }
}

/// Refuses a change of what the configuration file has, or the caller may not touch.
fn check_change(service: &Service, caller: &Caller, name: &str) -> Answered<()> {
    if service.store.webhook(name)?.is_none() {
        return Ok(());
    }
    if found(service, caller, name)?.origin == CONFIG {
        return Err(ServeProblem::new(ProblemKind::InUse)
            .detail(format!("the webhook `{name}` is described in the server's configuration file")));
    }
    Ok(())
}

/// Writes a webhook: makes it, or replaces it.
///
/// Secrets are named by where they are, and must be readable. The same description again changes
/// nothing.
#[utoipa::path(put, path = "/v1/webhooks/{name}", tag = "webhooks",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "The `ETag` that is to be replaced"),
        ("If-None-Match" = Option<String>, Header, pattern = "^\\*$", description = "`*`: there must be none")),
    request_body = WebhookSpec,
    responses((status = 200, body = WebhookView, description = "It is changed, or was the same"),
        (status = 201, body = WebhookView, description = "It is new"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn put(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    headers: HeaderMap,
    JsonBody(spec): JsonBody<WebhookSpec>,
) -> Answered<Response> {
    let expected = expected(&headers)?;
    check_right(&caller, &spec)?;
    service
        .with_store(move |service| {
            check_change(service, &caller, &name)?;
            if let Some(workflow) = &spec.starts {
                let _ = service.deployed_for(workflow, "/starts")?;
            }
            let (stored, is_new) = service.put_hook(&name, spec, API, caller.name(), expected)?;
            service.note(&caller, "webhooks.put", &name, None)?;
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            Ok(WebhookView::of(stored)?.answer(status))
        })
        .await
}

/// Removes a webhook, with the list of its deliveries.
#[utoipa::path(delete, path = "/v1/webhooks/{name}", tag = "webhooks",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)),
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn remove(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    headers: HeaderMap,
) -> Answered<StatusCode> {
    let expected = expected(&headers)?;
    service
        .with_store(move |service| {
            check_change(service, &caller, &name)?;
            match service.store.remove_webhook(&name, expected)? {
                Ok(true) => {
                    service.note(&caller, "webhooks.remove", &name, None)?;
                    Ok(StatusCode::NO_CONTENT)
                }
                Ok(false) => Err(ServeProblem::unknown(format_args!("webhook `{name}`"))),
                Err(found) => Err(mismatch(found)),
            }
        })
        .await
}

/// Which deliveries are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DeliveryParams {
    /// Only those before this row.
    pub before: Option<u64>,
    /// Deliveries of a page: 1 to 1,000; 50 if it is not given.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// A delivery that came by a webhook. Its body is not stored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    /// Its place in the list: grows.
    pub row: u64,
    /// What the sender calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// When it came.
    pub at: String,
    /// `started`, `signalled`, `duplicate`, `filtered`, `refused`, `failed`, or `unlisted`: more
    /// came than are listed, and `reason` says how many.
    pub outcome: String,
    /// The run that it started or signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Lists the last deliveries of a webhook, the newest first.
#[utoipa::path(get, path = "/v1/webhooks/{name}/deliveries", tag = "webhooks",
    params(("name" = String, Path), DeliveryParams),
    responses((status = 200, body = Vec<DeliveryView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn deliveries(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Params(params): Params<DeliveryParams>,
) -> Answered<Json<Vec<DeliveryView>>> {
    let (limit, before) = (query::limit(params.limit)?, query::number("before", params.before)?);
    service
        .with_store(move |service| {
            found(service, &caller, &name)?;
            let may_quote = caller.has(Scope::RunsPayloads);
            service.hooks.deliveries.write();
            let deliveries = service.store.deliveries(&name, before, limit)?;
            let view = |(row, delivery): (u64, Delivery)| DeliveryView {
                row,
                id: delivery.id,
                at: rfc3339(delivery.at),
                outcome: delivery.outcome.to_string(),
                run: delivery.run.map(|run| run.to_string()),
                // It may quote what came.
                reason: delivery.reason.filter(|_| may_quote),
            };
            Ok(Json(deliveries.into_iter().map(view).collect()))
        })
        .await
}
