//! The scheduler on real threads, through its public interface.

mod foreign;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wfhost::base::{Clock, Monotonic, VirtualClock};
use wfhost::process::{Budget, Permit};
use wfhost::scheduler::{Config, Handle, Interrupt, Pause, Port, Scheduler, Slot, TurnOutcome, VirtualScheduler, Wake};
use world::{Process, World};

const ONE: Permit = Permit { instances: 1, core_instances: 2, memories: 1, tables: 1, bytes: 1 };
const PATIENCE: Duration = Duration::from_mins(1);

fn permits(count: u32) -> Permit {
    Permit { instances: count, core_instances: 2 * count, memories: count, tables: count, bytes: 0 }
}

fn start(workers: usize, capacity: u32) -> (Arc<World>, Scheduler<World>) {
    start_outside(workers, capacity, None)
}

/// The same with room for so many processes outside the pool.
fn start_outside(workers: usize, capacity: u32, outside: Option<&Arc<Budget>>) -> (Arc<World>, Scheduler<World>) {
    let world = Arc::new(World::default());
    let config = Config { workers, capacity: permits(capacity), outside: outside.cloned(), ..Config::default() };
    let scheduler = Scheduler::start(Arc::clone(&world), &config).expect("threads can be had");
    (world, scheduler)
}

fn spawn(handle: &mut Handle<World>, process: Process, permit: Permit) -> Slot {
    handle.spawn(process, permit).unwrap_or_else(|_| panic!("the scheduler is open"))
}

fn finish(scheduler: Scheduler<World>) -> wfhost::scheduler::Stats {
    let shutdown = scheduler.shutdown(PATIENCE);
    assert_eq!(shutdown.alive, []);
    assert_eq!(shutdown.stats.spawned, shutdown.stats.completed);
    shutdown.stats
}

#[test]
fn fork_and_join_on_every_number_of_workers() {
    for workers in 1..=4 {
        let (world, scheduler) = start(workers, 0);
        spawn(&mut scheduler.handle(), Process::fib(18, Permit::NONE), Permit::NONE);
        assert_eq!(world.wait(1), [2584]);
        let stats = finish(scheduler);
        // Every process ends, and fib(18) makes 8,361 of them.
        assert_eq!(stats.completed, 8361);
    }
}

#[test]
fn fork_and_join_on_a_pool_of_8() {
    let (world, scheduler) = start(2, 8);
    spawn(&mut scheduler.handle(), Process::fib(15, ONE), ONE);
    assert_eq!(world.wait(1), [610]);
    let stats = finish(scheduler);
    assert!(stats.evictions > 0 && stats.admissions_waited > 0, "{stats:?}");
    assert!(world.instances_most.load(Ordering::Relaxed) <= 8, "more instances than permits");
}

#[test]
fn a_thousand_parents_with_ten_children_each_on_a_pool_of_100() {
    let (world, scheduler) = start(2, 100);
    for _ in 0..1000 {
        spawn(&mut scheduler.handle(), Process::parent(10, ONE), ONE);
    }
    assert_eq!(world.wait(1000), [10; 1000]);
    finish(scheduler);
    assert!(world.instances_most.load(Ordering::Relaxed) <= 100, "more instances than permits");
}

#[test]
fn a_permit_that_the_pool_can_never_give_is_refused() {
    let (_world, scheduler) = start(1, 4);
    assert!(scheduler.handle().spawn(Process::waits(ONE), permits(5)).is_err());
    finish(scheduler);
}

#[test]
fn those_who_do_not_give_way_fill_the_pool_and_the_others_go_on_outside() {
    let room = Arc::new(Budget::new(1_000));
    let (world, scheduler) = start_outside(2, 8, Some(&room));
    spawn(&mut scheduler.handle(), Process::fib(12, ONE).stays(), ONE);
    assert_eq!(world.wait(1), [144]);
    let stats = finish(scheduler);
    assert!(stats.admitted_outside > 0, "{stats:?}");
    assert_eq!((stats.evictions, stats.admissions_refused, room.used()), (0, 0, 0));
    assert!(world.instances_most.load(Ordering::Relaxed) <= 8, "more instances than permits");
}

#[test]
fn who_finds_no_room_at_all_is_refused() {
    for room in [0, 3] {
        let room = Arc::new(Budget::new(room));
        let (world, scheduler) = start_outside(2, 2, Some(&room));
        spawn(&mut scheduler.handle(), Process::fib(12, ONE).stays(), ONE);
        assert!(world.wait(1)[0] < 144, "nobody was left out");
        let stats = finish(scheduler);
        assert!(stats.admissions_refused > 0, "{stats:?}");
        assert_eq!((stats.admissions_refused, room.used()), (world.refused.load(Ordering::Relaxed), 0));
        assert!(world.outside_most.load(Ordering::Relaxed).unsigned_abs() <= room.bytes_max());
    }
}

#[test]
fn who_was_evicted_comes_back_although_there_is_no_room() {
    let room = Arc::new(Budget::new(1));
    let (world, scheduler) = start_outside(2, 1, Some(&room));
    let mut handle = scheduler.handle();
    // It holds the whole pool to the end.
    let holder = spawn(&mut handle, Process::waits(ONE).stays(), ONE);
    spawn(&mut handle, Process::fib(12, ONE), ONE);
    assert_eq!(world.wait(1), [144]);
    handle.interrupt(holder, Interrupt::Cancel);
    let stats = finish(scheduler);
    assert!(stats.evictions > 0, "{stats:?}");
    assert_eq!((stats.admissions_refused, room.used()), (0, 0));
    assert!(world.outside_most.load(Ordering::Relaxed) <= 2, "more than one was beyond the budget");
}

#[test]
fn one_that_is_too_large_for_the_pool_goes_outside() {
    let room = Arc::new(Budget::new(1));
    let (world, scheduler) = start_outside(1, 4, Some(&room));
    let large = Permit { bytes: 1, ..permits(5) };
    spawn(&mut scheduler.handle(), Process::fib(1, large), large);
    assert_eq!(world.wait(1), [1]);
    assert_eq!(finish(scheduler).admitted_outside, 1);
}

/// On the only worker the neighbour would not go on, and so neither eviction nor admission would
/// end.
#[test]
fn slow_evictions_and_admissions_hold_no_worker_up() {
    let (world, scheduler) = start(1, 1);
    let mut handle = scheduler.handle();
    let neighbour = spawn(&mut handle, Process::ticks(), Permit::NONE);
    spawn(&mut handle, Process::fib(5, ONE).evicts_slowly(), ONE);
    assert_eq!(world.wait(1), [5]);
    assert!(scheduler.stats().evictions > 0);
    handle.interrupt(neighbour, Interrupt::Cancel);
    finish(scheduler);
}

/// The same with what is left of a process that has ended; its permit is free only when that is
/// gone.
#[test]
fn a_slow_drop_holds_no_worker_up() {
    let (world, scheduler) = start(1, 1);
    let mut handle = scheduler.handle();
    let neighbour = spawn(&mut handle, Process::ticks(), Permit::NONE);
    spawn(&mut handle, Process::fib(1, ONE).drops_slowly(&world), ONE);
    spawn(&mut handle, Process::fib(2, ONE), ONE);
    assert_eq!(world.wait(2), [1, 1]);
    assert_eq!(world.dropped.load(Ordering::Acquire), 1, "its permit was given on before it was gone");
    handle.interrupt(neighbour, Interrupt::Cancel);
    finish(scheduler);
}

/// It counts as ended when its drop begins; but after the shutdown the caller may free its memory.
#[test]
fn a_shutdown_waits_for_what_is_dropped_aside() {
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(50));
            self.0.store(true, Ordering::Release);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let (world, scheduler) = start(1, 1);
    spawn(&mut scheduler.handle(), Process::fib(1, ONE).holds(Box::new(Held(Arc::clone(&dropped)))), ONE);
    assert_eq!(world.wait(1), [1]);
    finish(scheduler);
    assert!(dropped.load(Ordering::Acquire));
}

#[test]
fn ten_thousand_timers_fire_and_none_early() {
    let (world, scheduler) = start(2, 0);
    let mut handle = scheduler.handle();
    let due = Monotonic(handle.monotonic().0 + 50_000);
    for _ in 0..10_000 {
        spawn(&mut handle, Process::sleeps_until(due), Permit::NONE);
    }
    world.wait(10_000);
    assert_eq!(finish(scheduler).timers_fired, 10_000);
    assert_eq!(world.early.load(Ordering::Relaxed), 0, "a timer fired early");
}

#[test]
fn ten_thousand_timers_that_are_due_at_once_are_one_batch() {
    let time = VirtualClock::default();
    let config = Config { workers: 2, clock: Clock::Virtual(time.clone()), ..Config::default() };
    let world = Arc::new(World::default());
    let mut scheduler = VirtualScheduler::new(Arc::clone(&world), &config);
    for _ in 0..10_000 {
        spawn(&mut scheduler.handle(), Process::sleeps_until(Monotonic(5)), Permit::NONE);
    }
    let run = |scheduler: &mut VirtualScheduler<World>| while scheduler.turn(0) != TurnOutcome::Nothing {};
    run(&mut scheduler);
    assert_eq!((scheduler.stats().timers, scheduler.stats().timer_batches), (10_000, 0));
    time.advance_to(Monotonic(5));
    run(&mut scheduler);
    assert_eq!((scheduler.stats().timers_fired, scheduler.stats().timer_batches), (10_000, 1));
    assert_eq!(world.wait(10_000).len(), 10_000);
}

#[test]
fn a_shutdown_cancels_ten_thousand_that_wait() {
    let (world, scheduler) = start(2, 10);
    let mut handle = scheduler.handle();
    let slots: Vec<Slot> = (0..10_000)
        .map(|number| {
            let permit = if number % 100 == 0 { ONE } else { Permit::NONE };
            spawn(&mut handle, Process::waits(permit), permit)
        })
        .collect();
    for slot in slots.iter().step_by(7) {
        handle.pause(*slot, Pause::On);
    }
    finish(scheduler);
    assert_eq!(world.cancelled.load(Ordering::Relaxed), 10_000);
    assert!(handle.spawn(Process::waits(Permit::NONE), Permit::NONE).is_err(), "it is closed");
    assert!(!handle.post(slots[0], 1, Wake::Event), "nobody is there");
}

#[test]
fn a_shutdown_reports_who_does_not_end() {
    let (_world, scheduler) = start(2, 0);
    let deaf = spawn(&mut scheduler.handle(), Process::deaf(), Permit::NONE);
    spawn(&mut scheduler.handle(), Process::waits(Permit::NONE), Permit::NONE);
    let shutdown = scheduler.shutdown(Duration::from_millis(100));
    assert_eq!(shutdown.alive, [deaf]);
}

#[test]
fn what_a_blocked_worker_holds_is_stolen() {
    let (world, scheduler) = start(2, 0);
    // Its step ends only when the ten processes that it has spawned have run, on the other worker.
    spawn(&mut scheduler.handle(), Process::waits_inside(10), Permit::NONE);
    world.wait(1);
    assert!(finish(scheduler).steals > 0);
}

#[test]
fn a_panic_ends_one_process_and_its_worker_goes_on() {
    let (world, scheduler) = start(1, 0);
    let mut handle = scheduler.handle();
    let slot = spawn(&mut handle, Process::panics(), Permit::NONE);
    spawn(&mut handle, Process::fib(3, Permit::NONE), Permit::NONE);
    assert_eq!(world.wait(1), [2]);
    assert_eq!(*world.panics.lock().unwrap(), [(slot, "on purpose".to_owned())]);
    assert_eq!(finish(scheduler).panics, 1);
}

#[test]
fn a_slow_step_is_counted_and_named() {
    let (world, scheduler) = start(1, 0);
    let slow = spawn(&mut scheduler.handle(), Process::slow(Duration::from_millis(12)), Permit::NONE);
    world.wait(1);
    assert!(finish(scheduler).slow_steps >= 1);
    assert!(world.slow.lock().unwrap().contains(&slow));
}

#[test]
fn a_paused_process_hears_everything_when_it_is_resumed() {
    let (world, scheduler) = start(2, 0);
    let mut handle = scheduler.handle();
    let sink = spawn(&mut handle, Process::counts(3), Permit::NONE);
    // Its first step is over when it has heard the first event.
    handle.post(sink, 1, Wake::Message);
    World::wait_until(|| world.heard.load(Ordering::Acquire) == 1);
    handle.pause(sink, Pause::On);
    handle.post(sink, 2, Wake::Message);
    handle.post(sink, 3, Wake::Event);
    // It is paused and both came after that; another process that runs meanwhile shows that the
    // workers had time for it.
    spawn(&mut handle, Process::fib(10, Permit::NONE), Permit::NONE);
    assert_eq!(world.wait(1), [55]);
    assert_eq!(world.heard.load(Ordering::Acquire), 1, "it was stepped while it is paused");
    handle.pause(sink, Pause::Off);
    assert_eq!(world.wait(2), [55, 3]);
    finish(scheduler);
}

#[test]
fn a_scheduler_that_is_dropped_stops_its_workers() {
    let (world, scheduler) = start(2, 0);
    spawn(&mut scheduler.handle(), Process::waits(Permit::NONE), Permit::NONE);
    drop(scheduler);
    assert_eq!(Arc::strong_count(&world), 1, "something of it is left");
}
