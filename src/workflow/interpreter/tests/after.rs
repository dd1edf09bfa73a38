//! What runs after the steps: compensations, and the steps below `on`.

use super::*;

fn cancel(world: &mut World, grace: u64) {
    world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(grace) }]);
}

fn fails(kind: &'static str) -> Reply {
    Reply::Now(Err(Arc::new(Problem::new(kind, "It does not work"))))
}

const TRIP: &str = "
inputs: { who: { type: string, default: Ann } }
steps:
  - { id: flight, call: shop, with: { book: flight }, compensate: { call: shop, with: { cancel: '${ .output.n }', why: '${ .run.problem.data.cause.kind }' } } }
  - id: rooms
    needs: flight
    for-each: [ 1, 2, 3 ]
    max-parallel: 1
    call: shop
    with: { book: '${ .item }' }
    compensate: { call: shop, with: { cancel: '${ .output.n }', room: '${ .item }', of: '${ .inputs.who }', flight: '${ .steps.flight.output.n }' } }
  - { id: car, needs: rooms, call: shop, with: { book: car } }
on:
  failure: [{ id: tell, call: shop, with: { undone: '${ .run.problem.data.undone }', car: '${ .steps.car.error.kind }' } }]
  cancel: [{ id: tell, call: shop, with: cancelled }]
  always: [{ id: close, call: shop, with: '${ .run.problem.kind }' }]";

fn book(world: &mut World, scopes: &[&str]) {
    for (n, scope) in scopes.iter().enumerate() {
        world.answer_scope(scope, ok(json!({"n": n})));
    }
}

#[test]
fn what_succeeded_is_undone_in_reverse_and_then_it_is_told() {
    let mut world = World::new(TRIP, json!({}));
    book(&mut world, &["flight/0/0", "rooms/0/0", "rooms/1/0", "rooms/2/0"]);
    world.answer_scope("car/0/0", fails("sold-out"));
    for (item, number) in [(2, 3), (1, 2), (0, 1)] {
        let scope = format!("rooms/{item}/0/compensate/0/0");
        assert_eq!(world.scopes(), [&*scope], "one after the other");
        let asked = &world.pending[0].input;
        assert_eq!(*asked, json!({"cancel": number, "room": item + 1, "of": "Ann", "flight": 0}));
        assert_eq!(world.status(&format!("rooms[{item}].compensate")), "running");
        world.answer_scope(&scope, ok(json!(null)));
    }
    assert_eq!(world.pending[0].input, json!({"cancel": 0, "why": "sold-out"}));
    world.answer_scope("flight/0/0/compensate/0/0", ok(json!(null)));
    let undone = ["rooms[2]", "rooms[1]", "rooms[0]", "flight"];
    assert_eq!(world.pending[0].input, json!({"undone": undone, "car": "sold-out"}));
    world.answer_scope("on.failure/0/0/tell/0/0", ok(json!(null)));
    assert_eq!(world.pending[0].input, json!("step-failed"));
    world.answer_scope("on.always/0/0/close/0/0", ok(json!(null)));
    let data = world.data();
    assert_eq!((&data["step"], &data["undone"], &data["not-undone"]), (&json!("car"), &json!(undone), &json!([])));
    assert_eq!(world.problem().kind, kind::STEP_FAILED);
}

#[test]
fn a_run_that_succeeds_undoes_nothing_and_runs_what_always_runs() {
    let world = run(TRIP, json!({}), |ask| ok(json!({"n": ask.scope.len()})));
    assert_eq!(world.output(), json!({}));
    let last: Vec<&str> = world.asked.iter().map(|ask| &*ask.scope).collect();
    assert_eq!(last[last.len() - 2..], ["car/0/0", "on.always/0/0/close/0/0"]);
    assert_eq!(world.asked.last().unwrap().input, json!(null), "there is no problem");
}

#[test]
fn what_cannot_be_undone_is_listed_and_does_not_hold_up_the_rest() {
    let mut tries = 0;
    let world = run(TRIP, json!({}), |ask| match &*ask.scope {
        "car/0/0" => fails("sold-out"),
        "rooms/1/0/compensate/0/0" => fails("too-late"),
        scope if scope.starts_with("rooms/0/0/compensate") => {
            tries += 1;
            let problem = Problem::new("busy", "Busy").with_class(crate::process::ProblemClass::Retryable);
            Reply::Now(Err(Arc::new(problem)))
        }
        "on.failure/0/0/tell/0/0" => fails("no-mail"),
        _ => ok(json!({"n": 1})),
    });
    assert_eq!(tries, 6, "it is retried by itself");
    let data = world.data();
    assert_eq!(data["undone"], json!(["rooms[2]", "flight"]));
    let left: Vec<_> = data["not-undone"].as_array().unwrap().iter().map(|one| (&one["step"], &one["kind"])).collect();
    assert_eq!(left, [(&json!("rooms[1]"), &json!("too-late")), (&json!("rooms[0]"), &json!("busy"))]);
    assert_eq!(data["on"][0]["data"]["step"], "on.failure.tell");
    assert_eq!(data["cause"]["kind"], "sold-out", "the first problem is the run's");
    assert!(world.problem().detail.as_ref().unwrap().ends_with("not undone: rooms[1], rooms[0]"));
}

#[test]
fn a_failure_in_always_is_the_runs_if_all_steps_succeeded() {
    let world =
        run(TRIP, json!({}), |ask| if ask.scope.starts_with("on.") { fails("no-mail") } else { ok(json!({"n": 1})) });
    assert_eq!((&world.data()["step"], &world.data()["cause"]["kind"]), (&json!("on.always.close"), &json!("no-mail")));
}

#[test]
fn a_cancelled_run_undoes_within_its_grace() {
    let mut world = World::new(TRIP, json!({}));
    book(&mut world, &["flight/0/0", "rooms/0/0"]);
    cancel(&mut world, 60_000_000);
    world.settle_stopped();
    assert_eq!(world.scopes(), ["rooms/0/0/compensate/0/0"], "what was stopped is not undone: it had not succeeded");
    world.answer_scope("rooms/0/0/compensate/0/0", ok(json!(null)));
    world.answer_scope("flight/0/0/compensate/0/0", ok(json!(null)));
    world.answer_scope("on.cancel/0/0/tell/0/0", ok(json!(null)));
    assert_eq!(world.pending[0].input, json!("cancelled"));
    world.answer_scope("on.always/0/0/close/0/0", ok(json!(null)));
    assert_eq!((&*world.problem().kind, &world.data()["undone"]), ("cancelled", &json!(["rooms[0]", "flight"])));
}

#[test]
fn what_may_have_happened_is_listed_though_it_failed() {
    let lost = |class| Reply::Now(Err(Arc::new(Problem::new("lost", "Nobody knows").with_class(class))));
    let mut world = World::new(TRIP, json!({}));
    book(&mut world, &["flight/0/0", "rooms/0/0"]);
    cancel(&mut world, 60_000_000);
    world.answer_scope("rooms/1/0", lost(ProblemClass::Uncertain));
    world.answer_scope("rooms/0/0/compensate/0/0", ok(json!(null)));
    world.answer_scope("flight/0/0/compensate/0/0", ok(json!(null)));
    world.answer_scope("on.cancel/0/0/tell/0/0", ok(json!(null)));
    world.answer_scope("on.always/0/0/close/0/0", ok(json!(null)));
    let data = world.data();
    assert_eq!(data["undone"], json!(["rooms[0]", "flight"]));
    let expected = json!([{
        "step": "rooms[1]", "kind": "lost", "title": "Nobody knows", "class": "uncertain", "detail": null,
        "may-be-undone": false, "may-be-done": true,
    }]);
    assert_eq!(data["not-undone"], expected);
    assert_eq!(world.problem().detail.as_deref(), Some("enough; perhaps done: rooms[1]"));
}

#[test]
fn what_may_have_happened_is_told_of_a_run_that_has_done_nothing_else() {
    let plan = "steps: [ { id: a, call: shop, with: 1, compensate: { call: shop, with: 2 } } ]";
    let listed = |problem: Problem| {
        let world = run(plan, json!({}), |_| Reply::Now(Err(Arc::new(problem.clone()))));
        assert_eq!(world.asked.len(), 1, "there is nothing to undo it by");
        world.data()["not-undone"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(listed(Problem::new("lost", "It is lost").with_class(ProblemClass::Uncertain)), 1);
    assert_eq!(listed(Problem::new("lost", "It is lost").with_unknown_outcome(true)), 1);
    assert_eq!(listed(Problem::new("busy", "It is busy").with_class(ProblemClass::Retryable)), 0);
    assert_eq!(listed(Problem::new("no", "It may not")), 0);
    // A later attempt that succeeds is undone as any other.
    let again = "steps:
  - { id: a, call: shop, with: 1, retry: { max: 1, backoff: 1s }, compensate: { call: shop, with: 2 } }
  - { id: b, needs: a, call: shop, with: 3 }";
    let mut asked = 0;
    let world = run(again, json!({}), |ask| {
        asked += 1;
        match (asked, &*ask.scope) {
            (1, _) => Reply::Now(Err(Arc::new(Problem::new("lost", "It is lost").with_unknown_outcome(true)))),
            (_, "b/0/0") => fails("sold-out"),
            _ => ok(json!(null)),
        }
    });
    assert_eq!((&world.data()["undone"], &world.data()["not-undone"]), (&json!(["a"]), &json!([])));
}

#[test]
fn when_the_grace_is_over_the_run_ends_by_itself_and_says_what_is_left() {
    let mut world = World::new(TRIP, json!({}));
    book(&mut world, &["flight/0/0", "rooms/0/0", "rooms/1/0"]);
    cancel(&mut world, 20_000_000);
    world.settle_stopped();
    world.answer_scope("rooms/1/0/compensate/0/0", ok(json!(null)));
    while world.end.is_none() {
        world.sleep_over();
    }
    assert_eq!(world.now, 1_000_000 + 19_000_000, "a second before the host would end it");
    let data = world.data();
    assert_eq!(data["undone"], json!(["rooms[1]"]));
    let left: Vec<_> = data["not-undone"].as_array().unwrap().iter().map(|one| (&one["step"], &one["kind"])).collect();
    assert_eq!(left, [(&json!("rooms[0]"), &json!(kind::NO_TIME)), (&json!("flight"), &json!(kind::NO_TIME))]);
}

const GROUP: &str = "
steps:
  - id: order
    for-each: [ a, b ]
    max-parallel: 1
    retry: { max: 1, backoff: 1s }
    steps:
      - { id: pay, call: shop, with: '${ .item }', compensate: { call: shop, with: [ refund, '${ .output }', '${ .item }' ] } }
      - { id: ship, needs: pay, call: shop, with: ship }
  - { id: end, needs: order, call: shop, with: end }";

#[test]
fn steps_within_items_are_undone_once_though_the_item_was_retried() {
    let mut ships = 0;
    let world = run(GROUP, json!({}), |ask| match &*ask.scope {
        "order/0/0/ship/0/0" => {
            ships += 1;
            if ships > 1 { ok(json!(1)) } else { Reply::Now(Err(Arc::new(retryable()))) }
        }
        "end/0/0" => fails("broken"),
        scope if scope.contains("pay") => ok(json!(scope.len())),
        _ => ok(json!(0)),
    });
    let refunds: Vec<_> = world.asked.iter().filter(|ask| ask.scope.contains("compensate")).collect();
    let scopes: Vec<&str> = refunds.iter().map(|ask| &*ask.scope).collect();
    assert_eq!(scopes, ["order/1/0/pay/0/0/compensate/0/0", "order/0/0/pay/0/0/compensate/0/0"]);
    assert_eq!(refunds[0].input[2], "b", "it sees the item that it was within");
    assert_eq!(world.data()["undone"], json!(["order[1].pay", "order[0].pay"]));
}

#[test]
fn a_success_in_an_earlier_attempt_of_the_step_around_it_is_undone() {
    let mut pays = 0;
    let world = run(GROUP, json!({}), |ask| match &*ask.scope {
        "order/0/0/pay/0/0" => {
            pays += 1;
            if pays == 1 { ok(json!("paid")) } else { fails("closed") }
        }
        "order/0/0/ship/0/0" => Reply::Now(Err(Arc::new(retryable()))),
        _ => ok(json!(0)),
    });
    let data = world.data();
    assert_eq!((pays, &data["undone"], &data["not-undone"]), (2, &json!(["order[0].pay"]), &json!([])));
    assert_eq!(world.asked.last().unwrap().input, json!(["refund", "paid", "a"]));
}

fn retryable() -> Problem {
    Problem::new("busy", "Busy").with_class(crate::process::ProblemClass::Retryable)
}

#[test]
fn a_step_that_undoes_itself_stands_for_those_within_it() {
    let yaml =
        GROUP.replace("    steps:\n", "    compensate: { call: shop, with: [ whole, '${ .output }' ] }\n    steps:\n");
    let world = run(&yaml, json!({}), |ask| if ask.scope == "end/0/0" { fails("broken") } else { ok(json!(1)) });
    let undone = world.asked.iter().filter(|ask| ask.scope.contains("compensate")).map(|ask| &*ask.scope);
    assert_eq!(undone.collect::<Vec<_>>(), ["order/1/0/compensate/0/0", "order/0/0/compensate/0/0"]);
}

#[test]
fn each_turn_of_a_repeat_is_undone() {
    let yaml = "
steps:
  - { id: add, repeat: { max: 3 }, call: shop, with: '${ .turn }', compensate: { call: shop, with: [ '${ .output }', '${ .turn }' ] } }
  - { id: end, needs: add, call: shop, with: end }";
    let world = run(yaml, json!({}), |ask| match &*ask.scope {
        "end/0/0" => fails("broken"),
        _ => ok(json!(format!("done {}", ask.input))),
    });
    let undone = world.asked.iter().filter(|ask| ask.scope.contains("compensate"));
    let undone: Vec<_> = undone.map(|ask| (&*ask.scope, &ask.input)).collect();
    assert_eq!(
        undone,
        [
            ("add/0.2/0/compensate/0/0", &json!(["done 2", 2])),
            ("add/0.1/0/compensate/0/0", &json!(["done 1", 1])),
            ("add/0/0/compensate/0/0", &json!(["done 0", 0])),
        ]
    );
}

#[test]
fn the_last_turn_of_an_item_that_does_not_succeed_is_undone_as_well() {
    let yaml = "
steps:
  - { id: add, repeat: { until: '${ .last == 9 }', max: 2 }, call: shop, with: '${ .turn }', compensate: { call: shop, with: '${ .turn }' } }";
    let world = run(yaml, json!({}), |_| ok(json!(1)));
    assert_eq!(
        (&world.data()["cause"]["kind"], &world.data()["undone"]),
        (&json!(kind::TOO_MANY_TURNS), &json!(["add", "add"]))
    );
    // One that ends when the run is cancelled already.
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("add/0/0", ok(json!(1)));
    cancel(&mut world, 60_000_000);
    world.answer_scope("add/0.1/0", ok(json!(2)));
    world.answer_scope("add/0.1/0/compensate/0/0", ok(json!(null)));
    world.answer_scope("add/0/0/compensate/0/0", ok(json!(null)));
    assert_eq!(world.data()["undone"], json!(["add", "add"]));
}

#[test]
fn a_cancel_after_the_steps_bounds_what_follows_and_changes_nothing_else() {
    let begin = || {
        let mut world = World::new(TRIP, json!({}));
        book(&mut world, &["flight/0/0", "rooms/0/0", "rooms/1/0", "rooms/2/0"]);
        world.answer_scope("car/0/0", fails("sold-out"));
        cancel(&mut world, 20_000_000);
        assert_eq!(world.scopes(), ["rooms/2/0/compensate/0/0"]);
        assert_eq!(world.stopped, [], "it goes on");
        world
    };
    let mut world = begin();
    for scope in ["rooms/2/0", "rooms/1/0", "rooms/0/0", "flight/0/0"] {
        world.answer_scope(&format!("{scope}/compensate/0/0"), ok(json!(null)));
    }
    world.answer_scope("on.failure/0/0/tell/0/0", ok(json!(null)));
    world.answer_scope("on.always/0/0/close/0/0", ok(json!(null)));
    assert_eq!(world.problem().kind, kind::STEP_FAILED);
    let mut world = begin();
    while world.end.is_none() {
        world.sleep_over();
    }
    assert_eq!((&*world.problem().kind, world.now), (kind::STEP_FAILED, 1_000_000 + 19_000_000));
    let data = world.data();
    let left: Vec<_> = data["not-undone"].as_array().unwrap().iter().map(|one| (&one["step"], &one["kind"])).collect();
    assert_eq!((left.len(), left[0]), (4, (&json!("rooms[2]"), &json!(kind::NO_TIME))));
}

#[test]
fn a_bounded_number_of_what_was_undone_is_named() {
    let yaml = "
steps:
  - { id: many, for-each: '${ [range(103)] }', set: 1, compensate: { call: shop, with: '${ .item }' } }
  - { id: end, needs: many, call: shop, with: end }";
    let yaml = yaml.replace("set: 1", "call: shop");
    let world = run(&yaml, json!({}), |ask| match &*ask.scope {
        "end/0/0" | "many/0/0/compensate/0/0" => fails("broken"),
        _ => ok(json!(1)),
    });
    let data = world.data();
    assert_eq!(data["undone"].as_array().map(Vec::len), Some(100));
    assert_eq!((&data["not-undone"][0]["step"], &data["undone-not-listed"]), (&json!("many[0]"), &json!(2)));
}
