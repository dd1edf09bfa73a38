//! Runs that undo what they did: cancelled while nobody runs them, and retried.

use super::repeating::{ALLOW, Does, Request, Server, does};
use super::support::{World, eventually};
use serde_json::{Value, json};

const UNDOES: &str = "
grace: 3s
steps:
  - { id: a, call: log, with: { message: a }, compensate: { steps: [{ id: told, wait: { signal: undo } }] } }
  - { id: asks, needs: a, wait: { signal: answer } }
on: { cancel: [{ id: tell, call: log, with: { message: \"undone ${ .run.problem.data.undone }\" } }] }
";

fn steps(status: &Value) -> Vec<(&str, &str)> {
    let steps = status["steps"].as_array().unwrap().iter();
    steps.map(|step| (step["node"].as_str().unwrap(), step["status"].as_str().unwrap())).collect()
}

#[test]
fn what_is_cancelled_while_nobody_runs_it_is_undone_when_it_is_resumed() {
    let world = World::new(UNDOES);
    world.begin("it", "asks", &[]).kill();
    let output = world.does(&["cancel", "it", "--reason", "no more"]);
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stderr).unwrap();
    let stored = "it is not running: this is stored until it is resumed (wfhost resume it)";
    assert_eq!(
        told,
        format!("{stored}\nhint: what it did is undone then; to end it as it is: wfhost cancel it --now\n")
    );
    assert_eq!(world.tells(&["status", "--json", "it"])["status"], "suspended");
    world.says(&["signal", "it", "undo", "1"]);
    assert_eq!(world.does(&["resume", "it"]).status.code(), Some(3));
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!(status["problem"]["data"]["undone"], json!(["a"]), "{status}");
    assert!(steps(&status).contains(&("on.cancel.tell", "succeeded")), "{status}");
    assert!(world.says(&["status", "it"]).contains("\n  undone: a\n"));
}

#[test]
fn what_is_ended_at_once_is_not_undone_and_that_is_told() {
    let world = World::new(UNDOES);
    world.begin("it", "asks", &[]).kill();
    let output = world.does(&["cancel", "it", "--now"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("warning: nothing is undone, and no step below `on` runs"), "{told}");
    assert_eq!(world.tells(&["status", "--json", "it"])["status"], "cancelled");
}

/// The time in which its host was away is not a time in which it could undo anything.
#[test]
fn a_grace_that_was_over_before_a_host_was_back_begins_anew() {
    let world = World::new(UNDOES);
    let going = world.begin("it", "asks", &[]);
    world.says(&["cancel", "it"]);
    eventually(|| world.is_at("it", "a.compensate").then_some(()));
    going.kill();
    std::thread::sleep(std::time::Duration::from_millis(3_100));
    world.says(&["signal", "it", "undo", "1"]);
    assert_eq!(world.does(&["resume", "it"]).status.code(), Some(3));
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!(status["problem"]["data"]["undone"], json!(["a"]), "{status}");
    assert!(world.says(&["history", "it"]).contains("its time to end begins anew"));
}

/// A workflow that pays for what it booked, and undoes the booking if it cannot.
fn booking(port: u16) -> String {
    let post = |path: &str| {
        format!(
            "call: http, with: {{ method: POST, url: \"http://127.0.0.1:{port}/{path}\" }}, \
             allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}"
        )
    };
    format!(
        "steps:
  - {{ id: book, {}, compensate: {{ {}, retry: null }} }}
  - {{ id: pay, needs: book, {} }}
",
        post("book"),
        post("undo"),
        post("pay"),
    )
}

/// Another retry of the first run would ask under the keys of what was undone since.
#[test]
fn what_was_undone_is_done_again_by_one_retry_after_the_other() {
    let server = Server::start();
    let world = World::new(&booking(server.port));
    server.next("/pay", Does::Answers(409));
    server.next("/pay", Does::Answers(409));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "r"]).1, Some(1));
    assert_eq!(does(&world, &["retry", "r", "--run-id", "r2"]).1, Some(1));
    let output = world.does(&[&["retry", "r"][..], &ALLOW].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("steps of it were undone, and `r2` retries it already"), "{told}");
    assert!(told.contains("hint: `wfhost retry r2` goes on from there"), "{told}");
    assert_eq!(does(&world, &["retry", "r2", "--run-id", "r3"]).1, Some(0));
    assert_eq!(does(&world, &["retry", "r", "--new-keys", "--run-id", "r4"]).1, Some(0));
    let seen = server.seen();
    let paths: Vec<&str> = seen.iter().map(|(path, ..)| &**path).collect();
    assert_eq!(paths, ["/book", "/pay", "/undo", "/book", "/pay", "/undo", "/book", "/pay", "/book", "/pay"]);
    let keys: std::collections::BTreeSet<&str> = seen.iter().map(|(_, key, _)| &**key).collect();
    assert_eq!(keys.len(), seen.len(), "each has a key of its own: {seen:?}");
}

#[test]
fn of_what_may_be_undone_somebody_tells_before_it_is_retried() {
    let server = Server::start();
    let world = World::new(&booking(server.port));
    for (told, again) in [("--undone", true), ("--not-undone", false)] {
        let run = format!("r{told}");
        server.next("/pay", Does::Answers(409));
        server.next("/undo", Does::Answers(500));
        let (ended, code) = does(&world, &["run", &world.file, "--run-id", &run]);
        assert_eq!(code, Some(1));
        let detail = ended["problem"]["detail"].as_str().unwrap();
        assert!(detail.ends_with("perhaps undone: book"), "{ended}");
        let output = world.does(&[&["retry", &run][..], &ALLOW].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("it is not known whether `book` was undone"), "{text}");
        assert!(text.contains("--undone book runs it again, --not-undone book takes it over"), "{text}");
        server.seen();
        assert_eq!(does(&world, &["retry", &run, told, "book"]).1, Some(0));
        assert_eq!(server.seen().iter().any(|(path, ..)| path == "/book"), again);
    }
}

/// A list, turns, and steps within steps, each of which is undone by itself.
fn nested(port: u16) -> String {
    let post = |path: &str| {
        format!(
            "call: http, with: {{ method: POST, url: \"http://127.0.0.1:{port}/{path}\" }}, \
             allow: {{ http: [ \"POST http://127.0.0.1:{port}\" ] }}"
        )
    };
    let undone = |path: &str| format!("{}, compensate: {{ {} }}", post(path), post(&format!("undo/{path}")));
    format!(
        "steps:
  - {{ id: rooms, for-each: [ Rome, Naples ], max-parallel: 1, {} }}
  - {{ id: turns, needs: rooms, repeat: {{ max: 3 }}, {} }}
  - id: group
    needs: turns
    for-each: [ A, B ]
    max-parallel: 1
    steps:
      - {{ id: name, set: \"${{ .item }}\" }}
      - id: again
        repeat: {{ max: 2 }}
        steps: [{{ id: one, {} }}]
  - {{ id: pay, needs: group, {} }}
",
        undone("room/${ .item }/${ .index }"),
        undone("turn/${ .turn }"),
        undone("group/${ .steps.name.output }/${ .turn }"),
        post("pay"),
    )
}

const DONE: [&str; 9] = [
    "/room/Rome/0",
    "/room/Naples/1",
    "/turn/0",
    "/turn/1",
    "/turn/2",
    "/group/A/0",
    "/group/A/1",
    "/group/B/0",
    "/group/B/1",
];

fn paths(seen: &[Request]) -> Vec<&str> {
    seen.iter().map(|(path, ..)| &**path).collect()
}

#[test]
fn what_a_retry_takes_over_is_undone_as_it_was_done() {
    let server = Server::start();
    let world = World::new(&nested(server.port));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "r"]).1, Some(0));
    assert_eq!(paths(&server.seen()), [&DONE[..], &["/pay"]].concat());
    server.next("/pay", Does::Answers(409));
    let (told, code) = does(&world, &["retry", "r", "--from", "pay", "--run-id", "r2"]);
    assert_eq!(code, Some(1), "{told}");
    let undone: Vec<String> = DONE.iter().rev().map(|path| format!("/undo{path}")).collect();
    let seen = server.seen();
    assert_eq!(paths(&seen), ["/pay"].into_iter().chain(undone.iter().map(String::as_str)).collect::<Vec<_>>());
    assert_eq!(told["problem"]["data"]["not-undone"], json!([]));
    // What was undone is done again, each under a key of its own.
    assert_eq!(does(&world, &["retry", "r2", "--run-id", "r3"]).1, Some(0));
    let again = server.seen();
    assert_eq!(paths(&again), [&DONE[..], &["/pay"]].concat());
    for ((path, key, _), (_, before, _)) in again.iter().zip(seen.iter().skip(1).rev()).take(DONE.len()) {
        assert!(key.ends_with("/1") && !before.starts_with(&**key), "{path}: {key} after {before}");
    }
}

/// A server may remember what it answered.
#[test]
fn what_was_not_undone_is_undone_under_a_new_key() {
    let server = Server::start();
    let world = World::new(&booking(server.port));
    for _ in 0..2 {
        server.next("/pay", Does::Answers(409));
        server.next("/undo", Does::Answers(409));
    }
    server.next("/pay", Does::Answers(409));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "r"]).1, Some(1));
    assert_eq!(does(&world, &["retry", "r", "--run-id", "r2"]).1, Some(1));
    let (told, code) = does(&world, &["retry", "r2", "--run-id", "r3"]);
    assert_eq!((&told["problem"]["data"]["undone"], code), (&json!(["book"]), Some(1)), "{told}");
    let seen = server.seen();
    assert_eq!(paths(&seen), ["/book", "/pay", "/undo", "/pay", "/undo", "/pay", "/undo"]);
    let keys: std::collections::BTreeSet<&str> = seen.iter().map(|(_, key, _)| &**key).collect();
    assert_eq!(keys.len(), seen.len(), "each has a key of its own: {seen:?}");
}

/// Its former workflow did not say how.
#[test]
fn what_is_taken_over_can_be_undone_as_the_corrected_workflow_says() {
    let server = Server::start();
    let text = booking(server.port);
    let (before, compensate) = text.split_once(", compensate").unwrap();
    let (_, after) = compensate.split_once("retry: null } }").unwrap();
    let world = World::new(&format!("{before} }}{after}"));
    server.next("/pay", Does::Answers(409));
    server.next("/pay", Does::Answers(409));
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "r"]).1, Some(1));
    let corrected = world.data.join("corrected.yaml");
    std::fs::write(&corrected, &text).unwrap();
    assert_eq!(does(&world, &["retry", "r", "--workflow", corrected.to_str().unwrap()]).1, Some(1));
    assert_eq!(paths(&server.seen()), ["/book", "/pay", "/pay", "/undo"]);
}

#[test]
fn a_call_within_steps_that_run_again_has_the_number_that_it_had() {
    let server = Server::start();
    let world =
        World::new(&nested(server.port).replace(", compensate", ", retry: { max: 1, backoff: 1ms }, compensate"));
    for path in ["/turn/1", "/group/A/0", "/group/B/1"] {
        server.next(path, Does::Answers(503));
    }
    assert_eq!(does(&world, &["run", &world.file, "--run-id", "r"]).1, Some(0));
    let keys = |seen: Vec<Request>| -> std::collections::BTreeMap<String, String> {
        seen.into_iter().map(|(path, key, _)| (path, key)).collect()
    };
    let before = keys(server.seen());
    assert!(before["/group/B/1"].ends_with("/1"), "{before:?}");
    assert_eq!(does(&world, &["retry", "r", "--from", "rooms", "--run-id", "r2"]).1, Some(0));
    assert_eq!(keys(server.seen()), before, "what succeeded is asked under the same key");
}

#[test]
fn of_steps_within_a_step_those_that_have_not_changed_are_taken_over_from_all_items() {
    let server = Server::start();
    let get = |path: &str| {
        format!(
            "call: http, with: {{ url: \"http://127.0.0.1:{}/{path}\" }}, allow: {{ http: [ \"GET http://127.0.0.1:{}\" ] }}",
            server.port, server.port
        )
    };
    let file = |check: &str| {
        format!(
            "steps:
  - id: each
    for-each: [ 1, 2, 3 ]
    max-parallel: 1
    steps:
      - {{ id: charge, {} }}
      - {{ id: check, needs: charge, {} }}
",
            get("charge/${ .item }"),
            get(check),
        )
    };
    let first = World::new(&file("bad/${ .item }"));
    server.next("/bad/3", Does::Answers(404));
    assert_eq!(does(&first, &["run", &first.file, "--run-id", "r"]).1, Some(1));
    server.seen();
    let mended = first.data.join("mended.yaml");
    std::fs::write(&mended, file("good/${ .item }")).unwrap();
    assert_eq!(does(&first, &["retry", "r", "--workflow", mended.to_str().unwrap()]).1, Some(0));
    assert_eq!(paths(&server.seen()), ["/good/1", "/good/2", "/good/3"]);
}
