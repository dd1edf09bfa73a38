//! Approval links: making them, their page, and the answer.

use super::acts::{act_problem, check_signal};
use crate::journal::catalog::{InboxFilter, Link};
use crate::process::{Json as JsonText, Micros, Payload, Timestamp};
use crate::run::{Act, AwaitedKind, system_time};
use crate::serve::access::Caller;
use crate::serve::body::{self, JsonBody, Segments};
use crate::serve::hook::link::{Choice, LinkDetail, LinkSecret, LinkState, act_id, hash_of, state_of};
use crate::serve::hook::page::{self, Page};
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::query::rfc3339;
use crate::serve::service::Service;
use crate::workflow::model::parse_duration;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// How long a link lasts, unless the request says otherwise, and at most: three days, and ninety.
const LASTS: (Micros, Micros) = (Micros(3 * 86_400_000_000), Micros(90 * 86_400_000_000));

/// How long a link is known after it has ended, so that its page says why: a week.
const KNOWN: u64 = 7 * 86_400_000_000;

/// Bytes of the form of a page. Derived: a comment of 4,000 characters, encoded.
const FORM_BYTES_MAX: usize = 64 << 10;

/// A link to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NewLink {
    /// The name of the signal that it sends.
    #[schema(min_length = 1, max_length = 1024)]
    pub signal: String,
    /// How long it lasts, such as `24h`: three days if it is not given, ninety at most.
    #[serde(default)]
    pub expires_in: Option<String>,
    /// What is asked, in at most 200 characters; that of the wait if it is not given.
    #[serde(default)]
    pub title: Option<String>,
    /// The same in at most 4,000 characters; that of the wait if it is not given.
    #[serde(default)]
    pub text: Option<String>,
    /// The buttons, at most 8. Without them: *Approve* sends `{"approved": true}`, *Reject* sends
    /// `{"approved": false}`.
    #[serde(default)]
    pub choices: Vec<Choice>,
}

/// A link that was made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkView {
    /// The path of its page. It is in this answer only: whoever has it can answer.
    pub path: String,
    /// The whole address, if the server knows its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The run.
    pub run: String,
    /// The name of the signal.
    pub signal: String,
    /// When it ends.
    pub expires: String,
}

/// Makes an approval link: whoever opens it can send one signal to the run, once.
#[utoipa::path(post, path = "/v1/runs/{id}/links", tag = "inbox", params(("id" = String, Path)), request_body = NewLink,
    responses((status = 201, body = LinkView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
    JsonBody(new): JsonBody<NewLink>,
) -> Answered<(StatusCode, Json<LinkView>)> {
    let NewLink { signal, expires_in, title, text, choices } = new;
    let mut wrong = ServeProblem::new(ProblemKind::DoesNotFit);
    if let Err(problem) = check_signal("/signal", &signal) {
        wrong.errors = problem.errors;
    }
    let lasts = match expires_in.as_deref().map(parse_duration) {
        None => LASTS.0,
        Some(Ok(lasts)) if lasts.0 > 0 && lasts <= LASTS.1 => lasts,
        Some(Ok(_)) => {
            wrong = wrong.part("/expires-in", "a link lasts at most 90 days");
            LASTS.0
        }
        Some(Err(why)) => {
            wrong = wrong.part("/expires-in", why);
            LASTS.0
        }
    };
    let detail = LinkDetail { title, text, choices };
    for (pointer, message) in detail.faults() {
        wrong = wrong.part(pointer, message);
    }
    if !wrong.errors.is_empty() {
        return Err(wrong);
    }
    service.with_store(move |service| make(service, &caller, &id, &signal, lasts, detail)).await
}

fn make(
    service: &Service,
    caller: &Caller,
    id: &str,
    signal: &str,
    lasts: Micros,
    detail: LinkDetail,
) -> Answered<(StatusCode, Json<LinkView>)> {
    let stored = service.run_for(caller, id)?;
    if stored.status.is_some() {
        return Err(ServeProblem::ended(id));
    }
    let detail = detail.or_of_wait(prompt(service, id, signal).as_ref());
    let secret = LinkSecret::random().map_err(|error| {
        tracing::error!(%error, "the system gives no random bits");
        ServeProblem::new(ProblemKind::HostFault)
    })?;
    let now = system_time();
    let expires = Timestamp(now.0.saturating_add(lasts.0));
    let shown = serde_json::to_string(&detail).expect("invariant: what a link shows can be written as JSON");
    let link = Link {
        hash: secret.hash,
        run: id.into(),
        signal: signal.into(),
        detail: Some(shown.into()),
        created: now,
        author: caller.name().into(),
        expires,
        used: None,
    };
    service.store.add_link(&link, Timestamp(now.0.saturating_sub(KNOWN)))?;
    service.note(caller, "runs.link", id, Some(serde_json::json!({ "signal": signal }).to_string()))?;
    let path = format!("/a/{}", secret.text);
    let url = service.options.addresses.public_url.as_deref();
    let url = url.map(|url| format!("{}{path}", url.trim_end_matches('/')));
    let (run, signal) = (id.to_owned(), signal.to_owned());
    Ok((StatusCode::CREATED, Json(LinkView { path, url, run, signal, expires: rfc3339(expires) })))
}

/// What the wait for a signal shows, if the run waits for it now.
fn prompt(service: &Service, run: &str, signal: &str) -> Option<JsonText> {
    let (run, kind, name) = (Some(run.into()), Some(AwaitedKind::Signal), Some(signal.to_owned()));
    let filter = InboxFilter { run, kind, name, ..InboxFilter::default() };
    // A link can be made before the run waits.
    let waiting = service.host.inbox(&filter, &|_| true).unwrap_or_default();
    waiting.into_iter().find_map(|waiting| waiting.awaited.detail)
}

/// The page of an approval link. It changes nothing.
#[utoipa::path(get, path = "/a/{secret}", tag = "inbox", params(("secret" = String, Path)),
    responses((status = 200, body = String, content_type = "text/html"),
        (status = "4XX", body = String, content_type = "text/html"),
        (status = "5XX", body = String, content_type = "text/html")))]
pub(in crate::serve) async fn show(
    State(service): State<Arc<Service>>,
    Segments(secret): Segments<String>,
) -> Response {
    let shown = service.with_store(move |service| {
        let Some((link, detail, workflow)) = found(service, &secret)? else { return Ok(unknown()) };
        Ok(shown(&link, &detail, &workflow, system_time()))
    });
    shown.await.unwrap_or_else(|problem| failed(&problem))
}

/// The answer to an approval link: the form of its page.
#[utoipa::path(post, path = "/a/{secret}", tag = "inbox", params(("secret" = String, Path)),
    request_body(content = String, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, body = String, content_type = "text/html"),
        (status = "4XX", body = String, content_type = "text/html"),
        (status = "5XX", body = String, content_type = "text/html")))]
pub(in crate::serve) async fn answer(
    State(service): State<Arc<Service>>,
    Segments(secret): Segments<String>,
    request: Request,
) -> Response {
    let form = match body::read(request, FORM_BYTES_MAX).await {
        Ok(form) => form,
        Err(problem) => return failed(&problem),
    };
    let answered = service.with_store(move |service| decide(service, &secret, &form));
    answered.await.unwrap_or_else(|problem| failed(&problem))
}

fn decide(service: &Service, secret: &str, form: &[u8]) -> Answered<Response> {
    let Some((link, detail, workflow)) = found(service, secret)? else { return Ok(unknown()) };
    let now = system_time();
    if state_of(&link, now) != LinkState::Open {
        return Ok(shown(&link, &detail, &workflow, now));
    }
    let body = match detail.answer(form) {
        Ok(body) => body,
        Err(bad) => {
            return Ok(html(StatusCode::BAD_REQUEST, &Page::Other("Not taken", &format!("It is not taken: {bad}."))));
        }
    };
    let act = Act::Signal { name: Arc::clone(&link.signal), body: Payload::json(&body) };
    // Two that answer at one time send it under one id: the first counts, and the other is a
    // conflict or the same.
    service.host.act(&link.run, &act, Some(&act_id(&link.hash))).map_err(act_problem)?;
    let _ = service.store.use_link(&link.hash, now)?;
    Ok(html(StatusCode::OK, &Page::Done))
}

/// The link of a secret, what it shows, and the name of its workflow.
fn found(service: &Service, secret: &str) -> Answered<Option<(Link, LinkDetail, Arc<str>)>> {
    let Some(hash) = hash_of(secret) else { return Ok(None) };
    let Some(link) = service.store.link(&hash)? else { return Ok(None) };
    // A run that began later has taken the id of one that was removed.
    let Some(run) = service.store.run(&link.run)?.filter(|run| run.created <= link.created) else { return Ok(None) };
    let Some(detail) = LinkDetail::of(&link) else { return Ok(None) };
    Ok(Some((link, detail, run.name)))
}

fn shown(link: &Link, detail: &LinkDetail, workflow: &str, now: Timestamp) -> Response {
    let state = state_of(link, now);
    let status = if state == LinkState::Open { StatusCode::OK } else { StatusCode::GONE };
    html(status, &Page::Link { detail, workflow, run: &link.run, expires: link.expires, state })
}

fn unknown() -> Response {
    html(StatusCode::NOT_FOUND, &Page::Other("There is no such link", "It may be cut, or its run was removed."))
}

fn failed(problem: &ServeProblem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = match problem.kind.as_str() {
        "run-ended" => "The run has ended: nothing waits for an answer any more.",
        "key-reused" => "Another answer by this link was faster.",
        _ if status.is_server_error() => "The answer was not recorded. Try again in a minute.",
        _ => "It is not taken.",
    };
    html(status, &Page::Other(&problem.title, text))
}

fn html(status: StatusCode, page: &Page<'_>) -> Response {
    let mut response = (status, page.to_html()).into_response();
    for (name, value) in page::headers() {
        // Not added: a text has a type already.
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
