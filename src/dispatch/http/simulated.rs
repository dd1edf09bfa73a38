//! The answer to a call from a response that no server gave, as tests of workflows have it: read
//! exactly as a real one.

use super::config::HttpConfig;
use super::request::Request;
use super::response::Response;
use crate::dispatch::problems;
use crate::process::{Answer, Payload, Problem};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
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

impl SimulatedResponse {
    /// Answers a call with these arguments, as the handler would answer it.
    pub(crate) fn answer(self, args: &Payload, key: &str) -> Answer {
        self.read(args, key).map_err(Arc::new)
    }

    fn read(self, args: &Payload, key: &str) -> Result<Payload, Problem> {
        let Self { status, headers: fields, body } = self;
        let request = Request::read(args, key, &HttpConfig::default())?;
        let invalid = |what: &str| problems::bad_arguments(&format!("the test's response: {what}"));
        let status = StatusCode::from_u16(status).map_err(|_| invalid("no such status"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::try_from(name).map_err(|_| invalid("no name of a header field"))?;
            headers.append(name, HeaderValue::try_from(value).map_err(|_| invalid("no value of a header field"))?);
        }
        let body = match body {
            SimulatedBody::None => Vec::new(),
            SimulatedBody::Text(text) => text.into_bytes(),
            SimulatedBody::Json(value) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                value.to_string().into_bytes()
            }
        };
        let is_expected = request.expects(status);
        let response = Response { status, headers, url: request.url.clone(), body };
        if is_expected {
            return response.answer(request.read_as);
        }
        let shown = super::target::without_query(&request.url);
        Err(response.failure(&request.method, &shown, true, request.repeatable))
    }
}
