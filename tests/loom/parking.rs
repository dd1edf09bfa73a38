//! Parking: no worker sleeps while there is work, however the two meet. A lost wake-up is a
//! deadlock here, which loom reports.
//!
//! The workers are the shipped ones, and so are the handles that give them work.

use super::super::{Next, Wake};
use super::world::{Bell, Model, Process};
use crate::process::Permit;

#[test]
fn a_post_while_the_only_worker_goes_to_sleep() {
    Model::of(1).unbounded().check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        move |bench| {
            bench.post(slot, 1);
            bell.wait_for(2);
        }
    });
}

#[test]
fn a_spawn_while_the_only_worker_goes_to_sleep() {
    Model::of(1).unbounded().check(|_| {
        |bench| {
            let bell = Bell::new();
            bench.spawn(Process::rings(&bell), Permit::NONE);
            bell.wait_for(1);
        }
    });
}

#[test]
fn two_posts_while_the_only_worker_goes_to_sleep() {
    Model::of(1).check(|bench| {
        let bell = Bell::new();
        let slots = [0, 1].map(|_| bench.spawn(Process::rings(&bell), Permit::NONE));
        bench.settle();
        move |bench| {
            bench.post(slots[0], 1);
            bench.post(slots[1], 1);
            bell.wait_for(4);
        }
    });
}

#[test]
fn a_post_that_is_left_to_a_searcher_is_found() {
    Model::of(2).check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        move |bench| {
            bench.post(slot, 1);
            bell.wait_for(2);
        }
    });
}

/// Neither step ends before both have begun: the chain of wakes must reach the second worker.
#[test]
fn the_last_searcher_wakes_one_more() {
    Model::of(2).check(|bench| {
        let bell = Bell::new();
        let slots = [0, 1].map(|_| bench.spawn(Process::meets(2, &bell), Permit::NONE));
        bench.settle();
        move |bench| {
            bench.post(slots[0], 1);
            bench.post(slots[1], 1);
            bell.wait_for(2);
        }
    });
}

#[test]
fn a_stop_while_the_only_worker_goes_to_sleep() {
    Model::of(1).unbounded().and_stops().check(|_| |_| {});
}

#[test]
fn a_stop_while_two_workers_go_to_sleep() {
    Model::of(2).and_stops().check(|_| |_| {});
}

#[test]
fn a_timer_while_the_only_worker_goes_to_sleep() {
    Model::of(1).check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        move |bench| {
            bench.timer(0, slot);
            bell.wait_for(2);
        }
    });
}

/// The time may come before the worker sleeps until then, while it does, or before it has seen the
/// timer at all.
#[test]
fn the_time_of_a_timer_comes_while_the_only_worker_goes_to_sleep() {
    Model::of(1).check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        move |bench| {
            bench.timer(10, slot);
            bench.advance_to(10);
            bell.wait_for(2);
        }
    });
}

/// The time never comes while the worker sleeps until then: it is to be woken by the post.
#[test]
fn a_post_while_the_only_worker_keeps_the_timers() {
    Model::of(1).check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        bench.timer(10, slot);
        move |bench| {
            bench.post(slot, 1);
            bell.wait_for(2);
        }
    });
}

#[test]
fn a_keeper_that_was_woken_before_the_time_keeps_the_timers_again() {
    Model::of(1).check(|bench| {
        let bell = Bell::new();
        let slot = bench.spawn(Process::rings(&bell), Permit::NONE);
        bench.settle();
        bench.timer(10, slot);
        move |bench| {
            bench.post(slot, 1);
            bell.wait_for(2);
            bench.advance_to(10);
            bell.wait_for(3);
        }
    });
}

/// Two that one step wakes need two workers: neither ends before the other has begun.
#[test]
fn what_a_step_wakes_is_found_by_another_worker() {
    Model::of(2).check(|bench| {
        let bell = Bell::new();
        let slots = [0, 1].map(|_| bench.spawn(Process::meets(2, &bell), Permit::NONE));
        bench.settle();
        let wakes = Process::new(move |port, _, _| {
            for slot in slots {
                port.post(slot, 1, Wake::Event);
            }
            Next::Complete
        });
        bench.spawn(wakes, Permit::NONE);
        move |_| bell.wait_for(2)
    });
}

/// The same where turns are short and one of the two is kept in hand.
#[test]
fn what_a_short_step_wakes_is_found_by_another_worker() {
    Model::of(2).check(|bench| {
        let bell = Bell::new();
        let slots = [0, 1].map(|_| bench.spawn(Process::meets(2, &bell), Permit::NONE));
        bench.settle();
        bench.hurry();
        let wakes = Process::new(move |port, _, _| {
            for slot in slots {
                port.post(slot, 1, Wake::Event);
            }
            Next::Complete
        });
        bench.spawn(wakes, Permit::NONE);
        move |_| bell.wait_for(2)
    });
}

/// A process wakes another and says that its slice is used up, or that it is ready; its next slice
/// waits for the other.
fn goes_on(next: Next, hurries: bool) {
    Model::of(2).check(move |bench| {
        let bell = Bell::new();
        let other = bench.spawn(Process::meets(2, &bell), Permit::NONE);
        bench.settle();
        if hurries {
            bench.hurry();
        }
        let theirs = bell.clone();
        let mut slices = 0;
        let wakes = Process::new(move |port, _, _| {
            slices += 1;
            if slices == 1 {
                port.post(other, 1, Wake::Event);
                return next;
            }
            theirs.ring();
            theirs.wait_for(2);
            Next::Complete
        });
        bench.spawn(wakes, Permit::NONE);
        move |_| bell.wait_for(2)
    });
}

#[test]
fn what_a_step_wakes_before_it_is_ready_again_is_found() {
    goes_on(Next::Ready, false);
}

#[test]
fn what_a_slice_wakes_that_is_used_up_is_found() {
    goes_on(Next::Preempted, false);
}

#[test]
fn what_a_short_slice_wakes_that_is_used_up_is_found() {
    goes_on(Next::Preempted, true);
}

/// Another worker knows of one that was woken before, and may take it while two more are woken.
#[test]
fn what_a_step_wakes_behind_one_that_is_stolen_meanwhile_is_found() {
    Model::of(2).check(|bench| {
        let bell = Bell::new();
        let slots = [0, 1].map(|_| bench.spawn(Process::meets(2, &bell), Permit::NONE));
        let stolen = bench.spawn(Process::new(|_, _, _| Next::Idle), Permit::NONE);
        bench.settle();
        let mut slices = 0;
        let wakes = Process::new(move |port, _, _| {
            slices += 1;
            if slices == 1 {
                port.post(stolen, 1, Wake::Event);
                return Next::Preempted;
            }
            for slot in slots {
                port.post(slot, 1, Wake::Event);
            }
            Next::Complete
        });
        bench.spawn(wakes, Permit::NONE);
        move |_| bell.wait_for(2)
    });
}
