//! Each rule of the format, one by one.

use super::*;

#[test]
fn the_smallest_workflow_runs() {
    let world = run("steps: [{ id: hi, uses: ./hello.wasm, with: { name: Ann } }]", json!({}), |ask| {
        assert_eq!((ask.what.as_str(), ask.entry.as_str()), ("./hello.wasm", "run"));
        ok(json!(format!("Hello, {}!", ask.input["name"].as_str().unwrap())))
    });
    assert_eq!(world.output(), json!({}));
    assert_eq!(world.status("hi"), "succeeded");
}

#[test]
fn a_reference_is_a_dependency() {
    let yaml = "
steps:
  - { id: b, uses: ./b.wasm, with: { n: '${ .steps.a.output.n + 1 }' } }
  - { id: a, uses: ./a.wasm, entry: other }
outputs: { n: '${ .steps.b.output }', text: 'n is ${ .steps.b.output }, $${kept}' }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!(world.scopes(), ["a/0/0"]);
    assert_eq!(world.pending[0].entry, "other");
    assert_eq!(world.pending[0].input, Value::Null);
    world.answer_scope("a/0/0", ok(json!({"n": 1})));
    assert_eq!(world.pending[0].input, json!({"n": 2}));
    world.answer_scope("b/0/0", ok(json!(2)));
    assert_eq!(world.output(), json!({"n": 2, "text": "n is 2, ${kept}"}));
}

#[test]
fn inputs_are_completed_checked_and_seen() {
    let yaml = "
inputs: { who: { type: string }, times: { type: integer, default: 3, maximum: 5 }, more: { required: false } }
steps: [{ id: a, set: '${ [.inputs.who, .inputs.times, .inputs.more, .run.id, .run.name] }' }]
outputs: { a: '${ .steps.a.output }' }";
    let world = World::new(yaml, json!({"who": "Ann"}));
    assert_eq!(world.output(), json!({"a": ["Ann", 3, null, "r1", "test"]}));

    let world = World::new(yaml, json!({"times": 6, "wo": 1}));
    let problem = world.problem();
    assert_eq!(problem.kind, kind::BAD_INPUT);
    assert_eq!(
        problem.detail.as_deref(),
        Some(
            "/who: is required (a string); /times: must be at most 5; it is 6; /wo: is not an input; did you mean `who`?"
        )
    );
}

#[test]
fn items_run_up_to_max_parallel_and_results_keep_their_order() {
    let yaml = "
inputs: { list: { type: array } }
steps:
  - { id: each, uses: ./x.wasm, for-each: '${ .inputs.list }', max-parallel: 3, with: { item: '${ .item }', at: '${ .index }' } }
outputs: { all: '${ .steps.each.output }' }";
    let list: Vec<i32> = (0..10).collect();
    // The last one asked for is answered first.
    let world = World::new(yaml, json!({"list": list}))
        .run(|ask| ok(json!([ask.input["item"].as_i64().unwrap() * 2, ask.input["at"]])), |open| open - 1);
    assert_eq!(world.most, 3);
    let expected: Vec<_> = (0..10).map(|n| json!([n * 2, n])).collect();
    assert_eq!(world.output(), json!({"all": expected}));
}

#[test]
fn max_parallel_is_64_where_it_is_absent() {
    let yaml = "steps: [{ id: each, uses: ./x.wasm, for-each: '${ [range(100)] }' }]";
    let world = World::new(yaml, json!({}));
    assert_eq!(world.pending.len(), 64);
    assert_eq!(world.pending[63].scope, "each/63/0");
}

#[test]
fn no_items_give_an_empty_list() {
    let yaml = "
steps: [{ id: a, uses: ./x.wasm, for-each: [] }, { id: b, set: '${ .steps.a }' }]
outputs: { b: '${ .steps.b.output }' }";
    let world = World::new(yaml, json!({}));
    assert_eq!(world.output(), json!({"b": {"output": [], "status": "succeeded", "error": null, "attempts": 0}}));
}

#[test]
fn set_works_for_each_item_too() {
    let yaml = "
steps: [{ id: a, for-each: [1, 2, 3], set: { n: '${ .item * 10 }', at: '${ .index }' } }]
outputs: { a: '${ .steps.a.output }' }";
    assert_eq!(
        World::new(yaml, json!({})).output(),
        json!({"a": [{"n": 10, "at": 0}, {"n": 20, "at": 1}, {"n": 30, "at": 2}]})
    );
}

#[test]
fn a_false_condition_skips_and_a_skipped_dependency_counts_as_satisfied() {
    let yaml = "
steps:
  - { id: a, set: 1, if: '${ false }' }
  - { id: b, set: '${ [.steps.a.status, .steps.a.output] }' }
  - { id: c, set: 1, if: '${ .steps.b.output[5] }' }
outputs: { b: '${ .steps.b.output }', c: '${ .steps.c.status }' }";
    let world = World::new(yaml, json!({}));
    assert_eq!(world.output(), json!({"b": ["skipped", null], "c": "skipped"}));
    assert_eq!(world.status("a"), "skipped");
}

#[test]
fn waits_take_their_time_and_run_beside_each_other() {
    let yaml = "
steps:
  - { id: long, wait: 30s }
  - { id: each, wait: '${ .item }', for-each: [10s, PT20S, 5s], max-parallel: 2 }
  - { id: end, needs: [long, each], set: done }
outputs: { all: '${ .steps.each.output }' }";
    let world = run(yaml, json!({}), |_| unreachable!());
    assert_eq!(world.output(), json!({"all": [null, null, null]}));
    // The clock begins at 1 s and two items run at a time: 10 s, then 5 s beside the 20 s.
    assert_eq!(world.now, 31_000_000);
}

#[test]
fn a_wait_needs_a_duration() {
    let world = run("steps: [{ id: w, wait: '${ .run.id }' }]", json!({}), |_| unreachable!());
    assert!(world.problem().detail.as_ref().unwrap().contains("`r1` is not a duration"), "{}", world.problem());
    let world = run("steps: [{ id: w, wait: '${ 5 }' }]", json!({}), |_| unreachable!());
    assert!(world.problem().detail.as_ref().unwrap().contains("bad-duration"), "{}", world.problem());
}

#[test]
fn a_call_has_the_grants_of_its_own_step_only() {
    let yaml = "
steps:
  - { id: a, call: http, with: { url: 'https://a.example' }, allow: { http: [ 'GET https://a.example' ] } }
  - { id: b, call: kv, with: {}, allow: { kv: [] } }
  - { id: c, uses: ./c.wasm, limits: { memory: 1MiB, fuel-per-step: 2M } }";
    let world = World::new(yaml, json!({}));
    let granted: Vec<_> = world.pending.iter().map(|ask| serde_json::to_value(&ask.grants).unwrap()).collect();
    assert_eq!(granted, [json!({"http": ["GET https://a.example"]}), json!({"kv": []}), json!({})]);
    assert_eq!(world.pending[2].limits.memory_bytes, 1 << 20);
    assert_eq!(world.pending[2].limits.fuel_per_step, 2_000_000);
    assert_eq!(world.pending[0].limits.memory_bytes, Limits::default().memory_bytes);
}

#[test]
fn limits_of_defaults_component_and_step_lie_over_each_other() {
    let yaml = "
components: { c: { source: ./c.wasm, limits: { memory: 2MiB, mailbox: 7 } } }
defaults: { limits: { memory: 1MiB, links: 3, mailbox: 5 } }
steps: [{ id: c, uses: c, limits: { mailbox: 9 } }]";
    let world = World::new(yaml, json!({}));
    let limits = &world.pending[0].limits;
    assert_eq!((limits.memory_bytes, limits.links, limits.mailbox), (2 << 20, 3, 9));
}

#[test]
fn bytes_are_base64_text_in_expressions() {
    let yaml = "
steps: [{ id: a, uses: ./a.wasm }]
outputs: { a: '${ .steps.a.output | @base64d }' }";
    let world = run(yaml, json!({}), |_| Reply::Now(Ok(Payload::Bytes(bytes::Bytes::from_static(b"foobar")))));
    assert_eq!(world.output(), json!({"a": "foobar"}));
}

#[test]
fn numbers_keep_their_digits_from_step_to_step() {
    let yaml = "
steps: [{ id: a, uses: ./a.wasm }, { id: b, uses: ./b.wasm, with: '${ .steps.a.output }' }]
outputs: { b: '${ .steps.b.output }' }";
    let exact = "123456789012345678901234567890.5000";
    let mut world = World::new(yaml, json!({}));
    let payload = || Payload::Json(crate::process::Json::parse(exact).unwrap());
    world.answer(world.pending[0].tag, Ok(payload()));
    assert_eq!(world.pending[0].input.to_string(), exact);
    world.answer(world.pending[0].tag, Ok(payload()));
    assert_eq!(world.output()["b"].to_string(), exact);
}

#[test]
fn its_log_lines_can_be_read_back() {
    let yaml = "steps: [{ id: each, uses: ./x.wasm, for-each: [1, 2] }]";
    let world = run(yaml, json!({}), |_| ok(json!(null)));
    let reported: Vec<_> = world
        .reported
        .iter()
        .map(|progress| match progress {
            Progress::Node(node) => format!("{} {}/{} {}", node.status, node.done, node.total, node.in_flight),
            Progress::Retry(_) | Progress::Item(_) => unreachable!(),
        })
        .collect();
    assert_eq!(reported, ["running 0/2 2", "running 1/2 1", "succeeded 2/2 0"]);
}

#[test]
fn events_without_an_addressee_change_nothing() {
    let mut world = World::new("steps: [{ id: a, uses: ./a.wasm, timeout: 5s }]", json!({}));
    let before = world.commands.len();
    let tag = world.pending[0].tag;
    let message = crate::process::Message {
        sender: crate::process::Sender::Process(Pid(9)),
        topic: "wfhost.node".into(),
        body: Payload::NULL,
    };
    let exit = crate::process::Exit { pid: Pid(9), by: tag, ending: crate::process::Ending::Completed };
    world.step(vec![
        Event::Message(Box::new(message)),
        Event::Exited(Box::new(exit)),
        Event::Completed { tag: Tag(999), answer: Ok(Payload::NULL) },
    ]);
    assert_eq!(world.commands.len(), before);
    assert_eq!(world.scopes(), ["a/0/0"]);
}

#[test]
fn one_step_asks_for_a_bounded_number_of_bytes() {
    let yaml = "
inputs: { x: string }
steps: [{ id: a, uses: ./a.wasm, for-each: '${ [range(40)] }', with: '${ .inputs.x }', limits: { payload: 8MiB } }]";
    let mut plan = plan(yaml);
    assert_eq!(plan.nodes[0].limits.payload_bytes, 8 << 20);
    let wide = Limits { payload_bytes: 16 << 20, ..Limits::default() };
    Arc::make_mut(&mut plan.nodes[0]).max_parallel = 5;
    let world = World::with_limits(plan, json!({"x": "x".repeat(7 << 20)}), wide);
    assert_eq!(world.pending.len(), 5);
    assert!(world.step_bytes_most <= STEP_BYTES_MAX, "{}", world.step_bytes_most);
}

#[test]
fn one_step_evaluates_as_much_as_its_share_is() {
    let steps = |expression: &str, input: Value| {
        let yaml = format!(
            "{{ inputs: {{ x: {{}} }}, steps: [{{ id: a, for-each: '${{ [range(1000)] }}', set: '{expression}' }}] }}"
        );
        let world = World::new(&yaml, json!({"x": input}));
        assert!(matches!(world.end, Some(StepStatus::Complete(_))), "{:?}", world.end);
        world.steps
    };
    let large = json!("x".repeat(1 << 20));
    assert_eq!(steps("${ .item }", large.clone()), 4, "a plain path counts once");
    assert_eq!(steps("${ .item + 1 }", large.clone()), 1000_usize.div_ceil(STEP_EVALUATIONS_MAX / 4));
    // A step always evaluates one expression, whatever its budget, so that it makes progress.
    let yaml =
        "{ inputs: { x: string }, steps: [{ id: a, for-each: '${ [range(10)] }', set: '${ .inputs.x | length }' }] }";
    assert!((10..=12).contains(&World::new(yaml, json!({"x": large})).steps));
}

#[test]
fn an_expression_in_a_block_keeps_the_type_of_its_result() {
    let yaml = "
steps: [{ id: a, set: 1 }]
outputs:
  literal: |
    ${ [.steps.a.output,
        2] }
  folded: >
    ${ [.steps.a.output] }

  text: |
    ${ .steps.a.output } and ${ 2 }
  more: |
    ${ .steps.a.output }
    end
  quoted: \"${ .steps.a.output }\\n\"";
    let world = World::new(yaml, json!({}));
    assert_eq!(
        world.output(),
        json!({"literal": [1, 2], "folded": [1], "text": "1 and 2\n", "more": "1\nend\n", "quoted": "1\n"})
    );
}
