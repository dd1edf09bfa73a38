//! What leaves the host: keys, timeouts, cancelled and abandoned calls, durability, faults of the
//! host.

use super::desk::Desk;
use super::support::*;
use crate::journal::Memory;
use crate::process::{
    Action, Allocation, Body, Budget, Context, Death, Ending, Event, Grants, Micros, Output, Payload, Permit,
    Placement, Problem, ProblemClass, Progress, Status, Tag, Timestamp,
};
use crate::run::{Durability, Log, News, Record};
use crate::scheduler::Config;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn timed(handler: &str, micros: u64) -> Action {
    let mut call = call(handler, Payload::NULL);
    call.timeout = Some(Micros(micros));
    Action::Call(Box::new(call))
}

#[test]
fn a_late_answer_is_dropped_after_a_timeout() {
    let mut bench = Bench::new(|_| collect(|| vec![timed("safe", 5), timed("unsafe", 6)], 2));
    bench.desk.drain();
    let waiting = std::mem::take(&mut *bench.handlers.waiting.lock());
    bench.desk.settle();
    for (call, reply) in &waiting {
        assert!(reply.is_abandoned());
        reply.answer(Ok(call.args.clone()));
    }
    assert_eq!(bench.handlers.abandoned.lock().len(), 2);
    let outcome = bench.finish();
    assert_eq!(output(&outcome), r#"["1 timed-out Retryable","2 timed-out Uncertain"]"#);
}

#[test]
fn what_is_cancelled_is_answered_once() {
    let bench = Bench::new(|entry| {
        if entry == "child" {
            return act(|_, events| {
                let cancelled = events.iter().any(|event| matches!(event, Event::Cancel { .. }));
                if cancelled { Status::Complete(number(3)) } else { Status::Idle }
            });
        }
        let mut heard = Vec::new();
        let mut steps = 0;
        act(move |context: &mut Context<'_>, events| {
            steps += 1;
            heard.extend(events.drain(..).map(|event| tell(&event)));
            match steps {
                1 => {
                    context.command(Action::Sleep(Micros(1_000)));
                    context.command(calls("safe", Payload::NULL));
                    context.command(calls("unsafe", Payload::NULL));
                    context.command(spawns("child"));
                    Status::Ready
                }
                2 => {
                    for tag in 1..=9 {
                        context.command(Action::Cancel(Tag(tag)));
                    }
                    // A tag that is cancelled twice is answered once.
                    context.command(Action::Cancel(Tag(1)));
                    context.command(Action::Sleep(Micros(5_000)));
                    Status::Blocked
                }
                _ if heard.len() < 5 => Status::Blocked,
                _ => Status::Complete(Payload::json(&heard)),
            }
        })
    });
    let handlers = Arc::clone(&bench.handlers);
    assert_eq!(
        output(&bench.finish()),
        "[\"1 cancelled Definite\",\"2 cancelled Retryable\",\"3 cancelled Uncertain\",\"4 cancelled Uncertain\",\
         \"15 null\"]"
    );
    assert_eq!(handlers.abandoned.lock().len(), 2);
    for (_, reply) in handlers.waiting.lock().drain(..) {
        assert!(reply.is_abandoned());
    }
}

#[test]
fn a_process_that_completes_abandons_its_calls() {
    let bench = Bench::new(|_| {
        act(|context, _| {
            context.command(calls("unsafe", Payload::NULL));
            context.command(Action::Sleep(Micros(9)));
            Status::Complete(Payload::NULL)
        })
    });
    let handlers = Arc::clone(&bench.handlers);
    let outcome = bench.finish();
    let [abandoned] = &outcome.abandoned[..] else { panic!("{:?}", outcome.abandoned) };
    assert_eq!((abandoned.tag, &*abandoned.handler, &*abandoned.key), (Tag(1), "unsafe", "run/1"));
    assert_eq!(handlers.abandoned.lock().len(), 1);
    // It was not sent yet, so it never is.
    assert_eq!(handlers.waiting.lock().len(), 0);
}

#[test]
fn a_handler_that_gives_no_answer_is_answered_for() {
    let mut bench = Bench::new(|_| collect(|| vec![calls("safe", Payload::NULL), calls("unsafe", Payload::NULL)], 2));
    bench.desk.drain();
    bench.handlers.waiting.lock().clear();
    assert_eq!(output(&bench.finish()), r#"["1 host-fault Retryable","2 host-fault Uncertain"]"#);
}

#[test]
fn an_answer_that_is_too_large_becomes_a_problem() {
    let mut setup = Setup::default();
    setup.limits.payload_bytes = 100;
    let mut bench =
        Bench::with(&setup, |_| collect(|| vec![calls("safe", Payload::NULL), calls("unsafe", Payload::NULL)], 2));
    bench.desk.drain();
    let waiting = std::mem::take(&mut *bench.handlers.waiting.lock());
    for (_, reply) in &waiting {
        reply.answer(Ok(Payload::Bytes(Bytes::from_static(&[0; 101]))));
    }
    assert_eq!(output(&bench.finish()), r#"["1 too-large Definite","2 too-large Uncertain"]"#);
}

#[test]
fn a_call_in_flight_can_send_messages() {
    let mut bench = Bench::new(|_| collect(|| vec![calls("safe", Payload::NULL)], 3));
    bench.desk.drain();
    let (call, reply) = bench.handlers.waiting.lock().pop().unwrap();
    let message = |body| crate::process::Message {
        sender: crate::process::Sender::Call(call.tag),
        topic: "progress".into(),
        body,
    };
    assert!(reply.message(message(number(1))));
    assert!(reply.message(message(number(2))));
    reply.answer(Ok(number(3)));
    assert!(!reply.message(message(number(4))));
    assert_eq!(output(&bench.finish()), r#"["call 1: 1","call 1: 2","1 3"]"#);
}

#[test]
fn keys_come_from_the_place_and_not_from_the_pid() {
    let placement = |scope: &str, grants: Option<Grants>| {
        Some(Arc::new(Placement { scope: scope.into(), limits: None, grants, cache: None }))
    };
    let mut bench = Bench::new(move |entry| match entry {
        "root" => collect(
            move || {
                let granted = Grants(Arc::new(BTreeMap::from([("http".to_owned(), vec!["x".to_owned()])])));
                let mut node = spawn("node");
                node.placement = placement("fetch/3/0", Some(granted));
                let mut direct = call("safe direct", Payload::NULL);
                direct.placement = placement("notify/-/1", None);
                let mut own = call("safe own", Payload::NULL);
                own.idempotency_key = Some("order-17".into());
                vec![
                    Action::Sleep(Micros(1)),
                    Action::Spawn(Box::new(node)),
                    Action::Call(Box::new(direct)),
                    Action::Call(Box::new(own)),
                ]
            },
            9,
        ),
        "node" => collect(|| vec![calls("safe node", Payload::NULL), spawns("leaf")], 9),
        _ => collect(|| vec![Action::Sleep(Micros(1)), calls("safe leaf", Payload::NULL)], 9),
    });
    bench.desk.drain();
    let mut keys: Vec<String> =
        bench.handlers.waiting.lock().iter().map(|(call, _)| call.idempotency_key.to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["order-17", "run/fetch/3/0/1", "run/fetch/3/0/2/2", "run/notify/-/1"]);
    let granted: Vec<bool> = {
        let mut waiting = bench.handlers.waiting.lock();
        waiting.sort_by_key(|(call, _)| call.handler.clone());
        waiting.iter().map(|(call, _)| call.grants.of("http").is_some()).collect()
    };
    assert_eq!(granted, [false, true, true, false], "direct, leaf, node, own");
    bench.run.kill("seen");
    bench.desk.settle();
    bench.check(&bench.run.outcome().unwrap());
}

#[test]
fn the_store_of_the_run_is_decided_at_commit() {
    let args = |text: &'static str| Payload::Json(crate::process::Json::parse(text).unwrap());
    let mut setup = Setup::default();
    let commands = move || {
        vec![
            calls("kv", args(r#"{"op":"set","key":"a","value":1}"#)),
            calls("kv", args(r#"{"op":"compare-and-set","key":"a","expected":1,"value":2}"#)),
            calls("kv", args(r#"{"op":"get","key":"a"}"#)),
            calls("kv", args(r#"{"op":"nothing"}"#)),
        ]
    };
    let bench = Bench::with(&setup, move |_| collect(commands, 4));
    assert!(output(&bench.finish()).starts_with(r#"["1 not-granted Definite","2 not-granted Definite""#));
    setup.grants = Grants(Arc::new(BTreeMap::from([("kv".to_owned(), Vec::new())])));
    let bench = Bench::with(&setup, move |_| collect(commands, 4));
    assert_eq!(
        output(&bench.finish()),
        r#"["1 null","2 {\"done\":true,\"value\":2}","3 2","4 bad-arguments Definite"]"#
    );
}

/// Counts its steps, and fails by the host's fault a given number of times.
struct Shaky {
    count: u64,
    faults: Arc<AtomicU64>,
    heard: Vec<String>,
    allocation: Allocation,
    /// The allocation of each body at its first step.
    allocations: Arc<Mutex<Vec<Allocation>>>,
}

impl Body for Shaky {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.heard.extend(events.drain(..).map(|event| tell(&event)));
    }
    fn allocate(&mut self, allocation: Allocation) {
        self.allocation = allocation;
    }
    fn poll(&mut self, output: &mut Output) -> Progress {
        self.count += 1;
        if self.count == 1 {
            self.allocations.lock().push(self.allocation);
        }
        if self.count == 4 && self.faults.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            output.commands.push(crate::process::Command { tag: Tag(99), action: Action::Sleep(Micros(0)) });
            return Progress::Died(Death::Host(Problem::new("host-fault", "No memory")));
        }
        if self.count == 5 {
            return Progress::Stepped(Status::Complete(Payload::json(&self.heard)));
        }
        output
            .commands
            .push(crate::process::Command { tag: Tag(self.count), action: Action::Sleep(Micros(self.count)) });
        Progress::Stepped(Status::Blocked)
    }
}

#[test]
fn a_fault_of_the_host_is_not_seen_three_times_and_then_it_is() {
    for (faults, ends) in [(0, true), (1, true), (3, true), (4, false)] {
        let left = Arc::new(AtomicU64::new(faults));
        let allocations = Arc::new(Mutex::default());
        let root = {
            let (left, allocations) = (Arc::clone(&left), Arc::clone(&allocations));
            guests(Permit { instances: 1, ..Permit::NONE }, move |_| {
                let (faults, allocations) = (Arc::clone(&left), Arc::clone(&allocations));
                Ok(Box::new(Shaky { count: 0, faults, heard: Vec::new(), allocation: Allocation::Pool, allocations }))
            })
        };
        let outside = Some(Arc::new(Budget::new(u64::MAX)));
        let desk = Desk::with(5, Config { outside, ..Config::default() });
        let mut bench = Bench::of(desk, Arc::default(), &Setup::default(), &root);
        bench.desk.settle();
        let outcome = bench.run.outcome().unwrap();
        assert_eq!(outcome.counts.retried, faults.min(3));
        // Who is tried again has the permit that it had, and no other.
        assert_eq!(*allocations.lock(), vec![Allocation::OnDemand; 1 + faults.min(3) as usize]);
        if ends {
            assert_eq!(output(&outcome), r#"["1 null","2 null","3 null","4 null"]"#);
        } else {
            assert!(matches!(&outcome.ending, Ending::Failed(problem) if problem.kind == "host-fault"));
        }
        bench.check(&outcome);
    }
}

#[test]
fn records_that_do_not_follow_are_reported() {
    use crate::run::{Rebuild, RebuildError};
    let root = program(|entry| match entry {
        "root" => collect(|| vec![spawns("child"), Action::Sleep(Micros(3))], 2),
        _ => act(|_, _| Status::Complete(number(7))),
    });
    let mut bench = Bench::of(Desk::new(5), Arc::default(), &Setup::default(), &root);
    bench.desk.settle();
    let records = bench.run.records().unwrap();
    let apply = |records: &[Record]| {
        let mut rebuild = Rebuild::new(Arc::clone(&root), [].into());
        records.iter().try_for_each(|record| rebuild.apply(record))
    };
    assert_eq!(apply(&records), Ok(()));
    for missing in 0..records.len() - 1 {
        let mut others = records.clone();
        others.remove(missing);
        assert!(matches!(apply(&others), Err(RebuildError::Incoherent { .. })), "without record {}", missing + 1);
    }
    for record in &records {
        // What stands twice does not follow either.
        let at = records.iter().position(|other| other == record).unwrap();
        let mut others = records.clone();
        others.insert(at, record.clone());
        assert!(apply(&others).is_err());
    }
    // Another program diverges, and the error says at which record.
    let mut other = Rebuild::new(program(|_| collect(|| vec![Action::Sleep(Micros(3))], 2)), [].into());
    let end = records.iter().try_for_each(|record| other.apply(record));
    assert!(matches!(end, Err(RebuildError::Diverged { step: 1, .. })), "{end:?}");
}

#[test]
fn an_answer_stands_in_the_records_once() {
    let mut bench = Bench::new(|_| collect(|| vec![timed("unsafe", 5)], 1));
    bench.desk.drain();
    let (_, reply) = bench.handlers.waiting.lock().pop().unwrap();
    for _ in 0..3 {
        reply.answer(Ok(number(1)));
    }
    bench.desk.settle();
    reply.answer(Err(Arc::new(Problem::new("late", "Late").with_class(ProblemClass::Uncertain))));
    let answered = |record: &&Record| match record {
        Record::Arrived(arrived) => matches!(arrived.news, News::Answered { .. }),
        _ => false,
    };
    assert_eq!(bench.run.records().unwrap().iter().filter(answered).count(), 1);
    assert_eq!(bench.run.counts().dropped, 3);
}

/// A log that is durable at once for as many records, and says later so of the others.
struct Mixed(Memory, u64);

impl Log for Mixed {
    fn append(&mut self, record: &[u8]) -> Durability {
        let _ = self.0.append(record);
        if self.1 == 0 {
            return Durability::Later;
        }
        self.1 -= 1;
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

#[test]
fn that_a_record_is_durable_says_nothing_of_the_next_one() {
    for at_once in 1..4 {
        let mut desk = Desk::new(1);
        let handlers = Arc::new(Handlers::default());
        let root = program(|_| {
            let mut steps = 0;
            act(move |context: &mut Context<'_>, _| {
                steps += 1;
                context.command(calls("safe", number(steps)));
                if steps < 5 { Status::Ready } else { Status::Blocked }
            })
        });
        let mut spec = spec(root, Arc::clone(&handlers), &Setup::default());
        spec.log = Box::new(Mixed(Memory::default(), at_once));
        let run = desk.kernel.start(spec).unwrap();
        desk.drain();
        // The first record is that the run began.
        for durable in at_once..=6 {
            assert_eq!(handlers.waiting.lock().len() as u64, durable - 1);
            run.durable(durable + 1);
        }
    }
}
