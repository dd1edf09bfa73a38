//! Retries, forks and replays.

use super::{Answered, Server};
use crate::serve::access::Scope;
use axum::http::Method;
use serde_json::{Value, json};

const FIXED: &str = "name: flaky\ninputs: { ok: { type: boolean, default: false }, secret: { type: string, default: hidden } }\nsteps:\n\
     \x20 - { id: first, set: \"${ .inputs.secret }\" }\n\
     \x20 - { id: second, set: \"${ .steps.first.output }\" }\n\
     outputs: { got: \"${ .steps.second.output }\" }";

async fn posts_under(server: &Server, key: &str, path: &str, body: Value) -> Answered {
    server.asks(Method::POST, path, &[("idempotency-key", key)], Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_retried_once_for_each_key() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "bad", json!({})).await;
    assert_eq!(server.ends("bad").await["status"], "failed");

    // What it would do, before it does it.
    let plan = server.posts("/v1/runs/bad/retry?dry-run=true", json!({})).await.is(200);
    assert_eq!((&plan["steps"][0]["now"], &plan["steps"][1]["now"]), (&json!("taken-over"), &json!("runs-again")));
    let listed = server.gets("/v1/runs/count").await.is(200);
    assert_eq!(listed["count"], 1, "a dry run starts nothing");

    let fixing = json!({ "inputs": { "ok": true } });
    let made = posts_under(&server, "k1", "/v1/runs/bad/retry", fixing.clone()).await;
    let run = made.is(201);
    let id = run["id"].as_str().unwrap().to_owned();
    assert_eq!(made.headers["location"], format!("/v1/runs/{id}"));
    assert_eq!((&run["labels"]["team"], &run["version"]), (&json!("red"), &json!(1)));
    let outcome = server.ends(&id).await;
    assert_eq!(outcome["outputs"]["got"], "hidden");

    let again = posts_under(&server, "k1", "/v1/runs/bad/retry", fixing).await;
    assert_eq!(again.is(201)["id"], id);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = posts_under(&server, "k1", "/v1/runs/bad/retry", json!({ "inputs": {} })).await;
    assert_eq!(other.problem(), (422, "key-reused".to_owned()));
    assert_eq!(server.gets("/v1/runs/count").await.is(200)["count"], 2);
    let detail = server.gets(&format!("/v1/runs/{id}")).await.is(200);
    assert_eq!((&detail["started-by"], &detail["author"]), (&json!("retry"), &json!("ann")));
    assert_eq!(detail["made-from"], json!({ "run": "bad", "by": "retry" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_takes_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "bad", json!({})).await;
    server.ends("bad").await;
    let version = server.deploys(FIXED);
    let retried = server.posts("/v1/runs/bad/retry?wait=30s", json!({ "version": version, "run-id": "good" })).await;
    assert_eq!(retried.is(200)["outputs"]["got"], "hidden");
    assert_eq!(server.gets("/v1/runs/good").await.is(200)["version"], version);
    // Lists and counts tell the versions apart.
    let path = format!("/v1/runs?workflow=flaky&version={version}");
    let listed = server.gets(&path).await.is(200);
    assert_eq!((listed["runs"].as_array().unwrap().len(), &listed["runs"][0]["id"]), (1, &json!("good")));
    assert_eq!(server.gets("/v1/runs/count?workflow=flaky&version=1").await.is(200), json!({ "count": 1 }));
    assert_eq!(server.gets("/v1/runs?version=1").await.problem(), (422, "does-not-fit".to_owned()));
    assert_eq!(server.gets("/v1/runs?workflow=flaky&version=9").await.problem(), (404, "unknown".to_owned()));
    // Without it, the run's own version is used, though another one is active.
    let same = server.posts("/v1/runs/bad/retry?wait=30s", json!({ "run-id": "same" })).await.is(200);
    assert_eq!(same["status"], "failed");
    assert_eq!(server.gets("/v1/runs/same").await.is(200)["version"], 1);
    let taken = server.posts("/v1/runs/bad/retry", json!({ "run-id": "same", "from": "first" })).await;
    assert_eq!(taken.problem(), (409, "run-exists".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_retried_or_forked_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    server.begins("flaky", "good", json!({ "ok": true })).await;
    server.ends("good").await;
    let asks = async |path: &str, body: Value| server.posts(path, body).await.problem();
    let problem = |status: u16, kind: &str| (status, kind.to_owned());
    assert_eq!(asks("/v1/runs/open/retry", json!({})).await, problem(409, "run-unfinished"));
    assert_eq!(asks("/v1/runs/good/retry", json!({})).await, problem(409, "nothing-to-retry"));
    assert_eq!(asks("/v1/runs/none/retry", json!({})).await, problem(404, "unknown"));
    assert_eq!(asks("/v1/runs/good/retry", json!({ "from": "third" })).await, problem(422, "does-not-fit"));
    assert_eq!(asks("/v1/runs/good/retry", json!({ "inputs": { "ok": 7 } })).await, problem(422, "does-not-fit"));
    assert_eq!(asks("/v1/runs/good/retry", json!({ "version": 9 })).await, problem(404, "unknown"));
    assert_eq!(asks("/v1/runs/good/fork", json!({ "at": 99 })).await, problem(422, "does-not-fit"));
    assert_eq!(asks("/v1/runs/good/fork", json!({ "at": 0 })).await, problem(422, "does-not-fit"));
    assert_eq!(asks("/v1/runs/good/fork", json!({})).await, problem(422, "does-not-fit"));
    let ghost = json!({ "at": 1, "components": { "hello": "0".repeat(64) } });
    assert_eq!(asks("/v1/runs/good/fork", ghost).await, problem(409, "missing-components"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_continues_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "one", json!({})).await;
    let _ = server.posts("/v1/runs/one/signals/approve", json!("yes")).await.is(200);
    assert_eq!(server.ends("one").await["outputs"]["got"], "yes");
    let history = server.gets("/v1/runs/one/history").await.is(200);
    let records = history["records"].as_array().unwrap();
    let at = records.iter().position(|record| record.get("arrived").is_some()).unwrap();

    let body = json!({ "at": at });
    let forked = posts_under(&server, "k", "/v1/runs/one/fork", body.clone()).await.is(201);
    let id = forked["id"].as_str().unwrap().to_owned();
    let again = posts_under(&server, "k", "/v1/runs/one/fork", body).await;
    assert_eq!((&again.is(201)["id"], &again.headers["idempotency-replayed"]), (&json!(id), &"true".parse().unwrap()));
    let _ = server.posts(&format!("/v1/runs/{id}/signals/approve"), json!("no")).await.is(200);
    assert_eq!(server.ends(&id).await["outputs"]["got"], "no");
    assert_eq!(server.ends("one").await["outputs"]["got"], "yes");
    let detail = server.gets(&format!("/v1/runs/{id}")).await.is(200);
    assert_eq!((&detail["started-by"], &detail["labels"]["team"]), (&json!("fork"), &json!("red")));
    assert_eq!(detail["made-from"], json!({ "run": "one", "by": "fork", "record": at }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_tells_whether_a_version_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "bad", json!({})).await;
    server.ends("bad").await;
    let version = server.deploys(FIXED);
    let same = server.posts("/v1/runs/bad/replay", json!({})).await.is(200);
    assert_eq!(same["answer"], "same");
    let records = server.gets("/v1/runs/bad").await.is(200)["records"].clone();
    assert_eq!(same["records"], records);
    let diverged = server.posts("/v1/runs/bad/replay", json!({ "version": version })).await.is(200);
    assert_eq!(diverged["answer"], "diverged");
    assert!(diverged["expected"].is_array() && diverged["record"].is_u64(), "{diverged}");

    // The lines have payloads.
    let blind = server.token_of(&[Scope::RunsAct], &[]);
    let path = "/v1/runs/bad/replay";
    let told = server.asks_as(&blind, Method::POST, path, &[], Some(json!({ "version": version }))).await.is(200);
    assert_eq!(told["answer"], "diverged");
    assert!(told.get("expected").is_none() && told.get("got").is_none(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_needs_the_scope_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "bad", json!({})).await;
    server.ends("bad").await;
    let acts = server.token_of(&[Scope::RunsAct], &[]);
    let asks = async |token: &str, body: Value| {
        server.asks_as(token, Method::POST, "/v1/runs/bad/retry", &[], Some(body)).await
    };
    let refused = (403, "not-granted".to_owned());
    assert_eq!(asks(&acts, json!({ "inputs": { "ok": true } })).await.problem(), refused);
    assert_eq!(asks(&acts, json!({ "components": { "a": "0".repeat(64) } })).await.problem(), refused);
    let reads = server.token_of(&[Scope::RunsRead, Scope::RunsPayloads, Scope::RunsStart], &[]);
    assert_eq!(asks(&reads, json!({})).await.problem(), refused);
    let elsewhere = server.token_of(&[Scope::RunsAct], &["review"]);
    assert_eq!(asks(&elsewhere, json!({})).await.problem(), (404, "unknown".to_owned()));
    let outcome =
        server.asks_as(&acts, Method::POST, "/v1/runs/bad/retry?wait=30s", &[], Some(json!({}))).await.is(200);
    assert_eq!(outcome["status"], "failed");
    assert!(outcome.get("problem").is_none(), "{outcome}");
}

/// The text and the components of a run that release 0.1.0 wrote.
async fn greets(server: &Server) -> (String, String) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals/0.1.0");
    let digest_of = |of: &str, name: &str| {
        let text = std::fs::read_to_string(folder.join(of).join("components.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()[name].as_str().unwrap().to_owned()
    };
    let hello = digest_of("fan-out", "hello.wasm");
    let other = digest_of("messages", "pingpong.wasm");
    for digest in [&hello, &other] {
        let bytes = std::fs::read(folder.join(format!("components/{digest}.wasm"))).unwrap();
        server.host.store_component(digest, &bytes).unwrap();
    }
    let source = std::fs::read_to_string(folder.join("fan-out/workflow.yaml")).unwrap();
    let version = json!({
        "file": "w.yaml", "source": source, "components": { "./hello.wasm": hello }, "activate": true,
    });
    let _ = server.posts("/v1/workflows", version).await.is(201);
    (hello, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn other_components_are_named_by_digest_and_must_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let (hello, other) = greets(&server).await;
    server.begins("fan-out", "it", json!({ "names": ["Anna", "Bob"] })).await;
    assert_eq!(server.ends("it").await["outputs"]["longest"], "Hello, Anna!");
    let last = server.gets("/v1/runs/it").await.is(200)["records"].as_u64().unwrap();

    let same = json!({ "components": { "hello": hello } });
    assert_eq!(server.posts("/v1/runs/it/replay", same).await.is(200)["answer"], "same");
    let with = json!({ "components": { "hello": other } });
    let replayed = server.posts("/v1/runs/it/replay", with).await;
    // Its inputs are others: the workflow does not fit, or what it does differs.
    assert!(replayed.status == 422 || replayed.json()["answer"] == "diverged", "{}", replayed.text);
    let unknown = json!({ "components": { "bye": hello } });
    let unknown = server.posts("/v1/runs/it/replay", unknown).await;
    assert_eq!((unknown.problem().0, &unknown.json()["errors"][0]["pointer"]), (422, &json!("/components")));

    let fork = json!({ "at": last - 1, "components": { "hello": hello }, "run-id": "new" });
    let forked = server.posts("/v1/runs/it/fork?wait=30s", fork).await.is(200);
    assert_eq!(forked["outputs"]["longest"], "Hello, Anna!");
    // It is of no version: its components are its own.
    assert!(server.gets("/v1/runs/new").await.is(200).get("version").is_none());
    let stranger = json!({ "at": last - 1, "components": { "hello": other } });
    let refused = server.posts("/v1/runs/it/fork", stranger).await.problem();
    assert!(refused == (409, "diverged".to_owned()) || refused.0 == 422, "{refused:?}");
    let odd = json!({ "components": { "hello": "../../secret" } });
    assert_eq!(server.posts("/v1/runs/it/retry", odd).await.problem(), (409, "missing-components".to_owned()));
}
