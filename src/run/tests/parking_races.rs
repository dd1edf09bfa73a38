//! What meets a run in the moment in which it is parked: a timer, an act, its end.

use super::desk::Desk;
use super::parking::{Parkable, collects, start, waits};
use super::support::*;
use crate::base::Monotonic;
use crate::process::{Action, Micros, Payload, Problem, Program, Status, Tag};
use crate::run::{Clock, Kernel, NotHeld, ParkingPolicy, RunHandle};
use crate::scheduler::{Config, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const FAR: Duration = Duration::from_hours(1);

/// A desk at which a run is parked only on request, and a run that is in memory.
fn before(root: &Arc<dyn Program>) -> (Desk, RunHandle) {
    let desk = Desk::new(1);
    desk.kernel.park_when(ParkingPolicy { after: FAR, resident_max: usize::MAX });
    let run = start(&desk.kernel, "run", root, &Parkable::default());
    desk.clone().drain();
    (desk, run)
}

/// Continues until nothing is left to do, with runs that are recovered on another thread.
fn settle(desk: &mut Desk) {
    loop {
        desk.drain();
        desk.kernel.flush_waking();
        desk.drain();
        if !desk.fire() {
            return;
        }
    }
}

/// A worker finds the run in memory for a timer that is due; another one parks it first, by a clock
/// that was read a moment ago.
#[test]
fn a_timer_that_fires_while_its_run_is_parked_wakes_it() {
    let root = program(|_| collect(|| vec![Action::Sleep(Micros(1_000))], 1));
    let (mut desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    let armed = desk.take_timer();
    here.park_now(&mut desk.port());
    assert_eq!(desk.kernel.parked().len(), 1, "it was quiet");
    desk.time().advance_to(armed);
    here.fired(&mut desk.port());
    drop(here);
    settle(&mut desk);
    assert_eq!(output(&run.outcome().expect("it has slept")), r#"["1 null"]"#);
    assert!(desk.now() >= Monotonic(1_000));
}

/// What it was set for was taken back before.
#[test]
fn a_timer_that_comes_early_for_a_parked_run_does_not_wake_it() {
    let root = program(|_| {
        let (mut steps, mut heard) = (0, 0);
        act(move |context, events| {
            (steps, heard) = (steps + 1, heard + events.len());
            match steps {
                1 => {
                    context.command(Action::Sleep(Micros(1_000)));
                    context.command(Action::Sleep(Micros(3_000_000)));
                    return Status::Ready;
                }
                2 => drop(context.command(Action::Cancel(Tag(1)))),
                _ => {}
            }
            if heard < 2 { Status::Blocked } else { Status::Complete(Payload::NULL) }
        })
    });
    let (mut desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    let armed = desk.take_timer();
    assert_eq!(armed, Monotonic(1_000));
    here.park_now(&mut desk.port());
    desk.time().advance_to(armed);
    here.fired(&mut desk.port());
    drop(here);
    desk.kernel.flush_waking();
    assert_eq!(desk.kernel.parked().len(), 1);
    settle(&mut desk);
    assert!(run.outcome().is_some() && desk.now() >= Monotonic(3_000_000));
}

/// The timer is set before the run is known to be parked: when it fires, the run is found in
/// memory.
#[test]
fn a_timer_of_a_parked_run_that_is_found_in_memory_wakes_it() {
    let root = program(|_| collect(|| vec![Action::Sleep(Micros(1_000))], 1));
    let (mut desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    here.park_now(&mut desk.port());
    let due = desk.take_timer();
    desk.time().advance_to(due);
    here.fired(&mut desk.port());
    drop(here);
    settle(&mut desk);
    assert_eq!(output(&run.outcome().expect("it has slept")), r#"["1 null"]"#);
}

/// A run that was found in memory and is parked then accepts nothing: its caller asks the kernel
/// again.
#[test]
fn what_comes_for_a_run_that_is_parked_meanwhile_reaches_it() {
    let root = program(|_| collect(|| vec![waits("a")], 9));
    let (mut desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    here.park_now(&mut desk.port());
    let mut news = Some(crate::run::News::Signal { name: "a".into(), body: number(7) });
    assert!(here.try_arrive(&mut desk.port(), &mut news).is_none() && news.is_some(), "it is still there");
    // The handle still knows the run that was there.
    run.kill("enough");
    desk.settle();
    assert_eq!(run.outcome().unwrap().result.as_ref().unwrap_err().detail.as_deref(), Some("enough"));
}

/// What a process has not taken yet is no rest: a run that is parked over it would sleep.
#[test]
fn a_run_is_not_parked_while_an_event_or_a_message_waits_for_a_process() {
    let root = program(|_| collect(|| vec![waits("a"), Action::Register("hub".into())], 3));
    let (mut desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    for name in ["a", "hub"] {
        run.signal(name, number(1)).unwrap();
        here.park_now(&mut desk.port());
        assert!(desk.kernel.parked().is_empty(), "{name} waits to be heard");
        desk.drain();
    }
    assert!(run.outcome().is_some());
}

#[test]
fn a_run_that_is_lost_while_it_is_parked_or_recovered_is_notified() {
    let root = program(|_| collect(|| vec![waits("a")], 1));
    let lost = Problem::new("run-taken", "It is another host's");
    let is_lost =
        |run: &RunHandle| run.outcome().is_some_and(|outcome| outcome.result.as_ref().unwrap_err().kind == lost.kind);

    // Found in memory, and parked then.
    let (desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    here.park_now(&mut desk.port());
    assert!(!here.abandon(&lost), "it is not there any more");
    assert!(run.outcome().is_none() && desk.kernel.parked().len() == 1);
    desk.kernel.abandon_run("run", &lost);
    assert!(is_lost(&run) && desk.kernel.run("run").is_none());

    // Recovered meanwhile: the former run does not speak for it.
    let (desk, run) = before(&root);
    let here = desk.kernel.in_memory("run").unwrap();
    here.park_now(&mut desk.port());
    run.signal("b", number(1)).unwrap();
    here.abandon(&lost);
    assert_eq!((desk.kernel.runs().len(), desk.kernel.resident()), (1, 1));
    desk.kernel.abandon_run("run", &lost);
    assert!(is_lost(&run));
    assert_eq!((desk.kernel.runs().len(), desk.kernel.resident()), (0, 0));
}

/// How many runs sleep while they are parked. A million of them take some minutes:
/// `WFHOST_PARKED_RUNS=1000000 cargo test --no-default-features --release --lib a_million_sleeps --
/// --nocapture`.
fn runs_max() -> usize {
    std::env::var("WFHOST_PARKED_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(8_000)
}

/// Sleeps for a time that depends on its id, so that a replay sleeps as long.
fn sleeper(least: u64) -> Arc<dyn Program> {
    program(move |_| {
        let mut begun = false;
        act(move |context, events| {
            if !std::mem::replace(&mut begun, true) {
                let number: u64 = context.init.run[4..].parse().unwrap();
                context.command(Action::Sleep(Micros(least + number * 37 % 20_011)));
            }
            if events.drain(..).count() > 0 { Status::Complete(Payload::NULL) } else { Status::Idle }
        })
    })
}

/// Runs sleep for 10 to 30 ms, and are parked at the time at which they wake: newcomers have the
/// workers sweep all the while.
#[test]
fn of_a_million_sleeps_none_is_lost() {
    const ROUND: usize = 4_000;
    let kernel = Kernel::new(Clock::system());
    kernel.park_when(ParkingPolicy { after: FAR, resident_max: 0 });
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &Config { workers: 2, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let (root, newcomer) = (sleeper(10_000), program(|_| act(|_, _| Status::Complete(Payload::NULL))));
    let (mut begun, mut parked) = (0, 0);
    while begun < runs_max() {
        let count = ROUND.min(runs_max() - begun);
        let logs: Vec<Parkable> = (0..count).map(|_| Parkable::default()).collect();
        let run = |(n, log)| start(&kernel, &format!("run-{}", begun + n), &root, log);
        let runs: Vec<RunHandle> = logs.iter().enumerate().map(run).collect();
        let done = AtomicBool::new(false);
        let lost = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    if done.load(Relaxed) {
                        return;
                    }
                    start(&kernel, &format!("new-{begun}-{n}"), &newcomer, &Parkable::default());
                }
            });
            let lost = runs.iter().filter(|run| run.wait_for(Duration::from_mins(1)).is_none()).count();
            done.store(true, Relaxed);
            lost
        });
        assert_eq!(lost, 0, "of {count} runs from {begun} on");
        begun += count;
        parked += logs.iter().filter(|log| log.recovered.load(Relaxed) > 0).count();
    }
    println!("of {begun} runs that slept, {parked} were parked meanwhile, and none was lost");
    assert!(parked > 0, "none of {begun} runs was parked: the race is not there to be lost");
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}

/// Runs are held before their first step, and until their timers are due, which fire while the runs
/// are let go.
#[test]
fn of_held_runs_that_are_let_go_when_they_are_due_none_sleeps_on() {
    let kernel = Kernel::new(Clock::system());
    kernel.park_when(ParkingPolicy { after: FAR, resident_max: usize::MAX });
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &Config { workers: 2, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let root = sleeper(20_000);
    for round in 0..4 {
        let id = |n: usize| format!("run-{}", round * 1_000 + n);
        let runs: Vec<RunHandle> = (0..1_000).map(|n| start(&kernel, &id(n), &root, &Parkable::default())).collect();
        let held: Vec<_> = (0..1_000).filter_map(|n| kernel.hold(&id(n)).ok()).collect();
        assert!(!held.is_empty(), "all of them were busy");
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        for run in &runs {
            assert!(run.wait_for(Duration::from_secs(30)).is_some(), "{} sleeps on", run.id());
        }
    }
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}

/// Its call would be sent a second time when it is recovered.
#[test]
fn a_run_is_not_held_while_a_call_of_it_is_at_a_handler() {
    let mut desk = Desk::new(1);
    let calling = collects(|| vec![calls("safe", number(1))], 1);
    let waiting = collects(|| vec![waits("a")], 1);
    let _runs = [("calls", &calling), ("waits", &waiting)]
        .map(|(id, root)| start(&desk.kernel, id, root, &Parkable::default()));
    desk.drain();
    assert_eq!(desk.kernel.hold("calls").err(), Some(NotHeld::Busy));
    assert!(desk.kernel.hold("waits").is_ok());
}
