//! Signing in: a session of a browser, opened with a token.

use crate::journal::catalog::StoredSession;
use crate::process::Timestamp;
use crate::run::system_time;
use crate::serve::access::guard::{COOKIE, cookie, unknown_credential};
use crate::serve::access::rate::Peer;
use crate::serve::access::token;
use crate::serve::body::JsonBody;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// How long a session lasts: 12 hours.
const LASTS_SECONDS: u64 = 12 * 3_600;

/// The token of whoever signs in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The token.
    pub token: String,
}

/// Opens a session: the answer sets a cookie that stands for the token.
#[utoipa::path(post, path = "/v1/login", tag = "server", request_body = SignIn,
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn open(
    State(service): State<Arc<Service>>,
    peer: Option<Extension<Peer>>,
    JsonBody(body): JsonBody<SignIn>,
) -> Answered<Response> {
    service
        .with_store(move |service| {
            let caller = service.tokens.caller(body.token.trim())?;
            let caller = caller.ok_or_else(|| unknown_credential(service, peer.map(|Extension(peer)| peer)))?;
            let secret = token::random_secret().map_err(|error| {
                tracing::error!(%error, "the system gives no random bits");
                ServeProblem::new(ProblemKind::HostFault)
            })?;
            let now = system_time();
            let expires = Timestamp(now.0 + LASTS_SECONDS * 1_000_000);
            let (hash, token) = (token::hash(&secret), caller.token().to_owned());
            service.store.add_session(&StoredSession { hash, token, expires }, now)?;
            service.note(&caller, "sessions.open", caller.token(), None)?;
            Ok(with_cookie(service, &secret, LASTS_SECONDS))
        })
        .await
}

/// Ends the session of the cookie.
#[utoipa::path(delete, path = "/v1/login", tag = "server",
    responses((status = 204),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn close(State(service): State<Arc<Service>>, headers: HeaderMap) -> Answered<Response> {
    let secret = cookie(&headers).map(str::to_owned);
    service
        .with_store(move |service| {
            if let Some(secret) = secret {
                service.store.end_session(&token::hash(&secret))?;
            }
            Ok(with_cookie(service, "", 0))
        })
        .await
}

fn with_cookie(service: &Service, secret: &str, lasts: u64) -> Response {
    let is_secure = service.options.addresses.public_url.as_deref().is_some_and(|url| url.starts_with("https://"));
    let (prefix, secure) = if is_secure { ("__Host-", "; Secure") } else { ("", "") };
    let text = format!("{prefix}{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts}{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
