//! Runs to be recovered by a host that stops, or has no room for them: on disk they stay as they
//! are.

use super::desk::Desk;
use super::parking::{Parkable, start, waits};
use super::support::*;
use crate::base::Monotonic;
use crate::process::{Action, Micros, Problem, Program};
use crate::run::{Clock, Kernel, ParkingPolicy, Record, RecoveryError, RunHandle};
use crate::scheduler::{Config, Scheduler};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const HOUR: Micros = Micros(3_600_000_000);

fn records(log: &Parkable) -> Vec<Record> {
    let records = crate::run::Log::records(log).unwrap();
    Record::decode_all(records).unwrap()
}

/// A root that sleeps and waits for a signal, with a child that waits too.
fn family() -> Arc<dyn Program> {
    program(|entry| match entry {
        "root" => collect(|| vec![spawns("child"), waits("a"), Action::Sleep(HOUR)], 1),
        _ => collect(|| vec![waits("b")], 1),
    })
}

/// A run of two processes that is parked.
fn parked(desk: &mut Desk, log: &Parkable) -> RunHandle {
    desk.kernel.park_when(ParkingPolicy { after: Duration::from_hours(1_000), resident_max: usize::MAX });
    let run = start(&desk.kernel, "run", &family(), log);
    desk.drain();
    desk.kernel.in_memory("run").unwrap().park_now(&mut desk.port());
    desk.drain();
    assert_eq!((desk.kernel.parked().len(), desk.living()), (1, 0));
    run
}

/// Takes all places that the desk has for newcomers.
fn fill(desk: &mut Desk) -> Vec<RunHandle> {
    let root = program(|_| collect(|| vec![waits("a")], 1));
    let start = |number: usize| {
        let mut spec = spec(Arc::clone(&root), Arc::default(), &Setup::default());
        spec.id = format!("other-{number}").into();
        desk.kernel.start(spec).ok()
    };
    let others = (0..).map_while(start).collect();
    desk.drain();
    others
}

fn problem(run: &RunHandle) -> String {
    run.outcome().unwrap().result.as_ref().unwrap_err().kind.to_string()
}

/// What is on disk continues in another host.
fn goes_on(log: &Parkable) {
    let mut desk = Desk::new(1);
    let run = recover(&desk, &family(), &Arc::default(), &records(log));
    run.signal("a", number(1)).unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["2 1"]"#);
}

#[test]
fn a_host_that_shuts_down_takes_no_parked_run_up() {
    let (mut desk, log) = (Desk::new(1), Parkable::default());
    let run = parked(&mut desk, &log);
    let before = records(&log);
    // No process is in memory that could be notified.
    desk.close();
    assert!(run.signal("a", number(1)).is_err());
    desk.fire();
    desk.kernel.flush_waking();
    desk.drain();
    assert_eq!((desk.kernel.parked().len(), log.recovered.load(Relaxed)), (1, 0));
    assert!(run.outcome().is_none());
    assert_eq!(records(&log), before);
    goes_on(&log);
}

#[test]
fn a_run_that_is_being_recovered_when_the_host_stops_is_released() {
    for is_detached in [false, true] {
        let (mut desk, log) = (Desk::new(1), Parkable::default());
        let run = parked(&mut desk, &log);
        let before = records(&log);
        let closes = desk.clone();
        *log.meanwhile.lock() = Some(Box::new(move || {
            closes.close();
            if is_detached {
                closes.kernel.detach();
            }
        }));
        assert!(run.signal("a", number(1)).is_err());
        desk.drain();
        assert_eq!((log.recovered.load(Relaxed), desk.living(), desk.timers()), (1, 0, 0));
        assert_eq!((desk.kernel.parked().len(), desk.kernel.runs().len(), desk.kernel.resident()), (0, 0, 0));
        assert_eq!(problem(&run), "suspended");
        assert_eq!(records(&log), before);
        goes_on(&log);
    }
}

#[test]
fn a_parked_run_for_which_there_is_no_place_comes_back_when_there_is_one() {
    let (mut desk, log) = (Desk::with_places(1, 1_000), Parkable::default());
    let run = parked(&mut desk, &log);
    let before = records(&log);
    let others = fill(&mut desk);
    assert!(run.signal("a", number(1)).is_err());
    desk.drain();
    let all = others.len();
    assert_eq!((desk.kernel.parked().len(), desk.living(), desk.kernel.resident()), (1, all, all));
    // Its timer is due, and is tried again now and then.
    for _ in 0..10 {
        assert!(desk.fire());
        desk.kernel.flush_waking();
        desk.drain();
    }
    assert!(desk.now() >= Monotonic(HOUR.0 + 5_000_000), "{:?}", desk.now());
    assert!(log.recovered.load(Relaxed) > 5);
    assert_eq!(records(&log), before);
    assert!(run.outcome().is_none());
    for other in &others {
        other.signal("a", number(1)).unwrap();
    }
    desk.drain();
    assert!(desk.living() == 0 && desk.fire());
    desk.kernel.flush_waking();
    desk.drain();
    assert_eq!(output(&run.outcome().unwrap()), r#"["3 null"]"#);
}

#[test]
fn a_run_that_is_lost_while_it_finds_no_place_is_notified() {
    let (mut desk, log) = (Desk::with_places(1, 1_000), Parkable::default());
    let run = parked(&mut desk, &log);
    let _others = fill(&mut desk);
    let kernel = desk.kernel.clone();
    *log.meanwhile.lock() = Some(Box::new(move || kernel.abandon_run("run", &Problem::new("run-taken", "x"))));
    assert!(run.signal("a", number(1)).is_err());
    desk.drain();
    assert_eq!(problem(&run), "run-taken");
    assert!(desk.kernel.parked().is_empty() && desk.kernel.run("run").is_none());
}

#[test]
fn a_run_that_a_host_has_no_room_for_is_not_recovered() {
    let log = Parkable::default();
    parked(&mut Desk::new(1), &log);
    let before = records(&log);
    for closes in [false, true] {
        let mut desk = Desk::with_places(1, if closes { 2 } else { 1 });
        if closes {
            desk.close();
        }
        let mut spec = recovery_spec(&family(), &Arc::default(), &before);
        spec.log = Box::new(log.clone());
        let recovered = desk.kernel.recover(spec, &before).map(|run| run.id().to_string());
        assert_eq!(recovered, Err(RecoveryError::Refused));
        desk.drain();
        assert_eq!((desk.living(), desk.timers(), desk.kernel.resident()), (0, 0, 0));
        assert!(desk.kernel.run("run").is_none());
        assert_eq!(records(&log), before);
    }
    goes_on(&log);
}

/// On real threads: sleeps end while their runs are parked, and the host stops with or without a
/// shutdown.
#[test]
fn no_run_that_wakes_while_its_host_stops_ends_for_that() {
    const RUNS: u64 = 40;
    for (round, is_suspended) in (0..12).zip([true, false].into_iter().cycle()) {
        let kernel = Kernel::new(Clock::system());
        let config = Config { workers: 2, ..Config::default() };
        let scheduler = Scheduler::start(Arc::new(kernel.clone()), &config).unwrap();
        kernel.attach(scheduler.handle());
        kernel.park_when(ParkingPolicy { after: Duration::from_hours(1), resident_max: usize::MAX });
        let begun = Instant::now();
        let logs: Vec<Parkable> = (0..RUNS).map(|_| Parkable::default()).collect();
        for (number, log) in (0..).zip(&logs) {
            // To read it takes a millisecond.
            *log.meanwhile.lock() = Some(Box::new(|| std::thread::sleep(Duration::from_millis(1))));
            let sleep = Action::Sleep(Micros(60_000 + number * 2_000));
            let root = program(move |_| {
                let sleep = sleep.clone();
                collect(move || vec![sleep.clone()], 1)
            });
            start(&kernel, &format!("run-{number}"), &root, log);
        }
        while kernel.parked().len() < logs.len() && begun.elapsed() < Duration::from_millis(55) {
            for run in kernel.runs() {
                if let Some(here) = kernel.in_memory(run.id()) {
                    here.park_now(&mut scheduler.handle());
                }
            }
        }
        std::thread::sleep(Duration::from_millis(80 + round));
        kernel.never_stall();
        if is_suspended {
            kernel.hold_calls();
            drop(scheduler);
        } else {
            let _ = scheduler.shutdown(Duration::from_secs(5));
        }
        kernel.flush_waking();
        for log in &logs {
            let died = records(log).into_iter().find(|record| matches!(record, Record::Died(_)));
            let failed = died.filter(|died| format!("{died:?}").contains("no-capacity"));
            assert!(failed.is_none(), "suspended: {is_suspended}: {failed:?}");
        }
        kernel.detach();
    }
}
