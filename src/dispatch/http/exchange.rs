//! Sends a request, follows redirects, reads the answer, and classifies failures by what is known.

use super::body::{self, Content, Outgoing};
use super::config::HttpConfig;
use super::connect::{self, Sender};
use super::hook::CallHook;
use super::request::{ReadAs, Request};
use super::response::{self, FAILURE_BODY_BYTES_MAX, Response};
use super::sealed::{self, CallSecrets};
use super::target;
use crate::dispatch::problems::{self, kind};
use crate::process::{Payload, Problem, ProblemClass};
use crate::run::{BlobError, RunBlobs};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use std::error::Error;
use std::time::{Duration, Instant};
use tower_service::Service;
use url::Url;

/// Checks whether a hop is granted.
pub(super) type IsGranted<'a> = dyn Fn(&Method, &Url) -> Result<(), Problem> + Send + Sync + 'a;

/// What is asked and told around each hop.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) is_granted: &'a IsGranted<'a>,
    pub(super) hook: CallHook<'a>,
    pub(super) blobs: Option<&'a RunBlobs>,
    pub(super) secrets: &'a CallSecrets<'a>,
}

/// The progress of a request, in case it is cut off.
#[derive(Default)]
struct Progress {
    connection: Option<CaptureConnection>,
    /// Whether a server has accepted a request that is not safe to repeat, and redirected us to its
    /// outcome.
    has_happened: bool,
}

impl Progress {
    /// Returns whether the server may have seen the current hop: there was a connection to send it
    /// on.
    fn may_have_been_sent(&self) -> bool {
        self.connection.as_ref().is_some_and(|capture| capture.connection_metadata().is_some())
    }
}

/// Carries out a request.
pub(super) async fn exchange(
    sender: Sender,
    config: &HttpConfig,
    mut request: Request,
    payload_bytes_max: u64,
    around: Around<'_>,
) -> Result<Payload, Problem> {
    let limit = limit_of(&request, config, payload_bytes_max);
    let mut progress = Progress::default();
    let (timeout, repeatable) = (request.timeout, request.repeatable);
    let result = tokio::time::timeout(timeout, follow(sender, &mut request, limit, around, &mut progress)).await;
    let result =
        result.unwrap_or_else(|_| Err(timed_out((timeout, repeatable), &request.url, progress.may_have_been_sent())));
    match result {
        Err(problem) if progress.has_happened => Err(problem.with_class(ProblemClass::Uncertain)),
        result => result,
    }
}

/// Returns how many bytes the body of a response may have.
pub(super) fn limit_of(request: &Request, config: &HttpConfig, payload_bytes_max: u64) -> u64 {
    let asked = request.response_bytes_max.unwrap_or(u64::MAX);
    match request.read_as {
        // A blob is not in memory: its own bound applies.
        ReadAs::Blob => asked,
        _ => asked.min(config.response_bytes_max).min(payload_bytes_max),
    }
}

/// Returns the problem of a request that took too long.
pub(super) fn timed_out((timeout, repeatable): (Duration, bool), url: &Url, is_sent: bool) -> Problem {
    let how_far = if is_sent { "the request may have been sent" } else { "nothing was sent" };
    let problem = Problem::new(kind::HTTP_TIMED_OUT, "the server did not answer in time")
        .with_detail(format!("{timeout:?} for {}; {how_far}", target::without_query(url)));
    if is_sent { problem.with_unknown_outcome(repeatable) } else { problem.with_class(ProblemClass::Retryable) }
}

/// Sends the request and follows its redirects; the grant of each hop is checked.
async fn follow(
    mut sender: Sender,
    request: &mut Request,
    limit: u64,
    around: Around<'_>,
    progress: &mut Progress,
) -> Result<Payload, Problem> {
    let mut hops = 0;
    loop {
        (around.is_granted)(&request.method, &request.url)?;
        around.secrets.check(request)?;
        let mut message = message(request, around.blobs).await?;
        around.hook.before(&request.method, request.url.as_str(), message.headers_mut())?;
        around.secrets.put_in(&request.url, message.headers_mut()).await?;
        progress.connection = Some(capture_connection(&mut message));
        let begun = Instant::now();
        let sent = sender.call(message).await;
        let status = sent.as_ref().ok().map(http::Response::status);
        around.hook.after(&request.method, request.url.as_str(), status, begun.elapsed());
        let answer = sent.map_err(|error| failure_of(&error, request, progress.may_have_been_sent()))?;
        let (mut head, body) = answer.into_parts();
        if matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            around.secrets.was_refused(request);
        }
        if size_of_head(&head.headers) > connect::RESPONSE_HEAD_BYTES_MAX {
            return Err(bad_response(request, "its header is too large"));
        }
        let next = if request.redirects == 0 { None } else { redirect_target(head.status, &head.headers) };
        let Some(location) = next else {
            around.secrets.redact_headers(&mut head.headers);
            return read(request, (head.status, head.headers), body, limit, around).await;
        };
        around.secrets.check_redirect(request, &location)?;
        hops += 1;
        if hops > request.redirects {
            return Err(bad_redirect(request, format!("more than {} redirects", request.redirects)));
        }
        let url = target::join(&request.url, &location).map_err(|error| bad_redirect(request, error))?;
        progress.has_happened |= redirect(request, head.status, url) && !request.repeatable;
    }
}

/// Builds the request of one hop.
async fn message(request: &Request, blobs: Option<&RunBlobs>) -> Result<http::Request<Outgoing>, Problem> {
    let mut message = http::Request::new(request.body.body(blobs).await?);
    *message.method_mut() = request.method.clone();
    *message.uri_mut() = request
        .url
        .as_str()
        .parse()
        .map_err(|_| problems::bad_arguments("the URL has characters that a request cannot carry"))?;
    *message.headers_mut() = request.headers.clone();
    Ok(message)
}

/// Sums the bytes of the head. HTTP/1 is read in buffers, so the client's own bound is only a rough
/// one.
fn size_of_head(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Returns the location of a redirect; `None` if the response is not one.
fn redirect_target(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let leads = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = headers.get(header::LOCATION).filter(|_| leads)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Turns the request into that of the next hop, by the Fetch standard: 303, and 301 and 302 after a
/// POST, continue with a GET without a body. Returns whether the request became a GET.
fn redirect(request: &mut Request, status: StatusCode, url: Url) -> bool {
    let becomes_get = match status.as_u16() {
        303 => !matches!(request.method, Method::GET | Method::HEAD),
        301 | 302 => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        request.method = Method::GET;
        request.body = Content::Bytes(Bytes::new());
        let of_the_body =
            [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION];
        for name in of_the_body.into_iter().chain([HeaderName::from_static("idempotency-key")]) {
            request.headers.remove(name);
        }
    }
    if !target::is_same_origin(&request.url, &url) {
        // A key may be in a field of any name, so the list names the fields that are kept.
        let is_foreign = |name: &&HeaderName| !holds_no_secret(name) || sealed::holds(&request.headers, name);
        let foreign = request.headers.keys().filter(is_foreign).cloned().collect::<Vec<_>>();
        for name in foreign {
            request.headers.remove(name);
        }
    }
    request.url = url;
    becomes_get
}

/// Returns whether a field holds no secret, so that any origin may receive it.
fn holds_no_secret(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "cache-control"
            | "content-encoding"
            | "content-language"
            | "content-type"
            | "idempotency-key"
            | "if-modified-since"
            | "if-none-match"
            | "range"
            | "user-agent"
    )
}

/// Reads the body and builds the answer.
async fn read<B>(
    request: &Request,
    (status, headers): (StatusCode, HeaderMap),
    body: B,
    limit: u64,
    around: Around<'_>,
) -> Result<Payload, Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let is_expected = request.expects(status);
    let limit = if is_expected { limit } else { limit.min(FAILURE_BODY_BYTES_MAX) };
    // The answer to HEAD has the fields of a body but no body (RFC 9110, section 9.3.2), so
    // decompression would fail.
    let has_body = request.method != Method::HEAD;
    if is_expected && has_body && request.read_as == ReadAs::Blob {
        let blobs = around.blobs.ok_or_else(problems::no_blobs)?;
        let blob = body::store(request, &headers, body, limit, (blobs, around.secrets)).await?;
        let response = Response { status, headers, url: request.url.clone(), body: Vec::new() };
        return Ok(response.with_blob(&blob));
    }
    let limit = if request.read_as == ReadAs::Blob { limit.min(FAILURE_BODY_BYTES_MAX) } else { limit };
    let (body, is_whole) =
        if has_body { read_body(request, body, limit, around.secrets).await? } else { (Vec::new(), true) };
    conclude(request, Response { status, headers, url: request.url.clone(), body }, is_whole, limit)
}

/// Builds the answer from a response whose body was read up to a limit.
pub(super) fn conclude(request: &Request, response: Response, is_whole: bool, limit: u64) -> Result<Payload, Problem> {
    if !request.expects(response.status) {
        let shown = target::without_query(&request.url);
        return Err(response.failure(&request.method, &shown, is_whole, request.repeatable));
    }
    if is_whole { response.answer(request.read_as) } else { Err(response::too_large(limit, request.repeatable)) }
}

/// Reads the body up to a limit, without the secrets in it. Returns whether that is all of it, too.
async fn read_body<B>(
    request: &Request,
    mut body: B,
    limit: u64,
    secrets: &CallSecrets<'_>,
) -> Result<(Vec<u8>, bool), Problem>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // A value at the limit is recognised by its end only.
    let read_max = limit.saturating_add(secrets.overlap());
    let mut bytes = Vec::new();
    let mut is_whole = true;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(error.into(), request))?.into_data() else { continue };
        let room = read_max - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            is_whole = false;
            break;
        }
    }
    is_whole &= bytes.len() <= limit;
    if is_whole {
        return Ok((secrets.redact(bytes), true));
    }
    // What is behind the limit is only read to recognise a value: it is not shown, even if what
    // replaces the values is shorter.
    let staying = bytes.len().saturating_sub(limit);
    let mut bytes = secrets.redact_all_but(bytes, staying);
    bytes.truncate(limit);
    Ok((bytes, false))
}

/// Returns the problem of a request that got no response.
fn failure_of(error: &(dyn Error + 'static), request: &Request, is_sent: bool) -> Problem {
    if let Some(refused) = connect::refusal(error) {
        return Problem::new(kind::ADDRESS_REFUSED, "requests may not go to that address")
            .with_detail(format!("{refused}, which the operator does not permit"))
            .with_data(&serde_json::json!({ "host": crate::dispatch::problems::bounded(&refused.host) }));
    }
    if let Some(unread) = connect::cause::<BlobError>(error) {
        return Problem::from(unread.clone()).with_unknown_outcome(request.repeatable);
    }
    if !is_sent {
        let class = match connect::cause::<rustls::Error>(error) {
            // A retry would get the same certificate.
            Some(rustls::Error::InvalidCertificate(_)) => ProblemClass::Definite,
            _ => ProblemClass::Retryable,
        };
        return Problem::new(kind::CONNECTION_FAILED, "could not connect to the server")
            .with_detail(format!("{}: {}", target::without_query(&request.url), innermost(error)))
            .with_class(class);
    }
    if was_refused(error) {
        return lost(request, "the server did not process the request").with_class(ProblemClass::Retryable);
    }
    let is_malformed = connect::cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse);
    if is_malformed {
        return bad_response(request, &innermost(error));
    }
    lost(request, &innermost(error))
}

/// Returns whether an HTTP/2 server promises that it did not process the request (RFC 9113, section
/// 8.7).
fn was_refused(error: &(dyn Error + 'static)) -> bool {
    connect::cause::<h2::Error>(error).and_then(h2::Error::reason) == Some(h2::Reason::REFUSED_STREAM)
}

/// Returns the problem of a body that broke off.
pub(super) fn broken(error: Box<dyn Error + Send + Sync>, request: &Request) -> Problem {
    let error: &(dyn Error + 'static) = &*error;
    match connect::cause::<hyper::Error>(error) {
        Some(_) => lost(request, &innermost(error)),
        None => bad_response(request, &format!("the body cannot be decompressed: {}", innermost(error))),
    }
}

fn lost(request: &Request, why: &str) -> Problem {
    Problem::new(kind::CONNECTION_LOST, "the connection broke before the answer was complete")
        .with_detail(format!("{}: {why}", target::without_query(&request.url)))
        .with_unknown_outcome(request.repeatable)
}

/// Returns the problem of a response that cannot be understood. The server has seen the request.
fn bad_response(request: &Request, why: &str) -> Problem {
    let class = if request.repeatable { ProblemClass::Definite } else { ProblemClass::Uncertain };
    Problem::new(kind::BAD_RESPONSE, "the server's answer is not valid HTTP")
        .with_detail(format!("{}: {why}", target::without_query(&request.url)))
        .with_class(class)
}

fn bad_redirect(request: &Request, why: String) -> Problem {
    let class = if request.repeatable { ProblemClass::Definite } else { ProblemClass::Uncertain };
    Problem::new(kind::BAD_REDIRECT, "a redirect cannot be followed")
        .with_detail(format!("at {}: {}", target::without_query(&request.url), problems::bounded(&why)))
        .with_class(class)
}

/// Returns the text of the innermost cause.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    problems::bounded(&error.to_string())
}
