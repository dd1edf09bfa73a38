//! A version that is checked with recorded runs, activated, rolled back and removed, by a real
//! service that is killed again and again.

use super::scheduled::{Server, prepared};
use super::{command_in, transcript};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const COUNTS: &str = "\
name: counts
inputs: { n: { type: integer } }
steps: [{ id: it, set: \"${ ([range(5000)] | length) + .inputs.n }\" }]
outputs: { n: \"${ .steps.it.output }\" }
";

const RUNS: usize = 100;

fn asked(server: &Server, token: &str, method: &str, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let header = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
        if let Some(answer) = server.ask(token, method, path, &header, &body.to_string()) {
            return answer;
        }
        assert!(Instant::now() < until, "{path} has no answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a service, and starts it again.
fn again(server: Server, data: &Path, workflows: &Path) -> Server {
    server.kill();
    Server::start(data, workflows)
}

#[test]
fn a_version_is_checked_activated_rolled_back_and_removed_over_kills() {
    let (data, folder, token) = prepared(COUNTS);
    let mut server = Server::start(&data, folder.path());
    // It listens before it has deployed what is in the folder.
    while asked(&server, &token, "GET", "/readyz", "", &json!({})).0 != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    for n in 0..RUNS {
        let body = json!({ "run-id": format!("n-{n}"), "inputs": { "n": n } });
        let (status, run) = asked(&server, &token, "POST", "/v1/workflows/counts/runs?wait=30s", "", &body);
        assert_eq!((status, &run["outputs"]["n"]), (200, &json!(5_000 + n)), "{run}");
    }
    // From 90 on it does something else.
    let other = COUNTS.replace("+ .inputs.n", "+ (if .inputs.n < 90 then .inputs.n else 0 end)");
    let body = json!({ "file": "flow.yaml", "source": other });
    let (status, version) = asked(&server, &token, "POST", "/v1/workflows", "d", &body);
    assert_eq!((status, &version["version"]), (201, &json!(2)), "{version}");

    let path = "/v1/workflows/counts/versions/2/check";
    let (status, job) = asked(&server, &token, "POST", path, "c", &json!({}));
    assert_eq!(status, 202, "{job}");
    let mut open = 0;
    for round in 0..5_u64 {
        std::thread::sleep(Duration::from_millis(round * 37 % 90));
        server = again(server, &data, folder.path());
        let (_, same) = asked(&server, &token, "POST", path, "c", &json!({}));
        assert_eq!(same["id"], job["id"], "{same}");
        open += usize::from(same["state"] == "open");
    }
    assert!(open > 0, "no kill came while it was open");
    let path = format!("/v1/jobs/{}?wait=60s", job["id"].as_str().unwrap());
    let (_, done) = asked(&server, &token, "GET", &path, "", &json!({}));
    assert_eq!((&done["state"], &done["report"]["counts"]), (&json!("done"), &json!({ "differs": 10, "fits": 90 })));
    for outcome in done["report"]["outcomes"].as_array().unwrap() {
        let n: usize = outcome["run"].as_str().unwrap()[2..].parse().unwrap();
        assert_eq!(outcome["outcome"], if n < 90 { "fits" } else { "differs" }, "{outcome}");
        assert!(n < 90 || outcome["expected"][0].as_str().unwrap().contains(&(5_000 + n).to_string()), "{outcome}");
    }

    // The command asks for the same.
    let checks = |arguments: &[&str]| {
        let mut command = command_in(&data, &[&["check", "counts@2"], arguments].concat());
        command.env("WFHOST_SERVER", server.url()).env("WFHOST_TOKEN", &token).output().unwrap()
    };
    let told = checks(&["--run", "n-7", "--run", "n-95"]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&told.stderr));
    assert!(text.starts_with("n-95 differs: record ") && text.contains("5095"), "{text}");
    assert!(text.ends_with("counts@2, 2 runs: 1 fit, 1 differ, 0 cannot be told\n"), "{text}");
    assert_eq!(checks(&["--run", "n-7", "--json"]).status.code(), Some(0));

    activated_and_removed(server, &data, &token);
}

/// What was answered counts over kills: a version is activated, used, rolled back and removed.
fn activated_and_removed(mut server: Server, data: &Path, token: &str) {
    let none = tempfile::tempdir().unwrap();
    let activate = |number: u64| format!("/v1/workflows/counts/versions/{number}/activate");
    let removes = |server: &Server| asked(server, token, "DELETE", "/v1/workflows/counts/versions/2", "", &json!({})).0;
    assert_eq!(asked(&server, token, "POST", &activate(2), "", &json!({ "expect-active": 1 })).0, 204);
    server = again(server, data, none.path());
    assert_eq!(asked(&server, token, "GET", "/v1/workflows/counts", "", &json!({})).1["version"], 2);
    let body = json!({ "run-id": "used", "inputs": { "n": 95 } });
    let (_, run) = asked(&server, token, "POST", "/v1/workflows/counts/runs?wait=30s", "", &body);
    assert_eq!(run["outputs"]["n"], 5_000, "{run}");
    assert_eq!(asked(&server, token, "POST", &activate(1), "", &json!({ "expect-active": 1 })).0, 409);
    assert_eq!(asked(&server, token, "POST", &activate(1), "", &json!({ "expect-active": 2 })).0, 204);
    server = again(server, data, none.path());
    assert_eq!(removes(&server), 409, "a run is of it");
    assert!(asked(&server, token, "DELETE", "/v1/runs/used", "", &json!({})).0 < 300);
    assert_eq!(removes(&server), 204);
    server = again(server, data, none.path());
    assert_eq!(removes(&server), 404);
    assert_eq!(asked(&server, token, "GET", "/v1/workflows/counts", "", &json!({})).1["version"], 1);
}

#[test]
fn a_service_is_checked_without_being_started() {
    let (data, folder, _token) = prepared(COUNTS);
    let checks = || command_in(&data, &["serve", "--check", "--workflows", folder.path().to_str().unwrap()]);
    // Another one may run on the folder.
    let _server = Server::start(&data, folder.path());
    let sound = checks().output().unwrap();
    assert_eq!(sound.status.code(), Some(0), "{}", transcript(&sound));
    assert!(transcript(&sound).contains("counts can be deployed"), "{}", transcript(&sound));
    std::fs::write(folder.path().join("other.yaml"), COUNTS.replace("steps", "stepz")).unwrap();
    let faulty = checks().output().unwrap();
    assert_eq!(faulty.status.code(), Some(1), "{}", transcript(&faulty));
    assert!(transcript(&faulty).contains("stepz"), "{}", transcript(&faulty));
    let open = checks().args(["--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(open.status.code(), Some(2), "{}", transcript(&open));
    let bad = folder.path().join("config.yaml");
    std::fs::write(&bad, "wrokers: 2").unwrap();
    let configured = checks().arg("--config").arg(&bad).output().unwrap();
    assert_eq!(configured.status.code(), Some(2), "{}", transcript(&configured));
}

#[test]
fn a_check_follows_each_activation_if_the_service_was_told_so() {
    let (data, folder, token) = prepared(COUNTS);
    let server = Server::start_with(&data, folder.path(), &["--on-deploy", "check"]);
    while asked(&server, &token, "GET", "/readyz", "", &json!({})).0 != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let body = json!({ "run-id": "one", "inputs": { "n": 1 } });
    let (status, run) = asked(&server, &token, "POST", "/v1/workflows/counts/runs?wait=30s", "", &body);
    assert_eq!(status, 200, "{run}");
    let other = COUNTS.replace("+ .inputs.n", "+ 7");
    let body = json!({ "file": "flow.yaml", "source": other, "activate": true });
    let (status, version) = asked(&server, &token, "POST", "/v1/workflows", "d", &body);
    assert_eq!((status, &version["active"]), (201, &json!(true)), "{version}");
    let (_, jobs) = asked(&server, &token, "GET", "/v1/jobs", "", &json!({}));
    let job = &jobs["jobs"][0];
    assert_eq!(job["kind"], "check", "{jobs}");
    let path = format!("/v1/jobs/{}?wait=30s", job["id"].as_str().unwrap());
    let (_, done) = asked(&server, &token, "GET", &path, "", &json!({}));
    assert_eq!(done["report"]["counts"], json!({ "differs": 1 }), "{done}");
}

#[test]
fn a_version_that_is_rolled_back_to_stays_over_restarts_until_the_file_changes() {
    let (data, folder, token) = prepared(COUNTS);
    let file = folder.path().join("flow.yaml");
    let changed = |by: &str| std::fs::write(&file, COUNTS.replace("5000", by)).unwrap();
    let active = |server: &Server| {
        while asked(server, &token, "GET", "/readyz", "", &json!({})).0 != 200 {
            std::thread::sleep(Duration::from_millis(20));
        }
        asked(server, &token, "GET", "/v1/workflows/counts", "", &json!({})).1["version"].clone()
    };
    let mut server = Server::start(&data, folder.path());
    assert_eq!(active(&server), 1);
    changed("6000");
    server = again(server, &data, folder.path());
    assert_eq!(active(&server), 2, "the file has changed");
    let back = "/v1/workflows/counts/versions/1/activate";
    assert_eq!(asked(&server, &token, "POST", back, "", &json!({ "expect-active": 2 })).0, 204);
    server = again(server, &data, folder.path());
    assert_eq!(active(&server), 1, "the file has not changed");
    changed("7000");
    server = again(server, &data, folder.path());
    assert_eq!(active(&server), 3);
    // Nobody has chosen another one since: the file counts.
    changed("6000");
    server = again(server, &data, folder.path());
    assert_eq!(active(&server), 2);
    server.kill();
}
