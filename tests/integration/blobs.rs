//! Blobs from servers through programs and handlers to servers: what arrives, who may read it, and
//! that a run of them goes on from each of its records.

use super::cat_program::cat;
use super::http::server::{Server, response};
use serde_json::{Map, Value, json};
use std::path::Path;
use wfhost::dispatch::http::HttpConfig;
use wfhost::host::{ForkOptions, Host, Outcome, RunOptions, Workflow};
use wfhost::process::Payload;
use wfhost::run::BlobBounds;

fn config() -> HttpConfig {
    let mut config = HttpConfig::default();
    config.permissions = vec!["127.0.0.0/8".parse().unwrap()];
    config
}

fn host(folder: &Path, bounds: BlobBounds) -> Host {
    Host::builder().workers(1).http(config()).data(folder).blobs(bounds).build().unwrap()
}

fn load(host: &Host, text: &str, folder: &Path) -> Workflow {
    std::fs::write(folder.join("cat.wasm"), cat()).unwrap();
    host.parse("flow.yaml", text, folder).unwrap_or_else(|error| panic!("{error}"))
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Bytes that compress badly and are no text.
fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"blob").finalize_xof().fill(&mut bytes);
    bytes
}

/// A server with something at `/get`, which takes whatever is put.
fn server(body: &[u8]) -> Server {
    let answer = response(200, "content-type: application/x-thing\r\n", body);
    Server::start(move |seen, wire| {
        let answer = if seen.method == "GET" { answer.clone() } else { response(201, "", "") };
        wire.write_all(&answer).is_ok()
    })
}

fn outputs(outcome: &Outcome) -> Value {
    match &outcome.result {
        Ok(Payload::Json(json)) => json.to_value(),
        other => panic!("{other:?}"),
    }
}

fn problem(outcome: &Outcome) -> (String, String) {
    let problem = outcome.result.as_ref().unwrap_err();
    let cause = problem.data.as_ref().unwrap().to_value()["cause"].clone();
    (cause["kind"].as_str().unwrap().to_owned(), cause["detail"].as_str().unwrap_or_default().to_owned())
}

const THROUGH: &str = r#"
inputs: { server: string }
steps:
  - id: get
    call: http
    with: { url: "${ .inputs.server }/get", as: blob }
    allow: { http: "GET http://127.0.0.1:*" }
  - id: copy
    uses: ./cat.wasm
    with: { stdin: "${ .steps.get.output.body }", parse: blob }
  - id: part
    call: blob.get
    with: { blob: "${ .steps.copy.output.stdout }", offset: 10, length: 6, as: base64 }
  - id: note
    call: blob.put
    with: { text: "noted", media-type: text/plain }
  - id: joined
    call: blob.put
    with: { parts: [ "${ .steps.note.output }", "${ .steps.copy.output.stdout }" ] }
  - id: put
    call: http
    with: { url: "${ .inputs.server }/put", method: PUT, body: { blob: "${ .steps.joined.output }" } }
    allow: { http: "PUT http://127.0.0.1:*" }
outputs:
  got: "${ .steps.get.output.body }"
  copied: "${ .steps.copy.output.stdout }"
  part: "${ .steps.part.output }"
  put: "${ .steps.put.output.status }"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_goes_from_a_server_through_a_program_to_a_server_from_every_record_on() {
    let body = bytes(3_000_000);
    let server = server(&body);
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), BlobBounds::default());
    let workflow = load(&host, THROUGH, folder.path());
    let inputs = object(&json!({ "server": server.url("") }));
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let first = host.start(&workflow, inputs, options).unwrap().finished().await;
    let digest = format!("blake3:{}", blake3::hash(&body).to_hex());
    let expected = outputs(&first);
    assert_eq!(expected["got"], json!({ "digest": digest, "size": 3_000_000, "media-type": "application/x-thing" }));
    assert_eq!((&expected["copied"]["digest"], &expected["put"]), (&json!(digest), &json!(201)));
    let whole = [&b"noted"[..], &body].concat();
    assert!(server.seen().iter().all(|seen| seen.method == "GET" || seen.body == whole));
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let bytes: usize = records.iter().map(|record| format!("{record:?}").len()).sum();
    assert!(bytes < 200_000, "what a blob has is not in the records: {bytes}");
    for at in 1..records.len() as u64 {
        let id = format!("from-{at}");
        let options = ForkOptions { at, id: Some(id.clone()), resend: true, ..ForkOptions::default() };
        host.fork(&workflow, "run", options).unwrap();
        let run = host.recover(&workflow, &id, RunOptions::default()).unwrap();
        assert_eq!(outputs(&run.finished().await), expected, "from record {at}");
    }
    assert!(server.seen().iter().all(|seen| seen.method == "GET" || seen.body == whole));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_not_durable_has_blobs_as_long_as_it_is_known() {
    let body = bytes(200_000);
    let server = server(&body);
    let folder = tempfile::tempdir().unwrap();
    let host = Host::builder().workers(1).http(config()).build().unwrap();
    let workflow = load(&host, THROUGH, folder.path());
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, object(&json!({ "server": server.url("") })), options).unwrap();
    let got = outputs(&run.finished().await)["got"]["digest"].as_str().unwrap().to_owned();
    let reader = host.blobs("run", false).open(&got).unwrap();
    assert_eq!(reader.read(0, usize::MAX).unwrap(), body);
}

const FOREIGN: &str = r#"
inputs: { digest: string, offset: { type: integer, default: 0 }, length: { type: integer, default: 1 } }
steps:
  - { id: own, call: blob.put, with: { text: "0123456789" } }
  - id: get
    needs: own
    call: blob.get
    with:
      blob: "${ if .inputs.digest == \"own\" then .steps.own.output else .inputs.digest end }"
      offset: "${ .inputs.offset }"
      length: "${ .inputs.length }"
outputs: { got: "${ .steps.get.output }" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_no_blob_of_another_and_no_range_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), BlobBounds::default());
    let secret = host.blobs("other", true).put(b"secret", "text/plain").unwrap();
    let workflow = load(&host, FOREIGN, folder.path());
    let run = async |digest: &str, offset: i64, length: i64| {
        let inputs = object(&json!({ "digest": digest, "offset": offset, "length": length }));
        host.run(&workflow, inputs).await.unwrap()
    };
    assert_eq!(outputs(&run("own", 3, 4).await), json!({ "got": "3456" }));
    assert_eq!(outputs(&run("own", 10, 4).await), json!({ "got": "" }));
    assert_eq!(outputs(&run("own", 8, 1 << 50).await), json!({ "got": "89" }));
    assert_eq!(problem(&run(&secret.digest, 0, 1).await).0, "bad-blob");
    for (digest, offset, length) in
        [("own", 11, 1), ("own", 1 << 52, 1), ("own", -1, 1), ("own", 0, -1), ("own", 1 << 60, 1), ("blake3:zz", 0, 1)]
    {
        let (kind, detail) = problem(&run(digest, offset, length).await);
        assert_eq!(kind, "bad-arguments", "{digest} {offset} {length}: {detail}");
    }
    // An input cannot smuggle in what the run was not given.
    let taking =
        host.parse("taking.yaml", "inputs: { data: { type: blob } }\nsteps: [{ id: a, set: 1 }]", folder.path());
    let error = host.run(&taking.unwrap(), object(&json!({ "data": secret.to_value() }))).await.unwrap_err();
    assert!(error.to_string().contains("was not uploaded for this run"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bound_of_blobs_is_a_problem_of_its_own() {
    let server = server(&bytes(100_000));
    let text = "
inputs: { server: string }
steps:
  - id: get
    for-each: [ 1, 2 ]
    max-parallel: 1
    call: http
    with: { url: \"${ .inputs.server }/get\", as: blob }
    allow: { http: \"GET http://127.0.0.1:*\" }
  - { id: more, needs: get, call: blob.put, with: { text: more } }
";
    let bounds = |change: &dyn Fn(&mut BlobBounds)| {
        let mut bounds = BlobBounds::default();
        change(&mut bounds);
        bounds
    };
    for (bounds, expected) in [
        (bounds(&|all| all.blob_bytes = 99_999), "response-too-large"),
        (bounds(&|all| all.run_bytes = 99_999), "run-blobs-exhausted"),
        (bounds(&|all| all.run_blobs = 1), "run-blobs-exhausted"),
        (bounds(&|all| all.store_bytes = 100_003), "blob-store-full"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path(), bounds);
        let workflow = load(&host, text, folder.path());
        let outcome = host.run(&workflow, object(&json!({ "server": server.url("") }))).await.unwrap();
        assert_eq!(problem(&outcome).0, expected);
        let new = folder.path().join("blobs/new");
        assert_eq!(std::fs::read_dir(new).unwrap().count(), 0, "what was refused is not left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_breaks_off_leaves_no_blob() {
    let server = Server::start(|_, wire| {
        let _ = wire.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nonly this");
        false
    });
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), BlobBounds::default());
    let workflow = load(&host, THROUGH, folder.path());
    let outcome = host.run(&workflow, object(&json!({ "server": server.url("") }))).await.unwrap();
    assert_eq!(problem(&outcome).0, "connection-lost");
    // What another step has noted is all.
    let held = host.blobs(&outcome.run, true).all().unwrap();
    assert!(held.iter().all(|blob| blob.size == 5), "{held:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("blobs/new")).unwrap().count(), 0);
}

const LINES: &str = r#"
inputs: { data: { type: blob } }
steps:
  - id: sums
    for-each: { lines: "${ .inputs.data }", batch: 1000, window: 5000 }
    set: "${ .item | map(ltrimstr(\"line \") | tonumber) | add }"
  - id: back
    call: blob.get
    with: { blob: "${ .steps.sums.output.results }" }
outputs: { lines: "${ .steps.sums.output.lines }", sums: "${ .steps.back.output }" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_read_again_and_not_recorded_from_every_record_on() {
    const COUNT: u64 = 12_345;
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), BlobBounds::default());
    let workflow = load(&host, LINES, folder.path());
    let text = (0..COUNT).map(|number| format!("line {number:020}\n")).collect::<Vec<_>>().concat();
    let data = host.blobs("run", true).put(text.as_bytes(), "text/plain").unwrap();
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, object(&json!({ "data": data.to_value() })), options).unwrap();
    let sum = |batch: u64| (batch * 1_000..COUNT.min((batch + 1) * 1_000)).sum::<u64>();
    let sums = (0..13).map(|batch| format!("{}\n", sum(batch))).collect::<Vec<_>>().concat();
    let expected = json!({ "lines": COUNT, "sums": sums });
    assert_eq!(outputs(&run.finished().await), expected);
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let shown = records.iter().map(|record| format!("{record:?}")).collect::<Vec<_>>().concat();
    assert!(!shown.contains("00000017"), "no line is in a record");
    host.rebuild(&workflow, &records).unwrap();
    for at in 1..records.len() as u64 {
        let id = format!("from-{at}");
        let options = ForkOptions { at, id: Some(id.clone()), resend: true, ..ForkOptions::default() };
        host.fork(&workflow, "run", options).unwrap();
        let run = host.recover(&workflow, &id, RunOptions::default()).unwrap();
        assert_eq!(outputs(&run.finished().await), expected, "from record {at}");
    }
}

const ANY_LINES: &str = r#"
inputs: { data: { type: blob } }
steps:
  - { id: same, for-each: { lines: "${ .inputs.data }" }, set: "${ .item }" }
  - { id: some, for-each: { lines: "${ .inputs.data }", batch: 100 }, set: "${ .item | map(utf8bytelength) }" }
outputs:
  lines: [ "${ .steps.same.output.lines }", "${ .steps.some.output.lines }" ]
  same: "${ .steps.same.output.results }"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_any_length_and_content_are_read_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), BlobBounds::default());
    let workflow = load(&host, ANY_LINES, folder.path());
    let whole = (1 << 20) - 1;
    let cases = [
        ("y", 60, 20_000),
        ("y", 104, 11_000),
        ("y", 200, 6_000),
        ("y", 1_000, 1_300),
        ("\"", 300, 4_000),
        ("\u{1}", 500, 2_500),
        ("日", 50, 8_000),
        ("y", whole, 2),
        ("\u{1}", whole, 1),
    ];
    for (unit, times, count) in cases {
        let line = unit.repeat(times);
        let text = format!("{line}\n").repeat(count);
        let id = format!("{:x}-{times}", unit.chars().next().unwrap() as u32);
        let data = host.blobs(&id, true).put(text.as_bytes(), "text/plain").unwrap();
        let options = RunOptions { id: Some(id.clone()), ..RunOptions::default() };
        let run = host.start(&workflow, object(&json!({ "data": data.to_value() })), options).unwrap();
        let told = outputs(&run.finished().await);
        assert_eq!(told["lines"], json!([count, count]), "{id}");
        let same = host.blobs(&id, true).open(told["same"]["digest"].as_str().unwrap()).unwrap();
        let expected = format!("{}\n", json!(line)).repeat(count);
        assert!(same.read(0, usize::MAX).unwrap() == expected.as_bytes(), "{id}");
    }
    // A byte more is too much.
    let data = host.blobs("long", true).put("y".repeat((1 << 20) + 1).as_bytes(), "text/plain").unwrap();
    let options = RunOptions { id: Some("long".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, object(&json!({ "data": data.to_value() })), options).unwrap();
    let (kind, detail) = problem(&run.finished().await);
    assert_eq!((&*kind, &*detail), ("line-too-long", "the line at byte 0 has more than 1048576 bytes"));
}
