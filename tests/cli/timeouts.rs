//! Runs that take longer than they may.

use super::support::{World, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const WAITS: &str = "steps: [{ id: asks, wait: { signal: answer } }]\noutputs: { got: \"${ .steps.asks.output }\" }\n";

#[test]
fn a_run_that_took_too_long_is_that_wherever_it_is_told_of() {
    let world = World::new(WAITS);
    let output = world.does(&["run", "--json", "--run-id", "it", &world.file, "--timeout", "5s"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["status"], output.status.code()), (&json!("timed-out"), Some(3)));
    let status = world.tells(&["status", "--json", "it"]);
    assert_eq!((&status["status"], &status["problem"]["kind"]), (&json!("timed-out"), &json!("timed-out")));
    assert_eq!(status["problem"]["detail"], "it had not ended after 5s");
    assert!(world.says(&["status", "it"]).contains("timed-out"));
    let ids = |status: &str| world.tells(&["ls", "--json", "--status", status]).as_array().unwrap().len();
    assert_eq!((ids("timed-out"), ids("cancelled")), (1, 0));
    let history = world.says(&["history", "it"]);
    assert!(history.contains("the run is asked to end: it took longer than 5s"), "{history}");
    // Its end is told again, and steps that did not come to theirs can be run again.
    let again = world.does(&["run", "--json", "--run-id", "it", &world.file]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["status"], &again["problem"]["kind"]), (&json!("timed-out"), &json!("timed-out")));
    assert!(world.refuses(&["resume", "it"]).contains("has ended: timed-out"));
    let retried = world.spawn(&["retry", "it", "--run-id", "other", "--json"]);
    eventually(|| world.does(&["signal", "other", "answer", "1"]).status.success().then_some(()));
    assert_eq!(retried.told().0["outputs"], json!({ "got": 1 }));
}

const LEAVES_MUCH: &str = "\
steps:
  - { id: a, steps: [ { id: one, set: 1 } ], compensate: { steps: [ { id: two, set: 2 } ] } }
  - { id: b, needs: a, steps: [ { id: one, set: 1 } ], compensate: { steps: [ { id: two, set: \"${ 1 | error }\" } ] } }
  - { id: asks, needs: b, wait: 1h }
on: { cancel: [ { id: f, set: \"${ 2 | error }\" } ] }
";

#[test]
fn a_run_that_took_too_long_lists_what_was_undone_as_a_cancelled_one_does() {
    let world = World::new(LEAVES_MUCH);
    let cancelled = world.begin("cancelled", "asks", &[]);
    world.says(&["cancel", "cancelled"]);
    let problem = cancelled.told().0["problem"].clone();
    let (expected, (_, left)) = (&problem["data"], problem["detail"].as_str().unwrap().split_once("; ").unwrap());
    assert_eq!((&expected["undone"], &expected["not-undone"][0]["step"]), (&json!(["a"]), &json!("b")));
    assert_eq!(expected["on"].as_array().map(Vec::len), Some(1), "{expected}");
    let output = world.does(&["run", "--json", "--run-id", "late", &world.file, "--timeout", "5s"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["status"], &told["problem"]["kind"]), (&json!("timed-out"), &json!("timed-out")));
    assert_eq!(told["problem"]["data"], *expected);
    assert_eq!(told["problem"]["detail"], format!("it had not ended after 5s; {left}"));
    assert!(left.ends_with("undone: b"), "{left}");
    assert_eq!(world.tells(&["status", "--json", "late"])["problem"]["data"], *expected);
    let again = world.does(&["run", "--color=never", "--run-id", "late", &world.file]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("undone: a") && said.contains(&format!("{left}: ")), "{said}");
}

/// It is that of the command: whoever takes the run up gives it no time, and whoever only follows
/// it ends the following.
#[test]
fn a_timeout_is_that_of_the_command() {
    let world = World::new(WAITS);
    world.begin("it", "asks", &["--timeout", "10m"]).kill();
    let resumed = world.spawn(&["resume", "--json", "it"]);
    eventually(|| world.tells(&["ps", "--json"])[0]["run"].as_str().map(str::to_owned));
    let follow = |how: &str| world.does(&["run", how, "--run-id", "it", &world.file, "--timeout", "5s"]);
    let follows = follow("--json");
    let told: Value = serde_json::from_slice(&follows.stdout).unwrap();
    assert_eq!((&told["status"], follows.status.code()), (&json!("running"), Some(3)), "{told}");
    assert_eq!(told["problem"]["kind"], "timed-out");
    let follows = follow("--color=never");
    let said = String::from_utf8_lossy(&follows.stderr).into_owned();
    let why =
        format!("5s have passed: the run it keeps running in process {}, and is no longer followed", resumed.id());
    assert!(said.contains(&why) && said.contains("wfhost logs -f it"), "{said}");
    world.says(&["signal", "it", "answer", "1"]);
    assert_eq!(resumed.told().0["outputs"], json!({ "got": 1 }));

    // Who cancels it before is what ended it.
    let run = world.begin("cancelled", "asks", &["--timeout", "10m"]);
    world.says(&["cancel", "cancelled"]);
    assert_eq!(run.told().0["status"], "cancelled");
}

/// More lines than a pipe holds, and then a wait.
fn talks_and_waits() -> String {
    let step =
        |at: usize| format!("  - {{ id: a-step-with-a-name-of-some-length-so-that-lines-are-long-{at}, set: {at} }}\n");
    let steps: String = (0..900).map(step).collect();
    format!("steps:\n{steps}  - {{ id: asks, wait: 1h }}\n")
}

#[test]
fn a_command_ends_in_time_where_nobody_reads_what_it_says() {
    let world = World::new(&talks_and_waits());
    let mut run = world.spawn(&["run", &world.file, "--timeout", "3s", "--durability", "none"]);
    assert_eq!(run.ends(), Some(3));
}

#[test]
fn a_command_that_is_stopped_ends_where_nobody_reads_what_it_says() {
    for name in ["-INT", "-TERM"] {
        let world = World::new(&talks_and_waits());
        let mut run = world.spawn(&["run", &world.file, "--durability", "none"]);
        // By then it has said what the pipe holds; where it has not, it ends all the same.
        std::thread::sleep(Duration::from_secs(2));
        run.send(name);
        assert_eq!(run.ends(), Some(3), "{name}");
    }
}
