//! Sends spans to a collector, from a bounded queue.

use super::follow::follow;
use super::messages::{ExportRequest, Resource, ResourceSpans, Scope, ScopeSpans, Span, text};
use crate::dispatch::http::{Client, HttpConfig, Permission, client, no_answer};
use crate::host::Host;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;
use tower_service::Service as _;
use url::Url;

/// Spans that wait to be sent. Further ones are dropped.
const QUEUE_MAX: usize = 65_536;

/// Spans of one request.
const BATCH_MAX: usize = 512;

/// How long spans gather for a request.
const GATHER: Duration = Duration::from_millis(500);

/// How long a request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// How often a request is tried, and the pause before the second time; it doubles.
const TRIES_MAX: u32 = 6;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Where traces go.
#[derive(Clone, Debug)]
pub struct OtlpOptions {
    /// The collector, such as `http://localhost:4318`: `/v1/traces` is added.
    pub endpoint: String,
    /// Header fields of each request, such as one with a key.
    pub headers: Vec<(String, String)>,
    /// The name of the service in the traces.
    pub service: String,
}

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The endpoint is no URL of HTTP.
    #[error("`{0}` is no URL of HTTP")]
    Endpoint(String),
    /// A header field cannot be sent.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
    /// The client cannot be made.
    #[error("no client can be made: {0}")]
    Client(String),
}

/// Spans on their way, and their counts.
pub(super) struct Queue {
    sender: mpsc::Sender<Span>,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Queue {
    /// Puts a span into the queue, or drops it.
    pub(super) fn put(&self, span: Span) {
        if self.sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Counts changes that were not noticed. Each may have had spans.
    pub(super) fn note_missed(&self, changes: u64) {
        self.dropped.fetch_add(changes, Relaxed);
    }
}

/// Sends traces until it is dropped.
pub struct Exporter {
    queue: Arc<Queue>,
    tasks: [tokio::task::JoinHandle<()>; 2],
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Exporter {
    /// Begins to send the traces of a host's durable runs. Call it on a runtime.
    ///
    /// # Errors
    /// Says what is wrong with the options.
    pub fn start(host: &Host, options: &OtlpOptions) -> Result<Self, OtlpError> {
        let destination = Destination::new(options)?;
        host.trace_calls();
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let queue = Arc::new(Queue { sender, sent: AtomicU64::new(0), dropped: AtomicU64::new(0) });
        let sending = tokio::spawn(send_all(destination, receiver, Arc::clone(&queue)));
        let following = tokio::spawn(follow(host.clone(), Arc::clone(&queue)));
        Ok(Self { queue, tasks: [following, sending] })
    }

    /// How many spans a collector has accepted, and how many were dropped.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.queue.sent.load(Relaxed), self.queue.dropped.load(Relaxed))
    }

    /// Waits until what is in the queue is sent, at most this long.
    pub async fn flush(&self, time_max: Duration) {
        let sender = &self.queue.sender;
        let empty = async {
            while sender.capacity() < sender.max_capacity() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(time_max, empty).await;
    }
}

/// A collector.
struct Destination {
    client: Client,
    url: http::Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Resource,
}

impl Destination {
    fn new(options: &OtlpOptions) -> Result<Self, OtlpError> {
        let wrong = || OtlpError::Endpoint(options.endpoint.clone());
        let url = format!("{}/v1/traces", options.endpoint.trim_end_matches('/'));
        let parsed = Url::parse(&url).map_err(|_| wrong())?;
        let host = parsed.host_str().filter(|_| matches!(parsed.scheme(), "http" | "https")).ok_or_else(wrong)?;
        let host = host.trim_matches(['[', ']']);
        // The operator has named it, so it may be any address.
        let permission = match host.parse::<std::net::IpAddr>() {
            Ok(address) => Permission::Network { address, prefix: if address.is_ipv4() { 32 } else { 128 } },
            Err(_) => Permission::Host(host.to_owned()),
        };
        let config = Arc::new(HttpConfig { permissions: vec![permission], ..HttpConfig::default() });
        let header = |(name, value): &(String, String)| {
            let pair = name.parse().ok().zip(HeaderValue::from_str(value).ok());
            pair.ok_or_else(|| OtlpError::Header(name.clone()))
        };
        Ok(Self {
            client: client(&config).map_err(|error| OtlpError::Client(error.to_string()))?,
            url: parsed.as_str().parse().map_err(|_| wrong())?,
            headers: options.headers.iter().map(header).collect::<Result<_, _>>()?,
            resource: Resource {
                attributes: vec![
                    text("service.name", &*options.service),
                    text("service.version", env!("CARGO_PKG_VERSION")),
                ],
            },
        })
    }

    fn body(&self, spans: Vec<Span>) -> Bytes {
        let scope = Scope { name: "wfhost".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        ExportRequest { resource_spans }.encode_to_vec().into()
    }

    /// Sends a request once. Fails with the reason, and whether another try may help.
    async fn send_once(&mut self, body: Bytes) -> Result<(), (String, bool)> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("wfhost/", env!("CARGO_PKG_VERSION"))));
        headers.extend(self.headers.iter().cloned());
        let whole = async {
            let answer = self.client.call(request).await.map_err(|error| (no_answer(&error).0, true))?;
            let status = answer.status();
            // Read to its end, so that the connection serves the next request.
            let _ = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            match status {
                status if status.is_success() => Ok(()),
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Err((status.to_string(), true)),
                status => Err((status.to_string(), false)),
            }
        };
        let whole = tokio::time::timeout(REQUEST_TIME_MAX, whole).await;
        whole.unwrap_or_else(|_| Err(("no answer in time".to_owned(), true)))
    }
}

async fn send_all(mut destination: Destination, mut receiver: mpsc::Receiver<Span>, queue: Arc<Queue>) {
    let mut spans = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut spans, BATCH_MAX).await > 0 {
        let until = tokio::time::Instant::now() + GATHER;
        while spans.len() < BATCH_MAX {
            let room = BATCH_MAX - spans.len();
            match tokio::time::timeout_at(until, receiver.recv_many(&mut spans, room)).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        let count = spans.len() as u64;
        let body = destination.body(std::mem::take(&mut spans));
        let done = if send(&mut destination, &body).await { &queue.sent } else { &queue.dropped };
        done.fetch_add(count, Relaxed);
    }
}

/// Sends a request, again if that may help. Returns whether it was accepted.
async fn send(destination: &mut Destination, body: &Bytes) -> bool {
    let mut pause = TRY_AGAIN_AFTER;
    for attempt in 1..=TRIES_MAX {
        match destination.send_once(body.clone()).await {
            Ok(()) => return true,
            Err((error, may_help)) => {
                if !may_help || attempt == TRIES_MAX {
                    tracing::warn!(error, "a collector does not accept spans");
                    return false;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    false
}
