//! Which processes one may end: itself, its descendants, and those that have accepted it. How much
//! a run may write.

use super::support::*;
use crate::base::Monotonic;
use crate::journal::{InMemory, Journal, NewRun};
use crate::process::{
    Action, Context, Ending, Event, Level, LogLine, Micros, Payload, Pid, Problem, Spawn, Status, Target, Timestamp,
};
use crate::run::{Decision, Record};
use std::sync::Arc;

fn waits() -> Action {
    calls("signal", Payload::json(&serde_json::json!({ "name": "word" })))
}

fn stop(pid: u64) -> Action {
    Action::Stop(Target::Process(Pid(pid)))
}

fn link(pid: u64) -> Action {
    Action::Link(Target::Process(Pid(pid)))
}

/// Gives these commands, and fails with the events when it has received that many.
fn attacks(commands: fn() -> Vec<Action>, count: usize) -> Act {
    let mut collects = collect(commands, count);
    act(move |context, events| match collects(context, events) {
        Status::Complete(heard) => Status::Failed(Arc::new(Problem::new("mine", text(&heard)))),
        status => status,
    })
}

#[test]
fn a_process_ends_neither_its_parent_nor_another_child_of_it() {
    let mut bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("victim"), spawns("attacker")], 2),
        "victim" => collect(|| vec![waits()], 1),
        _ => attacks(|| vec![stop(1), stop(2), link(1), link(2), Action::Monitor(Target::Process(Pid(2)))], 4),
    });
    bench.desk.drain();
    bench.run.signal("word", number(7)).unwrap();
    let heard = output(&bench.finish());
    assert!(heard.contains("1 [\\\"1 7\\\"]"), "the victim has its signal, and nothing else: {heard}");
    assert!(heard.contains("2 mine"), "{heard}");
}

#[test]
fn a_refused_process_receives_the_reason_by_the_tag_of_its_command() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("attacker")], 1),
        _ => collect(|| vec![stop(1), link(1)], 2),
    });
    let heard = output(&bench.finish());
    let expected = r#"1 [\"1 not-accepted Definite\",\"exit of 1 by 2: failed not-accepted\"]"#;
    assert_eq!(heard, format!("[\"{expected}\"]"));
}

/// By a name, by a link of its own, or as a descendant: a child, and a child of that; not one whose
/// parent is gone.
#[test]
fn who_has_accepted_it_and_who_is_below_can_be_ended() {
    fn ends(victim: fn(&mut Context<'_>), commands: fn() -> Vec<Action>) -> bool {
        let mut bench = Bench::new(move |entry| match entry {
            "root" => collect(|| vec![spawns("victim"), spawns("ender")], 2),
            "victim" => {
                let mut begun = false;
                act(move |context, events| {
                    if !std::mem::replace(&mut begun, true) {
                        victim(context);
                    }
                    let is_ended = events.drain(..).any(|event| matches!(event, Event::Cancel { .. }));
                    if is_ended { Status::Complete(Payload::NULL) } else { Status::Idle }
                })
            }
            // The victim begins first.
            _ => {
                let mut steps = 0;
                act(move |context, _| {
                    steps += 1;
                    match steps {
                        1 => {
                            context.command(Action::Sleep(Micros(5)));
                        }
                        2 => commands().into_iter().for_each(|action| {
                            context.command(action);
                        }),
                        _ => return Status::Failed(Arc::new(Problem::new("mine", "It failed"))),
                    }
                    if steps == 1 { Status::Blocked } else { Status::Ready }
                })
            }
        });
        bench.desk.drain();
        while bench.desk.now() < Monotonic(5) {
            bench.desk.fire();
        }
        bench.desk.drain();
        let is_ended = bench.run.processes().iter().all(|process| process.pid != Pid(2));
        bench.run.kill("the test is over");
        bench.finish();
        is_ended
    }
    assert!(!ends(|_| {}, || vec![stop(2)]));
    assert!(!ends(|_| {}, || vec![link(2)]));
    for commands in [|| vec![stop(2)], || vec![link(2)]] {
        let registers: fn(&mut Context<'_>) = |context| {
            context.command(Action::Register("hub".into()));
        };
        let monitors: fn(&mut Context<'_>) = |context| {
            context.command(Action::Monitor(Target::Process(Pid(3))));
        };
        assert!(ends(registers, commands), "it has a name");
        assert!(!ends(monitors, commands), "a monitor is no link");
    }
}

/// A child is linked to its parent by the spawn, as the parent asked: a link of its own is the
/// child's.
#[test]
fn a_process_that_has_linked_to_another_can_be_ended_by_it() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("linker"), Action::Register("root".into())], 9),
        "linker" => {
            let mut begun = false;
            act(move |context, _| {
                if !std::mem::replace(&mut begun, true) {
                    context.command(spawns("below"));
                    context.command(Action::Sleep(Micros(5)));
                    return Status::Blocked;
                }
                context.command(Action::Link(Target::Name("root".into())));
                Status::Idle
            })
        }
        _ => act(|_, _| Status::Idle),
    });
    let mut desk = bench.desk.clone();
    desk.drain();
    let accepts = |pid, by| {
        let run = bench.run.run().unwrap();
        let inner = run.inner.lock();
        inner.state.look_up_accepting(Pid(by), &Target::Process(Pid(pid))).is_ok()
    };
    assert!(accepts(1, 3), "it has a name");
    assert!(!accepts(2, 3));
    let run = bench.run.run().unwrap();
    run.inner.lock().state.tie(Pid(2), crate::process::Tag(9), Pid(3), true);
    assert!(accepts(2, 3), "it has linked to it");
    assert!(!accepts(3, 9) || accepts(3, 2), "and the other way round it is its parent");
    bench.run.kill("the test is over");
    desk.settle();
}

#[test]
fn below_a_process_are_its_children_and_theirs_and_no_detached_one_whose_parent_is_gone() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("parent"), Action::Sleep(Micros(5))], 1),
        "parent" => collect(|| vec![spawns("idle")], 9),
        _ => act(|_, _| Status::Idle),
    });
    bench.desk.clone().drain();
    let run = bench.run.run().unwrap();
    let inner = run.inner.lock();
    let look = |by, pid| inner.state.look_up_accepting(Pid(by), &Target::Process(Pid(pid)));
    for (by, pid, accepted) in
        [(1, 1, true), (1, 2, true), (1, 3, true), (2, 3, true), (3, 3, true), (3, 2, false), (2, 1, false)]
    {
        assert_eq!(look(by, pid).is_ok(), accepted, "{by} ends {pid}");
    }
    assert!(matches!(look(3, 77), Ok(Decision::Gone { .. })), "what is not there is told as ever");
    drop(inner);
    bench.run.kill("the test is over");
    bench.finish();
}

/// What earlier releases have granted stays granted: a replay takes it from the record.
#[test]
fn what_was_granted_once_is_replayed() {
    let root = program(|entry| match entry {
        "root" => collect(|| vec![spawns("victim"), spawns("attacker")], 2),
        "victim" => act(|_, events| match events.pop() {
            Some(_) => Status::Complete(Payload::NULL),
            None => Status::Idle,
        }),
        _ => {
            let mut begun = false;
            act(move |context, _| {
                if !std::mem::replace(&mut begun, true) {
                    context.command(stop(2));
                }
                Status::Idle
            })
        }
    });
    let bench = Bench::of(super::desk::Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    let mut records = bench.run.records().unwrap();
    let stopped = records.iter_mut().find_map(|record| match record {
        Record::Stepped(stepped) if stepped.pid == Pid(3) => stepped.decided.first_mut(),
        _ => None,
    });
    stopped.unwrap().decision = Decision::Meant(Pid(2));
    // Without what followed the refusal.
    let at =
        records.iter().position(|record| matches!(record, Record::Stepped(stepped) if stepped.pid == Pid(3))).unwrap();
    let run = recover(&super::desk::Desk::new(1), &root, &Arc::default(), &records[..=at]);
    let doing: Vec<_> = run.processes().into_iter().map(|process| (process.pid.0, process.doing)).collect();
    assert!(doing.contains(&(2, crate::run::Doing::Cancelling)), "{doing:?}");
}

fn journal(id: &str) -> (InMemory, NewRun) {
    let new = NewRun {
        id: id.into(),
        name: "work".into(),
        created: Timestamp(1),
        manifest: String::new(),
        components: Vec::new(),
        ..NewRun::default()
    };
    (InMemory::default(), new)
}

/// Logs a line in each step and never waits.
fn chatty() -> Act {
    act(|context, _| {
        context.log(LogLine { level: Level::Info, text: "x".repeat(1_000), fields: None });
        Status::Ready
    })
}

#[test]
fn a_run_that_has_written_more_than_its_journal_may_hold_ends_as_that() {
    const BOUND: u64 = 50_000;
    let root = program(|entry| match entry {
        "root" => {
            let mut chatty = chatty();
            let mut begun = false;
            act(move |context, events| {
                if !std::mem::replace(&mut begun, true) {
                    context.command(spawns("chatty"));
                    context.command(Action::Spawn(Box::new(Spawn { detached: true, ..spawn("chatty") })));
                }
                chatty(context, events)
            })
        }
        _ => chatty(),
    });
    for recovered_after in [None, Some(20)] {
        let (journal, new) = journal("run");
        let mut desk = super::desk::Desk::new(1);
        let mut spec = spec(Arc::clone(&root), Arc::default(), &Setup::default());
        desk.kernel.bound_journals(BOUND);
        spec.log = journal.begin(&new).unwrap();
        let mut run = desk.kernel.start(spec).unwrap();
        if let Some(steps) = recovered_after {
            // What was written before counts.
            (0..steps).for_each(|_| assert!(desk.turn()));
            desk.kernel.detach();
            drop((run, desk));
            let taken = journal.recover("run").unwrap();
            assert!(taken.log.bytes() > 5_000);
            let records = Record::decode_all(taken.records).unwrap();
            desk = super::desk::Desk::new(2);
            desk.kernel.bound_journals(BOUND);
            let spec = crate::run::RecoverySpec { log: taken.log, ..recovery_spec(&root, &Arc::default(), &records) };
            run = desk.kernel.recover(spec, &records).unwrap();
        }
        desk.settle();
        let outcome = run.outcome().expect("it ends");
        let Ending::Failed(problem) = &outcome.ending else { panic!("{:?}", outcome.ending) };
        assert_eq!(problem.kind, "journal-exhausted", "{problem}");
        assert!(problem.detail.as_ref().unwrap().contains("the limit is 50000"), "{problem}");
        let written = journal.records("run").unwrap();
        let bytes: usize = written.iter().map(bytes::Bytes::len).sum();
        assert!((BOUND - 3_000..BOUND + 3_000).contains(&(bytes as u64)), "{bytes}");
        // It is replayed as it was, by whatever bound.
        let records = Record::decode_all(written).unwrap();
        assert!(records.iter().filter(|record| matches!(record, Record::Died(_))).count() >= 2);
        let rebuilt = crate::run::rebuild(&records, &root, &Bench::new(|_| chatty()).programs()).unwrap();
        assert_eq!(rebuilt.result(), Some(&outcome.result));
    }
}

/// A change of the store that stands in the records is made in a rebuild, also by a release that
/// would not grant it.
#[test]
fn what_was_written_to_the_store_is_there_in_a_rebuild_whatever_its_bounds_are() {
    let kv = |args: serde_json::Value| calls("kv", Payload::json(&args));
    let root = program(move |_| {
        let mut heard = Vec::new();
        let mut steps = 0;
        act(move |context, events| {
            steps += 1;
            heard.extend(events.drain(..).map(|event| tell(&event)));
            match heard.len() {
                0 if steps == 1 => {
                    for key in ["a", "b"] {
                        context.command(kv(serde_json::json!({ "op": "set", "key": key, "value": key })));
                    }
                    context.command(kv(
                        serde_json::json!({ "op": "compare-and-set", "key": "a", "expected": "a", "value": 5 }),
                    ));
                    context.command(kv(
                        serde_json::json!({ "op": "compare-and-set", "key": "b", "expected": 1, "value": 6 }),
                    ));
                }
                4 => {
                    context.command(waits());
                }
                5 => {
                    context.command(kv(serde_json::json!({ "op": "get", "key": "a" })));
                    context.command(kv(serde_json::json!({ "op": "get", "key": "b" })));
                }
                7 => return Status::Complete(Payload::json(&heard[5..].to_vec())),
                _ => {}
            }
            Status::Idle
        })
    });
    let grants = crate::process::Grants(Arc::new([("kv".to_owned(), Vec::new())].into()));
    let setup = Setup { grants, ..Setup::default() };
    let bench = Bench::of(super::desk::Desk::new(1), Arc::default(), &setup, &root);
    bench.desk.clone().drain();
    let mut records = bench.run.records().unwrap();
    let Record::Started(started) = &mut records[0] else { panic!("it is the first") };
    (started.bounds.kv_keys, started.bounds.kv_bytes) = (1, 3);
    let mut desk = super::desk::Desk::new(2);
    let run = recover(&desk, &root, &Arc::default(), &records);
    run.signal("word", Payload::NULL).unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["6 5","7 \"b\""]"#);
}

/// The grace of a process is not waited for once it has ended: nothing of it is left in the run.
#[test]
fn a_process_that_ends_in_its_grace_leaves_no_timer() {
    for ends in [Status::Complete(Payload::NULL), Status::Failed(Arc::new(Problem::new("mine", "It failed")))] {
        let mut bench = Bench::new(move |entry| match entry {
            "root" => {
                let mut begun = false;
                act(move |context, events| {
                    if !std::mem::replace(&mut begun, true) {
                        context.command(spawns("polite"));
                        context.command(Action::Stop(Target::Child(crate::process::Tag(1))));
                        context.command(waits());
                    }
                    let is_over = answers(events).iter().any(|(tag, _)| tag.0 == 3);
                    if is_over { Status::Complete(Payload::NULL) } else { Status::Idle }
                })
            }
            _ => {
                let ends = ends.clone();
                act(move |_, events| if events.is_empty() { Status::Idle } else { ends.clone() })
            }
        });
        bench.desk.drain();
        let run = bench.run.run().unwrap();
        assert_eq!(run.inner.lock().state.living, 1, "the child has ended");
        assert_eq!(run.inner.lock().state.timers.next_due(), None);
        bench.run.signal("word", Payload::NULL).unwrap();
        bench.finish();
    }
}
