//! `http`: sends requests to servers.
//!
//! # Arguments
//! ```yaml
//! url: https://api.example.com/items   # required
//! method: POST                         # GET; HEAD, POST, PUT, PATCH, DELETE, OPTIONS
//! headers: { accept: text/csv }        # a text or a list of texts each
//! query: { page: 2, tag: [a, b] }      # appended to the URL's own
//! auth: { bearer: "${ .secrets.TOKEN }" }   # or { basic: { user: ann, password: … } }
//! body: { json: { name: Ann } }        # or { text: … }, { base64: … }, { blob: … }; sets
//!                                      # content-type unless headers do
//! timeout: 30s                         # ms, s, m, h; for everything, redirects and body included
//! max-response-bytes: 100000           # after decompression
//! redirects: 0                         # 5 for GET, HEAD and OPTIONS, else 0; 5 at most
//! expect: ["2xx", 404]                 # statuses that are answers; ["2xx", "3xx"]. "*" is every
//!                                      # status. Any other status is a problem
//! as: auto                             # json, text, base64; bytes answers with the body alone;
//!                                      # blob streams it into a blob of the run
//! repeatable: true                     # the server honours Idempotency-Key: a repeat is harmless
//! ```
//! # Answer
//! `{ status, url, headers, encoding, body }`. `encoding` is `json` (the body is the value, byte
//! for byte), `text`, `base64`, `blob` (the body is its handle), or `none` (the body is null).
//! `url` is the target of the last redirect. Names of header fields are in lower case.
//!
//! # Problems
//! | kind | class | when |
//! |---|---|---|
//! | `not-granted`, `address-refused` | definite | refused by the grant, by the operator |
//! | `connection-failed` | retryable | no connection, no name; definite: bad certificate |
//! | `http-timed-out` | retryable | if nothing was sent, or a repeat is harmless; else uncertain |
//! | `connection-lost` | retryable | if a repeat is harmless; else uncertain |
//! | `http-status` | definite | an unexpected status; see below |
//! | `response-too-large`, `bad-response` | definite | if a repeat is harmless; else uncertain |
//! | `bad-redirect` | definite | if a repeat is harmless; else uncertain |
//!
//! | `secret-refused` | definite | a secret would leave where it may not |
//! | `secret-missing` | retryable | a secret cannot be read now; definite: no header can hold it |
//!
//! `response-too-large`, `bad-response` and `bad-redirect` are uncertain then, because the server
//! has seen the request. `http-status` is retryable after 408, 425, 429, 503, and after another 5xx
//! if a repeat is harmless, else uncertain there. `retry-after` is honoured; `data` is the answer
//! with 16 KiB of its body.
//!
//! If a redirect turned a request that is not safe to repeat into a GET (303, say), that request
//! has happened: every later problem is uncertain. A repeat is harmless if the method is
//! idempotent, or the call says `repeatable`. Every method that is not safe carries the logical
//! call's key in `Idempotency-Key` (as its BLAKE3 digest if it does not fit a header field), unless
//! the call sets its own.
//!
//! # Invariants
//! - **H1** Each hop, redirects included, matches a pattern that the workflow grants ([`Pattern`]);
//!   the URL that is checked and the URL that is sent are the same normalised one.
//! - **H2** Each connection goes to an address that was checked: public, or permitted by the
//!   operator ([`HttpConfig`]). Names are resolved once for it. A reused connection was checked
//!   when it was made, by the same rules.
//! - **H3** No environment variable has any influence: no proxy, no certificate store.
//! - **H4** Responses are bounded: the head at 64 KiB and 100 fields, the body after decompression.
//!   One that becomes a blob has the bounds of blobs, and is never in memory as a whole.
//! - **H5** A redirect to another origin carries only those header fields that hold no secret.
//! - **H6** A secret of the workflow is in a message only after the check of its hop, in a field
//!   and at a host that its declaration names, over TLS; and in no response that a process gets.

mod address;
mod body;
mod config;
mod connect;
mod exchange;
mod hook;
mod pattern;
mod request;
mod response;
mod sealed;
mod secret_host;
mod simulated;
mod target;

pub use address::{Permission, PermissionError};
pub use config::HttpConfig;
pub use hook::{Hop, HttpHook};
pub use pattern::Pattern;
pub use secret_host::SecretHost;
pub(crate) use simulated::{SimulatedBody, SimulatedRequest, SimulatedResponse};

use super::{CallContext, Declaration, Handler, Handling, Secrets, problems};
use crate::process::{Grants, Payload, Problem, handler};
use connect::Sender;
use exchange::Around;
use hook::CallHook;
use parking_lot::RwLock;
use request::Request;
use sealed::CallSecrets;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The capability under which requests are granted.
const CAPABILITY: &str = handler::HTTP;

/// Parsed patterns that are cached. Arbitrary; beyond it the cache is cleared.
const PATTERNS_MAX: usize = 4096;

/// A client that sends requests to permitted addresses only.
/// The host that the request of a call goes to, with its port: `example.com:443`.
pub(super) fn host_of(args: &Payload) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Target<'a> {
        #[serde(borrow)]
        url: std::borrow::Cow<'a, str>,
    }
    let Payload::Json(json) = args else { return None };
    let target: Target<'_> = serde_json::from_str(json.as_str()).ok()?;
    let url = target::parse(&target.url).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

pub(crate) type Client<B = http_body_util::Full<bytes::Bytes>> = Sender<B>;

/// Makes a client with these settings, for what the host itself fetches.
///
/// # Errors
/// A certificate of the configuration cannot be used.
pub(crate) fn client<B>(config: &Arc<HttpConfig>) -> Result<Client<B>, HttpError>
where
    B: http_body::Body<Data: Send> + Send,
{
    Ok(connect::sender(config)?)
}

/// Says why a request of a [`Client`] got no answer, and what to do if its address was refused.
pub(crate) fn no_answer(error: &(dyn std::error::Error + 'static)) -> (String, Option<String>) {
    match connect::refusal(error) {
        Some(refused) => (
            format!("{refused}, which the operator does not permit"),
            Some(format!("--allow-address {} permits it", refused.host)),
        ),
        None => (exchange::innermost(error), None),
    }
}

/// Returns why the certificate of a server was refused, if that is why there is no answer.
pub(crate) fn refused_certificate<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e rustls::CertificateError> {
    match connect::cause::<rustls::Error>(error)? {
        rustls::Error::InvalidCertificate(refused) => Some(refused),
        _ => None,
    }
}

/// The handler `http`. [This module](self) documents its arguments, answers and problems.
pub struct Http {
    config: Arc<HttpConfig>,
    /// Built by the first request: reading the roots of trust takes longer than starting a host.
    sender: OnceLock<Sender>,
    patterns: RwLock<HashMap<String, Option<Arc<Pattern>>>>,
    hook: Option<Arc<dyn HttpHook>>,
    secrets: Arc<Secrets>,
}

/// The reason why an `http` handler cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// One of the operator's certificates cannot be used.
    #[error("a root certificate of the configuration cannot be used")]
    BadRoot(#[from] rustls::Error),
}

impl Http {
    /// Creates a handler with this configuration.
    ///
    /// # Errors
    /// A certificate of the configuration cannot be used.
    pub fn new(config: HttpConfig) -> Result<Self, HttpError> {
        let mut store = rustls::RootCertStore::empty();
        for root in &config.roots {
            store.add(root.clone().into())?;
        }
        Ok(Self {
            config: Arc::new(config),
            sender: OnceLock::new(),
            patterns: RwLock::default(),
            hook: None,
            secrets: Arc::default(),
        })
    }

    /// Calls this, if it is given, around each request.
    #[must_use]
    pub fn hooked(self, hook: Option<Arc<dyn HttpHook>>) -> Self {
        Self { hook, ..self }
    }

    /// Puts in the values of these secrets.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<Secrets>) -> Self {
        Self { secrets, ..self }
    }

    fn sender(&self) -> Sender {
        let make = || connect::sender(&self.config).expect("invariant: the certificates were read before");
        self.sender.get_or_init(make).clone()
    }

    /// Checks that one of the patterns grants a request.
    fn is_granted(&self, patterns: &[String], method: &http::Method, url: &url::Url) -> Result<(), Problem> {
        let grants = |text: &String| self.pattern(text).is_some_and(|pattern| pattern.matches(method, url));
        if patterns.iter().any(grants) {
            return Ok(());
        }
        let wanted = target::without_query(url);
        let data = serde_json::json!({
            "capability": CAPABILITY, "pattern": request::pattern_of(method.as_str(), url),
        });
        Err(problems::not_granted(format!("no pattern of `allow: {{ http: … }}` covers {method} {wanted}"))
            .with_data(&data))
    }

    /// Returns a pattern, parsed once; `None` if it is not valid, and so grants nothing.
    fn pattern(&self, text: &str) -> Option<Arc<Pattern>> {
        if let Some(known) = self.patterns.read().get(text) {
            return known.clone();
        }
        let read = text.parse().ok().map(Arc::new);
        let mut patterns = self.patterns.write();
        if patterns.len() >= PATTERNS_MAX {
            patterns.clear();
        }
        patterns.insert(text.to_owned(), read.clone());
        read
    }

    async fn call(&self, args: Payload, context: CallContext) -> Result<Payload, Problem> {
        let mut request = Request::read(&args, context.idempotency_key(), &self.config)?;
        if let Some(Ok(place)) = context.traceparent().map(|place| http::HeaderValue::from_str(place)) {
            request.headers.entry("traceparent").or_insert(place);
        }
        drop(args);
        let grants: &Grants = context.grants();
        let is_granted = |method: &http::Method, url: &url::Url| {
            self.is_granted(grants.of(CAPABILITY).unwrap_or_default(), method, url)
        };
        let payload_bytes_max = context.limits().payload_bytes;
        let secrets = CallSecrets::new(&self.secrets, grants, self.config.plain_secrets_to_loopback);
        let around = Around {
            is_granted: &is_granted,
            hook: CallHook { hook: self.hook.as_ref(), call: &context },
            blobs: context.blobs(),
            secrets: &secrets,
        };
        exchange::exchange(self.sender(), &self.config, request, payload_bytes_max, around).await
    }
}

impl Handler for Http {
    fn declaration(&self) -> Declaration {
        let declaration = Declaration::new("Sends an HTTP request")
            .schema(request::schema())
            .capability(CAPABILITY)
            .grant_arguments(["url", "method"])
            .concurrency(self.config.concurrent_max, self.config.waiting_max);
        match self.config.rate {
            Some(rate) => declaration.rate(rate),
            None => declaration,
        }
    }

    fn is_repeatable(&self, args: &Payload) -> bool {
        request::is_repeatable(args)
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), String> {
        pattern.parse::<Pattern>().map(drop)
    }

    fn narrows(&self, granted: &[String], wanted: &str) -> bool {
        let Some(wanted) = self.pattern(wanted) else { return false };
        granted.iter().any(|text| self.pattern(text).is_some_and(|pattern| pattern.covers(&wanted)))
    }

    fn check_grant(&self, patterns: &[String], args: &Payload) -> Result<(), Problem> {
        let (method, url) = request::target_of(args)?;
        self.is_granted(patterns, &method, &url)
    }

    fn pattern_for(&self, args: &Payload) -> Option<String> {
        request::pattern_for(args)
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        Handling::later(async move { self.call(args, context).await.map_err(Arc::new) })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("config", &self.config).finish_non_exhaustive()
    }
}
