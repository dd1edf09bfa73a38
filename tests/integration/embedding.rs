//! An example of a service that embeds the host: a shop whose orders are approved by a person. It
//! starts, follows and steers runs by the library alone, and mounts the API beside its own routes.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tower_service::Service as _;
use wfhost::dispatch::http::{Hop, HttpConfig, HttpHook, Permission};
use wfhost::host::{ActError, Acted, Host, LoadError, Resumed, RetentionPolicy, RunOptions, Workflow};
use wfhost::process::{Payload, Problem};
use wfhost::run::{Act, Refused};
use wfhost::serve::access::Scope;
use wfhost::serve::{Service, ServiceOptions};

use super::http::server::{Server, response};

const ORDER: &str = r#"
name: order
inputs: { item: string, stock: string }
steps:
  - id: stock
    call: http
    with: { url: "${ .inputs.stock }", expect: ["2xx", 403] }
    allow: { http: GET http://localhost:8000 }
  - { id: approval, needs: stock, wait: { signal: approve } }
outputs: { item: "${ .inputs.item }", stock: "${ .steps.stock.output.status }", by: "${ .steps.approval.output.by }" }
"#;

/// The credential that the shop adds to requests: no workflow knows it, and no record has it.
const CREDENTIAL: &str = "Bearer of-the-shop-alone";

#[derive(Default)]
struct Credentials {
    sent: Arc<AtomicU64>,
}

impl HttpHook for Credentials {
    fn before(&self, hop: Hop<'_>, headers: &mut HeaderMap) -> Result<(), Problem> {
        if hop.url.contains("forbidden") {
            return Err(Problem::new("not-for-sale", format!("{} asks for what is not for sale", hop.call.run())));
        }
        headers.insert("authorization", HeaderValue::from_static(CREDENTIAL));
        Ok(())
    }

    fn after(&self, _: Hop<'_>, status: Option<StatusCode>, _: Duration) {
        self.sent.fetch_add(u64::from(status.is_some()), Ordering::Relaxed);
    }
}

struct Shop {
    host: Host,
    order: Workflow,
    stock: String,
    sent: Arc<AtomicU64>,
}

impl Shop {
    async fn open(folder: &Path, stock: String) -> Result<Self, Box<dyn std::error::Error>> {
        let credentials = Credentials::default();
        let sent = Arc::clone(&credentials.sent);
        let mut http = HttpConfig::default();
        http.permissions.push("localhost".parse::<Permission>()?);
        let host = Host::builder()
            .workers(2)
            .data(folder)
            .http(http)
            .http_hook(credentials)
            .retention(RetentionPolicy { ended_for: Some(Duration::from_secs(2)), runs_max: None })
            .runtime(tokio::runtime::Handle::current())
            .build()?;
        let port = stock.rsplit_once(':').map_or("80", |(_, port)| port);
        let text = ORDER.replace("8000", port);
        let order = host.blocking(move |host| host.parse("order.yaml", &text, ".")).await?;
        // What the process before has left.
        let resume = |host: &Host| {
            host.resume_all(&mut |stored, resumed| {
                assert!(matches!(resumed, Resumed::Run(_)), "{} is not resumed", stored.id);
            })
        };
        host.blocking(resume).await?;
        Ok(Self { host, order, stock, sent })
    }

    fn order(&self, id: &str, path: &str) -> Result<(), LoadError> {
        let inputs = json!({ "item": id, "stock": format!("{}{path}", self.stock) });
        let options = RunOptions { id: Some(id.into()), ..RunOptions::default() };
        self.host.start(&self.order, inputs.as_object().cloned().unwrap_or_default(), options)?;
        Ok(())
    }
}

fn stock() -> Server {
    Server::start(|seen, wire| {
        let is_known = seen.headers.get("authorization").is_some_and(|value| value == CREDENTIAL);
        let status = if is_known { 200 } else { 403 };
        wire.write_all(&response(status, "", "7")).is_ok()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_has_all_of_a_service_without_http() {
    let (folder, stock) = (tempfile::tempdir().unwrap(), stock());
    let shop = Shop::open(folder.path(), stock.url_as("localhost", "")).await.unwrap();
    let mut changes = shop.host.watch_all().unwrap();
    for id in ["tea", "milk", "cake"] {
        shop.order(id, "/stock").unwrap();
    }
    // One stream of what all runs do, as it becomes durable.
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < 3 {
        heard.insert(changes.recv().await.unwrap().run.to_string());
    }
    assert_eq!(shop.host.runs().len(), 3);
    let tea = shop.host.run_of("tea").unwrap();
    // One way to each run, wherever it is.
    let by = |name: &str| json!({ "by": name });
    assert_eq!(shop.host.signal("tea", "approve", &by("Ann"), Some("a-1")).unwrap(), Acted::Recorded);
    // Its answer was lost, say.
    shop.host.signal("tea", "approve", &by("Ann"), Some("a-1")).unwrap();
    let cancel = Act::Cancel { reason: "sold out".into(), grace: None };
    assert_eq!(shop.host.act_async("cake", cancel, None).await.unwrap(), Acted::Recorded);
    assert_eq!(shop.host.run_of("milk").unwrap().query("nothing"), None);
    let outcome = tea.finished().await;
    assert_eq!(outcome.outputs(), Some(json!({ "item": "tea", "stock": 200, "by": "Ann" })));
    assert_eq!(shop.host.signal("tea", "approve", &by("Ann"), Some("a-1")).unwrap(), Acted::Duplicate);
    let others = shop.host.signal("tea", "approve", &by("Eve"), Some("a-1")).unwrap_err();
    assert!(matches!(others, ActError::Refused(Refused::Conflict)), "{others:?}");
    let late = shop.host.signal("tea", "approve", &by("Eve"), Some("a-2")).unwrap_err();
    assert!(matches!(late, ActError::Refused(Refused::Ended)), "{late:?}");
    assert!(shop.sent.load(Ordering::Relaxed) >= 1);
    // The process ends in the middle, and the next one has what it left.
    shop.host.suspend(Duration::from_secs(5)).unwrap();
    drop(shop);
    let shop = Shop::open(folder.path(), stock.url_as("localhost", "")).await.unwrap();
    assert_eq!(shop.host.runs().len(), 1);
    let milk = shop.host.run_of("milk").unwrap();
    shop.host.act("milk", &Act::Signal { name: "approve".into(), body: Payload::from(by("Bob")) }, None).unwrap();
    let milk = milk.finished().await;
    assert_eq!(milk.outputs(), Some(json!({ "item": "milk", "stock": 200, "by": "Bob" })));
    // The credential is in no record, and so in no file of the folder.
    for file in
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(CREDENTIAL.len()).any(|part| part == CREDENTIAL.as_bytes()), "{}", file.display());
    }
    // What has ended is removed in time.
    for _ in 0..200 {
        if shop.host.journal().unwrap().unwrap().run("tea").unwrap().is_none() {
            shop.host.shutdown(Duration::from_secs(5)).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the run is retained");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_refuses_a_request() {
    let (folder, stock) = (tempfile::tempdir().unwrap(), stock());
    let shop = Shop::open(folder.path(), stock.url_as("localhost", "")).await.unwrap();
    shop.order("gun", "/forbidden").unwrap();
    let run = shop.host.run_of("gun").unwrap();
    let problem = format!("{:?}", run.finished().await.result);
    assert!(problem.contains("gun asks for what is not for sale") && stock.seen().is_empty(), "{problem}");
    shop.host.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_mounts_the_api_beside_its_own_routes() {
    let (folder, stock) = (tempfile::tempdir().unwrap(), stock());
    let shop = Shop::open(folder.path(), stock.url_as("localhost", "")).await.unwrap();
    let service = Service::new(shop.host.clone(), ServiceOptions::default()).unwrap();
    let token = service.make_token("shop", &[Scope::Admin]).unwrap();
    service.set_ready();
    let own = axum::Router::new().route("/", get(|| async { "the shop" }));
    let mut router = own.nest("/flows", wfhost::serve::router(&service));
    shop.order("tea", "/stock").unwrap();
    let mut ask = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap();
        let response = router.call(request).await.unwrap();
        let status = response.status();
        (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap())
    };
    assert_eq!(ask("/").await, (StatusCode::OK, "the shop".into()));
    let (status, run) = ask("/flows/v1/runs/tea").await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&run));
    assert_eq!(serde_json::from_slice::<Value>(&run).unwrap()["workflow"], "order");
    service.drain();
    shop.host.shutdown(Duration::from_secs(5)).await;
}

#[test]
fn errors_that_reach_main_read_as_the_command_line_shows_them() {
    let host = Host::builder().workers(1).build().unwrap();
    let faulty = "steps:\n  - { id: a, set: \"${ .inputs.n }\" }\n";
    let error = host.parse("a.yaml", faulty, ".").map(drop).unwrap_err();
    let shown = format!("{error:?}");
    assert!(shown.contains("error[unknown-input]") && shown.contains("--> a.yaml:2"), "{shown}");
    let error = host.load("no/such.yaml").map(drop).unwrap_err();
    assert_eq!(format!("{error:?}"), "no/such.yaml: No such file or directory (os error 2)");
    let order = host.parse("order.yaml", ORDER, ".").unwrap();
    let error = host.start(&order, Map::new(), RunOptions::default()).map(drop).unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "the inputs do not fit: /item is required (a string); /stock is required (a string)"
    );
    host.shutdown_blocking(Duration::from_secs(5));
}
