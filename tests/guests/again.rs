//! Runs that have ended: replayed, forked and repeated.

use crate::support::{builder, cause, guests, host, outputs, parse, start, wait_until};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use wfhost::dispatch::{CallContext, Declaration, from_inline_fn};
use wfhost::host::{ForkOptions, Host, ReplayOptions, RerunError, RetryOptions, RunOptions};
use wfhost::process::{Payload, Pid, Problem, ProblemClass};
use wfhost::run::{ForkError, Replay, Resolution};
use wfhost::workflow::interpreter::{RepeatError, Rerun};

const WORK: &str = "
steps:
  - { id: fib, uses: ./fib.wasm, with: { n: 6 } }
  - { id: hello, uses: ./hello.wasm, with: { name: Ann } }
  - { id: wait, needs: [fib, hello], wait: { signal: go } }
outputs: { fib: '${ .steps.fib.output }', hello: '${ .steps.hello.output.greeting }', go: '${ .steps.wait.output }' }
";

/// The same guest with other bytes: a section without meaning is appended.
fn other_bytes(folder: &Path) -> std::path::PathBuf {
    let mut bytes = std::fs::read(guests("built/hello.wasm")).unwrap();
    bytes.extend([0, 3, 1, b'x', 0]);
    let path = folder.join("other.wasm");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_run_of_guests_replays() {
    let host = host(2, 8);
    let workflow = parse(&host, WORK);
    let run = start(&host, &workflow);
    run.signal("go", &json!(1)).unwrap();
    let steps = run.wait().counts.steps;
    let records = run.records().unwrap();
    let mut seen = 0;
    let replayed = host.replay(&workflow, &records, ReplayOptions::default(), |_| seen += 1).unwrap();
    assert_eq!(replayed, Replay::Same { steps, fuel_differs: 0, records: records.len() as u64 });
    assert_eq!(seen, steps);

    let folder = tempfile::tempdir().unwrap();
    let substituted = ReplayOptions { substituted: true, until: None };
    // The path is in the plan, and so in the commands of the workflow itself: the other component
    // is substituted under the same name.
    std::fs::copy(guests("built/fib.wasm"), folder.path().join("fib.wasm")).unwrap();
    std::fs::copy(other_bytes(folder.path()), folder.path().join("hello.wasm")).unwrap();
    let same = host.parse("test.yaml", WORK, folder.path()).unwrap();
    assert!(host.replay(&same, &records, ReplayOptions::default(), |_| {}).is_err(), "it is another component");
    assert!(matches!(host.replay(&same, &records, substituted, |_| {}), Ok(Replay::Same { .. })));
    std::fs::copy(guests("built/counter.wasm"), folder.path().join("hello.wasm")).unwrap();
    let other = host.parse("test.yaml", WORK, folder.path()).unwrap();
    let Ok(Replay::Diverged(difference)) = host.replay(&other, &records, substituted, |_| {}) else { panic!() };
    assert_eq!(difference.scope.as_deref(), Some("hello/0/0"));
    assert_eq!(difference.expected, [r#"complete: {"greeting":"Hello, Ann!"}"#]);
}

fn durable(folder: &Path) -> Host {
    builder(2, 8).data(folder).build().unwrap()
}

fn named(id: &str) -> RunOptions {
    RunOptions { id: Some(id.to_owned()), ..RunOptions::default() }
}

#[test]
fn a_fork_continues_on_its_own_even_with_another_component() {
    let folder = tempfile::tempdir().unwrap();
    let host = durable(folder.path());
    let workflow = parse(&host, WORK);
    let run = host.start(&workflow, Map::new(), named("r")).unwrap();
    wait_until(|| run.inner().signals().len() == 1 && run.inner().acknowledged().is_durable());
    let at = host.journal().unwrap().unwrap().records("r").unwrap().len() as u64;
    let fork_with = |workflow, at, id: &str, substituted| {
        host.fork(workflow, "r", ForkOptions { at, id: Some(id.to_owned()), substituted, ..ForkOptions::default() })
    };
    let fork = |workflow, at, id: &str| fork_with(workflow, at, id, false);
    assert_eq!(&*fork(&workflow, at, "f").unwrap(), "f");
    let other = BTreeMap::from([("./hello.wasm".to_owned(), other_bytes(folder.path()))]);
    let with = host.workflow_with("r", &other).unwrap();
    // A difference that was not announced is an error.
    let error = fork(&with, at, "g").unwrap_err();
    assert!(matches!(&error, RerunError::Fork(ForkError::Records(_))), "{error}");
    fork_with(&with, at, "g", true).unwrap();
    let other = BTreeMap::from([("./hello.wasm".to_owned(), guests("built/counter.wasm"))]);
    let with = host.workflow_with("r", &other).unwrap();
    let error = fork_with(&with, at, "h", true).unwrap_err();
    assert!(matches!(&error, RerunError::Fork(ForkError::Diverged(_))), "{error}");
    // A component that has a substitute is not needed.
    let (hello, kept) = (std::fs::read(guests("built/hello.wasm")).unwrap(), folder.path().join("components"));
    let mut files = std::fs::read_dir(&kept).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|file| std::fs::read(file).unwrap() == hello).unwrap();
    std::fs::rename(&file, folder.path().join("away")).unwrap();
    assert!(host.workflow_of("r").is_err() && host.workflow_with("r", &other).is_ok());
    std::fs::rename(folder.path().join("away"), &file).unwrap();
    let error = fork(&workflow, at + 100, "h").unwrap_err();
    assert!(matches!(&error, RerunError::Fork(ForkError::NoRecord { .. })), "{error}");

    for (id, body) in [("r", 1), ("f", 2), ("g", 3)] {
        let run = match id {
            "r" => run.clone(),
            id => host.recover(&host.workflow_of(id).unwrap(), id, RunOptions::default()).unwrap(),
        };
        run.signal("go", &json!(body)).unwrap();
        assert_eq!(outputs(&run.wait()), json!({ "fib": 8, "hello": "Hello, Ann!", "go": body }), "{id}");
    }
}

/// Fails as often as its arguments say, and records the keys that it was called with.
#[derive(Clone, Default)]
struct Flaky(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    keys: Vec<String>,
    fail: BTreeMap<String, Problem>,
}

impl Flaky {
    fn fails(&self, what: &str, problem: Problem) {
        self.0.lock().unwrap().fail.insert(what.to_owned(), problem);
    }

    fn works(&self) {
        self.0.lock().unwrap().fail.clear();
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = std::mem::take(&mut self.0.lock().unwrap().keys);
        // Without the digest of what a repeating run asks for.
        for key in &mut keys {
            if let Some(at) = key.find('~') {
                key.replace_range(at..at + 17, "");
            }
        }
        keys.sort();
        keys
    }

    fn host(&self) -> Host {
        let this = self.clone();
        let call = move |args: Payload, context: CallContext| {
            let Payload::Json(json) = &args else { panic!("{args:?}") };
            let what = json.as_str().to_owned();
            let mut state = this.0.lock().unwrap();
            state.keys.push(context.idempotency_key().to_string());
            state.fail.get(&what).cloned().map_or(Ok(args), |problem| Err(Arc::new(problem)))
        };
        builder(2, 8).handler("flaky", from_inline_fn(Declaration::new("Fails at times"), call)).build().unwrap()
    }
}

const STEPS: &str = "
steps:
  - { id: a, call: flaky, with: 1 }
  - { id: each, call: flaky, for-each: [10, 20, 30], max-parallel: 1, needs: a, with: '${ .item }', continue-on-error: true }
  - { id: b, call: flaky, needs: a, with: 2, retry: { max: 1, backoff: 1ms } }
  - { id: c, call: flaky, needs: b, with: 3 }
outputs: { all: '${ [.steps[].output] }', each: '${ .steps.each.output }' }
";

#[test]
fn a_retry_runs_what_failed_under_keys_that_say_what_is_known() {
    let flaky = Flaky::default();
    flaky.fails("20", Problem::new("broken", "It broke"));
    // It had no effect, twice; so the third attempt is another call.
    flaky.fails("2", Problem::new("busy", "It is busy").with_class(ProblemClass::Retryable));
    let host = flaky.host();
    let workflow = parse(&host, STEPS);
    let run = start(&host, &workflow);
    let outcome = run.wait();
    assert_eq!(cause(&outcome)["kind"], "busy");
    let id = run.id();
    let keys: Vec<String> =
        ["a/0/0", "b/0/0", "b/0/1", "each/0/0", "each/1/0", "each/2/0"].map(|key| format!("{id}/{key}")).into();
    assert_eq!(flaky.keys(), keys);

    let records = run.records().unwrap();
    let retry = |records: &[_], again: Rerun| {
        let options = RunOptions { records: true, ..RunOptions::default() };
        let again = RetryOptions { again, ..RetryOptions::default() };
        Ok::<_, RerunError>(host.retry(
            &workflow,
            host.prepare_retry(&workflow, records, &workflow, again)?,
            options,
        )?)
    };
    // It fails once more, with an unknown outcome.
    flaky.fails("2", Problem::new("lost", "The connection was lost").with_unknown_outcome(true));
    let second = retry(&records, Rerun::Failed).unwrap();
    assert!(second.wait().result.is_err());
    let again: Vec<String> = ["b/0/2", "b/0/2", "each/1/1"].map(|key| format!("{id}/{key}")).into();
    assert_eq!(flaky.keys(), again, "the keys of the first run");

    flaky.works();
    let third = retry(&second.records().unwrap(), Rerun::Failed).unwrap();
    assert_eq!(outputs(&third.wait()), json!({ "all": [1, [10, 20, 30], 2, 3], "each": [10, 20, 30] }));
    let again: Vec<String> = ["b/0/2", "c/0/0", "each/1/2"].map(|key| format!("{id}/{key}")).into();
    assert_eq!(flaky.keys(), again);

    // A part of a run that succeeded is run again on purpose, under the keys under which it
    // happened.
    let records = third.records().unwrap();
    assert!(matches!(retry(&records, Rerun::Failed), Err(RerunError::Repeat(RepeatError::NothingFailed))));
    let error = retry(&records, Rerun::From("bb".into())).err().unwrap();
    assert_eq!(error.to_string(), "the workflow has no step `bb`; did you mean `b`?");
    let fourth = retry(&records, Rerun::From("b".into())).unwrap();
    assert_eq!(outputs(&fourth.wait())["all"], json!([1, [10, 20, 30], 2, 3]));
    let again: Vec<String> = ["b/0/2", "c/0/0"].map(|key| format!("{id}/{key}")).into();
    assert_eq!(flaky.keys(), again);
    // What was given is in the records: the run can be replayed like any other.
    assert!(matches!(
        host.replay(&workflow, &fourth.records().unwrap(), ReplayOptions::default(), |_| {}),
        Ok(Replay::Same { .. })
    ));
}

#[test]
fn a_run_that_goes_on_is_not_repeated_and_one_that_was_cancelled_is() {
    let host = host(1, 4);
    let workflow = parse(&host, WORK);
    let run = start(&host, &workflow);
    wait_until(|| run.inner().signals().len() == 1);
    let retry = |records: &[_]| {
        let retrial = host.prepare_retry(&workflow, records, &workflow, RetryOptions::default())?;
        Ok::<_, RerunError>(host.retry(&workflow, retrial, RunOptions::default())?)
    };
    assert!(matches!(retry(&run.records().unwrap()), Err(RerunError::Repeat(RepeatError::NotEnded))));
    run.kill("enough");
    run.wait();
    let again = retry(&run.records().unwrap()).unwrap();
    assert_eq!(again.processes().len(), 1, "no guest runs again");
    again.signal("go", &json!(5)).unwrap();
    let outcome = again.wait();
    assert_eq!(outputs(&outcome)["go"], json!(5));
    assert_eq!(outcome.counts.processes, 1);
}

#[test]
fn what_was_in_flight_in_a_durable_run_waits_in_its_fork() {
    let never = wfhost::dispatch::from_fn(Declaration::new("Never answers"), |_, _| std::future::pending());
    let folder = tempfile::tempdir().unwrap();
    let host = builder(1, 4).data(folder.path()).handler("never", never).build().unwrap();
    let workflow = parse(&host, "steps: [{ id: w, call: never }]\noutputs: { w: '${ .steps.w.output }' }");
    let run = host.start(&workflow, Map::new(), named("r")).unwrap();
    wait_until(|| run.inner().counts().calls == 1 && run.inner().acknowledged().is_durable());
    let at = host.journal().unwrap().unwrap().records("r").unwrap().len() as u64;
    let id = host.fork(&workflow, "r", ForkOptions { at, ..ForkOptions::default() }).unwrap();
    let fork = host.recover(&workflow, &id, RunOptions::default()).unwrap();
    let held = fork.inner().uncertain();
    assert_eq!(held.len(), 1);
    assert_eq!(&*held[0].key, "r/w/0/0");
    fork.inner().resolve(Pid::ROOT, held[0].tag, Resolution::Answered(Ok(Payload::json(&7)))).unwrap();
    assert_eq!(outputs(&fork.wait()), json!({ "w": 7 }));
    run.kill("the test has ended");
    let _: Value = run.wait().to_json();
}
