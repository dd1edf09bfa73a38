//! For any order of answers: the same outputs; for the same order: the same commands.

use super::*;
use proptest::prelude::*;

const YAML: &str = "
inputs: { n: { type: integer } }
steps:
  - { id: list, uses: ./list.wasm, with: '${ .inputs.n }' }
  - { id: each, call: kv, for-each: '${ .steps.list.output }', max-parallel: 3, with: '${ [.item, .index] }', retry: { max: 2, backoff: 1s..4s } }
  - { id: soft, call: kv, for-each: '${ .steps.list.output }', max-parallel: 2, continue-on-error: true, with: '${ .item }' }
  - { id: odd, if: '${ .inputs.n % 2 == 1 }', set: '${ .steps.each.output | add }' }
  - { id: pause, needs: each, wait: 3s }
  - { id: rescue, needs: soft, when: failed, uses: ./rescue.wasm, with: '${ .error.item }' }
  - { id: end, needs: [odd, pause, rescue], when: done, uses: ./end.wasm, with: '${ [.steps.odd.status, .steps.rescue.output] }' }
outputs:
  each: ${ .steps.each.output }
  soft: ${ .steps.soft.output }
  end: ${ .steps.end.output }
  tried: ${ [.steps.each.attempts, .steps.soft.attempts] }";

/// Answers depend on the command, never on its time.
fn reply(ask: &Ask) -> Reply {
    match ask.node() {
        "list" => ok((0..ask.input.as_i64().unwrap()).collect()),
        "each" if ask.input[0].as_i64().unwrap() % 4 == 1 && ask.scope.ends_with("/0") => {
            fails("busy", ProblemClass::Retryable)
        }
        "each" => ok(json!(ask.input[0].as_i64().unwrap() * 10)),
        "soft" if ask.input.as_i64().unwrap() % 3 == 2 => fails("third", ProblemClass::Definite),
        _ => ok(ask.input.clone()),
    }
}

fn shuffled(n: i64, seeds: &[u8]) -> World {
    let mut at = 0;
    World::new(YAML, json!({"n": n})).run(reply, |open| {
        at += 1;
        usize::from(seeds[at % seeds.len()]) % open
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_answers_gives_the_same_outputs(n in 0i64..12, seeds in prop::collection::vec(any::<u8>(), 1..40)) {
        let straight = World::new(YAML, json!({"n": n})).run(reply, |_| 0);
        let other = shuffled(n, &seeds);
        prop_assert_eq!(straight.output(), other.output());
        prop_assert!(other.most <= 6, "{}", other.most);
        let sorted = |world: &World| {
            let mut scopes: Vec<_> = world.asked.iter().map(|ask| ask.scope.clone()).collect();
            scopes.sort();
            scopes
        };
        prop_assert_eq!(sorted(&straight), sorted(&other));
    }

    #[test]
    fn the_same_events_give_the_same_commands(n in 0i64..12, seeds in prop::collection::vec(any::<u8>(), 1..40)) {
        let (one, two) = (shuffled(n, &seeds), shuffled(n, &seeds));
        prop_assert_eq!(one.commands, two.commands);
        prop_assert_eq!(one.reported, two.reported);
    }
}
