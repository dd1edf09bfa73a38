//! What waits to leave the host until its record is durable.

use super::desk::Desk;
use super::support::*;
use crate::journal::Memory;
use crate::process::{Action, Context, Micros, Status, Tag};
use crate::run::{Durability, Log, Record};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A log whose records are durable when the test says so.
#[derive(Default)]
struct Slow {
    memory: Memory,
    records: Arc<AtomicU64>,
    hurried: Arc<AtomicU64>,
}

impl Log for Slow {
    fn append(&mut self, record: &[u8]) -> Durability {
        let _ = self.memory.append(record);
        self.records.fetch_add(1, Relaxed);
        Durability::Later
    }
    fn flush_soon(&mut self) {
        self.hurried.fetch_add(1, Relaxed);
    }
    fn records(&self) -> Option<Vec<Bytes>> {
        self.memory.records()
    }
}

#[test]
fn what_leaves_waits_for_its_record_to_be_durable() {
    let records = Arc::new(AtomicU64::new(0));
    let mut desk = Desk::new(1);
    let handlers = Arc::new(Handlers::default());
    let root = program(|entry| match entry {
        "root" => collect(|| vec![spawns("child"), calls("safe", number(1)), calls("unsafe", number(2))], 3),
        _ => act(|_, _| Status::Complete(number(7))),
    });
    let mut spec = spec(root, Arc::clone(&handlers), &Setup::default());
    spec.log = Box::new(Slow { records: Arc::clone(&records), ..Slow::default() });
    let run = desk.kernel.start(spec).unwrap();
    desk.drain();
    // What stays in the run does not wait: the child has ended.
    assert_eq!(run.counts().steps, 3);
    assert_eq!(handlers.waiting.lock().len(), 0);

    run.durable(1);
    assert_eq!(handlers.waiting.lock().len(), 0, "the step is not durable yet");
    run.durable(2);
    assert_eq!(handlers.waiting.lock().len(), 1, "one that is not safe to repeat has a record of its own");
    let all = run.records().unwrap();
    // It stands right behind that of the step, so that one commit of the log is enough for both.
    assert!(matches!(all[2], Record::Leaving { tag: Tag(3), .. }), "{:?}", all[2]);
    run.durable(3);
    assert_eq!(handlers.waiting.lock().len(), 2);

    for (call, reply) in handlers.waiting.lock().drain(..) {
        reply.answer(Ok(call.args.clone()));
    }
    desk.drain();
    assert!(run.outcome().is_none(), "the result leaves the host too");
    run.durable(records.load(Relaxed));
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 7","2 1","3 2"]"#);
}

#[test]
fn the_log_is_hurried_for_what_waits_to_leave_and_for_nothing_else() {
    let log = Slow::default();
    let (records, hurried) = (Arc::clone(&log.records), Arc::clone(&log.hurried));
    let mut desk = Desk::new(1);
    let handlers = Arc::new(Handlers::default());
    let root = program(|_| {
        let mut steps = 0;
        act(move |context: &mut Context<'_>, _| {
            steps += 1;
            match steps {
                1 => context.command(Action::Sleep(Micros(5))),
                2 => context.command(calls("safe", number(1))),
                _ => return Status::Complete(number(steps)),
            };
            Status::Blocked
        })
    });
    let mut spec = spec(root, Arc::clone(&handlers), &Setup::default());
    spec.log = Box::new(log);
    let run = desk.kernel.start(spec).unwrap();
    desk.drain();
    assert_eq!(hurried.load(Relaxed), 0, "it sleeps");
    desk.settle();
    assert_eq!(hurried.load(Relaxed), 1, "a call is to leave");
    run.durable(records.load(Relaxed));
    let (call, reply) = handlers.waiting.lock().pop().unwrap();
    reply.answer(Ok(call.args));
    desk.drain();
    assert_eq!(hurried.load(Relaxed), 2, "the outcome is to leave");
    run.durable(records.load(Relaxed));
    assert_eq!(output(&run.outcome().unwrap()), "3");
}

/// A repeatable call is sent when the run is recovered; of another one, nothing could tell then
/// that it was not sent.
#[test]
fn of_a_host_that_stops_no_call_leaves_that_may_be_repeated() {
    let log = Slow::default();
    let records = Arc::clone(&log.records);
    let mut desk = Desk::new(1);
    let handlers = Arc::new(Handlers::default());
    let root = program(|_| collect(|| vec![calls("safe", number(1)), calls("unsafe", number(2))], 2));
    let mut spec = spec(root, Arc::clone(&handlers), &Setup::default());
    spec.log = Box::new(log);
    let run = desk.kernel.start(spec).unwrap();
    desk.drain();
    desk.kernel.hold_calls();
    run.durable(records.load(Relaxed));
    let left: Vec<Arc<str>> = handlers.waiting.lock().iter().map(|(call, _)| Arc::clone(&call.handler)).collect();
    assert_eq!(left, ["unsafe".into()]);
}

#[test]
fn what_was_durable_once_stays_so() {
    let log = Slow::default();
    let records = Arc::clone(&log.records);
    let mut desk = Desk::new(1);
    let root = program(|_| collect(|| vec![Action::Sleep(Micros(10))], 1));
    let mut spec = spec(root, Arc::default(), &Setup::default());
    spec.log = Box::new(log);
    let run = desk.kernel.start(spec).unwrap();
    desk.drain();
    let all = records.load(Relaxed);
    run.durable(all);
    // Said by another thread, which was slower.
    run.durable(1);
    let acknowledged = run.acknowledged();
    assert_eq!((acknowledged.record(), acknowledged.is_durable()), (all, true));
}

#[test]
fn what_is_no_longer_awaited_does_not_leave_when_its_record_is_durable() {
    let records = Arc::new(AtomicU64::new(0));
    let mut desk = Desk::new(1);
    let handlers = Arc::new(Handlers::default());
    let root = program(|_| collect(|| vec![calls("safe", number(1)), calls("unsafe", number(2))], 2));
    let mut spec = spec(root, Arc::clone(&handlers), &Setup::default());
    spec.log = Box::new(Slow { records: Arc::clone(&records), ..Slow::default() });
    let run = desk.kernel.start(spec).unwrap();
    desk.drain();
    run.kill("it is not wanted");
    desk.settle();
    run.durable(records.load(Relaxed));
    assert!(run.outcome().is_some());
    assert_eq!(handlers.waiting.lock().len(), 0);
}
