//! How processes and runs end: in the middle of a step, while they are paused, and what they give
//! back.

use super::desk::Desk;
use super::support::*;
use crate::process::{Action, Ending, Event, Micros, Payload, Problem, Spawn, Status, Tag, Target};
use crate::run::{Kernel, Record};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_step_in_which_its_process_is_killed_is_not_committed() {
    let held = Arc::<Mutex<Option<Kernel>>>::default();
    let kills = Arc::clone(&held);
    let bench = Bench::new(move |_| {
        let (kills, mut steps) = (Arc::clone(&kills), 0);
        act(move |context, _| {
            steps += 1;
            context.command(calls("safe", number(steps)));
            if steps < 2 {
                return Status::Ready;
            }
            kills.lock().as_ref().unwrap().run("run").unwrap().kill("enough");
            Status::Blocked
        })
    });
    *held.lock() = Some(bench.desk.kernel.clone());
    bench.desk.clone().settle();
    let (called, records) = (bench.handlers.waiting.lock().len(), bench.run.records().unwrap());
    assert_eq!((called, bench.desk.panics()), (1, 0));
    assert!(matches!(records.last(), Some(Record::Died(died)) if died.step == 2), "{:?}", records.last());
    bench.finish();
    held.lock().take();
}

#[test]
fn a_name_is_free_again_when_its_process_has_ended() {
    let bench = Bench::new(|entry| {
        if entry != "root" {
            return act(|_, _| Status::Complete(Payload::NULL));
        }
        let mut heard = Vec::new();
        act(move |context, events| {
            heard.extend(events.drain(..).map(|event| tell(&event)));
            if heard.len() == 2 {
                return Status::Complete(Payload::json(&heard));
            }
            let mut child = spawn("child");
            child.name = Some("n".into());
            context.command(Action::Spawn(Box::new(child)));
            Status::Blocked
        })
    });
    assert_eq!(output(&bench.finish()), r#"["1 null","2 null"]"#);
}

#[test]
fn a_run_that_is_paused_can_be_cancelled() {
    let mut bench = Bench::new(|_| collect(Vec::new, 9));
    bench.desk.drain();
    bench.run.pause().unwrap();
    bench.desk.settle();
    bench.run.cancel("it is not wanted", Some(Duration::from_secs(1))).unwrap();
    let outcome = bench.finish();
    assert!(outcome.result.is_err());
}

/// It is recovered as it was, and continues when it is unpaused.
#[test]
fn a_run_that_was_paused_when_its_host_died_stays_so() {
    let root = program(|_| collect(|| vec![Action::Register("door".into())], 2));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    bench.run.pause().unwrap();
    let records = bench.run.records().unwrap();

    let mut desk = Desk::new(2);
    let run = recover(&desk, &root, &bench.handlers, &records);
    desk.settle();
    let steps = run.counts().steps;
    run.signal("door", number(7)).unwrap();
    desk.settle();
    assert_eq!((run.counts().steps, run.outcome()), (steps, None));
    run.unpause().unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 null","outside door: 7"]"#);
}

/// The problem may be large, and the receivers thousands, all of them notified under the lock of
/// the run.
#[test]
fn all_receivers_of_a_failure_share_its_problem() {
    let heard: Arc<Mutex<Vec<Event>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let bench = Bench::new(move |entry| {
        let (hears, is_root, mut begun) = (Arc::clone(&hears), entry == "root", false);
        if entry == "fails" {
            return act(|_, events| {
                if events.is_empty() {
                    return Status::Idle;
                }
                Status::Failed(Problem::new("mine", "It failed").with_detail("x".repeat(4_000)).into())
            });
        }
        act(move |context, events| {
            let (begins, victim) = (!std::mem::replace(&mut begun, true), Target::Name("victim".into()));
            if begins && is_root {
                let fails = Spawn { name: Some("victim".into()), ..spawn("fails") };
                context.command(Action::Spawn(Box::new(fails)));
                context.command(Action::Monitor(victim.clone()));
                context.command(Action::Monitor(victim.clone()));
                context.command(spawns("linked"));
                context.command(spawns("linked"));
                context.command(Action::Sleep(Micros(5)));
            } else if begins {
                context.command(Action::Link(victim.clone()));
            }
            let is_late = events.iter().any(|event| matches!(event, Event::Completed { tag: Tag(6), .. }));
            if is_late {
                context.command(sends(victim, Payload::NULL));
            }
            let is_cancelled = events.iter().any(|event| matches!(event, Event::Cancel { .. }));
            let failed = events.iter().find_map(|event| match event {
                Event::Completed { answer: Err(problem), .. } => Some(Arc::clone(problem)),
                _ => None,
            });
            hears.lock().extend(events.drain(..));
            match failed {
                Some(problem) => Status::Failed(problem),
                None if is_cancelled => Status::Complete(Payload::NULL),
                None => Status::Idle,
            }
        })
    });
    bench.desk.clone().settle();
    let events = std::mem::take(&mut *heard.lock());
    let outcome = bench.finish();
    let (mut problems, mut reasons) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Completed { answer: Err(problem), .. } => problems.push(problem),
            Event::Exited(exit) => match exit.ending {
                Ending::Failed(problem) => problems.push(problem),
                other => panic!("{other:?}"),
            },
            Event::Cancel { reason, .. } => reasons.push(reason),
            Event::Completed { answer: Ok(_), .. } | Event::Message(_) => {}
        }
    }
    assert_eq!((problems.len(), reasons.len()), (5, 2), "two monitors, two links, and an answer");
    problems.extend(outcome.result.clone().err());
    problems.extend(match &outcome.ending {
        Ending::Failed(problem) => Some(Arc::clone(problem)),
        _ => None,
    });
    assert_eq!(problems.len(), 7);
    assert!(problems.iter().all(|problem| Arc::ptr_eq(problem, &problems[0])));
    assert!(Arc::ptr_eq(&reasons[0], &reasons[1]));
}

#[test]
fn why_a_chain_of_links_ends_is_not_told_at_the_length_of_the_chain() {
    const LINKS: u64 = 500;
    let longest: Arc<Mutex<usize>> = Arc::default();
    let seen = Arc::clone(&longest);
    let bench = Bench::new(move |entry| {
        let (seen, mut begun, place) = (Arc::clone(&seen), false, entry.parse::<u64>());
        let name = |place: u64| -> Arc<str> { format!("link {place}").into() };
        act(move |context, events| {
            let begins = !std::mem::replace(&mut begun, true);
            match place {
                Err(_) if begins => {
                    for place in 0..LINKS {
                        let link = Spawn { name: Some(name(place)), ..spawn(&place.to_string()) };
                        context.command(Action::Spawn(Box::new(link)));
                    }
                    context.command(Action::Sleep(Micros(5)));
                }
                Err(_) => {
                    if events.iter().any(|event| matches!(event, Event::Completed { answer: Ok(_), .. })) {
                        context.command(Action::Stop(Target::Child(Tag(1))));
                    }
                    if events.iter().any(|event| matches!(event, Event::Completed { tag: Tag(LINKS), .. })) {
                        return Status::Complete(Payload::NULL);
                    }
                }
                Ok(place) if begins && place > 0 => {
                    context.command(Action::Link(Target::Name(name(place - 1))));
                }
                Ok(_) => {
                    for event in &*events {
                        if let Event::Cancel { reason, .. } = event {
                            let mut longest = seen.lock();
                            *longest = reason.len().max(*longest);
                        }
                    }
                }
            }
            events.clear();
            Status::Idle
        })
    });
    bench.finish();
    let longest = *longest.lock();
    assert!((8 << 10..9 << 10).contains(&longest), "{longest}");
}
