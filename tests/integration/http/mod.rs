//! The handler `http` against a server on loopback, through the dispatcher.

mod http2;
mod redirects;
mod secrets;
pub(crate) mod server;

use serde_json::{Value, json};
use server::{Door, Server, response};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use wfhost::dispatch::http::{Http, HttpConfig};
use wfhost::dispatch::{Dispatcher, Rate, Registry};
use wfhost::process::secret::SecretGrant;
use wfhost::process::{Answer, Grants, Limits, Message, Payload, Pid, Problem, ProblemClass, ProblemClass::*, Tag};
use wfhost::run::{Dispatched, Effects, OutgoingCall, Reply};

/// A dispatcher with `http`, and what its calls are permitted.
struct Client {
    dispatcher: Dispatcher,
    grants: Vec<String>,
    secrets: Vec<SecretGrant>,
    limits: Limits,
}

struct Inbox(Mutex<mpsc::Sender<Answer>>);

impl Reply for Inbox {
    fn answer(&self, answer: Answer) {
        let _ = self.0.lock().unwrap().send(answer);
    }

    fn message(&self, _: Message) -> bool {
        true
    }

    fn is_abandoned(&self) -> bool {
        false
    }
}

/// Loopback is permitted, and the names under `.test` resolve to it.
fn config() -> HttpConfig {
    let mut config = HttpConfig::default();
    config.permissions = vec!["127.0.0.0/8".parse().unwrap()];
    for name in ["a.test", "b.test"] {
        config.hosts.insert(name.to_owned(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
    config
}

impl Client {
    fn new(config: HttpConfig) -> Self {
        let registry = Registry::builder().handler("http", Http::new(config).unwrap()).build().unwrap();
        let grants = ["* http://*:*".to_owned(), "* https://*:*".to_owned()].into();
        Self { dispatcher: Dispatcher::new(registry), grants, secrets: Vec::new(), limits: Limits::default() }
    }

    fn granting(patterns: &[&str]) -> Self {
        Self { grants: patterns.iter().map(|text| (*text).to_owned()).collect(), ..Self::new(config()) }
    }

    fn dispatch(&self, tag: u64, args: &Value) -> mpsc::Receiver<Answer> {
        let (sender, answers) = mpsc::channel();
        let reply = Arc::new(Inbox(Mutex::new(sender)));
        let call = OutgoingCall {
            run: "run".into(),
            pid: Pid::ROOT,
            tag: Tag(tag),
            scope: None,
            handler: "http".into(),
            args: Payload::json(args),
            timeout: None,
            idempotency_key: format!("run/fetch/0/1/{tag}").into(),
            grants: SecretGrant::add(
                &self.secrets,
                &Grants(Arc::new(BTreeMap::from([("http".to_owned(), self.grants.clone())]))),
            ),
            limits: Arc::new(self.limits.clone()),
            traceparent: None,
        };
        if let Dispatched::Answered(answer) = self.dispatcher.dispatch(call, reply.clone()) {
            reply.answer(answer);
        }
        answers
    }

    fn ask(&self, args: Value) -> Answer {
        answer(&self.dispatch(1, &args))
    }

    fn ok(&self, args: Value) -> Value {
        match self.ask(args).unwrap() {
            Payload::Json(json) => json.to_value(),
            other => panic!("{other:?}"),
        }
    }

    fn problem(&self, args: Value) -> Problem {
        match self.ask(args.clone()) {
            Err(problem) => Arc::unwrap_or_clone(problem),
            Ok(_) => panic!("{args} should have been a problem"),
        }
    }
}

/// The bound only stops a broken test from hanging.
fn answer(answers: &mpsc::Receiver<Answer>) -> Answer {
    answers.recv_timeout(Duration::from_mins(1)).expect("an answer comes")
}

fn assert_problem(problem: &Problem, kind: &str, class: ProblemClass) {
    assert_eq!((problem.kind.as_ref(), problem.class), (kind, class), "{problem}");
}

fn ok_json() -> Vec<u8> {
    response(200, "content-type: application/json\r\n", r#"{"n": 1.50}"#)
}

#[test]
fn a_get_brings_status_headers_and_body() {
    let server = Server::answering(ok_json());
    let answer = Client::new(config()).ok(json!({ "url": server.url("/a/b"), "query": { "q": "x y" } }));
    assert_eq!((answer["status"].as_u64(), answer["encoding"].as_str()), (Some(200), Some("json")));
    assert_eq!(answer["body"].to_string(), r#"{"n":1.50}"#);
    assert_eq!(answer["headers"]["content-type"], "application/json");
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/a/b?q=x+y"));
    assert_eq!(seen.headers["host"], server.address.to_string());
    assert!(seen.headers["user-agent"].starts_with("wfhost/"));
    assert!(!seen.headers.contains_key("idempotency-key"));
}

#[test]
fn a_post_carries_its_body_and_its_key() {
    let server = Server::answering(response(201, "", ""));
    let args = json!({ "url": server.url("/"), "method": "POST", "body": { "json": [1] }, "headers": { "x-a": "b" } });
    assert_eq!(Client::new(config()).ok(args)["status"], 201);
    let seen = &server.seen()[0];
    assert_eq!((seen.body.as_slice(), seen.headers["content-type"].as_str()), (&b"[1]"[..], "application/json"));
    assert_eq!((seen.headers["x-a"].as_str(), seen.headers["idempotency-key"].as_str()), ("b", "run/fetch/0/1/1"));
}

#[test]
fn one_connection_serves_many_requests() {
    let server = Server::answering(ok_json());
    let client = Client::new(config());
    for _ in 0..5 {
        client.ok(json!({ "url": server.url("/") }));
    }
    assert_eq!((server.seen().len(), server.connections()), (5, 1));
}

#[test]
fn a_call_without_a_grant_is_never_sent() {
    let server = Server::answering(ok_json());
    let port = server.address.port();
    let client = Client::granting(&[&format!("GET http://127.0.0.1:{port}/in/*")]);
    client.ok(json!({ "url": server.url("/in/x") }));
    for (method, url) in [
        ("GET", server.url("/out")),
        ("GET", server.url("/in/../out")),
        ("GET", server.url("/in/..%2fout")),
        ("POST", server.url("/in/x")),
        ("GET", server.url_as("a.test", "/in/x")),
        ("GET", "http://127.0.0.1/in/x".to_owned()),
    ] {
        let problem = client.problem(json!({ "url": url, "method": method }));
        assert_problem(&problem, "not-granted", Definite);
    }
    assert_eq!(server.seen().len(), 1);
    // The problem names the missing grant, even if nothing is granted.
    for (granted, method) in [(vec![], "GET"), (vec!["GET http://b.test"], "POST")] {
        let problem = Client::granting(&granted).problem(json!({ "url": server.url("/x?secret"), "method": method }));
        assert_problem(&problem, "not-granted", Definite);
        let wanted = json!({ "capability": "http", "pattern": format!("{method} {}", server.url("/x")) });
        assert_eq!(problem.data.unwrap().to_value(), wanted);
    }
}

#[test]
fn addresses_that_are_not_public_are_refused_whatever_leads_to_them() {
    let server = Server::answering(ok_json());
    let port = server.address.port();
    let mut config = HttpConfig::default();
    for (name, ip) in
        [("inside.test", "10.0.0.1"), ("metadata.test", "169.254.169.254"), ("v6.test", "::ffff:127.0.0.1")]
    {
        config.hosts.insert(name.to_owned(), vec![ip.parse().unwrap()]);
    }
    let client = Client::new(config);
    for host in [
        "localhost",
        "inside.test",
        "metadata.test",
        "v6.test",
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
    ] {
        let problem = client.problem(json!({ "url": format!("http://{host}:{port}/") }));
        assert_problem(&problem, "address-refused", Definite);
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_name_with_a_public_and_a_private_address_leads_to_neither_but_the_permitted_one() {
    let server = Server::answering(ok_json());
    let mut config = HttpConfig::default();
    config.permissions = vec!["127.0.0.1".parse().unwrap()];
    let both = ["127.0.0.2", "127.0.0.1"].map(|ip| ip.parse().unwrap());
    config.hosts.insert("both.test".to_owned(), both.to_vec());
    Client::new(config).ok(json!({ "url": server.url_as("both.test", "/") }));
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_that_breaks_leaves_the_outcome_open_unless_a_repeat_does_no_harm() {
    let before = Server::start(|_, _| false);
    let within = Server::start(|_, wire| {
        let _ = wire.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this");
        false
    });
    for server in [before, within] {
        let client = Client::new(config());
        let ask = |args: Value| client.problem(args);
        let url = server.url("/");
        assert_problem(&ask(json!({ "url": url, "method": "POST" })), "connection-lost", Uncertain);
        assert_problem(&ask(json!({ "url": url, "method": "PATCH" })), "connection-lost", Uncertain);
        assert_problem(&ask(json!({ "url": url, "method": "GET" })), "connection-lost", Retryable);
        assert_problem(&ask(json!({ "url": url, "method": "DELETE" })), "connection-lost", Retryable);
        let knows = json!({ "url": url, "method": "POST", "repeatable": true });
        assert_problem(&ask(knows), "connection-lost", Retryable);
    }
}

#[test]
fn where_nothing_was_sent_another_try_does_no_harm() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let client = Client::new(config());
    let closed = client.problem(json!({ "url": format!("http://{free}/"), "method": "POST" }));
    assert_problem(&closed, "connection-failed", Retryable);
    // It accepts the connection and never speaks TLS.
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}/", mute.local_addr().unwrap());
    let slow = client.problem(json!({ "url": url, "method": "POST", "timeout": "50ms" }));
    assert_problem(&slow, "http-timed-out", Retryable);
}

#[test]
fn a_server_that_never_answers_is_given_up_after_the_timeout() {
    let server = Server::start(|_, wire| wire.read(&mut [0]).is_ok_and(|read| read > 0));
    let client = Client::new(config());
    for (method, class) in [("GET", Retryable), ("PUT", Retryable), ("POST", Uncertain)] {
        // On a slow machine the shortest timeout may pass before the request has been sent: then a
        // longer one is tried.
        let seen_before = server.seen().len();
        let problem = ["100ms", "2s", "30s"].iter().find_map(|timeout| {
            let problem = client.problem(json!({ "url": server.url("/"), "method": method, "timeout": timeout }));
            (server.seen().len() > seen_before).then_some(problem)
        });
        assert_problem(&problem.expect("the server sees the request"), "http-timed-out", class);
    }
}

#[test]
fn a_body_that_drips_is_given_up_after_the_timeout() {
    let server = Server::start(|_, wire| {
        let _ = wire.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while wire.write_all(b"1\r\nx\r\n").and_then(|()| wire.flush()).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    });
    let problem = Client::new(config()).problem(json!({ "url": server.url("/"), "timeout": "200ms" }));
    assert_problem(&problem, "http-timed-out", Retryable);
}

#[test]
fn a_status_that_was_not_expected_is_a_problem_with_the_answer_in_it() {
    let server = Server::start(|seen, wire| {
        let json = "content-type: application/json\r\n";
        let bytes = match seen.target.split('?').next().unwrap() {
            "/404" => response(404, json, r#"{"why":"gone"}"#),
            "/503" => response(503, "retry-after: 7\r\n", "x".repeat(100_000)),
            _ => response(500, "", ""),
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    let missing = client.problem(json!({ "url": server.url("/404?token=secret") }));
    assert_problem(&missing, "http-status", Definite);
    assert_eq!(missing.status, 404);
    assert_eq!(missing.data.as_ref().unwrap().to_value()["body"]["why"], "gone");
    assert!(!missing.detail.unwrap().contains("secret"));
    let busy = client.problem(json!({ "url": server.url("/503"), "method": "POST" }));
    assert_problem(&busy, "http-status", Retryable);
    assert_eq!(busy.retry_after, Some(Duration::from_secs(7).into()));
    assert_eq!(busy.data.unwrap().to_value()["body"].as_str().unwrap().len(), 16 << 10);
    let post = |repeatable: bool| {
        client.problem(json!({ "url": server.url("/"), "method": "POST", "repeatable": repeatable }))
    };
    assert_problem(&post(false), "http-status", Uncertain);
    assert_problem(&post(true), "http-status", Retryable);
    assert_eq!(client.ok(json!({ "url": server.url("/404"), "expect": ["2xx", 404] }))["status"], 404);
    assert_eq!(client.ok(json!({ "url": server.url("/"), "expect": ["*"] }))["status"], 500);
}

#[test]
fn limits_hold_for_what_comes_out_of_the_decompression() {
    let server = Server::start(|seen, wire| {
        let zeros = vec![b'0'; if seen.target == "/small" { 1000 } else { 64 << 20 }];
        let accepted = &seen.headers["accept-encoding"];
        assert!(accepted.contains("gzip") && accepted.contains("zstd") && accepted.contains("br"), "{accepted}");
        let bytes = if seen.target == "/zstd" {
            response(200, "connection: close\r\ncontent-encoding: zstd\r\n", zstd::bulk::compress(&zeros, 1).unwrap())
        } else {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&zeros).unwrap();
            response(200, "connection: close\r\ncontent-encoding: gzip\r\n", encoder.finish().unwrap())
        };
        let _ = wire.write_all(&bytes);
        false
    });
    let client = Client::new(config());
    let small = client.ok(json!({ "url": server.url("/small") }));
    assert_eq!(small["body"].as_str().unwrap().len(), 1000);
    assert!(small["headers"].get("content-encoding").is_none());
    for path in ["/gzip", "/zstd"] {
        assert_problem(&client.problem(json!({ "url": server.url(path) })), "response-too-large", Definite);
        let posted = client.problem(json!({ "url": server.url(path), "method": "POST" }));
        assert_problem(&posted, "response-too-large", Uncertain);
    }
    let asked = client.problem(json!({ "url": server.url("/small"), "max-response-bytes": 999 }));
    assert_problem(&asked, "response-too-large", Definite);
    client.ok(json!({ "url": server.url("/small"), "max-response-bytes": 1000 }));
    let narrow = Client { limits: Limits { payload_bytes: 500, ..Limits::default() }, ..Client::new(config()) };
    assert_problem(&narrow.problem(json!({ "url": server.url("/small") })), "response-too-large", Definite);
}

#[test]
fn an_answer_that_grows_in_the_writing_is_bounded_too() {
    let server = Server::answering(response(200, "", vec![1_u8; 600]));
    let client = Client { limits: Limits { payload_bytes: 1000, ..Limits::default() }, ..Client::new(config()) };
    // 600 control characters are 3,600 bytes of JSON text.
    assert_problem(&client.problem(json!({ "url": server.url("/"), "method": "POST" })), "too-large", Uncertain);
    assert_eq!(client.ask(json!({ "url": server.url("/"), "as": "bytes" })), Ok(Payload::Bytes(vec![1; 600].into())));
}

#[test]
fn invalid_http_is_reported() {
    let many = "x-a: 1\r\n".repeat(150);
    let large = format!("connection: close\r\nx-large: {}\r\n", "x".repeat(100_000));
    for bytes in [
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        response(200, &many, ""),
        response(200, &large, ""),
        response(200, "x a: 1\r\n", ""),
        response(200, "connection: close\r\ncontent-encoding: gzip\r\n", "this is no gzip"),
    ] {
        let server = Server::start(move |_, wire| {
            let _ = wire.write_all(&bytes);
            false
        });
        let client = Client::new(config());
        assert_problem(&client.problem(json!({ "url": server.url("/") })), "bad-response", Definite);
        assert_problem(&client.problem(json!({ "url": server.url("/"), "method": "POST" })), "bad-response", Uncertain);
    }
}

#[test]
fn an_answer_without_a_body_may_have_the_header_of_one() {
    let server = Server::start(|seen, wire| {
        let bytes = if seen.method == "HEAD" {
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1000\r\n\r\n".to_vec()
        } else {
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        };
        wire.write_all(&bytes).is_ok()
    });
    let client = Client::new(config());
    for method in ["HEAD", "DELETE"] {
        let answer = client.ok(json!({ "url": server.url("/"), "method": method }));
        assert_eq!((answer["encoding"].as_str(), answer["body"].is_null()), (Some("none"), true));
    }
}

#[test]
fn calls_beyond_the_limit_wait_and_then_are_refused() {
    let door = Arc::new(Door::default());
    let (begun, begins) = mpsc::channel();
    let (held_by, begun) = (door.clone(), Mutex::new(begun));
    let server = Server::start(move |_, wire| {
        let _ = begun.lock().unwrap().send(());
        held_by.wait();
        wire.write_all(&ok_json()).is_ok()
    });
    let mut config = config();
    (config.concurrent_max, config.waiting_max) = (2, 1);
    let client = Client::new(config);
    let args = json!({ "url": server.url("/") });
    let calls: Vec<_> = (1..=3).map(|tag| client.dispatch(tag, &args)).collect();
    assert_problem(&answer(&client.dispatch(4, &args)).unwrap_err(), "too-many-calls", Retryable);
    for _ in 0..2 {
        begins.recv_timeout(Duration::from_mins(1)).unwrap();
    }
    assert_eq!(server.seen().len(), 2);
    door.open();
    for call in &calls {
        assert!(answer(call).is_ok());
    }
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn the_operators_rate_holds() {
    let server = Server::answering(ok_json());
    let mut config = config();
    (config.rate, config.waiting_max) = (Some(Rate { interval: Duration::from_hours(1), burst: 2 }), 0);
    let client = Client::new(config);
    let args = json!({ "url": server.url("/") });
    client.ok(args.clone());
    client.ok(args.clone());
    let problem = client.problem(args);
    assert_problem(&problem, "too-many-calls", Retryable);
    assert!(problem.retry_after.unwrap() > Duration::from_mins(30).into());
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_call_that_is_abandoned_closes_its_connection() {
    let (news, told) = mpsc::channel();
    let news = Mutex::new(news);
    let server = Server::start(move |_, wire| {
        let _ = news.lock().unwrap().send("request");
        let read = wire.read(&mut [0]);
        let _ = news.lock().unwrap().send(if matches!(read, Ok(0) | Err(_)) { "closed" } else { "more" });
        false
    });
    let client = Client::new(config());
    let answers = client.dispatch(1, &json!({ "url": server.url("/") }));
    let next = || told.recv_timeout(Duration::from_mins(1)).unwrap();
    assert_eq!(next(), "request");
    client.dispatcher.abandon("run", Pid::ROOT, Tag(1));
    assert_eq!(next(), "closed");
    assert!(answers.recv_timeout(Duration::from_mins(1)).is_err(), "no caller is answered");
}

/// A certificate for `a.test`, and a server's configuration with it and these protocols.
fn certified(protocols: &[&str]) -> (Vec<u8>, Arc<rustls::ServerConfig>) {
    certified_for(&["a.test"], protocols)
}

fn certified_for(names: &[&str], protocols: &[&str]) -> (Vec<u8>, Arc<rustls::ServerConfig>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (certified.cert.der().to_vec(), Arc::new(tls))
}

#[test]
fn tls_is_checked_against_the_roots() {
    let (certificate, tls) = certified(&[]);
    let server = Server::start_on(Some(tls), |_, wire| wire.write_all(&ok_json()).is_ok());
    let url = |host: &str| format!("https://{host}:{}/", server.address.port());
    let mut trusting = config();
    trusting.roots = vec![certificate];
    let trusting = Client::new(trusting);
    assert_eq!(trusting.ok(json!({ "url": url("a.test") }))["status"], 200);
    assert_problem(&trusting.problem(json!({ "url": url("b.test") })), "connection-failed", Definite);
    let wary = Client::new(config()).problem(json!({ "url": url("a.test"), "method": "POST" }));
    assert_problem(&wary, "connection-failed", Definite);
    assert_eq!(server.seen().len(), 1);
}
