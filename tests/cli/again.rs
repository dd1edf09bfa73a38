//! Runs that were: repeated, forked, replayed, verified.

use super::support::{World, eventually};
use super::transcript;
use serde_json::{Value, json};

const ASKS: &str = "
name: asks
components: { fib: ./guests/fib.wasm, hello: ./guests/hello.wasm }
steps:
  - { id: fib, uses: fib, with: { n: 5 } }
  - { id: asks, wait: { signal: answer }, needs: fib }
  - { id: hello, uses: hello, with: { name: \"${ .steps.asks.output }\" }, needs: asks }
outputs: { hello: \"${ .steps.hello.output.greeting }\" }
";

/// Runs it to its end with that answer.
fn whole(world: &World, id: &str, answer: &str) -> Value {
    let run = world.begin(id, "asks", &[]);
    world.says(&["signal", id, "answer", answer]);
    let (told, code) = run.told();
    assert_eq!(code, Some(0), "{told}");
    told["outputs"].clone()
}

#[test]
fn what_failed_is_run_again_and_what_succeeded_is_not() {
    let text = "
steps:
  - { id: before, call: log, with: { message: said } }
  - { id: asks, wait: { signal: answer, timeout: 300ms }, needs: before }
  - { id: after, set: \"${ .steps.asks.output }\", needs: asks }
outputs: { after: \"${ .steps.after.output }\" }
";
    let world = World::new(text);
    assert_eq!(world.does(&["run", "--run-id", "first", &world.file]).status.code(), Some(1));
    // The signal may come before the step asks for it.
    let again = world.spawn(&["retry", "first", "--run-id", "second", "--json"]);
    eventually(|| world.does(&["signal", "second", "answer", "7"]).status.success().then_some(()));
    let (told, code) = again.told();
    assert_eq!((&told["outputs"], code), (&json!({ "after": 7 }), Some(0)), "{told}");
    let logs = |run| world.says(&["logs", run]);
    assert!(logs("first").contains("before: said"));
    assert!(!logs("second").contains("before: said"), "{}", logs("second"));

    assert!(world.refuses(&["retry", "second"]).contains("--from STEP"));
    let refused = world.refuses(&["retry", "first", "--from", "aftr"]);
    assert!(refused.contains("did you mean `after`?"), "{refused}");
    assert!(
        world.refuses(&["retry", "first", "--from", "nope"]).contains("no step `nope`; it has before, asks, after")
    );
    let refused = world.refuses(&["replay", "first", "--with", "x=guests/built/hello.wasm"]);
    assert!(refused.contains("no component `x`; it has none"), "{refused}");
    assert!(world.refuses(&["retry", "first", "--from", "x", "--failed"]).contains("cannot be used with"));
}

#[test]
fn a_fork_goes_on_by_itself_from_where_it_was_cut() {
    let world = World::new(ASKS);
    assert_eq!(whole(&world, "it", "\"Ann\"")["hello"], "Hello, Ann!");
    let records = world.says(&["history", "--json", "it"]);
    let records: Vec<Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let signal = records.iter().find(|record| record["arrived"]["news"] == "signal").unwrap();
    let cut = (signal["number"].as_u64().unwrap() - 1).to_string();
    let fork = world.spawn(&["fork", "it", "--at", &cut, "--run-id", "other", "--json"]);
    eventually(|| world.does(&["signal", "other", "answer", "\"Bob\""]).status.success().then_some(()));
    let (told, code) = fork.told();
    assert_eq!((told["outputs"]["hello"].as_str(), code), (Some("Hello, Bob!"), Some(0)), "{told}");
    assert_eq!(world.tells(&["status", "--json", "it"])["outputs"]["hello"], "Hello, Ann!");
    let refused = world.refuses(&["fork", "it", "--at", "4711"]);
    assert!(refused.contains("cannot be forked at 4711") && refused.contains("wfhost history it"), "{refused}");
    assert!(world.refuses(&["fork", "it", "--at", &records.len().to_string()]).contains("has ended"));
    let refused = world.refuses(&["fork", "it", "--at", &cut, "--with", "fib=guests/built/hello.wasm"]);
    assert!(refused.contains("wfhost replay it --with"), "{refused}");
}

#[test]
fn a_replay_tells_the_first_difference() {
    let world = World::new(ASKS);
    whole(&world, "it", "\"Ann\"");
    let same = world.tells(&["replay", "--json", "it"]);
    assert_eq!((&same["answer"], &same["fuel-differs"]), (&json!("same"), &json!(0)));
    assert!(same["steps"].as_u64().unwrap() > 10);
    assert!(world.says(&["replay", "it"]).starts_with("the same: "));
    let verbose = world.does(&["replay", "-v", "it", "--until", "3"]);
    let said = String::from_utf8_lossy(&verbose.stderr).into_owned();
    assert!(said.lines().count() == 2 && said.contains("the workflow, step 1: the same"), "{}", transcript(&verbose));

    let other = ["replay", "it", "--with", "hello=guests/built/wordcount.wasm"];
    let output = world.does(&other);
    assert_eq!(output.status.code(), Some(1), "{}", transcript(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.starts_with("diverged: record ") && shown.contains("hello/0/0"), "{shown}");
    assert!(shown.contains("\n  - ") && shown.contains("\n  + ") && shown.contains("Hello, Ann!"), "{shown}");
    let output = world.does(&[&other[..], &["--json"]].concat());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["answer"], "diverged");
    assert_ne!(told["expected"], told["got"]);
    // What is wrong with the other file is said of that one.
    for (file, why) in
        [("absent.wasm", "cannot read the component `absent.wasm`"), ("Cargo.toml", "`Cargo.toml` is text")]
    {
        let refused = world.refuses(&["replay", "it", "--with", &format!("hello={file}")]);
        assert!(refused.contains(why) && refused.contains("(in the place of `./guests/hello.wasm`)"), "{refused}");
        assert!(!refused.contains("workflow's folder"), "{refused}");
    }
    let refused = world.refuses(&["replay", "it", "--with", "helo=guests/built/hello.wasm"]);
    assert!(refused.contains("no component `helo`") && refused.contains("fib, hello"), "{refused}");
}

#[test]
fn a_run_is_verified_from_its_first_record_on() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    // Unfinished ones too.
    let verified = world.tells(&["verify", "--json", "it"]);
    assert!(verified["steps"].as_u64().unwrap() > 5);
    assert!(verified["snapshots"].as_array().unwrap().iter().all(|one| one["verdict"] == "equal"), "{verified}");
    assert!(world.says(&["verify", "it"]).contains("all as recorded"));
}

/// What is done to a run that nobody runs is done when it is taken up, and once.
#[test]
fn what_is_left_for_a_run_reaches_it() {
    let world = World::new(ASKS);
    world.begin("signalled", "asks", &[]).kill();
    let signal = |body: &str, id: &str| world.does(&["signal", "signalled", "answer", body, "--id", id]);
    let left = signal("\"Ann\"", "s-1");
    assert!(left.status.success(), "{}", transcript(&left));
    assert!(
        String::from_utf8_lossy(&left.stderr).contains("this is stored until it is resumed"),
        "{}",
        transcript(&left)
    );
    assert!(signal("\"Ann\"", "s-1").status.success(), "it is the same");
    let other = signal("\"Bob\"", "s-1");
    assert_eq!(other.status.code(), Some(2), "{}", transcript(&other));
    assert!(String::from_utf8_lossy(&other.stderr).contains("the id s-1"), "{}", transcript(&other));

    let resumed = world.does(&["resume", "--json", "signalled"]);
    let told: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(told["outputs"]["hello"], "Hello, Ann!", "{told}");
    let history = world.says(&["history", "signalled"]);
    assert_eq!(history.matches("signal answer:").count(), 1, "{history}");
}

#[test]
fn of_retries_with_one_id_one_runs_and_the_others_are_refused() {
    let world = World::new("steps: [{ id: a, set: 1 }]\noutputs: { a: 1 }");
    world.tells(&["run", "--json", "--durability", "journal", "--run-id", "first", &world.file]);
    for round in 0..3 {
        let id = format!("again-{round}");
        let retry = ["retry", "first", "--from", "a", "--run-id", &id, "-q"];
        let all: Vec<_> = (0..6).map(|_| world.spawn(&retry)).collect();
        let all: Vec<_> = all.into_iter().map(super::support::Going::output).collect();
        let done = all.iter().filter(|output| output.status.success()).count();
        assert_eq!(done, 1);
        for output in all.iter().filter(|output| !output.status.success()) {
            assert_eq!(output.status.code(), Some(2), "{}", transcript(output));
            let talk = String::from_utf8_lossy(&output.stderr);
            assert!(talk.contains(&format!("there is a run with the id {id} already")), "{talk}");
        }
    }
}
