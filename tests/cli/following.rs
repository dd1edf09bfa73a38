//! What is shown of a run that another command began: nothing of it is missed.

use super::support::World;
use super::transcript;
use std::process::Output;

const ASKS: &str = "
name: asks
steps:
  - { id: first, set: \"${ 1 }\" }
  - { id: asks, wait: { signal: answer }, needs: first }
  - { id: said, call: log, with: { message: heard }, needs: asks }
outputs: { it: \"${ .steps.asks.output }\" }
";

/// The lines on standard error, without times.
fn lines(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().map(|line| line.split(" in ").next().unwrap_or_default().to_owned()).collect()
}

#[track_caller]
fn assert_in_order(output: &Output, expected: &[&str]) {
    let lines = lines(output);
    let mut rest = lines.iter();
    for line in expected {
        assert!(rest.any(|one| one == line), "no `{line}` where it should be: {}", transcript(output));
    }
}

#[test]
fn steps_that_run_when_a_run_is_taken_up_are_shown() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    world.says(&["signal", "it", "answer", "7"]);
    let output = world.does(&["resume", "it"]);
    assert_in_order(
        &output,
        &["run it", "asks: waits for signal answer", "✓ asks: succeeded", "  said info: heard", "✓ said: succeeded"],
    );
    assert!(!lines(&output).contains(&"✓ first: succeeded".to_owned()), "{}", transcript(&output));
}

#[test]
fn who_finds_a_run_in_another_process_is_told_what_was() {
    let world = World::new(ASKS);
    let first = world.begin("it", "asks", &[]);
    let second = world.spawn(&["run", "--run-id", "it", &world.file]);
    // It is taken whether or not the other one follows by then.
    world.says(&["signal", "it", "answer", "7"]);
    let output = second.output();
    if !lines(&output).contains(&"the run it has ended".to_owned()) {
        let all = ["✓ first: succeeded", "asks: waits for signal answer", "✓ asks: succeeded", "  said info: heard"];
        assert_in_order(&output, &all);
    }
    assert_eq!(first.told().1, Some(0));
}

/// One of them begins it and the other follows that; whichever it is, both see all.
#[test]
fn of_two_that_begin_a_run_at_one_time_both_see_all_of_it() {
    let text = "
steps:
  - { id: first, set: \"${ 1 }\" }
  - { id: asks, wait: { signal: answer }, needs: first }
outputs: { it: \"${ .steps.asks.output }\" }
";
    let world = World::new(text);
    for round in 0..4 {
        let id = format!("r{round}");
        let both = [(); 2].map(|()| world.spawn(&["run", "--run-id", &id, &world.file]));
        super::support::eventually(|| world.does(&["signal", &id, "answer", "7"]).status.success().then_some(()));
        for output in both.map(super::support::Going::output) {
            if !lines(&output).contains(&format!("the run {id} has ended")) {
                assert_in_order(&output, &["✓ first: succeeded", "✓ asks: succeeded"]);
            }
        }
    }
}

#[test]
fn a_retry_is_shown_from_its_first_step_on() {
    let world = World::new(
        "
steps:
  - { id: first, set: \"${ 1 }\" }
  - { id: second, needs: first, set: \"${ error(\\\"no\\\") }\" }
",
    );
    assert_eq!(world.does(&["run", "--run-id", "it", &world.file]).status.code(), Some(1));
    for _ in 0..5 {
        let output = world.does(&["retry", "it", "--from", "first"]);
        assert!(lines(&output).contains(&"✓ first: succeeded".to_owned()), "{}", transcript(&output));
    }
}
