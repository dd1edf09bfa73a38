//! Asking the API of a server, and why it refuses.

use super::authority::{Authority, trusting, unanswered};
use super::logins::Logins;
use super::read_body::ReadBody;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::dispatch::http::{Client, client};
use crate::host::LoadError;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;
use url::{Host, Url};

/// How long an answer may take, and its bytes.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How long an upload may take.
const UPLOAD_TIME_MAX: Duration = Duration::from_mins(10);

/// How long a stream may be silent: the server sends a comment every 15 s.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Bytes of a line of a stream: a record with the largest payload, in base64.
const LINE_BYTES_MAX: usize = 64 << 20;

/// How long an upload may take beside [`UPLOAD_TIME_MAX`]: the server waits as long.
const UPLOAD_BYTES_PER_SECOND: u64 = 16 << 10;

/// What is sent.
type Outgoing = UnsyncBoxBody<Bytes, std::io::Error>;

/// What comes of an answer.
type Incoming = UnsyncBoxBody<Bytes, String>;

/// A server, and the token for it.
pub(in crate::cli) struct Server {
    url: Url,
    token: HeaderValue,
    client: Client<Outgoing>,
    runtime: tokio::runtime::Runtime,
}

/// Where a server is.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ServerAddress {
    /// Its URL.
    pub(in crate::cli) url: String,
    /// The file of `--ca`.
    pub(in crate::cli) ca: Option<PathBuf>,
}

/// What is asked of a server. The path begins behind `/v1/`.
pub(in crate::cli) struct Ask<'a> {
    pub(in crate::cli) method: Method,
    pub(in crate::cli) path: &'a [&'a str],
    pub(in crate::cli) query: &'a [(&'a str, String)],
    pub(in crate::cli) body: Body<'a>,
    /// The idempotency key.
    pub(in crate::cli) key: Option<&'a str>,
}

/// What is sent.
#[derive(Clone, Copy)]
pub(in crate::cli) enum Body<'a> {
    None,
    Json(&'a Value),
    Component(&'a Bytes),
}

impl<'a> Ask<'a> {
    pub(in crate::cli) fn get(path: &'a [&'a str]) -> Self {
        Self { method: Method::GET, path, query: &[], body: Body::None, key: None }
    }

    pub(in crate::cli) fn post(path: &'a [&'a str], body: &'a Value) -> Self {
        Self { method: Method::POST, path, query: &[], body: Body::Json(body), key: None }
    }

    pub(in crate::cli) fn query(mut self, query: &'a [(&'a str, String)]) -> Self {
        self.query = query;
        self
    }
}

/// Why a request came to nothing.
pub(in crate::cli) enum Refused {
    /// The server refused it.
    Problem(Problem),
    /// There was no answer.
    Other(UserError),
}

/// A problem of the API: RFC 9457.
pub(in crate::cli) struct Problem {
    pub(in crate::cli) kind: String,
    pub(in crate::cli) value: Value,
    error: UserError,
}

impl From<UserError> for Refused {
    fn from(error: UserError) -> Self {
        Self::Other(error)
    }
}

impl From<Refused> for UserError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Problem(problem) => problem.error,
            Refused::Other(error) => error,
        }
    }
}

impl From<Refused> for CommandError {
    fn from(refused: Refused) -> Self {
        Self::User(refused.into())
    }
}

/// The URL of a server: HTTPS, or HTTP to this machine.
pub(in crate::cli) fn server_url(text: &str) -> Result<Url, UserError> {
    let bad =
        |why: &str| UserError::new(kind::USAGE, format!("{text} {why}")).hint("--server https://flows.example.com");
    let url: Url = text.parse().map_err(|_| bad("is no URL"))?;
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("has a name or a password: WFHOST_TOKEN has the token"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has more than the address of a server"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        "http" => Err(bad("would carry the token as plain text")),
        _ => Err(bad("is not a URL of HTTP")),
    }
}

/// The token for a server: that of the environment, or else that of the login there.
pub(in crate::cli) fn token_for(url: &Url) -> Result<String, UserError> {
    if let Some(token) = std::env::var("WFHOST_TOKEN").ok().filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    let name = named(url);
    let login = Logins::read()?.servers.remove(&name);
    login.map(|login| login.token).ok_or_else(|| {
        UserError::new(kind::USAGE, format!("there is no token for {name}")).hint(format!(
            "wfhost login {name} stores one; WFHOST_TOKEN gives one; on the server, `wfhost token create` makes one"
        ))
    })
}

impl Server {
    /// The server at this URL, with the token of the environment, or else that of the login there.
    pub(in crate::cli) fn at(address: &ServerAddress) -> Result<Self, UserError> {
        let url = server_url(&address.url)?;
        let token = token_for(&url)?;
        let authority = Authority::of(address.ca.as_deref(), &named(&url))?;
        Self::with_token(url, &token, authority.as_ref())
    }

    /// The server with a token, trusted by this authority too.
    pub(in crate::cli) fn with_token(url: Url, token: &str, authority: Option<&Authority>) -> Result<Self, UserError> {
        let mut token = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| UserError::new(kind::USAGE, "the token has characters that a request cannot carry"))?;
        token.set_sensitive(true);
        let fault = |why: String| UserError::new(kind::HOST_FAULT, why);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| fault(format!("no thread can wait: {error}")))?;
        let config = Arc::new(trusting(authority)?);
        let client = {
            let _in = runtime.enter();
            client(&config).map_err(|error| fault(error.to_string()))?
        };
        Ok(Self { url, token, client, runtime })
    }

    /// The server as people write it.
    pub(in crate::cli) fn name(&self) -> String {
        named(&self.url)
    }

    /// Asks it. Returns the status and the JSON of an answer that is a success.
    pub(in crate::cli) fn ask(&self, ask: Ask<'_>) -> Result<(StatusCode, Value), Refused> {
        let time = if matches!(ask.body, Body::Component(_)) { UPLOAD_TIME_MAX } else { ANSWER_TIME_MAX };
        self.answer(self.request(&ask, "application/json")?, time)
    }

    /// The status and the JSON of an answer that is a success, and comes in time.
    fn answer(&self, request: http::Request<Outgoing>, time: Duration) -> Result<(StatusCode, Value), Refused> {
        let (status, bytes, after) = self.runtime.block_on(async {
            let answer = tokio::time::timeout(time, self.whole(request)).await;
            answer.unwrap_or_else(|_| Err(self.silent("it took too long".to_owned(), None)))
        })?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok((status, value));
        }
        Err(self.refused(status, after.as_deref(), value))
    }

    /// Stores a blob of at most so many bytes there, which is read as it is sent. Returns its
    /// handle.
    pub(in crate::cli) fn upload(
        &self,
        content: impl Read + Send + 'static,
        bytes_max: u64,
        media_type: &'static str,
    ) -> Result<Value, Refused> {
        let ask = Ask { method: Method::POST, ..Ask::get(&["blobs"]) };
        let mut request = self.request(&ask, "application/json")?;
        *request.body_mut() = ReadBody::new(content).boxed_unsync();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let time = UPLOAD_TIME_MAX + Duration::from_secs(bytes_max / UPLOAD_BYTES_PER_SECOND);
        self.answer(request, time).map(|(_, handle)| handle)
    }

    /// Asks it, for the JSON alone.
    pub(in crate::cli) fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, Refused> {
        Ok(self.ask(Ask::get(path).query(query))?.1)
    }

    /// Reads a stream line by line, without its line ends, until it ends or `take` returns false.
    pub(in crate::cli) fn lines(
        &self,
        ask: &Ask<'_>,
        accept: &'static str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let broken = |why: String| CommandError::User(self.silent(format!("the stream broke off: {why}"), None));
        let mut left = Vec::new();
        let is_whole = self.stream(ask, accept, &mut |bytes| {
            let mut rest = bytes;
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                left.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                if !take(&left)? {
                    return Ok(false);
                }
                left.clear();
            }
            left.extend_from_slice(rest);
            if left.len() > LINE_BYTES_MAX {
                return Err(broken("a line is too long".to_owned()));
            }
            Ok(true)
        })?;
        if !is_whole || left.is_empty() { Ok(()) } else { take(&left).map(drop) }
    }

    /// Writes the content of a blob, which is compared with its digest. The error is a sentence for
    /// the user.
    pub(in crate::cli) fn download(
        &self,
        path: &[&str],
        digest: &str,
        to: &mut dyn std::io::Write,
    ) -> Result<(), String> {
        let mut hasher = blake3::Hasher::new();
        let streamed = self.stream(&Ask::get(path), "*/*", &mut |bytes| {
            hasher.update(bytes);
            to.write_all(bytes)?;
            Ok(true)
        });
        streamed.map_err(|error| match error {
            CommandError::User(error) => error.title,
            CommandError::Internal(error) => error.to_string(),
        })?;
        if digest.strip_prefix("blake3:") != Some(hasher.finalize().to_hex().as_str()) {
            return Err(format!("{} sent another content than that of {digest}", self.name()));
        }
        Ok(())
    }

    /// Reads a stream part by part, until it ends or `take` returns false. Returns whether it
    /// ended.
    fn stream(
        &self,
        ask: &Ask<'_>,
        accept: &'static str,
        take: &mut dyn FnMut(&[u8]) -> Result<bool, CommandError>,
    ) -> Result<bool, CommandError> {
        let request = self.request(ask, accept)?;
        let broken = |why: String| CommandError::User(self.silent(format!("the stream broke off: {why}"), None));
        self.runtime.block_on(async {
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, self.begun(request)).await;
            let answer = answer.unwrap_or_else(|_| Err(self.silent("it took too long".to_owned(), None)))?;
            let status = answer.status();
            if !status.is_success() {
                let after = retry_after(answer.headers());
                let bytes = self.bytes(answer.into_body()).await?;
                let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                return Err(self.refused(status, after.as_deref(), value).into());
            }
            let mut body = answer.into_body();
            loop {
                let frame = tokio::time::timeout(SILENCE_MAX, body.frame()).await;
                let Some(frame) = frame.map_err(|_| broken("the server is silent".to_owned()))? else {
                    return Ok(true);
                };
                let Ok(bytes) = frame.map_err(broken)?.into_data() else { continue };
                if !take(&bytes)? {
                    return Ok(false);
                }
            }
        })
    }

    fn request(&self, ask: &Ask<'_>, accept: &'static str) -> Result<http::Request<Outgoing>, UserError> {
        // URLs drop such segments: the path would be another.
        if let Some(segment) = ask.path.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(UserError::new(kind::USAGE, format!("a server knows nothing by the name `{segment}`")));
        }
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(ask.path);
        }
        if !ask.query.is_empty() {
            url.query_pairs_mut().extend_pairs(ask.query);
        }
        let (body, kind) = match ask.body {
            Body::None => (Bytes::new(), None),
            Body::Json(value) => (Bytes::from(value.to_string()), Some("application/json")),
            Body::Component(bytes) => (bytes.clone(), Some("application/wasm")),
        };
        let unfit =
            |what: &str| UserError::new(kind::USAGE, format!("{what} has characters that a request cannot carry"));
        let mut request = http::Request::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = url.as_str().parse().map_err(|_| unfit("the URL"))?;
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.token.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if let Some(key) = ask.key {
            headers.insert("idempotency-key", HeaderValue::from_str(key).map_err(|_| unfit("the id"))?);
        }
        Ok(request)
    }

    async fn begun(&self, request: http::Request<Outgoing>) -> Result<http::Response<Incoming>, UserError> {
        let mut client = self.client.clone();
        let answer = client.call(request).await.map_err(|error| {
            let (why, hint) = unanswered(&error);
            self.silent(why, hint)
        })?;
        Ok(answer.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }

    async fn whole(
        &self,
        request: http::Request<Outgoing>,
    ) -> Result<(StatusCode, Vec<u8>, Option<String>), UserError> {
        let answer = self.begun(request).await?;
        let (status, after) = (answer.status(), retry_after(answer.headers()));
        Ok((status, self.bytes(answer.into_body()).await?, after))
    }

    async fn bytes(&self, mut body: Incoming) -> Result<Vec<u8>, UserError> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.silent(format!("the answer broke off: {error}"), None))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > ANSWER_BYTES_MAX {
                return Err(self.silent("the answer is too large".to_owned(), None));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }

    /// The error of a server that does not answer.
    fn silent(&self, why: String, hint: Option<String>) -> UserError {
        let error = UserError::new(kind::HOST_FAULT, format!("{} does not answer: {why}", self.name()));
        error.hint(hint.unwrap_or_else(|| "`wfhost serve` starts a server; --server names another".to_owned()))
    }

    /// The error of a problem of the API.
    fn refused(&self, status: StatusCode, after: Option<&str>, value: Value) -> Refused {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let Some(word) = text("kind") else {
            let title = format!("{} answers {status}, and not as wfhost does", self.name());
            return Refused::Other(
                UserError::new(kind::HOST_FAULT, title).hint("--server names the URL of `wfhost serve`"),
            );
        };
        let mut title = text("detail").or_else(|| text("title")).unwrap_or_else(|| format!("the server says {status}"));
        let parts: Vec<(String, String)> = value["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|part| {
                let text = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
                (text("pointer"), text("message"))
            })
            .collect();
        let is_of_inputs = |(pointer, _): &(String, String)| pointer == "/inputs" || pointer.starts_with("/inputs/");
        if word == "does-not-fit" && !parts.is_empty() && parts.iter().all(is_of_inputs) {
            let inputs = parts.into_iter().map(|(pointer, message)| {
                let pointer = pointer.trim_start_matches("/inputs").to_owned();
                (if pointer.is_empty() { "/".to_owned() } else { pointer }, message)
            });
            let error = LoadError::Inputs(inputs.collect()).into();
            return Refused::Problem(Problem { kind: word, value, error });
        }
        if parts.iter().all(|(pointer, _)| pointer != "/source") {
            for (pointer, message) in &parts {
                title.push_str(&format!("; {pointer}: {message}"));
            }
        }
        let mut hint = text("hint");
        hint = hint
            .or_else(|| value["errors"].as_array()?.iter().find_map(|part| part["hint"].as_str().map(str::to_owned)));
        let name = self.name();
        let class = match word.as_str() {
            "unauthenticated" => {
                title = format!("{name} does not accept the token: it is unknown, expired or revoked");
                hint =
                    hint.or_else(|| Some(format!("wfhost login {name} stores another; WFHOST_TOKEN comes before it")));
                kind::USAGE
            }
            "not-granted" => {
                hint = hint.or_else(|| Some("`wfhost token create` on the server makes another token".to_owned()));
                kind::USAGE
            }
            "run-ended" | "run-unfinished" | "nothing-to-retry" | "retried" | "diverged" => kind::WRONG_STATE,
            "not-active" | "run-exists" | "key-reused" => kind::CONFLICT,
            "no-place" => kind::NO_PLACE,
            "queue-full" => kind::QUEUE_FULL,
            "damaged" => kind::JOURNAL,
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                let again = || after.map(|seconds| format!("try again in {seconds} s"));
                let id = || text("request-id").map(|id| format!("the server's log has the request {id}"));
                hint = hint.or_else(again).or_else(id);
                kind::HOST_FAULT
            }
            _ => kind::USAGE,
        };
        Refused::Problem(Problem { error: UserError::new(class, title).hint_maybe(hint), kind: word, value })
    }
}

fn retry_after(headers: &http::HeaderMap) -> Option<String> {
    headers.get(RETRY_AFTER)?.to_str().ok().map(str::to_owned)
}

/// A server's URL without the slash at its end: the name that logins have.
pub(in crate::cli) fn named(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_by_tls_or_to_this_machine_only() {
        for good in ["https://flows.example.com", "http://127.0.0.1:7007/", "http://[::1]:7", "http://localhost/wf"] {
            assert!(server_url(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("http://flows.example.com", "plain text"),
            ("http://10.0.0.1:7007", "plain text"),
            ("ftp://localhost", "not a URL of HTTP"),
            ("localhost:7007", "not a URL of HTTP"),
            ("flows", "no URL"),
            ("https://ann:secret@flows.example.com", "password"),
            ("https://flows.example.com/?a=b", "more than"),
        ] {
            let refused = server_url(bad).err().unwrap();
            assert!(refused.title.contains(why), "{}", refused.title);
        }
        assert_eq!(named(&server_url("http://localhost:7007/").unwrap_or_else(|_| panic!())), "http://localhost:7007");
    }
}
