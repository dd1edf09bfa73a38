//! Calls of which nobody knows whether they happened.

use super::support::{World, eventually};
use super::transcript;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// Takes requests, and keeps their connections without an answer.
fn silent_server() -> (u16, Receiver<(String, TcpStream)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0; 1];
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            if seen.send((String::from_utf8_lossy(&head).into_owned(), stream)).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

fn key_of(head: &str) -> String {
    head.lines().find_map(|line| line.to_lowercase().strip_prefix("idempotency-key: ").map(str::to_owned)).unwrap()
}

fn answer(stream: &mut TcpStream, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

/// Of which somebody says that it did not happen is a failed attempt like any other.
#[test]
fn a_call_that_did_not_happen_is_retried_as_its_step_says() {
    let (port, requests) = silent_server();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
    retry: {{ max: 1, backoff: 1ms..2ms }}
outputs: {{ pay: \"${{ .steps.pay.output.body }}\" }}
"
    ));
    let allow = ["--allow-address", "127.0.0.1"];
    let run = world.begin("it", "pay", &allow);
    let (head, _stream) = requests.recv().unwrap();
    run.kill();
    let resumed = world.spawn(&[&["resume", "--json", "it"], &allow[..]].concat());
    let tag = eventually(|| {
        let status: Value = serde_json::from_slice(&world.does(&["status", "--json", "it"]).stdout).ok()?;
        status["uncertain"][0]["tag"].as_u64()
    });
    world.says(&["resolve", "it", &tag.to_string(), "--failed"]);
    let (again, mut stream) = requests.recv().unwrap();
    assert_ne!(key_of(&again), key_of(&head), "the first is known not to have happened");
    answer(&mut stream, "1");
    let (told, code) = resumed.told();
    assert_eq!((&told["outputs"], code), (&json!({ "pay": 1 }), Some(0)), "{told}");
}

/// A sending that does not reach the server says nothing of the one before, in that run and in those that repeat it.
#[test]
fn a_call_keeps_its_key_while_one_of_its_sendings_may_have_happened() {
    for repeatable in [true, false] {
        let (port, requests) = silent_server();
        let world = World::new(&format!(
            "steps:
  - id: create
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/create\", repeatable: {repeatable} }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
outputs: {{ create: \"${{ .steps.create.output.body }}\" }}
"
        ));
        let allow = ["--allow-address", "127.0.0.1"];
        let run = world.begin("it", "create", &allow);
        let (head, _stream) = requests.recv().unwrap();
        let key = key_of(&head);
        run.kill();
        if !repeatable {
            let tag = world.tells(&["status", "--json", "it"])["uncertain"][0]["tag"].to_string();
            world.says(&["resolve", "it", &tag, "--again"]);
        }
        // Twice it is refused here: when it is sent again, and in a run that repeats this one.
        for refused in [&["resume", "--json", "it"][..], &["retry", "--json", "it", "--run-id", "second"]] {
            let output = world.does(refused);
            assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            let cause = &told["problem"]["data"]["cause"];
            assert_eq!(cause["kind"], "address-refused", "{told}");
            let is_first = refused[0] == "resume";
            let class = if is_first && !repeatable { "uncertain" } else { "definite" };
            assert_eq!(cause["class"], class, "{told}");
            let said = cause["detail"].as_str().unwrap().contains("an earlier sending may have happened");
            assert_eq!(said, is_first, "{told}");
        }
        for (of, id) in [("it", "third"), ("second", "fourth")] {
            let retry = world.spawn(&[&["retry", of, "--json", "--run-id", id], &allow[..]].concat());
            let (head, mut stream) = requests.recv().unwrap();
            assert_eq!(key_of(&head), key, "{of}: an earlier sending may have happened");
            answer(&mut stream, "1");
            let (told, code) = retry.told();
            assert_eq!((&told["outputs"], code), (&json!({ "create": 1 }), Some(0)), "{told}");
        }
        // What succeeded happened: run again and refused it keeps its key.
        assert_eq!(world.does(&["retry", "third", "--from", "create", "--run-id", "fifth"]).status.code(), Some(1));
        let retry = world.spawn(&[&["retry", "fifth", "--json"], &allow[..]].concat());
        let (head, mut stream) = requests.recv().unwrap();
        assert_eq!(key_of(&head), key);
        answer(&mut stream, "2");
        assert_eq!(retry.told().1, Some(0));
    }
}

#[test]
fn a_call_that_may_have_happened_waits_for_a_person() {
    let (port, requests) = silent_server();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\", body: {{ json: {{ euros: 5 }} }} }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
    timeout: 10m
  - {{ id: other, wait: {{ signal: go }} }}
outputs: {{ pay: \"${{ .steps.pay.output }}\", other: \"${{ .steps.other.output }}\" }}
"
    ));
    let allow = ["--allow-address", "127.0.0.1"];
    let ids = ["completed", "failed", "again"];
    for id in ids {
        let run = world.begin(id, "pay", &allow);
        let (head, _stream) = requests.recv().unwrap();
        assert!(head.starts_with("POST /pay"), "{head}");
        let key = key_of(&head);
        run.kill();

        let resumed = world.spawn(&[&["resume", "--json", id], &allow[..]].concat());
        let uncertain = eventually(|| {
            let status: Value = serde_json::from_slice(&world.does(&["status", "--json", id]).stdout).ok()?;
            status["uncertain"].as_array().filter(|calls| !calls.is_empty()).cloned()
        });
        assert_eq!((uncertain.len(), &uncertain[0]["handler"]), (1, &json!("http")));
        // Only that call waits: the rest of the run goes on.
        world.says(&["signal", id, "go", "1"]);
        let shown = world.does(&["status", id]);
        assert!(
            String::from_utf8_lossy(&shown.stderr).contains(&format!("wfhost resolve {id} ")),
            "{}",
            transcript(&shown)
        );
        assert!(world.says(&["ps"]).contains("UNCERTAIN"));
        assert!(requests.try_recv().is_err(), "it is not sent again by itself");
        let tag = uncertain[0]["tag"].to_string();
        let missing = world.refuses(&["resolve", id, "4711", "--again"]);
        assert!(missing.contains("0 uncertain calls have the tag 4711"), "{missing}");
        match id {
            "completed" => {
                world.says(&["resolve", id, &tag, "--completed", "{\"paid\": true}"]);
                let (told, code) = resumed.told();
                assert_eq!((&told["outputs"], code), (&json!({ "pay": { "paid": true }, "other": 1 }), Some(0)));
            }
            "failed" => {
                world.says(&["resolve", id, &format!("1/{tag}"), "--failed"]);
                let (told, code) = resumed.told();
                assert_eq!(code, Some(1));
                assert_eq!(told["problem"]["data"]["cause"]["kind"], "did-not-happen", "{told}");
            }
            _ => {
                world.says(&["resolve", id, &tag, "--again"]);
                let (head, mut stream) = requests.recv().unwrap();
                assert_eq!(key_of(&head), key, "a repeat has the key of the first");
                answer(&mut stream, "{\"paid\": 2}");
                let (told, code) = resumed.told();
                assert_eq!((&told["outputs"]["pay"]["body"], code), (&json!({ "paid": 2 }), Some(0)), "{told}");
            }
        }
    }
}
