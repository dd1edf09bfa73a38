//! Guests that come back, on a pool that others have: they were not newcomers.

use super::desk::Desk;
use super::parking::Parkable;
use super::support::*;
use crate::process::{Body, Budget, Event, Eviction, Output, Payload, Permit, Program, Progress, Status, Timestamp};
use crate::run::{Log as _, Record, RunHandle};
use crate::scheduler::Config;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 10 };

/// Keeps its instance, and waits for a message. Before that it is `ready` that many times.
struct Stays {
    ready: usize,
    heard: bool,
    steps: Arc<AtomicUsize>,
}

impl Body for Stays {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.heard |= !events.is_empty();
        events.clear();
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        self.steps.fetch_add(1, SeqCst);
        if output.commands.is_empty() && self.ready == 0 {
            output.fuel = 1;
        }
        if let Some(ready) = self.ready.checked_sub(1) {
            self.ready = ready;
            return Progress::Stepped(Status::Ready);
        }
        Progress::Stepped(if self.heard { Status::Complete(Payload::NULL) } else { Status::Idle })
    }

    fn evict(&mut self) -> Eviction {
        Eviction::Stays
    }
}

/// A pool of one, and nothing outside it.
fn narrow() -> Desk {
    Desk::with(1, Config { capacity: ONE, outside: Some(Arc::new(Budget::new(0))), ..Config::default() })
}

fn root(ready: usize, steps: &Arc<AtomicUsize>) -> Arc<dyn Program> {
    let steps = Arc::clone(steps);
    guests(ONE, move |_| Ok(Box::new(Stays { ready, heard: false, steps: Arc::clone(&steps) })))
}

fn start(desk: &mut Desk, id: &str, root: &Arc<dyn Program>, log: &Parkable) -> RunHandle {
    let mut spec = spec(Arc::clone(root), Arc::default(), &Setup::default());
    (spec.id, spec.log) = (id.into(), Box::new(log.clone()));
    desk.kernel.start(spec).unwrap()
}

fn is_refused(run: &RunHandle) -> bool {
    run.outcome().is_some_and(|outcome| outcome.result.as_ref().is_err_and(|problem| problem.kind == "no-capacity"))
}

#[test]
fn a_run_that_was_parked_is_not_refused_the_instance_that_it_had() {
    let mut desk = narrow();
    let (steps, log) = (Arc::default(), Parkable::default());
    let root = root(0, &steps);
    let run = start(&mut desk, "run", &root, &log);
    desk.drain();
    desk.kernel.in_memory("run").unwrap().park_now(&mut desk.port());
    desk.drain();
    // Another one has the slot now. A third is refused.
    let other = start(&mut desk, "other", &root, &Parkable::default());
    desk.drain();
    let third = start(&mut desk, "third", &root, &Parkable::default());
    desk.drain();
    assert_eq!((other.counts().steps, is_refused(&third)), (1, true));
    // To be looked at it needs no instance.
    let before = steps.load(SeqCst);
    assert_eq!(run.processes().len(), 1);
    desk.drain();
    assert_eq!((steps.load(SeqCst), desk.kernel.parked().len()), (before, 0));
    run.kill("enough");
    desk.drain();
    assert_eq!(run.outcome().unwrap().result.as_ref().unwrap_err().detail.as_deref(), Some("enough"));
    assert_eq!(steps.load(SeqCst), before);
}

#[test]
fn a_run_that_is_recovered_is_not_refused_the_instance_that_it_had() {
    // One that waited, and one that was in the middle of its work.
    for ready in [0, 3] {
        let steps = Arc::default();
        let root = root(ready, &steps);
        let mut desk = narrow();
        let log = Parkable::default();
        start(&mut desk, "run", &root, &log);
        assert!(desk.turn());
        let records = Record::decode_all(log.records().unwrap()).unwrap();
        assert_eq!(records.len(), 2, "its start and a step");
        let mut desk = narrow();
        let first = start(&mut desk, "first", &root, &Parkable::default());
        desk.drain();
        let recovered = recover(&desk, &root, &Arc::default(), &records);
        desk.drain();
        assert_eq!((is_refused(&first), is_refused(&recovered)), (false, false), "{ready}");
        assert_eq!(recovered.counts().steps, 1 + ready as u64, "it goes on where it was");
    }
}

#[test]
fn a_run_that_is_recovered_while_its_host_shuts_down_is_notified_in_its_turn() {
    let steps = Arc::default();
    let root = root(1, &steps);
    let mut desk = narrow();
    let log = Parkable::default();
    start(&mut desk, "run", &root, &log);
    assert!(desk.turn());
    let records = Record::decode_all(log.records().unwrap()).unwrap();
    let mut desk = Desk::with(1, Config { capacity: ONE, ..Config::default() });
    let first = start(&mut desk, "first", &root, &Parkable::default());
    desk.drain();
    let recovered = recover(&desk, &root, &Arc::default(), &records);
    desk.drain();
    assert_eq!(desk.admitting(), (1, 1));
    desk.close();
    for _ in 0..20 {
        desk.turn();
    }
    // It has begun: it receives cancel when it has its instance, and waits for that in one place of
    // the queue.
    assert!(first.outcome().is_some() && recovered.outcome().is_some());
    assert_eq!(desk.admitting(), (0, 0));
}

#[test]
fn a_paused_run_that_is_recovered_is_not_stepped_for_what_came_before() {
    let root = program(|_| collect(|| vec![calls("safe", number(1))], 1));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    bench.run.pause().unwrap();
    let (call, reply) = bench.handlers.waiting.lock().remove(0);
    reply.answer(Ok(call.args));
    let records = bench.run.records().unwrap();
    let mut desk = Desk::new(1);
    let recovered = recover(&desk, &root, &Arc::default(), &records);
    desk.drain();
    assert_eq!((recovered.counts().steps, recovered.outcome().is_some()), (1, false));
    recovered.unpause().unwrap();
    desk.drain();
    assert_eq!(output(&recovered.outcome().unwrap()), r#"["1 1"]"#);
}
