//! Starts that are sent again.

use super::{Answered, Server};
use crate::serve::access::{Scope, token};
use axum::http::Method;
use serde_json::{Value, json};

async fn starts(server: &Server, workflow: &str, key: &str, body: Value) -> Answered {
    let path = format!("/v1/workflows/{workflow}/runs");
    server.asks(Method::POST, &path, &[("idempotency-key", key)], Some(body)).await
}

/// The run of the first answer, and that this is the same answer again.
#[track_caller]
fn is_again(again: &Answered, first: &Value) {
    assert!(again.status.is_success(), "{}", again.text);
    assert_eq!(again.json()["id"], first["id"]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_under_a_key_is_the_same_run_whatever_is_active_then() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let first = starts(&server, "review", "k", json!({})).await.is(201);
    is_again(&starts(&server, "review", "k", json!({})).await, &first);
    // The version that is active now would not begin with these inputs.
    server.deploys("name: review\ninputs: { by: { type: string } }\nsteps: [{ id: a, set: 1 }]\n");
    assert_eq!(starts(&server, "review", "other", json!({})).await.status, 422);
    is_again(&starts(&server, "review", "k", json!({})).await, &first);
    let other = starts(&server, "review", "k", json!({ "labels": { "team": "blue" } })).await;
    assert_eq!(other.problem().1, "key-reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_under_a_key_finds_its_own_run_where_its_group_has_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.deploys("name: one\nconcurrency: { group: g, on-limit: skip }\nsteps: [{ id: a, wait: { signal: go } }]\n");
    let first = starts(&server, "one", "k", json!({})).await.is(201);
    assert_eq!(starts(&server, "one", "other", json!({})).await.problem().1, "no-place");
    is_again(&starts(&server, "one", "k", json!({})).await, &first);
    drop(server);
    let server = Server::new(folder.path());
    is_again(&starts(&server, "one", "k", json!({})).await, &first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_that_of_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let first = starts(&server, "review", "k", json!({})).await.is(201);
    let (token, stored) = token::make("bob", &[Scope::Admin], Vec::new(), None).unwrap();
    server.service.store.add_token(&stored).unwrap();
    let (path, key) = ("/v1/workflows/review/runs", [("idempotency-key", "k")]);
    let other = server.asks_as(&token, Method::POST, path, &key, Some(json!({}))).await.is(201);
    assert_ne!(other["id"], first["id"]);
}
