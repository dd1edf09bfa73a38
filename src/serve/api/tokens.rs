//! Tokens.

use crate::journal::catalog::StoredToken;
use crate::process::Timestamp;
use crate::run::system_time;
use crate::serve::access::{Caller, Scope, token};
use crate::serve::body::{JsonBody, Segments};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::rfc3339;
use crate::serve::service::Service;
use crate::workflow::model::parse_duration;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenView {
    /// Names it.
    pub id: String,
    /// Whose it is.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// The workflows that it is for: names or patterns with `*`. None: all.
    pub workflows: Vec<String>,
    /// When it was made.
    pub created: String,
    /// From when on it is no longer valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// When it was last used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<String>,
    /// The token itself: only in the answer that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl From<StoredToken> for TokenView {
    fn from(stored: StoredToken) -> Self {
        Self {
            id: stored.id,
            name: stored.name,
            scopes: stored.scopes,
            workflows: stored.workflows,
            created: rfc3339(stored.created),
            expires: stored.expires.map(rfc3339),
            used: stored.used.map(rfc3339),
            revoked: stored.revoked.map(rfc3339),
            token: None,
        }
    }
}

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Whose it is: 1 to 100 characters.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it may be used for.
    #[schema(min_items = 1)]
    pub scopes: Vec<Scope>,
    /// The workflows that it is for: names or patterns with `*`. None: all.
    #[serde(default)]
    pub workflows: Vec<String>,
    /// How long it is valid, such as `30d`; for ever if it is not given.
    #[serde(default)]
    pub expires: Option<String>,
}

/// Lists the tokens.
#[utoipa::path(get, path = "/v1/tokens", tag = "server",
    responses((status = 200, body = Vec<TokenView>),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(State(service): State<Arc<Service>>, _: Caller) -> Answered<Json<Vec<TokenView>>> {
    service.with_store(|service| Ok(Json(service.store.tokens()?.into_iter().map(TokenView::from).collect()))).await
}

/// Makes a token. Its text is in this answer only.
#[utoipa::path(post, path = "/v1/tokens", tag = "server", request_body = CreateToken,
    responses((status = 201, body = TokenView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    JsonBody(body): JsonBody<CreateToken>,
) -> Answered<(StatusCode, Json<TokenView>)> {
    let wrong = |pointer: &str, why: &str| Err(ServeProblem::new(ProblemKind::DoesNotFit).part(pointer, why));
    if let Err(why) = token::check_name(&body.name) {
        return wrong("/name", why);
    }
    if body.scopes.is_empty() {
        return wrong("/scopes", "there is at least one");
    }
    if body.workflows.len() > 100 {
        return wrong("/workflows", "there are at most 100");
    }
    for (at, pattern) in body.workflows.iter().enumerate() {
        if let Err(why) = token::check_text(pattern) {
            return wrong(&format!("/workflows/{at}"), why);
        }
    }
    let expires = match body.expires.as_deref().map(parse_duration) {
        None => None,
        Some(Ok(lasts)) => Some(Timestamp(system_time().0.saturating_add(lasts.0).min(i64::MAX.cast_unsigned()))),
        Some(Err(why)) => return wrong("/expires", &why),
    };
    service
        .with_store(move |service| {
            let made = token::make(&body.name, &body.scopes, body.workflows, expires);
            let (text, stored) = made.map_err(|error| {
                tracing::error!(%error, "the system gives no random bits");
                ServeProblem::new(ProblemKind::HostFault)
            })?;
            service.store.add_token(&stored)?;
            service.note(&caller, "tokens.create", &stored.id, None)?;
            Ok((StatusCode::CREATED, Json(TokenView { token: Some(text), ..stored.into() })))
        })
        .await
}

/// Revokes a token, and ends its sessions.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "server", params(("id" = String, Path)),
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn revoke(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<StatusCode> {
    service
        .with_store(move |service| {
            if !service.store.revoke_token(&id, system_time())? {
                return Err(ServeProblem::unknown("token with this id"));
            }
            service.tokens.forget();
            service.note(&caller, "tokens.revoke", &id, None)?;
            Ok(StatusCode::NO_CONTENT)
        })
        .await
}
