//! Runs that write more than the disk takes: nothing waits that the journal's thread needs to
//! report durability.

use super::*;
use crate::journal::Nothing;
use crate::process::{
    Context, Ending, Event, Level, LogLine, NativeProgram, Payload, Problem, Process, Program, Status,
};
use crate::run::{Bounds, Clock, Dispatched, Effects, Kernel, OutgoingCall, Reply, RunHandle, RunSpec};
use crate::scheduler::{Config, Scheduler};
use std::time::Duration;

/// A wait this long would be a wait for ever.
const EVER: Duration = Duration::from_mins(3);

/// Reports durability to a kernel, as a host does.
struct Tells(Kernel);

impl DurabilityListener for Tells {
    fn durable(&self, run: &str, record: u64) {
        self.0.durable(run, record);
    }

    fn failed(&self, error: &StoreError) {
        self.0.abandon(&Problem::new("journal-failed", error.to_string()));
    }
}

struct NoCalls;

impl Effects for NoCalls {
    fn dispatch(&self, _: OutgoingCall, _: Arc<dyn Reply>) -> Dispatched {
        Dispatched::Pending
    }

    fn abandon(&self, _: &str, _: crate::process::Pid, _: crate::process::Tag) {}

    fn is_repeatable(&self, _: &str, _: &Payload) -> bool {
        true
    }
}

/// Logs in each step, and never waits.
struct Chatty(u32);

impl Process for Chatty {
    fn init(&mut self, _: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status {
        if events.drain(..).any(|event| matches!(event, Event::Cancel { .. })) {
            return Status::Failed(Problem::new("cancelled", "It was cancelled").into());
        }
        context.log(LogLine { level: Level::Info, text: "x".repeat(60_000), fields: None });
        self.0 -= 1;
        if self.0 == 0 { Status::Complete(Payload::NULL) } else { Status::Ready }
    }
}

fn start(kernel: &Kernel, id: &str, log: Box<dyn Log>, steps: u32) -> RunHandle {
    let root: Arc<dyn Program> = Arc::new(NativeProgram::new("chatty", 1, move || Chatty(steps)));
    let spec = RunSpec {
        id: id.into(),
        seed: [0; 32],
        root,
        entry: "run".into(),
        input: Payload::NULL,
        limits: crate::process::Limits::default(),
        grants: crate::process::Grants::default(),
        bounds: Bounds::default(),
        programs: std::collections::BTreeMap::default(),
        log,
        effects: Arc::new(NoCalls),
        sink: None,
        watcher: None,
        origin: None,
    };
    kernel.start(spec).unwrap()
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < EVER, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_that_outruns_the_disk_gets_its_reports_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = Kernel::new(Clock::system());
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &Config { workers: 1, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let store = Sqlite::open(folder.path(), Arc::new(Tells(kernel.clone()))).unwrap();
    let log = |id| store.begin(&new(id)).unwrap();
    let (long, endless) = (log("long"), log("endless"));

    // The disk stands still while a group is being written.
    let write_lock = store.0.shared.write_lock.lock();
    let long = start(&kernel, "long", long, 1_500);
    let endless = start(&kernel, "endless", endless, u32::MAX);
    eventually("nobody begins a step any more", || {
        let before = long.counts().steps + endless.counts().steps;
        std::thread::sleep(Duration::from_millis(50));
        before > 1_000 && before == long.counts().steps + endless.counts().steps
    });
    // The only worker is free for others, and arrivals from outside are accepted.
    let other = start(&kernel, "other", Box::new(Nothing), 10);
    assert!(other.wait_for(EVER).is_some(), "its records go nowhere");
    endless.cancel("enough", None).unwrap();
    assert!(endless.outcome().is_none());

    drop(write_lock);
    assert!(endless.wait_for(EVER).is_some_and(|outcome| matches!(outcome.ending, Ending::Failed(_))));
    assert!(long.wait_for(EVER).is_some_and(|outcome| outcome.ending == Ending::Completed));
    store.flush().unwrap();
    assert_eq!(store.records("long").unwrap().len(), 1_501);
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}

/// Beginning a run waits until there is room: without a lock, and before the run is known.
#[test]
fn a_run_begins_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut log = store.begin(&new("first")).unwrap();
    let write_lock = store.0.shared.write_lock.lock();
    // One group is being written, and the next one is too large.
    let _ = log.append(b"one");
    log.flush_soon();
    eventually("it is taken", || store.0.shared.queue.lock().is_empty());
    for _ in 0..70 {
        let _ = log.append(&vec![7; 1 << 20]);
    }
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| store.begin(&new("second")).map(drop));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!begins.is_finished());
        drop(write_lock);
        begins.join().unwrap().unwrap();
    });
    assert_eq!(log.records().unwrap().len(), 71);
}
