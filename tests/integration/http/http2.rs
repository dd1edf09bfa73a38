//! HTTP/2, which a server chooses in the TLS handshake.

use super::{Client, answer, assert_problem, certified, config};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use wfhost::process::ProblemClass::*;

struct Server {
    address: SocketAddr,
    certificate: Vec<u8>,
    connections: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start() -> Self {
        let (certificate, tls) = certified(&["h2"]);
        let acceptor = TlsAcceptor::from(tls);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(acceptor.clone(), stream));
            }
        });
        Self { address, certificate, connections, _runtime: runtime }
    }
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) {
    let stream = acceptor.accept(stream).await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        respond_to(&request, respond);
    }
}

/// Refuses, breaks off, or answers with what the request contained.
fn respond_to(request: &http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    match request.uri().path() {
        "/refuse" => respond.send_reset(Reason::REFUSED_STREAM),
        "/break" => respond.send_reset(Reason::INTERNAL_ERROR),
        _ => {
            let mut body = respond.send_response(http::Response::new(()), false).unwrap();
            body.send_data(request.uri().to_string().into(), true).unwrap();
        }
    }
}

#[test]
fn many_requests_share_one_connection() {
    let server = Server::start();
    let mut config = config();
    config.roots = vec![server.certificate.clone()];
    let client = Client::new(config);
    let url = |path: &str| format!("https://a.test:{}{path}", server.address.port());
    assert_eq!(client.ok(json!({ "url": url("/x?y=1") }))["body"], url("/x?y=1"));
    let calls: Vec<_> = (1..=20).map(|tag| client.dispatch(tag, &json!({ "url": url("/") }))).collect();
    for call in &calls {
        assert!(answer(call).is_ok());
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_refused_stream_did_nothing_and_a_broken_one_may_have() {
    let server = Server::start();
    let mut config = config();
    config.roots = vec![server.certificate.clone()];
    let client = Client::new(config);
    let post = |path: &str| {
        let url = format!("https://a.test:{}{path}", server.address.port());
        client.problem(json!({ "url": url, "method": "POST" }))
    };
    assert_problem(&post("/refuse"), "connection-lost", Retryable);
    assert_problem(&post("/break"), "connection-lost", Uncertain);
}
