//! What runs set with the scheduler, they take back.

use super::desk::Desk;
use super::parking::{Parkable, start};
use super::support::*;
use crate::base::Monotonic;
use crate::process::{Action, Micros, Payload, Program};
use std::sync::Arc;

const HOUR: Micros = Micros(3_600_000_000);

fn waits() -> Action {
    calls("signal", Payload::json(&serde_json::json!({ "name": "go" })))
}

/// A run that sleeps for an hour, and ends after so many signals or by then.
fn sleeps_or_hears(signals: usize) -> Arc<dyn Program> {
    let commands = move || [vec![Action::Sleep(HOUR)], (0..signals).map(|_| waits()).collect()].concat();
    program(move |_| collect(commands, signals))
}

#[test]
fn runs_that_have_ended_leave_no_timer_behind() {
    let mut desk = Desk::new(1);
    let root = sleeps_or_hears(1);
    for number in 0..50 {
        let run = start(&desk.kernel, &format!("run-{number}"), &root, &Parkable::default());
        desk.drain();
        assert_eq!(desk.timers(), 2, "the sleep and the look whether it can be parked");
        match number % 3 {
            0 => run.signal("go", Payload::NULL).unwrap(),
            1 => run.kill("it is over"),
            _ => run.run().unwrap().kernel.abandon(&crate::process::Problem::new("test", "over")),
        }
        desk.drain();
        while run.outcome().is_none() {
            assert!(desk.fire());
            desk.drain();
        }
        assert_eq!(desk.timers(), 0, "of run {number}");
        if number % 3 == 2 {
            desk = Desk::new(1);
        }
    }
}

#[test]
fn a_run_that_is_parked_and_recovered_again_and_again_has_one_timer() {
    let mut desk = Desk::new(1);
    let run = start(&desk.kernel, "run", &sleeps_or_hears(20), &Parkable::default());
    for _ in 0..19 {
        desk.drain();
        while desk.kernel.parked().is_empty() {
            assert!(desk.fire());
            desk.drain();
        }
        assert_eq!(desk.timers(), 1, "its sleep");
        run.signal("go", Payload::NULL).unwrap();
        desk.drain();
        assert_eq!(desk.timers(), 2, "its sleep and the next look");
    }
    assert!(desk.now() < Monotonic(HOUR.0) && run.outcome().is_none());
    run.signal("go", Payload::NULL).unwrap();
    desk.drain();
    assert!(run.outcome().is_some());
    assert_eq!(desk.timers(), 0);
}

#[test]
fn a_run_that_is_abandoned_while_it_is_parked_leaves_no_timer_behind() {
    for all in [false, true] {
        let mut desk = Desk::new(1);
        let run = start(&desk.kernel, "run", &sleeps_or_hears(1), &Parkable::default());
        desk.drain();
        while desk.kernel.parked().is_empty() {
            assert!(desk.fire());
            desk.drain();
        }
        assert_eq!(desk.timers(), 1, "its sleep");
        let problem = crate::process::Problem::new("test", "over");
        if all {
            desk.kernel.abandon_parked(&problem);
        } else {
            desk.kernel.abandon_run("run", &problem);
        }
        assert_eq!((desk.timers(), run.outcome().is_some()), (0, true));
    }
}
