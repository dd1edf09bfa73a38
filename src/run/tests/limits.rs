//! Each bound has its own problem, as the answer to a command or as the end of the process.

use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Blob, Command, Ending, Event, Limits, Micros, NUMBER_MAX, Payload, Permit, Pid, Problem, Status, Tag,
    Target, Timestamp,
};
use crate::run::{Bounds, Outcome, RunSpec};
use bytes::Bytes;
use std::sync::Arc;

fn bytes(length: usize) -> Payload {
    Payload::Bytes(Bytes::from(vec![0; length]))
}

fn limited(change: impl FnOnce(&mut Limits)) -> Setup {
    let mut setup = Setup::default();
    change(&mut setup.limits);
    setup
}

/// Where nothing counts but what is carried.
fn bounded(change: impl FnOnce(&mut Bounds)) -> Setup {
    let mut setup = Setup::default();
    setup.bounds.item_bytes = 0;
    change(&mut setup.bounds);
    setup
}

/// What the root receives when it gives these commands. Every other process idles until it is
/// cancelled.
fn hear(setup: &Setup, count: usize, commands: impl Fn() -> Vec<Action> + Send + Sync + Clone + 'static) -> String {
    let bench = Bench::with(setup, move |entry| match entry {
        "root" => collect(commands.clone(), count),
        _ => idle(),
    });
    output(&bench.finish())
}

fn idle() -> Act {
    act(|_, events| {
        if events.iter().any(|event| matches!(event, Event::Cancel { .. })) {
            Status::Complete(Payload::NULL)
        } else {
            Status::Idle
        }
    })
}

/// The problem that a root ends with which gives these commands and this status.
fn fail(setup: &Setup, commands: Vec<Action>, status: Status) -> Problem {
    let given = Arc::new((commands, status));
    let bench = Bench::with(setup, move |entry| {
        let given = Arc::clone(&given);
        if entry != "root" {
            return idle();
        }
        act(move |context, _| {
            for action in given.0.clone() {
                context.command(action);
            }
            given.1.clone()
        })
    });
    failure(&bench.finish())
}

fn failure(outcome: &Outcome) -> Problem {
    match &outcome.ending {
        Ending::Failed(problem) => (**problem).clone(),
        other => panic!("it ended otherwise: {other:?}"),
    }
}

#[test]
fn bounds_of_what_waits_for_an_answer() {
    let setup = limited(|limits| limits.outstanding = 2);
    let three = || vec![Action::Sleep(Micros(9)), Action::Sleep(Micros(9)), spawns("child")];
    assert_eq!(hear(&setup, 3, three), r#"["3 too-many-outstanding Definite","1 null","2 null"]"#);

    let setup = limited(|limits| limits.outstanding_bytes = 99);
    let two = || vec![calls("other", bytes(50)), calls("other", bytes(50))];
    assert_eq!(hear(&setup, 1, two), r#"["2 too-many-outstanding Definite"]"#);

    let setup = bounded(|bounds| bounds.bytes = 99);
    let two = || vec![calls("other", bytes(50)), calls("other", bytes(50))];
    assert_eq!(hear(&setup, 1, two), r#"["2 too-many-outstanding Definite"]"#);
}

#[test]
fn bounds_of_an_answer() {
    // The process may have it, the run holds too much.
    let mut bench =
        Bench::with(&bounded(|bounds| bounds.bytes = 99), |_| collect(|| vec![calls("safe", bytes(50))], 1));
    bench.desk.drain();
    let (_, reply) = bench.handlers.waiting.lock().pop().unwrap();
    reply.answer(Ok(bytes(100)));
    assert_eq!(output(&bench.finish()), r#"["1 too-large Uncertain"]"#);
}

#[test]
fn bounds_of_children() {
    let setup = limited(|limits| limits.processes = 3);
    let three = || vec![spawns("a"), spawns("b"), spawns("c")];
    assert_eq!(hear(&setup, 1, three), r#"["3 too-many-processes Retryable"]"#);

    let setup = limited(|limits| limits.spawn_depth = 2);
    let bench = Bench::with(&setup, |_| {
        let mut begun = false;
        act(move |context, events| {
            if !begun {
                begun = true;
                context.command(spawns("deeper"));
            }
            match answers(events).pop() {
                None => Status::Blocked,
                Some((_, Ok(depth))) => Status::Complete(number(1 + text(&depth).parse::<u64>().unwrap())),
                Some((_, Err(problem))) => {
                    assert_eq!(problem.kind, "too-deep");
                    Status::Complete(number(0))
                }
            }
        })
    });
    assert_eq!(output(&bench.finish()), "2");

    // The scheduler takes no more: the children were recorded, and die at once.
    let setup = Setup { places: 1, ..Setup::default() };
    let refused = r#"["1 no-capacity Definite","2 no-capacity Definite"]"#;
    assert_eq!(hear(&setup, 2, || vec![spawns("a"), spawns("b")]), refused);

    let unknown = || {
        let mut child = spawn("a");
        child.component = Some("nothing".into());
        let mut other = spawn("a");
        other.component = Some("other".into());
        vec![Action::Spawn(Box::new(child)), Action::Spawn(Box::new(other))]
    };
    assert_eq!(hear(&Setup::default(), 2, unknown), r#"["1 unknown-component Definite","2 42"]"#);

    let narrowed = |text: &'static str| {
        move || {
            let mut child = spawn("a");
            child.narrow = Some(crate::process::Json::parse(text).unwrap());
            vec![Action::Spawn(Box::new(child)), sends(Target::Child(Tag(1)), bytes(60))]
        }
    };
    let more = narrowed(r#"{"limits":{"mailbox":20000}}"#);
    assert_eq!(hear(&Setup::default(), 2, more), r#"["1 bad-narrow Definite","2 no-process Definite"]"#);
    let less = narrowed(r#"{"limits":{"mailbox":0}}"#);
    assert_eq!(hear(&Setup::default(), 1, less), r#"["2 mailbox-full Retryable"]"#);
    let less = narrowed(r#"{"limits":{"mailbox-bytes":50}}"#);
    assert_eq!(hear(&Setup::default(), 1, less), r#"["2 too-large Definite"]"#);
}

#[test]
fn bounds_of_mailboxes() {
    let to_child = |count: usize, length: usize| {
        move || {
            let mut all = vec![spawns("child")];
            all.extend((0..count).map(|_| sends(Target::Child(Tag(1)), bytes(length))));
            all
        }
    };
    let setup = limited(|limits| limits.mailbox = 2);
    assert_eq!(hear(&setup, 1, to_child(3, 1)), r#"["4 mailbox-full Retryable"]"#);
    let setup = limited(|limits| limits.mailbox_bytes = 100);
    assert_eq!(hear(&setup, 1, to_child(3, 40)), r#"["4 mailbox-full Retryable"]"#);
    let setup = bounded(|bounds| bounds.bytes = 100);
    assert_eq!(hear(&setup, 1, to_child(3, 40)), r#"["4 mailbox-full Retryable"]"#);
}

/// What is small counts as what the host holds for it.
#[test]
fn what_carries_little_is_bounded_by_what_it_takes_all_the_same() {
    let setup = bounded(|bounds| (bounds.bytes, bounds.item_bytes) = (3_000, 256));
    // A spawn waits for its answer, with `null` and no name, and ten messages of two bytes each fit
    // beside it.
    let to_child = || {
        let mut all = vec![spawns("child")];
        all.extend((0..12).map(|_| sends(Target::Child(Tag(1)), bytes(1))));
        all
    };
    assert_eq!(hear(&setup, 2, to_child), r#"["12 mailbox-full Retryable","13 mailbox-full Retryable"]"#);
    let sleeps = || vec![Action::Sleep(Micros(9)); 12];
    let refused = hear(&setup, 12, sleeps);
    assert!(refused.starts_with(r#"["12 too-many-outstanding Definite","1 null""#), "{refused}");
    let names = || (0..12).map(|number| Action::Register(format!("name {number}").into())).collect();
    let taken = hear(&setup, 12, names);
    assert!(taken.contains(r#""6 null","7 too-many-links Retryable""#), "{taken}");
    let long = || (0..12).map(|number| calls(&format!("{number}{}", "h".repeat(1_000)), Payload::NULL)).collect();
    let called = hear(&setup, 10, long);
    assert!(called.starts_with(r#"["3 too-many-outstanding Definite""#), "{called}");
}

#[test]
fn a_problem_counts_too_and_loses_its_texts_where_there_is_no_room() {
    let setup = bounded(|bounds| (bounds.bytes, bounds.item_bytes) = (20_000, 256));
    let bench = Bench::with(&setup, |entry| match entry {
        "root" => {
            let (mut begun, mut heard) = (false, Vec::new());
            act(move |context, events| {
                if !std::mem::replace(&mut begun, true) {
                    for _ in 0..9 {
                        context.command(spawns("child"));
                    }
                    context.command(Action::Sleep(Micros(1_000)));
                    return Status::Blocked;
                }
                heard.extend(answers(events).into_iter().filter_map(|(_, answer)| answer.err()));
                if heard.len() < 9 {
                    return Status::Blocked;
                }
                assert!(heard.iter().all(|problem| problem.kind == "mine"), "{heard:?}");
                Status::Complete(number(heard.iter().filter(|problem| problem.data.is_some()).count() as u64))
            })
        }
        _ => act(|_, _| {
            let long = serde_json::json!({ "x": "y".repeat(6_000) });
            Status::Failed(Arc::new(Problem::new("mine", "Mine").with_data(&long)))
        }),
    });
    let with_data: u64 = output(&bench.finish()).parse().unwrap();
    assert!((1..9).contains(&with_data), "{with_data}");
}

/// A root that sends six messages to a child that does not take them, and ends with the number of
/// those that were accepted.
fn flood(entry: &str) -> Act {
    let mut begun = false;
    if entry != "root" {
        return act(move |context, events| {
            if !std::mem::replace(&mut begun, true) {
                context.command(sends(Target::Process(Pid::ROOT), Payload::NULL));
                context.command(Action::Sleep(Micros(1_000_000_000)));
            }
            let is_cancelled = events.iter().any(|event| matches!(event, Event::Cancel { .. }));
            if is_cancelled { Status::Complete(Payload::NULL) } else { Status::Blocked }
        });
    }
    let mut taken = 6;
    act(move |context, events| {
        if !std::mem::replace(&mut begun, true) {
            context.command(spawns("child"));
            context.command(Action::Sleep(Micros(1_000)));
        }
        if events.iter().any(|event| matches!(event, Event::Message(_))) {
            for _ in 0..6 {
                context.command(sends(Target::Child(Tag(1)), bytes(100_000)));
            }
        }
        for (_, answer) in answers(events) {
            let Err(problem) = answer else { return Status::Complete(number(taken)) };
            let detail = problem.detail.as_ref().unwrap();
            assert!(problem.kind == "mailbox-full" && detail.contains("`HostBuilder::held_bytes_max`"), "{detail}");
            taken -= 1;
        }
        Status::Idle
    })
}

#[test]
fn all_runs_of_a_host_share_what_it_has_for_them() {
    let mut desk = Desk::new(1);
    desk.kernel.bound_held(1_000_000);
    let root = program(flood);
    let start = |desk: &mut Desk, id: &str| {
        let spec = spec(Arc::clone(&root), Arc::default(), &Setup::default());
        let run = desk.kernel.start(RunSpec { id: id.into(), ..spec }).unwrap();
        desk.drain();
        run
    };
    // It holds half of the capacity; the next one half of the rest; and one that holds little is
    // never refused.
    let runs = ["first", "second", "third", "fourth", "fifth"].map(|id| start(&mut desk, id));
    let held = desk.kernel.held_bytes();
    assert!((800_000..1_000_000).contains(&held), "{held}");
    desk.settle();
    let taken = runs.map(|run| output(&run.outcome().unwrap()));
    assert_eq!(taken, ["4", "3", "1", "1", "0"]);
    assert_eq!(desk.kernel.held_bytes(), 0);
}

/// What is read or written under the run's lock.
#[test]
fn bounds_of_what_signals_and_keys_are_given() {
    let spaced = || {
        let text = format!("{}{{\"name\":\"go\"}}", " ".repeat(66_000));
        vec![calls("signal", Payload::Json(crate::process::Json::parse(text).unwrap()))]
    };
    assert_eq!(hear(&Setup::default(), 1, spaced), r#"["1 too-large Definite"]"#);

    let mut setup = limited(|limits| limits.output_bytes = 1_500);
    setup.grants = crate::process::Grants(Arc::new([("kv".to_owned(), Vec::new())].into()));
    let value = "x".repeat(598);
    let heard = hear(&setup, 4, move || {
        let call = |args: serde_json::Value| calls("kv", Payload::json(&args));
        let get = || call(serde_json::json!({ "op": "get", "key": "a" }));
        vec![call(serde_json::json!({ "op": "set", "key": "a", "value": "x".repeat(598) })), get(), get(), get()]
    });
    assert_eq!(heard, format!(r#"["1 null","2 \"{value}\"","3 \"{value}\"","4 too-large Retryable"]"#));

    // Those of a guest are together no more than a payload.
    setup.limits = limited(|limits| limits.payload_bytes = 1_500).limits;
    let gets = || {
        let call = |args: serde_json::Value| calls("kv", Payload::json(&args));
        let get = || call(serde_json::json!({ "op": "get", "key": "a" }));
        vec![call(serde_json::json!({ "op": "set", "key": "a", "value": "x".repeat(450) })), get(), get(), get(), get()]
    };
    let native = program(move |_| collect(gets, 5));
    let root = guests(Permit { instances: 1, ..Permit::NONE }, move |init| native.body(init));
    let heard = output(&Bench::of(Desk::new(1), Arc::default(), &setup, &root).finish());
    assert!(heard.contains(r#"4 \"xxx"#) && heard.ends_with(r#","5 too-large Retryable"]"#), "{heard}");

    // Answers wait in the queue, and a run has so much room for what waits.
    setup.limits = limited(|limits| limits.output_bytes = 1 << 20).limits;
    (setup.bounds.bytes, setup.bounds.item_bytes) = (3_000, 256);
    let heard = hear(&setup, 5, move || {
        let call = |args: serde_json::Value| calls("kv", Payload::json(&args));
        let get = || call(serde_json::json!({ "op": "get", "key": "a" }));
        vec![call(serde_json::json!({ "op": "set", "key": "a", "value": "x".repeat(598) })), get(), get(), get(), get()]
    });
    assert_eq!(heard.matches(&value).count(), 3, "{heard}");
    assert!(heard.ends_with(r#","5 too-large Retryable"]"#), "{heard}");
}

#[test]
fn bounds_of_payloads() {
    let setup = limited(|limits| limits.payload_bytes = 100);
    let large = || {
        let mut child = spawn("a");
        child.input = bytes(101);
        vec![calls("inline", bytes(101)), sends(Target::Process(Pid(1)), bytes(101)), Action::Spawn(Box::new(child))]
    };
    let three = r#"["1 too-large Definite","2 too-large Definite","3 too-large Definite"]"#;
    assert_eq!(hear(&setup, 3, large), three);

    let expose = |length| Action::Expose { query: "q".into(), value: bytes(length) };
    assert_eq!(fail(&setup, vec![expose(101)], Status::Idle).kind, "too-large");
    assert_eq!(fail(&setup, vec![], Status::Complete(bytes(101))).kind, "too-large");
    assert_eq!(fail(&setup, vec![], Status::Renew { entry: "e".into(), input: bytes(101) }).kind, "too-large");

    let blob = Payload::Blob(Arc::new(Blob { digest: "blake3:0".into(), size: 1, media_type: "a/b".into() }));
    assert_eq!(fail(&setup, vec![], Status::Complete(blob.clone())).kind, "bad-blob");
    let call = move || vec![calls("inline", blob.clone())];
    assert_eq!(hear(&setup, 1, call), r#"["1 bad-blob Definite"]"#);
}

#[test]
fn bounds_of_the_whole_output() {
    let setup = limited(|limits| limits.commands_per_step = 2);
    let three = vec![Action::Sleep(Micros(1)); 3];
    assert_eq!(fail(&setup, three, Status::Blocked).kind, "too-many-commands");

    let setup = limited(|limits| limits.output_bytes = 1_000);
    let two = vec![calls("inline", bytes(600)), calls("inline", bytes(600))];
    assert_eq!(fail(&setup, two, Status::Blocked).kind, "too-large");

    let long: Arc<str> = "x".repeat(1_025).into();
    for action in [
        Action::Register(Arc::clone(&long)),
        Action::Expose { query: Arc::clone(&long), value: Payload::NULL },
        Action::Stop(Target::Name(Arc::clone(&long))),
        Action::Call(Box::new(call(&long, Payload::NULL))),
        Action::Spawn(Box::new(spawn(&long))),
        sends(Target::Run { run: Arc::clone(&long), name: "n".into() }, Payload::NULL),
    ] {
        assert_eq!(fail(&Setup::default(), vec![action], Status::Idle).kind, "too-large");
    }
}

#[test]
fn bounds_of_links_monitors_names_and_queries() {
    let setup = limited(|limits| limits.links = 1);
    let both =
        |make: fn(Target) -> Action| vec![spawns("child"), make(Target::Child(Tag(1))), make(Target::Child(Tag(1)))];
    assert_eq!(fail(&setup, both(Action::Monitor), Status::Blocked).kind, "too-many-links");
    assert_eq!(fail(&setup, both(Action::Link), Status::Blocked).kind, "too-many-links");
    let run = bounded(|bounds| bounds.ties = 1);
    assert_eq!(fail(&run, both(Action::Monitor), Status::Blocked).kind, "too-many-links");
    let names = || vec![Action::Register("a".into()), Action::Register("b".into())];
    assert_eq!(hear(&setup, 2, names), r#"["1 null","2 too-many-links Definite"]"#);
    let linked = || {
        let mut child = spawn("child");
        child.link = true;
        vec![Action::Spawn(Box::new(child.clone())), Action::Spawn(Box::new(child))]
    };
    assert_eq!(hear(&setup, 1, linked), r#"["2 too-many-links Definite"]"#);

    let expose = |query: &str| Action::Expose { query: query.into(), value: bytes(10) };
    let setup = bounded(|bounds| bounds.exposed = 1);
    assert_eq!(fail(&setup, vec![expose("a"), expose("b")], Status::Idle).kind, "too-large");
    let setup = bounded(|bounds| bounds.exposed_bytes = 10);
    assert_eq!(fail(&setup, vec![expose("a"), expose("b")], Status::Idle).kind, "too-large");
}

#[test]
fn fuel_of_all_steps_together() {
    struct Burner;
    impl crate::process::Body for Burner {
        fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
            events.clear();
        }
        fn poll(&mut self, output: &mut crate::process::Output) -> crate::process::Progress {
            output.fuel = 40;
            crate::process::Progress::Stepped(Status::Ready)
        }
    }
    let root = maker(|_| Ok(Box::new(Burner)));
    let setup = limited(|limits| limits.fuel_total = 100);
    let bench = Bench::of(Desk::new(1), Arc::default(), &setup, &root);
    let outcome = bench.finish();
    assert_eq!(failure(&outcome).kind, "fuel-exhausted");
    assert_eq!((outcome.counts.steps, outcome.counts.fuel), (2, 80));
}

#[test]
fn breaches_of_the_contract() {
    struct Liar(Vec<Command>);
    impl crate::process::Body for Liar {
        fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}
        fn poll(&mut self, output: &mut crate::process::Output) -> crate::process::Progress {
            output.commands.append(&mut self.0);
            crate::process::Progress::Stepped(Status::Blocked)
        }
    }
    let sleep = |tag| Command { tag: Tag(tag), action: Action::Sleep(Micros(1)) };
    let long = Command { tag: Tag(1), action: Action::Sleep(Micros(NUMBER_MAX)) };
    for (commands, kind) in [
        (vec![sleep(0)], "bad-tag"),
        (vec![sleep(2), sleep(2)], "bad-tag"),
        (vec![sleep(2), sleep(1)], "bad-tag"),
        (vec![sleep(NUMBER_MAX)], "bad-number"),
        (vec![long], "bad-number"),
    ] {
        let root = maker(move |_| Ok(Box::new(Liar(commands.clone()))));
        let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
        assert_eq!(failure(&bench.finish()).kind, kind);
    }
}

#[test]
fn blocked_on_nothing() {
    assert_eq!(fail(&Setup::default(), vec![], Status::Blocked).kind, "blocked-on-nothing");
    // A message does not wake it: that it came is no matter of luck.
    let own = vec![sends(Target::Process(Pid(1)), Payload::NULL)];
    assert_eq!(fail(&Setup::default(), own, Status::Blocked).kind, "blocked-on-nothing");
    // The answer to a send that failed does.
    let bench = Bench::new(|_| {
        let mut steps = 0;
        act(move |context, _| {
            steps += 1;
            if steps == 1 {
                context.command(sends(Target::Process(Pid(9)), Payload::NULL));
                Status::Blocked
            } else {
                Status::Complete(number(steps))
            }
        })
    });
    assert_eq!(output(&bench.finish()), "2");
}
