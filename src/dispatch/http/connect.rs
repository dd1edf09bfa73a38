//! Connections. The address of every connection is checked here, whatever its origin: a name, an
//! address in the URL, a redirect.
//!
//! A name is resolved once. The resolver passes only the allowed addresses to the connector, so no
//! second lookup can yield another one. An address in a URL never reaches the resolver, so the
//! connector checks those.
//!
//! *Rejected*: reqwest. It cannot report whether a request that timed out had a connection, which
//! decides whether its outcome is known; and it reads proxy variables and follows redirects unless
//! configured otherwise. hyper's own client does neither.

use super::address::{self, Refused};
use super::body::Outgoing;
use super::config::HttpConfig;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_http::decompression::Decompression;
use tower_service::Service;

/// Header fields of a response at most. Arbitrary.
const RESPONSE_HEADERS_MAX: usize = 100;

/// Bytes of a response's head at most. Arbitrary.
pub(super) const RESPONSE_HEAD_BYTES_MAX: usize = 64 << 10;

/// How long an unused connection is kept. Arbitrary.
const IDLE_CONNECTION: Duration = Duration::from_secs(90);

type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
type BoxError = Box<dyn Error + Send + Sync>;

/// The client that sends requests, pools connections and decompresses responses.
pub(super) type Sender<B = Outgoing> = Decompression<Client<HttpsConnector<CheckedConnector>, B>>;

/// Builds the client.
///
/// # Errors
/// One of the operator's certificates is not valid.
pub(super) fn sender<B>(config: &Arc<HttpConfig>) -> Result<Sender<B>, rustls::Error>
where
    B: http_body::Body<Data: Send> + Send,
{
    let mut tcp = HttpConnector::new_with_resolver(Resolver(Arc::clone(config)));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.connect_timeout));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls(config)?)
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(CheckedConnector { config: Arc::clone(config), tcp });
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(config.idle_connections_per_host_max)
        .http1_max_headers(RESPONSE_HEADERS_MAX)
        .http1_max_buf_size(RESPONSE_HEAD_BYTES_MAX)
        .http2_max_header_list_size(RESPONSE_HEAD_BYTES_MAX as u32)
        .build(connector);
    Ok(Decompression::new(client))
}

fn tls(config: &HttpConfig) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for root in &config.roots {
        roots.add(root.clone().into())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Resolves names to the addresses that requests may go to.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<HttpConfig>);

impl Resolver {
    async fn resolve(config: Arc<HttpConfig>, name: Name) -> io::Result<std::vec::IntoIter<SocketAddr>> {
        let name = name.as_str();
        let found: Vec<SocketAddr> = match config.hosts.get(name) {
            Some(fixed) => fixed.iter().map(|ip| SocketAddr::new(*ip, 0)).collect(),
            None => tokio::net::lookup_host((name, 0)).await?.collect(),
        };
        let mut refused = None;
        let mut allowed = Vec::with_capacity(found.len());
        for socket in found {
            match address::check(&config.permissions, name, socket.ip()) {
                Ok(()) => allowed.push(socket),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match refused {
            Some(refusal) if allowed.is_empty() => Err(io::Error::other(refusal)),
            _ => Ok(allowed.into_iter()),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(Self::resolve(Arc::clone(&self.0), name))
    }
}

/// Makes TCP connections, after a check of the address if the URL has one.
#[derive(Clone)]
pub(crate) struct CheckedConnector {
    config: Arc<HttpConfig>,
    tcp: HttpConnector<Resolver>,
}

impl Service<Uri> for CheckedConnector {
    type Response = <HttpConnector<Resolver> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<Self::Response, BoxError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if let Ok(ip) = host.parse::<IpAddr>()
            && let Err(refusal) = address::check(&self.config.permissions, host, ip)
        {
            return Box::pin(std::future::ready(Err(refusal.into())));
        }
        let connecting = self.tcp.call(uri);
        Box::pin(async move { connecting.await.map_err(Into::into) })
    }
}

/// Finds an error of a type among the causes of another. `source` does not show the error that an
/// I/O error wraps.
pub(super) fn cause<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// Returns the refused address, if that is why there is no connection.
pub(super) fn refusal<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Refused> {
    cause(error)
}
