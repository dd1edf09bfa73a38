//! Permits: a waiting process is given one by a worker that is awake, or is woken for it; also if
//! the chores before that take long and happen on other threads.

use super::super::{Next, Pause, Permitted};
use super::world::{Bell, Model, ONE, Process};

#[test]
fn a_newcomer_while_the_only_worker_goes_to_sleep() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::rings(&bell), ONE);
        bench.settle();
        move |bench| {
            bench.spawn(Process::rings(&bell), ONE);
            bell.wait_for(2);
        }
    });
}

#[test]
fn a_newcomer_while_the_holder_begins_to_wait() {
    Model::of(2).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::rings(&bell), ONE);
        bench.spawn(Process::rings(&bell), ONE);
        move |_| bell.wait_for(2)
    });
}

#[test]
fn a_newcomer_while_the_holder_ends() {
    Model::of(2).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::waits_for(0, &bell), ONE);
        bench.spawn(Process::rings(&bell), ONE);
        move |_| bell.wait_for(2)
    });
}

#[test]
fn a_holder_that_is_evicted_slowly_while_the_only_worker_goes_to_sleep() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::rings(&bell).slow(), ONE);
        bench.settle();
        move |bench| {
            bench.spawn(Process::rings(&bell), ONE);
            bell.wait_for(2);
        }
    });
}

/// It is evicted while it is asked for, and comes back.
#[test]
fn a_post_while_the_holder_is_evicted_slowly() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        let holder = bench.spawn(Process::rings(&bell).slow(), ONE);
        bench.settle();
        bench.spawn(Process::waits_for(0, &bell), ONE);
        move |bench| {
            bench.post(holder, 1);
            bell.wait_for(3);
        }
    });
}

#[test]
fn a_holder_that_is_dropped_slowly_while_the_only_worker_goes_to_sleep() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::waits_for(0, &bell).slow(), ONE);
        bench.spawn(Process::rings(&bell), ONE);
        move |_| bell.wait_for(2)
    });
}

#[test]
fn a_newcomer_that_is_admitted_slowly_while_the_only_worker_goes_to_sleep() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::rings(&bell), ONE);
        bench.settle();
        bench.spawn(Process::rings(&bell).slow(), ONE);
        move |_| bell.wait_for(2)
    });
}

/// It is evicted while it is resumed, or is resumed first; and goes on in any case.
fn resumes_while_evicted(slow: bool) {
    Model::of(1).permits(1).check(move |bench| {
        let bell = Bell::new();
        let process = Process::rings_twice(&bell);
        let holder = bench.spawn(if slow { process.slow() } else { process }, ONE);
        bench.pause(holder, Pause::On);
        bench.settle();
        bench.spawn(Process::waits_for(0, &bell), ONE);
        move |bench| {
            bench.pause(holder, Pause::Off);
            bell.wait_for(3);
        }
    });
}

#[test]
fn one_that_is_held_is_resumed_while_a_newcomer_has_it_evicted() {
    resumes_while_evicted(false);
}

#[test]
fn one_that_is_held_is_resumed_while_a_newcomer_has_it_evicted_slowly() {
    resumes_while_evicted(true);
}

#[test]
fn a_newcomer_while_the_holder_is_held_and_the_only_worker_goes_to_sleep() {
    Model::of(1).permits(1).check(|bench| {
        let bell = Bell::new();
        let holder = bench.spawn(Process::rings_twice(&bell), ONE);
        bench.pause(holder, Pause::On);
        move |bench| {
            bench.spawn(Process::rings(&bell), ONE);
            bell.wait_for(2);
        }
    });
}

/// It has refused once and has run since: it is asked again before a newcomer is refused.
#[test]
fn a_newcomer_is_refused_only_where_each_holder_refuses_after_its_last_step() {
    Model::of(2).permits(1).outside(0).check(|bench| {
        let bell = Bell::new();
        let holder = bench.spawn(Process::rings(&bell).refuses(1), ONE);
        bench.settle();
        bench.spawn(
            Process::new(|_, turn, _| if turn.permitted == Permitted::Never { Next::Complete } else { Next::Idle }),
            ONE,
        );
        bench.settle();
        bench.post(holder, 1);
        let rings = bell.clone();
        let newcomer = Process::new(move |_, turn, _| {
            assert_ne!(turn.permitted, Permitted::Never, "the holder was not asked");
            rings.ring();
            Next::Idle
        });
        bench.spawn(newcomer, ONE);
        move |_| bell.wait_for(3)
    });
}

/// The same where the newcomer comes while the holder's last step ends.
#[test]
fn a_newcomer_that_comes_while_a_holder_begins_to_wait_is_not_refused_for_what_it_refused_before() {
    Model::of(2).permits(1).outside(0).check(|bench| {
        let bell = Bell::new();
        let holder = bench.spawn(Process::rings(&bell).refuses(1), ONE);
        bench.settle();
        bench.spawn(
            Process::new(|_, turn, _| if turn.permitted == Permitted::Never { Next::Complete } else { Next::Idle }),
            ONE,
        );
        bench.settle();
        bench.post(holder, 1);
        move |bench| {
            bell.wait_for(2);
            let rings = bell.clone();
            let newcomer = Process::new(move |_, turn, _| {
                assert_ne!(turn.permitted, Permitted::Never, "the holder was not asked");
                rings.ring();
                Next::Idle
            });
            bench.spawn(newcomer, ONE);
            bell.wait_for(3);
        }
    });
}

/// Another worker may serve the newcomer before the holder is seen to wait again.
#[test]
fn a_newcomer_goes_outside_the_pool_where_the_only_holder_refuses() {
    Model::of(2).permits(1).outside(1).check(|bench| {
        let bell = Bell::new();
        bench.spawn(Process::rings(&bell).refuses(u32::MAX), ONE);
        bench.settle();
        bench.spawn(Process::rings(&bell), ONE);
        move |_| bell.wait_for(2)
    });
}
