//! Scrapes of a real server on a folder.

use super::{Format, METRICS};
use crate::host::Host;
use crate::journal::Filter;
use crate::run::EndStatus;
use crate::serve::access::{Scope, token};
use crate::serve::{Service, ServiceOptions, router};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tower_service::Service as _;

const WORKFLOWS: [&str; 3] = [
    "name: waits\nsteps:\n  - { id: a, set: 1 }\n  - { id: b, wait: { signal: one } }\n  - { id: c, wait: { signal: two } }\n",
    "name: good\nsteps:\n  - { id: a, call: log, with: { message: hello } }\noutputs: { b: 1 }",
    "name: bad\nsteps: [{ id: a, set: \"${ error(\\\"no\\\") }\" }]",
];

struct Server {
    service: Arc<Service>,
    router: axum::Router,
    token: String,
}

impl Server {
    fn new(folder: &Path, scope: Scope) -> Self {
        let host = Host::builder().workers(2).data(folder).runtime(tokio::runtime::Handle::current()).build().unwrap();
        let service = Service::new(host.clone(), ServiceOptions::default()).unwrap();
        for text in WORKFLOWS {
            let workflow = host.parse("w.yaml", text, folder).unwrap();
            let (deployed, _) = service.deploy(workflow, "ann", None).unwrap();
            let _ = service.activate(&deployed.version.name, deployed.version.number, "ann", None).unwrap();
        }
        let (token, stored) = token::make("ann", &[scope], Vec::new(), None).unwrap();
        service.store.add_token(&stored).unwrap();
        let router = router(&service);
        Self { service, router, token }
    }

    async fn asks(&self, method: &str, path: &str, accept: &str, body: &str) -> (StatusCode, String, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost").header("accept", accept);
        let request = request.header("authorization", format!("Bearer {}", self.token));
        let request = request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap();
        let (parts, body) = self.router.clone().call(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let kind = parts.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        (parts.status, kind.unwrap_or_default(), String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// The samples of a text, by their names and labels as they stand there.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_agree_with_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path(), Scope::Admin);
    for (workflow, runs) in [("good", 20), ("bad", 5)] {
        for _ in 0..runs {
            let path = format!("/v1/workflows/{workflow}/runs?wait=30s");
            let (status, _, text) = server.asks("POST", &path, "*/*", "{}").await;
            assert_eq!(status, StatusCode::OK, "{text}");
        }
    }
    let _ = server.service.host().signal("nobody", "go", &serde_json::Value::Null, None).unwrap_err();
    let (status, kind, text) = server.asks("GET", "/metrics", "text/plain", "").await;
    assert_eq!((status, &*kind), (StatusCode::OK, Format::Prometheus.content_type()), "{text}");
    let samples = samples(&text);
    for (workflow, status, runs) in [("good", EndStatus::Succeeded, 20.0), ("bad", EndStatus::Failed, 5.0)] {
        let filter = Filter { name: Some(workflow.to_owned()), status: Some(status), ..Filter::default() };
        let stored = server.service.store().count(&filter).unwrap();
        assert!((stored as f64 - runs).abs() < 0.5, "the journal has {stored} of {workflow}");
        let started = format!("wfhost_runs_started_total{{workflow=\"{workflow}\",source=\"api\"}}");
        let ended = format!("wfhost_runs_ended_total{{workflow=\"{workflow}\",status=\"{}\"}}", status.name());
        let timed = format!("wfhost_run_duration_seconds_count{{workflow=\"{workflow}\"}}");
        for name in [started, ended, timed] {
            assert_eq!(samples.get(&*name), Some(&runs), "{name}\n{text}");
        }
    }
    let is = |name: &str, value: f64| assert_eq!(samples.get(name), Some(&value), "{name}\n{text}");
    is("wfhost_calls_total{handler=\"log\",outcome=\"answered\"}", 20.0);
    is("wfhost_call_duration_seconds_count{handler=\"log\"}", 20.0);
    is("wfhost_http_requests_total{route=\"/v1/workflows/{name}/runs\",method=\"POST\",code=\"200\"}", 25.0);
    is("wfhost_steps_total{workflow=\"good\",outcome=\"succeeded\"}", 20.0);
    is("wfhost_steps_total{workflow=\"bad\",outcome=\"failed\"}", 5.0);
    is("wfhost_sse_lag_events", 0.0);
    is("wfhost_restores_total", 0.0);
    is("wfhost_journal_full", 0.0);
    is("wfhost_signals_total{outcome=\"refused\"}", 1.0);
    is("wfhost_inbox_oldest_seconds{kind=\"signal\"}", 0.0);
    is("wfhost_schedule_lateness_seconds_count", 0.0);
    let records: f64 = samples["wfhost_journal_group_records_sum"];
    let runs = server.service.store().list(&Filter::default()).unwrap();
    assert!((records - runs.iter().map(|run| run.records as f64).sum::<f64>()).abs() < 0.5, "{records} records");
    assert!(samples["wfhost_slices_total{worker=\"0\"}"] + samples["wfhost_slices_total{worker=\"1\"}"] >= 25.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6 && samples["process_cpu_seconds_total"] > 0.0);
}

/// Steps that ended before are replayed, and not counted again; runs that are parked are counted
/// by the server that has them, or inherits them.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_nothing_counts_twice_and_parked_runs_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let start = || async {
        let server = Server::new(folder.path(), Scope::Admin);
        server.service.host().resume_all(&mut |_, _| {}).unwrap();
        server
    };
    let steps = "wfhost_steps_total{workflow=\"waits\",outcome=\"succeeded\"}";
    let (mut counted, mut server) = (0.0, start().await);
    for (signal, sum) in [(None, 1.0), (Some("one"), 2.0), (Some("two"), 3.0)] {
        if let Some(signal) = signal {
            server.service.host().suspend(std::time::Duration::from_secs(5)).unwrap();
            drop(server);
            server = start().await;
            let (_, _, text) = server.asks("GET", "/metrics", "", "").await;
            assert!(!samples(&text).contains_key(steps), "{text}");
            let path = format!("/v1/runs/it/signals/{signal}");
            let (status, _, text) = server.asks("POST", &path, "*/*", "1").await;
            assert_eq!(status, StatusCode::OK, "{text}");
        } else {
            let (status, ..) = server.asks("POST", "/v1/workflows/waits/runs", "*/*", r#"{"run-id":"it"}"#).await;
            assert_eq!(status, StatusCode::CREATED);
        }
        counted += wait_for(&server, steps, 1.0).await;
        assert!((counted - sum).abs() < 0.5, "{counted}");
    }
    let (_, _, text) = server.asks("GET", "/v1/runs/it/outcome?wait=30s", "*/*", "").await;
    assert!(text.contains("succeeded"), "{text}");
}

/// A sample, once it is at least this.
async fn wait_for(server: &Server, name: &str, least: f64) -> f64 {
    for _ in 0..500 {
        let (_, _, text) = server.asks("GET", "/metrics", "", "").await;
        match samples(&text).get(name) {
            Some(value) if *value >= least => return *value,
            _ => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
    panic!("{name} does not come to {least}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_formats_have_every_metric_and_no_label_without_bound() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path(), Scope::Metrics);
    let (status, ..) = server.asks("POST", "/v1/workflows/good/runs", "*/*", "{}").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "the scope reads metrics and no more");
    server.asks("BREW", "/no/such/route", "*/*", "").await;
    let (_, kind, open) =
        server.asks("GET", "/metrics", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5", "").await;
    assert_eq!(kind, Format::OpenMetrics.content_type());
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("{route=\"other\",method=\"other\",code=\"404\"} 1\n"), "{open}");
    let (_, _, plain) = server.asks("GET", "/metrics", "", "").await;
    assert!(!plain.contains("EOF"));
    for metric in METRICS {
        let family = metric.name.trim_end_matches("_total").trim_end_matches("_info");
        assert!(open.contains(&format!("# TYPE {family} {}\n", metric.kind.as_str())), "{}", metric.name);
        assert!(plain.contains(&format!("# HELP {} {}\n# TYPE {} ", metric.name, metric.help, metric.name)));
    }
}

#[test]
fn the_list_of_the_documentation_is_this_one() {
    let text = include_str!("../../../docs/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let written: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(written, known);
    assert_eq!(known.len(), METRICS.len(), "a name stands twice");
}

/// Prometheus's own check, where it is installed.
#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_nothing() {
    let has = std::process::Command::new("promtool").arg("--version").output().is_ok_and(|out| out.status.success());
    if !has {
        assert!(std::env::var_os("WFHOST_PROMTOOL_MUST_RUN").is_none(), "there is no promtool");
        eprintln!("skipped: there is no promtool");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path(), Scope::Admin);
    server.asks("POST", "/v1/workflows/good/runs?wait=30s", "*/*", "{}").await;
    let (_, _, text) = server.asks("GET", "/metrics", "", "").await;
    let file = folder.path().join("metrics.txt");
    std::fs::write(&file, &text).unwrap();
    let mut check = std::process::Command::new("promtool");
    let out = check.args(["check", "metrics"]).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    assert!(out.status.success(), "{said}\n{text}");
}
