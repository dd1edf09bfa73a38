//! The whole scheduler, with its threads, under random schedules at the grain of every lock and
//! atomic access.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --no-default-features --release --target-dir target/shuttle --test shuttle
//! ```
//! Shuttle takes all atomics as sequentially consistent; missing fences are loom's to find. The
//! deque is a model behind a lock. Time comes when a test says so, and a worker parks as soon as it
//! finds nothing.
#![cfg(shuttle)]

mod world;

use shuttle::rand::Rng;
use shuttle::thread;
use std::time::Duration;
use wfhost::base::{Clock, Monotonic, VirtualClock};
use wfhost::process::{Budget, Permit};
use wfhost::scheduler::{Config, Interrupt, Next, Pause, Port, Scheduler, Slot, Wake};
use world::{ONE, Process, SLOW, STAYS, World};

/// Schedules per test and number of workers, in each of two ways. Some seconds in all.
fn schedules() -> usize {
    std::env::var("WFHOST_SHUTTLE_SCHEDULES").map_or(300, |text| text.parse().expect("a number"))
}

/// Another worker would find a job that one loses; a third may miss what two exchange.
const ANY: &[usize] = &[1, 2, 3];

/// The time at which a schedule begins: long after the last timers, so that nobody rests between
/// two batches of them.
const START: Monotonic = Monotonic(1_000);

/// Steps of an unfair schedule before it is abandoned. Arbitrary: fair ones take a few thousand.
const STEPS_MAX: usize = 100_000;

/// What a schedule begins with.
struct Bench {
    scheduler: Scheduler<World>,
    time: VirtualClock,
}

impl Bench {
    fn spawn(&self, process: Process, permit: Permit) -> Slot {
        self.scheduler.handle().spawn(process, permit).ok().expect("open")
    }

    fn post(&self, slot: Slot, event: u64) {
        assert!(self.scheduler.handle().post(slot, event, Wake::Event), "it lives");
    }

    /// So long after the start.
    fn timer(&self, due: u64, slot: Slot) {
        self.scheduler.handle().timer(Monotonic(START.0 + due), slot);
    }

    /// Lets the time come for those who wait for it.
    fn advance_to(&self, time: u64) {
        self.time.advance_to(Monotonic(START.0 + time));
        self.scheduler.clock_was_moved();
    }

    /// Gives the workers time to go to sleep, or almost.
    fn pause(&self) {
        for _ in 0..shuttle::rand::thread_rng().gen_range(0..60) {
            thread::yield_now();
        }
    }
}

/// Runs a scheduler with the world's commit point, then shuts it down: all must have ended, and no
/// check may have failed.
fn check(workers: &[usize], permits: u32, test: fn(&Bench)) {
    check_outside(workers, permits, None, test);
}

/// The same with room for so many bytes outside the pool.
fn check_outside(workers: &[usize], permits: u32, room: Option<u64>, test: fn(&Bench)) {
    for workers in workers {
        check_one(*workers, permits, room, test);
    }
}

fn check_one(workers: usize, permits: u32, room: Option<u64>, test: fn(&Bench)) {
    let run = move || {
        let time = VirtualClock::default();
        time.advance_to(START);
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
        let bench = Bench { scheduler, time };
        test(&bench);
        let shutdown = bench.scheduler.shutdown(Duration::MAX);
        assert_eq!(world.complaints(), Vec::<String>::new());
        assert!(shutdown.alive.is_empty(), "{shutdown:?}");
        assert_eq!(shutdown.stats.spawned, shutdown.stats.completed);
        assert_eq!(outside.map_or(0, |outside| outside.used()), 0);
    };
    // Two ways to draw schedules: evenly, and with few switches at the worst places (Burckhardt et
    // al., ASPLOS 2010). The second is unfair: where one thread waits by looking again and again
    // for what another does, the other may never have its turn. Such a schedule is abandoned and
    // proves nothing; the first way, which is fair, fails if there is no progress.
    shuttle::check_random(run, schedules());
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::ContinueAfter(STEPS_MAX);
    shuttle::Runner::new(shuttle::scheduler::PctScheduler::new(3, schedules()), config).run(run);
}

#[test]
fn messages_of_outside_threads_come_in_order() {
    check(ANY, 0, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        let sink = bench.spawn(Process::sink(6), Permit::NONE);
        let senders = [1, 2].map(|sender| {
            let mut handle = bench.scheduler.handle();
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
fn work_from_outside_while_workers_go_to_sleep() {
    check(ANY, 0, |bench| {
        for event in 0..3 {
            let done = bench.scheduler.handle().commit().expect_results(1);
            let sink = bench.spawn(Process::sink(1), Permit::NONE);
            bench.pause();
            bench.post(sink, event);
            done.wait();
        }
    });
}

#[test]
fn fork_and_join() {
    check(ANY, 0, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(5, Permit::NONE), Permit::NONE);
        assert_eq!(done.wait(), [5]);
    });
}

#[test]
fn fork_and_join_with_fewer_permits_than_processes() {
    check(ANY, 2, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(5, ONE), ONE);
        assert_eq!(done.wait(), [5]);
    });
}

#[test]
fn fork_and_join_where_evictions_admissions_and_drops_take_long() {
    check(ANY, 2, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(4, SLOW), SLOW);
        assert_eq!(done.wait(), [3]);
    });
}

#[test]
fn fork_and_join_of_those_who_do_not_give_way() {
    // A permit for one, room for all others.
    check_outside(ANY, 1, Some(100), |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(4, STAYS), STAYS);
        assert_eq!(done.wait(), [3]);
    });
}

#[test]
fn who_does_not_find_room_is_refused_and_not_forgotten() {
    check_outside(ANY, 1, Some(2), |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(4, STAYS), STAYS);
        assert!(done.wait()[0] <= 3);
    });
}

/// The only permit is with one that gives way, then with one newcomer after another.
fn newcomers(bench: &Bench, holder: Process, permit: Permit) {
    bench.spawn(holder, ONE);
    for _ in 0..3 {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.pause();
        bench.spawn(Process::fib(1, permit), permit);
        done.wait();
    }
}

#[test]
fn newcomers_while_workers_go_to_sleep() {
    check(ANY, 1, |bench| newcomers(bench, Process::waits_for_cancel(), ONE));
}

#[test]
fn newcomers_while_what_takes_long_is_done_aside() {
    check(ANY, 1, |bench| newcomers(bench, Process::waits_for_cancel().slow(), ONE));
    check(ANY, 1, |bench| newcomers(bench, Process::waits_for_cancel(), SLOW));
}

#[test]
fn interrupts_pauses_and_answers_from_outside() {
    check(ANY, 0, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        let sink = bench.spawn(Process::sink(2), Permit::NONE);
        let mut handle = bench.scheduler.handle();
        let pauser = thread::spawn(move || {
            handle.pause(sink, Pause::On);
            handle.pause(sink, Pause::Off);
        });
        let mut handle = bench.scheduler.handle();
        assert!(handle.post(sink, 100, Wake::Event));
        assert!(handle.post(sink, 101, Wake::Message));
        pauser.join().unwrap();
        done.wait();
        handle.interrupt(sink, Interrupt::Cancel);
    });
}

/// The only permit is with one that is paused, resumed and paused again: newcomers get it
/// meanwhile, and it goes on.
fn newcomers_while_the_holder_is_paused(bench: &Bench, holder: Process) {
    let done = bench.scheduler.handle().commit().expect_results(4);
    let holder = bench.spawn(holder, ONE);
    let mut handle = bench.scheduler.handle();
    let pauser = thread::spawn(move || {
        for pause in [Pause::On, Pause::Off, Pause::On] {
            handle.pause(holder, pause);
            thread::yield_now();
        }
    });
    for _ in 0..3 {
        bench.pause();
        bench.spawn(Process::fib(1, ONE), ONE);
    }
    pauser.join().unwrap();
    bench.pause();
    bench.scheduler.handle().pause(holder, Pause::Off);
    done.wait();
}

#[test]
fn who_is_paused_gives_way_and_goes_on_when_it_is_resumed() {
    check(ANY, 1, |bench| newcomers_while_the_holder_is_paused(bench, Process::ready(5)));
    check(ANY, 1, |bench| newcomers_while_the_holder_is_paused(bench, Process::ready(5).slow()));
}

#[test]
fn newcomers_are_not_kept_out_by_one_that_is_paused() {
    check(ANY, 1, |bench| {
        let holder = bench.spawn(Process::ready(5), ONE);
        bench.scheduler.handle().pause(holder, Pause::On);
        for _ in 0..2 {
            let done = bench.scheduler.handle().commit().expect_results(1);
            bench.pause();
            bench.spawn(Process::fib(1, ONE), ONE);
            done.wait();
        }
    });
}

#[test]
fn timers_fire_when_their_time_has_come() {
    check(ANY, 0, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(2);
        for due in [5, 10] {
            bench.spawn(Process::sleeper(Monotonic(START.0 + due)), Permit::NONE);
        }
        bench.advance_to(10);
        // Whoever set its timer after that may rest before it fires.
        bench.advance_to(1_000);
        done.wait();
    });
}

#[test]
fn timers_from_outside_while_workers_go_to_sleep() {
    check(ANY, 0, |bench| {
        for due in [1_000, 2_000] {
            let done = bench.scheduler.handle().commit().expect_results(1);
            let sink = bench.spawn(Process::sink(1), Permit::NONE);
            bench.pause();
            bench.timer(due, sink);
            bench.pause();
            bench.advance_to(due);
            done.wait();
        }
    });
}

#[test]
fn work_and_an_earlier_timer_while_a_worker_sleeps_until_a_later_one() {
    check(ANY, 0, |bench| {
        let late = bench.spawn(Process::sink(1), Permit::NONE);
        bench.timer(3_000, late);
        bench.pause();
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::fib(1, Permit::NONE), Permit::NONE);
        done.wait();
        bench.pause();
        let done = bench.scheduler.handle().commit().expect_results(1);
        let sink = bench.spawn(Process::sink(1), Permit::NONE);
        bench.pause();
        bench.timer(1_000, sink);
        bench.pause();
        bench.advance_to(1_000);
        done.wait();
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.pause();
        bench.advance_to(3_000);
        done.wait();
    });
}

/// Wakes one process less than there are workers, or as many where `then` is the end, in one step:
/// no worker ends its own step before all are in theirs.
fn wakes(bench: &Bench, workers: usize, then: Next) {
    let others = if then == Next::Complete { workers } else { workers - 1 };
    let done = bench.scheduler.handle().commit().expect_results(workers);
    let whom = (0..others).map(|_| bench.spawn(Process::meets(workers), Permit::NONE)).collect();
    bench.pause();
    bench.spawn(Process::wakes(whom, then), Permit::NONE);
    done.wait();
}

/// After so many short steps that workers keep in hand what they wake.
fn wakes_quickly(bench: &Bench, workers: usize, then: Next) {
    let done = bench.scheduler.handle().commit().expect_results(workers);
    for _ in 0..workers {
        bench.spawn(Process::ready(20), Permit::NONE);
    }
    done.wait();
    wakes(bench, workers, then);
}

#[test]
fn what_a_step_wakes_is_found_by_other_workers() {
    check(&[2], 0, |bench| wakes(bench, 2, Next::Complete));
    check(&[3], 0, |bench| wakes(bench, 3, Next::Complete));
    check(&[2], 0, |bench| wakes_quickly(bench, 2, Next::Complete));
    check(&[3], 0, |bench| wakes_quickly(bench, 3, Next::Complete));
}

#[test]
fn what_a_slice_wakes_that_is_used_up_is_found() {
    check(&[2], 0, |bench| wakes(bench, 2, Next::Preempted));
    check(&[3], 0, |bench| wakes(bench, 3, Next::Preempted));
    check(&[2], 0, |bench| wakes_quickly(bench, 2, Next::Preempted));
    check(&[3], 0, |bench| wakes_quickly(bench, 3, Next::Preempted));
}

#[test]
fn what_is_submitted_during_a_shutdown_is_refused_or_cancelled() {
    // The shutdown of `check` races with this thread, which the test does not wait for.
    check(ANY, 1, |bench| {
        let mut handle = bench.scheduler.handle();
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
fn what_a_step_starts_during_a_shutdown_is_refused_or_cancelled() {
    check(ANY, 0, |bench| {
        bench.spawn(Process::starts(5), Permit::NONE);
        bench.pause();
    });
}

#[test]
fn a_shutdown_while_holders_are_evicted_slowly() {
    check(ANY, 1, |bench| {
        for _ in 0..3 {
            bench.spawn(Process::waits_for_cancel().slow(), ONE);
        }
        bench.pause();
    });
}

#[test]
fn a_panic_ends_its_process_and_nothing_else() {
    check(ANY, 0, |bench| {
        let done = bench.scheduler.handle().commit().expect_results(1);
        bench.spawn(Process::panics(), Permit::NONE);
        bench.spawn(Process::fib(3, Permit::NONE), Permit::NONE);
        assert_eq!(done.wait(), [2]);
    });
}
