//! Bounds: of items, values, attempts in flight, and the retained state.

use super::*;
use crate::process::problem::kind as host;

#[test]
fn a_for_each_needs_a_list_of_bounded_length() {
    let world = World::new("steps: [{ id: a, set: 1, for-each: '${ {} }' }]", json!({}));
    let cause = world.problem().data.as_ref().unwrap().to_value()["cause"].clone();
    assert_eq!(
        (cause["kind"].as_str(), cause["detail"].as_str()),
        (Some(kind::NOT_A_LIST), Some("the expression gave an object"))
    );

    let yaml = "inputs: { list: array }\nsteps: [{ id: a, set: 1, for-each: '${ .inputs.list }' }]";
    let list = vec![0; ITEMS_MAX + 1];
    let cause = World::new(yaml, json!({"list": list})).problem().data.as_ref().unwrap().to_value()["cause"].clone();
    assert_eq!(cause["kind"], kind::TOO_MANY_ITEMS);
}

#[test]
fn inputs_beyond_the_payload_limit_are_a_problem_of_their_own() {
    let yaml = "inputs: { x: string }\nsteps: [{ id: a, uses: ./a.wasm, with: { x: '${ .inputs.x }' } }]";
    let cause =
        World::new(yaml, json!({"x": "x".repeat(1 << 20)})).problem().data.as_ref().unwrap().to_value()["cause"]
            .clone();
    assert_eq!(cause["kind"], host::TOO_LARGE);
}

#[test]
fn attempts_in_flight_are_bounded_in_bytes() {
    let yaml = "
inputs: { x: string }
steps: [{ id: a, uses: ./a.wasm, for-each: '${ [range(100)] }', max-parallel: 100, with: '${ .inputs.x }' }]";
    let world = World::new(yaml, json!({"x": "x".repeat(1_000_000)}));
    let bytes: usize = world.pending.iter().map(|ask| ask.input.as_str().unwrap().len()).sum();
    assert!(bytes > IN_FLIGHT_BYTES_MAX - 2_000_000 && bytes <= IN_FLIGHT_BYTES_MAX + 1_000_000, "{bytes}");
    let world = world.run(|_| ok(json!(1)), |_| 0);
    assert_eq!(world.status("a"), "succeeded");
    assert_eq!(world.asked.len(), 100);
}

#[test]
fn results_that_are_kept_are_bounded() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm, for-each: '${ [range(100)] }' }]";
    let large = "x".repeat(1_000_000);
    let world = run(yaml, json!({}), |_| ok(json!(large)));
    let cause = world.problem().data.as_ref().unwrap().to_value()["cause"].clone();
    assert_eq!(cause["kind"], kind::STATE_TOO_LARGE);
}

/// Steps whose outputs double from one to the next.
fn doubling(first: &str, next: &str) -> String {
    let steps = (1..40).map(|at| {
        let twice = next.replace("OUTPUT", &format!("${{ .steps.s{}.output }}", at - 1));
        format!("  - {{ id: s{at}, set: {twice} }}\n")
    });
    format!("steps:\n  - {{ id: s0, set: {first} }}\n{}", steps.collect::<String>())
}

/// The first failed step, and its problem.
fn failed_by(world: &World) -> (String, Value) {
    let mut problem = world.problem().data.as_ref().unwrap().to_value();
    (problem["step"].as_str().unwrap().to_owned(), problem["cause"].take())
}

#[test]
fn a_value_that_a_workflow_computes_is_bounded_before_it_is_built() {
    let text = doubling("'xxxxxxxxxxxxxxxx'", "'OUTPUTOUTPUT'");
    let list = doubling("[0, 1]", "['OUTPUT', 'OUTPUT']");
    for (yaml, place) in [(text, "/steps/20/set"), (list, "/steps/18/set")] {
        let (_, cause) = failed_by(&run(&yaml, json!({}), |_| ok(Value::Null)));
        assert_eq!(cause["kind"], host::TOO_LARGE, "{cause}");
        let reported = cause["data"]["pointer"].as_str().unwrap();
        assert!(reported.starts_with(place), "{reported} is not {place}");
    }
}

#[test]
fn items_and_interpolated_text_and_outputs_are_bounded_as_values() {
    let text = "steps: [{ id: a, uses: ./a.wasm }, { id: b, set: '${ .steps.a.output }${ .steps.a.output }' }]";
    let world = run(text, json!({}), |_| ok(json!("\u{1}".repeat(1_500_000))));
    let (step, cause) = failed_by(&world);
    assert_eq!((&*step, &cause["kind"]), ("b", &json!(host::TOO_LARGE)));

    let items = "steps:
  - { id: a, uses: ./a.wasm }
  - { id: b, set: 1, for-each: ['${ .steps.a.output }', '${ .steps.a.output }'] }";
    let (step, cause) = failed_by(&run(items, json!({}), |_| ok(json!(vec![0; 600_000]))));
    assert_eq!((&*step, &cause["kind"]), ("b", &json!(host::TOO_LARGE)));

    let outputs = "steps: [{ id: a, uses: ./a.wasm }]
outputs: { x: '${ .steps.a.output }', y: '${ .steps.a.output }' }";
    let world = run(outputs, json!({}), |_| ok(json!(vec![0; 600_000])));
    let (kind, place) = (&world.problem().kind, world.problem().data.as_ref().unwrap().to_value());
    assert_eq!((&**kind, &place["pointer"]), (host::TOO_LARGE, &json!("/outputs/y")));
}

#[test]
fn all_that_is_kept_is_bounded_whatever_gave_it() {
    let large = |_: &Ask| ok(json!("x".repeat(8_000_000)));
    let sets = "steps:
  - { id: a, uses: ./a.wasm }
  - { id: b, for-each: '${ [range(20)] }', set: '${ .steps.a.output }' }";
    let (step, cause) = failed_by(&run(sets, json!({}), large));
    assert_eq!((&*step, &cause["kind"]), ("b", &json!(kind::STATE_TOO_LARGE)));

    let three = "steps:
  - { id: a, uses: ./a.wasm }
  - { id: b, set: ['${ .steps.a.output }'] }
  - { id: c, set: ['${ .steps.b.output }'] }
  - { id: d, set: ['${ .steps.c.output }'] }";
    for last in ["set: ['${ .steps.d.output }']", "set: 1, for-each: ['${ .steps.d.output }']"] {
        let yaml = format!("{three}\n  - {{ id: e, {last} }}");
        let (step, cause) = failed_by(&run(&yaml, json!({}), |_| ok(json!(vec![0; 900_000]))));
        assert_eq!((&*step, &cause["kind"]), ("e", &json!(kind::STATE_TOO_LARGE)), "{last}");
    }
}

#[test]
fn inputs_of_items_that_wait_for_their_next_attempt_are_bounded() {
    let yaml = "
inputs: { x: string }
steps:
  - id: a
    uses: ./a.wasm
    for-each: '${ [range(100)] }'
    max-parallel: 100
    continue-on-error: true
    with: '${ .inputs.x }'
    retry: { max: 1 }";
    let mut world = World::new(yaml, json!({"x": "x".repeat(1_000_000)}));
    let fails_once = |world: &mut World| {
        let Reply::Now(answer) = fails("down", ProblemClass::Retryable) else { unreachable!() };
        let tag = world.pending[0].tag;
        world.answer(tag, answer);
    };
    while !world.pending.is_empty() {
        fails_once(&mut world);
    }
    let waiting = world.asked.len()
        - world
            .reported
            .iter()
            .filter_map(|reported| match reported {
                Progress::Node(node) => Some(node.failed),
                Progress::Retry(_) | Progress::Item(_) => None,
            })
            .max()
            .unwrap_or(0);
    assert_eq!(world.asked.len(), 100);
    assert!((60..=67).contains(&waiting), "{waiting} wait");
    // What waited is retried, and frees its room when it has ended.
    let world = world.run(|_| ok(json!(1)), |_| 0);
    assert_eq!(world.asked.len(), 100 + waiting);
}

#[test]
fn data_of_failures_is_retained_within_the_bound() {
    let steps = (0..200).map(|at| format!("  - {{ id: s{at}, uses: ./a.wasm, continue-on-error: true }}\n"));
    let data = json!(vec![json!([0]); 12_000]);
    let world = run(&format!("steps:\n{}", steps.collect::<String>()), json!({}), |_| {
        Reply::Now(Err(Arc::new(Problem::new("broken", "It broke").with_data(&data))))
    });
    let says = |reported: &&Progress| matches!(reported, Progress::Node(node) if node.error["data"].is_array());
    let with_data = world.reported.iter().filter(says).count();
    assert!((150..180).contains(&with_data), "{with_data}");
}

#[test]
fn large_values_take_several_steps() {
    let steps = (1..8).map(|at| format!("  - {{ id: s{at}, set: ['${{ .steps.s0.output }}'] }}\n"));
    let yaml = format!("steps:\n  - {{ id: s0, uses: ./a.wasm }}\n{}", steps.collect::<String>());
    assert_eq!(run(&yaml, json!({}), |_| ok(json!("x".repeat(4_000_000)))).steps, 9);
}

#[test]
fn data_of_a_guests_problem_is_copied_within_bounds() {
    let yaml = "steps: [{ id: a, uses: ./a.wasm }]";
    let deep = format!("{}1{}", "[".repeat(126), "]".repeat(126));
    let wide = format!("[{}1]", "1,".repeat(50_000));
    for (data, carried) in [(deep, "left out: it nests too deep"), (wide, "100003 bytes were left out")] {
        let world = run(yaml, json!({}), |_| {
            let mut problem = Problem::new("x", "X");
            problem.data = Some(crate::process::Json::parse(data.clone()).unwrap());
            Reply::Now(Err(Arc::new(problem)))
        });
        assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["data"], carried);
    }
}

#[test]
fn a_value_too_deep_to_be_handed_on_is_a_problem() {
    let around = 128 - crate::process::GIVEN_DEPTH_MAX;
    let yaml = format!(
        "
steps:
  - {{ id: a, uses: ./a.wasm }}
  - {{ id: b, uses: ./b.wasm, with: {}'${{ .steps.a.output }}'{} }}",
        "[ ".repeat(around),
        " ]".repeat(around)
    );
    let deep = crate::process::GIVEN_DEPTH_MAX;
    let deep = format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
    let payload = Payload::Json(crate::process::Json::parse(deep).unwrap());
    let world = run(&yaml, json!({}), |_| Reply::Now(Ok(payload.clone())));
    let cause = world.problem().data.as_ref().unwrap().to_value()["cause"].clone();
    assert_eq!(cause["kind"], host::JSON_TOO_DEEP, "{cause}");
}
