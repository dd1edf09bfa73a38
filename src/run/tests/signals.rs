//! Signals: sent to the call that waits, in order, and stored if none does.

use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Body, Context, Grants, Limits, Micros, Payload, Problem, ProcessInit, Program, Spawn, Status,
};
use crate::run::{Bounds, Refused, SignalStatus};
use std::sync::Arc;
use std::time::Duration;

/// Waits for a signal of this name, for so long at most.
fn waits(name: &str, timeout: Option<u64>) -> Action {
    let mut call = call("signal", Payload::json(&serde_json::json!({ "name": name })));
    call.timeout = timeout.map(Micros);
    Action::Call(Box::new(call))
}

fn root(commands: fn() -> Vec<Action>, count: usize) -> Bench {
    Bench::new(move |_| collect(commands, count))
}

#[test]
fn the_longest_waiter_gets_it_and_an_early_one_is_stored() {
    let mut bench = root(|| vec![waits("a", None), waits("a", None), waits("b", None), waits("a", None)], 4);
    bench.run.signal("b", number(9)).unwrap();
    bench.desk.drain();
    let status = |name: &str, waiting, kept| SignalStatus { name: name.into(), waiting, kept };
    assert_eq!(bench.run.signals(), [status("a", 3, 0)]);
    for body in [1, 2, 3, 4] {
        bench.run.signal("a", number(body)).unwrap();
    }
    assert_eq!(bench.run.signals(), [status("a", 0, 1)]);
    assert_eq!(output(&bench.finish()), r#"["3 9","1 1","2 2","4 3"]"#);
}

#[test]
fn nothing_stored_is_waited_for_while_blocked_and_no_call_is_abandoned() {
    let mut bench = Bench::new(|_| {
        act(|context: &mut Context<'_>, events| match events.pop() {
            None => {
                context.command(waits("a", None));
                context.command(waits("never", None));
                Status::Blocked
            }
            Some(_) => Status::Complete(Payload::NULL),
        })
    });
    bench.desk.drain();
    bench.run.signal("a", number(1)).unwrap();
    bench.desk.drain();
    assert_eq!(bench.run.signals(), []);
    assert_eq!(bench.run.signal("a", number(2)), Err(Refused::Ended));
    assert!(bench.handlers.abandoned.lock().is_empty());
    let outcome = bench.finish();
    assert!(outcome.abandoned.is_empty());
    assert_eq!(outcome.counts.calls, 0, "no handler had anything to do with it");
}

#[test]
fn a_wait_ends_at_its_time_and_the_signal_is_then_stored() {
    let mut bench = root(|| vec![waits("a", Some(5_000))], 1);
    bench.desk.drain();
    bench.desk.advance(Micros(5_000));
    bench.desk.fire();
    bench.run.signal("a", number(1)).unwrap();
    assert_eq!(bench.run.signals().len(), 1);
    assert_eq!(output(&bench.finish()), r#"["1 timed-out Retryable"]"#);
}

#[test]
fn the_time_of_a_wait_stands_still_while_the_run_is_paused() {
    let mut bench = root(|| vec![waits("a", Some(5_000))], 1);
    bench.desk.drain();
    let waits = |bench: &Bench| project(&bench.run.records().unwrap()).signal_waits();
    let [before] = &waits(&bench)[..] else { panic!("one call waits") };
    assert_eq!((&*before.name, before.until), ("a", Some(before.since.saturating_add(Micros(5_000)))));
    bench.run.pause().unwrap();
    assert_eq!(waits(&bench), std::slice::from_ref(before), "it does not know for how long");
    bench.desk.advance(Micros(50_000));
    while bench.desk.fire() {}
    bench.run.unpause().unwrap();
    assert_eq!(waits(&bench)[0].until, Some(before.since.saturating_add(Micros(55_000))));
    bench.run.signal("a", number(1)).unwrap();
    assert_eq!(output(&bench.finish()), r#"["1 1"]"#);
}

#[test]
fn a_wait_that_is_taken_back_takes_no_signal() {
    let mut bench = root(|| vec![waits("a", None), waits("a", None), Action::Cancel(crate::process::Tag(1))], 2);
    bench.desk.drain();
    bench.run.signal("a", number(1)).unwrap();
    assert_eq!(output(&bench.finish()), r#"["1 cancelled Definite","2 1"]"#);
}

#[test]
fn arguments_that_name_no_signal_are_reported() {
    let bench =
        root(|| vec![calls("signal", number(1)), calls("signal", Payload::NULL), waits(&"n".repeat(1_025), None)], 3);
    assert_eq!(
        output(&bench.finish()),
        r#"["1 bad-arguments Definite","2 bad-arguments Definite","3 too-large Definite"]"#
    );
}

#[test]
fn as_many_are_stored_as_the_run_may_and_none_that_is_too_large() {
    let setup = Setup {
        bounds: Bounds { signals: 2, ..Bounds::default() },
        limits: Limits { payload_bytes: 100, ..Limits::default() },
        ..Setup::default()
    };
    let bench = Bench::with(&setup, |_| collect(|| vec![Action::Sleep(Micros(1)), waits("a", None)], 2));
    let long = Payload::json(&"x".repeat(100));
    assert_eq!(bench.run.signal("a", long), Err(Refused::TooLarge));
    assert_eq!(bench.run.signal(&"n".repeat(1_025), number(1)), Err(Refused::TooLarge));
    bench.run.signal("a", number(1)).unwrap();
    bench.run.signal("a", number(2)).unwrap();
    assert_eq!(bench.run.signal("a", number(3)), Err(Refused::Full));
    assert_eq!(output(&bench.finish()), r#"["2 1","1 null"]"#);
}

#[test]
fn a_process_with_less_room_than_its_run_is_notified_and_the_signal_is_gone() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(
            || {
                let limits = || (&serde_json::json!({"limits": {"payload-bytes": 40}})).into();
                let narrow = |entry| Spawn { narrow: Some(limits()), ..spawn(entry) };
                ["child", "any"].map(narrow).map(|child| Action::Spawn(Box::new(child))).into()
            },
            2,
        ),
        "any" => collect(|| vec![waits_for_any(&["b"])], 1),
        _ => collect(|| vec![waits("a", None)], 1),
    });
    bench.run.signal("a", Payload::json(&"x".repeat(80))).unwrap();
    // This one has room alone, and none with its name.
    bench.run.signal("b", Payload::json(&"x".repeat(30))).unwrap();
    let said = output(&bench.finish());
    assert_eq!(said.matches("too-large Definite").count(), 2, "{said}");
}

#[test]
fn a_mailbox_that_was_full_gets_the_rest_in_order_when_it_has_room() {
    let setup = Setup { limits: Limits { mailbox: 2, ..Limits::default() }, ..Setup::default() };
    let mut bench = Bench::with(&setup, |_| collect(|| vec![Action::Register("door".into())], 6));
    bench.desk.drain();
    for body in 1..=5 {
        bench.run.signal("door", number(body)).unwrap();
    }
    let retained = SignalStatus { name: "door".into(), waiting: 0, kept: 3 };
    assert_eq!(bench.run.signals(), [retained]);
    assert_eq!(project(&bench.run.records().unwrap()).signals(), bench.run.signals());
    let outcome = bench.finish();
    let expected =
        r#"["1 null","outside door: 1","outside door: 2","outside door: 3","outside door: 4","outside door: 5"]"#;
    assert_eq!(output(&outcome), expected);
}

#[test]
fn a_wait_goes_before_a_name() {
    let mut bench = root(|| vec![Action::Register("a".into()), waits("a", None)], 3);
    bench.desk.drain();
    bench.run.signal("a", number(1)).unwrap();
    bench.run.signal("a", number(2)).unwrap();
    assert_eq!(output(&bench.finish()), r#"["1 null","2 1","outside a: 2"]"#);
}

#[test]
fn a_cancelled_run_waits_no_more() {
    let mut bench = root(|| vec![waits("a", None)], 1);
    bench.desk.drain();
    bench.run.cancel("enough", Some(Duration::from_secs(1))).unwrap();
    assert_eq!(output(&bench.finish()), r#"["cancel: enough"]"#);
}

/// A root that waits for the signal `own`.
struct Waits(Arc<dyn Program>);

impl Program for Waits {
    fn digest(&self) -> Arc<str> {
        self.0.digest()
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        self.0.body(init)
    }

    fn waits_for_signal(&self, name: &str) -> bool {
        name == "own"
    }
}

#[test]
fn what_the_root_waits_for_no_child_takes_without_a_grant() {
    let named = || Action::Spawn(Box::new(Spawn { name: Some("own".into()), ..spawn("leaf") }));
    let any = || waits_for_any(&["else", "own"]);
    let child = move || vec![waits("own", None), Action::Register("own".into()), named(), waits("other", None), any()];
    for granted in [None, Some("other"), Some("own"), Some("*")] {
        let root = program(move |entry| match entry {
            "root" => collect(move || vec![spawns("child")], 1),
            "leaf" => act(|_, _| Status::Complete(Payload::NULL)),
            _ => collect(child, 5),
        });
        let names = granted.map(|name| ("signal".to_owned(), vec![name.to_owned()]));
        let setup = Setup { grants: Grants(Arc::new(names.into_iter().collect())), ..Setup::default() };
        let root: Arc<dyn Program> = Arc::new(Waits(root));
        let mut bench = Bench::of(Desk::new(1), Arc::default(), &setup, &root);
        bench.desk.drain();
        for name in ["own", "other", "else"] {
            bench.run.signal(name, number(1)).unwrap();
        }
        let said = output(&bench.finish());
        let is_granted = matches!(granted, Some("own" | "*"));
        assert_eq!(said.matches("not-granted").count(), if is_granted { 0 } else { 4 }, "{granted:?}: {said}");
    }
}

/// A smaller one would have room while a larger one waits.
#[test]
fn no_signal_goes_before_a_stored_one_of_its_name() {
    let setup = Setup { limits: Limits { mailbox_bytes: 1_000, ..Limits::default() }, ..Setup::default() };
    let mut bench = Bench::with(&setup, |_| collect(|| vec![Action::Register("door".into())], 4));
    bench.desk.drain();
    let large = |letter: &str| Payload::json(&letter.repeat(600));
    for body in [large("a"), large("b"), number(3)] {
        bench.run.signal("door", body).unwrap();
    }
    let output = output(&bench.finish());
    let heard: Vec<&str> = output.split("outside door: ").map(|text| &text[..3]).collect();
    assert_eq!(heard, ["[\"1", "\\\"a", "\\\"b", "3\"]"]);
}

/// Waits for the first of several signals.
fn waits_for_any(names: &[&str]) -> Action {
    let any: Vec<_> = names.iter().map(|name| serde_json::json!({ "name": name })).collect();
    Action::Call(Box::new(call("signal", Payload::json(&serde_json::json!({ "any": any })))))
}

#[test]
fn a_call_for_one_of_several_takes_the_first_and_no_other() {
    let mut bench = root(|| vec![waits_for_any(&["a", "b"]), waits("b", None)], 2);
    bench.desk.drain();
    let status = |name: &str, waiting, kept| SignalStatus { name: name.into(), waiting, kept };
    assert_eq!(bench.run.signals(), [status("a", 1, 0), status("b", 2, 0)]);
    let waits = project(&bench.run.records().unwrap()).signal_waits();
    assert_eq!(waits.iter().map(|wait| &*wait.name).collect::<Vec<_>>(), ["a", "b", "b"]);
    bench.run.signal("b", number(5)).unwrap();
    bench.desk.drain();
    assert_eq!(bench.run.signals(), [status("b", 1, 0)], "it waits no more, for the other neither");
    bench.run.signal("a", number(6)).unwrap();
    bench.run.signal("b", number(7)).unwrap();
    bench.desk.drain();
    assert_eq!(bench.run.signals(), [status("a", 0, 1)]);
    let outcome = bench.finish();
    assert_eq!(output(&outcome), r#"["1 {\"name\":\"b\",\"body\":5}","2 7"]"#);
}

#[test]
fn of_several_retained_signals_the_first_in_the_calls_order_is_taken() {
    let mut bench = root(|| vec![waits_for_any(&["none", "b", "a"])], 1);
    bench.run.signal("a", number(1)).unwrap();
    bench.run.signal("b", number(2)).unwrap();
    bench.desk.drain();
    let status = |name: &str, waiting, kept| SignalStatus { name: name.into(), waiting, kept };
    assert_eq!(bench.run.signals(), [status("a", 0, 1)]);
    assert_eq!(output(&bench.finish()), r#"["1 {\"name\":\"b\",\"body\":2}"]"#);
}

#[test]
fn what_cannot_be_waited_for_is_a_problem() {
    let many: Vec<String> = (0..101).map(|at| format!("n{at}")).collect();
    let asks = [
        serde_json::json!({ "any": [] }),
        serde_json::json!({ "any": many.iter().map(|name| serde_json::json!({ "name": name })).collect::<Vec<_>>() }),
        serde_json::json!({ "any": [{ "name": "a" }, { "name": "a" }] }),
        serde_json::json!({ "any": [{ "title": "no name" }] }),
        serde_json::json!({ "any": [{ "any": [{ "name": "a" }] }] }),
        serde_json::json!({ "any": [{ "name": "a", "any": [{ "name": "b" }] }] }),
        serde_json::json!({ "any": [{ "name": "a" }], "name": "b" }),
        serde_json::json!({}),
    ];
    for ask in asks {
        let count = asks_of(&ask);
        assert!(count.contains("bad-arguments"), "{ask}: {count}");
    }
}

fn asks_of(ask: &serde_json::Value) -> String {
    let ask = ask.clone();
    let mut bench = Bench::new(move |_| {
        let ask = ask.clone();
        collect(move || vec![Action::Call(Box::new(call("signal", Payload::json(&ask))))], 1)
    });
    bench.desk.drain();
    output(&bench.finish())
}

#[test]
fn a_signal_that_nests_too_deep_for_its_name_beside_it_is_a_problem_of_the_call() {
    let mut bench = root(|| vec![waits_for_any(&["a"])], 1);
    bench.desk.drain();
    let depth = crate::process::JSON_DEPTH_MAX;
    let deep = crate::process::Json::parse(format!("{}{}", "[".repeat(depth), "]".repeat(depth))).unwrap();
    bench.run.signal("a", Payload::Json(deep)).unwrap();
    bench.desk.drain();
    assert_eq!(output(&bench.finish()), r#"["1 json-too-deep Definite"]"#);
}

#[test]
fn a_wait_for_several_ends_at_its_time_and_shows_what_each_is_for() {
    let mut bench = root(
        || {
            let any = serde_json::json!([{ "name": "a", "title": "Publish it?" }, { "name": "b" }]);
            let mut call = call("signal", Payload::json(&serde_json::json!({ "any": any })));
            call.timeout = Some(Micros(5_000_000));
            vec![Action::Call(Box::new(call))]
        },
        1,
    );
    bench.desk.drain();
    let waits = project(&bench.run.records().unwrap()).signal_waits();
    let shown: Vec<_> = waits.iter().map(|wait| wait.prompt.as_ref().map(crate::process::Json::to_value)).collect();
    assert_eq!(shown, [Some(serde_json::json!({ "name": "a", "title": "Publish it?" })), None]);
    bench.desk.advance(Micros(5_000_000));
    bench.desk.fire();
    assert_eq!(bench.run.signals(), []);
    assert_eq!(output(&bench.finish()), r#"["1 timed-out Retryable"]"#);
}
