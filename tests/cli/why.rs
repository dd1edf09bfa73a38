//! Reasons of failures, on the terminal and a day later.

use super::support::World;
use super::transcript;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Answers requests: those for `/3` with 404 and a body, those for `/drop` not at all, and the
/// others with their path.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0; 1];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head);
            let (status, body) = match head.split_whitespace().nth(1).unwrap_or_default() {
                "/drop" => continue,
                "/3" => ("404 Not Found", format!("no order \u{1b}[2J3{}", "x".repeat(5_000))),
                path => ("200 OK", path.to_owned()),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

#[test]
fn the_reason_of_a_failure_that_was_tolerated_is_found_a_day_later() {
    let port = server();
    let world = World::new(&format!(
        "steps:
  - id: details
    for-each: [0, 1, 2, 3, 4, 5]
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/${{ .item }}\" }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    continue-on-error: true
outputs: {{ a: 1 }}
"
    ));
    let output = world.does(&["run", "--run-id", "it", &world.file, "--allow-address", "127.0.0.1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
    let reason = "item 3: the server answered 404 Not Found (http-status)";
    assert!(said.contains("✗ details: failed, 5 of 6 succeeded, 1 failed in ") && said.contains(reason), "{said}");
    let logs = world.says(&["logs", "it"]);
    assert!(logs.contains(&format!("details: failed, 5 of 6 succeeded, 1 failed: {reason}\n")), "{logs}");
    assert!(logs.contains("details[3]: failed: the server answered 404 Not Found (http-status)\n"), "{logs}");
    assert!(logs.contains("\n    the server said: no order \\u{1b}[2J3xxx") && logs.contains("x…\n"), "{logs}");
    let running: Vec<&str> = logs.lines().filter(|line| line.contains("details: running")).collect();
    let texts: std::collections::BTreeSet<_> = running.iter().map(|line| &line[13..]).collect();
    assert_eq!(texts.len(), running.len(), "no line says the same twice: {logs}");
    let status = world.says(&["status", "it"]);
    let row = status.lines().find(|line| line.starts_with("details")).unwrap();
    assert!(row.contains("5 of 6 succeeded, 1 failed") && row.ends_with(reason), "{status}");
}

#[test]
fn what_a_server_said_is_shown_with_the_failure_of_the_run() {
    let port = server();
    let world = World::new(&format!(
        "steps:
  - id: get
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/3\" }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
"
    ));
    let output = world.does(&["run", "--run-id", "it", &world.file, "--allow-address", "127.0.0.1"]);
    for text in [transcript(&output), world.says(&["status", "it"])] {
        assert!(text.contains("the server said: no order \\u{1b}[2J3xxx") && text.len() < 4_000, "{text}");
    }
}

/// A call that may have happened is not repeated by the host, and people are told to look first
/// wherever they look.
#[test]
fn after_a_failure_that_is_uncertain_everybody_gives_the_same_advice() {
    let port = server();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/drop\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
    retry: {{ max: 3 }}
"
    ));
    let output = world.does(&["run", "--run-id", "it", &world.file, "--allow-address", "127.0.0.1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`retry` did not repeat it: it may have happened, and is not safe to repeat"), "{said}");
    let advice = "whether it happened is unknown: check before you run it again: wfhost retry it";
    assert!(said.contains(advice), "{said}");
    assert!(said.contains("(connection-lost), may have happened"), "{said}");
    let status = transcript(&world.does(&["status", "it"]));
    assert!(status.contains(advice) && !status.contains("to run again what did not succeed"), "{status}");
    assert!(status.contains("(connection-lost), may have happened"), "{status}");
}
