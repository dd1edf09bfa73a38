//! Ends that are asked for: cancel, its grace, kill, stop.

use super::lives::{by_entry, done, failed, run_root, spawn_as, stubborn, until_cancelled};
use super::support::*;
use crate::process::{
    Action, Ending, Event, Micros, Output, Payload, Pid, Problem, Progress, Status, Tag, Target, Timestamp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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
fn a_process_that_is_cancelled_again_has_the_shorter_grace() {
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
fn the_grace_begins_anew_if_the_host_was_stopped_when_it_was_over() {
    for (stop, ends_after) in [(900_000, 900_000), (1_020_000, 1_040_000)] {
        let mut bench = Bench::new(|_| stubborn());
        bench.desk.drain();
        let start = bench.desk.now();
        bench.run.cancel("enough", Some(Duration::from_millis(20))).unwrap();
        bench.desk.drain();
        // Nothing is stepped, and no timer fires.
        bench.desk.advance(Micros(stop));
        bench.desk.settle();
        let outcome = bench.run.outcome().expect("it ends");
        assert_eq!(bench.desk.now().0 - start.0, ends_after);
        bench.check(&outcome);
    }
}

#[test]
fn the_grace_counts_from_the_step_that_hears_of_the_end() {
    let mut bench = Bench::new(|_| stubborn());
    bench.desk.drain();
    let start = bench.desk.now();
    bench.run.cancel("enough", Some(Duration::from_millis(20))).unwrap();
    bench.desk.advance(Micros(15_000));
    bench.desk.settle();
    let outcome = bench.run.outcome().expect("it ends");
    assert_eq!(bench.desk.now().0 - start.0, 35_000);
    bench.check(&outcome);
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
    // The root ends at once when it continues, and its child has all of the grace.
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
    // Guests wait for a permit; a native process never does, and so receives cancel as an event.
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
