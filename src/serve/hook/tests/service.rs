//! Deliveries, links and the inbox over HTTP, on a real host with a folder.

use crate::host::Host;
use crate::run::ParkingPolicy;
use crate::serve::access::{Scope, token};
use crate::serve::{Service, ServiceOptions, router};
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;

const SECRET: &str = "It's a Secret to Everybody";

/// Started by a delivery, and what waits for one.
const WORKFLOWS: [&str; 2] = [
    "name: order\ninputs: { id: integer }\nsteps: [{ id: a, set: \"${ .inputs.id }\" }]\noutputs: { id: \"${ .steps.a.output }\" }",
    "name: review\nsteps:\n  - { id: a, wait: { signal: approve, title: Publish?, text: Two words. } }\n\
     outputs: { got: \"${ .steps.a.output }\" }",
];

/// A server on a folder, until it is dropped.
struct Server {
    host: Host,
    service: Arc<Service>,
    router: axum::Router,
    token: String,
}

/// What a server answers.
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }
}

impl Server {
    fn new(folder: &Path) -> Self {
        let parking = ParkingPolicy { after: Duration::from_millis(50), resident_max: 1_000 };
        let host = Host::builder().workers(1).data(folder.join("data")).parking(parking);
        let host = host.runtime(tokio::runtime::Handle::current()).build().unwrap();
        let options = ServiceOptions { secrets: Some(folder.to_owned()), ..ServiceOptions::default() };
        let service = Service::new(host.clone(), options).unwrap();
        host.resume_all(&mut |_, _| {}).unwrap();
        for text in WORKFLOWS {
            let workflow = host.parse("w.yaml", text, folder).unwrap();
            let (deployed, _) = service.deploy(workflow, "ann", None).unwrap();
            let _ = service.activate(&deployed.version.name, deployed.version.number, "ann", None).unwrap();
        }
        let (token, stored) = token::make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
        service.store.add_token(&stored).unwrap();
        let router = router(&service);
        Self { host, service, router, token }
    }

    async fn asks(&self, request: Request<Body>) -> Answered {
        let response = self.router.clone().call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answered { status: parts.status, headers: parts.headers, text }
    }

    /// A request with a token.
    async fn api(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Answered {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.asks(request.body(body).unwrap()).await
    }

    async fn gets(&self, path: &str) -> Answered {
        self.api(Method::GET, path, &[], None).await
    }

    /// A request of somebody without a token.
    async fn posts(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
        let mut request = Request::builder().method(Method::POST).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.asks(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// A delivery as GitHub signs it.
    async fn delivers(&self, hook: &str, body: &str) -> Answered {
        let signature = format!("sha256={}", sign(SECRET, body));
        self.posts(&format!("/hooks/{hook}"), &[("x-hub-signature-256", &signature)], body).await
    }

    async fn begins(&self, workflow: &str, id: &str) {
        let path = format!("/v1/workflows/{workflow}/runs");
        let begun = self.api(Method::POST, &path, &[], Some(json!({ "run-id": id }))).await;
        assert_eq!(begun.status, StatusCode::CREATED);
    }

    async fn ends(&self, run: &str) -> Value {
        let outcome = self.gets(&format!("/v1/runs/{run}/outcome?wait=30s")).await;
        assert_eq!(outcome.status, StatusCode::OK, "{}", outcome.text);
        outcome.json()
    }

    async fn inbox(&self, query: &str) -> Vec<Value> {
        let page = self.gets(&format!("/v1/inbox{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        page.json()["items"].as_array().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.service.drain();
        let _ = self.host.suspend(Duration::ZERO);
        self.host.settle_folder();
    }
}

fn sign(secret: &str, message: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&key, message.as_bytes());
    super::hex(tag.as_ref())
}

/// The description of a webhook with the secret in a file of the folder.
fn described(folder: &Path, does: Value) -> Value {
    let path = folder.join("secret");
    std::fs::write(&path, SECRET).unwrap();
    let mut spec = does;
    spec["verify"] = json!({ "scheme": "github", "secrets": [{ "from": "file", "path": path }] });
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_one_run_however_often_and_late_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let spec = described(folder.path(), json!({ "starts": "order", "accept": ".body.id != 0" }));
    let put = server.api(Method::PUT, "/v1/webhooks/orders", &[], Some(spec)).await;
    assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);

    // What is not there is started by none.
    let spec = described(folder.path(), json!({ "starts": "nosuch" }));
    let put = server.api(Method::PUT, "/v1/webhooks/lost", &[], Some(spec)).await;
    assert_eq!((put.status.as_u16(), &put.json()["errors"][0]["pointer"]), (422, &json!("/starts")), "{}", put.text);

    let first = server.delivers("orders", r#"{"id": 7}"#).await;
    assert_eq!((first.status, &first.json()["outcome"]), (StatusCode::ACCEPTED, &json!("started")));
    let run = first.json()["run"].as_str().unwrap().to_owned();
    assert_eq!(server.ends(&run).await["outputs"], json!({ "id": 7 }));
    let again = server.delivers("orders", r#"{"id": 7}"#).await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, json!({ "outcome": "duplicate", "run": run })));
    let other = server.delivers("orders", r#"{"id": 8}"#).await.json();
    assert_ne!(other["run"], json!(run));
    let filtered = server.delivers("orders", r#"{"id": 0}"#).await;
    assert_eq!((filtered.status, filtered.json()), (StatusCode::OK, json!({ "outcome": "filtered" })));
    // Refused: not signed, signed by another, of another type, no JSON.
    let signature = format!("sha256={}", sign("x", "{}"));
    let forged = server.posts("/hooks/orders", &[("x-hub-signature-256", &signature)], "{}").await;
    assert_eq!(forged.status, StatusCode::UNAUTHORIZED);
    assert_eq!(server.posts("/hooks/orders", &[], "{}").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(server.delivers("orders", r#"{"id": "x"}"#).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(server.delivers("orders", "{").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(server.delivers("none", "{}").await.status, StatusCode::NOT_FOUND);
    let compressed = server.posts("/hooks/orders", &[("content-encoding", "gzip")], "{}").await;
    assert_eq!(compressed.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);

    let list = server.gets("/v1/webhooks/orders/deliveries").await.json();
    let outcomes: Vec<_> = list.as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    let expected = ["refused"; 5].into_iter().chain(["filtered", "started", "duplicate", "started"]);
    assert_eq!(outcomes, expected.collect::<Vec<_>>(), "{list}");
    assert_eq!(list[8]["run"], json!(run));
    assert_eq!(list[4]["reason"], "the signature does not fit");
    assert!(list[2]["reason"].as_str().unwrap().contains("/id"), "{list}");
    let counts = server.service.delivery_counts();
    assert_eq!(counts[&("orders".into(), "refused".into())], 5);
    // Another server on the folder knows the delivery.
    drop(server);
    let server = Server::new(folder.path());
    let late = server.delivers("orders", r#"{"id": 7}"#).await;
    assert_eq!((late.status, late.json()["run"].as_str()), (StatusCode::OK, Some(&*run)));
    drop(server);
    for file in std::fs::read_dir(folder.path().join("data")).unwrap().flatten().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!found, "the secret is in {}", file.path().display());
    }
}

/// A twin of a delivery that is still on its way gets the same answer, and starts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_come_at_one_time_are_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new(folder.path()));
    let spec = described(folder.path(), json!({ "starts": "order" }));
    assert_eq!(server.api(Method::PUT, "/v1/webhooks/orders", &[], Some(spec)).await.status, StatusCode::CREATED);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let server = Arc::clone(&server);
        all.spawn(async move { server.delivers("orders", r#"{"id": 1}"#).await });
    }
    let answers = all.join_all().await;
    let started = answers.iter().filter(|one| one.status == StatusCode::ACCEPTED).count();
    let runs: std::collections::BTreeSet<_> = answers.iter().map(|one| one.json()["run"].to_string()).collect();
    assert_eq!((started, runs.len()), (1, 1));
    assert!(answers.iter().all(|one| one.status.is_success()));
    let count = server.gets("/v1/runs/count").await.json();
    assert_eq!(count["count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_a_signal_to_the_run_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let signals = json!({ "name": "approve", "run": "review-${ .body.n }" });
    let spec = described(folder.path(), json!({ "signals": signals, "inputs": ".body.by" }));
    assert_eq!(server.api(Method::PUT, "/v1/webhooks/reviews", &[], Some(spec)).await.status, StatusCode::CREATED);
    server.begins("review", "review-1").await;
    assert_eq!(server.delivers("reviews", r#"{"n": 2, "by": "ann"}"#).await.status, StatusCode::NOT_FOUND);
    let sent = server.delivers("reviews", r#"{"n": 1, "by": "ann"}"#).await;
    assert_eq!(
        (sent.status, sent.json()),
        (StatusCode::ACCEPTED, json!({ "outcome": "signalled", "run": "review-1" }))
    );
    assert_eq!(server.ends("review-1").await["outputs"], json!({ "got": "ann" }));
    // The run has ended: nothing can be signalled any more.
    assert_eq!(server.delivers("reviews", r#"{"n": 1, "by": "bob"}"#).await.status, StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_changed_only_as_its_revision_says() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let put = async |headers: &[(&str, &str)], spec: Value| {
        let done = server.api(Method::PUT, "/v1/webhooks/a", headers, Some(spec)).await;
        (done.status, done.headers.get("etag").map(|tag| tag.to_str().unwrap().to_owned()), done.json())
    };
    let spec = described(folder.path(), json!({ "starts": "order" }));
    let (status, tag, _) = put(&[("if-none-match", "*")], spec.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(put(&[("if-none-match", "*")], spec.clone()).await.0, StatusCode::PRECONDITION_FAILED);
    let (status, same, view) = put(&[], spec.clone()).await;
    assert_eq!((status, &same, &view["spec"]), (StatusCode::OK, &tag, &spec));
    let changed = described(folder.path(), json!({ "starts": "order", "raw": true, "inputs": { "id": 1 } }));
    let (status, newer, _) = put(&[("if-match", &tag.clone().unwrap())], changed).await;
    assert!(status == StatusCode::OK && newer != tag);
    assert_eq!(put(&[("if-match", &tag.clone().unwrap())], spec).await.0, StatusCode::PRECONDITION_FAILED);
    // Everything wrong is said, and a secret that cannot be read is refused.
    let (status, _, problem) =
        put(&[], json!({ "verify": { "scheme": "github", "secrets": [] }, "accept": ".x" })).await;
    assert_eq!((status, problem["errors"].as_array().unwrap().len()), (StatusCode::UNPROCESSABLE_ENTITY, 3));
    let missing = json!([{ "from": "file", "path": folder.path().join("none") }]);
    let (status, _, problem) =
        put(&[], json!({ "starts": "order", "verify": { "scheme": "github", "secrets": missing } })).await;
    assert_eq!(
        (status, &problem["errors"][0]["pointer"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("/verify/secrets/0"))
    );
    assert_eq!(server.gets("/v1/webhooks").await.json().as_array().unwrap().len(), 1);
    let gone = server.api(Method::DELETE, "/v1/webhooks/a", &[("if-match", &tag.unwrap())], None).await;
    assert_eq!(gone.status, StatusCode::PRECONDITION_FAILED);
    let gone = server.api(Method::DELETE, "/v1/webhooks/a", &[("if-match", &newer.unwrap())], None).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(server.gets("/v1/webhooks/a").await.status, StatusCode::NOT_FOUND);
    // One of the configuration file is changed there.
    let of_config = serde_json::from_value(json!({ "starts": "order", "verify": { "scheme": "none" } })).unwrap();
    assert!(server.service.set_webhooks([("a".to_owned(), of_config)].into()).unwrap().is_empty());
    let (status, ..) = put(&[], json!({ "starts": "order", "verify": { "scheme": "none" } })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(server.service.set_webhooks([].into()).unwrap().is_empty());
    assert_eq!(server.gets("/v1/webhooks/a").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_link_decides_once_and_only_by_a_post() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "r1").await;
    while server.inbox("").await.is_empty() {}
    let make = async |body: Value| server.api(Method::POST, "/v1/runs/r1/links", &[], Some(body)).await;
    let bad = make(json!({ "signal": "", "expires-in": "100d", "title": "x".repeat(201) })).await;
    assert_eq!((bad.status, bad.json()["errors"].as_array().unwrap().len()), (StatusCode::UNPROCESSABLE_ENTITY, 3));
    let link = make(json!({ "signal": "approve", "expires-in": "1h" })).await;
    assert_eq!(link.status, StatusCode::CREATED, "{}", link.text);
    let path = link.json()["path"].as_str().unwrap().to_owned();
    assert_eq!(path.len(), "/a/".len() + 43);
    let get = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "localhost").body(Body::empty()).unwrap();
        server.asks(request).await
    };
    for _ in 0..3 {
        let page = get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.text.contains("<h1>Publish?</h1>") && page.text.contains("Two words."), "{}", page.text);
        assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        assert_eq!(
            (&page.headers["cache-control"], &page.headers["referrer-policy"]),
            (&"no-store".parse().unwrap(), &"same-origin".parse().unwrap())
        );
    }
    assert_eq!(server.inbox("").await.len(), 1, "those who look change nothing");
    assert_eq!(server.posts(&path, &[], "comment=x").await.status, StatusCode::BAD_REQUEST);
    let elsewhere = server.posts(&path, &[("origin", "https://evil.example.com")], "choice=0").await;
    assert_eq!(elsewhere.status, StatusCode::MISDIRECTED_REQUEST);
    let done = server.posts(&path, &[("origin", "http://localhost")], "choice=1&comment=no").await;
    assert!(done.status == StatusCode::OK && done.text.contains("Your answer is recorded"), "{}", done.text);
    assert_eq!(server.ends("r1").await["outputs"], json!({ "got": { "approved": false, "comment": "no" } }));
    let used = server.posts(&path, &[], "choice=0").await;
    assert!(used.status == StatusCode::GONE && used.text.contains("cannot be used again"), "{}", used.text);
    assert_eq!(get(&path).await.status, StatusCode::GONE);
    for path in ["/a/x", &format!("/a/{}", "A".repeat(43))] {
        assert_eq!(get(path).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(make(json!({ "signal": "approve" })).await.status, StatusCode::CONFLICT, "the run has ended");
    // The id of a run that was removed may come again: its links are for the one that was.
    let removed = server.api(Method::DELETE, "/v1/runs/r1", &[], None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.text);
    server.begins("review", "r1").await;
    assert_eq!(get(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.posts(&path, &[], "choice=0").await.status, StatusCode::NOT_FOUND);
    // A link that has ended.
    server.begins("review", "r2").await;
    let link =
        server.api(Method::POST, "/v1/runs/r2/links", &[], Some(json!({ "signal": "approve", "expires-in": "1ms" })));
    let path = link.await.json()["path"].as_str().unwrap().to_owned();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let late = server.posts(&path, &[], "choice=0").await;
    assert!(late.status == StatusCode::GONE && late.text.contains("Ask for a new one"), "{}", late.text);
}

/// Ten people press at one time: the run gets one answer.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_at_one_time_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new(folder.path()));
    server.begins("review", "r1").await;
    let link = server.api(Method::POST, "/v1/runs/r1/links", &[], Some(json!({ "signal": "approve" }))).await;
    let path = link.json()["path"].as_str().unwrap().to_owned();
    let mut all = tokio::task::JoinSet::new();
    for number in 0..10 {
        let (server, path) = (Arc::clone(&server), path.clone());
        all.spawn(
            async move { server.posts(&path, &[], &format!("choice={}&comment={number}", number % 2)).await.status },
        );
    }
    let statuses = all.join_all().await;
    assert!(statuses.iter().filter(|status| **status == StatusCode::OK).count() >= 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| !status.is_server_error()), "{statuses:?}");
    assert_eq!(server.ends("r1").await["status"], "succeeded");
    let history = server.gets("/v1/runs/r1/history").await;
    assert_eq!(history.text.matches("\"link-").count().max(1), 1, "{}", history.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_has_runs_in_memory_and_those_that_are_parked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    for number in 0..7 {
        server.begins("review", &format!("r{number}")).await;
        // A run that has begun comes to its wait soon; two at once would in any order.
        while server.inbox("").await.len() <= number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let runs = |items: &[Value]| items.iter().map(|one| one["run"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let expected: Vec<_> = (0..7).map(|number| format!("r{number}")).collect();
    // Those in memory, then some of both, then parked ones: the list is the same.
    let mut parked = 0;
    while parked < 7 {
        parked = server.host.run_counts().1;
        assert_eq!(runs(&server.inbox("").await), expected);
    }
    let first = &server.inbox("?kind=signal&name=approve&limit=1").await[0];
    let shown = (&first["workflow"], &first["name"], &first["title"], &first["text"]);
    assert_eq!(shown, (&json!("review"), &json!("approve"), &json!("Publish?"), &json!("Two words.")));
    assert!(server.inbox("?kind=uncertain").await.is_empty() && server.inbox("?older-than=1h").await.is_empty());
    let (mut query, mut pages) = ("?limit=3".to_owned(), Vec::new());
    loop {
        let page = server.gets(&format!("/v1/inbox{query}")).await.json();
        pages.extend(runs(page["items"].as_array().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=3&cursor={next}");
    }
    assert_eq!(pages, expected);
    for query in ["?kind=x", "?limit=0", "?cursor=x", "?older-than=x"] {
        assert_eq!(server.gets(&format!("/v1/inbox{query}")).await.status.as_u16(), 422, "{query}");
    }
    assert_eq!(server.gets("/v1/inbox?other=1").await.status, StatusCode::BAD_REQUEST);
    // One is answered, and another server takes the rest.
    let signal = server.api(Method::POST, "/v1/runs/r3/signals/approve", &[], Some(json!(1))).await;
    assert_eq!(signal.status, StatusCode::OK);
    server.ends("r3").await;
    let rest: Vec<_> = expected.iter().filter(|run| *run != "r3").cloned().collect();
    assert_eq!(runs(&server.inbox("").await), rest);
    drop(server);
    let server = Server::new(folder.path());
    assert_eq!(runs(&server.inbox("").await), rest);
    // Without the scope for payloads there are no texts.
    let (token, stored) = token::make("eve", &[Scope::RunsRead], Vec::new(), None).unwrap();
    server.service.store.add_token(&stored).unwrap();
    let request = Request::builder().uri("/v1/inbox").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap();
    let page = server.asks(request).await;
    assert!(page.text.contains("\"r0\"") && !page.text.contains("Publish"), "{}", page.text);
}

/// Slack asks whether the server is there before it sends anything else.
#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_of_slack_is_answered_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let mut spec = described(folder.path(), json!({ "starts": "order" }));
    spec["verify"]["scheme"] = json!("slack");
    assert_eq!(server.api(Method::PUT, "/v1/webhooks/slack", &[], Some(spec)).await.status, StatusCode::CREATED);
    let body = r#"{"token": "x", "challenge": "3eZbrw1a", "type": "url_verification"}"#;
    let now = (crate::run::system_time().0 / 1_000_000).to_string();
    let signature = format!("v0={}", sign(SECRET, &format!("v0:{now}:{body}")));
    let headers = [("x-slack-request-timestamp", now.as_str()), ("x-slack-signature", &signature)];
    let answer = server.posts("/hooks/slack", &headers, body).await;
    assert_eq!((answer.status, &answer.json()["challenge"]), (StatusCode::OK, &json!("3eZbrw1a")));
    assert_eq!(server.posts("/hooks/slack", &headers[..1], body).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(server.gets("/v1/runs/count").await.json()["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_webhooks_learns_nothing_of_what_the_server_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let there = elsewhere.path().join("there");
    std::fs::write(&there, SECRET).unwrap();
    std::fs::write(folder.path().join("short"), "short").unwrap();
    let file = |path: &Path| json!({ "from": "file", "path": path });
    let variable = |name: &str| json!({ "from": "env", "name": name });
    let mut answers = std::collections::BTreeSet::new();
    for source in [
        file(&there),
        file(&elsewhere.path().join("absent")),
        file("/etc/passwd".as_ref()),
        file("/etc/shadow".as_ref()),
        file("/root/absent".as_ref()),
        file("short".as_ref()),
        file("absent".as_ref()),
        variable("PATH"),
        variable("WFHOST_TEST_NOT_SET"),
        variable("WFHOST_SECRET_NOT_SET"),
    ] {
        let spec = json!({ "starts": "order", "verify": { "scheme": "github", "secrets": [source] } });
        let answer = server.api(Method::PUT, "/v1/webhooks/a", &[], Some(spec)).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{source}: {}", answer.text);
        answers.insert(answer.json()["errors"].to_string());
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    // One that was described by the operator, or before there was a rule, is read by the same rule.
    let of_config = json!({ "starts": "order", "verify": { "scheme": "github", "secrets": [file(&there)] } });
    let of_config = serde_json::from_value(of_config).unwrap();
    assert!(server.service.set_webhooks([("a".to_owned(), of_config)].into()).unwrap().is_empty());
    assert_eq!(server.delivers("a", r#"{"id": 7}"#).await.status, StatusCode::ACCEPTED);
    // A secret that went: why is not told to who reads the deliveries either.
    let spec = described(folder.path(), json!({ "starts": "order" }));
    assert_eq!(server.api(Method::PUT, "/v1/webhooks/b", &[], Some(spec)).await.status, StatusCode::CREATED);
    std::fs::remove_file(folder.path().join("secret")).unwrap();
    let refused = server.delivers("b", "{}").await;
    assert!(refused.status == StatusCode::SERVICE_UNAVAILABLE && !refused.text.contains("secret"), "{}", refused.text);
    server.service.hooks.deliveries.write();
    let deliveries = server.gets("/v1/webhooks/b/deliveries").await.json();
    let reason = deliveries[0]["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be used") && !reason.contains("No such file"), "{reason}");
}
