//! Reads a call's arguments into a request.

use super::body::Content;
use super::config::HttpConfig;
use super::pattern::Pattern;
use super::target;
use crate::dispatch::{arguments, problems};
use crate::process::{Blob, Payload, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// Header fields that a request may have. Arbitrary.
const HEADERS_MAX: usize = 100;
/// Bytes of a request's header fields. Arbitrary.
const HEADERS_BYTES_MAX: usize = 64 << 10;

/// Redirects that a call may follow.
pub(super) const REDIRECTS_MAX: u8 = 5;

/// Longest idempotency key that is sent unchanged; a longer one, or one with other characters, is
/// sent as its digest.
const KEY_BYTES_MAX: usize = 255;

/// A request, and how its answer is read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Content,
    pub(super) timeout: Duration,
    pub(super) response_bytes_max: Option<u64>,
    pub(super) redirects: u8,
    pub(super) expect: Vec<Expected>,
    pub(super) read_as: ReadAs,
    pub(super) repeatable: bool,
}

/// How the body of the answer is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReadAs {
    /// JSON if the server says so and it is, else text if it is UTF-8, else base64.
    #[default]
    Auto,
    Json,
    Text,
    Base64,
    /// The body alone, as bytes.
    Bytes,
    /// The body is a blob, however small.
    Blob,
}

/// A status that counts as success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    Any,
    /// Every status with this first digit.
    Class(u16),
    Exactly(u16),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Args<'a> {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default)]
    query: Map<String, Value>,
    auth: Option<AuthArgs>,
    #[serde(borrow)]
    body: Option<BodyArgs<'a>>,
    timeout: Option<String>,
    max_response_bytes: Option<u64>,
    redirects: Option<u8>,
    expect: Option<Vec<Value>>,
    #[serde(default, rename = "as")]
    read_as: ReadAs,
    #[serde(default)]
    repeatable: bool,
}

/// Who asks: the field `authorization` (RFC 7617, RFC 6750).
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum AuthArgs {
    Bearer(String),
    Basic { user: String, password: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum BodyArgs<'a> {
    Json(#[serde(borrow)] &'a RawValue),
    Text(String),
    Base64(String),
    Blob(Value),
}

/// Returns the JSON Schema of the arguments.
pub(super) fn schema() -> Value {
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let text_or_texts = |item: Value| json!({ "anyOf": [item, { "type": "array", "items": item }] });
    json!({
        "type": "object",
        "properties": {
            "url": { "type": "string", "maxLength": target::URL_BYTES_MAX },
            "method": { "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], "default": "GET" },
            "headers": {
                "type": "object",
                "maxProperties": HEADERS_MAX,
                "additionalProperties": text_or_texts(json!({ "type": "string" })),
            },
            "auth": auth_schema(),
            "query": { "type": "object", "additionalProperties": text_or_texts(scalar) },
            "body": {
                "type": "object",
                "properties": {
                    "json": true,
                    "text": { "type": "string" },
                    "base64": { "type": "string" },
                    "blob": { "type": "object", "required": ["digest", "size", "media-type"] },
                },
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
                "description": "one of `json` (any value), `text`, `base64` and `blob`: body: { json: { name: Ann } }",
            },
            "timeout": {
                "type": "string",
                "pattern": "^[0-9]{1,9}(ms|s|m|h)$",
                "description": "a duration: 500ms, 30s, 5m, 1h",
            },
            "max-response-bytes": { "type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64 },
            "redirects": { "type": "integer", "minimum": 0, "maximum": REDIRECTS_MAX },
            "expect": {
                "type": "array",
                "items": { "anyOf": [
                    { "enum": ["*", "1xx", "2xx", "3xx", "4xx", "5xx"] },
                    { "type": "integer", "minimum": 100, "maximum": 599 },
                ] },
                "default": ["2xx", "3xx"],
                "description": "a list of statuses: [\"2xx\", 404]; \"*\" is every status",
            },
            "as": { "enum": ["auto", "json", "text", "base64", "bytes", "blob"], "default": "auto" },
            "repeatable": { "type": "boolean", "default": false },
        },
        "required": ["url"],
        "examples": [{ "url": "https://example.com" }],
        "additionalProperties": false,
    })
}

fn auth_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "bearer": { "type": "string", "minLength": 1 },
            "basic": {
                "type": "object",
                "properties": { "user": { "type": "string" }, "password": { "type": "string" } },
                "required": ["user", "password"],
                "additionalProperties": false,
            },
        },
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
        "description": "`bearer` or `basic`: auth: { basic: { user: ann, password: … } }",
    })
}

/// Returns the method of a name; `None` if it is not supported.
pub(super) fn method(name: &str) -> Option<Method> {
    Some(match name {
        "GET" => Method::GET,
        "HEAD" => Method::HEAD,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        "DELETE" => Method::DELETE,
        "OPTIONS" => Method::OPTIONS,
        _ => return None,
    })
}

/// Returns whether a call may be sent again: its method is idempotent (RFC 9110, section 9.2.2), or
/// the call says that the server honours its key.
pub(super) fn is_repeatable(args: &Payload) -> bool {
    #[derive(Deserialize)]
    struct Part {
        method: Option<String>,
        #[serde(default)]
        repeatable: bool,
    }
    let part = arguments::<Part>(args);
    part.is_ok_and(|part| {
        part.repeatable || method(part.method.as_deref().unwrap_or("GET")).is_some_and(|m| m.is_idempotent())
    })
}

/// Returns the method and URL of a call: the part of its arguments that grants are about.
pub(super) fn target_of(args: &Payload) -> Result<(Method, Url), Problem> {
    #[derive(Deserialize)]
    struct Part {
        url: String,
        method: Option<String>,
    }
    let part: Part = arguments(args)?;
    Ok((read_method(part.method.as_deref())?, read_url(&part.url)?))
}

/// Returns the pattern that grants a call and little else: its method, origin and path, with `*`
/// for each segment that has one.
pub(super) fn pattern_for(args: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Part {
        url: String,
        method: Option<String>,
    }
    let Part { url, method: name } = arguments(args).ok()?;
    let methods = match name.as_deref().unwrap_or("GET") {
        // A pattern that grants GET grants HEAD too.
        "GET" | "HEAD" => "GET",
        "*" => "*",
        other => method(other).map(|_| other)?,
    };
    pattern_of(methods, &target::parse(&url).ok()?)
}

/// Returns the pattern that grants requests with this method to a URL, and little else.
pub(super) fn pattern_of(methods: &str, url: &Url) -> Option<String> {
    let origin = url.origin().ascii_serialization();
    let segments = url.path().split('/').map(|segment| if segment.contains('*') { "*" } else { segment });
    let path = segments.collect::<Vec<_>>().join("/");
    // If no pattern can express the path, every path is granted.
    [format!("{methods} {origin}{path}"), format!("{methods} {origin}")]
        .into_iter()
        .find(|text| text.parse::<Pattern>().is_ok())
}

fn read_method(name: Option<&str>) -> Result<Method, Problem> {
    method(name.unwrap_or("GET")).ok_or_else(|| problems::bad_arguments("unknown method"))
}

fn read_url(text: &str) -> Result<Url, Problem> {
    target::parse(text).map_err(|error| problems::bad_arguments(&error))
}

impl Request {
    /// Reads the arguments of a call. Every method that is not safe carries the idempotency key.
    pub(super) fn read(args: &Payload, key: &str, config: &HttpConfig) -> Result<Self, Problem> {
        let args: Args<'_> = arguments(args)?;
        let method = read_method(args.method.as_deref())?;
        let mut url = read_url(&args.url)?;
        append_query(&mut url, &args.query)?;
        let mut headers = read_headers(&args.headers)?;
        if let Some(auth) = &args.auth {
            add_auth(&mut headers, auth)?;
        }
        let (body, media_type) = read_body(args.body)?;
        if let Some(media_type) = media_type {
            headers.entry(header::CONTENT_TYPE).or_insert(media_type);
        }
        add_own_headers(&mut headers, &method, key, config);
        let timeout = args.timeout.map_or(Ok(config.timeout), |text| read_duration(&text))?;
        let redirects = args.redirects.unwrap_or(if method.is_safe() { REDIRECTS_MAX } else { 0 });
        let expect =
            args.expect.map_or(Ok(vec![Expected::Class(2), Expected::Class(3)]), |list| read_expected(&list))?;
        Ok(Self {
            repeatable: args.repeatable || method.is_idempotent(),
            method,
            url,
            headers,
            body,
            timeout: timeout.min(config.timeout_max),
            response_bytes_max: args.max_response_bytes,
            redirects: redirects.min(REDIRECTS_MAX),
            expect,
            read_as: args.read_as,
        })
    }

    /// Returns whether a status counts as success.
    pub(super) fn expects(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        self.expect.iter().any(|expected| match expected {
            Expected::Any => true,
            Expected::Class(digit) => status / 100 == *digit,
            Expected::Exactly(exactly) => status == *exactly,
        })
    }
}

fn append_query(url: &mut Url, query: &Map<String, Value>) -> Result<(), Problem> {
    if query.is_empty() {
        return Ok(());
    }
    let mut pairs = url.query_pairs_mut();
    for (name, value) in query {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            pairs.append_pair(name, &text);
        }
    }
    drop(pairs);
    if url.as_str().len() > target::URL_BYTES_MAX {
        return Err(problems::bad_arguments("the URL is too long with its query"));
    }
    Ok(())
}

fn read_headers(args: &BTreeMap<String, Value>) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in args {
        let shown = problems::bounded(name);
        let field: HeaderName = name
            .parse()
            .map_err(|_| problems::bad_arguments(&format!("`{shown}` is not the name of a header field")))?;
        if is_set_by_host(&field) {
            return Err(problems::bad_arguments(&format!("the header field `{shown}` is set by the host")));
        }
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            let text = value.as_str().unwrap_or_default();
            bytes += name.len() + text.len();
            let value = HeaderValue::from_str(text).map_err(|_| {
                problems::bad_arguments(&format!(
                    "the value of the header field `{shown}` has characters that it may not have"
                ))
            })?;
            headers.append(field.clone(), value);
        }
    }
    if headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(problems::bad_arguments("the header fields are too many or too large"));
    }
    Ok(headers)
}

/// Adds the field that says who asks.
fn add_auth(headers: &mut HeaderMap, auth: &AuthArgs) -> Result<(), Problem> {
    let text = match auth {
        AuthArgs::Bearer(token) => format!("Bearer {token}"),
        AuthArgs::Basic { user, .. } if user.contains(':') => {
            return Err(problems::bad_arguments("at /auth/basic/user: a user name has no colon"));
        }
        AuthArgs::Basic { user, password } => format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
    };
    let bad = |why: &str| problems::bad_arguments(&format!("at /auth: {why}"));
    let mut value = HeaderValue::from_str(&text).map_err(|_| bad("it has characters that no header field may have"))?;
    value.set_sensitive(true);
    match headers.insert(header::AUTHORIZATION, value) {
        None => Ok(()),
        Some(_) => Err(bad("the header field `authorization` is given, too")),
    }
}

/// Returns whether a field governs how the message travels (RFC 9110, section 7.6.1), or where to.
fn is_set_by_host(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "content-length"
            | "expect"
            | "host"
            | "http2-settings"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

fn add_own_headers(headers: &mut HeaderMap, method: &Method, key: &str, config: &HttpConfig) {
    let agent = HeaderValue::from_str(&config.user_agent);
    if let Ok(agent) = agent {
        headers.entry(header::USER_AGENT).or_insert(agent);
    }
    headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if headers.contains_key(header::RANGE) {
        // A part of a compressed body could not be decompressed.
        headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    }
    if !method.is_safe() {
        headers.entry("idempotency-key").or_insert(key_header(key));
    }
}

/// Returns the logical call's key in the form of a header field.
fn key_header(key: &str) -> HeaderValue {
    let is_plain = !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    let text = if is_plain { key.to_owned() } else { blake3::hash(key.as_bytes()).to_hex().to_string() };
    HeaderValue::from_str(&text).expect("invariant: visible ASCII characters")
}

fn read_body(body: Option<BodyArgs<'_>>) -> Result<(Content, Option<HeaderValue>), Problem> {
    let fixed = HeaderValue::from_static;
    Ok(match body {
        None => (Content::Bytes(Bytes::new()), None),
        Some(BodyArgs::Json(json)) => (Content::Bytes(json.get().to_owned().into()), Some(fixed("application/json"))),
        Some(BodyArgs::Text(text)) => (Content::Bytes(text.into()), Some(fixed("text/plain; charset=utf-8"))),
        Some(BodyArgs::Base64(text)) => {
            let bytes =
                STANDARD.decode(text).map_err(|_| problems::bad_arguments("at /body/base64: this is not base64"))?;
            (Content::Bytes(bytes.into()), Some(fixed("application/octet-stream")))
        }
        Some(BodyArgs::Blob(handle)) => {
            let blob = Blob::of_value(&handle)
                .ok_or_else(|| problems::bad_arguments("at /body/blob: this is not the handle of a blob"))?;
            let media_type = HeaderValue::from_str(&blob.media_type).ok();
            (Content::Blob(blob), media_type)
        }
    })
}

fn read_duration(text: &str) -> Result<Duration, Problem> {
    let bad = || problems::bad_arguments("at /timeout: a duration looks like `500ms`, `30s`, `5m`");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    Ok(Duration::from_millis(number.saturating_mul(milliseconds)))
}

fn read_expected(list: &[Value]) -> Result<Vec<Expected>, Problem> {
    let read = |value: &Value| match (value.as_str(), value.as_f64()) {
        (Some("*"), _) => Ok(Expected::Any),
        (Some(text), _) => match text.strip_suffix("xx").and_then(|digit| digit.parse().ok()) {
            Some(digit) => Ok(Expected::Class(digit)),
            None => Err(problems::bad_arguments("at /expect: statuses look like `[\"2xx\", 404]`")),
        },
        (None, Some(number)) => Ok(Expected::Exactly(number as u16)),
        (None, None) => Err(problems::bad_arguments("at /expect: statuses look like `[\"2xx\", 404]`")),
    };
    list.iter().map(read).collect()
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
