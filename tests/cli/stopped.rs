//! Hosts that live and do not answer: stopped by somebody, or without room to run.

use super::command_in;
use super::support::World;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

const ASKS: &str = "
steps:
  - { id: asks, wait: { signal: answer } }
outputs: { answer: \"${ .steps.asks.output }\" }
";

#[test]
fn of_a_host_that_does_not_answer_the_records_are_told() {
    let world = World::new(ASKS);
    let (stopped, other) = (world.begin("stopped", "asks", &[]), world.begin("other", "asks", &[]));
    stopped.send("-STOP");
    let process = stopped.id();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let output = world.does(&["status", "--json", "stopped"]);
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&status["status"], &status["state"]), (&json!("running"), &json!("silent")));
            assert_eq!(status["steps"][0]["status"], "running");
            let talk = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(talk.contains(&format!("waiting for process {process} to answer")), "{talk}");
            assert!(talk.contains("this is what the records say"), "{talk}");
        });
        scope.spawn(|| {
            let all = world.tells(&["ps", "--json"]);
            let seen: Vec<_> = all.as_array().unwrap().iter().map(|run| (&run["run"], &run["state"])).collect();
            assert_eq!(seen, [(&json!("other"), &json!("waiting")), (&json!("stopped"), &json!("silent"))]);
        });
        scope.spawn(|| assert!(world.does(&["query", "stopped"]).status.success()));
        scope.spawn(|| {
            let talk = world.refuses(&["resume", "stopped"]);
            assert!(talk.contains(&format!("process {process}, which runs stopped, does not answer")), "{talk}");
        });
        scope.spawn(|| {
            let talk = world.refuses(&["signal", "stopped", "answer", "1", "--id", "only"]);
            assert!(talk.contains("the request may still be carried out"), "{talk}");
            assert!(talk.contains("the same request with --id only counts once"), "{talk}");
        });
        // Who ends a command that waits ends nothing else, and is told that.
        scope.spawn(|| {
            let mut command = command_in(&world.data, &["resume", "--json", "stopped"]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
            assert!(lines.any(|line| line.contains("waiting for process")));
            assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
            let mut told = String::new();
            child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(3), "{told}");
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            assert_eq!(told["status"], "running");
            assert!(told["problem"]["title"].as_str().unwrap().contains("keeps running in process"), "{told}");
        });
    });
    stopped.send("-CONT");
    assert_eq!(stopped.told().0["outputs"], json!({ "answer": 1 }));
    world.says(&["cancel", "--now", "other"]);
    drop(other);
}

#[test]
fn a_host_is_found_where_it_listens_whatever_the_environment_of_who_asks() {
    let mut world = World::new(ASKS);
    let runtime = tempfile::tempdir().unwrap();
    // Its sockets have no room in it.
    world.data = world.data.join("d".repeat(80));
    let mut command = command_in(&world.data, &["run", "--json", "--run-id", "it", &world.file]);
    let mut run = command.env("XDG_RUNTIME_DIR", runtime.path()).stdout(Stdio::piped()).spawn().unwrap();
    super::support::eventually(|| {
        let ps = world.does(&["ps", "--json"]);
        let ps: serde_json::Value = serde_json::from_slice(&ps.stdout).ok()?;
        // It has a workflow when its start is durable.
        (ps[0]["state"] == "waiting" && ps[0]["workflow"].is_string()).then_some(())
    });
    world.says(&["signal", "it", "answer", "2"]);
    assert!(run.wait().unwrap().success());
}
