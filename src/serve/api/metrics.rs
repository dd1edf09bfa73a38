//! Metrics for Prometheus.

use crate::serve::access::Caller;
use crate::serve::metrics::Format;
use crate::serve::problem::{Answered, ServeProblem};
use crate::serve::service::Service;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;

/// Reads the metrics, in OpenMetrics 1.0 if `Accept` names it, else in the text format of
/// Prometheus. Needs a token that is for all workflows.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    caller: Caller,
    headers: HeaderMap,
) -> Answered<Response> {
    caller.check_all_workflows("the metrics")?;
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let text = service.with_store(move |service| Ok(service.metrics(format))).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}
