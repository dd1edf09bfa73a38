//! Runs are seen and steered from another terminal.

use super::support::{World, eventually};
use super::{assert_text, transcript};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const ASKS: &str = "
name: asks
steps:
  - { id: said, call: log, with: { level: warn, message: \"before\", fields: { n: 1 } } }
  - { id: asks, wait: { signal: answer }, needs: said }
  - { id: tells, call: log, with: { message: \"it is ${ .steps.asks.output }\" }, needs: asks }
outputs: { answer: \"${ .steps.asks.output }\" }
";

#[test]
fn a_run_is_seen_from_elsewhere_while_it_goes_on() {
    let world = World::new(ASKS);
    let run = world.begin("order-1", "asks", &[]);
    let ps = eventually(|| {
        let ps = world.tells(&["ps", "--json"]);
        (ps[0]["state"] == "waiting").then_some(ps)
    });
    assert_eq!(
        (&ps[0]["run"], &ps[0]["workflow"], &ps[0]["host"]),
        (&json!("order-1"), &json!("asks"), &json!(run.id()))
    );
    // The beginning of an id is enough.
    let status = world.tells(&["status", "--json", "ord"]);
    assert_eq!(
        (&status["status"], &status["state"], &status["host"]),
        (&json!("running"), &json!("waiting"), &json!(run.id()))
    );
    assert_eq!(status["signals"], json!([{ "name": "answer", "waiting": 1, "kept": 0 }]));
    let steps: Vec<Value> =
        status["steps"].as_array().unwrap().iter().map(|step| json!([step["node"], step["status"]])).collect();
    assert_eq!(json!(steps), json!([["said", "succeeded"], ["asks", "running"], ["tells", "waiting"]]));
    let status = world.does(&["status", "order-1"]);
    assert!(String::from_utf8_lossy(&status.stderr).contains("wfhost signal order-1 answer JSON"));

    let mut follows = super::command_in(&world.data, &["logs", "-f", "order-1"]);
    let mut follows = follows.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("warn  said: before {\"n\":1}")));
    world.says(&["signal", "order-1", "answer", "42"]);
    assert!(lines.any(|line| line.ends_with("info  tells: it is 42")));
    // Each line is told once.
    assert!(!lines.any(|line| line.contains("it is 42") || line.contains("before")));
    assert!(follows.wait().unwrap().success());
    assert_eq!(run.told().0["outputs"], json!({ "answer": 42 }));

    let lines = world.says(&["logs", "--json", "order-1"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = lines.iter().find(|line| line["process"] == "said").unwrap();
    assert_eq!(
        (&said["level"], &said["text"], &said["fields"]),
        (&json!("warn"), &json!("before"), &json!({ "n": 1 }))
    );
    assert!(said["at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_run_is_steered_from_elsewhere() {
    let world = World::new(ASKS);
    let run = world.begin("it", "asks", &[]);
    world.says(&["pause", "it"]);
    assert_eq!(world.tells(&["ps", "--json"])[0]["state"], "paused");
    assert_eq!(world.tells(&["ls", "--status", "paused", "--json"])[0]["run"], "it");
    assert_eq!(world.tells(&["ls", "--status", "waiting", "--json"]), json!([]));
    world.says(&["signal", "it", "answer", "{\"by\": \"Ann\"}"]);
    assert_eq!(world.tells(&["status", "--json", "it"])["steps"][1]["status"], "running");
    let resumed = world.does(&["resume", "it"]);
    assert!(String::from_utf8_lossy(&resumed.stderr).contains("it is resumed, in process"), "{}", transcript(&resumed));
    assert_eq!(run.told().0["outputs"]["answer"], json!({ "by": "Ann" }));

    for (arguments, grace) in [
        (&["cancel", "it-2", "--reason", "no more"][..], "no more"),
        (&["cancel", "--now", "it-2"], "requested by the operator"),
    ] {
        let world = World::new(ASKS);
        let run = world.begin("it-2", "asks", &[]);
        assert!(world.refuses(&["resume", "it-2"]).contains("is already running"));
        world.says(arguments);
        let (told, code) = run.told();
        assert_eq!((told["status"].as_str(), code), (Some("cancelled"), Some(3)));
        assert!(told["problem"].to_string().contains(grace), "{told}");
        assert!(world.refuses(&["signal", "it-2", "answer"]).contains("has ended: cancelled"));
    }
}

#[test]
fn what_there_is_not_is_told_with_what_was_meant() {
    let world = World::new("steps: [{ id: a, set: 1 }]\n");
    let empty = world.refuses(&["status", "order-1"]);
    assert!(empty.contains("there is no run `order-1`"), "{empty}");
    assert_eq!(world.tells(&["ls", "--json"]), json!([]));
    assert_eq!(world.tells(&["ps", "--json"]), json!([]));
    assert_eq!(world.tells(&["rm", "--older-than", "1h", "--json"]), json!({ "removed": 0 }));
    assert!(!world.data.exists(), "looking makes nothing");
    for id in ["order-11", "order-12", "thing"] {
        world.says(&["run", "--run-id", id, &world.file]);
    }
    let refusals: Vec<String> = [
        &["status", "ordre-12"][..],
        &["logs", "order-1"],
        &["history", "nothing-like-it"],
        &["query", "thing", "x"],
        &["signal", "thing", "x"],
        &["signal", "thing", "x", "Ann"],
        &["resolve", "thing", "x", "--again"],
        &["cancel", "thing"],
        &["ls", "--since", "yesterday"],
        &["run", "--run-id", "a b", &world.file],
    ]
    .iter()
    .map(|arguments| world.refuses(arguments).replace(world.data.to_str().unwrap(), "[data]"))
    .collect();
    assert_text("what_there_is_not", &refusals.join("\n"));
    // Programs hear it as an object.
    let output = world.does(&["status", "--json", "ordre-12"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["status"], &told["problem"]["kind"]), (&json!("refused"), &json!("unknown-run")));
}

#[test]
fn lists_are_filtered_and_runs_removed() {
    let world = World::new("name: one\nsteps: [{ id: a, set: 1 }]\n");
    let other = World::new("name: other\nsteps: [{ id: a, set: \"${ 1 | error }\" }]\n");
    for id in ["a", "b", "c"] {
        world.says(&["run", "--run-id", id, &world.file]);
    }
    assert_eq!(world.does(&["run", "--run-id", "d", &other.file]).status.code(), Some(1));
    let ids = |arguments: &[&str]| {
        let list = world.tells(&[&["ls", "--json"], arguments].concat());
        list.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["d", "c", "b", "a"]);
    assert_eq!(ids(&["--status", "failed"]), ["d"]);
    assert_eq!(ids(&["--status", "suspended"]), [""; 0]);
    assert_eq!(ids(&["--name", "one", "--limit", "2"]), ["c", "b"]);
    assert_eq!(ids(&["--since", "1h"]).len(), 4);
    assert_eq!(ids(&["--since", "2999-01-01"]), [""; 0]);
    let shown = world.does(&["ls", "--limit", "1"]);
    assert!(String::from_utf8_lossy(&shown.stderr).contains("and 3 more: --limit 4"), "{}", transcript(&shown));

    let rm = |arguments: &[&str]| world.tells(&[&["rm", "--json"], arguments].concat())["removed"].clone();
    assert_eq!(rm(&["--older-than", "1h"]), 0);
    assert_eq!(rm(&["--keep", "3"]), 1);
    assert_eq!(ids(&[]), ["d", "c", "b"]);
    assert_eq!(rm(&["b", "d", "b"]), 2);
    assert_eq!(ids(&[]), ["c"]);
    for id in ["order-10", "order-11"] {
        world.says(&["run", "--run-id", id, &world.file]);
    }
    let refused = world.refuses(&["rm", "order-1"]);
    assert!(refused.contains("several runs begin with"), "{refused}");
    let told = |arguments: &[&str]| String::from_utf8(world.does(arguments).stderr).unwrap();
    assert_eq!(told(&["rm", "order-11"]), "removed 1 run: order-11\n");
    let refused = world.refuses(&["rm", "order-1"]);
    assert!(refused.contains("full id") && refused.contains("wfhost rm order-10"), "{refused}");
    assert_eq!(ids(&[]), ["order-10", "c"]);
    assert_eq!(told(&["rm", "--keep", "0"]), "removed 2 runs\n");
    let waits = World::new(ASKS);
    waits.begin("w", "asks", &[]).kill();
    assert!(waits.refuses(&["rm", "w"]).contains("--unfinished"));
    let living = waits.begin("living", "asks", &[]);
    assert!(waits.refuses(&["rm", "--unfinished", "living"]).contains("wfhost cancel living"));
    assert_eq!(waits.tells(&["rm", "--json", "--unfinished", "w"]), json!({ "removed": 1 }));
    living.kill();
}

/// What no run names any more goes with the runs, and what one names stays.
#[test]
fn components_go_with_the_last_run_that_names_them() {
    let both = "components: { fib: ./guests/fib.wasm, hello: ./guests/hello.wasm }
steps: [{ id: a, uses: hello, with: { name: A } }, { id: b, uses: fib, with: { n: 1 } }]\n";
    let world = World::new(both);
    world.says(&["run", "--run-id", "both", &world.file]);
    std::fs::write(
        &world.file,
        both.replace("fib: ./guests/fib.wasm, ", "").replace(", { id: b, uses: fib, with: { n: 1 } }", ""),
    )
    .unwrap();
    world.says(&["run", "--run-id", "one", &world.file]);
    let folder = world.data.join("components");
    let components = || super::support::files(&folder, "wasm");
    assert_eq!(components().len(), 2);
    world.says(&["rm", "both"]);
    assert_eq!(components().len(), 2, "they are young: somebody may be about to name them");
    let plain = World::new("steps: [{ id: a, set: 1 }]\n");
    let age = || {
        for path in components() {
            let file = std::fs::File::options().append(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_hours(48)).unwrap();
        }
    };
    age();
    world.says(&["run", "--run-id", "plain", &plain.file]);
    world.says(&["rm", "plain"]);
    let left = components();
    assert_eq!(left.len(), 1, "{left:?}");
    let hello = std::fs::read(super::root().join("guests/built/hello.wasm")).unwrap();
    assert_eq!(std::fs::read(&left[0]).unwrap(), hello);
    age();
    world.says(&["rm", "one"]);
    assert!(components().is_empty());
}

#[test]
fn the_history_of_a_run_is_readable() {
    let world = World::new(
        "name: small\ncomponents: { hello: ./guests/hello.wasm }\nsteps: [{ id: hi, uses: hello, with: { name: Ann } }]\n",
    );
    world.says(&["run", "--run-id", "it", &world.file]);
    let text = world.says(&["history", "it"]);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(text.lines().next().unwrap().ends_with(", UTC"), "{text}");
    assert!(
        lines[0].contains("started with {}") && lines[2].contains("starts run for hi/0/0 with {\"name\":\"Ann\"}"),
        "{text}"
    );
    let records = world.says(&["history", "--json", "it"]);
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["started"]["run"], "it");
    let last = records.last().unwrap();
    assert_eq!((&last["number"], &last["stepped"]["pid"]), (&json!(records.len()), &json!(1)));
    let spawn = &records[1]["stepped"]["commands"][0];
    assert_eq!((&spawn["command"], &spawn["input"]["json"]), (&json!("spawn"), &json!({ "name": "Ann" })));
    assert!(records.iter().all(|record| record["version"] == 1));
}

#[test]
fn a_part_of_a_history_has_the_numbers_of_the_whole() {
    let world = World::new(ASKS);
    let run = world.begin("it", "asks", &[]);
    world.says(&["signal", "it", "answer", "42"]);
    assert_eq!(run.told().1, Some(0));
    let numbers = |more: &[&str]| {
        let text = world.says(&[&["history", "--json", "it"], more].concat());
        let record = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        text.lines().map(|line| record(line)["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let count = numbers(&[]).len() as u64;
    assert_eq!(numbers(&["--limit", "2"]), [1, 2]);
    assert_eq!(numbers(&["--tail", "2"]), [count - 1, count]);
    let of_step = numbers(&["--step", "asks"]);
    assert!(!of_step.is_empty() && (of_step.len() as u64) < count, "{of_step:?}");
    assert_eq!(numbers(&["--step", "asks", "--tail", "1"]), of_step[of_step.len() - 1..]);
    let text = world.says(&["history", "it", "--step", "asks"]);
    assert!(text.contains("calls signal") && text.contains("signal answer: 42"), "{text}");
    let text = world.says(&["history", "it", "--step", "said"]);
    assert!(text.contains("calls log") && !text.contains("signal answer:"), "{text}");
    assert!(world.refuses(&["history", "it", "--step", "ask"]).contains("did you mean asks?"));
}

/// A reader that goes away has what it wanted.
#[test]
fn closed_pipes_are_success() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    for arguments in
        [&["ls"][..], &["ls", "--json"], &["status", "it"], &["logs", "it"], &["history", "it"], &["query", "it"]]
    {
        let mut command = super::command_in(&world.data, arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{arguments:?}");
    }
}
