//! Every construct of the workflow language: what it gives, that a run of it goes on from each of
//! its records to the same end, and that a retry repeats no more than it must.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use wfhost::dispatch::{Declaration, from_inline_fn};
use wfhost::host::{ForkOptions, Host, Outcome, RetryOptions, RunOptions, Status};
use wfhost::process::{Payload, Problem, ProblemClass};

/// What the handler `shop` was asked, by the text of the request, and which of these it refuses.
#[derive(Default)]
struct Shop {
    asked: Mutex<BTreeMap<String, u32>>,
    broken: Mutex<Vec<String>>,
}

impl Shop {
    fn host(self: &Arc<Self>, folder: &Path) -> Host {
        let shop = Arc::clone(self);
        let declaration = Declaration::new("Answers with its arguments").repeatable();
        let answer = move |args: Payload, _| {
            let Payload::Json(json) = &args else { return Ok(args) };
            let key = json.to_value().to_string();
            *shop.asked.lock().unwrap().entry(key.clone()).or_default() += 1;
            if shop.broken.lock().unwrap().contains(&key) {
                return Err(Arc::new(Problem::new("broken", "It is broken").with_class(ProblemClass::Definite)));
            }
            Ok(args)
        };
        Host::builder().workers(1).data(folder).handler("shop", from_inline_fn(declaration, answer)).build().unwrap()
    }
}

/// The outputs, or the problem. That a call was sent twice is left out: whether it was depends on
/// where the run was cut.
fn told(outcome: &Outcome) -> Value {
    let data = |problem: &Problem| {
        let mut data = problem.data.as_ref().map(wfhost::process::Json::to_value).unwrap_or_default();
        data.get_mut("cause").and_then(Value::as_object_mut).map(|cause| cause.remove("detail"));
        data
    };
    match &outcome.result {
        Ok(Payload::Json(json)) => json.to_value(),
        Ok(other) => panic!("{other:?}"),
        Err(problem) => json!({
            "kind": problem.kind, "title": problem.title, "data": data(problem),
        }),
    }
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// A workflow with its inputs, the signals that it waits for, and how it ends.
struct Case {
    name: &'static str,
    text: &'static str,
    inputs: Value,
    signals: &'static [(&'static str, &'static str)],
    ends: Value,
}

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

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "several",
            text: SEVERAL,
            inputs: json!({}),
            signals: &[("reject", "{}"), ("money", "5"), ("legal", "\"yes\"")],
            ends: json!({ "first": "no", "both": { "legal": "yes", "money": 5, "pause": null } }),
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

/// Sends the signals of a case as often as it takes to end.
async fn ended(host: &Host, case: &Case, run: wfhost::host::RunHandle, id: &str) -> Outcome {
    for (name, body) in case.signals {
        let _ = host.signal(id, name, &serde_json::from_str(body).unwrap(), None);
    }
    tokio::time::timeout(std::time::Duration::from_mins(1), run.finished()).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_each_construct_goes_on_from_every_record_to_the_same_end() {
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        let shop = Arc::new(Shop::default());
        shop.broken.lock().unwrap().push("[\"bad\"]".to_owned());
        let host = shop.host(folder.path());
        let workflow = host.parse("flow.yaml", case.text, folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
        let run = host.start(&workflow, object(&case.inputs), options).unwrap();
        let outcome = ended(&host, &case, run, "run").await;
        assert_eq!(told(&outcome), case.ends, "{}", case.name);
        let records = host.journal().unwrap().unwrap().records("run").unwrap();
        assert!(records.len() > 3, "{}", case.name);
        host.rebuild(&workflow, &records).unwrap();
        for at in 1..records.len() as u64 {
            let id = format!("from-{at}");
            let options = ForkOptions { at, id: Some(id.clone()), resend: true, ..ForkOptions::default() };
            host.fork(&workflow, "run", options).unwrap_or_else(|error| panic!("{} at {at}: {error}", case.name));
            let run = host.recover(&workflow, &id, RunOptions::default());
            let run = run.unwrap_or_else(|error| panic!("{} at {at}: {error}", case.name));
            let outcome = ended(&host, &case, run, &id).await;
            assert_eq!(told(&outcome), case.ends, "{} from record {at} of {}", case.name, records.len());
        }
    }
}

const RETRIED: &str = r#"
steps:
  - { id: before, call: shop, with: [ before ] }
  - id: each
    needs: before
    for-each: [ a, b ]
    steps:
      - { id: one, call: shop, with: [ one, "${ .item }" ] }
      - id: way
        needs: one
        switch:
          - steps:
              - { id: two, call: shop, with: [ two, "${ .item }" ] }
              - { id: three, needs: two, call: shop, with: [ three, "${ .item }" ] }
            outputs: { three: "${ .steps.three.output }" }
    outputs: { three: "${ .steps.way.output.three }" }
outputs: { all: "${ .steps.each.output | map(.three[1]) }" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_repeats_only_what_has_not_succeeded_within_a_step() {
    for corrected in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let shop = Arc::new(Shop::default());
        shop.broken.lock().unwrap().push(r#"["three","b"]"#.to_owned());
        let host = shop.host(folder.path());
        let workflow = host.parse("flow.yaml", RETRIED, folder.path()).unwrap();
        let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
        let outcome = host.start(&workflow, Map::new(), options).unwrap().finished().await;
        assert_eq!(told(&outcome)["data"]["step"], "each[1].way.three");
        shop.broken.lock().unwrap().clear();
        shop.asked.lock().unwrap().clear();
        let text = if corrected { RETRIED.replace("[ three, \"", "[ four, \"") } else { RETRIED.to_owned() };
        let other = host.parse("flow.yaml", &text, folder.path()).unwrap();
        let records = host.journal().unwrap().unwrap().records("run").unwrap();
        let prepared = host.prepare_retry(&workflow, &records, &other, RetryOptions::default()).unwrap();
        let run = host.retry(&other, prepared, RunOptions::default()).unwrap();
        let outcome = run.finished().await;
        assert_eq!((told(&outcome), outcome.status), (json!({ "all": ["a", "b"] }), Status::Succeeded));
        let asked: Vec<String> = shop.asked.lock().unwrap().keys().cloned().collect();
        if corrected {
            // The item that had succeeded has a result of the former steps, so it is run anew.
            let anew = [r#"["four","a"]"#, r#"["four","b"]"#, r#"["one","a"]"#, r#"["two","a"]"#];
            assert_eq!(asked, anew);
        } else {
            assert_eq!(asked, [r#"["three","b"]"#]);
        }
    }
}
