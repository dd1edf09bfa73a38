//! Runs that take over results of another run.

use super::*;
use std::collections::BTreeSet;

fn given(inputs: Value, steps: impl IntoIterator<Item = (&'static str, PriorStep)>) -> RepeatInput {
    RepeatInput {
        inputs,
        steps: steps.into_iter().map(|(id, given)| (id.to_owned(), given)).collect(),
        ..Default::default()
    }
}

fn succeeded(output: Value) -> PriorStep {
    PriorStep { succeeded: true, output, attempts: 2, ..PriorStep::default() }
}

const CHAIN: &str = "
inputs: { n: { type: integer } }
steps:
  - { id: a, uses: ./a.wasm, with: '${ .inputs.n }' }
  - { id: b, call: http, needs: a, with: '${ .steps.a.output }', retry: { max: 5 } }
  - { id: c, set: '${ [.steps.a.attempts, .steps.b.output] }' }
  - { id: d, uses: ./d.wasm, needs: a, if: '${ .steps.a.output > 50 }' }
outputs: { c: '${ .steps.c.output }', d: '${ .steps.d.status }' }";

#[test]
fn a_step_taken_over_is_not_run_and_its_outcome_is_seen() {
    let mut world = World::again(CHAIN, &given(json!({"n": 4}), [("a", succeeded(json!(40)))]));
    assert_eq!(world.scopes(), ["b/0/0"]);
    assert_eq!(world.pending[0].input, json!(40));
    assert_eq!(world.status("a"), "succeeded");
    world.answer_scope("b/0/0", ok(json!("done")));
    assert_eq!(world.output(), json!({"c": [2, "done"], "d": "skipped"}));
}

#[test]
fn numbers_in_keys_go_on_where_they_were() {
    let numbers = PriorStep { numbers: [(0, 3)].into(), ..PriorStep::default() };
    let mut world = World::again(CHAIN, &given(json!({"n": 4}), [("a", succeeded(json!(1))), ("b", numbers)]));
    world.answer_scope("b/0/3", fails("busy", ProblemClass::Retryable));
    world.sleep_over();
    assert_eq!(world.scopes(), ["b/0/4"], "a definite failure has a number of its own");
}

#[test]
fn a_number_stays_where_a_call_under_it_may_have_happened_in_the_other_run() {
    let doubtful = PriorStep { numbers: [(0, 3)].into(), doubtful: [0].into(), ..PriorStep::default() };
    let all = PriorStep { numbers: [(0, 3)].into(), all_doubtful: true, ..PriorStep::default() };
    for known in [doubtful, all] {
        let mut world = World::again(CHAIN, &given(json!({"n": 4}), [("a", succeeded(json!(1))), ("b", known)]));
        world.answer_scope("b/0/3", fails("busy", ProblemClass::Retryable));
        world.sleep_over();
        assert_eq!(world.scopes(), ["b/0/3"], "of this time it is known, of the other it is not");
    }
}

#[test]
fn a_run_whose_steps_are_all_taken_over_only_makes_its_outputs() {
    let all = [
        ("a", succeeded(json!(1))),
        ("b", succeeded(json!(2))),
        ("c", succeeded(json!([1, 2]))),
        ("d", succeeded(json!(3))),
    ];
    let world = World::again(CHAIN, &given(json!({"n": 4}), all));
    assert!(world.asked.is_empty());
    assert_eq!(world.output(), json!({"c": [1, 2], "d": "succeeded"}));
}

const EACH: &str = "
steps:
  - { id: list, set: [10, 20, 30, 40] }
  - { id: each, call: http, for-each: '${ .steps.list.output }', max-parallel: 1, with: '${ .item }' }
outputs: { all: '${ .steps.each.output }' }";

#[test]
fn items_that_succeeded_are_not_run_again() {
    let each = PriorStep { total: Some(4), items: [(0, json!("x")), (2, json!("z"))].into(), ..PriorStep::default() };
    let world = World::again(EACH, &given(json!({}), [("each", each.clone())])).run(|ask| ok(ask.input.clone()), |_| 0);
    let scopes: Vec<_> = world.asked.iter().map(|ask| ask.scope.as_str()).collect();
    assert_eq!(scopes, ["each/1/0", "each/3/0"]);
    assert_eq!(world.output(), json!({"all": ["x", 20, "z", 40]}));
    // The list has changed, and its items with it.
    let other = World::again(EACH, &given(json!({}), [("each", PriorStep { total: Some(3), ..each })]));
    assert_eq!(other.run(|ask| ok(ask.input.clone()), |_| 0).asked.len(), 4);
}

#[test]
fn a_value_taken_over_may_be_as_deep_as_a_payload_and_an_invalid_input_is_refused() {
    let deep = (0..crate::process::GIVEN_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    let world = World::again(CHAIN, &given(json!({"n": 4}), [("a", succeeded(deep.clone()))]));
    assert_eq!(world.pending[0].input, deep);
    let input = Payload::json(&json!({"inputs": "{}", "steps": {"a": {"nonsense": 1}}}));
    let world = World::begun(plan(CHAIN), (RETRY, input), Limits::default());
    assert_eq!(world.problem().kind, kind::BAD_INPUT);
    let world = World::again(CHAIN, &given(json!({"n": "four"}), []));
    assert_eq!(world.problem().kind, kind::BAD_INPUT);
}

const TURNS: &str = "
steps: [{ id: add, call: http, with: '${ .turn }', retry: { max: 2, backoff: 1s }, repeat: { max: 4 } }]";

#[test]
fn each_turn_goes_on_with_the_number_of_its_own() {
    let add = PriorStep {
        numbers: [(0, 2)].into(),
        turns: [(0, [(2, 1)].into())].into(),
        turns_happened: [(0, 2)].into(),
        ..PriorStep::default()
    };
    let mut failed = BTreeSet::new();
    let world = World::again(TURNS, &given(json!({}), [("add", add)])).run(
        |ask| {
            if failed.insert(ask.scope.split('/').nth(1).unwrap().to_owned()) {
                return fails("busy", ProblemClass::Retryable);
            }
            ok(json!(1))
        },
        |_| 0,
    );
    let scopes: Vec<_> = world.asked.iter().map(|ask| ask.scope.as_str()).collect();
    let of_those_that_may_have_happened = ["add/0/2", "add/0/2", "add/0.1/0", "add/0.1/0"];
    assert_eq!(scopes[..4], of_those_that_may_have_happened);
    assert_eq!(scopes[4..], ["add/0.2/1", "add/0.2/2", "add/0.3/0", "add/0.3/1"]);
}

#[test]
fn steps_within_items_of_another_list_are_run_again_under_the_same_keys() {
    let yaml = "
steps:
  - { id: list, set: [10, 20] }
  - id: each
    for-each: '${ .steps.list.output }'
    max-parallel: 1
    steps: [{ id: ask, call: http, with: '${ .item }' }]";
    let asked = |total, ask| {
        let within = [(0, [("ask".to_owned(), ask)].into())].into();
        let each = PriorStep { total, within, ..PriorStep::default() };
        let world = World::again(yaml, &given(json!({}), [("each", each)])).run(|_| ok(json!(1)), |_| 0);
        world.asked.iter().map(|ask| ask.scope.clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(Some(2), succeeded(json!(5))), ["each/1/0/ask/0/0"]);
    assert_eq!(asked(Some(3), succeeded(json!(5))), ["each/0/0/ask/0/0", "each/1/0/ask/0/0"]);
    // The number in a key does not depend on the list.
    let number = PriorStep { numbers: [(0, 2)].into(), ..PriorStep::default() };
    assert_eq!(asked(None, number), ["each/0/0/ask/0/2", "each/1/0/ask/0/0"]);
}
