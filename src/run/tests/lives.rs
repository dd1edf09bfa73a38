//! Lifetimes: links, monitors, attached and detached children, names, renewals.

use super::support::*;
use crate::process::{
    Action, Context, Death, Ending, Event, Micros, Output, Payload, Pid, Problem, Progress, Status, Tag, Target,
    Timestamp,
};
use crate::run::{Doing, RunEvent};
use std::sync::Arc;

/// Idles until it receives cancel, and then ends with the closure's status.
pub(super) fn until_cancelled(status: impl Fn() -> Status + Send + 'static) -> Act {
    act(move |_, events| {
        let cancelled = events.iter().any(|event| matches!(event, Event::Cancel { .. }));
        if cancelled { status() } else { Status::Idle }
    })
}

/// Does not end, whatever it receives.
pub(super) fn stubborn() -> Act {
    act(|_, _| Status::Idle)
}

pub(super) fn done() -> Status {
    Status::Complete(Payload::NULL)
}

pub(super) fn failed() -> Status {
    Status::Failed(Arc::new(Problem::new("mine", "A failure")))
}

/// A child that fails or completes when it receives a message.
fn on_word(status: fn() -> Status) -> Act {
    act(move |_, events| if events.is_empty() { Status::Idle } else { status() })
}

pub(super) fn by_entry(entry: &str) -> Act {
    match entry {
        "done" => act(|_, _| done()),
        "failed" => act(|_, _| failed()),
        "done on word" => on_word(done),
        "failed on word" => on_word(failed),
        "stubborn" => stubborn(),
        "polite" => until_cancelled(done),
        other => panic!("{other}"),
    }
}

pub(super) fn run_root(commands: fn() -> Vec<Action>, count: usize) -> String {
    output(&Bench::new(move |entry| if entry == "root" { collect(commands, count) } else { by_entry(entry) }).finish())
}

pub(super) fn spawn_as(entry: &str, change: impl FnOnce(&mut crate::process::Spawn)) -> Action {
    let mut child = spawn(entry);
    change(&mut child);
    Action::Spawn(Box::new(child))
}

#[test]
fn a_monitor_hears_the_end_and_nothing_else_happens() {
    let commands = || {
        vec![
            spawns("failed on word"),
            Action::Monitor(Target::Child(Tag(1))),
            sends(Target::Child(Tag(1)), Payload::NULL),
        ]
    };
    assert_eq!(run_root(commands, 2), r#"["exit of 2 by 2: failed mine","1 mine Definite"]"#);
}

#[test]
fn a_link_cancels_unless_the_other_side_completed() {
    let failing = || {
        vec![spawns("failed on word"), Action::Link(Target::Child(Tag(1))), sends(Target::Child(Tag(1)), Payload::NULL)]
    };
    assert_eq!(
        run_root(failing, 3),
        r#"["exit of 2 by 2: failed mine","cancel: the linked process 2 failed: A failure (mine)","1 mine Definite"]"#
    );
    let completing =
        || vec![spawn_as("done on word", |spawn| spawn.link = true), sends(Target::Child(Tag(1)), Payload::NULL)];
    assert_eq!(run_root(completing, 2), r#"["exit of 2 by 1: completed","1 null"]"#);
}

#[test]
fn a_link_cancels_the_side_that_did_not_ask_too() {
    // The first child is linked to by the second, which fails. It has a name, and so accepts that.
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawn_as("heart", |spawn| spawn.name = Some("heart".into())), spawns("linker")], 2),
        "heart" => collect(Vec::new, 1),
        _ => {
            let mut steps = 0;
            act(move |context, _| {
                steps += 1;
                if steps == 1 {
                    context.command(Action::Link(Target::Process(Pid(2))));
                    return Status::Ready;
                }
                failed()
            })
        }
    });
    let output = output(&bench.finish());
    assert!(output.contains("2 mine Definite"), "{output}");
    assert!(output.contains("cancel: the linked process 3 failed: A failure (mine)"), "{output}");
}

#[test]
fn what_is_unlinked_is_not_heard_of() {
    let commands = || {
        vec![
            spawns("failed on word"),
            Action::Link(Target::Child(Tag(1))),
            Action::Monitor(Target::Child(Tag(1))),
            Action::Unlink(Target::Child(Tag(1))),
            sends(Target::Child(Tag(1)), Payload::NULL),
            Action::Sleep(Micros(9)),
        ]
    };
    assert_eq!(run_root(commands, 2), r#"["1 mine Definite","6 null"]"#);
}

#[test]
fn what_has_ended_is_heard_of_at_once() {
    let bench = Bench::new(|entry| {
        if entry != "root" {
            return by_entry(entry);
        }
        let mut heard = Vec::new();
        let mut steps = 0;
        act(move |context: &mut Context<'_>, events| {
            steps += 1;
            heard.extend(events.drain(..).map(|event| tell(&event)));
            if steps == 1 {
                context.command(spawns("failed"));
                context.command(spawns("done"));
            }
            if heard.len() == 2 {
                context.command(Action::Monitor(Target::Process(Pid(2))));
                context.command(Action::Link(Target::Process(Pid(3))));
                context.command(Action::Link(Target::Process(Pid(77))));
                context.command(Action::Monitor(Target::Name("nobody".into())));
                heard.clear();
                steps = 10;
            }
            if steps > 10 && heard.len() == 4 { Status::Complete(Payload::json(&heard)) } else { Status::Blocked }
        })
    });
    assert_eq!(
        output(&bench.finish()),
        "[\"exit of 2 by 3: failed mine\",\"exit of 3 by 4: completed\",\"exit of 77 by 5: failed no-process\",\
         \"exit of 0 by 6: failed no-process\"]"
    );
}

#[test]
fn an_answer_waits_for_attached_descendants() {
    // The child completes at once; its own child takes its grace to the end.
    let bench = Bench::new(|entry| match entry {
        "root" => {
            let mut started = None;
            act(move |context: &mut Context<'_>, events| {
                let begun = *started.get_or_insert_with(|| {
                    context.command(spawns("parent"));
                    context.now
                });
                if answers(events).is_empty() {
                    Status::Blocked
                } else {
                    Status::Complete(number(context.now.0 - begun.0))
                }
            })
        }
        "parent" => {
            let mut steps = 0;
            act(move |context: &mut Context<'_>, _| {
                steps += 1;
                if steps == 1 {
                    context.command(spawns("stubborn"));
                    context.command(spawns("polite"));
                    return Status::Ready;
                }
                done()
            })
        }
        other => by_entry(other),
    });
    let outcome = bench.finish();
    assert_eq!(output(&outcome), "5000000");
    assert_eq!(outcome.ending, Ending::Completed);
}

#[test]
fn a_detached_child_lives_until_the_run_ends() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("parent"), Action::Sleep(Micros(100))], 3),
        "parent" => {
            let mut steps = 0;
            act(move |context: &mut Context<'_>, _| {
                steps += 1;
                if steps == 1 {
                    context.command(spawn_as("reporter", |spawn| spawn.detached = true));
                    context.command(spawn_as("reporter", |spawn| spawn.detached = true));
                    return Status::Ready;
                }
                done()
            })
        }
        // Reports to the root after its sleep, and ends on cancel.
        _ => act(|context, events| {
            let mut cancelled = false;
            for event in events.drain(..) {
                match event {
                    Event::Completed { .. } => {
                        context.command(sends(Target::Process(Pid::ROOT), number(1)));
                    }
                    Event::Cancel { reason, .. } => cancelled = &*reason == "the run has ended",
                    other => panic!("{other:?}"),
                }
            }
            if cancelled {
                return done();
            }
            if context.command(Action::Sleep(Micros(50))) == Tag(1) { Status::Blocked } else { Status::Idle }
        }),
    });
    // Both outlive their parent and report; both receive cancel when the root has ended, without
    // which the run would not end.
    let heard = output(&bench.finish());
    assert!(heard.contains("1 null") && heard.matches("process").count() == 2, "{heard}");
}

#[test]
fn a_name_belongs_to_the_first_until_it_ends() {
    let commands = || {
        vec![
            spawn_as("done on word", |spawn| spawn.name = Some("n".into())),
            Action::Register("n".into()),
            spawn_as("done", |spawn| spawn.name = Some("n".into())),
            sends(Target::Name("n".into()), Payload::NULL),
        ]
    };
    assert_eq!(run_root(commands, 3), r#"["2 name-taken Definite","3 name-taken Definite","1 null"]"#);
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("first"), spawns("first"), spawns("first")], 3),
        _ => {
            let mut steps = 0;
            act(move |context: &mut Context<'_>, events| {
                steps += 1;
                match steps {
                    1 => {
                        context.command(Action::Register("n".into()));
                        Status::Blocked
                    }
                    _ => Status::Complete(number(u64::from(answers(events)[0].1.is_ok()))),
                }
            })
        }
    });
    assert!(output(&bench.finish()).contains('1'));
}

#[test]
fn signals_wait_for_their_name_in_order() {
    let mut bench = Bench::new(|_| {
        let mut heard = Vec::new();
        act(move |context: &mut Context<'_>, events| {
            heard.extend(events.drain(..).map(|event| tell(&event)));
            match heard.len() {
                0 => {
                    context.command(Action::Sleep(Micros(10)));
                }
                1 => {
                    context.command(Action::Register("door".into()));
                }
                5 => return Status::Complete(Payload::json(&heard)),
                _ => {}
            }
            Status::Idle
        })
    });
    bench.desk.drain();
    bench.run.signal("door", number(1)).unwrap();
    bench.run.signal("door", number(2)).unwrap();
    bench.run.signal("window", number(9)).unwrap();
    bench.desk.fire();
    bench.desk.drain();
    bench.run.signal("door", number(3)).unwrap();
    assert_eq!(output(&bench.finish()), r#"["1 null","2 null","outside door: 1","outside door: 2","outside door: 3"]"#);
}

#[test]
fn renewal_keeps_pid_queue_and_tags() {
    let bench = Bench::new(|entry| {
        let fresh = entry == "root";
        let mut steps = 0;
        act(move |context: &mut Context<'_>, events| {
            steps += 1;
            if fresh {
                assert_eq!(context.command(Action::Sleep(Micros(7))), Tag(1));
                context.command(sends(Target::Process(Pid::ROOT), number(8)));
                return Status::Renew { entry: "again".into(), input: number(5) };
            }
            assert_eq!(context.init.next_tag, Tag(3));
            assert_eq!(text(&context.init.input), "null", "the input was given once");
            if steps == 1 {
                let heard: Vec<String> = events.iter().map(tell).collect();
                assert_eq!(heard, ["process 1: 8"]);
                assert_eq!(context.command(Action::Sleep(Micros(9))), Tag(3));
            }
            if answers(events).iter().any(|(tag, _)| *tag == Tag(3)) { done() } else { Status::Blocked }
        })
    });
    assert_eq!(bench.finish().counts.steps, 4);
}

#[test]
fn a_panic_or_a_trap_ends_only_its_process() {
    let bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("trap"), spawns("polite"), Action::Stop(Target::Child(Tag(2)))], 2),
        "trap" => act(|_, _| failed()),
        other => by_entry(other),
    });
    let heard = output(&bench.finish());
    assert!(heard.contains("1 mine") && heard.contains("2 null"), "{heard}");

    struct Trap;
    impl crate::process::Body for Trap {
        fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}
        fn poll(&mut self, output: &mut Output) -> Progress {
            output.commands.push(crate::process::Command { tag: Tag(1), action: Action::Sleep(Micros(1)) });
            Progress::Died(Death::Guest(Problem::new("trap", "The guest trapped")))
        }
    }
    let root = maker(|_| Ok(Box::new(Trap)));
    let bench = Bench::of(super::desk::Desk::new(3), Arc::default(), &Setup::default(), &root);
    let outcome = bench.finish();
    assert!(matches!(&outcome.ending, Ending::Failed(problem) if problem.kind == "trap"));
    assert_eq!((outcome.counts.steps, outcome.counts.commands), (0, 0));
}

#[test]
fn a_paused_run_is_not_stepped_and_its_calls_keep_their_time() {
    let mut bench = Bench::new(|_| {
        let commands = || {
            let mut slow = call("safe", Payload::NULL);
            slow.timeout = Some(Micros(1_000));
            vec![Action::Call(Box::new(slow)), Action::Sleep(Micros(500))]
        };
        collect(commands, 2)
    });
    bench.desk.drain();
    bench.run.pause().unwrap();
    bench.run.pause().unwrap();
    while bench.desk.fire() {
        assert!(!bench.desk.turn());
    }
    bench.desk.advance(Micros(1_000_000));
    bench.run.unpause().unwrap();
    bench.desk.drain();
    assert_eq!(bench.run.processes()[0].outstanding, 1);
    let before = bench.desk.now();
    let desk = bench.desk.clone();
    assert_eq!(output(&bench.finish()), r#"["2 null","1 timed-out Retryable"]"#);
    assert_eq!(desk.now().0 - before.0, 1_000);
}

#[test]
fn what_happens_can_be_watched_and_asked_for() {
    let mut bench = Bench::new(|entry| match entry {
        "root" => collect(
            || {
                vec![
                    Action::Expose { query: "progress".into(), value: number(7) },
                    Action::Expose { query: "progress".into(), value: number(8) },
                    spawns("done"),
                    calls("inline", Payload::NULL),
                ]
            },
            2,
        ),
        other => by_entry(other),
    });
    let events = bench.run.observe(100);
    let few = bench.run.observe(1);
    assert_eq!(bench.run.query("progress"), None);
    assert_eq!(bench.run.processes()[0].doing, Doing::Starting);
    bench.desk.drain();
    assert_eq!(bench.run.query("progress"), Some(number(8)));
    assert_eq!(bench.run.queries().len(), 1);
    bench.finish();
    let mut seen = Vec::new();
    while let Some(event) = events.wait() {
        seen.push(match event {
            RunEvent::Spawned { pid, .. } => format!("spawned {pid}"),
            RunEvent::Called { handler, .. } => format!("called {handler}"),
            RunEvent::Answered { tag, .. } => format!("answered {tag}"),
            RunEvent::Ended { pid, ending } => format!("ended {pid} {ending:?}"),
            other => panic!("{other:?}"),
        });
    }
    seen.sort();
    let all = ["answered 4", "called inline", "ended 1 Completed", "ended 2 Completed", "spawned 1", "spawned 2"];
    assert_eq!(seen, all);
    assert!(few.wait().is_some() && few.wait().is_none());
    assert_eq!(few.dropped(), 5);
}
