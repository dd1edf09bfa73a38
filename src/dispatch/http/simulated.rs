//! The answer to a call from a response that no server gave, as tests of workflows have it: read
//! exactly as a real one.

use super::config::HttpConfig;
use super::exchange::{conclude, limit_of, timed_out};
use super::request::{ReadAs, Request};
use super::response::{FAILURE_BODY_BYTES_MAX, Response};
use crate::dispatch::problems;
use crate::process::{Answer, Blob, Micros, Payload, Problem};
use crate::run::MEDIA_TYPE;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// The body of such a response.
pub(crate) enum SimulatedBody {
    /// Bytes, without a type.
    Text(String),
    /// JSON, which the response says.
    Json(Value),
    /// Nothing.
    None,
}

/// A response that no server gave.
pub(crate) struct SimulatedResponse {
    /// The status, from 100 to 599.
    pub(crate) status: u16,
    /// The header fields.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: SimulatedBody,
}

/// How a request waits for its server.
pub(crate) struct SimulatedRequest {
    /// How long.
    pub(crate) timeout: Micros,
    /// What the call is answered after that.
    pub(crate) timed_out: Problem,
    /// Whether the server is sent the idempotency key.
    pub(crate) has_key: bool,
}

impl SimulatedRequest {
    /// Reads the arguments of a call. `None` if the handler would refuse them.
    pub(crate) fn read(args: &Payload) -> Option<Self> {
        let request = Request::read(args, "", &HttpConfig::default()).ok()?;
        let timed_out = timed_out((request.timeout, request.repeatable), &request.url, true);
        let timeout = Micros(u64::try_from(request.timeout.as_micros()).unwrap_or(u64::MAX));
        Some(Self { timeout, timed_out, has_key: !request.method.is_safe() })
    }
}

impl SimulatedResponse {
    /// Answers a call with these arguments of a process whose payloads are bounded, as the handler
    /// would answer it.
    pub(crate) fn answer(self, args: &Payload, key: &str, payload_bytes_max: u64) -> Answer {
        self.read(args, key, payload_bytes_max).map_err(Arc::new)
    }

    fn read(self, args: &Payload, key: &str, payload_bytes_max: u64) -> Result<Payload, Problem> {
        let Self { status, headers: fields, body } = self;
        let config = HttpConfig::default();
        let request = Request::read(args, key, &config)?;
        let invalid = |what: &str| problems::bad_arguments(&format!("the test's response: {what}"));
        let status = StatusCode::from_u16(status).map_err(|_| invalid("no such status"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::try_from(name).map_err(|_| invalid("no name of a header field"))?;
            headers.append(name, HeaderValue::try_from(value).map_err(|_| invalid("no value of a header field"))?);
        }
        let mut body = match body {
            _ if request.method == Method::HEAD => Vec::new(),
            SimulatedBody::None => Vec::new(),
            SimulatedBody::Text(text) => text.into_bytes(),
            SimulatedBody::Json(value) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                value.to_string().into_bytes()
            }
        };
        let is_expected = request.expects(status);
        let limit = limit_of(&request, &config, payload_bytes_max);
        let limit = if is_expected { limit } else { limit.min(FAILURE_BODY_BYTES_MAX) };
        let is_whole = body.len() as u64 <= limit;
        if is_expected && is_whole && request.read_as == ReadAs::Blob && request.method != Method::HEAD {
            let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(MEDIA_TYPE);
            let blob = Blob {
                digest: format!("blake3:{}", blake3::hash(&body).to_hex()),
                size: body.len() as u64,
                media_type: media_type.to_owned(),
            };
            let response = Response { status, headers, url: request.url.clone(), body: Vec::new() };
            return Ok(response.with_blob(&blob));
        }
        if !is_whole {
            body.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        conclude(&request, Response { status, headers, url: request.url.clone(), body }, is_whole, limit)
    }
}
