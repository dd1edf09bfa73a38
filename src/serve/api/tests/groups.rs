//! Runs of concurrency groups, by the API.

use super::{Answered, Server};
use serde_json::{Value, json};

/// A server with a workflow whose runs wait for `go`, one at a time.
fn server(folder: &std::path::Path, on_limit: &str) -> Server {
    let server = Server::new(folder);
    server.deploys(&format!(
        "name: one\nconcurrency: {{ group: g, {on_limit} }}\nsteps: [{{ id: a, wait: {{ signal: go }} }}]\n"
    ));
    server
}

async fn starts(server: &Server, id: &str) -> Answered {
    server.posts("/v1/workflows/one/runs", json!({ "run-id": id })).await
}

async fn unfinished(server: &Server, state: &str) -> Vec<Value> {
    let page = server.gets(&format!("/v1/runs?workflow=one&state={state}")).await.is(200);
    page["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_429_and_the_queue_goes_on_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "queue-max: 2");
    assert_ne!(starts(&server, "first").await.is(201)["state"], "queued");
    for id in ["second", "third"] {
        assert_eq!(starts(&server, id).await.is(201)["state"], "queued");
    }
    let refused = starts(&server, "fourth").await;
    assert_eq!(refused.problem(), (429, "queue-full".to_owned()));
    assert!(refused.headers.contains_key("retry-after"));
    let _ = server.gets("/v1/runs/fourth").await.is(404);
    assert_eq!(unfinished(&server, "queued").await, ["third", "second"]);

    let _ = server.posts("/v1/runs/third/cancel", json!({})).await.is(200);
    assert_eq!(server.ends("third").await["status"], "cancelled");
    for id in ["first", "second"] {
        let _ = server.posts(&format!("/v1/runs/{id}/signals/go"), json!(1)).await.is(200);
        assert_eq!(server.ends(id).await["status"], "succeeded");
    }
    assert!(unfinished(&server, "unfinished").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_run_replaces_the_one_that_runs_or_those_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let server_of = server;
    let server = server_of(folder.path(), "on-limit: cancel-previous");
    for (id, former) in [("first", None), ("second", Some("first")), ("third", Some("second"))] {
        let _ = starts(&server, id).await.is(201);
        if let Some(former) = former {
            assert_eq!(server.ends(former).await["status"], "cancelled");
        }
    }
    let _ = server.posts("/v1/runs/third/signals/go", json!(1)).await.is(200);
    assert_eq!(server.ends("third").await["status"], "succeeded");

    let folder = tempfile::tempdir().unwrap();
    let server = server_of(folder.path(), "on-limit: replace-queued");
    for id in ["first", "second", "third"] {
        let _ = starts(&server, id).await.is(201);
    }
    assert_eq!(server.ends("second").await["status"], "cancelled");
    assert_eq!(unfinished(&server, "unfinished").await, ["third", "first"]);
    let _ = server.posts("/v1/runs/first/signals/go", json!(1)).await.is(200);
    let _ = server.posts("/v1/runs/third/signals/go", json!(1)).await.is(200);
    assert_eq!(server.ends("third").await["status"], "succeeded");
}
