//! Components that versions name.

use crate::serve::access::Caller;
use crate::serve::body::{self, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Bytes of a component.
const COMPONENT_BYTES_MAX: usize = 64 << 20;

/// A component that is stored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Component)]
pub struct ComponentView {
    /// The BLAKE3 of its bytes, in hexadecimal.
    pub digest: String,
    /// The number of its bytes.
    pub bytes: u64,
}

/// Stores a component: its bytes are the body. It is kept while a version or a run names it, and a
/// day in any case.
#[utoipa::path(post, path = "/v1/components", tag = "workflows",
    request_body(content = serde_json::Value, content_type = "application/wasm"),
    responses((status = 201, body = ComponentView), (status = 200, body = ComponentView, description = "It was stored before"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn upload(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
) -> Answered<Response> {
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !["application/wasm", "application/octet-stream"].contains(&kind) {
        return Err(ServeProblem::new(ProblemKind::NotJson).detail("send it with `Content-Type: application/wasm`"));
    }
    let bytes = body::read(request, COMPONENT_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Err(ServeProblem::new(ProblemKind::DoesNotFit).detail("the body is empty"));
    }
    service
        .with_store(move |service| {
            let digest = blake3::hash(&bytes).to_hex().to_string();
            let is_new = !service.host.has_component(&digest);
            service.host.store_component(&digest, &bytes).map_err(|error| {
                tracing::error!(%error, "a component cannot be stored");
                ServeProblem::new(ProblemKind::DiskFull)
            })?;
            if is_new {
                service.note(&caller, "components.upload", &digest, None)?;
            }
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            let view = ComponentView { digest, bytes: bytes.len() as u64 };
            Ok((status, Json(view)).into_response())
        })
        .await
}

/// Shows whether a component is stored.
#[utoipa::path(get, path = "/v1/components/{digest}", tag = "workflows", params(("digest" = String, Path)),
    responses((status = 200, body = ComponentView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    _: Caller,
    Segments(digest): Segments<String>,
) -> Answered<Json<ComponentView>> {
    service
        .with_store(move |service| match service.host.component_bytes(&digest) {
            Some(bytes) => Ok(Json(ComponentView { digest, bytes })),
            None => Err(ServeProblem::unknown("component with this digest")),
        })
        .await
}
