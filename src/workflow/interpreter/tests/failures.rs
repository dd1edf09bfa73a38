//! Failures: retries, timeouts, branches, cancel.

use super::*;
use crate::process::problem::kind as host;
use ProblemClass::{Definite, Retryable, Uncertain};

#[test]
fn a_failed_run_names_the_step_the_item_the_attempt_and_the_cause() {
    let yaml = "
steps:
  - { id: ok, set: 1 }
  - { id: each, uses: ./x.wasm, for-each: [a, b, c], retry: { max: 1, backoff: 1s } }
  - { id: after, needs: each, set: 2 }
  - { id: later, needs: after, set: 3 }";
    let world = run(yaml, json!({}), |ask| {
        if ask.scope.starts_with("each/1/") { fails("rate-limited", Retryable) } else { ok(json!(1)) }
    });
    let problem = world.problem();
    assert_eq!(problem.kind, kind::STEP_FAILED);
    assert_eq!(problem.title, "The step `each` failed");
    assert_eq!(problem.detail.as_deref(), Some("item 1, attempt 2: It broke (rate-limited)"));
    assert_eq!(
        problem.data.as_ref().unwrap().to_value(),
        json!({
            "step": "each", "pointer": "/steps/1", "item": 1, "attempt": 2,
            "cause": {"kind": "rate-limited", "title": "It broke", "class": "retryable"},
            "failed": ["each"], "unreached": ["after", "later"],
        })
    );
    assert_eq!((world.status("after"), world.status("later")), ("unreached".to_owned(), "unreached".to_owned()));
}

#[test]
fn branches_that_do_not_need_a_failed_step_go_on() {
    let yaml = "
steps:
  - { id: bad, uses: ./bad.wasm }
  - { id: a, uses: ./a.wasm }
  - { id: b, needs: a, uses: ./b.wasm }";
    let world = run(yaml, json!({}), |ask| if ask.node() == "bad" { fails("x", Definite) } else { ok(json!(1)) });
    assert_eq!(world.status("b"), "succeeded");
    assert!(world.problem().title.contains("`bad`"));
}

#[test]
fn only_retryable_problems_are_retried_up_to_max() {
    for (class, attempts) in [(Retryable, 4), (Definite, 1), (Uncertain, 1)] {
        let yaml = "steps: [{ id: a, uses: ./a.wasm, retry: { max: 3 } }]";
        let world = run(yaml, json!({}), |_| fails("x", class));
        assert_eq!(world.asked.len(), attempts, "{class:?}");
    }
}

#[test]
fn the_place_in_keys_changes_with_known_failures_only() {
    let yaml = "steps: [{ id: a, call: http, timeout: 10s, retry: { max: 4 } }]";
    let mut attempt = 0;
    let world = run(yaml, json!({}), |_| {
        attempt += 1;
        match attempt {
            1 | 2 | 4 => fails("busy", Retryable),
            3 => Reply::Never,
            _ => ok(json!(1)),
        }
    });
    let scopes: Vec<_> = world.asked.iter().map(|ask| ask.scope.as_str()).collect();
    // The outcome of the third is unknown, and the refusal of the fourth does not settle it.
    assert_eq!(scopes, ["a/0/0", "a/0/1", "a/0/2", "a/0/2", "a/0/2"]);
    assert_eq!(world.status("a"), "succeeded");
}

#[test]
fn the_place_in_keys_stays_where_an_attempt_may_have_had_effects() {
    let scopes = |action: &str, may_have_happened: bool| {
        let yaml = format!("steps: [{{ id: a, {action}, retry: {{ max: 1 }} }}]");
        let mut world = World::new(&yaml, json!({}));
        let problem = Problem::new("busy", "It broke");
        let problem =
            if may_have_happened { problem.with_unknown_outcome(true) } else { problem.with_class(Retryable) };
        world.answer(world.pending[0].tag, Err(Arc::new(problem)));
        while world.pending.is_empty() {
            world.sleep_over();
        }
        world.asked.iter().map(|ask| ask.scope.clone()).collect::<Vec<_>>()
    };
    assert_eq!(scopes("call: http", true), ["a/0/0", "a/0/0"]);
    assert_eq!(scopes("call: http", false), ["a/0/0", "a/0/1"]);
    // A guest may have made calls before it failed.
    assert_eq!(scopes("uses: ./a.wasm", false), ["a/0/0", "a/0/0"]);
}

#[test]
fn backoff_doubles_with_jitter_up_to_its_end_and_heeds_retry_after() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, retry: { max: 6, backoff: 1s..8s } }]";
    let mut world = World::new(yaml, json!({}));
    let mut waits = Vec::new();
    for attempt in 1..=6 {
        let asked_at = world.now;
        let mut problem = Problem::new("busy", "Busy").with_class(Retryable);
        if attempt == 6 {
            problem.retry_after = Some(Micros(60_000_000));
        }
        world.answer(world.pending[0].tag, Err(Arc::new(problem)));
        while world.pending.is_empty() {
            world.sleep_over();
        }
        waits.push(world.now - asked_at);
    }
    for (wait, full) in waits.iter().zip([1_000_000, 2_000_000, 4_000_000, 8_000_000, 8_000_000]) {
        assert!((full / 2..=full).contains(wait), "{waits:?}");
    }
    assert_eq!(waits[5], 60_000_000);
    let delay = |reported: &Progress| match reported {
        Progress::Retry(retry) => Some(retry.delay_us),
        Progress::Node(_) | Progress::Item(_) => None,
    };
    let delays: Vec<_> = world.reported.iter().filter_map(delay).collect();
    assert_eq!(delays, waits);
}

#[test]
fn a_timeout_stops_the_attempt_and_the_next_begins_when_it_has_ended() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, timeout: 10s, retry: { max: 1, backoff: 1s } }]";
    let mut world = World::new(yaml, json!({}));
    let first = world.pending[0].tag;
    world.sleep_over();
    assert_eq!(world.now, 11_000_000);
    assert_eq!(world.commands.last().unwrap().action, Action::Stop(Target::Child(first)));
    // Still there: the child has its grace. Its answer is now too late.
    assert_eq!(world.pending.len(), 1);
    world.answer(first, Ok(Payload::NULL));
    assert!(world.pending.is_empty());
    world.sleep_over();
    world.answer(world.pending[0].tag, Ok(Payload::NULL));
    assert!(world.end.is_some());
    assert_eq!(world.status("a"), "succeeded");
}

#[test]
fn the_last_timeout_is_the_steps_failure() {
    let yaml = "steps: [{ id: a, call: http, timeout: 10s }]";
    let world = run(yaml, json!({}), |_| Reply::Never);
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], host::TIMED_OUT);
    assert_eq!(
        world.problem().detail.as_deref(),
        Some("attempt 1: The step took too long (timed-out): it took longer than 10s")
    );
}

#[test]
fn a_call_that_is_late_is_asked_again_under_its_key() {
    let yaml = "steps: [{ id: a, call: http, timeout: 10s, retry: { max: 1, backoff: 1s } }]";
    let mut world = World::new(yaml, json!({}));
    assert!(
        matches!(&world.commands[..], [Command { action: Action::Call(call), .. }] if call.timeout == Some(Micros(10_000_000)))
    );
    world.sleep_over();
    world.sleep_over();
    assert_eq!(world.asked.iter().map(|ask| ask.scope.as_str()).collect::<Vec<_>>(), ["a/0/0"; 2]);
    world.answer(world.pending[0].tag, Ok(Payload::NULL));
    assert_eq!(world.status("a"), "succeeded");
}

#[test]
fn a_step_that_ends_in_time_leaves_no_timer() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, timeout: 10s }]";
    let world = run(yaml, json!({}), |_| ok(json!(1)));
    let last = &world.commands.last().unwrap().action;
    assert!(matches!(last, Action::Cancel(tag) if *tag != world.asked[0].tag), "{last:?}");
    assert_eq!(world.now, 1_000_000);
}

#[test]
fn when_decides_what_follows_a_failure() {
    let yaml = "
steps:
  - { id: bad, uses: ./bad.wasm }
  - { id: good, set: 1 }
  - { id: off, set: 1, if: '${ false }' }
  - { id: failed, needs: [bad, good], when: failed, set: '${ [.error.kind, .error.step, .error.attempt] }' }
  - { id: done, needs: [bad, good], when: done, set: '${ .steps.bad.status }' }
  - { id: any, needs: [bad, good], when: any, set: 1 }
  - { id: any-bad, needs: [bad, off], when: any, set: 1 }
  - { id: any-off, needs: [off], when: any, set: 1 }
  - { id: not-failed, needs: [good], when: failed, set: 1 }
  - { id: after, needs: [bad], set: 1 }
  - { id: far, needs: [after], when: unreached, set: '${ .error.step }' }
  - { id: far-failed, needs: [after], when: failed, set: 1 }
  - { id: near-unreached, needs: [bad], when: unreached, set: 1 }
  - { id: far-both, needs: [after], when: [failed, unreached], set: 1 }
  - { id: near-both, needs: [bad], when: [unreached, failed], set: 1 }
  - { id: good-both, needs: [good], when: [unreached, failed], set: 1 }
  - { id: keep, needs: [failed, far, done], uses: ./keep.wasm, with: '${ [.steps.failed.output, .steps.far.output, .steps.done.output] }' }";
    let mut kept = Value::Null;
    let world = run(yaml, json!({}), |ask| {
        if ask.node() == "keep" {
            kept = ask.input.clone();
            return ok(json!(1));
        }
        fails("x", Definite)
    });
    for (node, status) in [
        ("failed", "succeeded"),
        ("done", "succeeded"),
        ("any", "succeeded"),
        ("any-bad", "unreached"),
        ("any-off", "skipped"),
        ("not-failed", "skipped"),
        ("after", "unreached"),
        ("far", "succeeded"),
        ("far-failed", "skipped"),
        ("near-unreached", "skipped"),
        ("far-both", "succeeded"),
        ("near-both", "succeeded"),
        ("good-both", "skipped"),
    ] {
        assert_eq!(world.status(node), status, "{node}");
    }
    assert_eq!(kept, json!([["x", "bad", 1], "bad", "failed"]));
    // A reaction does not undo the failure.
    assert_eq!(world.problem().kind, kind::STEP_FAILED);
}

#[test]
fn a_run_that_the_first_version_began_reacts_as_it_did() {
    let yaml = "
steps:
  - { id: bad, uses: ./bad.wasm }
  - { id: after, needs: [bad], set: 1 }
  - { id: far, needs: [after], when: failed, set: 1 }
  - { id: near, needs: [bad], when: failed, set: 1 }";
    for (version, far) in [(1, "succeeded"), (VERSION, "skipped")] {
        let mut world = World::of_version(plan(yaml), version);
        world.answer_scope("bad/0/0", fails("x", Definite));
        assert_eq!((world.status("far").as_str(), world.status("near").as_str()), (far, "succeeded"), "{version}");
        let program = WorkflowProgram::of_version(Arc::new(plan(yaml)), jq(), version);
        assert_eq!(version_of(&program.digest()), version);
    }
    assert_eq!(version_of("native:workflow@99/x"), VERSION, "what is not known is compared, and refused");
}

#[test]
fn continue_on_error_counts_as_success_for_dependents() {
    let yaml = "
steps:
  - { id: a, uses: ./a.wasm, continue-on-error: true }
  - { id: b, set: '${ [.steps.a.status, .steps.a.output, .steps.a.error.kind] }' }
outputs: { b: '${ .steps.b.output }' }";
    let world = run(yaml, json!({}), |_| fails("x", Definite));
    assert_eq!(world.output(), json!({"b": ["failed", null, "x"]}));
}

#[test]
fn with_continue_on_error_all_items_run_and_failed_ones_are_null() {
    let yaml = "
steps: [{ id: a, uses: ./a.wasm, for-each: [1, 2, 3, 4], max-parallel: 1, continue-on-error: true, with: '${ .item }' }]
outputs: { a: '${ .steps.a.output }', item: '${ .steps.a.error.item }' }";
    let world = run(yaml, json!({}), |ask| {
        if ask.input.as_i64().unwrap() % 2 == 0 { fails("even", Definite) } else { ok(ask.input.clone()) }
    });
    assert_eq!(world.output(), json!({"a": [1, null, 3, null], "item": 1}));
}

#[test]
fn after_a_failed_item_none_starts_and_those_in_flight_go_on() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, for-each: '${ [range(10)] }', max-parallel: 3 }]";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("a/1/0", fails("one", Definite));
    assert_eq!(world.scopes(), ["a/0/0", "a/2/0"]);
    world.answer_scope("a/2/0", ok(json!(1)));
    assert_eq!(world.scopes(), ["a/0/0"]);
    world.answer_scope("a/0/0", fails("zero", Definite));
    // The first failed item in the order of items is reported, not the first in time.
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["item"], json!(0));
    assert_eq!(world.asked.len(), 3);
}

#[test]
fn a_failed_item_ends_the_retries_of_others() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, for-each: [0, 1], retry: { max: 9, backoff: 1h } }]";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("a/0/0", fails("busy", Retryable));
    world.answer_scope("a/1/0", fails("broken", Definite));
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], "broken");
}

#[test]
fn cancel_stops_what_runs_and_starts_nothing() {
    let yaml = "
steps:
  - { id: a, uses: ./a.wasm }
  - { id: c, call: http }
  - { id: w, wait: 1h }
  - { id: b, needs: [a, c, w], set: 1 }";
    let mut world = World::new(yaml, json!({}));
    let cancel = Event::Cancel { reason: "enough".into(), grace: Micros(5) };
    world.step(vec![cancel.clone()]);
    assert_eq!(world.scopes(), ["a/0/0", "c/0/0"]);
    assert!(world.end.is_none());
    world.step(vec![cancel]);
    while world.settle_stopped() {}
    assert_eq!(world.problem().kind, host::CANCELLED);
    assert_eq!(world.problem().detail.as_deref(), Some("enough"));
    for node in ["a", "c", "w", "b"] {
        assert_eq!(world.status(node), "cancelled", "{node}");
    }
}

#[test]
fn an_expression_that_fails_is_the_steps_failure_with_its_place() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, with: { x: [ 1, '${ .run.id | error }' ] } }]";
    let world = run(yaml, json!({}), |_| unreachable!());
    let data = world.problem().data.as_ref().unwrap().to_value();
    assert_eq!(data["cause"]["kind"], "expression-failed");
    assert_eq!(data["cause"]["data"]["pointer"], "/steps/0/with/x/1");
    assert_eq!(data["attempt"], 0);
}

#[test]
fn a_failing_output_fails_the_run() {
    let world = World::new("steps: [{ id: a, set: 1 }]\noutputs: { x: '${ .steps.a.output | keys }' }", json!({}));
    assert_eq!(world.problem().kind, "expression-failed");
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["pointer"], "/outputs/x");
}

#[test]
fn a_component_that_answers_in_time_leaves_no_timer() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, timeout: 10s }, { id: b, wait: 20s, needs: a }]";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("a/0/0", ok(json!(1)));
    while world.end.is_none() {
        world.sleep_over();
    }
    assert_eq!((&*world.status("a"), &*world.status("b")), ("succeeded", "succeeded"));
}

#[test]
fn an_earlier_timer_does_not_wait_for_a_later_one() {
    let yaml = "steps: [{ id: a, wait: 1h }, { id: c, call: http }, { id: b, wait: 10s, needs: c }]";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("c/0/0", ok(json!(1)));
    world.sleep_over();
    assert_eq!((&*world.status("a"), &*world.status("b")), ("running", "succeeded"));
}

const TWO: &str = "
steps:
  - { id: list, set: [1, 2] }
  - id: each
    call: http
    for-each: '${ .steps.list.output }'
    with: '${ .item }'
    retry: { max: 3, backoff: 1s }
  - { id: other, wait: 1h }";

#[test]
fn an_item_that_waits_for_its_next_attempt_has_none_where_another_has_failed() {
    let mut world = World::new(TWO, json!({}));
    world.answer_scope("each/0/0", fails("busy", ProblemClass::Retryable));
    world.answer_scope("each/1/0", fails("no", ProblemClass::Definite));
    while world.end.is_none() {
        world.sleep_over();
    }
    assert_eq!(world.asked.len(), 2);
}

#[test]
fn an_item_that_fails_after_another_is_not_tried_again() {
    let mut world = World::new(TWO, json!({}));
    world.answer_scope("each/1/0", fails("no", ProblemClass::Definite));
    world.answer_scope("each/0/0", fails("busy", ProblemClass::Retryable));
    assert_eq!(world.status("each"), "failed");
    while world.end.is_none() {
        world.sleep_over();
    }
    assert_eq!(world.asked.len(), 2);
}
