//! What the kinds of problems mean, and the API's own document.

use crate::serve::body::Segments;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use utoipa::ToSchema;

/// A kind of problem.
#[derive(Debug, Serialize, ToSchema)]
pub struct KindView {
    /// The word for it.
    pub kind: String,
    /// Its HTTP status.
    pub status: u16,
    /// What it is called.
    pub title: String,
    /// What it means, and what helps.
    pub meaning: String,
}

/// Explains a kind of problem.
#[utoipa::path(get, path = "/problems/{kind}", tag = "server", params(("kind" = String, Path)),
    responses((status = 200, body = KindView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn explain(Segments(word): Segments<String>) -> Answered<Json<KindView>> {
    let kind = ProblemKind::ALL.iter().find(|kind| kind.word() == word);
    let kind = kind.ok_or_else(|| ServeProblem::unknown("such kind of problem"))?;
    Ok(Json(KindView {
        kind: kind.word().to_owned(),
        status: kind.status().as_u16(),
        title: kind.title().to_owned(),
        meaning: kind.meaning().to_owned(),
    }))
}

/// The document of this API: OpenAPI 3.1.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", responses((status = 200, body = Object),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn document(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(serde_json::to_value(crate::serve::router::document(&service)).unwrap_or_default())
}
