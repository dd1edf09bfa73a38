//! Calls of which nobody knows whether they happened.

use super::support::{World, eventually};
use super::transcript;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// A sending that does not reach the server says nothing of the one before, in that run and in
/// those that repeat it.
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
            let output = world.does(&[refused, &["--allow-address", "none"]].concat());
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
        let refused = ["retry", "third", "--from", "create", "--run-id", "fifth", "--allow-address", "none"];
        assert_eq!(world.does(&refused).status.code(), Some(1));
        let retry = world.spawn(&[&["retry", "fifth", "--json"], &allow[..]].concat());
        let (head, mut stream) = requests.recv().unwrap();
        assert_eq!(key_of(&head), key);
        answer(&mut stream, "2");
        assert_eq!(retry.told().1, Some(0));
    }
}

/// Two calls that may have happened, of a run that nobody runs.
fn two_in_flight() -> (World, Receiver<(String, TcpStream)>, Vec<String>) {
    let (port, requests) = silent_server();
    let step = |id: &str| {
        format!(
            "  - id: {id}
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/{id}\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
"
        )
    };
    let world = World::new(&format!("steps:\n{}{}", step("one"), step("two")));
    let run = world.begin("it", "two", &["--allow-address", "127.0.0.1"]);
    let seen: Vec<_> = (0..2).map(|_| requests.recv().unwrap()).collect();
    run.kill();
    let mut keys: Vec<String> = seen.iter().map(|(head, _)| key_of(head)).collect();
    keys.sort_unstable();
    (world, requests, keys)
}

#[test]
fn a_fork_says_that_calls_wait_or_sends_them_again() {
    let (world, requests, keys) = two_in_flight();
    let records = world.says(&["history", "--json", "it"]).lines().count().to_string();
    let last = world.says(&["history", "--json", "it"]);
    assert!(last.lines().last().unwrap().contains("\"leaving\""), "{last}");
    let fork = ["fork", "it", "--at", &records, "--allow-address", "127.0.0.1"];

    let waits = world.spawn(&[&fork[..], &["--run-id", "waits"]].concat());
    let status = eventually(|| {
        let shown = world.does(&["status", "waits"]);
        String::from_utf8_lossy(&shown.stderr).contains("resolve waits 1/").then_some(shown)
    });
    let said = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(said.contains(", and 1 more call is unknown; to settle it: wfhost resolve waits "), "{said}");
    // It has been taken up when it says so itself.
    eventually(|| world.says(&["ps"]).contains("waits").then_some(()));
    world.says(&["cancel", "waits", "--now"]);
    let output = waits.output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the outcome of 2 calls is unknown"), "{said}");
    assert!(said.contains("wfhost resolve waits 1/"), "{said}");
    assert!(requests.try_recv().is_err(), "nothing is sent by itself");

    let sends = world.spawn(&[&fork[..], &["--run-id", "sends", "--resend", "--json"]].concat());
    let mut again = Vec::new();
    for _ in 0..2 {
        let (head, mut stream) = requests.recv().unwrap();
        again.push(key_of(&head));
        answer(&mut stream, "1");
    }
    again.sort_unstable();
    assert_eq!(again, keys, "they are those calls");
    assert_eq!(sends.told().1, Some(0));
}

#[test]
fn that_calls_wait_for_a_person_is_said_where_little_is_said() {
    let (world, _requests, _) = two_in_flight();
    let mut resumed = world.spawn(&["resume", "-q", "it", "--allow-address", "127.0.0.1"]);
    let (says, said) = channel();
    let lines = BufReader::new(resumed.stderr()).lines().map(Result::unwrap);
    std::thread::spawn(move || lines.for_each(|line| says.send(line).unwrap()));
    let waits = "warning: the outcome of 2 calls is unknown, and they wait to be settled";
    eventually(|| said.try_iter().any(|line| line == waits).then_some(()));
    world.says(&["cancel", "--now", "it"]);
    assert_eq!(resumed.ends(), Some(3));
}

#[test]
fn a_call_is_resolved_once_also_before_its_run_goes_on() {
    let (world, _requests, _) = two_in_flight();
    let call = |at: usize| {
        let uncertain = world.tells(&["status", "--json", "it"])["uncertain"].clone();
        format!("{}/{}", uncertain[at]["pid"], uncertain[at]["tag"])
    };
    world.says(&["resolve", "it", &call(0), "--failed", "--id", "first"]);
    for other in [&["--again"][..], &["--completed", "{}"]] {
        let refused = world.refuses(&[&["resolve", "it", &call(0)], other].concat());
        assert!(refused.contains("it is already resolved as `failed`, stored for the run"), "{refused}");
    }
    // The same again is the same, and another call another one.
    world.says(&["resolve", "it", &call(0), "--failed"]);
    world.says(&["resolve", "it", &call(0), "--failed", "--id", "first"]);
    world.says(&["resolve", "it", &call(1), "--completed", "{\"paid\": 1}"]);
    let refused = world.refuses(&["resolve", "it", &call(1), "--completed", "{\"paid\": 2}"]);
    assert!(refused.contains("it is already resolved as `completed`"), "{refused}");
    assert_eq!(world.tells(&["status", "--json", "it"])["left"].as_array().unwrap().len(), 2);

    // It ends as what was said, and how it goes on is told.
    assert_eq!(world.does(&["resume", "it", "--allow-address", "none"]).status.code(), Some(1));
    let shown = world.does(&["status", "it"]);
    assert!(String::from_utf8_lossy(&shown.stderr).contains("wfhost retry it"), "{}", transcript(&shown));
    let refused = world.refuses(&["resume", "it"]);
    assert!(refused.contains("the run it has ended: failed") && refused.contains("wfhost retry it"), "{refused}");
}

#[test]
fn help_says_which_calls_are_sent_again() {
    let world = World::new("steps: []");
    let help = world.says(&["resume", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("repeated under its idempotency key if that is safe")
            && help.contains("waits for `wfhost resolve`")
    );
    assert!(!help.contains("nobody knows whether it happened is repeated"), "{help}");
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
        // Between the kill and the new host's taking the run up, the call looks under way.
        let hint = format!("wfhost resolve {id} ");
        eventually(|| String::from_utf8_lossy(&world.does(&["status", id]).stderr).contains(&hint).then_some(()));
        // What is uncertain is told of a run that nobody runs, too.
        eventually(|| world.says(&["ps"]).contains("UNCERTAIN").then_some(()));
        assert!(requests.try_recv().is_err(), "it is not sent again by itself");
        let tag = uncertain[0]["tag"].to_string();
        let missing = world.refuses(&["resolve", id, "4711", "--again"]);
        assert!(missing.contains("no uncertain call has the tag 4711"), "{missing}");
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

#[test]
fn a_call_that_was_in_flight_when_its_run_was_cancelled_may_have_happened() {
    let (port, requests) = silent_server();
    let world = World::new(&format!(
        "steps:
  - id: pay
    call: http
    with: {{ method: POST, url: \"http://127.0.0.1:{port}/pay\" }}
    allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}
"
    ));
    for (id, how) in [("it", "--color=never"), ("quiet", "-q"), ("json", "--json")] {
        let durable = ["--durability", "journal", "--run-id", id, "--allow-address", "127.0.0.1"];
        let run = world.spawn(&[&["run", how, &world.file], &durable[..]].concat());
        let (head, _stream) = requests.recv().unwrap();
        run.send("-INT");
        let output = run.output();
        assert_eq!(output.status.code(), Some(3), "{}", transcript(&output));
        let status = world.tells(&["status", "--json", id]);
        assert_eq!((&status["status"], &status["uncertain"][0]["key"]), (&json!("cancelled"), &json!(key_of(&head))));
        let is_said = String::from_utf8_lossy(&output.stderr).contains("warning: a call may have happened");
        assert_eq!(is_said, how != "--json", "{}", transcript(&output));
        if how == "--json" {
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(told["uncertain"], status["uncertain"], "{told}");
        }
        let shown = world.does(&["status", id]);
        let talk = String::from_utf8_lossy(&shown.stderr);
        assert!(talk.contains("is unknown: the run ended before the answer"), "{}", transcript(&shown));
    }
    // The same start again tells the same end.
    let again = world.does(&[
        "run",
        "--json",
        "--durability",
        "journal",
        "--run-id",
        "json",
        "--allow-address",
        "127.0.0.1",
        &world.file,
    ]);
    let told: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(told["uncertain"].as_array().map(Vec::len), Some(1), "{told}");
}
