//! Bounds on calls that a workflow or an operator sets: what arrives at a server, and when.

use crate::http::server::{Server, response};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wfhost::dispatch::Bound;
use wfhost::dispatch::http::HttpConfig;
use wfhost::host::{Host, HostBuilder, RunOptions};

/// A server that notes when requests arrive, and how many are there at one time.
#[derive(Default)]
struct Arrivals {
    at: Mutex<Vec<Instant>>,
    now: Mutex<(u32, u32)>,
}

impl Arrivals {
    fn server(self: &Arc<Self>) -> Server {
        let arrivals = Arc::clone(self);
        Server::start(move |_, wire| {
            arrivals.at.lock().unwrap().push(Instant::now());
            {
                let mut now = arrivals.now.lock().unwrap();
                now.0 += 1;
                now.1 = now.1.max(now.0);
            }
            std::thread::sleep(Duration::from_millis(15));
            arrivals.now.lock().unwrap().0 -= 1;
            wire.write_all(&response(200, "", "{}")).is_ok()
        })
    }
}

fn flow(handlers: &str, urls: &[String]) -> String {
    format!(
        "{handlers}
steps:
  - id: get
    for-each: {}
    call: http
    with: {{ url: '${{ .item }}' }}
    allow: {{ http: [ 'GET http://localhost:*', 'GET http://127.0.0.1:*' ] }}
outputs: {{ count: '${{ .steps.get.output | length }}' }}
",
        json!(urls)
    )
}

async fn run(builder: HostBuilder, text: &str, runs: usize) {
    let mut config = HttpConfig::default();
    config.permissions = vec!["localhost".parse().unwrap(), "127.0.0.0/8".parse().unwrap()];
    let host: Host = builder.workers(1).http(config).build().unwrap();
    let workflow = host.parse("flow.yaml", text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"));
    let all: Vec<_> =
        (0..runs).map(|_| host.start(&workflow, serde_json::Map::new(), RunOptions::default()).unwrap()).collect();
    for run in all {
        let outcome = run.finished().await;
        assert!(outcome.outputs().is_some_and(|outputs: Value| outputs["count"].is_u64()), "{:?}", outcome.result);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_of_a_workflow_share_its_bounds() {
    let arrivals = Arc::new(Arrivals::default());
    let server = arrivals.server();
    let urls: Vec<String> = (0..6).map(|number| server.url(&format!("/{number}"))).collect();
    run(Host::builder(), &flow("handlers: { http: { concurrency: 2 } }", &urls), 2).await;
    assert_eq!((arrivals.at.lock().unwrap().len(), arrivals.now.lock().unwrap().1), (12, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_begin_no_faster_than_the_rate() {
    let arrivals = Arc::new(Arrivals::default());
    let server = arrivals.server();
    let urls: Vec<String> = (0..8).map(|number| server.url(&format!("/{number}"))).collect();
    let since = Instant::now();
    run(Host::builder(), &flow("handlers: { http: { rate: 20/s, burst: 3 } }", &urls), 1).await;
    // Three at once, and five more that are 50 ms apart.
    assert!(since.elapsed() >= Duration::from_millis(250), "{:?}", since.elapsed());
    assert_eq!(arrivals.at.lock().unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_may_be_bounded_by_itself_and_an_operator_bounds_all() {
    for (operator, most) in [(None, 2), (Some(1), 1)] {
        let arrivals = Arc::new(Arrivals::default());
        let servers = [arrivals.server(), arrivals.server()];
        let urls: Vec<String> = (0..8).map(|number| servers[number % 2].url(&format!("/{number}"))).collect();
        let mut builder = Host::builder();
        if operator.is_some() {
            builder = builder.bound_handler("http", Bound { concurrency: operator, ..Bound::default() });
        }
        run(builder, &flow("handlers: { http: { concurrency: 1, per: host } }", &urls), 1).await;
        assert_eq!((arrivals.at.lock().unwrap().len(), arrivals.now.lock().unwrap().1), (8, most));
    }
}
