//! Upgrading runs that have not ended.

use super::Server;
use crate::serve::access::Scope;
use axum::http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// As version 1 of `review`, with one more step behind it.
const LONGER: &str = "name: review\nsteps:\n  - { id: a, wait: { signal: approve, title: Publish? } }\n\
     \x20 - { id: b, set: \"${ [.steps.a.output, 7] }\" }\noutputs: { got: \"${ .steps.b.output }\" }";

/// Waits for another signal.
const RENAMED: &str = "name: review\nsteps:\n  - { id: a, wait: { signal: agree, title: Publish? } }\n\
     outputs: { got: \"${ .steps.a.output }\" }";

/// Has an input that no run was begun with.
const ASKS: &str = "name: review\ninputs: { by: { type: string, default: ann } }\nsteps:\n\
     \x20 - { id: a, wait: { signal: approve, title: Publish? } }\noutputs: { got: \"${ .inputs.by }\" }";

/// Steps before and after a call of a process that takes some moments.
fn sleepy(after: &str) -> String {
    format!(
        "name: sleepy\ncomponents: {{ twice: \"native:twice\" }}\ninputs: {{ n: {{ type: integer }} }}\nsteps:\n\
         \x20 - {{ id: a, uses: twice, with: {{ n: \"${{ .inputs.n }}\" }} }}\n\
         \x20 - {{ id: b, wait: {{ signal: go }}, needs: a }}\n\
         \x20 - {{ id: c, set: \"{after}\", needs: b }}\noutputs: {{ got: \"${{ .steps.c.output }}\" }}"
    )
}

/// Deploys a version that nobody uses yet.
fn adds(server: &Server, text: &str) -> u64 {
    let workflow = server.host.parse("w.yaml", text, Path::new("/nowhere")).unwrap();
    server.service.deploy(workflow, "ann", None).unwrap().0.version.number
}

async fn upgrades(server: &Server, run: &str, to: u64) -> super::Answered {
    server.posts(&format!("/v1/runs/{run}/upgrade"), json!({ "to": to })).await
}

async fn parks(server: &Server, run: &str) {
    for _ in 0..500 {
        if server.host.parked_run(run).is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{run} is not parked");
}

/// The records of a run, by their kinds.
async fn kinds(server: &Server, run: &str) -> Vec<String> {
    let history = server.gets(&format!("/v1/runs/{run}/history?limit=1000")).await.is(200);
    let kind = |record: &Value| {
        let names = record.as_object().unwrap().keys();
        names.into_iter().find(|name| *name != "version" && *name != "number").unwrap().clone()
    };
    history["records"].as_array().unwrap().iter().map(kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_goes_on_with_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    parks(&server, "open").await;
    let longer = adds(&server, LONGER);
    let done = upgrades(&server, "open", longer).await.is(200);
    let record = done["record"].as_u64().unwrap();
    assert_eq!(done, json!({ "run": "open", "outcome": "upgraded", "version": longer, "record": record }));
    assert_eq!(kinds(&server, "open").await.last().unwrap(), "upgraded");
    let shown = server.gets("/v1/runs/open").await.is(200);
    assert_eq!((&shown["version"], &shown["records"]), (&json!(longer), &json!(record)), "{shown}");
    // It is what it is now: a second time changes nothing.
    assert_eq!(upgrades(&server, "open", longer).await.is(200)["outcome"], "unchanged");
    // The former version is not needed any more by the run.
    let _ = server.service.activate("review", longer, "ann", None).unwrap();
    assert_eq!(server.asks(Method::DELETE, "/v1/workflows/review/versions/1", &[], None).await.status, 204);

    let _ = server.posts("/v1/runs/open/signals/approve", json!("yes")).await.is(200);
    assert_eq!(server.ends("open").await["outputs"]["got"], json!(["yes", 7]));
    assert_eq!(upgrades(&server, "open", longer).await.problem(), (409, "run-ended".to_owned()));
    // It replays with the version that it is of, and so do the copies of it, wherever they are cut.
    let replayed = server.posts("/v1/runs/open/replay", json!({})).await.is(200);
    assert_eq!(replayed["answer"], "same", "{replayed}");
    for at in [record - 1, record, record + 1] {
        let fork = json!({ "at": at, "run-id": format!("fork-{at}") });
        let _ = server.posts("/v1/runs/open/fork", fork).await.is(201);
        let signal = format!("/v1/runs/fork-{at}/signals/approve");
        if at <= record {
            let _ = server.posts(&signal, json!("no")).await.is(200);
        }
        let got = &server.ends(&format!("fork-{at}")).await["outputs"]["got"];
        assert_eq!(*got, if at <= record { json!(["no", 7]) } else { json!(["yes", 7]) });
        let replayed = server.posts(&format!("/v1/runs/fork-{at}/replay"), json!({})).await.is(200);
        assert_eq!(replayed["answer"], "same", "{replayed}");
    }
    assert!(server.host.verify("open").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_something_else_is_refused_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    while server.gets("/v1/runs/open").await.is(200)["state"] != "waiting" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // It waits before that is durable, and what is shown is.
    let mut before = kinds(&server, "open").await;
    while before.len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        before = kinds(&server, "open").await;
    }
    let (renamed, asks) = (adds(&server, RENAMED), adds(&server, ASKS));
    let refused = upgrades(&server, "open", renamed).await;
    assert_eq!(refused.problem(), (409, "diverged".to_owned()));
    let difference = &refused.json()["difference"];
    assert!(difference["record"].is_u64() && difference["did"].to_string().contains("agree"), "{}", refused.text);
    let refused = upgrades(&server, "open", asks).await;
    assert_eq!(refused.problem(), (409, "diverged".to_owned()));
    assert_eq!(refused.json()["errors"][0]["pointer"], "/by", "{}", refused.text);
    assert_eq!(upgrades(&server, "open", 99).await.status, 404);
    assert_eq!(upgrades(&server, "none", renamed).await.status, 404);
    assert_eq!(server.posts("/v1/runs/open/upgrade", json!({})).await.status, 422);
    assert_eq!(kinds(&server, "open").await, before);
    let token = server.token_of(&[Scope::RunsAct, Scope::RunsRead], &[]);
    let path = "/v1/runs/open/upgrade";
    let body = || Some(json!({ "to": renamed }));
    assert_eq!(server.asks_as(&token, Method::POST, path, &[], body()).await.problem().0, 403);
    let token = server.token_of(&[Scope::RunsAct, Scope::Deploy], &[]);
    let blind = server.asks_as(&token, Method::POST, path, &[], body()).await.json();
    assert!(blind["difference"]["record"].is_u64() && blind["difference"].get("did").is_none(), "{blind}");
    let token = server.token_of(&[Scope::RunsAct, Scope::Deploy], &["flaky"]);
    assert_eq!(server.asks_as(&token, Method::POST, path, &[], body()).await.status, 404);
    let _ = server.posts("/v1/runs/open/signals/approve", json!("yes")).await.is(200);
    assert_eq!(server.ends("open").await["outputs"]["got"], "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_memory_paused_and_of_a_former_server_are_upgraded_as_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let before = server.deploys(&sleepy("then"));
    let after = adds(&server, &sleepy("now"));
    for id in ["slept", "paused", "waits"] {
        server.begins("sleepy", id, json!({ "n": 1 })).await;
    }
    // This one takes steps all the time.
    server.begins("sleepy", "runs", json!({ "n": 3000 })).await;
    let _ = server.posts("/v1/runs/paused/pause", json!({})).await.is(200);
    // Somebody waits for its outcome, before and after.
    let waits = server.gets("/v1/runs/waits/outcome?wait=30s");
    let upgrade = async {
        let body = json!({ "act": "upgrade", "version": after, "filter": { "workflow": "sleepy" } });
        let job = server.posts("/v1/batches", body).await.is(202);
        let job = server.gets(&format!("/v1/jobs/{}?wait=60s", job["id"].as_str().unwrap())).await.is(200);
        assert_eq!(job["report"]["counts"], json!({ "upgraded": 4 }), "{job}");
        for id in ["slept", "waits", "runs"] {
            let _ = server.posts(&format!("/v1/runs/{id}/signals/go"), json!(0)).await.is(200);
        }
    };
    let (waited, ()) = tokio::join!(waits, upgrade);
    assert_eq!(waited.is(200)["outputs"]["got"], "now");
    for id in ["slept", "runs"] {
        assert_eq!(server.ends(id).await["outputs"]["got"], "now");
    }
    assert_ne!(before, after);
    drop(server);
    let server = Server::new(folder.path());
    assert_eq!(server.gets("/v1/runs/paused").await.is(200)["version"], after);
    let _ = server.posts("/v1/runs/paused/resume", json!({})).await.is(200);
    let _ = server.posts("/v1/runs/paused/signals/go", json!(0)).await.is(200);
    assert_eq!(server.ends("paused").await["outputs"]["got"], "now");
    // And back.
    server.begins("sleepy", "back", json!({ "n": 1 })).await;
    for (version, word) in [(after, "upgraded"), (before, "upgraded"), (before, "unchanged")] {
        assert_eq!(upgrades(&server, "back", version).await.is(200)["outcome"], word);
    }
    let _ = server.posts("/v1/runs/back/signals/go", json!(0)).await.is(200);
    assert_eq!(server.ends("back").await["outputs"]["got"], "then");
}
