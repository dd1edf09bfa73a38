//! A commit point that panics in every one of its functions: workers and other threads of the
//! scheduler survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wfhost::base::Monotonic;
use wfhost::process::{Allocation, Micros, Permit};
use wfhost::scheduler::{Commit, Config, Interrupt, Next, Port, Scheduler, Slot, Turn, Wake};

/// What is thrown: it throws again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}

/// Where it is thrown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Nowhere,
    Step,
    Event,
    Unheard,
    Slow,
    Fired,
    Drop,
    DropAside,
    DropsSlowly,
    Evict,
    EvictAside,
    EvictsSlowly,
    Admitted,
    AdmittedAside,
    AdmitsSlowly,
    Cancel,
}

const ALL: [Where; 15] = [
    Where::Step,
    Where::Event,
    Where::Unheard,
    Where::Slow,
    Where::Fired,
    Where::Drop,
    Where::DropAside,
    Where::DropsSlowly,
    Where::Evict,
    Where::EvictAside,
    Where::EvictsSlowly,
    Where::Admitted,
    Where::AdmittedAside,
    Where::AdmitsSlowly,
    Where::Cancel,
];

/// An event.
struct Mine(bool);

impl Drop for Mine {
    fn drop(&mut self) {
        if self.0 {
            std::panic::panic_any(Bomb);
        }
    }
}

struct Process {
    throws: Where,
    begun: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        throw_at(matches!(self.throws, Where::Drop | Where::DropAside));
    }
}

fn throw_at(is_here: bool) {
    if is_here {
        std::panic::panic_any(Bomb);
    }
}

#[derive(Default)]
struct World {
    cancel_throws: AtomicBool,
}

impl Commit for World {
    type Event = Mine;
    type Process = Process;
    type Timer = Slot;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, process: &mut Process, events: &mut Vec<Mine>) -> Next {
        let is_first = !std::mem::replace(&mut process.begun, true);
        throw_at(process.throws == Where::Step);
        if is_first && process.throws == Where::Slow {
            std::thread::sleep(Duration::from_millis(11));
        }
        if is_first && process.throws == Where::Fired {
            port.timer(Monotonic(0), turn.slot);
        }
        if turn.interrupted.is_some_and(|why| why > Interrupt::Visit) {
            if process.throws == Where::Unheard {
                port.post(turn.slot, Mine(true), Wake::Message);
            }
            return Next::Complete;
        }
        // What is left in the batch is dropped by the worker.
        events.retain_mut(|event| event.0);
        Next::Blocked
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Process, _: &str) {
        throw_at(true);
    }

    fn slow(&self, _: Slot, process: &Process, _: Micros) {
        throw_at(process.throws == Where::Slow);
    }

    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        port.interrupt(slot, Interrupt::Cancel);
        throw_at(self.cancel_throws.load(SeqCst));
    }

    fn evict(&self, process: &mut Process) -> bool {
        throw_at(matches!(process.throws, Where::Evict | Where::EvictAside));
        true
    }

    fn evicts_slowly(&self, process: &Process) -> bool {
        throw_at(process.throws == Where::EvictsSlowly);
        process.throws == Where::EvictAside
    }

    fn admitted(&self, process: &mut Process, _: Allocation) {
        throw_at(matches!(process.throws, Where::Admitted | Where::AdmittedAside));
    }

    fn admits_slowly(&self, process: &Process, _: Allocation) -> bool {
        throw_at(process.throws == Where::AdmitsSlowly);
        process.throws == Where::AdmittedAside
    }

    fn drops_slowly(&self, process: &Process) -> bool {
        throw_at(process.throws == Where::DropsSlowly);
        process.throws == Where::DropAside
    }

    fn fired<P: Port<Self>>(&self, _: &mut P, _: &mut Vec<Slot>) {
        throw_at(true);
    }
}

#[test]
fn whatever_the_commit_point_throws_all_processes_end_and_a_shutdown_returns() {
    for throws in ALL {
        let world = Arc::new(World::default());
        world.cancel_throws.store(throws == Where::Cancel, SeqCst);
        let one = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 0 };
        let config = Config { workers: 2, capacity: one, ..Config::default() };
        let scheduler = Scheduler::start(world, &config).expect("threads can be had");
        let mut handle = scheduler.handle();
        // As many that throw as would end all threads there are, and more; the first holds the one
        // permit, and must give way.
        let slots: Vec<Slot> = (0..6)
            .map(|_| handle.spawn(Process { throws, begun: false }, one).unwrap_or_else(|_| panic!("it is open")))
            .collect();
        let quiet = handle.spawn(Process { throws: Where::Nowhere, begun: false }, Permit::NONE);
        for slot in slots {
            handle.post(slot, Mine(throws == Where::Event), Wake::Event);
            handle.post(slot, Mine(false), Wake::Message);
        }
        assert!(quiet.is_ok());
        let is_at_the_end =
            matches!(throws, Where::Unheard | Where::Drop | Where::DropAside | Where::DropsSlowly | Where::Cancel);
        let begun = Instant::now();
        while !is_at_the_end && scheduler.stats().panics == 0 && begun.elapsed() < super::PATIENCE {
            std::thread::yield_now();
        }
        let shutdown = scheduler.shutdown(super::PATIENCE);
        assert_eq!((shutdown.alive, shutdown.stats.completed), (vec![], 7), "{throws:?}");
        assert!(shutdown.stats.panics > 0, "{throws:?} was never reached");
    }
}
