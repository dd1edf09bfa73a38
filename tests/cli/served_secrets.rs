//! Secrets of the workflows of a service: given by its configuration, and told of in time.

use super::command_in;
use super::scheduled::{Server, prepared};
use super::secrets::{Echo, VALUE, found, search};
use super::support::eventually;
use serde_json::{Value, json};
use std::path::Path;

fn flow(name: &str, secret: &str, port: u16) -> String {
    format!(
        "name: {name}
secrets: {{ {secret}: {{ from: {{ env: HOME }}, hosts: [ \"127.0.0.1:{port}\" ] }} }}
steps:
  - id: a
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/\", auth: {{ bearer: \"${{ .secrets.{secret} }}\" }} }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    secrets: [ {secret} ]
outputs: {{ all: \"${{ .steps.a.output }}\" }}
"
    )
}

fn ask(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    server.ask(token, method, path, "", &body.to_string()).unwrap()
}

#[test]
fn a_service_says_which_secrets_are_missing_and_sends_those_that_it_has() {
    let echo = Echo::start();
    let (data, folder, token) = prepared(&flow("good", "KEY", echo.port));
    let kept = tempfile::tempdir().unwrap();
    let (value, config) = (kept.path().join("key"), kept.path().join("config.yaml"));
    std::fs::write(&value, VALUE).unwrap();
    let hosts = format!("127.0.0.1:{}", echo.port);
    let text = format!("secrets: {{ KEY: {{ from: file:key, hosts: [ \"{hosts}\" ] }}, OPEN: file:key }}\n");
    std::fs::write(&config, text).unwrap();
    let options =
        ["--config", config.to_str().unwrap(), "--allow-address", "127.0.0.1", "--plain-secrets"].map(str::to_owned);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let check = |workflows: &Path| {
        let words = [&["serve", "--check", "--workflows", workflows.to_str().unwrap()], &options[..]].concat();
        super::transcript(&command_in(&data, &words).output().unwrap())
    };
    let checked = check(folder.path());
    assert!(checked.contains("good can be deployed") && checked.contains("exit 0"), "{checked}");
    assert!(checked.contains("whoever may deploy a workflow can send OPEN to any host"), "{checked}");

    let server = Server::start_with(&data, folder.path(), &options);
    eventually(|| (ask(&server, &token, "GET", "/readyz", &json!({})).0 == 200).then_some(()));
    let run = json!({ "run-id": "one" });
    let (status, outcome) = ask(&server, &token, "POST", "/v1/workflows/good/runs?wait=30s", &run);
    assert!(status == 200 && outcome.to_string().contains("Bearer [secret KEY]"), "{outcome}");
    assert_eq!(found(outcome.to_string().as_bytes()), None);
    assert!(found(echo.seen().join("\n").as_bytes()).is_some());

    // What a version needs and the server does not have, and not why.
    let version = json!({ "file": "bad.yaml", "source": flow("bad", "NONE", echo.port) });
    for path in ["/v1/workflows?dry-run=true", "/v1/workflows"] {
        let (status, problem) = ask(&server, &token, "POST", path, &version);
        assert_eq!((status, &problem["kind"]), (503, &json!("missing-secrets")), "{problem}");
        assert_eq!(problem["detail"], "the server cannot use NONE");
    }
    std::fs::remove_file(&value).unwrap();
    let (status, problem) = ask(&server, &token, "POST", "/v1/workflows/good/runs", &json!({}));
    assert_eq!((status, &problem["detail"]), (503, &json!("the server cannot use KEY")), "{problem}");
    let checked = check(folder.path());
    assert!(checked.contains("the secret KEY: the file") && checked.contains("exit 1"), "{checked}");
    std::fs::write(&value, "another value of it").unwrap();
    let (status, _) = ask(&server, &token, "POST", "/v1/workflows/good/runs?wait=30s", &json!({}));
    assert_eq!(status, 200);
    assert!(echo.seen().iter().any(|seen| seen.contains("Bearer another value of it")), "{:?}", echo.seen());
    server.kill();
    search(&data);
}
