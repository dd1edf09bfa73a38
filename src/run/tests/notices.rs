//! Notices, and the locks under which they are given: foreign code is called with none. A receiver
//! that panics, or is gone, does not keep others from their notices.

use super::desk::Desk;
use super::parking::{Parkable, start, waits};
use super::support::*;
use crate::journal::Memory;
use crate::process::{
    Body, Event, Level, LogLine, Micros, Output, Payload, Pid, Problem, ProcessInit, Program, Progress, Status,
    Timestamp,
};
use crate::run::commit::offload::OffloadThread;
use crate::run::{Act, Durability, Kernel, Log, Nap, NotDurable, ParkedLog, Parking, ParkingPolicy, RunHandle};
use bytes::Bytes;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Stores records, and makes none of them durable.
#[derive(Default)]
struct Later(Memory);

impl Log for Later {
    fn append(&mut self, record: &[u8]) -> Durability {
        let _ = self.0.append(record);
        Durability::Later
    }

    fn ended(&mut self, _: &crate::run::RunEnd) -> Durability {
        Durability::Later
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

fn later(desk: &Desk, handlers: &Arc<Handlers>, root: Arc<dyn Program>) -> RunHandle {
    let mut spec = spec(root, Arc::clone(handlers), &Setup::default());
    spec.log = Box::new(Later::default());
    desk.kernel.start(spec).unwrap()
}

/// Checks that a run's lock is free whenever it is called.
#[derive(Default)]
struct Caller {
    run: Mutex<Option<Arc<crate::run::commit::run::Run>>>,
    free: AtomicU32,
    held: AtomicU32,
}

impl Caller {
    fn knows(&self, run: &RunHandle) {
        *self.run.lock() = run.run();
    }

    fn called(&self) {
        let Some(run) = self.run.lock().clone() else { return };
        if run.inner.is_locked() { &self.held } else { &self.free }.fetch_add(1, Relaxed);
    }

    /// How often it was called, and never with the lock.
    fn calls(&self) -> u32 {
        assert_eq!(self.held.load(Relaxed), 0, "the lock was held");
        self.free.load(Relaxed)
    }
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.called();
    }
}

fn log(run: &RunHandle, text: &str) {
    run.log(Pid::ROOT, None, LogLine { level: Level::Info, text: text.into(), fields: None });
}

#[test]
fn watchers_and_waiters_are_woken_without_the_lock_of_the_run() {
    let (mut desk, caller) = (Desk::new(1), Arc::<Caller>::default());
    let waker = Waker::from(Arc::clone(&caller));
    let mut context = Context::from_waker(&waker);
    let root = program(|entry| match entry {
        "root" => collect(|| vec![spawns("child"), waits("a")], 2),
        _ => act(|_, _| Status::Complete(Payload::NULL)),
    });
    let run = later(&desk, &Arc::default(), root);
    caller.knows(&run);
    let mut events = run.observe(100);
    let mut watch = || while events.poll_next(&mut context).is_ready() {};
    watch();
    desk.drain();
    assert_eq!(caller.calls(), 1, "of what happened in the run");
    watch();
    log(&run, "x");
    assert_eq!(caller.calls(), 2, "of a handler's line");

    let mut context = Context::from_waker(&waker);
    let acknowledged = run.act(Act::Signal { name: "a".into(), body: Payload::NULL }, None).unwrap();
    let record = acknowledged.record();
    let mut durable = std::pin::pin!(acknowledged.durable());
    assert!(durable.as_mut().poll(&mut context).is_pending());
    run.durable(record);
    assert_eq!(caller.calls(), 3, "of an act that is durable");
    assert_eq!(durable.as_mut().poll(&mut context), Poll::Ready(Ok(())));

    let other = run.acknowledged();
    let mut lost = std::pin::pin!(other.durable());
    desk.drain();
    let end = run.acknowledged();
    let mut end = std::pin::pin!(end.durable());
    let _ = lost.as_mut().poll(&mut context);
    assert!(end.as_mut().poll(&mut context).is_pending());
    let before = caller.calls();
    run.abandon(&Problem::new("journal-failed", "The disk is gone"));
    assert!(caller.calls() > before, "that nothing more will be durable");
    assert_eq!(end.as_mut().poll(&mut context), Poll::Ready(Err(NotDurable)));
    caller.run.lock().take();
}

/// Renews itself once, then completes.
struct Renewing {
    caller: Arc<Caller>,
    renews: bool,
}

impl Body for Renewing {
    fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}

    fn poll(&mut self, _: &mut Output) -> Progress {
        Progress::Stepped(if self.renews {
            Status::Renew { entry: "again".into(), input: Payload::NULL }
        } else {
            Status::Complete(Payload::NULL)
        })
    }

    fn close(&mut self) {
        self.caller.called();
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.caller.called();
    }
}

#[test]
fn a_guest_that_is_renewed_is_closed_and_dropped_without_the_lock_of_the_run() {
    let (mut desk, caller) = (Desk::new(1), Arc::<Caller>::default());
    let theirs = Arc::clone(&caller);
    let root = maker(move |init: ProcessInit| {
        Ok(Box::new(Renewing { caller: Arc::clone(&theirs), renews: &*init.entry == "root" }))
    });
    let run = later(&desk, &Arc::default(), root);
    caller.knows(&run);
    while run.counts().steps == 0 {
        assert!(desk.turn());
    }
    assert_eq!(caller.calls(), 2, "closed and dropped");
    caller.run.lock().take();
}

#[test]
fn a_body_that_the_scheduler_does_not_take_is_dropped_without_the_lock_of_the_run() {
    let (mut desk, caller) = (Desk::with_places(1, 1), Arc::<Caller>::default());
    let theirs = Arc::clone(&caller);
    let other: Arc<dyn Program> = maker(move |_| Ok(Box::new(Renewing { caller: Arc::clone(&theirs), renews: false })));
    let root = program(|_| {
        let spawn = || crate::process::Spawn { component: Some("other".into()), ..spawn("x") };
        collect(move || vec![crate::process::Action::Spawn(Box::new(spawn()))], 1)
    });
    let mut spec = spec(root, Arc::default(), &Setup::default());
    spec.programs = [("other".into(), other)].into();
    let run = desk.kernel.start(spec).unwrap();
    caller.knows(&run);
    desk.drain();
    assert_eq!(caller.calls(), 1);
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 no-capacity Definite"]"#);
    caller.run.lock().take();
}

#[test]
fn a_waiter_that_goes_away_before_the_outcome_leaves_nothing_behind() {
    let mut desk = Desk::new(1);
    let run = start(&desk.kernel, "run", &program(|_| collect(|| vec![waits("a")], 1)), &Parkable::default());
    desk.drain();
    let waker = Waker::from(Arc::<Caller>::default());
    let mut context = Context::from_waker(&waker);
    let mut stays = std::pin::pin!(run.finished());
    for _ in 0..3 {
        assert!(stays.as_mut().poll(&mut context).is_pending());
        let mut goes = Box::pin(run.finished());
        assert!(goes.as_mut().poll(&mut context).is_pending());
        assert!(goes.as_mut().poll(&mut context).is_pending());
        assert_eq!(run.0.outcome.waiting(), 2, "one each, however often they ask");
        drop(goes);
        assert_eq!(run.0.outcome.waiting(), 1);
    }
    run.signal("a", number(1)).unwrap();
    desk.settle();
    assert!(stays.as_mut().poll(&mut context).is_ready());
}

/// Two futures of one task are both woken; if a task polls again with another waker, the last one
/// counts.
#[test]
fn each_future_that_waits_is_woken_by_its_last_waker() {
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let once = crate::run::commit::observe::Once::new();
    let counts = [0, 1].map(|_| Arc::new(Count(AtomicU32::new(0))));
    let wakers = counts.clone().map(Waker::from);
    let (mut one, mut other) = (Box::pin(once.future()), Box::pin(once.future()));
    let mut contexts = [0, 1].map(|waker| Context::from_waker(&wakers[waker]));
    assert!(one.as_mut().poll(&mut contexts[0]).is_pending());
    assert!(other.as_mut().poll(&mut contexts[0]).is_pending());
    assert!(other.as_mut().poll(&mut contexts[1]).is_pending());
    once.set(7);
    once.set(8);
    assert_eq!(counts.map(|count| count.0.load(Relaxed)), [1, 1]);
    assert_eq!(one.as_mut().poll(&mut contexts[0]), Poll::Ready(7), "the first stays");
}

/// The log reports a record durable after the run was abandoned: what was reported stays so, and
/// nothing leaves.
#[test]
fn nothing_leaves_a_run_that_was_abandoned() {
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = later(&desk, &handlers, program(|_| collect(|| vec![calls("safe", number(1))], 1)));
    desk.drain();
    run.abandon(&Problem::new("run-taken", "It is another host's"));
    assert!(desk.kernel.run("run").is_none());
    let told = run.outcome().unwrap();
    assert_eq!(told.result.as_ref().unwrap_err().kind, "run-taken");

    // Found before it was abandoned, and notified afterwards; and a step that was in progress then.
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = later(&desk, &handlers, program(|_| collect(|| vec![calls("safe", number(1))], 1)));
    let here = run.run().unwrap();
    here.abandon(&Problem::new("run-taken", "It is another host's"));
    desk.drain();
    here.durable(&mut desk.port(), 99);
    assert_eq!(handlers.waiting.lock().len(), 0, "no call leaves");
    assert!(!here.inner.lock().is_durable(1), "nothing is told to be certain");
    let _ = here.try_arrive(
        &mut desk.port(),
        &mut Some(crate::run::News::Cancel { pid: Pid::ROOT, reason: "x".into(), grace: Some(Micros(0)) }),
    );
    desk.drain();
    here.durable(&mut desk.port(), 999);
    assert_eq!(run.outcome().unwrap().result.as_ref().unwrap_err().kind, "run-taken", "it ended as that");
}

#[test]
fn work_that_panics_ends_only_itself() {
    let aside = OffloadThread::new("test");
    let done = Arc::new(AtomicU32::new(0));
    for n in 0..6 {
        let done = Arc::clone(&done);
        assert!(aside.push(move || {
            assert!(n % 2 == 0, "this is meant");
            done.fetch_add(1, Relaxed);
        }));
    }
    aside.flush();
    assert_eq!(done.load(Relaxed), 3);
}

/// Records of a run whose recovery panics.
struct Broken;

impl ParkedLog for Broken {
    fn recover(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        panic!("a page of it is upside down")
    }
}

struct Breaking(Parkable, Arc<AtomicBool>);

impl Log for Breaking {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.0.append(record)
    }

    fn can_park(&self) -> bool {
        true
    }

    fn park(&mut self, _: &Nap) -> Option<Parking> {
        self.1.store(true, Relaxed);
        Some(Parking::Kept(Box::new(Broken)))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

#[test]
fn one_run_that_panics_when_it_is_recovered_does_not_keep_others_from_waking() {
    let mut desk = Desk::new(1);
    desk.kernel.park_when(ParkingPolicy { after: Duration::from_millis(1), resident_max: usize::MAX });
    let root = program(|_| collect(|| vec![crate::process::Action::Sleep(Micros(1_000_000))], 1));
    let parked = Arc::<AtomicBool>::default();
    let begin = |kernel: &Kernel, id: &str, is_broken: bool| {
        let mut spec = spec(Arc::clone(&root), Arc::default(), &Setup::default());
        let log = Parkable::default();
        spec.log = if is_broken { Box::new(Breaking(log, Arc::clone(&parked))) } else { Box::new(log) };
        spec.id = id.into();
        kernel.start(spec).unwrap()
    };
    let broken = begin(&desk.kernel, "a", true);
    let whole = ["b", "c"].map(|id| begin(&desk.kernel, id, false));
    loop {
        desk.drain();
        desk.kernel.flush_waking();
        desk.drain();
        if !desk.fire() {
            break;
        }
    }
    assert!(parked.load(Relaxed));
    for run in whole {
        assert_eq!(output(&run.outcome().expect("it wakes")), r#"["1 null"]"#);
    }
    let problem = broken.outcome().expect("it has an outcome").result.clone().unwrap_err();
    assert_eq!(problem.kind, "journal-failed");
    assert!(problem.detail.as_ref().unwrap().contains("a page of it is upside down"), "{problem}");
    assert_eq!((desk.kernel.runs().len(), desk.kernel.parked().len(), desk.kernel.resident()), (0, 0, 0));
}

/// A snapshot that cannot be packed is reported, and the next one is stored.
#[test]
fn a_snapshot_that_panics_is_counted_and_others_are_stored() {
    struct Bad;
    impl crate::process::RawSnapshot for Bad {
        fn bytes(&self) -> usize {
            1
        }
        fn pack(self: Box<Self>) -> Result<crate::process::ProcessSnapshot, crate::process::SnapshotError> {
            panic!("a page of it is upside down")
        }
    }
    let (writer, shelf) =
        (crate::run::commit::snapshot_writer::SnapshotWriter::new(), Arc::new(crate::run::MemorySnapshots::default()));
    let shelf: Arc<dyn crate::run::SnapshotStore> = shelf;
    for step in 0..3 {
        let pending = writer.reserve(
            &shelf,
            Pid::ROOT,
            step,
            Box::new(Bad),
            &crate::run::commit::snapshot_writer::ReplayTail::default(),
        );
        writer.write(Box::new(pending));
    }
    writer.flush();
    let counts = writer.counts();
    assert_eq!((counts.failed, counts.kept), (3, 0));
    assert!(counts.last_failure.unwrap().contains("upside down"));
    assert!(writer.has_room(), "what they took is given back");
}
