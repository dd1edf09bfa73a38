//! The desk at which the processes of a test are stepped: the scheduler itself, with virtual
//! workers, in virtual time. A seed chooses whose turn it is.

use crate::base::{Monotonic, VirtualClock};
use crate::process::{Micros, Permit, Timestamp};
use crate::run::{Clock, Kernel};
use crate::scheduler::{Commit, Config, Handle, TurnOutcome, VirtualScheduler};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The desk at which processes are stepped.
#[derive(Clone)]
pub(super) struct Desk {
    scheduler: Arc<Mutex<VirtualScheduler<Kernel>>>,
    time: VirtualClock,
    /// Microseconds that the wall clock is ahead of the right time.
    jump: Arc<AtomicI64>,
    seed: Arc<AtomicU64>,
    pub(super) kernel: Kernel,
}

/// When the virtual wall clock starts.
pub(super) const EPOCH: u64 = 1_700_000_000_000_000;

impl Desk {
    pub(super) fn new(seed: u64) -> Self {
        Self::with(seed, Config::default())
    }

    /// A desk at which so many processes may live.
    pub(super) fn with_places(seed: u64, places: u32) -> Self {
        Self::with(seed, Config { processes_max: places, ..Config::default() })
    }

    /// Makes a desk with that many slots, that pool, and that room outside it. An empty pool is a
    /// large one if there is no room outside.
    pub(super) fn with(seed: u64, config: Config) -> Self {
        let (time, jump) = (VirtualClock::default(), Arc::new(AtomicI64::new(0)));
        let (wall, jumped) = (time.clone(), Arc::clone(&jump));
        let kernel = Kernel::new(Clock::new(move || {
            Timestamp((EPOCH + wall.now().0).saturating_add_signed(jumped.load(Relaxed)))
        }));
        let pool = Permit { instances: 1_000, core_instances: 1_000, memories: 1_000, tables: 1_000, bytes: 0 };
        let config = Config {
            workers: 1 + (seed % 3) as usize,
            capacity: if config.outside.is_none() && config.capacity.is_none() { pool } else { config.capacity },
            seed,
            clock: crate::base::Clock::Virtual(time.clone()),
            ..config
        };
        let scheduler = VirtualScheduler::new(Arc::new(kernel.clone()), &config);
        kernel.attach(scheduler.handle());
        let seed = Arc::new(AtomicU64::new(seed.wrapping_mul(2).wrapping_add(1)));
        Self { scheduler: Arc::new(Mutex::new(scheduler)), time, jump, seed, kernel }
    }

    /// A number below `bound`, from the seed (xorshift64*).
    pub(super) fn pick(&self, bound: usize) -> usize {
        let mut x = self.seed.load(Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.seed.store(x, Relaxed);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub(super) fn time(&self) -> VirtualClock {
        self.time.clone()
    }

    pub(super) fn now(&self) -> Monotonic {
        self.time.now()
    }

    pub(super) fn advance(&self, by: Micros) {
        self.time.advance_to(self.now().saturating_add(by));
    }

    /// Sets the wall clock, in microseconds from the right time.
    pub(super) fn set_wall(&self, jump: i64) {
        self.jump.store(jump, Relaxed);
    }

    /// Gives a turn to the first worker that has work, starting with one that the seed chooses.
    /// Returns whether one had.
    pub(super) fn turn(&mut self) -> bool {
        let mut scheduler = self.scheduler.lock();
        let workers = scheduler.workers();
        let first = self.pick(workers);
        (first..first + workers).any(|worker| scheduler.turn(worker % workers) != TurnOutcome::Nothing)
    }

    /// Fires the timers that are due, and steps no process; if none is due, time goes to the next
    /// one. Returns whether there was one.
    pub(super) fn fire(&mut self) -> bool {
        let mut due = Vec::new();
        {
            let scheduler = self.scheduler.lock();
            let Some(first) = scheduler.next_timer() else { return false };
            self.time.advance_to(first);
            scheduler.shared.timers.drain(self.now(), &mut due);
        }
        self.kernel.fired(&mut self.port(), &mut due);
        true
    }

    /// Takes the earliest timers out, as the worker does that finds them due, and returns when that
    /// is.
    pub(super) fn take_timer(&mut self) -> Monotonic {
        let scheduler = self.scheduler.lock();
        let due = scheduler.next_timer().expect("a timer is set");
        scheduler.shared.timers.drain(due, &mut Vec::new());
        due
    }

    /// The scheduler, for callers on none of its workers.
    pub(super) fn port(&self) -> Handle<Kernel> {
        self.scheduler.lock().handle()
    }

    /// Continues until nothing is left to do.
    pub(super) fn settle(&mut self) {
        loop {
            self.drain();
            if !self.fire() {
                return;
            }
        }
    }

    /// Steps until no process is ready; timers that are not due stay.
    pub(super) fn drain(&mut self) {
        while self.turn() {}
    }

    pub(super) fn timers(&self) -> usize {
        self.scheduler.lock().shared.timers.len()
    }

    pub(super) fn living(&self) -> usize {
        self.scheduler.lock().alive().len()
    }

    /// How often foreign code has panicked.
    pub(super) fn panics(&self) -> u64 {
        self.scheduler.lock().stats().panics
    }

    /// Entries of the admission queue, and how many wait.
    pub(super) fn admitting(&self) -> (usize, usize) {
        let scheduler = self.scheduler.lock();
        (scheduler.shared.admission.entries(), scheduler.shared.admission.waiting())
    }

    /// The scheduler begins to shut down.
    pub(super) fn close(&self) {
        self.scheduler.lock().close();
    }
}
