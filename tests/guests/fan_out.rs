//! A guest that sends many requests to a server on loopback at the same time.

use crate::support::{builder, outputs, run};
use serde_json::{Value, json};
use server::{Server, response};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wfhost::dispatch::http::HttpConfig;
use wfhost::host::Host;

#[allow(dead_code)] // Shared with the tests of the handler, which need more of it.
#[path = "../integration/http/server.rs"]
mod server;

/// A host whose operator permits requests to loopback.
fn host() -> Host {
    let mut config = HttpConfig::default();
    config.permissions = vec!["127.0.0.0/8".parse().unwrap()];
    builder(2, 16).http(config).build().unwrap()
}

/// The guest's result for these URLs, with these grants.
fn ask(urls: &[String], allow: &Value) -> Value {
    let text = json!({
        "steps": [{ "id": "ask", "uses": "./fanout.wasm", "with": { "urls": urls, "limit": 4 }, "allow": allow }],
        "outputs": { "answers": "${ .steps.ask.output }" },
    });
    outputs(&run(&host(), &text.to_string()))["answers"].clone()
}

#[test]
fn many_requests_some_at_a_time() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (current, highest) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |seen, wire| {
        highest.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let status = if seen.target == "/3" { 404 } else { 200 };
        // Before the answer, after which the guest may send its next request.
        current.fetch_sub(1, Ordering::SeqCst);
        wire.write_all(&response(status, "", &seen.target)).is_ok()
    });
    let mut urls: Vec<String> = (0..20).map(|n| server.url(&format!("/{n}"))).collect();
    // A port on which no server listens any more.
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    urls.push(format!("http://{closed}/"));
    let answers = ask(&urls, &json!({ "http": ["GET http://127.0.0.1:*"] }));
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 21);
    for (n, (answer, url)) in answers.iter().zip(&urls).enumerate() {
        let wanted = match n {
            3 => json!({ "url": url, "problem": "http-status" }),
            20 => json!({ "url": url, "problem": "connection-failed" }),
            _ => json!({ "url": url, "status": 200 }),
        };
        assert_eq!(*answer, wanted);
    }
    assert!((1..=4).contains(&most.load(Ordering::SeqCst)), "{most:?} at a time");
    let mut seen: Vec<String> = server.seen().into_iter().map(|seen| seen.target).collect();
    seen.sort_by_key(|target| target[1..].parse::<u32>().unwrap());
    assert_eq!(seen, (0..20).map(|n| format!("/{n}")).collect::<Vec<_>>());
}

#[test]
fn a_call_without_a_grant_is_not_sent() {
    let server = Server::answering(response(200, "", "secret"));
    let url = server.url("/");
    let urls = std::slice::from_ref(&url);
    for allow in [json!({}), json!({ "http": ["POST http://127.0.0.1:*", "GET http://127.0.0.1:1"] })] {
        assert_eq!(ask(urls, &allow), json!([{ "url": url, "problem": "not-granted" }]), "{allow}");
    }
    assert_eq!(server.connections(), 0);
}

/// A workflow cannot grant what the operator did not permit.
#[test]
fn loopback_needs_the_operator() {
    let server = Server::answering(response(200, "", "secret"));
    let text = json!({
        "steps": [{ "id": "ask", "uses": "./fanout.wasm", "with": { "urls": [server.url("/")] },
                    "allow": { "http": ["* http://*:*"] } }],
        "outputs": { "problem": "${ .steps.ask.output[0].problem }" },
    });
    let host = builder(1, 16).build().unwrap();
    assert_eq!(outputs(&run(&host, &text.to_string()))["problem"], "address-refused");
    assert_eq!(server.connections(), 0);
}
