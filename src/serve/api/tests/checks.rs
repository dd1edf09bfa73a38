//! Versions: checking them with recorded runs, rolling back, removing.

use super::Server;
use crate::serve::access::Scope;
use axum::http::Method;
use serde_json::{Value, json};
use std::path::Path;

const FIXED: &str = "name: flaky\ninputs: { ok: { type: boolean, default: false }, secret: { type: string, default: hidden } }\nsteps:\n\
     \x20 - { id: first, set: \"${ .inputs.secret }\" }\n\
     \x20 - { id: second, set: \"${ .steps.first.output }\" }\n\
     outputs: { got: \"${ .steps.second.output }\" }";

const LONGER: &str = "name: review\nsteps:\n  - { id: a, wait: { signal: approve, title: Publish? } }\n\
     \x20 - { id: b, set: 7 }\noutputs: { got: \"${ .steps.a.output }\" }";

const RENAMED: &str = "name: review\nsteps:\n  - { id: a, wait: { signal: agree, title: Publish? } }\n\
     outputs: { got: \"${ .steps.a.output }\" }";

const SLEEPY: &str = "name: sleepy\ncomponents: { twice: \"native:twice\" }\ninputs: { n: { type: integer } }\nsteps:\n\
     \x20 - { id: a, uses: twice, with: { n: \"${ .inputs.n }\" } }\noutputs: { got: \"${ .steps.a.output }\" }";

/// Deploys a version that nobody uses yet.
fn adds(server: &Server, text: &str) -> u64 {
    let workflow = server.host.parse("w.yaml", text, Path::new("/nowhere")).unwrap();
    server.service.deploy(workflow, "ann", None).unwrap().0.version.number
}

async fn report(server: &Server, workflow: &str, version: u64, body: Value) -> Value {
    let path = format!("/v1/workflows/{workflow}/versions/{version}/check");
    let job = server.posts(&path, body).await.is(202);
    done(server, &job).await
}

async fn done(server: &Server, job: &Value) -> Value {
    let job = server.gets(&format!("/v1/jobs/{}?wait=60s", job["id"].as_str().unwrap())).await.is(200);
    assert_eq!(job["state"], "done", "{job}");
    job["report"].clone()
}

fn of<'a>(report: &'a Value, run: &str) -> &'a Value {
    let outcomes = report["outcomes"].as_array().unwrap();
    outcomes.iter().find(|outcome| outcome["run"] == run).unwrap_or_else(|| panic!("{report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_tells_which_runs_fit_and_where_others_differ() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    for (id, inputs) in [("good", json!({ "ok": true })), ("bad", json!({}))] {
        server.begins("flaky", id, inputs).await;
        server.ends(id).await;
    }
    let _ = server.posts("/v1/runs/bad/retry?wait=30s", json!({ "run-id": "again" })).await.is(200);
    server.begins("review", "open", json!({})).await;
    let version = adds(&server, FIXED);
    let told = report(&server, "flaky", version, json!({})).await;
    assert_eq!((&told["workflow"], &told["version"], &told["total"]), (&json!("flaky"), &json!(version), &json!(3)));
    assert_eq!(told["counts"], json!({ "differs": 1, "fits": 1, "unknown": 1 }), "{told}");
    assert_eq!((&of(&told, "good")["outcome"], &of(&told, "again")["outcome"]), (&json!("fits"), &json!("unknown")));
    // The step, and what it did then and does now, are those of a replay of that run.
    let replayed = server.posts("/v1/runs/bad/replay", json!({ "version": version })).await.is(200);
    let bad = of(&told, "bad");
    for key in ["record", "pid", "step"] {
        assert_eq!(bad[key], replayed[key], "{key}: {bad}");
    }
    assert!(bad["expected"][0].as_str().unwrap().contains("failed"), "{bad}");
    assert!(bad["did"][0].as_str().unwrap().contains("complete"), "{bad}");

    // Nobody uses the version, and the runs are as they were.
    assert_eq!(server.gets("/v1/workflows/flaky").await.is(200)["version"], 1);
    assert_eq!(server.gets("/v1/runs/count").await.is(200)["count"], 4);
    let told = report(&server, "flaky", version, json!({ "filter": { "state": "succeeded" }, "limit": 1 })).await;
    assert_eq!((&told["total"], &told["more"]), (&json!(1), &json!(false)), "{told}");
    let told = report(&server, "flaky", version, json!({ "ids": ["open", "none", "good"] })).await;
    assert_eq!(told["counts"], json!({ "fits": 1, "unknown": 2 }), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_fits_until_a_step_that_it_took_differs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    while server.gets("/v1/runs/open").await.is(200)["state"] != "waiting" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (longer, renamed) = (adds(&server, LONGER), adds(&server, RENAMED));
    let told = report(&server, "review", longer, json!({})).await;
    assert_eq!(told["counts"], json!({ "fits": 1 }), "{told}");
    let told = report(&server, "review", renamed, json!({})).await;
    assert_eq!(told["counts"], json!({ "differs": 1 }), "{told}");
    let open = of(&told, "open");
    assert!(open["expected"].to_string().contains("approve") && open["did"].to_string().contains("agree"), "{open}");
    // It goes on as it was.
    let _ = server.posts("/v1/runs/open/signals/approve", json!("yes")).await.is(200);
    assert_eq!(server.ends("open").await["outputs"]["got"], "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_goes_on_where_a_server_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let slow = server.deploys(SLEEPY);
    for number in 0..30 {
        server.begins("sleepy", &format!("s{number}"), json!({ "n": 300 })).await;
    }
    for number in 0..30 {
        server.ends(&format!("s{number}")).await;
    }
    let path = format!("/v1/workflows/sleepy/versions/{slow}/check");
    let key = [("idempotency-key", "c")];
    let job = server.asks(Method::POST, &path, &key, Some(json!({}))).await.is(202);
    drop(server);
    let server = Server::new(folder.path());
    let told = done(&server, &job).await;
    assert_eq!((&told["total"], &told["counts"]), (&json!(30), &json!({ "fits": 30 })), "{told}");
    let again = server.asks(Method::POST, &path, &key, Some(json!({}))).await;
    assert_eq!((&again.is(202)["id"], &again.headers["idempotency-replayed"]), (&job["id"], &"true".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_needs_its_scopes_and_shows_no_payloads_without_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "bad", json!({})).await;
    server.ends("bad").await;
    let version = adds(&server, FIXED);
    let path = format!("/v1/workflows/flaky/versions/{version}/check");
    let asks = async |scopes: &[Scope], workflows: &[&str]| {
        let token = server.token_of(scopes, workflows);
        (server.asks_as(&token, Method::POST, &path, &[], Some(json!({}))).await, token)
    };
    assert_eq!(asks(&[Scope::RunsRead], &[]).await.0.problem().0, 403);
    assert_eq!(asks(&[Scope::Deploy], &[]).await.0.problem().0, 403);
    assert!(asks(&[Scope::Deploy, Scope::RunsRead], &["review"]).await.0.status.is_client_error());
    let (job, token) = asks(&[Scope::Deploy, Scope::RunsRead], &["flaky"]).await;
    let path = format!("/v1/jobs/{}?wait=30s", job.is(202)["id"].as_str().unwrap());
    let blind = server.asks_as(&token, Method::GET, &path, &[], None).await.is(200);
    let blind = of(&blind["report"], "bad");
    assert!(blind["record"].is_u64() && blind.get("expected").is_none() && blind.get("did").is_none(), "{blind}");
    assert!(of(&done(&server, &job.json()).await, "bad")["did"].is_array());

    for (body, pointer) in [
        (json!({ "ids": [] }), "/ids"),
        (json!({ "ids": ["a"], "limit": 3 }), ""),
        (json!({ "limit": 0 }), "/limit"),
        (json!({ "limit": 1_001 }), "/limit"),
        (json!({ "filter": { "workflow": "review" } }), "/filter/workflow"),
    ] {
        let answer = server.posts(&format!("/v1/workflows/flaky/versions/{version}/check"), body.clone()).await;
        assert_eq!(answer.problem(), (422, "does-not-fit".to_owned()), "{body}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
    let none = server.posts("/v1/workflows/flaky/versions/9/check", json!({})).await;
    assert_eq!(none.problem(), (404, "unknown".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_rolled_back_and_removed_once_nothing_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let version = server.deploys(FIXED);
    let path = format!("/v1/workflows/flaky/versions/{version}");
    server.begins("flaky", "new", json!({})).await;
    server.ends("new").await;
    let removes = async || server.asks(Method::DELETE, &path, &[], None).await;
    assert_eq!(removes().await.problem(), (409, "in-use".to_owned()), "it is active");
    let back = "/v1/workflows/flaky/versions/1/activate";
    let other = server.posts(back, json!({ "expect-active": 1 })).await;
    assert_eq!(other.problem(), (409, "not-active".to_owned()));
    assert_eq!(server.posts(back, json!({ "expect-active": version })).await.status, 204);
    server.begins("flaky", "old", json!({})).await;
    assert_eq!(server.ends("old").await["status"], "failed");
    assert_eq!(removes().await.problem(), (409, "in-use".to_owned()), "a run is of it");
    assert!(server.asks(Method::DELETE, "/v1/runs/new", &[], None).await.status.is_success());
    assert_eq!(removes().await.status, 204);
    assert_eq!(removes().await.problem(), (404, "unknown".to_owned()));
    // What is removed cannot be started.
    let body = json!({ "version": version, "inputs": {} });
    assert_eq!(server.posts("/v1/workflows/flaky/runs", body).await.problem(), (404, "unknown".to_owned()));
}
