//! A workflow for each construct, and how it ends.

use serde_json::{Value, json};
use std::path::Path;

/// A workflow with its inputs, the signals that it waits for, and how it ends.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    pub(super) inputs: Value,
    pub(super) signals: &'static [(&'static str, &'static str)],
    pub(super) ends: Value,
}

/// Files that the steps of cases run.
const FILES: [(&str, &str); 3] = [("ship.yaml", SHIP), ("stock/label.yaml", LABEL), ("count.yaml", COUNT)];

/// Writes them, with other text for some.
pub(super) fn write_files(folder: &Path, others: &[(&str, &str)]) {
    std::fs::create_dir_all(folder.join("stock")).unwrap();
    for (name, text) in FILES.iter().chain(others) {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

const WORKFLOWS: &str = r#"
inputs: { list: { type: array } }
steps:
  - id: each
    for-each: ${ .inputs.list }
    max-parallel: 2
    workflow: ship.yaml
    with: { to: "${ .item }", n: "${ .index }" }
    retry: { max: 2, backoff: 1ms }
  - { id: count, workflow: ./count.yaml, with: { n: 2 } }
  - { id: asks, workflow: ship.yaml, with: { to: bad, n: 7 }, continue-on-error: true }
  - { id: last, call: shop, with: "${ .steps.each.output | map(.label) }" }
outputs: { last: "${ .steps.last.output }", count: "${ .steps.count.output.n }", of: "${ .steps.asks.error.step }" }
"#;

const SHIP: &str = r#"
inputs: { to: string, n: integer }
steps:
  - { id: first, call: shop, with: [ "${ .inputs.n }" ] }
  - { id: wait, if: "${ .inputs.n == 1 }", wait: { signal: go } }
  - id: label
    needs: [ first, wait ]
    workflow: stock/label.yaml
    with: { text: "${ .inputs.to }" }
outputs: { label: "${ .steps.label.output.text + (.steps.wait.output // \"\") }" }
"#;

pub(super) const LABEL: &str = r#"
inputs: { text: string, stars: { type: integer, default: 2 } }
steps:
  - { id: print, call: shop, with: [ "${ .inputs.text }" ] }
  - { id: nap, needs: print, wait: 1ms }
outputs: { text: "${ .steps.print.output[0] + .inputs.stars * \"*\" }" }
"#;

const COUNT: &str = r#"
inputs: { n: integer }
steps:
  - { id: asked, call: shop, with: [ count, "${ .inputs.n }" ] }
  - { id: rest, if: "${ .inputs.n > 0 }", needs: asked, workflow: count.yaml, with: { n: "${ .inputs.n - 1 }" } }
outputs: { n: "${ 1 + (.steps.rest.output.n // 0) }" }
"#;

const GROUPS: &str = r#"
inputs: { list: { type: array } }
steps:
  - { id: first, call: shop, with: [ first ] }
  - id: each
    for-each: ${ .inputs.list }
    max-parallel: 2
    steps:
      - { id: ask, call: shop, with: [ "${ .item }", "${ .steps.first.output[0] }" ] }
      - id: inner
        steps:
          - { id: deep, call: shop, with: [ deep, "${ .steps.ask.output[0] }", "${ .index }" ] }
          - { id: wait, wait: 1ms }
        outputs: { deep: "${ .steps.deep.output }" }
    outputs: { deep: "${ .steps.inner.output.deep }" }
  - { id: last, call: shop, with: "${ .steps.each.output | map(.deep[1]) }" }
outputs: { last: "${ .steps.last.output }" }
"#;

const SWITCH: &str = r#"
steps:
  - id: way
    for-each: [ 1, 5, 50 ]
    switch:
      - if: ${ .item > 10 }
        steps: [{ id: approval, wait: { signal: go } }]
        outputs: { way: "${ .steps.approval.output }" }
      - if: ${ .item > 2 }
        steps: [{ id: asked, call: shop, with: [ "${ .item }" ] }]
        outputs: { way: "${ .steps.asked.output }" }
  - { id: after, set: "${ .steps.way.output | map(.way) }" }
outputs: { ways: "${ .steps.after.output }" }
"#;

const FAILS: &str = r#"
steps:
  - id: group
    steps:
      - { id: good, call: shop, with: [ good ] }
      - { id: bad, needs: good, call: shop, with: [ bad ] }
      - { id: other, call: shop, with: [ other ] }
  - { id: react, needs: group, when: failed, call: shop, with: "${ [.error.step, .error.kind] }" }
"#;

const REPEAT: &str = r#"
steps:
  - id: poll
    call: shop
    with: [ poll, "${ .turn }" ]
    repeat: { until: "${ .last[1] == 2 }", max: 9, delay: 1ms }
  - id: asks
    repeat: { while: "${ .last.turns < 3 }", max: 9 }
    steps: [{ id: asked, wait: { signal: go } }]
    outputs: { sum: "${ (.last.sum // 0) + .steps.asked.output }", turns: "${ .turn + 1 }" }
  - id: each
    for-each: [ 0, 1 ]
    repeat: { max: 3 }
    call: shop
    with: [ "${ .item }", "${ (.last[1] // 0) + 1 }" ]
outputs: { sum: "${ .steps.asks.output.sum }", polled: "${ .steps.poll.output }", list: "${ .steps.each.output }" }
"#;

const SEVERAL: &str = r#"
steps:
  - id: first
    wait: { any: { yes: { signal: approve }, no: { signal: reject }, late: 24h } }
  - { id: told, call: shop, with: [ "${ .steps.first.output }" ] }
  - id: both
    needs: told
    wait: { all: { legal: { signal: legal }, money: { signal: money }, pause: 1ms }, timeout: 1h }
outputs: { first: "${ .steps.told.output[0].first }", both: "${ .steps.both.output }" }
"#;

const CACHED: &str = r#"
steps:
  - id: ask
    for-each: [ a, b, a ]
    max-parallel: 1
    call: shop
    with: [ "${ .item }", "${ .index }" ]
    cache: { ttl: 1h, key: "${ .item }" }
  - id: double
    for-each: ${ .steps.ask.output }
    script: return input[1] * 2
    with: ${ .item }
    cache: auto
outputs: { asked: "${ .steps.ask.output }", doubled: "${ .steps.double.output }" }
"#;

const UNDONE: &str = r#"
inputs: { who: { type: string, default: Ann } }
steps:
  - id: pay
    call: shop
    with: [ pay, "${ .inputs.who }" ]
    compensate: { call: shop, with: [ refund, "${ .output[1] }" ] }
  - id: rooms
    needs: pay
    for-each: [ 1, 2 ]
    steps:
      - id: room
        call: shop
        with: [ room, "${ .item }" ]
        compensate: { call: shop, with: [ free, "${ .item }", "${ .steps.pay.output[1] }" ] }
      - { id: key, needs: room, wait: 1ms }
  - { id: bad, needs: rooms, call: shop, with: [ bad ] }
on:
  failure: [{ id: tell, call: shop, with: "${ .run.problem.data.undone | sort }" }]
  always:
    - { id: one, wait: 1ms }
    - { id: two, needs: one, call: shop, with: [ "${ .steps.pay.status }", "${ .run.problem.kind }" ] }
"#;

/// All cases.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = others();
    cases.push(Case {
        name: "undone",
        text: UNDONE,
        inputs: json!({}),
        signals: &[],
        ends: json!({
            "kind": "step-failed",
            "title": "The step `bad` failed",
            "data": {
                "step": "bad", "pointer": "/steps/2", "item": null, "attempt": 1,
                "cause": { "kind": "broken", "title": "It is broken", "class": "definite" },
                "failed": ["bad"], "unreached": [],
                "undone": ["rooms[0].room", "rooms[1].room", "pay"], "not-undone": [],
            },
        }),
    });
    cases
}

fn others() -> Vec<Case> {
    vec![
        Case {
            name: "several",
            text: SEVERAL,
            inputs: json!({}),
            signals: &[("reject", "{}"), ("money", "5"), ("legal", "\"yes\"")],
            ends: json!({ "first": "no", "both": { "legal": "yes", "money": 5, "pause": null } }),
        },
        Case {
            name: "cached",
            text: CACHED,
            inputs: json!({}),
            signals: &[],
            ends: json!({ "asked": [["a", 0], ["b", 1], ["a", 0]], "doubled": [0, 2, 0] }),
        },
        Case {
            name: "groups",
            text: GROUPS,
            inputs: json!({ "list": ["a", "b", "c"] }),
            signals: &[],
            ends: json!({ "last": ["a", "b", "c"] }),
        },
        Case {
            name: "switch",
            text: SWITCH,
            inputs: json!({}),
            signals: &[("go", "\"slowly\"")],
            ends: json!({ "ways": [null, [5], "slowly"] }),
        },
        Case {
            name: "repeat",
            text: REPEAT,
            inputs: json!({}),
            signals: &[("go", "2"), ("go", "2"), ("go", "2")],
            ends: json!({ "sum": 6, "polled": ["poll", 2], "list": [[0, 3], [1, 3]] }),
        },
        Case {
            name: "workflows",
            text: WORKFLOWS,
            inputs: json!({ "list": ["a", "b", "c"] }),
            signals: &[("go", "\"!\"")],
            ends: json!({ "last": ["a**", "b**!", "c**"], "count": 3, "of": "asks.label.print" }),
        },
        Case {
            name: "a failure within",
            text: FAILS,
            inputs: json!({}),
            signals: &[],
            ends: json!({
                "kind": "step-failed",
                "title": "The step `group.bad` failed",
                "data": {
                    "step": "group.bad", "pointer": "/steps/0/steps/1", "item": null, "attempt": 1,
                    "cause": { "kind": "broken", "title": "It is broken", "class": "definite" },
                    "failed": ["group"], "unreached": [],
                },
            }),
        },
    ]
}
