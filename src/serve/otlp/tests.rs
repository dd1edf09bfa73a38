//! Traces of a real server, decoded by a collector on loopback.

use super::messages::{ExportRequest, Scalar, Span};
use super::{Exporter, OtlpOptions};
use crate::host::{Host, RunOptions, RunSpans, SpanId, StartNotes, TraceContext, TraceId};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const WORKFLOW: &str = "\
name: order
steps:
  - { id: stock, call: kv, with: { op: set, key: a, value: 1 }, allow: { kv: [ \"*\" ] } }
  - { id: approve, wait: { signal: approve }, needs: [stock] }
";

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A collector that refuses the first request, and keeps the spans of the others.
#[derive(Default)]
struct Collector {
    requests: usize,
    keys: Vec<String>,
    spans: Vec<Span>,
}

async fn take(State(state): State<Arc<Mutex<Collector>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut state = state.lock();
    state.requests += 1;
    if state.requests == 1 {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    state.keys.push(headers["x-key"].to_str().unwrap().to_owned());
    let request = ExportRequest::decode(body).unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap().attributes;
        assert_eq!(attributes[0].key, "service.name");
        assert_eq!(attributes[0].value.as_ref().unwrap().value, Some(Scalar::Text("shop".to_owned())));
        state.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    StatusCode::OK
}

/// Serves on loopback. Returns the URL.
async fn serve(router: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    url
}

async fn collector() -> (Arc<Mutex<Collector>>, OtlpOptions) {
    let state = Arc::new(Mutex::new(Collector::default()));
    let router = axum::Router::new().route("/v1/traces", axum::routing::post(take)).with_state(Arc::clone(&state));
    let endpoint = format!("{}/", serve(router).await);
    let headers = vec![("x-key".to_owned(), "k1".to_owned())];
    (state, OtlpOptions { endpoint, headers, service: "shop".to_owned() })
}

fn host(folder: &Path) -> Host {
    Host::builder().workers(1).data(folder).runtime(tokio::runtime::Handle::current()).build().unwrap()
}

fn start(host: &Host, id: &str, traceparent: Option<&str>) -> crate::host::RunHandle {
    let workflow = host.parse("order.yaml", WORKFLOW, Path::new(".")).unwrap();
    let notes = StartNotes { traceparent: traceparent.map(str::to_owned), ..StartNotes::default() };
    let options = RunOptions { id: Some(id.to_owned()), durable: Some(true), notes, ..RunOptions::default() };
    let run = host.start(&workflow, serde_json::Map::new(), options).unwrap();
    assert!(run.started(Duration::from_secs(10)));
    run
}

/// Waits until the collector has a span of this name in this run, and returns all spans.
async fn until(state: &Mutex<Collector>, run: &str, name: &str) -> Vec<Span> {
    let of_run = |span: &Span| span.attributes[0].value.as_ref().unwrap().value == Some(Scalar::Text(run.to_owned()));
    for _ in 0..500 {
        {
            let state = state.lock();
            if state.spans.iter().any(|span| span.name == name && of_run(span)) {
                return state.spans.iter().filter(|span| of_run(span)).cloned().collect();
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no span `{name}` of `{run}` in {:#?}", state.lock().spans);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_a_trace_that_goes_on_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let (state, options) = collector().await;
    let host = host(folder.path());
    let exporter = Exporter::start(&host, &options).unwrap();
    let run = start(&host, "order-1", Some(PARENT));
    let quiet = start(&host, "order-2", Some(UNSAMPLED));
    // What has ended is sent while the run goes on.
    let early = until(&state, "order-1", "stock").await;
    assert!(early.iter().any(|span| span.name == "started"));
    assert!(!early.iter().any(|span| span.name == "order"));
    for run in [&run, &quiet] {
        run.signal("approve", &serde_json::json!({})).unwrap();
        run.finished().await;
    }
    let spans = until(&state, "order-1", "order").await;
    let context = TraceContext::read(PARENT).unwrap();
    assert!(spans.iter().all(|span| span.trace_id == context.trace.0), "one trace, that of the caller");
    let root: Vec<&Span> = spans.iter().filter(|span| span.name == "order").collect();
    assert_eq!(root.len(), 1);
    assert_eq!(root[0].parent_span_id, context.parent.unwrap().0);
    assert_eq!((root[0].kind, root[0].status.as_ref().unwrap().code), (2, 1));
    assert!(root[0].start_time_unix_nano > 1_600_000_000_000_000_000);
    let ids: BTreeSet<&Vec<u8>> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "each span is sent once");
    let known = |span: &&Span| ids.contains(&span.parent_span_id);
    assert_eq!(spans.iter().filter(known).count(), spans.len() - 1, "all but the root have a parent that was sent");
    exporter.flush(Duration::from_secs(5)).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let all = state.lock().spans.len();
    assert_eq!(all, spans.len(), "nothing is sent of a trace that is not sampled");
    assert_eq!(exporter.counts(), (all as u64, 0));
    assert!(state.lock().keys.iter().all(|key| key == "k1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_same_ids_are_sent_again_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (state, options) = collector().await;
    let first = host(folder.path());
    let exporter = Exporter::start(&first, &options).unwrap();
    start(&first, "order-1", None);
    let before = until(&state, "order-1", "stock").await;
    // As a kill does: nothing is flushed, and the run is not ended.
    drop(exporter);
    first.suspend(Duration::ZERO).unwrap();
    drop(first);
    let second = host(folder.path());
    second.resume_all(&mut |_, _| {}).unwrap();
    let _exporter = Exporter::start(&second, &options).unwrap();
    let run = second.run_of("order-1").unwrap();
    run.signal("approve", &serde_json::json!({})).unwrap();
    run.finished().await;
    let all = until(&state, "order-1", "order").await;
    let mut by_id: BTreeMap<&[u8], Vec<&Span>> = BTreeMap::new();
    for span in &all {
        by_id.entry(&span.span_id).or_default().push(span);
    }
    for (id, spans) in &by_id {
        assert!(spans.iter().all(|span| *span == spans[0]), "{id:?} is two spans: {spans:#?}");
    }
    for span in &before {
        assert!(by_id[&*span.span_id].len() >= 2, "it is sent again: {span:#?}");
    }
    // The spans of one who makes them of the records, once.
    let mut expected = BTreeSet::from([RunSpans::beginning_id("order-1")]);
    let records = second.journal().unwrap().unwrap().records("order-1").unwrap();
    let mut fold = RunSpans::of("order-1".into(), "order");
    for record in &records {
        fold.apply(record, &mut |traced| {
            if let crate::host::Traced::Ended(span) = traced {
                expected.insert(span.id);
            }
        });
    }
    let sent: BTreeSet<SpanId> = by_id.keys().map(|id| SpanId((*id).try_into().unwrap())).collect();
    assert_eq!(sent, expected);
    assert!(all.iter().all(|span| span.trace_id == TraceId::of_run("order-1").0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_run_goes_on_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (state, options) = collector().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let target = {
        let seen = Arc::clone(&seen);
        let answer = move |headers: HeaderMap| async move {
            seen.lock().push(headers["traceparent"].to_str().unwrap().to_owned());
            "ok"
        };
        serve(axum::Router::new().route("/", axum::routing::get(answer))).await
    };
    let permissions = vec!["127.0.0.1".parse().unwrap()];
    let http = crate::dispatch::http::HttpConfig { permissions, ..Default::default() };
    let host = Host::builder().workers(1).data(folder.path()).http(http);
    let host = host.runtime(tokio::runtime::Handle::current()).build().unwrap();
    let allow = format!("allow: {{ http: [ \"GET {target}/\" ] }}");
    let text = format!(
        "name: fetch\nsteps:\n  - {{ id: a, call: http, with: {{ url: \"{target}/\" }}, {allow} }}\n  - {{ id: b, call: http, \
         with: {{ url: \"{target}/\", headers: {{ traceparent: own }} }}, needs: [a], {allow} }}\n"
    );
    let workflow = host.parse("fetch.yaml", &text, Path::new(".")).unwrap();
    let _exporter = Exporter::start(&host, &options).unwrap();
    for (id, traceparent) in [("with", Some(PARENT)), ("without", None)] {
        let notes = StartNotes { traceparent: traceparent.map(str::to_owned), ..StartNotes::default() };
        let options = RunOptions { id: Some(id.to_owned()), durable: Some(true), notes, ..RunOptions::default() };
        let outcome = host.start(&workflow, serde_json::Map::new(), options).unwrap().finished().await;
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
        let spans = until(&state, id, "fetch").await;
        let sent = std::mem::take(&mut *seen.lock());
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[1], "own", "the step's own header is sent");
        let context = TraceContext::read(&sent[0]).unwrap();
        assert_eq!(context.trace, TraceContext::of_run(id, traceparent).trace);
        let calls = spans.iter().filter(|span| span.span_id == context.parent.unwrap().0);
        assert_eq!(calls.map(|span| (&*span.name, span.kind)).collect::<Vec<_>>(), [("http", 3)], "{spans:#?}");
    }
}
