//! Records and lines of runs: pages, lines of JSON, streams, and what is looked for in them.

use super::Server;
use axum::http::Method;
use serde_json::{Value, json};

const WORKFLOW: &str = "name: long
inputs: { n: { type: integer, default: 700 } }
components: { twice: \"native:twice\" }
steps: [{ id: it, uses: twice, with: { n: \"${ .inputs.n }\" } }, { id: asks, needs: it, wait: { signal: go } }]";

/// A run of it that waits after its guest has ended: its records.
async fn long(server: &Server) -> Vec<Value> {
    server.deploys(WORKFLOW);
    server.begins("long", "it", json!({})).await;
    loop {
        let detail = server.gets("/v1/runs/it").await.is(200);
        if detail["signals"][0]["waiting"] == 1 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    pages(server, "history", "records", "limit=1000").await
}

/// Reads all pages.
async fn pages(server: &Server, what: &str, key: &str, query: &str) -> Vec<Value> {
    let (mut all, mut from) = (Vec::new(), Some(1));
    while let Some(at) = from {
        let page = server.gets(&format!("/v1/runs/it/{what}?from={at}&{query}")).await.is(200);
        all.extend(page[key].as_array().unwrap().iter().cloned());
        let next = page["next"].as_u64();
        assert!(next.is_none_or(|next| next > at), "{at} {next:?}");
        from = next;
    }
    all
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_the_same_by_pages_by_lines_and_by_events() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let records = long(&server).await;
    assert!(records.len() > 1_400, "{}", records.len());
    let numbers: Vec<u64> = records.iter().map(|record| record["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>());
    assert_eq!(pages(&server, "history", "records", "limit=100").await, records);
    let accept = [("accept", "application/x-ndjson")];
    let answer = server.asks(Method::GET, "/v1/runs/it/history", &accept, None).await;
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    assert_eq!(lines(&answer.text), records);
    let part = server.asks(Method::GET, "/v1/runs/it/history?from=1001&to=1010", &accept, None).await;
    assert_eq!(lines(&part.text), records[1_000..1_010]);
    let page = server.gets("/v1/runs/it/history?from=5&to=6").await.is(200);
    assert_eq!(page, json!({ "records": records[4..6] }));

    // What is looked for is found by pages and by lines, whatever their size.
    let query = "pid=2&kind=stepped,died&q=MOMENT%20700";
    let found = pages(&server, "history", "records", query).await;
    let expected: Vec<Value> =
        records.iter().filter(|record| record.to_string().contains("moment 700 of")).cloned().collect();
    assert_eq!((found.len(), &found), (1, &expected));
    let due = pages(&server, "history", "records", "kind=arrived&limit=7").await;
    assert!(due.len() >= 700 && due.iter().all(|record| record.get("arrived").is_some()));

    // A stream shows the same, and goes on.
    let events = [("accept", "text/event-stream"), ("last-event-id", "1399")];
    let mut stream = server.follows(None, "/v1/runs/it/history", &events).await;
    for record in &records[1_399..] {
        let event = stream.next().await.unwrap();
        assert_eq!((event.name.as_str(), &event.data), ("record", record));
        assert_eq!(event.id, Some(record["number"].to_string()));
    }
    let _ = server.posts("/v1/runs/it/signals/go", json!(1)).await.is(200);
    let mut last = stream.next().await.unwrap();
    while last.name == "record" {
        last = stream.next().await.unwrap();
    }
    assert_eq!(last.name, "end");
    let mut some = server.follows(None, "/v1/runs/it/events?from=3&to=4", &[]).await;
    assert_eq!(some.next().await.unwrap().data, records[2]);
    assert_eq!(some.next().await.unwrap().data, records[3]);
    assert_eq!(some.next().await.unwrap().name, "end");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_the_log_are_the_same_by_pages_by_lines_and_by_events() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let _ = long(&server).await;
    let all = pages(&server, "logs", "lines", "limit=1000").await;
    let texts: Vec<&str> = all.iter().map(|line| line["text"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=700).map(|moment| format!("moment {moment} of 700")).collect();
    assert_eq!(texts, expected);
    assert!(all.iter().all(|line| line["step"] == "it" && line["pid"] == 2));
    assert_eq!(pages(&server, "logs", "lines", "limit=33").await, all);
    let warnings = pages(&server, "logs", "lines", "kind=warn&limit=50").await;
    assert_eq!(warnings.len(), 70);
    assert_eq!(pages(&server, "logs", "lines", "pid=1").await, Vec::<Value>::new());
    // From the middle, and back again.
    let middle = all[500]["record"].as_u64().unwrap();
    for from in [middle, 1, middle] {
        let page = server.gets(&format!("/v1/runs/it/logs?from={from}&limit=1")).await.is(200);
        assert_eq!(page["lines"][0], all[if from == 1 { 0 } else { 500 }]);
    }
    let answer = server.asks(Method::GET, "/v1/runs/it/logs", &[("accept", "application/x-ndjson")], None).await;
    assert_eq!(lines(&answer.text), all);
    let last = all[697]["record"].to_string();
    let events = [("accept", "text/event-stream"), ("last-event-id", last.as_str())];
    let mut stream = server.follows(None, "/v1/runs/it/logs", &events).await;
    for line in &all[698..] {
        let event = stream.next().await.unwrap();
        assert_eq!((event.name.as_str(), &event.data), ("line", line));
    }
    let _ = server.posts("/v1/runs/it/cancel", json!({})).await.is(200);
    assert_eq!(stream.next().await.unwrap().name, "end");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_looked_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "it", json!({})).await;
    for (path, name) in [
        ("history?kind=warn", "kind"),
        ("logs?kind=stepped", "kind"),
        ("history?q=", "q"),
        ("history?limit=0", "limit"),
        ("history?limit=1001", "limit"),
    ] {
        let answer = server.gets(&format!("/v1/runs/it/{path}")).await;
        assert_eq!((answer.problem().0, &answer.json()["errors"][0]["pointer"]), (422, &json!(name)), "{path}");
    }
    let last = server.asks(Method::GET, "/v1/runs/it/events", &[("last-event-id", "x")], None).await;
    assert_eq!(last.problem().0, 422);
}

/// A run that is asked for again and again is read from where its last reading ended; another run
/// under its id is not taken for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_of_a_long_run_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let records = long(&server).await;
    let before = server.gets("/v1/runs/it").await.is(200);
    assert_eq!(before["records"], records.len());
    let stored = server.service.store.run("it").unwrap().unwrap();
    let kept = server.service.folds.take(&stored);
    assert_eq!(kept.records, records.len() as u64);
    drop(kept);
    assert_eq!(server.gets("/v1/runs/it").await.is(200), before);
    let _ = server.posts("/v1/runs/it/signals/go", json!(1)).await.is(200);
    server.ends("it").await;
    let after = server.gets("/v1/runs/it").await.is(200);
    assert_eq!((&after["state"], &after["steps"][1]["status"]), (&json!("succeeded"), &json!("succeeded")));
    assert!(after["records"].as_u64() > before["records"].as_u64());

    let _ = server.asks(Method::DELETE, "/v1/runs/it", &[], None).await.is(204);
    server.begins("long", "it", json!({ "n": 101 })).await;
    let _ = server.posts("/v1/runs/it/signals/go", json!(1)).await.is(200);
    server.ends("it").await;
    let other = server.gets("/v1/runs/it").await.is(200);
    assert!(other["records"].as_u64().unwrap() < 300, "{}", other["records"]);
    assert_eq!(pages(&server, "logs", "lines", "").await.len(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_run_that_has_ended_is_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let _ = long(&server).await;
    let _ = server.posts("/v1/runs/it/signals/go", json!(1)).await.is(200);
    server.ends("it").await;
    let records = pages(&server, "history", "records", "limit=1000").await;
    let mut stream = server.follows(None, "/v1/runs/it/history", &[("accept", "text/event-stream")]).await;
    for record in &records {
        let event = stream.next().await.unwrap();
        assert_eq!((event.name.as_str(), &event.data), ("record", record));
    }
    assert_eq!(stream.next().await.unwrap().name, "end");
}
