//! Batches, as jobs.

use super::Server;
use crate::serve::access::Scope;
use axum::http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Asks for a batch, and waits for its report.
async fn report(server: &Server, batch: Value) -> Value {
    let job = server.posts("/v1/batches", batch).await.is(202);
    done(server, job["id"].as_str().unwrap()).await
}

async fn done(server: &Server, id: &str) -> Value {
    let job = server.gets(&format!("/v1/jobs/{id}?wait=60s")).await.is(200);
    assert_eq!(job["state"], "done", "{job}");
    job["report"].clone()
}

async fn fail(server: &Server, count: usize) {
    for number in 0..count {
        server.begins("flaky", &format!("bad-{number:03}"), json!({})).await;
    }
    for number in 0..count {
        server.ends(&format!("bad-{number:03}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_of_a_batch_has_an_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    fail(&server, 1).await;
    for id in ["one", "two", "three"] {
        server.begins("review", id, json!({})).await;
    }
    let plan = json!({ "act": "cancel", "filter": { "workflow": "review" }, "dry-run": true });
    let plan = server.posts("/v1/batches", plan).await.is(200);
    assert_eq!((&plan["runs"], &plan["more"]), (&json!(["three", "two", "one"]), &json!(false)));

    let batch = json!({ "act": "signal", "ids": ["one", "bad-000", "none", "one"], "signal": "approve", "body": 7 });
    let told = report(&server, batch).await;
    assert_eq!((&told["total"], &told["counts"]), (&json!(3), &json!({ "recorded": 1, "refused": 2 })));
    let outcomes = told["outcomes"].as_array().unwrap();
    assert_eq!((&outcomes[1]["run"], &outcomes[1]["kind"]), (&json!("bad-000"), &json!("run-ended")));
    assert_eq!((&outcomes[2]["run"], &outcomes[2]["kind"]), (&json!("none"), &json!("unknown")));
    assert_eq!(server.ends("one").await["outputs"]["got"], 7);

    let told = report(&server, json!({ "act": "cancel", "filter": { "label": "team=red" }, "reason": "no" })).await;
    assert_eq!(told["counts"], json!({ "recorded": 2 }), "those that had ended are not asked");
    assert_eq!(server.ends("two").await["status"], "cancelled");
    assert_eq!(server.ends("three").await["status"], "cancelled");

    let told = report(&server, json!({ "act": "delete", "filter": { "state": "cancelled" } })).await;
    assert_eq!(told["counts"], json!({ "removed": 2 }));
    assert_eq!(server.gets("/v1/runs/two").await.problem(), (404, "unknown".to_owned()));
    let jobs = server.gets("/v1/jobs?limit=2").await.is(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
    let rest = server.gets(&format!("/v1/jobs?cursor={}", jobs["next"].as_str().unwrap())).await.is(200);
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_on_where_a_server_ended_and_does_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    fail(&server, 100).await;
    let batch = json!({ "act": "retry", "filter": { "state": "failed" } });
    let key = [("idempotency-key", "again")];
    let job = server.asks(Method::POST, "/v1/batches", &key, Some(batch.clone())).await.is(202);
    let id = job["id"].as_str().unwrap().to_owned();
    drop(server);

    let server = Server::new(folder.path());
    let told = done(&server, &id).await;
    assert_eq!((&told["total"], &told["counts"]), (&json!(100), &json!({ "retried": 100 })));
    let outcomes = told["outcomes"].as_array().unwrap();
    let new: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome["new"].as_str().unwrap()).collect();
    assert_eq!(new.len(), 100);
    assert_eq!(server.gets("/v1/runs/count").await.is(200)["count"], 200);

    // The same request is the same job, though other runs fit by now.
    let again = server.asks(Method::POST, "/v1/batches", &key, Some(batch)).await;
    assert_eq!(again.is(202)["id"], id);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = json!({ "act": "delete", "filter": { "state": "failed" } });
    let other = server.asks(Method::POST, "/v1/batches", &key, Some(other)).await;
    assert_eq!(other.problem(), (422, "key-reused".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_with_its_token_and_its_author_may_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    fail(&server, 2).await;
    let token = server.token_of(&[Scope::RunsAct, Scope::RunsRead], &[]);
    let tokens = server.gets("/v1/tokens").await.is(200);
    let row = tokens.as_array().unwrap().iter().find(|one| one["scopes"].as_array().unwrap().len() == 2);
    let path = format!("/v1/tokens/{}", row.unwrap_or_else(|| panic!("{tokens}"))["id"].as_str().unwrap());

    // No turn is free while it is asked for and the token is revoked.
    let turns = server.service.jobs.all_turns().await;
    let batch = json!({ "act": "retry", "ids": ["bad-000"] });
    let job = server.asks_as(&token, Method::POST, "/v1/batches", &[], Some(batch.clone())).await.is(202);
    let stopped = server.posts("/v1/batches", batch).await.is(202);
    let path_of = |job: &Value| format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(server.gets(&path_of(&stopped)).await.is(200)["state"], "open");
    assert_eq!(server.posts(&format!("{}/cancel", path_of(&stopped)), json!({})).await.status, 202);
    assert!(server.asks(Method::DELETE, &path, &[], None).await.status.is_success());
    drop(turns);
    let job = server.gets(&format!("{}?wait=30s", path_of(&job))).await.is(200);
    assert_eq!((&job["state"], &job["report"]["problem"]["kind"]), (&json!("failed"), &json!("unauthenticated")));
    let stopped = server.gets(&format!("{}?wait=30s", path_of(&stopped))).await.is(200);
    assert_eq!(stopped["state"], "cancelled");
    assert_eq!(server.gets("/v1/runs/count").await.is(200)["count"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_touches_only_what_its_token_may() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    fail(&server, 1).await;
    server.begins("review", "open", json!({})).await;
    let token = server.token_of(&[Scope::RunsAct, Scope::RunsRead], &["review"]);
    let asks = async |body: Value| server.asks_as(&token, Method::POST, "/v1/batches", &[], Some(body)).await;
    let plan = json!({ "act": "retry", "filter": { "label": "team=red" }, "dry-run": true });
    assert_eq!(asks(plan).await.is(200)["runs"], json!([]));
    let job = asks(json!({ "act": "delete", "ids": ["bad-000"] })).await.is(202);
    let path = format!("/v1/jobs/{}?wait=30s", job["id"].as_str().unwrap());
    let job = server.asks_as(&token, Method::GET, &path, &[], None).await.is(200);
    assert_eq!(job["report"]["outcomes"][0]["kind"], "unknown");
    let _ = server.gets("/v1/runs/bad-000").await.is(200);
    // Another's job is not seen.
    let job = server.posts("/v1/batches", json!({ "act": "pause", "ids": ["open"] })).await.is(202);
    let _ = done(&server, job["id"].as_str().unwrap()).await;
    let (stranger, stored) =
        crate::serve::access::token::make("bob", &[Scope::RunsRead], vec!["review".into()], None).unwrap();
    server.service.store.add_token(&stored).unwrap();
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(server.asks_as(&stranger, Method::GET, &path, &[], None).await.problem().0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_says_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    for (batch, pointer) in [
        (json!({ "act": "pause" }), ""),
        (json!({ "act": "pause", "ids": ["a"], "filter": { "q": "a" } }), ""),
        (json!({ "act": "pause", "filter": {} }), "/filter"),
        (json!({ "act": "pause", "ids": [] }), "/ids"),
        (json!({ "act": "pause", "ids": vec!["a"; 10_001] }), "/ids"),
        (json!({ "act": "pause", "ids": ["a"], "reason": "x" }), "/reason"),
        (json!({ "act": "signal", "ids": ["a"] }), "/signal"),
        (json!({ "act": "cancel", "ids": ["a"], "grace": "soon" }), "/grace"),
    ] {
        let answer = server.posts("/v1/batches", batch.clone()).await;
        assert_eq!(answer.problem(), (422, "does-not-fit".to_owned()), "{batch}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{batch}");
    }
    let jobs = server.gets("/v1/jobs").await.is(200);
    assert_eq!(jobs["jobs"], json!([]));
}
