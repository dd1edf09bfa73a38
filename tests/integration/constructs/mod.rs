//! Every construct of the workflow language: what it gives, that a run of it goes on from each of
//! its records to the same end, and that a retry repeats no more than it must.

mod cases;
mod retries;

use cases::{Case, LABEL, cases, write_files};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use wfhost::dispatch::{CallContext, Declaration, from_inline_fn};
use wfhost::host::{ForkOptions, Host, Outcome, RetryOptions, RunOptions, Status};
use wfhost::process::{Payload, Problem, ProblemClass};

/// What the handler `shop` was asked, by the text of the request, and which of these it refuses.
#[derive(Default)]
struct Shop {
    asked: Mutex<BTreeMap<String, u32>>,
    broken: Mutex<Vec<String>>,
    /// The keys of all calls, each with what was asked.
    keys: Mutex<Vec<(String, String)>>,
}

impl Shop {
    fn host(self: &Arc<Self>, folder: &Path) -> Host {
        let shop = Arc::clone(self);
        let declaration = Declaration::new("Answers with its arguments").repeatable();
        let answer = move |args: Payload, context: CallContext| {
            let Payload::Json(json) = &args else { return Ok(args) };
            let key = json.to_value().to_string();
            shop.keys.lock().unwrap().push((context.idempotency_key().to_string(), key.clone()));
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
    // Which of several items succeeded last depends on where the run was cut.
    let data = |problem: &Problem| {
        let mut data = data(problem);
        if let Some(undone) = data.get_mut("undone").and_then(Value::as_array_mut) {
            undone.sort_by_key(|path| (path == "pay", path.to_string()));
        }
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
        write_files(folder.path(), &[]);
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
            // The item that had succeeded has a result of the former steps: what has changed of
            // them is run again.
            assert_eq!(asked, [r#"["four","a"]"#, r#"["four","b"]"#]);
        } else {
            assert_eq!(asked, [r#"["three","b"]"#]);
        }
    }
}

const RETRIED_FILES: &str = r#"
steps:
  - { id: before, call: shop, with: [ before ] }
  - id: each
    needs: before
    for-each: [ a, b ]
    workflow: one.yaml
    with: { item: "${ .item }" }
outputs: { all: "${ .steps.each.output | map(.three[1]) }" }
"#;

const ONE: &str = r#"
inputs: { item: string }
steps:
  - { id: one, call: shop, with: [ one, "${ .inputs.item }" ] }
  - { id: rest, workflow: stock/rest.yaml, with: { item: "${ .steps.one.output[1] }" } }
outputs: { three: "${ .steps.rest.output.three }" }
"#;

const REST: &str = r#"
inputs: { item: string }
steps:
  - { id: two, call: shop, with: [ two, "${ .inputs.item }" ] }
  - { id: three, needs: two, call: shop, with: [ three, "${ .inputs.item }" ] }
outputs: { three: "${ .steps.three.output }" }
"#;

/// What the handler is asked by a retry with other files.
async fn asked_by_a_retry(others: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let files = [("one.yaml", ONE), ("stock/rest.yaml", REST)];
    write_files(folder.path(), &files);
    let shop = Arc::new(Shop::default());
    shop.broken.lock().unwrap().push(r#"["three","b"]"#.to_owned());
    let host = shop.host(folder.path());
    let workflow = host.parse("flow.yaml", RETRIED_FILES, folder.path()).unwrap();
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let outcome = host.start(&workflow, Map::new(), options).unwrap().finished().await;
    let data = &told(&outcome)["data"];
    assert_eq!((&data["step"], &data["pointer"]), (&json!("each[1].rest.three"), &json!("stock/rest.yaml#/steps/1")));
    shop.broken.lock().unwrap().clear();
    shop.asked.lock().unwrap().clear();
    write_files(folder.path(), others);
    // The run has the files as they were.
    let stored = host.workflow_of("run").unwrap();
    assert_eq!(stored.plan().digest(), workflow.plan().digest());
    let other =
        if others.is_empty() { stored.clone() } else { host.parse("flow.yaml", RETRIED_FILES, folder.path()).unwrap() };
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let prepared = host.prepare_retry(&stored, &records, &other, RetryOptions::default()).unwrap();
    let run = host.retry(&other, prepared, RunOptions::default()).unwrap();
    let outcome = run.finished().await;
    assert_eq!((told(&outcome), outcome.status), (json!({ "all": ["a", "b"] }), Status::Succeeded));
    shop.asked.lock().unwrap().keys().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_repeats_only_what_has_not_succeeded_within_a_workflow_that_a_step_runs() {
    assert_eq!(asked_by_a_retry(&[]).await, [r#"["three","b"]"#]);
    // Another text that does the same.
    let moved = format!("name: other\ndefaults: {{ timeout: 9m }}\n{REST}");
    let same = asked_by_a_retry(&[("one.yaml", ONE), ("stock/rest.yaml", &moved)]).await;
    assert_eq!(same, [r#"["three","b"]"#]);
    // The item that had succeeded has a result of the former steps.
    let four = REST.replace("[ three, ", "[ four, ");
    let corrected = asked_by_a_retry(&[("one.yaml", ONE), ("stock/rest.yaml", &four)]).await;
    assert_eq!(corrected, [r#"["four","a"]"#, r#"["four","b"]"#]);
    // With other inputs nothing within is as it was.
    let inputs = REST.replace("item: string", "item: string, x: { default: 1 }");
    let anew = asked_by_a_retry(&[("one.yaml", ONE), ("stock/rest.yaml", &inputs)]).await;
    assert!(anew.contains(&r#"["two","b"]"#.to_owned()), "{anew:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_file_that_leads_out_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("label.yaml"), LABEL).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
    std::os::unix::fs::symlink("stock/label.yaml", folder.path().join("within.yaml")).unwrap();
    write_files(folder.path(), &[]);
    std::fs::write(folder.path().join("large.yaml"), vec![b'#'; 2 << 20]).unwrap();
    std::fs::write(folder.path().join("latin.yaml"), b"steps: # caf\xe9").unwrap();
    let host = Arc::new(Shop::default()).host(folder.path());
    let load = |file: &str| {
        let text = format!("steps: [{{ id: a, workflow: {file}, with: {{ text: x }} }}]");
        host.parse("flow.yaml", &text, folder.path()).map(drop).map_err(|error| error.to_string())
    };
    load("within.yaml").unwrap();
    for (file, why) in [
        ("out/label.yaml", "a link out of the workflow's folder"),
        ("stock", "it is no file"),
        ("stock/label.yml", "there is no such file; there is stock/label.yaml"),
        ("large.yaml", "1048576"),
        ("latin.yaml", "it is not UTF-8, in line 1"),
    ] {
        let error = load(file).unwrap_err();
        assert!(error.contains(why), "{file}: {error}");
    }
}

#[test]
fn how_much_other_files_may_hold_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let host = Arc::new(Shop::default()).host(folder.path());
    let refused = |count: usize, text: &dyn Fn(usize) -> String| {
        let mut steps = String::from("steps:\n");
        for file in 0..count {
            steps.push_str(&format!("  - {{ id: s{file}, workflow: f{file}.yaml }}\n"));
            std::fs::write(folder.path().join(format!("f{file}.yaml")), text(file)).unwrap();
        }
        host.parse("flow.yaml", &steps, folder.path()).map(drop).unwrap_err().to_string()
    };
    let error = refused(101, &|_| "steps: [{ id: a, set: 1 }]".to_owned());
    assert!(error.contains("the workflow has more than 100 files"), "{error}");
    let error = refused(5, &|_| format!("steps: [{{ id: a, set: 1 }}]\n{}", "#\n".repeat(500_000)));
    assert!(error.contains("4194304 bytes in other files"), "{error}");
    let many: Vec<String> = (0..999).map(|step| format!("  - {{ id: s{step}, set: 1 }}\n")).collect();
    let error = refused(11, &|_| format!("steps:\n{}", many.concat()));
    assert!(error.contains("10000 steps in other files"), "{error}");
}

/// Two steps that can be undone, one of them within another step, and one that fails.
const UNDO_AND_RETRY: &str = r#"
steps:
  - { id: pay, call: shop, with: [ pay ], compensate: { call: shop, with: [ refund ] } }
  - id: rooms
    for-each: [ 1, 2 ]
    max-parallel: 1
    steps:
      - id: room
        call: shop
        with: [ room, "${ .item }" ]
        compensate: { call: shop, with: [ free, "${ .item }" ], retry: { max: 0 } }
      - { id: key, needs: room, call: shop, with: [ key, "${ .item }" ] }
    outputs: { key: "${ .steps.key.output[1] }" }
  - { id: bad, needs: [ pay, rooms ], call: shop, with: [ bad ] }
outputs: { keys: "${ .steps.rooms.output | map(.key) }" }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_runs_again_what_was_undone_under_new_keys_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Arc::new(Shop::default());
    shop.broken.lock().unwrap().extend(["[\"bad\"]".to_owned(), r#"["free",1]"#.to_owned()]);
    let host = shop.host(folder.path());
    let workflow = host.parse("flow.yaml", UNDO_AND_RETRY, folder.path()).unwrap();
    let options = RunOptions { id: Some("run".to_owned()), ..RunOptions::default() };
    let outcome = host.start(&workflow, Map::new(), options).unwrap().finished().await;
    let data = told(&outcome)["data"].clone();
    let mut undone: Vec<_> = data["undone"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    undone.sort_unstable();
    assert_eq!(undone, ["pay", "rooms[1].room"]);
    assert_eq!(data["not-undone"][0]["step"], "rooms[0].room");
    shop.broken.lock().unwrap().clear();
    shop.asked.lock().unwrap().clear();
    let records = host.journal().unwrap().unwrap().records("run").unwrap();
    let prepared = host.prepare_retry(&workflow, &records, &workflow, RetryOptions::default()).unwrap();
    let run = host.retry(&workflow, prepared, RunOptions::default()).unwrap();
    let outcome = run.finished().await;
    assert_eq!((told(&outcome), outcome.status), (json!({ "keys": [1, 2] }), Status::Succeeded));
    let asked: Vec<String> = shop.asked.lock().unwrap().keys().cloned().collect();
    // What was undone is done again. The room that is still booked is taken over, with its key.
    assert_eq!(asked, [r#"["bad"]"#, r#"["key",2]"#, r#"["pay"]"#, r#"["room",2]"#]);
}
