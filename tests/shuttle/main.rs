//! The whole scheduler, with its threads, under random schedules at the grain of every lock and atomic access.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --no-default-features --release --target-dir target/shuttle --test shuttle
//! ```
//! Shuttle takes all atomics as sequentially consistent; missing fences are loom's to find. The deque is a model behind a lock.
#![cfg(shuttle)]

mod world;

use shuttle::thread;
use std::time::Duration;
use wfhost::base::{Clock, VirtualClock};
use wfhost::process::{Budget, Micros, Permit};
use wfhost::scheduler::{Config, Interrupt, Pause, Port, Scheduler, Wake};
use world::{ONE, Process, STAYS, World};

/// Schedules per test. Some seconds in all.
fn schedules() -> usize {
    std::env::var("WFHOST_SHUTTLE_SCHEDULES").map_or(300, |text| text.parse().expect("a number"))
}

/// Steps of an unfair schedule before it is given up. Arbitrary: fair ones take a few thousand.
const STEPS_MAX: usize = 100_000;

/// Runs a scheduler with the world's commit point, then shuts it down: all must have ended, and nobody may have complained.
fn check(workers: usize, permits: u32, test: fn(&Scheduler<World>, &VirtualClock)) {
    check_outside(workers, permits, None, test);
}

/// The same with room for so many processes outside the pool.
fn check_outside(workers: usize, permits: u32, room: Option<u64>, test: fn(&Scheduler<World>, &VirtualClock)) {
    let run = move || {
        let time = VirtualClock::default();
        let outside = room.map(|room| std::sync::Arc::new(Budget::new(room)));
        let capacity =
            Permit { instances: permits, core_instances: permits, memories: permits, tables: permits, bytes: 0 };
        let config = Config {
            workers,
            capacity,
            seed: 1,
            clock: Clock::Virtual(time.clone()),
            processes_max: 1 << 10,
            outside: outside.clone(),
            ..Config::default()
        };
        let world = World::new();
        let scheduler = Scheduler::start(world.clone(), &config).expect("threads can be had");
        test(&scheduler, &time);
        let shutdown = scheduler.shutdown(Duration::MAX);
        assert_eq!(world.complaints(), Vec::<String>::new());
        assert!(shutdown.alive.is_empty(), "{shutdown:?}");
        assert_eq!(shutdown.stats.spawned, shutdown.stats.completed);
        assert_eq!(outside.map_or(0, |outside| outside.used()), 0);
    };
    // Two ways to draw schedules: evenly, and with few switches at the worst places (Burckhardt et al., ASPLOS 2010). The second
    // is unfair: where one thread waits by looking again and again for what another does, the other may never have its turn. Such
    // a schedule is given up and proves nothing; the first way, which is fair, fails where nothing gets on.
    shuttle::check_random(run, schedules());
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::ContinueAfter(STEPS_MAX);
    shuttle::Runner::new(shuttle::scheduler::PctScheduler::new(3, schedules()), config).run(run);
}

#[test]
fn messages_of_outside_threads_come_in_order() {
    check(2, 0, |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        let sink = scheduler.handle().spawn(Process::sink(6), Permit::NONE).ok().expect("open");
        let senders = [1, 2].map(|sender| {
            let mut handle = scheduler.handle();
            thread::spawn(move || {
                for number in 0..3 {
                    assert!(handle.post(sink, sender * 100 + number, Wake::Message));
                }
            })
        });
        for sender in senders {
            sender.join().unwrap();
        }
        done.wait();
    });
}

#[test]
fn fork_and_join() {
    check(2, 0, |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        scheduler.handle().spawn(Process::fib(5, Permit::NONE), Permit::NONE).ok().expect("open");
        assert_eq!(done.wait(), [5]);
    });
}

#[test]
fn fork_and_join_with_fewer_permits_than_processes() {
    check(2, 2, |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        scheduler.handle().spawn(Process::fib(5, ONE), ONE).ok().expect("open");
        assert_eq!(done.wait(), [5]);
    });
}

#[test]
fn fork_and_join_of_those_who_do_not_give_way() {
    // A permit for one, room for all others.
    check_outside(2, 1, Some(100), |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        scheduler.handle().spawn(Process::fib(4, STAYS), STAYS).ok().expect("open");
        assert_eq!(done.wait(), [3]);
    });
}

#[test]
fn who_does_not_find_room_is_refused_and_not_forgotten() {
    check_outside(2, 1, Some(2), |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        scheduler.handle().spawn(Process::fib(4, STAYS), STAYS).ok().expect("open");
        assert!(done.wait()[0] <= 3);
    });
}

#[test]
fn interrupts_pauses_and_answers_from_outside() {
    check(2, 0, |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        let sink = scheduler.handle().spawn(Process::sink(2), Permit::NONE).ok().expect("open");
        let mut handle = scheduler.handle();
        let pauser = thread::spawn(move || {
            handle.pause(sink, Pause::On);
            handle.pause(sink, Pause::Off);
        });
        let mut handle = scheduler.handle();
        assert!(handle.post(sink, 100, Wake::Event));
        assert!(handle.post(sink, 101, Wake::Message));
        pauser.join().unwrap();
        done.wait();
        handle.interrupt(sink, Interrupt::Cancel);
    });
}

#[test]
fn timers_fire_when_their_time_has_come() {
    check(2, 0, |scheduler, time| {
        let done = scheduler.handle().commit().expect_results(2);
        for due in [5, 10] {
            scheduler.handle().spawn(Process::sleeper(Micros(due)), Permit::NONE).ok().expect("open");
        }
        time.advance_to(Micros(10));
        done.wait();
    });
}

#[test]
fn what_is_submitted_during_a_shutdown_is_refused_or_cancelled() {
    // The shutdown of `check` races with this thread, which the test does not wait for.
    check(2, 1, |scheduler, _| {
        let mut handle = scheduler.handle();
        thread::spawn(move || {
            for permit in [Permit::NONE, ONE, ONE] {
                if handle.spawn(Process::waits_for_cancel(), permit).is_err() {
                    return;
                }
            }
        });
    });
}

#[test]
fn a_panic_ends_its_process_and_nothing_else() {
    check(2, 0, |scheduler, _| {
        let done = scheduler.handle().commit().expect_results(1);
        scheduler.handle().spawn(Process::panics(), Permit::NONE).ok().expect("open");
        scheduler.handle().spawn(Process::fib(3, Permit::NONE), Permit::NONE).ok().expect("open");
        assert_eq!(done.wait(), [2]);
    });
}
