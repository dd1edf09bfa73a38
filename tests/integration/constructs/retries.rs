//! What a retry asks, and under which keys: turns, what was undone, and what depends on it.

use super::{Shop, told};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use wfhost::host::{RetryOptions, RunOptions, Status};

/// What a run of a workflow asks, and then a retry of it with nothing broken, each with its keys.
async fn keys_of_both(text: &str, broken: &[&str]) -> [Vec<(String, String)>; 2] {
    keys_of_all(text, [broken, &[]]).await
}

/// What a run of a workflow asks, and then a retry of it, each with its keys and with what is
/// broken.
async fn keys_of_all(text: &str, [broken, still]: [&[&str]; 2]) -> [Vec<(String, String)>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let shop = Arc::new(Shop::default());
    shop.broken.lock().unwrap().extend(broken.iter().map(|key| (*key).to_owned()));
    let host = shop.host(folder.path());
    let workflow = host.parse("flow.yaml", text, folder.path()).unwrap();
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let outcome = host.start(&workflow, Map::new(), options).unwrap().finished().await;
    assert_eq!(outcome.status, Status::Failed);
    *shop.broken.lock().unwrap() = still.iter().map(|key| (*key).to_owned()).collect();
    let first = std::mem::take(&mut *shop.keys.lock().unwrap());
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let prepared = host.prepare_retry(&workflow, &records, &workflow, RetryOptions::default()).unwrap();
    let outcome = host.retry(&workflow, prepared, RunOptions::default()).unwrap().finished().await;
    let status = if still.is_empty() { Status::Succeeded } else { Status::Failed };
    assert_eq!(outcome.status, status, "{:?}", outcome.result);
    let then = std::mem::take(&mut *shop.keys.lock().unwrap());
    [first, then]
}

const TURNS_UNDONE: &str = r#"
steps:
  - id: add
    repeat: { max: 3 }
    call: shop
    with: [ add, "${ .turn }" ]
    compensate: { call: shop, with: [ undo, "${ .turn }" ], retry: { max: 0 } }
  - id: rooms
    repeat: { max: 3 }
    steps:
      - id: room
        call: shop
        with: [ room, "${ .turn }" ]
        compensate: { call: shop, with: [ free, "${ .turn }", "${ .output[1] }" ], retry: { max: 0 } }
      - id: inner
        repeat: { max: 2 }
        needs: room
        steps: [{ id: bed, call: shop, with: [ bed, "${ .turn }" ], compensate: { call: shop, with: [ out ] } }]
  - { id: bad, needs: [ add, rooms ], call: shop, with: [ bad ] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_was_undone_has_a_new_key_in_a_retry_and_another_has_not() {
    let [first, then] = keys_of_both(TURNS_UNDONE, &[r#"["bad"]"#, r#"["undo",1]"#]).await;
    let count = |what: &str| first.iter().filter(|(_, asked)| asked.starts_with(what)).count();
    let counts = ["[\"add\"", "[\"undo\"", "[\"room\"", "[\"free\"", "[\"bed\"", "[\"out\""].map(count);
    assert_eq!(counts, [3, 3, 3, 3, 6, 6], "{first:#?}");
    let is_new = |(key, _): &&(String, String)| !first.iter().any(|(former, _)| former == key);
    let (new, old): (Vec<_>, Vec<_>) = then.iter().partition(is_new);
    let asked = |all: Vec<&(String, String)>| all.into_iter().map(|(_, asked)| asked.clone()).collect::<Vec<_>>();
    // The turn that could not be undone has happened.
    assert_eq!(asked(old), [r#"["add",1]"#], "{then:#?}");
    assert_eq!(asked(new).iter().filter(|asked| **asked != r#"["bad"]"#).count(), 2 + 3 + 6, "{then:#?}");
}

const NEEDS_UNDONE: &str = r#"
steps:
  - { id: room, call: shop, with: [ room ], compensate: { call: shop, with: [ free ] } }
  - id: rest
    needs: room
    steps:
      - id: bed
        call: shop
        with: [ bed ]
        compensate: { call: shop, with: [ out ] }
      - id: inner
        needs: bed
        for-each: [ 1, 2 ]
        steps: [{ id: pillow, call: shop, with: [ pillow, "${ .item }" ], compensate: { call: shop, with: [ off ] } }]
  - { id: bad, needs: rest, call: shop, with: [ bad ] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_undone_within_a_step_that_needs_what_was_undone_has_a_new_key() {
    let [first, then] = keys_of_both(NEEDS_UNDONE, &[r#"["bad"]"#]).await;
    assert_eq!(first.len(), 2 * 4 + 1, "{first:#?}");
    let asked: Vec<&str> = then.iter().map(|(_, asked)| asked.as_str()).collect();
    assert_eq!(asked.len(), 4 + 1, "{asked:?}");
    let again = then.iter().find(|(key, _)| first.iter().any(|(former, _)| former == key));
    assert_eq!(again, None, "{then:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_failed_for_certain_has_a_new_key_in_a_retry_and_those_before_it_have_not() {
    let text = r#"
steps: [{ id: add, repeat: { max: 3 }, call: shop, with: [ add, "${ .turn }" ] }]
"#;
    let [first, then] = keys_of_both(text, &[r#"["add",1]"#]).await;
    assert_eq!((first.len(), then.len()), (2, 3));
    assert_eq!(then[0], first[0]);
    assert_ne!(then[1].0, first[1].0);
}

const NOT_UNDONE: &str = r"
steps:
  - { id: pay, call: shop, with: [ pay ], compensate: { call: shop, with: [ refund ], retry: { max: 0 } } }
  - { id: ship, call: shop, with: [ ship ], compensate: { call: shop, with: [ stop ] } }
  - { id: bad, needs: [ pay, ship ], call: shop, with: [ bad ] }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_could_not_be_undone_is_taken_over() {
    let [_, then] = keys_of_both(NOT_UNDONE, &[r#"["bad"]"#, r#"["refund"]"#]).await;
    let asked: Vec<&str> = then.iter().map(|(_, asked)| asked.as_str()).collect();
    assert_eq!(asked, [r#"["ship"]"#, r#"["bad"]"#]);
}

const CHAIN_UNDONE: &str = r"
steps:
  - id: group
    steps:
      - { id: one, call: shop, with: [ one ], compensate: { call: shop, with: [ undo ] } }
      - { id: two, needs: one, call: shop, with: [ two ] }
      - { id: three, needs: two, call: shop, with: [ three ] }
      - { id: aside, call: shop, with: [ aside ] }
      - { id: nest, steps: [{ id: leaf, call: shop, with: [ leaf ], compensate: { call: shop, with: [ fall ] } }] }
  - { id: bad, needs: group, call: shop, with: [ bad ] }
";

#[tokio::test(flavor = "multi_thread")]
async fn all_that_depends_on_what_was_undone_within_a_step_runs_again() {
    let [_, then] = keys_of_both(CHAIN_UNDONE, &[r#"["bad"]"#]).await;
    let mut asked: Vec<&str> = then.iter().map(|(_, asked)| asked.as_str()).collect();
    asked.sort_unstable();
    assert_eq!(asked, [r#"["bad"]"#, r#"["leaf"]"#, r#"["one"]"#, r#"["three"]"#, r#"["two"]"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_over_is_undone_if_the_retry_fails() {
    let broken: [&[&str]; 2] = [&[r#"["bad"]"#, r#"["refund"]"#], &[r#"["bad"]"#]];
    let [_, then] = keys_of_all(NOT_UNDONE, broken).await;
    let mut asked: Vec<&str> = then.iter().map(|(_, asked)| asked.as_str()).collect();
    assert_eq!(asked[..2], [r#"["ship"]"#, r#"["bad"]"#]);
    asked[2..].sort_unstable();
    assert_eq!(asked[2..], [r#"["refund"]"#, r#"["stop"]"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_after_the_others_have_keys_of_their_own_in_a_retry() {
    let text = r"
steps: [{ id: bad, call: shop, with: [ bad ] }]
on: { failure: [{ id: tell, call: shop, with: [ tell ] }], always: [{ id: close, call: shop, with: [ close ] }] }
";
    let broken: [&[&str]; 2] = [&[r#"["bad"]"#]; 2];
    let [first, then] = keys_of_all(text, broken).await;
    assert_eq!((first.len(), then.len()), (3, 3));
    for (one, other) in first.iter().zip(&then) {
        assert_eq!(one.1, other.1);
        assert_ne!(one.0, other.0, "each of the two runs tells of itself");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_begins_with_the_first_turn_and_takes_over_nothing_of_a_later_one() {
    let text = r#"
steps:
  - id: turns
    repeat: { max: 2 }
    steps:
      - { id: one, call: shop, with: [ one, "${ .turn }" ] }
      - { id: two, needs: one, call: shop, with: [ two, "${ .turn }" ] }
"#;
    let [_, then] = keys_of_both(text, &[r#"["two",1]"#]).await;
    let asked: Vec<&str> = then.iter().map(|(_, asked)| asked.as_str()).collect();
    assert_eq!(asked, [r#"["one",0]"#, r#"["two",0]"#, r#"["one",1]"#, r#"["two",1]"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_whose_steps_were_stopped_is_not_taken_over_as_one_that_succeeded() {
    let text = r#"
steps:
  - id: each
    for-each: [ 1, 2 ]
    steps:
      - { id: ask, call: shop, with: [ ask, "${ .item }" ] }
      - { id: go, needs: ask, wait: { signal: go } }
    outputs: { of: "${ .steps.ask.output[1] }" }
outputs: { all: "${ .steps.each.output | map(.of) }" }
"#;
    let folder = tempfile::tempdir().unwrap();
    let shop = Arc::new(Shop::default());
    let host = shop.host(folder.path());
    let workflow = host.parse("flow.yaml", text, folder.path()).unwrap();
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, Map::new(), options).unwrap();
    while shop.keys.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    run.cancel("enough", None).unwrap();
    assert_eq!(run.finished().await.status, Status::Cancelled);
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let prepared = host.prepare_retry(&workflow, &records, &workflow, RetryOptions::default()).unwrap();
    let run = host.retry(&workflow, prepared, RunOptions::default()).unwrap();
    for _ in 0..2 {
        host.signal(run.id(), "go", &Value::Null, None).unwrap();
    }
    let outcome = tokio::time::timeout(std::time::Duration::from_mins(1), run.finished()).await.expect("it ends");
    assert_eq!(told(&outcome), json!({ "all": [1, 2] }));
}
