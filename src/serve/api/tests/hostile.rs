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
