//! Turns a response into the answer to the call.

use super::request::ReadAs;
use crate::dispatch::problems::{self, kind};
use crate::process::{Blob, Json, Payload, Problem, ProblemClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::{Duration, SystemTime};
use url::Url;

/// Bytes of a failure's body that its problem includes.
pub(super) const FAILURE_BODY_BYTES_MAX: u64 = 16 << 10;

/// Longest time that a server can ask us to wait. Arbitrary.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// A response that has been read.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) body: Vec<u8>,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: u16,
    url: &'a str,
    headers: Fields<'a>,
    encoding: &'static str,
    body: Body<'a>,
}

/// The header fields, each once: several values are joined by a comma (RFC 9110, section 5.3),
/// except `set-cookie`, which is always a list.
struct Fields<'a>(&'a HeaderMap);

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
    Blob(serde_json::Value),
    None,
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.keys_len()))?;
        for name in self.0.keys() {
            // Octets outside ASCII are read as Latin-1: nothing is lost, nothing fails.
            let texts =
                self.0.get_all(name).iter().map(|value| value.as_bytes().iter().map(|b| char::from(*b)).collect());
            let texts: Vec<String> = texts.collect();
            if name == header::SET_COOKIE {
                map.serialize_entry(name.as_str(), &texts)?;
            } else {
                map.serialize_entry(name.as_str(), &texts.join(", "))?;
            }
        }
        map.end()
    }
}

impl Response {
    /// Returns the answer to a call that succeeded.
    ///
    /// # Errors
    /// The body is not of the form that the call asked for.
    pub(super) fn answer(self, read_as: ReadAs) -> Result<Payload, Problem> {
        if read_as == ReadAs::Bytes {
            return Ok(Payload::Bytes(self.body.into()));
        }
        if let Some(text) = self.json(read_as) {
            return Ok(text);
        }
        if read_as == ReadAs::Json {
            return Err(Problem::new(kind::BAD_RESPONSE, "the server's answer is not JSON").with_detail(format!(
                "{}, {} bytes",
                problems::bounded(self.media_type()),
                self.body.len()
            )));
        }
        let (encoding, body) = self.text(read_as);
        Ok(Payload::json(&self.with_body(encoding, body)))
    }

    /// Returns the answer whose body was stored.
    pub(super) fn with_blob(&self, blob: &Blob) -> Payload {
        Payload::json(&self.with_body("blob", Body::Blob(blob.to_value())))
    }

    /// Returns the answer with a JSON body, byte for byte; `None` if the body is not JSON or nests
    /// too deep.
    fn json(&self, read_as: ReadAs) -> Option<Payload> {
        let is_wanted = match read_as {
            ReadAs::Json => true,
            ReadAs::Auto => is_json(self.media_type()) && !self.body.is_empty(),
            ReadAs::Text | ReadAs::Base64 | ReadAs::Bytes | ReadAs::Blob => false,
        };
        if !is_wanted {
            return None;
        }
        let body: &RawValue = serde_json::from_slice(&self.body).ok()?;
        let text = serde_json::to_vec(&self.with_body("json", Body::Json(body))).ok()?;
        Json::parse(text).ok().map(Payload::Json)
    }

    fn text(&self, read_as: ReadAs) -> (&'static str, Body<'_>) {
        if self.body.is_empty() {
            return ("none", Body::None);
        }
        if read_as == ReadAs::Base64 {
            return ("base64", Body::Text(STANDARD.encode(&self.body).into()));
        }
        match std::str::from_utf8(&self.body) {
            Ok(text) => ("text", Body::Text(text.into())),
            Err(_) if read_as == ReadAs::Text => ("text", Body::Text(String::from_utf8_lossy(&self.body))),
            Err(_) => ("base64", Body::Text(STANDARD.encode(&self.body).into())),
        }
    }

    fn with_body<'a>(&'a self, encoding: &'static str, body: Body<'a>) -> Answer<'a> {
        Answer { status: self.status.as_u16(), url: self.url.as_str(), headers: Fields(&self.headers), encoding, body }
    }

    fn media_type(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the problem of an unexpected status. `data` has the answer, as far as it was read.
    pub(super) fn failure(self, method: &Method, shown_url: &str, is_whole: bool, repeatable: bool) -> Problem {
        let reason = self.status.canonical_reason().unwrap_or("an unregistered status");
        let mut problem =
            Problem::new(kind::HTTP_STATUS, format!("the server answered {} {reason}", self.status.as_u16()))
                .with_detail(format!("{method} {shown_url}"));
        problem = match class_of(self.status) {
            Some(class) => problem.with_class(class),
            None => problem.with_unknown_outcome(repeatable),
        };
        problem.status = self.status.as_u16();
        problem.retry_after = retry_after(&self.headers, SystemTime::now()).map(Into::into);
        let read_as = if is_whole { ReadAs::Auto } else { ReadAs::Text };
        if let Ok(Payload::Json(data)) = self.answer(read_as) {
            problem.data = Some(data);
        }
        problem
    }
}

/// Returns the class that a status implies; `None` if it says nothing about the effect.
///
/// 408, 425, 429 and 503 say that the request was not carried out. After any other 5xx the outcome
/// is unknown: *retryable* if a repeat is harmless, else *uncertain*. 501 and 505 are permanent.
fn class_of(status: StatusCode) -> Option<ProblemClass> {
    match status.as_u16() {
        408 | 425 | 429 | 503 => Some(ProblemClass::Retryable),
        501 | 505 => Some(ProblemClass::Definite),
        500..=599 => None,
        _ => Some(ProblemClass::Definite),
    }
}

/// Returns how long the server asks us to wait: it gives a number of seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            SystemTime::from(date).duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns the problem of a body that is larger than the call may receive.
pub(super) fn too_large(limit: u64, repeatable: bool) -> Problem {
    let class = if repeatable { ProblemClass::Definite } else { ProblemClass::Uncertain };
    Problem::new(kind::RESPONSE_TOO_LARGE, "the server's answer is too large")
        .with_detail(format!("the limit is {limit} bytes after decompression"))
        .with_class(class)
        .with_data(&json!({ "limit": limit }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn response(media_type: &'static str, body: &[u8]) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        let url = Url::parse("https://example.com/").unwrap();
        Response { status: StatusCode::OK, headers, url, body: body.to_vec() }
    }

    fn read(media_type: &'static str, body: &[u8], read_as: ReadAs) -> serde_json::Value {
        match response(media_type, body).answer(read_as).unwrap() {
            Payload::Json(json) => json.to_value(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_body_comes_as_what_it_is() {
        let json = read("application/problem+json; charset=utf-8", br#"{"a": 1.50}"#, ReadAs::Auto);
        assert_eq!((json["encoding"].as_str(), json["body"]["a"].to_string().as_str()), (Some("json"), "1.50"));
        for (media_type, body, encoding, text) in [
            ("text/plain", &b"hi"[..], "text", Some("hi")),
            ("application/json", b"{broken", "text", Some("{broken")),
            ("image/png", b"\x89PNG\xff", "base64", Some("iVBOR/8=")),
            ("application/json", b"", "none", None),
        ] {
            let answer = read(media_type, body, ReadAs::Auto);
            assert_eq!((answer["encoding"].as_str(), answer["body"].as_str()), (Some(encoding), text));
        }
    }

    #[test]
    fn the_call_may_insist() {
        assert_eq!(read("text/plain", b"[1]", ReadAs::Json)["body"][0], 1);
        assert_eq!(read("application/json", b"[1]", ReadAs::Text)["body"], "[1]");
        assert_eq!(read("text/plain", b"\xff", ReadAs::Text)["body"], "\u{fffd}");
        assert_eq!(read("text/plain", b"hi", ReadAs::Base64)["body"], "aGk=");
        assert_eq!(response("text/plain", b"hi").answer(ReadAs::Bytes), Ok(Payload::Bytes("hi".into())));
        assert_eq!(response("text/plain", b"hi").answer(ReadAs::Json).unwrap_err().kind, kind::BAD_RESPONSE);
    }

    #[test]
    fn a_body_that_nests_too_deep_comes_as_text() {
        let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(read("application/json", deep.as_bytes(), ReadAs::Auto)["encoding"], "text");
    }

    #[test]
    fn several_values_of_a_field_are_one_and_odd_octets_survive() {
        let mut response = response("text/plain", b"");
        for (name, value) in [("x-a", "1"), ("x-a", "2"), ("set-cookie", "a=1"), ("x-b", "\u{e9}")] {
            let bytes: Vec<u8> = value.chars().map(|c| c as u8).collect();
            response.headers.append(name, HeaderValue::from_bytes(&bytes).unwrap());
        }
        let Payload::Json(answer) = response.answer(ReadAs::Auto).unwrap() else { panic!("JSON") };
        let headers = &answer.to_value()["headers"];
        assert_eq!((headers["x-a"].as_str(), headers["x-b"].as_str()), (Some("1, 2"), Some("é")));
        assert_eq!(headers["set-cookie"][0], "a=1");
    }

    #[test]
    fn the_class_of_a_status_claims_no_more_than_is_known() {
        use ProblemClass::{Definite, Retryable, Uncertain};
        for (status, once, often) in [
            (400, Definite, Definite),
            (404, Definite, Definite),
            (408, Retryable, Retryable),
            (425, Retryable, Retryable),
            (429, Retryable, Retryable),
            (500, Uncertain, Retryable),
            (501, Definite, Definite),
            (502, Uncertain, Retryable),
            (503, Retryable, Retryable),
            (504, Uncertain, Retryable),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let problem = |repeatable| {
                let response = Response { status, ..response("text/plain", b"") };
                response.failure(&Method::PUT, "https://example.com/", true, repeatable)
            };
            assert_eq!((problem(false).class, problem(true).class), (once, often), "{status}");
            // A retry keeps the key if the first request may have been carried out.
            assert_eq!(problem(true).may_have_happened, once == Uncertain, "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms_and_bounded() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60);
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now)
        };
        assert_eq!(read("120"), Some(Duration::from_mins(2)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_mins(1)));
        assert_eq!(read("Sun, 06 Nov 1983 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(read("99999999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(read("-1"), None);
        assert_eq!(read("soon"), None);
    }
}
