//! Steps within steps.

use super::*;
use ProblemClass::{Definite, Retryable};

#[test]
fn the_steps_within_a_step_see_what_it_sees_and_give_its_output() {
    let yaml = "
inputs: { n: integer }
steps:
  - { id: before, set: \"${ .inputs.n + 1 }\" }
  - id: group
    steps:
      - { id: a, set: \"${ .steps.before.output * 10 }\" }
      - { id: b, uses: ./b.wasm, with: \"${ .steps.a.output + .inputs.n }\" }
    outputs: { b: \"${ .steps.b.output }\", before: \"${ .steps.before.output }\" }
  - { id: after, set: \"${ .steps.group.output.b }\" }
outputs: { after: \"${ .steps.after.output }\", group: \"${ .steps.group.output }\" }";
    let world = run(yaml, json!({"n": 4}), |ask| {
        assert_eq!((ask.scope.as_str(), &ask.input), ("group/0/0/b/0/0", &json!(54)));
        ok(json!("done"))
    });
    assert_eq!(world.output(), json!({"after": "done", "group": {"b": "done", "before": 5}}));
    assert_eq!((world.status("group.a"), world.status("group")), ("succeeded".to_owned(), "succeeded".to_owned()));
}

#[test]
fn each_item_has_its_own_steps() {
    let yaml = "
steps:
  - id: each
    for-each: [x, y, z]
    max-parallel: 2
    steps:
      - { id: a, call: http, with: { url: \"${ .item }\", at: \"${ .index }\" } }
      - id: inner
        for-each: [1, 2]
        steps: [{ id: c, uses: ./c.wasm, with: { a: \"${ .steps.a.output }\", i: \"${ .item }\" } }]
        outputs: { c: \"${ .steps.c.output }\" }
    outputs: { inner: \"${ .steps.inner.output | map(.c) }\", item: \"${ .item }\" }
outputs: { each: \"${ .steps.each.output }\" }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.scopes(), ["each/0/0/a/0/0", "each/1/0/a/0/0"], "as many items as max-parallel allows");
    world.answer_scope("each/1/0/a/0/0", ok(json!("ya")));
    assert_eq!(world.pending[1].scope, "each/1/0/inner/0/0/c/0/0");
    let world = world.run(
        |ask| {
            if ask.what == "http" {
                ok(json!(format!("{}a", ask.input["url"].as_str().unwrap())))
            } else {
                ok(ask.input.clone())
            }
        },
        |open| open - 1,
    );
    let item = |name: &str| {
        let c = |i: u32| json!({"a": format!("{name}a"), "i": i});
        json!({"inner": [c(1), c(2)], "item": name})
    };
    assert_eq!(world.output(), json!({"each": [item("x"), item("y"), item("z")]}));
}

#[test]
fn the_first_case_that_applies_is_run() {
    let yaml = "
inputs: { n: integer }
steps:
  - id: route
    switch:
      - if: ${ .inputs.n > 10 }
        steps: [{ id: big, uses: ./big.wasm }]
        outputs: { size: big, by: \"${ .steps.big.output }\" }
      - if: ${ .inputs.n > 5 }
        steps: [{ id: it, set: middle }]
        outputs: { size: \"${ .steps.it.output }\" }
      - steps: [{ id: it, set: small }]
        outputs: { size: \"${ .steps.it.output }\" }
outputs: { size: \"${ .steps.route.output.size }\" }";
    for (n, size) in [(11, "big"), (6, "middle"), (1, "small")] {
        let world = run(yaml, json!({"n": n}), |_| ok(json!("guest")));
        assert_eq!(world.output(), json!({"size": size}));
    }
    let yaml = "
steps: [{ id: route, switch: [{ if: \"${ false }\", steps: [{ id: it, set: 1 }] }] }]
outputs: { nothing: \"${ .steps.route.output }\" }";
    assert_eq!(run(yaml, json!({}), |_| ok(json!(1))).output(), json!({"nothing": null}));
}

#[test]
fn a_failure_within_is_that_of_the_step_and_names_its_place() {
    let yaml = "
steps:
  - id: each
    for-each: [a, b]
    steps:
      - { id: first, set: 1 }
      - { id: bad, needs: first, uses: ./bad.wasm }
      - { id: never, needs: bad, set: 2 }
  - { id: react, needs: each, when: failed, set: \"${ [.error.kind, .error.step, .error.pointer] }\" }";
    let world =
        run(
            yaml,
            json!({}),
            |ask| {
                if ask.scope.starts_with("each/1/") { fails("broken", Definite) } else { ok(json!(1)) }
            },
        );
    let problem = world.problem();
    assert_eq!(problem.title, "The step `each[1].bad` failed");
    let data = problem.data.as_ref().unwrap().to_value();
    assert_eq!(data["pointer"], "/steps/0/steps/1");
    assert_eq!(data["cause"]["kind"], "broken");
    assert_eq!(data["failed"], json!(["each"]));
    assert_eq!(world.status("react"), "succeeded");
    assert_eq!(world.status("each[1].never"), "unreached");
}

#[test]
fn a_step_made_of_steps_is_retried_as_one() {
    let yaml = "
steps:
  - id: group
    retry: { max: 2, backoff: 1s }
    steps:
      - { id: a, uses: ./a.wasm }
      - { id: b, needs: a, call: http }
    outputs: { b: \"${ .steps.b.output }\" }
outputs: { attempts: \"${ .steps.group.attempts }\", b: \"${ .steps.group.output.b }\" }";
    let mut calls = 0;
    let world = run(yaml, json!({}), |ask| {
        calls += u32::from(ask.what == "http");
        if ask.what == "http" && calls < 3 { fails("rate-limited", Retryable) } else { ok(json!(calls)) }
    });
    assert_eq!(world.output(), json!({"attempts": 3, "b": 3}));
    let scopes: Vec<&str> = world.asked.iter().map(|ask| ask.scope.as_str()).collect();
    let numbered = |number| ["group/0/0/a/0/0".to_owned(), format!("group/0/0/b/0/{number}")];
    assert_eq!(scopes, (0..3).flat_map(numbered).collect::<Vec<_>>(), "what has not happened has a new key");
}

#[test]
fn a_call_that_has_succeeded_has_its_key_in_a_further_attempt_of_the_step_around_it() {
    let yaml = "
steps:
  - id: outer
    retry: { max: 2, backoff: 1s }
    steps:
      - id: inner
        for-each: [ 1, 2 ]
        repeat: { max: 2 }
        retry: { max: 1, backoff: 1s }
        steps: [{ id: pay, call: http, with: '${ [.item, .turn] }', retry: { max: 3, backoff: 1s } }]
      - { id: ship, needs: inner, call: http, with: ship }";
    // Each payment is refused once, and is done under its second key; then it is refused again, as
    // one that asks too often is, before the server looks for the key.
    let mut asked: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    let world = run(yaml, json!({}), |ask| {
        let times = asked.entry(ask.scope.clone()).or_default();
        *times += 1;
        match (&*ask.scope, *times) {
            ("outer/0/0/ship/0/0" | "outer/0/0/ship/0/1", _) => fails("busy", Retryable),
            (scope, _) if scope.ends_with("pay/0/0") => fails("busy", Retryable),
            (_, 2) => fails("busy", Retryable),
            _ => ok(json!(1)),
        }
    });
    assert_eq!(world.output(), json!({}));
    let pays = asked.iter().filter(|(scope, _)| scope.contains("pay"));
    let pays: Vec<(&str, u32)> = pays.map(|(scope, times)| (scope.as_str(), *times)).collect();
    let mut expected: Vec<(String, u32)> = Vec::new();
    for item in ["0", "0.1", "1", "1.1"] {
        for (number, times) in [(0, 1), (1, 4)] {
            expected.push((format!("outer/0/0/inner/{item}/0/pay/0/{number}"), times));
        }
    }
    expected.sort_unstable();
    let expected: Vec<(&str, u32)> = expected.iter().map(|(scope, times)| (scope.as_str(), *times)).collect();
    assert_eq!(pays, expected);
}

#[test]
fn a_timeout_stops_the_steps_within_and_ends_when_they_have() {
    let yaml = "
steps:
  - id: group
    timeout: 10s
    steps:
      - { id: slow, uses: ./slow.wasm }
      - { id: nap, wait: 1h }
      - { id: inner, steps: [{ id: ask, wait: { signal: go } }] }
      - { id: later, needs: slow, set: 1 }
  - { id: react, needs: group, when: failed, set: \"${ .error.kind }\" }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.pending.len(), 2);
    world.sleep_over();
    assert_eq!(world.now, 11_000_000);
    assert!(world.end.is_none(), "what is in flight is awaited");
    let world = world.run(|_| Reply::Never, |_| 0);
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], "timed-out");
    assert_eq!(world.status("react"), "succeeded");
    for node in ["group.slow", "group.nap", "group.inner", "group.inner.ask", "group.later"] {
        assert_eq!(world.status(node), "cancelled", "{node}");
    }
}

#[test]
fn a_cancel_ends_what_is_within() {
    let yaml = "
steps:
  - id: group
    for-each: [1, 2]
    steps: [{ id: a, uses: ./a.wasm }, { id: b, needs: a, uses: ./b.wasm }]
  - { id: after, needs: group, set: 1 }";
    let mut world = World::new(yaml, json!({}));
    world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(1) }]);
    let world = world.run(|_| panic!("nothing begins"), |_| 0);
    assert_eq!(world.problem().kind, crate::process::problem::kind::CANCELLED);
    assert_eq!((world.status("group"), world.status("after")), ("cancelled".to_owned(), "cancelled".to_owned()));
}

#[test]
fn many_items_use_the_places_of_those_that_have_ended() {
    let yaml = "
steps:
  - id: each
    for-each: ${ [range(3000)] }
    max-parallel: 3
    steps: [{ id: a, set: \"${ .item }\" }, { id: b, set: \"${ .steps.a.output * 2 }\" }]
    outputs: { b: \"${ .steps.b.output }\" }
outputs: { sum: \"${ .steps.each.output | map(.b) | add }\" }";
    let world = run(yaml, json!({}), |_| panic!("nothing is asked"));
    assert_eq!(world.output(), json!({"sum": 3000 * 2999}));
    assert!(world.lines.len() < world.steps * 8, "{} lines in {} steps", world.lines.len(), world.steps);
}

#[test]
fn how_much_may_begin_is_bounded() {
    let waiting: Vec<String> = (0..50).map(|n| format!("      - {{ id: s{n}, needs: nap, set: {n} }}")).collect();
    let waiting = waiting.join("\n");
    let yaml = format!(
        "
steps:
  - id: each
    for-each: ${{ [range(4000)] }}
    max-parallel: 4000
    steps:
      - {{ id: nap, wait: 1h }}
{waiting}"
    );
    let world = run(&yaml, json!({}), |_| ok(json!(1)));
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], kind::STATE_TOO_LARGE);
}

#[test]
fn a_wait_of_an_attempt_that_took_too_long_does_not_end_that_of_the_next() {
    let yaml = "
steps: [{ id: group, timeout: 6s, retry: { max: 1, backoff: 1s }, steps: [{ id: pause, wait: 10s }] }]";
    let world = run(yaml, json!({}), |_| panic!("nothing is asked"));
    assert_eq!(world.data()["cause"]["kind"], crate::process::problem::kind::TIMED_OUT);
    assert!(world.now > 1_000_000 + 12_000_000, "{}", world.now);
}
