//! Runs that wait leave the memory, and come back for whatever comes for them.

use super::desk::Desk;
use super::support::*;
use crate::base::Monotonic;
use crate::journal::Memory;
use crate::process::{Action, Event, Micros, Payload, Program, Status};
use crate::run::{
    Act, Awaited, Clock, Durability, Kernel, Log, MemorySnapshots, Nap, ParkedLog, Parking, ParkingPolicy, Refused,
    RunHandle, SnapshotPolicy, SnapshotStore,
};
use crate::scheduler::{Config, Scheduler};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Records that outlive their log.
#[derive(Clone, Default)]
pub(super) struct Parkable {
    pub(super) memory: Arc<Mutex<Memory>>,
    shelf: Option<MemorySnapshots>,
    broken: Arc<AtomicBool>,
    /// What the run waited for when it was parked last.
    pub(super) awaited: Arc<Mutex<Vec<Awaited>>>,
    /// How often the run was recovered.
    pub(super) recovered: Arc<AtomicU64>,
    later: bool,
    pub(super) goes: bool,
    /// Happens while it is read to recover the run.
    pub(super) meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    _dropped: Dropped,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A log may be the last owner of its journal, and dropping it then waits for the journal's
/// threads: no log is dropped with a lock that these may need.
#[derive(Clone, Default)]
struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        crate::base::brief::waits();
    }
}

impl Log for Parkable {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.memory.lock().append(record);
        if self.later { Durability::Later } else { Durability::Now }
    }

    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        self.shelf.clone().map(|shelf| Arc::new(shelf) as _)
    }

    fn awaits(&mut self, awaited: Vec<Awaited>) {
        *self.awaited.lock() = awaited;
    }

    fn can_park(&self) -> bool {
        true
    }

    fn park(&mut self, _: &Nap) -> Option<Parking> {
        Some(if self.goes { Parking::Gone } else { Parking::Kept(Box::new(self.clone())) })
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.memory.lock().records()
    }
}

impl ParkedLog for Parkable {
    fn recover(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        if self.broken.load(Relaxed) {
            return Err("the disk is gone".into());
        }
        self.recovered.fetch_add(1, Relaxed);
        let meanwhile = self.meanwhile.lock().take();
        if let Some(happens) = meanwhile {
            happens();
        }
        let records = self.memory.lock().records().ok_or("too many")?;
        Ok((self, records))
    }
}

const AFTER: u64 = 5_000_000;

pub(super) fn start(kernel: &Kernel, id: &str, root: &Arc<dyn Program>, log: &Parkable) -> RunHandle {
    let mut spec = spec(Arc::clone(root), Arc::default(), &Setup::default());
    (spec.id, spec.log) = (id.into(), Box::new(log.clone()));
    kernel.start(spec).unwrap()
}

pub(super) fn waits(name: &str) -> Action {
    calls("signal", Payload::json(&serde_json::json!({ "name": name })))
}

/// A run that collects the events of these commands.
pub(super) fn collects(commands: fn() -> Vec<Action>, count: usize) -> Arc<dyn Program> {
    program(move |_| collect(commands, count))
}

/// Until the second check.
pub(super) fn wait_long(desk: &mut Desk) {
    desk.drain();
    for _ in 0..2 {
        desk.fire();
        desk.drain();
    }
}

fn is_parked(desk: &Desk, id: &str) -> bool {
    desk.kernel.parked().iter().any(|(known, _)| &**known == id)
}

#[test]
fn a_run_that_waits_is_parked_and_comes_back_for_a_signal() {
    let mut desk = Desk::new(1);
    let root = collects(|| vec![waits("a"), waits("b")], 2);
    let log = Parkable::default();
    let run = start(&desk.kernel, "run", &root, &log);
    let weak = Arc::downgrade(&run.run().unwrap());
    wait_long(&mut desk);
    assert!(is_parked(&desk, "run") && desk.kernel.runs().is_empty());
    assert_eq!(desk.living(), 0, "its processes are gone");
    assert_eq!(weak.strong_count(), 0, "nothing of the run is left");
    assert_eq!(desk.now(), Monotonic(2 * AFTER));
    let (_, facts) = desk.kernel.parked()[0];
    assert_eq!((facts.processes, facts.uncertain, facts.is_paused, facts.counts.steps), (1, 0, false, 1));

    // By the handle that was there, and by one that is made while it is parked.
    run.signal("b", number(2)).unwrap();
    assert!(!is_parked(&desk, "run"));
    wait_long(&mut desk);
    assert!(is_parked(&desk, "run"), "it waits again");
    let other = desk.kernel.run("run").unwrap();
    assert!(is_parked(&desk, "run"), "to ask for it is to do nothing with it");
    other.signal("a", number(1)).unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["2 2","1 1"]"#);
    assert_eq!(other.outcome(), run.outcome());
    assert_eq!(log.recovered.load(Relaxed), 2);
    assert_eq!(run.signal("a", number(1)), Err(Refused::Ended));
    assert!(desk.kernel.run("run").is_none());
}

#[test]
fn whatever_is_asked_of_a_parked_run_is_answered() {
    let mut desk = Desk::new(1);
    let root = program(|_| {
        collect(
            || vec![Action::Expose { query: "q".into(), value: number(7) }, Action::Register("hub".into()), waits("a")],
            9,
        )
    });
    let run = start(&desk.kernel, "run", &root, &Parkable::default());
    let mut ask = |act: &dyn Fn()| {
        wait_long(&mut desk);
        assert!(is_parked(&desk, "run"));
        act();
        assert!(!is_parked(&desk, "run"));
    };
    ask(&|| assert_eq!(run.query("q"), Some(number(7))));
    ask(&|| assert_eq!(run.processes().len(), 1));
    ask(&|| assert_eq!(run.signals().len(), 1));
    ask(&|| assert!(run.records().unwrap().len() >= 2));
    ask(&|| assert_eq!(run.counts().processes, 1));
    ask(&|| run.pause().unwrap());
    ask(&|| assert!(run.is_paused()));
    ask(&|| run.unpause().unwrap());
    let act = || run.act(Act::Signal { name: "x".into(), body: number(1) }, Some("once"));
    ask(&|| drop(act().unwrap()));
    // The same one again, after a while on disk.
    ask(&|| drop(act().unwrap()));
    ask(&|| assert_eq!(run.signals().iter().map(|signal| signal.kept).sum::<usize>(), 1));
    ask(&|| run.kill("enough"));
    desk.settle();
    assert!(run.outcome().unwrap().result.is_err());
}

#[test]
fn a_timer_takes_a_parked_run_up_when_it_is_due() {
    let mut desk = Desk::new(1);
    let hour = 3_600_000_000;
    let root = collects(|| vec![Action::Sleep(Micros(3_600_000_000)), Action::Sleep(Micros(7_200_000_000))], 2);
    let log = Parkable::default();
    let run = start(&desk.kernel, "run", &root, &log);
    desk.drain();
    for (times, due) in [(1, hour), (2, 2 * hour)] {
        while log.recovered.load(Relaxed) < times {
            assert!(run.outcome().is_none() && desk.fire(), "there is a timer");
            desk.kernel.flush_waking();
            desk.drain();
        }
        assert!((due..due + 1_000).contains(&desk.now().0), "{:?}", desk.now());
    }
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 null","2 null"]"#);
}

#[test]
fn a_run_with_something_under_way_stays() {
    let stays = |root: Arc<dyn Program>, log: Parkable, prepare: &dyn Fn(&RunHandle)| {
        let mut desk = Desk::new(1);
        let run = start(&desk.kernel, "run", &root, &log);
        prepare(&run);
        desk.drain();
        for _ in 0..20 {
            desk.fire();
            desk.drain();
        }
        assert!(!is_parked(&desk, "run"));
        (desk, run)
    };
    // A call at a handler; a record that is not durable; a process that is always about to step; a
    // watcher.
    stays(collects(|| vec![calls("safe", number(1))], 1), Parkable::default(), &|_| {});
    let (mut desk, run) =
        stays(collects(|| vec![waits("a")], 1), Parkable { later: true, ..Parkable::default() }, &|_| {});
    run.durable(run.counts().records);
    while !is_parked(&desk, "run") {
        assert!(desk.fire());
        desk.drain();
    }
    let busy = program(|_| {
        act(|context, _| {
            context.command(Action::Sleep(Micros(AFTER / 2)));
            Status::Idle
        })
    });
    stays(busy, Parkable::default(), &|_| {});
    let events = Mutex::new(None);
    let (mut desk, _) = stays(collects(|| vec![waits("a")], 1), Parkable::default(), &|run| {
        *events.lock() = Some(run.observe(10));
    });
    drop(events.lock().take());
    while !is_parked(&desk, "run") {
        assert!(desk.fire());
        desk.drain();
    }
}

#[test]
fn a_run_in_its_grace_stays_to_the_end_of_that() {
    let mut desk = Desk::new(1);
    let run = start(&desk.kernel, "run", &collects(|| vec![waits("a")], 9), &Parkable::default());
    desk.drain();
    run.cancel("it is not wanted", Some(Duration::from_mins(1))).unwrap();
    desk.drain();
    while run.outcome().is_none() {
        assert!(!is_parked(&desk, "run") && desk.fire());
        desk.drain();
    }
    assert!(desk.now() >= Monotonic(60_000_000));
}

#[test]
fn a_call_whose_outcome_is_unknown_does_not_keep_a_run_in_memory() {
    let root = collects(|| vec![calls("unsafe", number(1))], 1);
    let log = Parkable::default();
    let desk = Desk::new(1);
    start(&desk.kernel, "run", &root, &log);
    desk.clone().drain();
    let records: Vec<_> = log
        .memory
        .lock()
        .records()
        .unwrap()
        .into_iter()
        .map(|bytes| crate::run::Record::decode(bytes).unwrap())
        .collect();
    drop(desk);
    let mut desk = Desk::new(1);
    let mut spec = recovery_spec(&root, &Arc::default(), &records);
    spec.log = Box::new(log.clone());
    let run = desk.kernel.recover(spec, &records).unwrap();
    wait_long(&mut desk);
    assert!(is_parked(&desk, "run"));
    assert_eq!(desk.kernel.parked()[0].1.uncertain, 1);
    let uncertain = run.uncertain();
    assert_eq!(uncertain.len(), 1);
    wait_long(&mut desk);
    assert!(is_parked(&desk, "run"));
    let resolution = crate::run::Resolution::Answered(Ok(number(5)));
    run.resolve(uncertain[0].pid, uncertain[0].tag, resolution).unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 5"]"#);
}

#[test]
fn a_run_that_cannot_be_recovered_reports_it() {
    let mut desk = Desk::new(1);
    let log = Parkable::default();
    let run = start(&desk.kernel, "run", &collects(|| vec![waits("a")], 1), &log);
    wait_long(&mut desk);
    log.broken.store(true, Relaxed);
    assert_eq!(run.signal("a", number(1)), Err(Refused::Ended));
    let problem = run.outcome().unwrap().result.clone().unwrap_err();
    assert_eq!((&*problem.kind, problem.detail.as_deref()), ("journal-failed", Some("the disk is gone")));
    assert!(desk.kernel.run("run").is_none() && desk.kernel.parked().is_empty());
}

#[test]
fn waiters_for_a_parked_run_are_notified_when_the_host_releases_it() {
    let mut desk = Desk::new(1);
    let run = start(&desk.kernel, "run", &collects(|| vec![waits("a")], 1), &Parkable::default());
    wait_long(&mut desk);
    desk.kernel.hold_calls();
    assert_eq!(run.signal("a", number(1)), Err(Refused::Ended), "nothing begins any more");
    assert!(is_parked(&desk, "run"));
    desk.kernel.abandon(&crate::process::Problem::new("suspended", "x"));
    assert_eq!(run.outcome().unwrap().result.as_ref().unwrap_err().kind, "suspended");
}

#[test]
fn what_is_expensive_to_replay_is_saved_before() {
    let mut desk = Desk::new(1);
    desk.kernel.snapshot_when(SnapshotPolicy {
        tail: Duration::from_hours(1),
        steps_max: u64::MAX,
        parked_tail: Duration::ZERO,
        ..SnapshotPolicy::default()
    });
    let shelf = MemorySnapshots::default();
    let log = Parkable { shelf: Some(shelf.clone()), ..Parkable::default() };
    let (root, steps) = super::snapshots::sleeper(desk.time());
    let run = start(&desk.kernel, "run", &root, &log);
    while !is_parked(&desk, "run") {
        assert!(desk.fire());
        desk.drain();
    }
    desk.kernel.flush_snapshots();
    assert_eq!(shelf.list().unwrap().len(), 1);
    let executed = steps.load(Relaxed);
    desk.settle();
    desk.kernel.flush_waking();
    desk.settle();
    assert!(run.outcome().is_some());
    assert_eq!(steps.load(Relaxed), executed + 1, "the first step is not done again");
}

#[test]
fn those_that_wait_leave_at_once_if_too_many_are_in_memory() {
    let mut desk = Desk::new(1);
    desk.kernel.park_when(ParkingPolicy { resident_max: 10, ..ParkingPolicy::default() });
    let root = collects(|| vec![waits("a")], 1);
    let runs: Vec<_> = (0..100)
        .map(|n| {
            let run = start(&desk.kernel, &format!("run-{n}"), &root, &Parkable::default());
            desk.drain();
            run
        })
        .collect();
    assert_eq!(desk.now(), Monotonic(0), "no time has passed");
    assert!(desk.kernel.runs().len() <= 11, "{}", desk.kernel.runs().len());
    assert_eq!(desk.kernel.runs().len() + desk.kernel.parked().len(), 100);
    for (n, run) in runs.iter().enumerate() {
        run.signal("a", number(n as u64)).unwrap();
        desk.drain();
    }
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(output(&run.outcome().unwrap()), format!(r#"["1 {n}"]"#));
    }
}

#[test]
fn where_none_is_to_be_in_memory_who_is_asked_for_something_answers() {
    let mut desk = Desk::new(1);
    desk.kernel.park_when(ParkingPolicy { resident_max: 0, ..ParkingPolicy::default() });
    let root = collects(|| vec![waits("a")], 1);
    let runs: Vec<_> = (0..3).map(|n| start(&desk.kernel, &format!("run-{n}"), &root, &Parkable::default())).collect();
    desk.drain();
    desk.kernel.park_some();
    assert_eq!(desk.kernel.parked().len(), 3);
    for run in &runs {
        run.signal("a", number(1)).unwrap();
        desk.drain();
        assert_eq!(output(&run.outcome().unwrap()), r#"["1 1"]"#);
    }
}

#[test]
fn a_sleep_goes_on_while_its_run_is_parked_though_the_wall_clock_is_behind() {
    let minute = 60_000_000;
    let root = collects(|| vec![Action::Sleep(Micros(60_000_000))], 1);
    let log = Parkable::default();
    let mut desk = Desk::new(1);
    start(&desk.kernel, "run", &root, &log);
    desk.drain();
    // The next host has its clock an hour behind.
    let mut desk = Desk::new(1);
    desk.set_wall(-3_600_000_000);
    let records = log.memory.lock().records().unwrap();
    let records = crate::run::Record::decode_all(records).unwrap();
    let mut spec = recovery_spec(&root, &Arc::default(), &records);
    spec.log = Box::new(log.clone());
    let run = desk.kernel.recover(spec, &records).unwrap();
    desk.drain();
    while run.outcome().is_none() {
        assert!(desk.now().0 <= minute && desk.fire(), "it sleeps too long");
        desk.kernel.flush_waking();
        desk.drain();
    }
    assert!(log.recovered.load(Relaxed) > 0, "it was parked");
    assert_eq!(desk.now(), Monotonic(minute));
}

const RUNS: usize = 24;
const SIGNALS: u64 = 150;

/// Waits for one signal after the other, and completes with all their bodies.
fn receiver() -> Arc<dyn Program> {
    program(|_| {
        let mut heard: Vec<String> = Vec::new();
        let mut begun = false;
        act(move |context, events| {
            let answers = events.drain(..).filter_map(|event| match event {
                Event::Completed { answer: Ok(payload), .. } => Some(text(&payload)),
                _ => None,
            });
            let before = heard.len();
            heard.extend(answers);
            if heard.len() as u64 == SIGNALS {
                return Status::Complete(Payload::json(&heard));
            }
            if !std::mem::replace(&mut begun, true) || heard.len() > before {
                context.command(waits("s"));
            }
            Status::Idle
        })
    })
}

/// Sends all signals to every third run, from this one on.
fn send_signals(kernel: &Kernel, runs: &[RunHandle], first: usize) {
    for number in 0..SIGNALS {
        for (n, run) in runs.iter().enumerate().skip(first).step_by(3) {
            // By the handle of the start, or by a new one.
            let new = (number + n as u64).is_multiple_of(2).then(|| kernel.run(run.id()).unwrap());
            let run = new.as_ref().unwrap_or(run);
            let act = Act::Signal { name: "s".into(), body: super::support::number(number) };
            let id = format!("{number}");
            drop(run.act(act.clone(), Some(&id)).unwrap());
            if number % 3 == 0 {
                // Once more: it is the same act.
                let again = run.act(act, Some(&id));
                assert!(again.is_ok() || number == SIGNALS - 1, "{again:?}");
            }
            if (number + n as u64).is_multiple_of(5) {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    }
}

/// Threads that send, query and list while runs are parked all the time: nothing is lost, nothing
/// is done twice, and everything is in order.
#[test]
fn nothing_is_lost_between_parking_and_acts() {
    let kernel = Arc::new(Kernel::new(Clock::system()));
    kernel.park_when(ParkingPolicy { after: Duration::from_micros(200), resident_max: 6 });
    let scheduler = Scheduler::start(Arc::clone(&kernel), &Config { workers: 2, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let root = receiver();
    let logs: Vec<Parkable> = (0..RUNS).map(|_| Parkable::default()).collect();
    let runs: Vec<RunHandle> =
        logs.iter().enumerate().map(|(n, log)| start(&kernel, &format!("run-{n:02}"), &root, log)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (kernel, runs, done) = (&kernel, &runs, &done);
        let senders: Vec<_> = (0..3).map(|first| scope.spawn(move || send_signals(kernel, runs, first))).collect();
        scope.spawn(move || {
            while !done.load(Relaxed) {
                for run in runs {
                    let processes = run.processes();
                    assert!(processes.len() == 1 || run.outcome().is_some(), "{processes:?}");
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        for sender in senders {
            sender.join().unwrap();
        }
        for (n, run) in runs.iter().enumerate() {
            let outcome = run.wait_for(Duration::from_mins(1)).unwrap_or_else(|| panic!("run {n} ends"));
            let expected: Vec<String> = (0..SIGNALS).map(|number| number.to_string()).collect();
            assert_eq!(output(&outcome), serde_json::to_string(&expected).unwrap(), "run {n}");
        }
        done.store(true, Relaxed);
    });
    let recovered: u64 = logs.iter().map(|log| log.recovered.load(Relaxed)).sum();
    assert!(recovered > RUNS as u64 * 5, "they were parked: {recovered}");
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}
