//! The service that a command asks.

use super::host::any_registry;
use crate::cli::report::error::{UserError, kind};
use crate::dispatch::http::{client, no_answer};
use bytes::Bytes;
use clap::Args;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;
use url::{Host, Url};

/// Where a service listens unless it is told otherwise.
const SERVER: &str = "http://127.0.0.1:7007";

/// How long an answer may take, and its bytes.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);
const ANSWER_BYTES_MAX: usize = 64 << 20;

#[derive(Args, Debug)]
pub(in crate::cli) struct ServerArguments {
    /// URL of the service [default: `WFHOST_SERVER`, else http://127.0.0.1:7007]. `WFHOST_TOKEN` is
    /// the token.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) server: Option<String>,
}

impl ServerArguments {
    /// Asks the service: the path begins behind `/v1/`. Returns the answer's JSON.
    pub(in crate::cli) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, UserError> {
        let url = self.url(path, query)?;
        let token = std::env::var("WFHOST_TOKEN").map_err(|_| {
            UserError::new(kind::USAGE, "a service needs a token, and WFHOST_TOKEN has none")
                .hint("wfhost token create --name NAME --scope admin")
        })?;
        let mut request = http::Request::new(Full::new(Bytes::from(
            body.map_or_else(Vec::new, |body| body.to_string().into_bytes()),
        )));
        *request.method_mut() = method;
        let unfit =
            |what: &str| UserError::new(kind::USAGE, format!("{what} has characters that a request cannot carry"));
        *request.uri_mut() = url.as_str().parse().map_err(|_| unfit("the URL"))?;
        let headers = request.headers_mut();
        let bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unfit("WFHOST_TOKEN"))?;
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| UserError::new(kind::HOST_FAULT, format!("no thread can wait: {error}")))?;
        let (status, bytes) = runtime.block_on(async {
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, send(&url, request)).await;
            answer.unwrap_or_else(|_| Err(UserError::new(kind::HOST_FAULT, format!("{url} does not answer"))))
        })?;
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(answer);
        }
        Err(refused(status, &answer))
    }

    fn url(&self, path: &[&str], query: &[(&str, String)]) -> Result<Url, UserError> {
        let variable = std::env::var("WFHOST_SERVER").ok();
        let text = self.server.as_deref().or(variable.as_deref()).unwrap_or(SERVER);
        let bad =
            |why: &str| UserError::new(kind::USAGE, format!("{text} {why}")).hint("--server https://flows.example.com");
        let mut url: Url = text.parse().map_err(|_| bad("is no URL"))?;
        let is_here = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        match url.scheme() {
            "https" => {}
            "http" if is_here => {}
            "http" => return Err(bad("would carry the token as plain text")),
            _ => return Err(bad("is not a URL of HTTP")),
        }
        let mut segments = url.path_segments_mut().map_err(|()| bad("is not a URL of HTTP"))?;
        segments.pop_if_empty().push("v1").extend(path);
        drop(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

async fn send(url: &Url, request: http::Request<Full<Bytes>>) -> Result<(StatusCode, Vec<u8>), UserError> {
    let fails = |why: String, hint: Option<String>| {
        let error =
            UserError::new(kind::HOST_FAULT, format!("{} does not answer: {why}", url.origin().ascii_serialization()));
        error.hint(hint.unwrap_or_else(|| "`wfhost serve` starts a service; --server names another".to_owned()))
    };
    let mut client = client(&Arc::new(any_registry())).map_err(|error| fails(error.to_string(), None))?;
    let answer = client.call(request).await.map_err(|error| {
        let (why, hint) = no_answer(&error);
        fails(why, hint)
    })?;
    let (head, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| fails(format!("the answer broke off: {error}"), None))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(fails("the answer is too large".to_owned(), None));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((head.status, bytes))
}

/// The error of a problem of the API.
fn refused(status: StatusCode, problem: &Value) -> UserError {
    let text = |key: &str| problem[key].as_str().map(str::to_owned);
    let mut title = text("detail").or_else(|| text("title")).unwrap_or_else(|| format!("the service says {status}"));
    for part in problem["errors"].as_array().into_iter().flatten() {
        let (pointer, message) = (part["pointer"].as_str().unwrap_or(""), part["message"].as_str().unwrap_or(""));
        title.push_str(&format!("; {pointer}: {message}"));
    }
    let kind = if status.is_server_error() { kind::HOST_FAULT } else { kind::USAGE };
    let error = UserError::new(kind, title);
    let part = |part: &Value| part["hint"].as_str().map(str::to_owned);
    match text("hint").or_else(|| problem["errors"].as_array()?.iter().find_map(part)) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
