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
