//! Acts with ids, and when they are certain.

use super::desk::Desk;
use super::support::*;
use crate::base::Monotonic;
use crate::journal::Memory;
use crate::process::{Action, Micros, Payload, Pid, Program, Status, Tag};
use crate::run::{ACTS_MAX, Act, Durability, EndStatus, Log, NotDurable, Record, Refused, Resolution, RunHandle};
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn signal(body: u64) -> Act {
    Act::Signal { name: "a".into(), body: number(body) }
}

fn waits() -> Action {
    calls("signal", Payload::json(&serde_json::json!({ "name": "a" })))
}

fn kept(run: &RunHandle) -> usize {
    run.signals().iter().map(|signal| signal.kept).sum()
}

#[test]
fn the_same_id_and_act_is_done_once_and_another_act_is_a_conflict() {
    let bench = Bench::new(|_| collect(|| vec![Action::Sleep(Micros(10)), waits(), waits()], 3));
    let first = bench.run.act(signal(1), Some("x")).unwrap();
    let records = bench.run.records().unwrap().len();
    let again = bench.run.act(signal(1), Some("x")).unwrap();
    assert_eq!((again.record(), bench.run.records().unwrap().len(), kept(&bench.run)), (first.record(), records, 1));
    assert_eq!(bench.run.act(signal(2), Some("x")).err(), Some(Refused::Conflict));
    assert_eq!(bench.run.act(Act::Pause, Some("x")).err(), Some(Refused::Conflict));
    // Without an id, or with another one, it is another act.
    let _ = bench.run.act(signal(1), Some("y")).unwrap();
    assert_eq!(kept(&bench.run), 2);
    assert_eq!(bench.run.act(signal(1), Some(&"i".repeat(1_025))).err(), Some(Refused::TooLarge));
    assert_eq!(output(&bench.finish()), r#"["2 1","3 1","1 null"]"#);
}

#[test]
fn an_act_that_changes_nothing_takes_its_id_all_the_same() {
    let bench = Bench::new(|_| collect(|| vec![Action::Sleep(Micros(10))], 1));
    let _ = bench.run.act(Act::Pause, Some("x")).unwrap();
    let _ = bench.run.act(Act::Pause, Some("y")).unwrap();
    assert_eq!(bench.run.act(Act::Resume, Some("y")).err(), Some(Refused::Conflict));
    let _ = bench.run.act(Act::Resume, Some("z")).unwrap();
    assert!(!bench.run.is_paused());
    // The second pause was none: time was not shifted twice, and the records say the same.
    bench.finish();
}

#[test]
fn ids_survive_the_host_and_a_number_is_retained() {
    let root = program(|_| collect(|| vec![waits()], 1));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    for act in 0..=ACTS_MAX as u64 {
        let _ = bench.run.act(Act::Signal { name: "b".into(), body: number(act) }, Some(&act.to_string())).unwrap();
    }
    let records = bench.run.records().unwrap();
    let other = || Act::Signal { name: "b".into(), body: number(7_777) };
    for run in [bench.run.clone(), recover(&Desk::new(2), &root, &Arc::default(), &records)] {
        assert_eq!(run.act(other(), Some("1")).err(), Some(Refused::Conflict));
        assert!(run.act(other(), Some("0")).is_ok(), "the oldest is forgotten");
    }
}

#[test]
fn an_act_that_is_refused_leaves_its_id_free() {
    let bench = Bench::new(|_| collect(|| vec![waits()], 1));
    let unknown = Act::Resolve { pid: Pid::ROOT, tag: Tag(9), resolution: Resolution::Again };
    assert_eq!(bench.run.act(unknown, Some("x")).err(), Some(Refused::Ended));
    let _ = bench.run.act(signal(1), Some("x")).unwrap();
    assert_eq!(output(&bench.finish()), r#"["1 1"]"#);
}

/// The caller that ends it, and callers that come later. A run that was asked to end before ends
/// for that.
#[test]
fn a_run_that_takes_too_long_ends_as_that() {
    let root = program(|_| collect(|| vec![waits()], 9));
    for (is_cancelled, expected) in [(false, EndStatus::TimedOut), (true, EndStatus::Cancelled)] {
        let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
        bench.desk.clone().drain();
        if is_cancelled {
            bench.run.cancel("enough", None).unwrap();
        }
        bench.run.time_out(Duration::from_secs(7)).unwrap();
        let mut desk = Desk::new(2);
        let recovered = recover(&desk, &root, &Arc::default(), &bench.run.records().unwrap());
        desk.settle();
        for outcome in [bench.finish(), recovered.outcome().unwrap()] {
            assert_eq!(outcome.late, (!is_cancelled).then_some(Micros(7_000_000)));
            assert_eq!(EndStatus::of(&outcome.ending, &outcome.result, outcome.late), expected);
        }
        assert_eq!(recovered.time_out(Duration::from_secs(7)), Err(Refused::Ended));
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// Stores records, and makes none of them durable.
#[derive(Default)]
struct Slow(Memory);

impl Log for Slow {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.0.append(record);
        Durability::Later
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

fn slow(desk: &Desk) -> RunHandle {
    let root = program(|_| collect(|| vec![waits()], 1));
    let mut spec = spec(root, Arc::default(), &Setup::default());
    spec.log = Box::new(Slow::default());
    desk.kernel.start(spec).unwrap()
}

#[test]
fn an_act_is_certain_when_its_record_is_durable() {
    let mut desk = Desk::new(1);
    let run = slow(&desk);
    desk.drain();
    let first = run.act(signal(1), Some("x")).unwrap();
    let second = run.act(Act::Signal { name: "b".into(), body: number(2) }, None).unwrap();
    assert_eq!((first.record() + 1, first.is_durable()), (second.record(), false));
    assert_eq!(first.wait_for(Duration::ZERO), Ok(None));
    run.durable(first.record());
    assert!(first.is_durable() && !second.is_durable());
    assert_eq!(first.wait_for(Duration::MAX), Ok(Some(())));
    assert!(run.act(signal(1), Some("x")).unwrap().is_durable(), "asked again it is as certain");
    let all = run.acknowledged();
    let mut waits = std::pin::pin!(second.durable());
    let woken = Arc::new(Woken::default());
    let waker = Arc::clone(&woken).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(waits.as_mut().poll(&mut context).is_pending());
    run.durable(all.record());
    assert!(woken.0.load(Relaxed));
    assert_eq!(waits.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(())));
    assert!(all.is_durable());
}

#[test]
fn what_can_never_be_durable_is_reported() {
    let mut desk = Desk::new(1);
    let run = slow(&desk);
    desk.drain();
    let act = run.act(signal(1), None).unwrap();
    desk.kernel.abandon(&crate::process::Problem::new("journal-failed", "The disk is gone"));
    assert_eq!(act.wait_for(Duration::MAX), Err(NotDurable));
    assert_eq!(run.acknowledged().wait_for(Duration::MAX), Err(NotDurable));
}

#[test]
fn that_a_call_is_to_be_sent_again_survives_the_host() {
    let root = program(|_| {
        let unsafe_call = || {
            let mut call = call("unsafe", number(2));
            call.timeout = Some(Micros(5_000));
            Action::Call(Box::new(call))
        };
        collect(move || vec![unsafe_call()], 1)
    });
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    let records = bench.run.records().unwrap();
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    desk.advance(Micros(60_000_000));
    let run = recover(&desk, &root, &handlers, &records);
    desk.settle();
    assert_eq!((run.uncertain().len(), handlers.waiting.lock().len()), (1, 0));
    let again = Act::Resolve { pid: Pid::ROOT, tag: Tag(1), resolution: Resolution::Again };
    let _ = run.act(again.clone(), Some("x")).unwrap();
    let _ = run.act(again, Some("x")).unwrap();
    assert_eq!((run.uncertain().len(), handlers.waiting.lock().len()), (0, 1));
    let all = run.records().unwrap();
    assert!(matches!(all[all.len() - 1], Record::Leaving { .. }), "it may have happened from here on");

    // The host dies before the call was sent: it is sent, and has all of its time.
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    desk.advance(Micros(60_001_000));
    let run = recover(&desk, &root, &handlers, &all[..all.len() - 1]);
    desk.drain();
    assert_eq!((run.uncertain().len(), handlers.waiting.lock().len()), (0, 1));
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 timed-out Uncertain"]"#);
}

#[test]
fn a_cancel_that_is_refused_leaves_a_paused_run_alone() {
    let mut bench = Bench::new(|entry| {
        let is_root = entry == "root";
        act(move |context, _| {
            if !is_root {
                return Status::Idle;
            }
            context.command(Action::Spawn(Box::new(crate::process::Spawn { detached: true, ..spawn("child") })));
            Status::Complete(Payload::NULL)
        })
    });
    bench.desk.drain();
    bench.run.pause().unwrap();
    let records = bench.run.counts().records;
    // The root has ended: only the child remains, and has its grace.
    assert_eq!(bench.run.cancel("enough", None), Err(Refused::Ended));
    assert_eq!(bench.run.time_out(Duration::from_secs(1)), Err(Refused::Ended));
    assert_eq!((bench.run.is_paused(), bench.run.counts().records), (true, records));
}

#[test]
fn a_paused_run_that_is_asked_to_end_goes_on_by_one_record() {
    for times_out in [false, true] {
        let root: Arc<dyn Program> = program(|_| collect(|| vec![waits()], 1));
        let mut bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
        bench.desk.drain();
        bench.run.pause().unwrap();
        let records = bench.run.counts().records;
        let asked =
            if times_out { bench.run.time_out(Duration::from_secs(1)) } else { bench.run.cancel("enough", None) };
        assert_eq!((asked, bench.run.is_paused(), bench.run.counts().records), (Ok(()), false, records + 1));
        let records = bench.run.records().unwrap();
        bench.finish();
        // A host that recovers it from there knows the same.
        let mut desk = Desk::new(1);
        let recovered = recover(&desk, &root, &Arc::default(), &records);
        assert!(!recovered.is_paused());
        desk.drain();
        assert!(output(&recovered.outcome().unwrap()).starts_with(r#"["cancel: "#));
    }
}

#[test]
fn a_run_that_is_killed_has_ended_although_its_processes_are_about_to_start_others() {
    for is_paused in [false, true] {
        let mut bench = Bench::new(|_| {
            act(|context, _| {
                context.command(Action::Spawn(Box::new(crate::process::Spawn { detached: true, ..spawn("next") })));
                Status::Ready
            })
        });
        for _ in 0..20 {
            assert!(bench.desk.turn());
        }
        if is_paused {
            bench.run.pause().unwrap();
        }
        assert!(bench.run.processes().len() > 3);
        bench.run.kill("enough");
        let outcome = bench.run.outcome().expect("it is over");
        assert_eq!(outcome.result.as_ref().unwrap_err().detail.as_deref(), Some("enough"));
        assert_eq!(bench.desk.now(), Monotonic(0), "nobody had a grace");
        let _ = bench.finish();
    }
}
