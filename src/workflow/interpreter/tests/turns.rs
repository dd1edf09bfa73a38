//! Steps with `repeat`.

use super::*;
use ProblemClass::{Definite, Retryable};

#[test]
fn a_call_is_repeated_until_its_answer_is_as_wanted() {
    let yaml = "
steps:
  - id: poll
    call: http
    with: { turn: \"${ .turn }\", last: \"${ .last }\" }
    retry: { max: 1, backoff: 1s }
    repeat: { until: \"${ .last.done }\", max: 10, delay: 10s }
outputs: { said: \"${ .steps.poll.output }\" }";
    let mut sent = 0;
    let world = run(yaml, json!({}), |ask| {
        sent += 1;
        if sent == 2 {
            fails("busy", Retryable)
        } else {
            ok(json!({"done": ask.input["turn"] == 2, "of": ask.input["turn"]}))
        }
    });
    assert_eq!(world.output(), json!({"said": {"done": true, "of": 2}}));
    let scopes: Vec<&str> = world.asked.iter().map(|ask| ask.scope.as_str()).collect();
    assert_eq!(scopes, ["poll/0/0", "poll/0.1/0", "poll/0.1/1", "poll/0.2/0"], "each turn has keys of its own");
    assert_eq!(world.asked[3].input, json!({"turn": 2, "last": {"done": false, "of": 1}}));
    assert!(world.now >= 1_000_000 + 20_000_000, "two delays have passed: {}", world.now);
}

#[test]
fn a_value_is_computed_turn_by_turn() {
    let yaml = "
steps:
  - { id: pairs, set: \"${ [.last[1] // 1, (.last[0] // 0) + (.last[1] // 1)] }\", repeat: { max: 30 } }
  - { id: small, for-each: [1, 100], set: \"${ (.last // .item) * 2 }\", repeat: { while: \"${ .last < 100 }\", max: 50 } }
outputs: { pairs: \"${ .steps.pairs.output }\", small: \"${ .steps.small.output }\" }";
    let world = run(yaml, json!({}), |_| panic!("nothing is asked"));
    assert_eq!(world.output(), json!({"pairs": [832_040, 1_346_269], "small": [128, 200]}));
}

#[test]
fn many_turns_take_many_steps_and_few_lines() {
    let yaml = "
steps:
  - id: count
    repeat: { until: \"${ .last.n >= 5000 }\", max: 10000 }
    steps: [{ id: next, set: \"${ (.last.n // 0) + 1 }\" }]
    outputs: { n: \"${ .steps.next.output }\" }
outputs: { n: \"${ .steps.count.output.n }\" }";
    let world = run(yaml, json!({}), |_| panic!("nothing is asked"));
    assert_eq!(world.output(), json!({"n": 5000}));
    assert!(world.lines.len() <= 2 * world.steps + 4, "{} lines in {} steps", world.lines.len(), world.steps);
    assert!(world.steps > 30, "others get their turn: {}", world.steps);
}

#[test]
fn turns_have_a_bound_and_end_with_a_failure() {
    let yaml = "steps: [{ id: poll, call: http, with: 1, repeat: { until: \"${ .last }\", max: 3 } }]";
    let world = run(yaml, json!({}), |_| ok(json!(false)));
    assert_eq!(world.asked.len(), 3);
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], kind::TOO_MANY_TURNS);
    let yaml = "steps: [{ id: poll, call: http, with: 1, repeat: { max: 5 } }]";
    let mut turn = 0;
    let world = run(yaml, json!({}), |_| {
        turn += 1;
        if turn == 3 { fails("broken", Definite) } else { ok(json!(turn)) }
    });
    assert_eq!(world.asked.len(), 3);
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], "broken");
}

#[test]
fn a_cancel_ends_a_delay_and_a_timeout_is_of_one_turn() {
    let yaml = "
steps:
  - id: poll
    steps: [{ id: a, wait: 8s }]
    timeout: 10s
    repeat: { max: 3, delay: 1h }";
    let world = run(yaml, json!({}), |_| panic!("nothing is asked"));
    assert!(matches!(world.end, Some(StepStatus::Complete(_))), "{:?}", world.end);
    assert_eq!(world.now, 1_000_000 + 3 * 8_000_000 + 2 * 3_600_000_000);
    let mut world = World::new(yaml, json!({}));
    world.sleep_over();
    world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(1) }]);
    let world = world.run(|_| panic!("nothing is asked"), |_| 0);
    assert_eq!(world.problem().kind, crate::process::problem::kind::CANCELLED);
}

#[test]
fn the_result_of_an_item_that_fails_in_a_later_turn_is_null() {
    let yaml = "
steps:
  - id: each
    for-each: [ 1, 2 ]
    continue-on-error: true
    repeat: { max: 2 }
    call: shop
    with: '${ [.item, .turn] }'
  - id: many
    for-each: [ 3 ]
    continue-on-error: true
    repeat: { until: '${ false }', max: 2 }
    call: shop
    with: '${ [.item, .turn] }'
outputs: { each: '${ .steps.each.output }', many: '${ .steps.many.output }' }";
    let world = run(yaml, json!({}), |ask| match &*ask.scope {
        "each/1/0" => ok(json!("first")),
        "each/1.1/0" => fails("broken", ProblemClass::Definite),
        _ => ok(ask.input.clone()),
    });
    assert_eq!(world.output(), json!({ "each": [[1, 1], null], "many": [null] }));
}
