//! The host within another program.

use crate::support::{begin, builder, cause, host, outputs, parse, run, wait_until};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wfhost::dispatch::{Declaration, arguments, from_fn, from_inline_fn};
use wfhost::host::{HostError, LoadError, RunOptions, Status};
use wfhost::process::{Action, Context, Event, Payload, Problem, Process, Status as Step};

fn on_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

const HELLO: &str =
    "{ steps: [{ id: x, uses: ./hello.wasm, with: { name: Ann } }], outputs: { x: \"${ .steps.x.output }\" } }";

#[test]
fn two_hosts_do_not_know_of_each_other() {
    let hosts = [host(1, 8), host(2, 8)];
    let [one, other] = &hosts;
    let same_id = || RunOptions { id: Some("the-run".to_owned()), ..RunOptions::default() };
    let waits = "steps: [{ id: x, wait: 1h }]";
    let waiting = one.start(&parse(one, waits), Map::new(), same_id()).unwrap();
    let refused = one.start(&parse(one, HELLO), Map::new(), same_id());
    assert!(matches!(refused, Err(LoadError::Exists { id }) if id == "the-run"));
    let outcome = other.start(&parse(other, HELLO), Map::new(), same_id()).unwrap().wait();
    assert_eq!(outputs(&outcome)["x"]["greeting"], "Hello, Ann!");
    assert_eq!(other.shutdown_blocking(Duration::from_mins(1)), 0);
    assert!(waiting.outcome().is_none());
    waiting.kill("the test has ended");
    assert_eq!(waiting.wait().status, Status::Cancelled);
}

#[test]
fn a_workflow_is_loaded_once_and_run_many_times() {
    let host = host(2, 8);
    let text =
        "{ inputs: { name: string }, steps: [{ id: x, uses: ./hello.wasm, with: { name: \"${ .inputs.name }\" } }],
                  outputs: { x: \"${ .steps.x.output.greeting }\" } }";
    let workflow = parse(&host, text);
    on_tokio(async {
        for name in ["Ann", "Bob"] {
            let inputs = Map::from_iter([("name".to_owned(), Value::from(name))]);
            let outcome = host.run(&workflow, inputs).await.unwrap();
            assert_eq!(outputs(&outcome)["x"], format!("Hello, {name}!"));
        }
        assert!(matches!(host.run(&workflow, Map::new()).await, Err(LoadError::Inputs(_))));
    });
}

#[test]
fn own_handlers() {
    #[derive(serde::Deserialize)]
    struct Terms {
        a: i64,
        b: i64,
    }
    let add = from_inline_fn(Declaration::new("Adds").repeatable(), |args, _| {
        arguments::<Terms>(&args).map(|terms| Payload::json(&(terms.a + terms.b))).map_err(Arc::new)
    });
    let slow = from_fn(Declaration::new("Answers later").capability("patience"), |args, _| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(args)
    });
    let panics = from_inline_fn(Declaration::new("Panics").repeatable(), |_, _| panic!("as the test wants"));
    let host = builder(1, 8).handler("add", add).handler("slow", slow).handler("panics", panics).build().unwrap();
    assert_eq!(host.handlers(), ["add", "blob.get", "blob.put", "http", "kv", "log", "panics", "slow"]);
    let text = json!({
        "steps": [
            { "id": "sum", "call": "add", "with": { "a": 1, "b": 2 } },
            // A guest reaches them as a step does.
            { "id": "guest", "uses": "./conformance-c.wasm", "entry": "call",
              "with": { "handler": "add", "args": { "a": "${ .steps.sum.output }", "b": 4 } } },
            { "id": "bad", "call": "add", "with": { "a": 1 }, "continue-on-error": true },
            { "id": "slow", "call": "slow", "with": "x", "allow": { "patience": ["*"] } },
            // A guest's calls are only known when it runs.
            { "id": "hasty", "uses": "./conformance-c.wasm", "entry": "call",
              "with": { "handler": "slow", "args": "x" }, "continue-on-error": true },
            { "id": "panics", "call": "panics", "continue-on-error": true },
        ],
        "outputs": { "all": "${ [.steps.sum.output, .steps.guest.output, .steps.bad.error.kind, .steps.slow.output, \
                                 .steps.hasty.error.kind, .steps.panics.error.kind] }" },
    });
    let found = outputs(&run(&host, &text.to_string()));
    assert_eq!(found["all"], json!([3, 7, "bad-arguments", "x", "not-granted", "host-fault"]));
}

/// Adds up numbers sent from outside, as many as its input says.
#[derive(Default)]
struct Tally {
    left: u64,
    sum: u64,
}

impl Process for Tally {
    fn init(&mut self, context: &mut Context<'_>, _: &str, input: Payload) -> Result<(), Problem> {
        self.left = number(&input).ok_or_else(|| Problem::new("bad-input", "It wants a number"))?;
        context.command(Action::Register("tally".into()));
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Step {
        for event in events.drain(..) {
            if let Event::Message(message) = event {
                self.sum += number(&message.body).unwrap_or(0);
                self.left -= 1;
                context.command(Action::Expose { query: "sum".into(), value: Payload::json(&self.sum) });
            }
        }
        if self.left == 0 { Step::Complete(Payload::json(&self.sum)) } else { Step::Idle }
    }
}

fn number(payload: &Payload) -> Option<u64> {
    match payload {
        Payload::Json(json) => json.to_value().as_u64(),
        _ => None,
    }
}

#[test]
fn own_native_processes() {
    let host = builder(1, 8).native("tally", 1, Tally::default).build().unwrap();
    let text = |with: &str| {
        format!(
            "{{ components: {{ tally: \"native:tally\" }}, steps: [{{ id: x, uses: tally, with: {with} }}],
                outputs: {{ x: \"${{ .steps.x.output }}\" }} }}"
        )
    };
    assert_eq!(cause(&run(&host, &text("many")))["kind"], "bad-input");
    let run = begin(&host, &text("2"));
    // The first one may arrive before the process exists: it waits for the name.
    run.inner().signal("tally", Payload::json(&1)).unwrap();
    wait_until(|| run.query("sum") == Some(Payload::json(&1)));
    assert!(run.outcome().is_none());
    run.inner().signal("tally", Payload::json(&2)).unwrap();
    assert_eq!(outputs(&run.wait())["x"], 3);

    // A step may name it without a component of its own.
    let direct = "{ steps: [{ id: x, uses: \"native:tally\", with: 0 }], outputs: { x: \"${ .steps.x.output }\" } }";
    assert_eq!(outputs(&self::run(&host, direct))["x"], 0);
    for text in [
        "{ components: { x: \"native:tully\" }, steps: [{ id: x, uses: x }] }",
        "{ steps: [{ id: x, uses: \"native:tully\" }] }",
    ] {
        let message = host.parse("x.yaml", text, ".").err().unwrap().to_string();
        assert!(message.contains("there is no native process `tully`"), "{message}");
        assert!(message.contains("did you mean `native:tally`?"), "{message}");
    }
    let twice = builder(1, 8).native("tally", 1, Tally::default).native("tally", 2, Tally::default).build();
    assert!(matches!(twice, Err(HostError::DuplicateNative { name }) if name == "tally"));
}

/// Reports when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_host_may_be_dropped_in_async_context_with_calls_in_flight() {
    let (called, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_called, is_dropped) = (Arc::clone(&called), Arc::clone(&dropped));
    let never = from_fn(Declaration::new("Never answers"), move |_, _| {
        let guard = Dropped(Arc::clone(&is_dropped));
        is_called.store(true, Ordering::SeqCst);
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    on_tokio(async {
        let host = builder(2, 8).handler("never", never).build().unwrap();
        let run = begin(&host, "steps: [{ id: x, call: never }, { id: y, uses: ./hostile.wasm, entry: endless-loop }]");
        wait_until(|| called.load(Ordering::SeqCst));
        drop(run);
        drop(host);
    });
    // The host's own runtime ends on its threads.
    wait_until(|| dropped.load(Ordering::SeqCst));
}

#[test]
fn a_shutdown_cancels_what_runs_and_lets_nothing_new_start() {
    let host = host(2, 8);
    let idle = begin(&host, "steps: [{ id: x, wait: 1h }, { id: y, uses: ./family.wasm, entry: idle }]");
    let hog = "steps: [{ id: x, uses: ./hostile.wasm, entry: endless-loop, limits: { grace: 1ms, fuel-per-step: 1000000G } }]";
    let hog = begin(&host, hog);
    wait_until(|| host.stats().preemptions > 3);
    let workflow = parse(&host, HELLO);
    on_tokio(async {
        assert_eq!(host.shutdown(Duration::from_mins(5)).await, 0);
        assert_eq!(idle.finished().await.status, Status::Cancelled);
        assert_eq!(hog.finished().await.status, Status::Cancelled);
        assert!(matches!(host.run(&workflow, Map::new()).await, Err(LoadError::ShuttingDown)));
        // A second shutdown has nothing to do.
        assert_eq!(host.shutdown(Duration::ZERO).await, 0);
    });
}
