//! Shutdown: every accepted process is cancelled, and all have ended when it returns.

use super::super::Next;
use super::world::{Bell, Model, Process};
use crate::process::Permit;

#[test]
fn a_shutdown_while_the_only_worker_goes_to_sleep() {
    Model::of(1).and_shuts_down().check(|bench| {
        bench.spawn(Process::rings(&Bell::new()), Permit::NONE);
        bench.settle();
        |_| {}
    });
}

/// It was accepted before its worker acknowledged.
#[test]
fn a_shutdown_while_a_step_starts_a_process() {
    Model::of(1).preemptions(2).and_shuts_down().check(|bench| {
        let starts = Process::new(|port, turn, _| {
            if turn.interrupted.is_some() {
                return Next::Complete;
            }
            let _ = port.spawn(Process::rings(&Bell::new()), Permit::NONE);
            Next::Complete
        });
        bench.spawn(starts, Permit::NONE);
        |_| {}
    });
}
