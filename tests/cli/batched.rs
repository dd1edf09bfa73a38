//! A batch of a real service that is killed again and again: each run has its outcome once.

use super::scheduled::{Server, prepared};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FAILS: &str = "\
name: fails
steps: [{ id: it, set: \"${ error(\\\"no\\\") }\" }]
";

const RUNS: usize = 200;

fn asked(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let until = Instant::now() + Duration::from_mins(1);
    // A start counts once by its `run-id`.
    let header = if body.get("run-id").is_some() { "" } else { "Idempotency-Key: k\r\n" };
    loop {
        if let Some(answer) = server.ask(token, method, path, header, &body.to_string()) {
            return answer;
        }
        assert!(Instant::now() < until, "{path} has no answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_batch_retries_each_run_once_over_kills() {
    let (data, folder, token) = prepared(FAILS);
    let mut server = Server::start(&data, folder.path());
    for number in 0..RUNS {
        let body = json!({ "run-id": format!("bad-{number}") });
        let (status, run) = asked(&server, &token, "POST", "/v1/workflows/fails/runs?wait=30s", &body);
        assert_eq!((status, &run["status"]), (200, &json!("failed")), "{run}");
    }
    let batch = json!({ "act": "retry", "filter": { "workflow": "fails", "state": "failed" } });
    let (status, job) = asked(&server, &token, "POST", "/v1/batches", &batch);
    assert_eq!(status, 202, "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let mut open = 0;
    for round in 0..6_u64 {
        std::thread::sleep(Duration::from_millis(20 + round * 37 % 90));
        server.kill();
        server = Server::start(&data, folder.path());
        // The acknowledged job is there, and the same request is the same job.
        let (status, same) = asked(&server, &token, "POST", "/v1/batches", &batch);
        assert_eq!((status, &same["id"]), (202, &job["id"]), "{same}");
        open += usize::from(same["state"] == "open");
    }
    let (_, done) = asked(&server, &token, "GET", &format!("{path}?wait=60s"), &json!({}));
    assert_eq!(done["state"], "done", "{done}");
    assert!(open > 0, "no kill came while it was open");
    let outcomes = done["report"]["outcomes"].as_array().unwrap();
    let new: BTreeSet<&str> =
        outcomes.iter().map(|one| one["new"].as_str().unwrap_or_else(|| panic!("{one}"))).collect();
    let of: BTreeSet<&str> = outcomes.iter().map(|one| one["run"].as_str().unwrap()).collect();
    assert_eq!((new.len(), of.len()), (RUNS, RUNS));
    let (_, count) = asked(&server, &token, "GET", "/v1/runs/count", &json!({}));
    assert_eq!(count["count"], 2 * RUNS, "{}", done["report"]["counts"]);
}
