//! The progress of steps that wait.

use super::super::progress::{Cause, ItemFailure, NodeProgress, Wait};
use super::*;

/// The last line of a step.
fn last(world: &World, node: &str) -> NodeProgress {
    let of = |progress: &Progress| match progress {
        Progress::Node(reported) if reported.node == node => Some(reported.clone()),
        _ => None,
    };
    world.reported.iter().rev().find_map(of).expect("every node has progress")
}

fn failures(world: &World) -> Vec<&ItemFailure> {
    let of = |progress: &'_ Progress| matches!(progress, Progress::Item(_));
    let all = world.reported.iter().filter(|progress| of(progress));
    all.filter_map(|progress| if let Progress::Item(failure) = progress { Some(failure) } else { None }).collect()
}

#[test]
fn a_step_reports_its_signal_and_the_end_of_its_wait() {
    let yaml = "
steps:
  - { id: each, for-each: ['a', 'b'], wait: { signal: 'go-${ .item }' } }
  - { id: one, wait: { signal: go, timeout: 24h } }";
    let mut world = World::new(yaml, json!({}));
    let since = Timestamp(world.now);
    let signal = |name: &str| Cause::Signal { name: name.to_owned() };
    let one = last(&world, "one");
    let until = Some(Timestamp(since.0 + 86_400_000_000));
    assert_eq!(one.waits, [Wait { cause: signal("go"), item: None, since, until }]);
    assert!(one.only_waits() && one.in_flight == 0);
    let each = last(&world, "each");
    let waits: Vec<_> = each.waits.iter().map(|wait| (wait.cause.clone(), wait.item, wait.until)).collect();
    assert_eq!(waits, [(signal("go-a"), Some(0), None), (signal("go-b"), Some(1), None)]);
    world.answer_scope("signal go-a", ok(json!(1)));
    assert_eq!((last(&world, "each").waiting, last(&world, "each").waits[0].item), (1, Some(1)));
    world.answer_scope("signal go", ok(json!(1)));
    assert!(last(&world, "one").waits.is_empty());
}

#[test]
fn a_step_reports_the_end_of_its_wait_and_its_deadline() {
    let yaml = "
steps:
  - { id: time, wait: 1h }
  - { id: guest, uses: ./a.wasm, timeout: 5s }
  - { id: call, call: http, timeout: 7s }
  - { id: free, call: http }";
    let world = World::new(yaml, json!({}));
    let since = Timestamp(world.now);
    let time = last(&world, "time");
    assert_eq!(
        time.waits,
        [Wait { cause: Cause::Time, item: None, since, until: Some(Timestamp(since.0 + 3_600_000_000)) }]
    );
    let deadline = |node: &str| last(&world, node).deadline.map(|deadline| deadline.0 - since.0);
    assert_eq!([deadline("guest"), deadline("call"), deadline("free")], [Some(5_000_000), Some(7_000_000), None]);
    assert_eq!(["guest", "call", "free"].map(|node| last(&world, node).deadline_pauses), [false, true, false]);
}

#[test]
fn a_step_reports_its_next_attempt_and_its_queued_items() {
    let yaml = "
steps:
  - { id: a, for-each: [1, 2, 3], max-parallel: 1, call: http, retry: { max: 3, backoff: 3s..10s } }";
    let mut world = World::new(yaml, json!({}));
    assert_eq!((last(&world, "a").queued, last(&world, "a").in_flight), (2, 1));
    world.answer_scope("a/0/0", fails("busy", ProblemClass::Retryable));
    let waits = last(&world, "a");
    let [Wait { cause: Cause::Attempt { attempt, attempts_max, kind, title }, item, .. }] = &waits.waits[..] else {
        panic!("{waits:?}")
    };
    assert_eq!((attempt, attempts_max, kind.as_str(), title.as_str()), (&2, &4, "busy", "It broke"));
    assert_eq!((*item, waits.in_flight, waits.waiting, waits.queued), (Some(0), 0, 1, 2));
    world.sleep_over();
    assert_eq!((last(&world, "a").in_flight, last(&world, "a").waiting), (1, 0), "it is under way again");
}

#[test]
fn each_failed_item_is_reported_and_counted() {
    let yaml = "
steps:
  - { id: a, for-each: [1, 2, 3, 4], call: http, continue-on-error: true, retry: { max: 1, backoff: 1ms..2ms } }";
    let mut world = World::new(yaml, json!({}));
    world.answer_scope("a/3/0", fails("gone", ProblemClass::Definite));
    world.answer_scope("a/1/0", fails("busy", ProblemClass::Retryable));
    world.sleep_over();
    world.answer_scope("a/1/1", fails("lost", ProblemClass::Uncertain));
    for scope in ["a/0/0", "a/2/0"] {
        world.answer_scope(scope, ok(json!(1)));
    }
    let reported: Vec<_> = failures(&world).iter().map(|one| (one.item, one.attempt, one.kind.as_str())).collect();
    assert_eq!(reported, [(3, 1, "gone"), (1, 2, "lost")]);
    let end = last(&world, "a");
    assert_eq!(end.items(), "2 of 4 succeeded, 2 failed");
    assert_eq!(end.reason().unwrap(), "item 1: It broke (lost), attempt 2, may have happened");
}

#[test]
fn a_bounded_number_of_failed_items_is_reported() {
    let items: Vec<usize> = (0..300).collect();
    let yaml = format!("steps: [{{ id: a, for-each: {items:?}, call: http, continue-on-error: true }}]");
    let world = run(&yaml, json!({}), |_| fails("gone", ProblemClass::Definite));
    assert_eq!((failures(&world).len(), last(&world, "a").failed), (100, 300));
}

#[test]
fn a_line_without_news_has_level_debug() {
    let yaml = "steps: [{ id: a, for-each: [1, 2, 3], max-parallel: 1, call: http }]";
    let world = run(yaml, json!({}), |_| ok(json!(1)));
    let info: Vec<_> = world.lines.iter().filter(|line| line.level >= Level::Info).map(|line| &*line.text).collect();
    let expected =
        ["a: running, 0 of 3 done", "a: running, 1 of 3 done", "a: running, 2 of 3 done", "a: succeeded, 3 items"];
    assert_eq!(info, expected);
}

#[test]
fn a_step_waits_until_a_time_and_not_for_one_that_has_passed() {
    let yaml = "
inputs: { at: string }
steps:
  - { id: fixed, wait: { until: '1970-01-01T01:30:00+00:30' } }
  - { id: given, needs: fixed, wait: { until: '${ .inputs.at }' } }
  - { id: past, needs: given, wait: { until: '1969-12-31T23:59:59Z' } }";
    let world = run(yaml, json!({"at": "1970-01-01T02:00:00Z"}), |_| panic!("nothing is asked"));
    assert!(matches!(world.end, Some(StepStatus::Complete(_))), "{:?}", world.end);
    assert_eq!(world.now, 7_200_000_000);
    let world = run(yaml, json!({"at": "tomorrow"}), |_| panic!("nothing is asked"));
    assert_eq!(world.problem().data.as_ref().unwrap().to_value()["cause"]["kind"], kind::BAD_TIME);
}
