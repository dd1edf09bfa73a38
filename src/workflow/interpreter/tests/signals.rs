//! Steps that wait for a signal.

use super::*;

#[test]
fn the_body_of_a_signal_is_the_output_and_a_wait_is_not_an_attempt() {
    let yaml = "
steps:
  - { id: review, wait: { signal: approve } }
  - { id: end, set: '${ [.steps.review.output.by, .steps.review.attempts] }' }
outputs: { end: '${ .steps.end.output }' }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.scopes(), ["signal approve"]);
    assert!(
        matches!(&world.commands[0].action, Action::Call(call) if call.timeout.is_none()),
        "without a timeout it waits as long as it takes"
    );
    world.answer_scope("signal approve", ok(json!({"by": "Ann"})));
    assert_eq!(world.output(), json!({"end": ["Ann", 0]}));
}

#[test]
fn name_and_timeout_may_be_expressions_and_each_item_waits_for_its_own() {
    let yaml = "
inputs: { who: { type: array }, long: { type: string } }
defaults: { timeout: 1s, retry: { max: 3 } }
steps:
  - { id: each, for-each: '${ .inputs.who }', wait: { signal: 'approve-${ .item }', timeout: '${ .inputs.long }' } }
outputs: { all: '${ .steps.each.output }' }";
    let mut world = World::new(yaml, json!({"who": ["a", "b"], "long": "24h"}));
    assert_eq!(world.scopes(), ["signal approve-a", "signal approve-b"]);
    let timeout = |command: &Command| match &command.action {
        Action::Call(call) => call.timeout,
        other => panic!("{other:?}"),
    };
    let timeouts: Vec<_> = world.commands.iter().map(timeout).collect();
    assert_eq!(timeouts, [Some(Micros(86_400_000_000)); 2], "the defaults of attempts are none of its");
    world.answer_scope("signal approve-b", ok(json!(2)));
    world.answer_scope("signal approve-a", ok(json!(1)));
    assert_eq!(world.output(), json!({"all": [1, 2]}));
}

#[test]
fn what_a_person_is_shown_goes_with_the_call() {
    let yaml = "
inputs: { who: { type: array }, n: { type: number } }
steps:
  - id: each
    for-each: '${ .inputs.who }'
    wait:
      signal: 'approve-${ .item }'
      title: 'Approve ${ .item }?'
      text: '${ .inputs.n }'
      schema: { type: object, properties: { note: { type: string, default: '${ not evaluated }' } } }
  - { id: long, wait: { signal: long, title: '${ \"é\" * 300 }' } }
  - { id: plain, wait: { signal: plain } }";
    let world = World::new(yaml, json!({"who": ["a"], "n": 1.5}));
    let args = |name: &str| {
        let found = world.commands.iter().find_map(|command| match &command.action {
            Action::Call(call) => match &call.args {
                Payload::Json(args) => Some(args.to_value()).filter(|args| args["name"] == name),
                other => panic!("{other:?}"),
            },
            _ => None,
        });
        found.unwrap()
    };
    let schema =
        json!({ "type": "object", "properties": { "note": { "type": "string", "default": "${ not evaluated }" } } });
    assert_eq!(
        args("approve-a"),
        json!({ "name": "approve-a", "title": "Approve a?", "text": "1.5", "schema": schema })
    );
    assert_eq!(args("long")["title"].as_str().unwrap(), format!("{}…", "é".repeat(200)));
    assert_eq!(args("plain"), json!({ "name": "plain" }));
}

#[test]
fn a_wait_that_times_out_fails_its_step_and_is_not_repeated() {
    let yaml = "
defaults: { retry: { max: 3 } }
steps:
  - { id: review, wait: { signal: approve, timeout: 5s } }
  - { id: escalate, needs: review, when: failed, set: '${ .error.kind }' }";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("signal approve", fails(crate::process::problem::kind::TIMED_OUT, ProblemClass::Retryable));
    assert_eq!((world.status("review").as_str(), world.status("escalate").as_str()), ("failed", "succeeded"));
    assert_eq!(world.asked.len(), 1);
    assert_eq!(world.problem().kind, kind::STEP_FAILED);
}

#[test]
fn an_invalid_name_or_timeout_is_a_problem() {
    for (wait, expected) in [
        ("{ signal: '${ 5 }' }", kind::BAD_SIGNAL),
        ("{ signal: '${ null }' }", kind::BAD_SIGNAL),
        ("{ signal: a, timeout: '${ .run.id }' }", kind::BAD_DURATION),
    ] {
        let world = World::new(&format!("steps: [{{ id: w, wait: {wait} }}]"), json!({}));
        let data = world.problem().data.as_ref().unwrap().to_value();
        assert_eq!(data["cause"]["kind"], expected, "{wait}");
        assert!(world.asked.is_empty());
    }
}

#[test]
fn a_cancelled_run_takes_its_wait_back() {
    let mut world = World::new("steps: [{ id: w, wait: { signal: a } }]", json!({}));
    let tag = world.pending[0].tag;
    world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(1) }]);
    assert_eq!(world.commands.last().unwrap().action, Action::Cancel(tag));
    assert!(world.settle_stopped());
    assert_eq!(world.status("w"), "cancelled");
}

const ANY: &str = "
inputs: { late: { type: string, default: 24h } }
steps:
  - id: review
    wait:
      any:
        yes: { signal: approve, title: 'Publish it?' }
        no: { signal: reject }
        late: '${ .inputs.late }'
  - { id: end, set: '${ .steps.review.output }' }
outputs: { end: '${ .steps.end.output }' }";

#[test]
fn the_first_of_several_signals_ends_a_wait_by_its_name() {
    let mut world = World::new(ANY, json!({}));
    assert_eq!(world.scopes(), ["signal approve or reject"]);
    let Action::Call(call) = &world.commands[0].action else { panic!("one call for both") };
    assert_eq!(call.timeout, Some(Micros(86_400_000_000)), "the time among them is its timeout");
    assert_eq!(
        crate::workflow::interpreter::scope::value(&call.args),
        json!({"any": [{"name": "approve", "title": "Publish it?"}, {"name": "reject"}]})
    );
    world.answer_scope("signal approve or reject", ok(json!({"name": "reject", "body": {"by": "Ann"}})));
    assert_eq!(world.output(), json!({"end": {"first": "no", "value": {"by": "Ann"}}}));
}

#[test]
fn a_time_among_several_ends_a_wait_and_a_timeout_fails_it() {
    let late = || Reply::Now(Err(Arc::new(Problem::new(crate::process::problem::kind::TIMED_OUT, "late"))));
    let mut world = World::new(ANY, json!({}));
    world.answer_scope("signal approve or reject", late());
    assert_eq!(world.output(), json!({"end": {"first": "late", "value": null}}));

    let yaml = ANY.replace("  - { id: end", "      timeout: 1h\n  - { id: end");
    let mut world = World::new(&yaml, json!({}));
    let Action::Call(call) = &world.commands[0].action else { panic!("one call for both") };
    assert_eq!(call.timeout, Some(Micros(3_600_000_000)), "the timeout comes before the time among them");
    world.answer_scope("signal approve or reject", late());
    assert_eq!(world.data()["cause"]["kind"], "timed-out");
}

#[test]
fn the_first_of_several_times_ends_a_wait_without_a_call() {
    let yaml = "
steps:
  - { id: pause, wait: { any: { long: 2h, short: '${ \"1h\" }', past: { until: '2400-01-01T00:00:00Z' } } } }
outputs: { first: '${ .steps.pause.output.first }' }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.scopes(), [""; 0]);
    world.sleep_over();
    assert_eq!(world.output(), json!({"first": "short"}));
    // A timeout before all of them fails the step.
    let mut world =
        World::new(&yaml.replace("'2400-01-01T00:00:00Z' } }", "'2400-01-01T00:00:00Z' } }, timeout: 5m"), json!({}));
    world.sleep_over();
    assert_eq!((world.now, &world.data()["cause"]["kind"]), (1_000_000 + 300_000_000, &json!("timed-out")));
}

#[test]
fn all_of_several_waits_must_end_and_each_has_its_result() {
    let yaml = "
steps:
  - { id: both, wait: { all: { a: { signal: legal }, b: { signal: money }, pause: 1h }, timeout: 2h } }
outputs: { both: '${ .steps.both.output }' }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.scopes(), ["signal legal", "signal money"]);
    world.answer_scope("signal money", ok(json!(2)));
    world.sleep_over();
    assert!(world.end.is_none());
    world.answer_scope("signal legal", ok(json!("yes")));
    assert_eq!(world.output(), json!({"both": {"a": "yes", "b": 2, "pause": null}}));

    let mut world = World::new(yaml, json!({}));
    world.answer_scope("signal money", ok(json!(2)));
    let late = Problem::new(crate::process::problem::kind::TIMED_OUT, "late");
    world.answer_scope("signal legal", Reply::Now(Err(Arc::new(late))));
    world.sleep_over();
    let data = world.data();
    assert_eq!((&data["step"], &data["cause"]["kind"]), (&json!("both.a"), &json!("timed-out")));
}

#[test]
fn a_signal_twice_among_several_is_a_problem() {
    let yaml = "
steps: [{ id: a, wait: { any: { x: { signal: '${ \"go\" }' }, y: { signal: go } } } }]";
    let world = World::new(yaml, json!({}));
    assert_eq!(world.data()["cause"]["kind"], kind::BAD_SIGNAL);
}
