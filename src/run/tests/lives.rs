//! Lifetimes: links, monitors, attached and detached children, cancel, kill, names.

use super::support::*;
use crate::process::{
    Action, Context, Death, Ending, Event, Micros, Output, Payload, Pid, Problem, Progress, Status, Tag, Target,
    Timestamp,
};
use crate::run::{Doing, RunEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Idles until it hears cancel, and then ends with what the closure gives.
fn until_cancelled(status: impl Fn() -> Status + Send + 'static) -> Act {
    act(move |_, events| {
        let cancelled = events.iter().any(|event| matches!(event, Event::Cancel { .. }));
        if cancelled { status() } else { Status::Idle }
    })
}

/// Does not end whatever it hears.
fn stubborn() -> Act {
    act(|_, _| Status::Idle)
}

fn done() -> Status {
    Status::Complete(Payload::NULL)
}

fn failed() -> Status {
    Status::Failed(Arc::new(Problem::new("mine", "A failure")))
}

/// A child that fails or completes when it is spoken to.
fn on_word(status: fn() -> Status) -> Act {
    act(move |_, events| if events.is_empty() { Status::Idle } else { status() })
}

fn by_entry(entry: &str) -> Act {
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

fn run_root(commands: fn() -> Vec<Action>, count: usize) -> String {
    output(&Bench::new(move |entry| if entry == "root" { collect(commands, count) } else { by_entry(entry) }).finish())
}

fn spawn_as(entry: &str, change: impl FnOnce(&mut crate::process::Spawn)) -> Action {
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
        // Tells the root when it hears cancel.
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
    // Both outlive their parent and report; both hear cancel when the root has ended, without which the run would not end.
    let heard = output(&bench.finish());
    assert!(heard.contains("1 null") && heard.matches("process").count() == 2, "{heard}");
}

#[test]
fn cancel_is_heard_first_and_enforced_after_the_grace() {
    for (entry, ending) in [
        ("polite", Ending::Completed),
        ("stubborn", Ending::Cancelled("enough".into())),
        ("failing", Ending::Failed(Arc::new(Problem::new("mine", "A failure")))),
    ] {
        let mut bench = Bench::new(move |_| match entry {
            "polite" => until_cancelled(done),
            "failing" => until_cancelled(failed),
            _ => stubborn(),
        });
        bench.desk.drain();
        let start = bench.desk.now();
        bench.run.cancel("enough", Some(Duration::from_millis(20))).unwrap();
        // Asked again it changes nothing.
        bench.run.cancel("again", None).unwrap();
        bench.desk.drain();
        assert_eq!(bench.run.outcome().is_none(), entry == "stubborn");
        bench.desk.settle();
        let outcome = bench.run.outcome().unwrap();
        assert_eq!(outcome.ending, ending);
        let grace = if entry == "stubborn" { 20_000 } else { 0 };
        assert_eq!(bench.desk.now().0 - start.0, grace, "no timer but the first was needed");
        bench.check(&outcome);
    }
}

#[test]
fn whoever_is_cancelled_again_has_the_shorter_grace() {
    for graces in [[20, 5], [5, 20]] {
        let mut bench = Bench::new(|_| stubborn());
        bench.desk.drain();
        let start = bench.desk.now();
        for grace in graces {
            bench.run.cancel("enough", Some(Duration::from_millis(grace))).unwrap();
        }
        bench.desk.settle();
        let outcome = bench.run.outcome().expect("it ends");
        assert_eq!(bench.desk.now().0 - start.0, 5_000);
        bench.check(&outcome);
    }
}

#[test]
fn a_deep_tree_that_does_not_listen_ends_with_the_grace_of_its_top() {
    let mut bench = Bench::new(|entry| {
        let depth: u32 = entry.parse().unwrap_or(20);
        if depth == 0 {
            return act(|_, _| Status::Idle);
        }
        let mut begun = false;
        act(move |context, _| {
            if !std::mem::replace(&mut begun, true) {
                context.command(spawns(&(depth - 1).to_string()));
            }
            Status::Idle
        })
    });
    bench.desk.drain();
    let start = bench.desk.now();
    bench.run.cancel("enough", Some(Duration::from_millis(20))).unwrap();
    bench.desk.settle();
    let outcome = bench.run.outcome().expect("it ends");
    assert_eq!(outcome.counts.processes, 21);
    assert_eq!(bench.desk.now().0 - start.0, 20_000);
    bench.check(&outcome);
}

#[test]
fn what_is_left_of_a_grace_stands_still_while_the_run_is_paused() {
    let mut bench = Bench::new(|entry| match entry {
        "root" => {
            let mut begun = false;
            act(move |context, events| {
                if !std::mem::replace(&mut begun, true) {
                    context.command(spawns("deaf"));
                }
                let is_over = events.drain(..).any(|event| matches!(event, Event::Cancel { .. }));
                if is_over { Status::Complete(Payload::NULL) } else { Status::Idle }
            })
        }
        _ => act(|_, _| Status::Idle),
    });
    bench.desk.drain();
    let start = bench.desk.now();
    bench.run.cancel("enough", Some(Duration::from_millis(20))).unwrap();
    bench.run.pause().unwrap();
    bench.desk.advance(Micros(1_000_000));
    bench.run.unpause().unwrap();
    bench.desk.settle();
    let outcome = bench.run.outcome().expect("it ends");
    // The root ends at once when it goes on, and its child has all of the grace.
    assert_eq!(bench.desk.now().0 - start.0, 1_020_000);
    bench.check(&outcome);
}

#[test]
fn a_shorter_grace_counts_and_kill_is_at_once() {
    let mut bench = Bench::new(|entry| match entry {
        "root" => collect(|| vec![spawns("stubborn"), spawns("stubborn")], 9),
        other => by_entry(other),
    });
    bench.desk.drain();
    bench.run.cancel("slowly", Some(Duration::from_hours(1))).unwrap();
    bench.run.kill("now");
    let start = bench.desk.now();
    let outcome = {
        bench.desk.settle();
        bench.run.outcome().unwrap()
    };
    assert!(bench.desk.now().0 - start.0 < 3_600_000_000);
    assert_eq!(outcome.ending, Ending::Cancelled("slowly".into()));
    bench.check(&outcome);
}

/// A body that never ends its step.
struct Hog;

impl crate::process::Body for Hog {
    fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}
    fn poll(&mut self, _: &mut Output) -> Progress {
        Progress::Preempted
    }
}

#[test]
fn a_hog_is_killed_at_its_slices_end() {
    let root = maker(|_| Ok(Box::new(Hog)));
    let mut bench = Bench::of(super::desk::Desk::new(3), Arc::default(), &Setup::default(), &root);
    for _ in 0..100 {
        assert!(bench.desk.turn());
    }
    bench.run.cancel("enough", Some(Duration::from_millis(1))).unwrap();
    for _ in 0..100 {
        assert!(bench.desk.turn());
    }
    assert!(bench.desk.fire());
    let outcome = bench.finish();
    assert_eq!(outcome.ending, Ending::Cancelled("enough".into()));
    assert_eq!(outcome.counts.steps, 0);
}

#[test]
fn what_never_began_is_killed_without_being_stepped() {
    // Guests wait for a permit; a native process never waits for one, and so hears cancel as an event.
    struct Guest(Arc<AtomicU64>);
    impl crate::process::Program for Guest {
        fn digest(&self) -> Arc<str> {
            "test:guest".into()
        }
        fn permit(&self) -> crate::process::Permit {
            crate::process::Permit { instances: 1, ..Default::default() }
        }
        fn body(&self, _: crate::process::ProcessInit) -> Result<Box<dyn crate::process::Body>, Problem> {
            struct Count(Arc<AtomicU64>);
            impl crate::process::Body for Count {
                fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {
                    self.0.fetch_add(1, Relaxed);
                }
                fn poll(&mut self, _: &mut Output) -> Progress {
                    Progress::Stepped(Status::Idle)
                }
            }
            Ok(Box::new(Count(Arc::clone(&self.0))))
        }
    }
    let begun = Arc::new(AtomicU64::new(0));
    let root: Arc<dyn crate::process::Program> = Arc::new(Guest(Arc::clone(&begun)));
    let bench = Bench::of(super::desk::Desk::new(3), Arc::default(), &Setup::default(), &root);
    bench.run.cancel("enough", None).unwrap();
    let outcome = bench.finish();
    assert_eq!(outcome.ending, Ending::Cancelled("enough".into()));
    assert_eq!(begun.load(Relaxed), 0);
}

#[test]
fn stop_reaches_a_child_a_pid_and_a_name() {
    let commands = || {
        vec![
            spawns("polite"),
            spawn_as("polite", |spawn| spawn.name = Some("p".into())),
            spawns("polite"),
            Action::Stop(Target::Child(Tag(1))),
            Action::Stop(Target::Name("p".into())),
            Action::Stop(Target::Process(Pid(4))),
            Action::Stop(Target::Name("nobody".into())),
        ]
    };
    let heard = run_root(commands, 3);
    for tag in 1..=3 {
        assert!(heard.contains(&format!("\"{tag} null\"")), "{heard}");
    }
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
