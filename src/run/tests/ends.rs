//! How processes and runs end: in the middle of a step, while they are paused, and what they give back.

use super::desk::Desk;
use super::support::*;
use crate::process::{Action, Payload, Status};
use crate::run::{Kernel, Record};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_step_in_which_its_process_is_killed_is_not_committed() {
    let held = Arc::<Mutex<Option<Kernel>>>::default();
    let kills = Arc::clone(&held);
    let bench = Bench::new(move |_| {
        let (kills, mut steps) = (Arc::clone(&kills), 0);
        act(move |context, _| {
            steps += 1;
            context.command(calls("safe", number(steps)));
            if steps < 2 {
                return Status::Ready;
            }
            kills.lock().as_ref().unwrap().run("run").unwrap().kill("enough");
            Status::Blocked
        })
    });
    *held.lock() = Some(bench.desk.kernel.clone());
    bench.desk.clone().settle();
    let (called, records) = (bench.handlers.waiting.lock().len(), bench.run.records().unwrap());
    assert_eq!((called, bench.desk.panics()), (1, 0));
    assert!(matches!(records.last(), Some(Record::Died(died)) if died.step == 2), "{:?}", records.last());
    bench.finish();
    held.lock().take();
}

#[test]
fn a_name_is_free_again_when_its_process_has_ended() {
    let bench = Bench::new(|entry| {
        if entry != "root" {
            return act(|_, _| Status::Complete(Payload::NULL));
        }
        let mut heard = Vec::new();
        act(move |context, events| {
            heard.extend(events.drain(..).map(|event| tell(&event)));
            if heard.len() == 2 {
                return Status::Complete(Payload::json(&heard));
            }
            let mut child = spawn("child");
            child.name = Some("n".into());
            context.command(Action::Spawn(Box::new(child)));
            Status::Blocked
        })
    });
    assert_eq!(output(&bench.finish()), r#"["1 null","2 null"]"#);
}

#[test]
fn a_run_that_is_paused_can_be_cancelled() {
    let mut bench = Bench::new(|_| collect(Vec::new, 9));
    bench.desk.drain();
    bench.run.pause().unwrap();
    bench.desk.settle();
    bench.run.cancel("it is not wanted", Some(Duration::from_secs(1))).unwrap();
    let outcome = bench.finish();
    assert!(outcome.result.is_err());
}

/// It is taken up as it was left, and goes on when it is resumed.
#[test]
fn a_run_that_was_paused_when_its_host_died_stays_so() {
    let root = program(|_| collect(|| vec![Action::Register("door".into())], 2));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    bench.run.pause().unwrap();
    let records = bench.run.records().unwrap();

    let mut desk = Desk::new(2);
    let run = resume(&desk, &root, &bench.handlers, &records);
    desk.settle();
    let steps = run.counts().steps;
    run.signal("door", number(7)).unwrap();
    desk.settle();
    assert_eq!((run.counts().steps, run.outcome()), (steps, None));
    run.resume().unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 null","outside door: 7"]"#);
}
