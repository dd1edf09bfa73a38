//! What a client tries that means no good: odd headers and names, and what is not its to see.

use super::{Server, request};
use crate::serve::access::Scope;
use axum::body::Body;
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_service::Service as _;

impl Server {
    /// The answer to a request of a token.
    async fn tells(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.answers(request(token, method, path, &[], body)).await
    }

    async fn answers(&self, request: Request<Body>) -> (u16, Value) {
        let response = self.router.clone().call(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_has_a_bound_and_one_host() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let token = server.token.clone();
    let long = |bytes: usize| "x".repeat(bytes);
    let with = |name: &'static str, value: &str| request(&token, Method::GET, "/v1/host", &[(name, value)], None);
    assert_eq!(server.answers(with("x-long", &long(30 << 10))).await.0, 200);
    let (status, problem) = server.answers(with("x-long", &long(40 << 10))).await;
    assert_eq!((status, &problem["kind"]), (431, &json!("header-too-large")));
    let path = format!("/v1/{}", long(40 << 10));
    assert_eq!(server.answers(request(&token, Method::GET, &path, &[], None)).await.0, 431);
    // In many short ones, and where no route is.
    let mut many = request(&token, Method::GET, "/nowhere", &[], None);
    for number in 0..4_000 {
        many.headers_mut().append("x-short", format!("{number:08}").parse().unwrap());
    }
    assert_eq!(server.answers(many).await.0, 431);
    for host in ["localhost:7504@evil.com", "evil.com@localhost", "localhost:", "localhost:99999", "localhost,evil.com"]
    {
        let mut odd = request(&token, Method::GET, "/v1/host", &[], None);
        odd.headers_mut().insert("host", host.parse().unwrap());
        assert_eq!(server.answers(odd).await.0, 421, "{host}");
    }
    // A second one beside that of `request`.
    assert_eq!(server.answers(with("host", "evil.com")).await.0, 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_no_characters_that_mislead_their_readers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "waits", json!({})).await;
    for (bad, path) in [
        ("a\0b", "a%00b"),
        ("a\nb", "a%0Ab"),
        ("a\u{1b}[31mb", "a%1B[31mb"),
        ("invoice\u{202e}fdp.exe", "invoice%E2%80%AEfdp.exe"),
        ("a\u{2066}b", "a%E2%81%A6b"),
        ("\u{feff}a", "%EF%BB%BFa"),
    ] {
        let file = format!("name: {}\nsteps: [{{ id: a, set: 1 }}]\n", serde_json::to_string(bad).unwrap());
        let verify = json!({ "scheme": "none" });
        for (path, body) in [
            ("/v1/tokens".to_owned(), json!({ "name": bad, "scopes": ["runs:read"] })),
            ("/v1/tokens".to_owned(), json!({ "name": "a", "scopes": ["runs:read"], "workflows": [bad] })),
            ("/v1/workflows/review/runs".to_owned(), json!({ "labels": { bad: "x" } })),
            ("/v1/workflows/review/runs".to_owned(), json!({ "labels": { "x": bad } })),
            ("/v1/workflows/review/runs".to_owned(), json!({ "run-id": bad })),
            ("/v1/workflows".to_owned(), json!({ "file": bad, "source": "name: a\nsteps: [{ id: a, set: 1 }]\n" })),
            ("/v1/workflows".to_owned(), json!({ "file": "a.yaml", "source": file })),
            (format!("/v1/runs/waits/signals/{path}"), json!({})),
            ("/v1/runs/waits/links".to_owned(), json!({ "signal": bad })),
            ("/v1/batches".to_owned(), json!({ "act": "signal", "ids": ["waits"], "signal": bad })),
        ] {
            assert_eq!(server.posts(&path, body.clone()).await.status.as_u16(), 422, "{path} {body}");
        }
        for (path, body) in [
            (format!("/v1/schedules/{path}"), json!({ "workflow": "review", "every": "1h" })),
            (format!("/v1/webhooks/{path}"), json!({ "starts": "review", "verify": verify })),
            ("/v1/webhooks/a".to_owned(), json!({ "starts": bad, "verify": verify })),
        ] {
            let answer = server.asks(Method::PUT, &path, &[], Some(body.clone())).await;
            assert_eq!(answer.status.as_u16(), 422, "{path} {body}");
        }
    }
    // Nobody acts in the name of the service.
    let body = json!({ "name": "server", "scopes": ["runs:read"] });
    assert_eq!(server.posts("/v1/tokens", body).await.status.as_u16(), 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_starts_runs_sees_the_outputs_of_none_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let starts = server.token_of(&[Scope::RunsStart], &[]);
    let path = "/v1/workflows/flaky/runs?wait=30s";
    let body = || Some(json!({ "inputs": { "ok": true, "secret": "xyzzy" }, "run-id": "one" }));
    // What it has started itself, it may wait for.
    let (status, outcome) = server.tells(&starts, Method::POST, path, body()).await;
    assert_eq!((status, &outcome["outputs"]["got"]), (200, &json!("xyzzy")));
    // The run is there: now this is to read it.
    let (status, outcome) = server.tells(&starts, Method::POST, path, body()).await;
    assert_eq!((status, &outcome["status"]), (200, &json!("succeeded")));
    assert!(outcome.get("outputs").is_none(), "{outcome}");
    let keyed = |token: &str| {
        let body = json!({ "inputs": { "secret": "xyzzy" } });
        request(token, Method::POST, path, &[("idempotency-key", "k")], Some(body))
    };
    let (_, failed) = server.answers(keyed(&starts)).await;
    assert!(failed["problem"].is_object(), "{failed}");
    let (status, again) = server.answers(keyed(&starts)).await;
    assert_eq!((status, &again["status"], again.get("problem")), (200, &json!("failed"), None));
    let reads = server.token_of(&[Scope::RunsStart, Scope::RunsPayloads], &[]);
    let (_, again) = server.answers(keyed(&reads)).await;
    assert!(again["problem"].is_object(), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_one_workflow_counts_nothing_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let narrow = server.token_of(&[Scope::RunsRead, Scope::Metrics], &["review"]);
    assert_eq!(server.tells(&narrow, Method::GET, "/metrics", None).await.0, 403);
    let (status, host) = server.tells(&narrow, Method::GET, "/v1/host", None).await;
    let keys: Vec<&str> = host.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((status, keys), (200, vec!["release", "draining", "disk-full"]));
    assert!(server.gets("/v1/host").await.is(200)["resident"].is_u64());
    // The cursor of a page is the same whatever else there is.
    let cursor_of = async |before: usize, id: &str| {
        for number in 0..before {
            server.begins("flaky", &format!("{id}-{number}"), json!({})).await;
        }
        for number in [0, 1] {
            server.begins("review", &format!("{id}{number}"), json!({})).await;
        }
        let (_, page) = server.tells(&narrow, Method::GET, "/v1/runs?limit=1", None).await;
        assert_eq!(page["runs"][0]["id"], format!("{id}1"));
        let next = page["next"].as_str().unwrap().to_owned();
        let bytes = URL_SAFE_NO_PAD.decode(&next).unwrap();
        let (_, rest) = server.tells(&narrow, Method::GET, &format!("/v1/runs?limit=1&cursor={next}"), None).await;
        assert_eq!(rest["runs"][0]["id"], format!("{id}0"));
        // Behind the time.
        bytes[8..].to_vec()
    };
    let (few, many) = (cursor_of(0, "a").await, cursor_of(20, "b").await);
    assert_eq!(few[..8], many[..8]);
    assert_eq!((&few[8..], &many[8..]), (&b"a1"[..], &b"b1"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_read_for_its_own_filter_and_outlives_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    for id in ["a", "b", "c"] {
        server.begins("flaky", id, json!({ "ok": true })).await;
        server.ends(id).await;
    }
    let page = server.gets("/v1/runs?limit=2&workflow=flaky").await.is(200);
    let next = page["next"].as_str().unwrap();
    let get = |filter: &str, cursor: &str| format!("/v1/runs?limit=2&{filter}cursor={cursor}");
    assert_eq!(server.gets(&get("", next)).await.status.as_u16(), 422);
    for end in 0..16 {
        assert_eq!(server.gets(&get("workflow=flaky&", &next[..end])).await.status.as_u16(), 422, "{end}");
    }
    assert_eq!(server.gets(&get("workflow=flaky&", next)).await.is(200)["runs"][0]["id"], "a");
    let _ = server.asks(Method::DELETE, "/v1/runs/b", &[], None).await.is(204);
    let rest = server.gets(&get("workflow=flaky&", next)).await.is(200);
    assert_eq!(rest["runs"].as_array().unwrap().len(), 1);
    assert_eq!(rest["runs"][0]["id"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_no_object_at_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let filter = json!(["ended", "flaky", null, null, null, null]);
    let check = "/v1/workflows/flaky/versions/1/check";
    for (path, body) in [
        ("/v1/batches", json!({ "act": "retry", "filter": filter })),
        ("/v1/batches", json!(["retry", ["a"]])),
        (check, json!({ "filter": filter })),
    ] {
        assert_eq!(server.posts(path, body.clone()).await.status.as_u16(), 422, "{path} {body}");
    }
    for body in [json!({ "filter": null }), json!({ "filter": {} }), json!({ "filter": { "state": "ended" } })] {
        let _ = server.posts(check, body).await.is(202);
    }
    let hook = json!({ "signals": ["go", ".body.run"], "verify": { "scheme": "none" } });
    assert_eq!(server.asks(Method::PUT, "/v1/webhooks/a", &[], Some(hook)).await.status.as_u16(), 422);
}

/// A token with this id and secret, and the check that belongs to them.
fn forged(id: &str, secret: &str) -> String {
    let body = format!("wfh_{id}_{secret}");
    let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
    let check = u32::from_be_bytes(*digest.as_ref().first_chunk().unwrap());
    format!("{body}_{check:08x}")
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_guesses_open_nothing_and_stop_only_who_guesses() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let token = server.token.clone();
    let mut parts = token.splitn(3, '_').skip(1);
    let (id, rest) = (parts.next().unwrap(), parts.next().unwrap());
    let secret = &rest[..43];
    assert_eq!(forged(id, secret), token);
    // The right id, and secrets that differ in one character, at each place.
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut statuses = std::collections::BTreeMap::new();
    for guess in 0..10_000 {
        let mut changed = secret.as_bytes().to_vec();
        let place = guess % changed.len();
        let digit = digits[guess / changed.len() % digits.len()];
        changed[place] = if changed[place] == digit { b'~' } else { digit };
        // What a proxy would say of its client does not make another address of this one.
        let guessed = forged(id, std::str::from_utf8(&changed).unwrap());
        let from = format!("10.{}.{}.1", guess / 256 % 256, guess % 256);
        let forwarded = format!("for={from}");
        let headers =
            [("x-forwarded-for", from.as_str()), ("forwarded", forwarded.as_str()), ("x-real-ip", from.as_str())];
        let (status, _) = server.answers(request(&guessed, Method::GET, "/v1/host", &headers, None)).await;
        *statuses.entry(status).or_insert(0) += 1;
    }
    assert_eq!(statuses.keys().copied().collect::<Vec<_>>(), [401, 429], "{statuses:?}");
    assert!(statuses[&429] > 9_000, "{statuses:?}");
    // Whoever has the token is let in all the same.
    assert_eq!(server.gets("/v1/host").await.status.as_u16(), 200);
    let elsewhere = [("x-forwarded-host", "evil.com"), ("forwarded", "host=evil.com")];
    assert_eq!(server.answers(request(&token, Method::GET, "/v1/host", &elsewhere, None)).await.0, 200);
    let mut misdirected = request(&token, Method::GET, "/v1/host", &[("x-forwarded-host", "localhost")], None);
    misdirected.headers_mut().insert("host", "evil.com".parse().unwrap());
    assert_eq!(server.answers(misdirected).await.0, 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_segment_of_a_path_is_more_than_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "one", json!({ "ok": true })).await;
    server.ends("one").await;
    let before = server.gets("/v1/runs").await.is(200);
    let odd = [
        "..%2F..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "..",
        "%2e%2e",
        "one%00",
        "one%2F..%2Fone",
        "one'%20OR%20'1'='1",
        "one%22;DROP%20TABLE%20run;--",
        "*",
        "%25",
        "one%0A",
        "%E2%80%AEone",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "1e3",
        "NaN",
        "%F0%9F%92%A9",
        &"a".repeat(4_000),
    ];
    let mut asked = 0;
    for (method, route, _) in crate::serve::router::table(&server.service) {
        // It would end what is asked.
        if !route.contains('{') {
            continue;
        }
        for segment in odd {
            // One at a time, beside names of what there is; and all.
            let names: Vec<&str> = route.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
            for place in 0..=names.len() {
                let mut path = route.clone();
                for (number, name) in names.iter().enumerate() {
                    let known = if *name == "id" { "one" } else { "1" };
                    let value = if number == place || place == names.len() { segment } else { known };
                    path = path.replace(&format!("{{{name}}}"), value);
                }
                let asking = request(&server.token, method.parse().unwrap(), &path, &[], None);
                let response = server.router.clone().call(asking).await.unwrap();
                let status = response.status().as_u16();
                assert!((400..500).contains(&status) || status == 200, "{method} {path}: {status}");
                if status == 200 {
                    // Nothing has these names but what shows the run itself.
                    let frame = tokio::time::timeout(std::time::Duration::from_secs(5), response.into_body().collect());
                    let bytes = frame.await.map(|body| body.unwrap().to_bytes()).unwrap_or_default();
                    assert!(!String::from_utf8_lossy(&bytes).contains("root:"), "{method} {path}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 1_500, "{asked}");
    assert_eq!(server.gets("/v1/runs").await.is(200)["runs"][0]["id"], before["runs"][0]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_panics_ends_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let panics = axum::routing::get(|| async {
        assert!(std::hint::black_box(false), "a defect");
    });
    let broken = axum::Router::new().route("/v1/panics", panics);
    let router = crate::serve::router::answering(broken, &server.service);
    for _ in 0..3 {
        let asked = request(&server.token, Method::GET, "/v1/panics", &[], None);
        let response = router.clone().call(asked).await.unwrap();
        assert_eq!(response.status().as_u16(), 500);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(problem["kind"], "host-fault");
        assert!(!problem.to_string().contains("a defect"), "{problem}");
        // Also where it is on a thread for the folder, with a turn: as often as there are turns.
        for _ in 0..100 {
            let failed =
                server.service.with_store(|_| -> super::super::super::problem::Answered<()> { panic!("a defect") });
            assert_eq!(failed.await.unwrap_err().status, 500);
        }
    }
    server.begins("flaky", "one", json!({ "ok": true })).await;
    assert_eq!(server.ends("one").await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn expensive_reads_do_not_hold_up_starts() {
    let folder = tempfile::tempdir().unwrap();
    let server = std::sync::Arc::new(Server::new(folder.path()));
    server.begins("flaky", "one", json!({ "ok": true })).await;
    server.ends("one").await;
    let asking: Vec<_> = (0..100)
        .map(|number| {
            let server = std::sync::Arc::clone(&server);
            tokio::spawn(async move {
                match number % 3 {
                    0 => server.posts("/v1/runs/one/replay", json!({})).await,
                    1 => server.posts("/v1/workflows/flaky/versions/1/check", json!({})).await,
                    _ => server.gets("/v1/runs/one/history?q=zzz").await,
                }
            })
        })
        .collect();
    for number in 0..20 {
        let begun = std::time::Instant::now();
        server.begins("flaky", &format!("beside-{number}"), json!({ "ok": true })).await;
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "a start took {:?}", begun.elapsed());
    }
    for asked in asking {
        let status = asked.await.unwrap().status.as_u16();
        // Beyond what may be done at one time it is said when to come again.
        assert!([200, 202, 429, 503].contains(&status), "{status}");
    }
}
