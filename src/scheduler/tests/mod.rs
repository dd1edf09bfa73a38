//! Workers whose turns a test drives, with processes that are closures.

mod held;
mod permits;
mod worker;

use super::*;
use crate::base::{Clock, Monotonic, VirtualClock};
use crate::process::{Budget, Permit};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Step = Box<dyn FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send>;

/// A process.
pub(super) struct Actor {
    step: Step,
    pub(super) gives_way: bool,
}

#[derive(Default)]
pub(super) struct World {
    panics: AtomicU64,
    fired: AtomicU64,
}

impl Commit for World {
    type Event = u64;
    type Process = Actor;
    type Timer = Slot;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, actor: &mut Actor, events: &mut Vec<u64>) -> Next {
        (actor.step)(port, turn, events)
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, _: Slot, _: &mut Actor, _: &str) {
        self.panics.fetch_add(1, SeqCst);
    }

    fn evict(&self, actor: &mut Actor) -> bool {
        actor.gives_way
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        self.fired.store(port.monotonic().0, SeqCst);
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

pub(super) fn actor(step: impl FnMut(&mut dyn Port<World>, Turn, &mut Vec<u64>) -> Next + Send + 'static) -> Actor {
    Actor { step: Box::new(step), gives_way: true }
}

/// One that always says the same.
pub(super) fn says(next: Next) -> Actor {
    actor(move |_, _, _| next)
}

pub(super) fn permits(count: u32) -> Permit {
    Permit { instances: count, core_instances: count, memories: count, tables: count, bytes: 0 }
}

pub(super) struct Rig {
    time: VirtualClock,
    pub(super) scheduler: VirtualScheduler<World>,
    pub(super) handle: Handle<World>,
}

impl Rig {
    pub(super) fn new(capacity: u32) -> Self {
        Self::with_workers(1, capacity)
    }

    fn with_workers(workers: usize, capacity: u32) -> Self {
        Self::with(Config { workers, capacity: permits(capacity), ..Config::default() })
    }

    pub(super) fn with(config: Config) -> Self {
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let config = Config { clock, slice_fuel: 1_000, ..config };
        let scheduler = VirtualScheduler::new(Arc::default(), &config);
        let handle = scheduler.handle();
        Self { time, scheduler, handle }
    }

    pub(super) fn advance(&self) {
        self.time.advance_to(Monotonic(self.handle.monotonic().0 + 1));
    }

    pub(super) fn spawn(&mut self, actor: Actor, permit: Permit) -> Slot {
        self.handle.spawn(actor, permit).unwrap_or_else(|_| panic!("it is open"))
    }

    /// Turns until there is nothing to do.
    pub(super) fn settle(&mut self) {
        while self.scheduler.turn(0) != TurnOutcome::Nothing {}
    }

    fn panics(&self) -> u64 {
        self.handle.commit().panics.load(SeqCst)
    }
}
