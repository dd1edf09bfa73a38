//! The cache of steps on the command line: what is used again, listed, removed, and why not.

use super::support::World;
use serde_json::{Value, json};

const FLOW: &str = "
name: flow
inputs: { n: { type: number, default: 2 } }
steps:
  - { id: pure, cache: auto, with: '${ .inputs.n }', script: 'return input * 2' }
  - { id: dice, cache: auto, script: 'return Math.random() < 2' }
  - { id: each, for-each: [ 1, 2 ], cache: { ttl: 1h }, with: '${ .item }', script: 'return Date.now() > input' }
outputs: { got: '${ [.steps.pure.output, .steps.dice.output, .steps.each.output] }' }
";

fn run(world: &World, id: &str, more: &[&str]) -> Value {
    let (told, code) = world.spawn(&[&["run", &world.file, "--json", "--run-id", id], more].concat()).told();
    assert_eq!((&told["outputs"]["got"], code), (&json!([4, true, [true, true]]), Some(0)), "{told}");
    told["counts"]["processes"].clone()
}

#[test]
fn a_later_run_uses_what_an_earlier_one_kept() {
    let world = World::new(FLOW);
    assert_eq!(run(&world, "one", &[]), 5);
    // The workflow and the guest that read random numbers.
    assert_eq!(run(&world, "two", &[]), 2);
    assert_eq!(run(&world, "three", &["--no-cache"]), 5);
    let status = world.says(&["status", "two"]);
    for line in [
        "cached, from run one,",
        "2 cached, the first from run one,",
        "not kept in the cache: the guest read random numbers",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let status: Value = serde_json::from_str(&world.says(&["status", "two", "--json"])).unwrap();
    assert_eq!((&status["steps"][0]["cached"], &status["steps"][0]["cached-from"]["run"]), (&json!(1), &json!("one")));
    let history = world.says(&["history", "two"]);
    assert!(history.contains("asks the cache of steps") && history.contains("pure: succeeded, cached"), "{history}");
    let verified = world.says(&["verify", "two"]);
    assert!(verified.contains("all as recorded"), "{verified}");
    let list: Value = serde_json::from_str(&world.says(&["cache", "ls", "--json"])).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 3);
    assert!(list.iter().all(|one| one["hits"] == 1 && one["run"] == "one" && one["workflow"] == "flow"), "{list:?}");
    let table = world.says(&["cache", "ls"]);
    assert!(table.starts_with("KEY           STEP       SIZE   HITS  AGE"), "{table}");
    assert_eq!(world.says(&["cache", "rm", "--older", "1h", "--json"]), "{\n  \"removed\": 0,\n  \"bytes\": 0\n}\n");
    let key = list.iter().find(|one| one["step"] == "pure").unwrap()["key"].as_str().unwrap();
    assert!(world.does(&["cache", "rm", &key[..12]]).status.success());
    assert_eq!(run(&world, "four", &[]), 3);
    assert!(world.does(&["cache", "rm", "--all"]).status.success());
    // A run that is not durable has and leaves the same.
    let (told, _) = world.spawn(&["run", &world.file, "--json", "--durability", "none"]).told();
    assert_eq!(told["counts"]["processes"], 5);
    assert_eq!(run(&world, "five", &[]), 2);
    assert_eq!(run(&world, "six", &["--cache-bytes", "0"]), 5);
}

#[test]
fn a_step_that_is_named_for_a_retry_runs() {
    let world = World::new(FLOW);
    assert_eq!(run(&world, "one", &[]), 5);
    let (told, _) = world.spawn(&["retry", "one", "--from", "pure", "--json"]).told();
    assert_eq!((&told["status"], &told["counts"]["processes"]), (&json!("succeeded"), &json!(2)), "{told}");
    assert!(world.does(&["run", &world.file, "--cache-bytes", "much"]).status.code() == Some(2));
}
