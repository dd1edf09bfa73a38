//! What refusals say: what is wrong, where, and what helps.

use super::Server;
use axum::http::Method;
use serde_json::{Value, json};

fn text<'a>(problem: &'a Value, key: &str) -> &'a str {
    problem[key].as_str().unwrap_or_else(|| panic!("no {key}: {problem}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_pointed_at() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let start = "/v1/workflows/review/runs";
    for (path, body, pointer, message) in [
        (start, json!({ "labels": { "a": 5 } }), "/labels/a", "must be a string; it is `5`"),
        (start, json!({ "inputs": [] }), "/inputs", "must be an object; it is a list"),
        (start, json!({ "version": "x" }), "/version", "must be a whole number; it is \"x\""),
        (
            start,
            json!({ "input": {} }),
            "/input",
            "`input` is no field; there is `inputs`, `version`, `labels`, `run-id`",
        ),
    ] {
        let problem = server.posts(path, body).await.is(422);
        let part = &problem["errors"][0];
        assert_eq!((&part["pointer"], &part["message"]), (&json!(pointer), &json!(message)));
    }
    let hook = json!({ "starts": "review", "verify": "none" });
    let problem = server.asks(Method::PUT, "/v1/webhooks/x", &[], Some(hook)).await.is(422);
    assert_eq!(problem["errors"][0]["pointer"], "/verify");
    assert_eq!(problem["errors"][0]["message"], "must be an object; it is \"none\"");
    for (query, name, message) in [
        ("limit=x", "limit", "must be a whole number"),
        ("stat=x", "stat", "`stat` is no field; there is `state`, `workflow`,"),
    ] {
        let problem = server.gets(&format!("/v1/runs?{query}")).await.is(400);
        let part = &problem["errors"][0];
        assert_eq!(part["pointer"], name, "{problem}");
        assert!(text(part, "message").starts_with(message), "{problem}");
    }
    let problem = server.posts(&format!("{start}?wait=5"), json!({})).await.is(422);
    assert!(text(&problem, "hint").contains("30s"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_what_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    server.begins("flaky", "done", json!({ "ok": true })).await;
    server.ends("done").await;

    let active = server.asks(Method::DELETE, "/v1/workflows/review/versions/1", &[], None).await.is(409);
    assert_eq!(text(&active, "kind"), "in-use");
    assert!(text(&active, "detail").contains("version 1 of `review` is active"), "{active}");
    server.deploys("name: review\nsteps: [{ id: a, set: 1 }]\n");
    let used = server.asks(Method::DELETE, "/v1/workflows/review/versions/1", &[], None).await.is(409);
    assert!(text(&used, "detail").contains("that of runs"), "{used}");
    let (_, listed) = text(&used, "hint").split_once("`GET ").unwrap();
    let runs = server.gets(listed.split('`').next().unwrap()).await.is(200);
    assert_eq!(runs["runs"][0]["id"], "open", "{runs}");

    let expected = json!({ "expect-active": 7 });
    let other = server.posts("/v1/workflows/review/versions/1/activate", expected).await.is(409);
    assert!(text(&other, "detail").starts_with("version 2 of `review` is active"), "{other}");

    let same = json!({ "run-id": "done", "inputs": { "ok": false }, "labels": { "team": "red" } });
    let exists = server.posts("/v1/workflows/flaky/runs", same).await.is(409);
    assert_eq!((text(&exists, "kind"), text(&exists, "detail")), ("run-exists", "another request made the run `done`"));
    assert!(text(&exists, "hint").contains("GET /v1/runs/done"), "{exists}");

    let ended = server.posts("/v1/runs/done/signals/x", json!({})).await.is(409);
    assert_eq!((text(&ended, "kind"), text(&ended, "detail")), ("run-ended", "the run `done` has ended"));
    let open = server.asks(Method::DELETE, "/v1/runs/open", &[], None).await.is(409);
    assert_eq!((text(&open, "kind"), text(&open, "detail")), ("run-unfinished", "the run `open` has not ended"));
}
