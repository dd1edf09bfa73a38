//! Parts of runs: steps, graph, timeline, processes, causes, and the run as it was.

use super::Server;
use crate::serve::access::Scope;
use axum::http::Method;
use serde_json::{Value, json};

const WORKFLOW: &str = "name: sums
inputs: { list: { type: array, default: [1, 13] } }
components: { twice: \"native:twice\" }
steps:
  - { id: each, for-each: \"${ .inputs.list }\", uses: twice, with: { n: \"${ .item }\" }, continue-on-error: true }
  - { id: told, needs: each, call: kv, with: { op: set, key: k, value: 7 }, allow: { kv: [ \"*\" ] } }
  - { id: asks, needs: told, wait: { signal: go } }
  - { id: never, needs: asks, if: \"${ false }\", set: 1 }
outputs: { got: \"${ .steps.asks.output }\" }";

/// A run of it that has ended.
async fn ended(server: &Server) -> Vec<Value> {
    server.deploys(WORKFLOW);
    server.begins("sums", "it", json!({})).await;
    let _ = server.posts("/v1/runs/it/signals/go", json!("secret")).await.is(200);
    let outcome = server.ends("it").await;
    assert_eq!(outcome["status"], "succeeded", "{outcome}");
    let history = server.gets("/v1/runs/it/history?limit=1000").await.is(200);
    history["records"].as_array().unwrap().clone()
}

/// The number of the first record that fits.
fn number(records: &[Value], fits: impl Fn(&Value) -> bool) -> u64 {
    records.iter().find(|record| fits(record)).unwrap_or_else(|| panic!("{records:#?}"))["number"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_has_its_attempts_and_a_graph_has_the_states() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let records = ended(&server).await;
    let each = server.gets("/v1/runs/it/steps/each").await.is(200);
    assert_eq!((&each["step"]["total"], &each["step"]["failed"]), (&json!(2), &json!(1)), "{each}");
    let attempts = each["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    let of = |index: usize, key: &str| attempts[index][key].clone();
    assert_eq!(
        (of(0, "item"), of(0, "state"), of(0, "input"), of(0, "output")),
        (json!(0), json!("succeeded"), json!({ "n": 1 }), json!(2))
    );
    assert_eq!(
        (of(1, "item"), of(1, "state"), of(1, "kind"), of(1, "number")),
        (json!(1), json!("failed"), json!("unlucky"), json!(1))
    );
    let died = |record: &Value| record["stepped"]["pid"] == of(1, "pid") && record["stepped"]["status"] == "failed";
    assert_eq!(of(1, "end-record"), number(&records, died));
    let one = server.gets("/v1/runs/it/steps/each?item=1").await.is(200);
    assert_eq!(one["attempts"], json!([attempts[1]]));
    let first = server.gets("/v1/runs/it/steps/each?limit=1").await.is(200);
    assert_eq!((&first["attempts"], &first["more"]), (&json!([attempts[0]]), &json!(1)));

    let told = server.gets("/v1/runs/it/steps/told").await.is(200);
    assert_eq!((&told["attempts"][0]["target"], &told["attempts"][0]["state"]), (&json!("kv"), &json!("succeeded")));
    let asks = server.gets("/v1/runs/it/steps/asks").await.is(200);
    assert_eq!((&asks["attempts"], &asks["step"]["status"]), (&json!([]), &json!("succeeded")));
    assert_eq!(server.gets("/v1/runs/it/steps/nothing").await.problem().0, 404);

    let graph = server.gets("/v1/runs/it/graph").await.is(200);
    let states: Vec<_> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].clone(), node["state"]["status"].clone()))
        .collect();
    let expected = [("each", "failed"), ("told", "succeeded"), ("asks", "succeeded"), ("never", "skipped")];
    assert_eq!(states, expected.map(|(id, status)| (json!(id), json!(status))), "{graph}");
    assert_eq!(graph["edges"].as_array().unwrap().len(), 3);
    assert_eq!(graph["records"], records.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_shown_as_it_was_at_each_record() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let records = ended(&server).await;
    let last = records.len();
    for number in 1..=last {
        let then = server.gets(&format!("/v1/runs/it/at/{number}")).await.is(200);
        assert_eq!((&then["record"], &then["counts"]["records"]), (&json!(number), &json!(number)));
        assert_eq!(then["state"], if number == last { "succeeded" } else { "unfinished" }, "{number}");
    }
    let spawned = number(&records, |record| record["stepped"]["commands"].to_string().contains("spawned"));
    let then = server.gets(&format!("/v1/runs/it/at/{spawned}")).await.is(200);
    assert_eq!((&then["steps"][0]["node"], &then["steps"][0]["status"]), (&json!("each"), &json!("running")));
    for wrong in [0, last + 1] {
        assert_eq!(server.gets(&format!("/v1/runs/it/at/{wrong}")).await.problem().0, 404);
        assert_eq!(server.gets(&format!("/v1/runs/it/causes/{wrong}")).await.problem().0, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_is_the_same_by_pages_and_processes_are_listed_when_they_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let _ = ended(&server).await;
    let whole = server.gets("/v1/runs/it/timeline").await.is(200);
    let count = whole["spans"]["id"].as_array().unwrap().len();
    let kinds: Vec<&str> = whole["spans"]["kind"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let of = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    assert_eq!((of("run"), of("step"), of("process"), of("call"), of("wait")), (1, 3, 2, 1, 1), "{whole}");
    assert_eq!(whole["flows"]["name"], json!(["spawn", "spawn"]));
    let mut from = Some(0);
    let mut ids = Vec::new();
    while let Some(at) = from {
        let page = server.gets(&format!("/v1/runs/it/timeline?from={at}&limit=2")).await.is(200);
        for (_, column) in page["spans"].as_object().unwrap() {
            assert_eq!(column.as_array().unwrap().len(), page["spans"]["id"].as_array().unwrap().len());
        }
        ids.extend(page["spans"]["id"].as_array().unwrap().clone());
        from = page["next"].as_u64();
    }
    assert_eq!((json!(ids), ids.len()), (whole["spans"]["id"].clone(), count));

    let page = server.gets("/v1/runs/it/processes").await.is(200);
    let names: Vec<_> = page["processes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "{page}");
    assert_eq!(names[0], "");
    let guest = &page["processes"][1];
    assert_eq!((&guest["state"], &guest["steps"], &guest["parent"]), (&json!("succeeded"), &json!(2), &json!(1)));
    let same = server.gets(&format!("/v1/runs/it/processes/{}", guest["pid"])).await.is(200);
    assert_eq!(same, *guest);
    let second = server.gets("/v1/runs/it/processes?limit=1&from=2&ended=true").await.is(200);
    assert_eq!((&second["processes"][0], &second["next"]), (guest, &page["processes"][2]["pid"]));
    assert_eq!(server.gets("/v1/runs/it/processes/99").await.problem().0, 404);
    let stored = server.gets("/v1/runs/it/snapshots").await.is(200);
    assert_eq!(stored["snapshots"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn causes_lead_from_the_end_to_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let records = ended(&server).await;
    let how = async |record: u64| {
        let causes = server.gets(&format!("/v1/runs/it/causes/{record}?limit=1000")).await.is(200);
        let edges = causes["causes"].as_array().unwrap().clone();
        let of = |edge: &Value| {
            (edge["record"].as_u64().unwrap(), edge["by"].as_u64().unwrap(), edge["how"].as_str().unwrap().to_owned())
        };
        (edges.iter().map(of).collect::<Vec<_>>(), causes)
    };
    let (all, causes) = how(records.len() as u64).await;
    assert!(all.iter().all(|(record, by, _)| by < record), "{all:?}");
    let reached: std::collections::BTreeSet<u64> = all.iter().map(|(_, by, _)| *by).collect();
    assert!(reached.contains(&1), "{causes}");
    let named: Vec<u64> =
        causes["records"].as_array().unwrap().iter().map(|one| one["record"].as_u64().unwrap()).collect();
    assert!(reached.iter().all(|record| named.contains(record)));

    // A guest begins since it was spawned, sleeps, and goes on when the time has come.
    let spawn = number(&records, |record| record["stepped"]["commands"].to_string().contains("spawned"));
    let first = number(&records, |record| record["stepped"]["pid"] == 2);
    assert!(how(first).await.0.contains(&(first, spawn, "spawn".to_owned())));
    let due = number(&records, |record| record["arrived"]["news"] == "due" && record["arrived"]["pid"] == 2);
    assert!(how(due).await.0.contains(&(due, first, "asked".to_owned())));
    let (next, told) =
        how(number(&records, |record| record["stepped"]["pid"] == 2 && record["stepped"]["step"] == 2)).await;
    assert!(next.iter().any(|(_, by, how)| *by == due && how == "timer"), "{told}");
    assert!(told["effects"].as_array().unwrap().iter().any(|edge| edge["how"] == "end"), "{told}");
    // Whether the signal is awaited or kept until it is, it is a cause.
    let signal = number(&records, |record| record["arrived"]["news"] == "signal");
    assert!(all.iter().any(|(_, by, how)| *by == signal && how == "signal"), "{causes}");
    let few = server.gets(&format!("/v1/runs/it/causes/{}?limit=1", records.len())).await.is(200);
    assert_eq!((few["causes"].as_array().unwrap().len(), &few["more"]), (1, &json!(true)));
}

/// What the inputs and signals of a run were is for those who may see payloads.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_with_a_payload_is_shown_to_those_who_may_only_look() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.deploys(WORKFLOW);
    let hidden = "pa55w0rd";
    server.begins("sums", "it", json!({ "list": [1, hidden] })).await;
    let _ = server.posts("/v1/runs/it/signals/go", json!(hidden)).await.is(200);
    server.ends("it").await;
    server.begins("flaky", "bad", json!({ "secret": hidden })).await;
    server.ends("bad").await;
    let reads = server.token_of(&[Scope::RunsRead], &[]);
    let last = server.gets("/v1/runs/it").await.is(200)["records"].clone();
    for path in [
        "",
        "/outcome",
        "/steps/each",
        "/steps/asks",
        "/steps/told",
        "/graph",
        "/timeline",
        "/processes",
        "/processes/2",
        "/queries",
        "/snapshots",
        &format!("/at/{last}"),
        &format!("/causes/{last}"),
    ] {
        let path = format!("/v1/runs/it{path}");
        let seen = server.gets(&path).await;
        let _ = seen.is(200);
        let shown = server.asks_as(&reads, Method::GET, &path, &[], None).await;
        let _ = shown.is(200);
        assert!(!shown.text.contains(hidden), "{path}: {}", shown.text);
    }
    assert!(server.gets("/v1/runs/it/steps/each").await.text.contains(hidden));
    for path in ["/v1/runs/bad", "/v1/runs/bad/steps/second", "/v1/runs/bad/graph", "/v1/runs?q=bad"] {
        let shown = server.asks_as(&reads, Method::GET, path, &[], None).await;
        let _ = shown.is(200);
        assert!(!shown.text.contains(hidden) && !shown.text.contains("\"no\""), "{path}: {}", shown.text);
    }
    for path in ["/history", "/logs", "/events", "/queries/x"] {
        let refused = server.asks_as(&reads, Method::GET, &format!("/v1/runs/it{path}"), &[], None).await;
        assert_eq!(refused.problem(), (403, "not-granted".to_owned()), "{path}");
    }
    let stranger = server.token_of(&[Scope::RunsRead, Scope::RunsPayloads], &["flaky"]);
    for path in ["/steps/each", "/graph", "/timeline", "/processes", "/snapshots", "/at/1", "/causes/1", "/history"] {
        let refused = server.asks_as(&stranger, Method::GET, &format!("/v1/runs/it{path}"), &[], None).await;
        assert_eq!(refused.problem(), (404, "unknown".to_owned()), "{path}");
    }
}
