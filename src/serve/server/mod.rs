//! Listening: connections, their limits, TLS, and the end.
//!
//! A connection has [`HEADER_TIME_MAX`] for the header of each request, and a body must go on: so a
//! slow client holds a connection and nothing else. A client that takes nothing of what it is sent
//! for [`STALL_MAX`] is left. When the service drains, connections finish what they answer and are
//! closed.

mod files;
mod life;
mod notify;
mod prompt;
mod reload;
mod tls;

pub use life::{ServerError, ServerNotice, ServerOptions, check, deploy_folder, run};
pub use tls::{Certificate, TlsError, TlsFiles};

use super::access::guard::HEADER_BYTES_MAX;
use super::access::rate::Peer;
use super::outgoing::{Closer, STALL_MAX};
use super::router::router;
use super::service::Service;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use prompt::Prompt;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tower_service::Service as _;

/// Connections at one time.
const CONNECTIONS_MAX: usize = 10_000;

/// How long the header of a request, or the handshake of TLS, may take.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// Requests at one time on a connection of HTTP/2.
const STREAMS_MAX: u32 = 100;

/// How long requests may take to end when the service drains.
pub(super) const END_TIME_MAX: Duration = Duration::from_secs(5);

/// The pause after an error of accepting: the process may have too many files open.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Names requests: unlike in two lives of the server.
pub(in crate::serve) fn request_id() -> String {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let boot = BOOT.get_or_init(|| {
        let mut random = [0; 4];
        // Without random bits the names of two lives may be alike, which harms nothing.
        let _ = getrandom::fill(&mut random);
        random.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    });
    format!("{boot}-{:x}", COUNT.fetch_add(1, Relaxed))
}

/// Serves a service on these listeners until it drains, and its requests have ended.
pub async fn serve(service: Arc<Service>, listeners: Vec<TcpListener>, certificate: Option<Arc<Certificate>>) {
    let router = router(&service);
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let (service, router, free, certificate) =
            (Arc::clone(&service), router.clone(), Arc::clone(&free), certificate.clone());
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, from) = tokio::select! {
                    accepted = accept(&listener, &free) => accepted,
                    () = service.drained() => break,
                    Some(_) = connections.join_next() => continue,
                };
                let (service, router) = (Arc::clone(&service), router.clone());
                let acceptor = certificate.as_ref().map(|certificate| certificate.acceptor());
                connections.spawn(async move {
                    let (stream, _turn) = stream;
                    let _ = stream.set_nodelay(true);
                    let peer = Peer(from.ip());
                    match acceptor {
                        None => connection(&service, router, peer, stream).await,
                        Some(acceptor) => {
                            if let Ok(Ok(stream)) = tokio::time::timeout(HEADER_TIME_MAX, acceptor.accept(stream)).await
                            {
                                connection(&service, router, peer, stream).await;
                            }
                        }
                    }
                });
            }
            drop(listener);
            let all = async { while connections.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(END_TIME_MAX, all).await;
        });
    }
    while accepting.join_next().await.is_some() {}
}

type Turn = tokio::sync::OwnedSemaphorePermit;

/// Accepts a connection when there is room for one.
async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> ((TcpStream, Option<Turn>), SocketAddr) {
    let turn = Arc::clone(free).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => return ((stream, turn), from),
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }
}

/// Serves one connection.
async fn connection(
    service: &Arc<Service>,
    router: axum::Router,
    peer: Peer,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let _open = service.requests.connection();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_BYTES_MAX + (16 << 10))
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(30));
    let left = Arc::new(Notify::new());
    let closes = Arc::clone(&left);
    let answers = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        // A router is always ready.
        let answer = router.clone().call(request);
        let closes = Arc::clone(&closes);
        async move {
            let answer = answer.await?;
            if let Some(closer) = answer.extensions().get::<Closer>() {
                closer.closes(&closes);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let stream = Prompt::new(stream, HEADER_TIME_MAX, STALL_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), answers);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = left.notified() => return,
        () = service.drained() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
