//! The simulator: a scheduler of virtual workers in virtual time, driven by one thread from one
//! seed.
//!
//! A [`World`] defines the processes, the events from outside, and what must hold. The simulation
//! draws, step by step, which worker has a turn, whether an event comes from outside, and whether
//! time passes; so each seed is one interleaving, at the grain of turns, and the same seed always
//! gives the same one. Loom and shuttle cover interleavings within a turn.
//!
//! 1. *Storm*: turns, acts of the outside and time, at random; workers get turns at different
//!    rates. In a world that supports it, the host dies now and then and another one starts in its
//!    place.
//! 2. *Calm*: faults stop, and every worker has turns until there is nothing left to do; time moves
//!    to when the first worker wakes. Then every process must have ended: one that has not was
//!    forgotten.
//!
//! A worker that finds no work goes to sleep, and gets no turn before another thread wakes it or
//! its time has come. It is a breach
//!
//! - that all workers sleep while a job is in a queue, or while a timer is set and none of them
//!   wakes for it;
//! - that a worker sleeps on while there are jobs to steal (`IDLE_MAX`);
//! - that a timer is late by more turns of one worker than `LATE_MAX`, or by more long ones than
//!   `LATE_LONG_MAX`.
//!
//! What it does not do: real time, real threads, or wasm.

mod disk;
mod hosted;
mod ledger;
mod outside;
mod player;
mod runs;
mod scripted;
mod watch;

pub use hosted::Hosted;
pub use ledger::ActorEvent;
pub use runs::Runs;
pub use scripted::{Actor, INJECTED, Script, Scripted};

use crate::base::{Clock, VirtualClock};
use crate::process::{Budget, Micros, Permit};
use crate::scheduler::{Commit, Config, Handle, Stats, TurnOutcome, VirtualScheduler};
use std::sync::Arc;
use watch::Watch;

/// How often time may pass in the calm, without a step, before the outside settles. Arbitrary.
const IDLE_WAKINGS_MAX: u32 = 500;

/// Random numbers of a seed (xorshift64 behind splitmix64). They must never change: a seed that
/// fails must fail tomorrow, too.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins the numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)).max(1))
    }

    /// Draws a number below 2^53.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The lowest bits of an xorshift are its weakest.
        self.0 >> 11
    }

    /// Draws a number below `bound`; zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Picks one of the items; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

/// A world to simulate.
pub trait World {
    /// The commit point under test.
    type Commit: Commit;

    /// Returns the commit point and the size of the pool.
    fn commit(&self) -> (Arc<Self::Commit>, Permit);

    /// Returns the budget for instances outside the pool; `None` if there is none.
    fn outside(&self) -> Option<Arc<Budget>> {
        None
    }

    /// Receives the clock of the simulation, for worlds whose steps take time.
    fn use_clock(&mut self, time: &VirtualClock) {
        let _ = time;
    }

    /// Does the work of the host's own threads.
    fn background(&mut self) {}

    /// Performs an event from outside: a start, an answer, a cancel.
    fn act(&mut self, handle: &mut Handle<Self::Commit>, dice: &mut Dice);

    /// Stops all faults. From now on there are no more acts, and every started process must end.
    fn calm(&mut self, handle: &mut Handle<Self::Commit>, dice: &mut Dice);

    /// Does the pending work of the outside, once all workers are idle and no timer is set. Returns
    /// whether there was any.
    fn settle(&mut self, handle: &mut Handle<Self::Commit>) -> bool;

    /// Kills the host, and with it all that it held in memory. Returns whether this world supports
    /// the fault.
    fn crash(&mut self, dice: &mut Dice) -> bool {
        let _ = dice;
        false
    }

    /// Reports that another host has started, with the commit point that [`Self::commit`] returns
    /// now.
    fn restart(&mut self, handle: &mut Handle<Self::Commit>) {
        let _ = handle;
    }

    /// Checks what must hold once there is nothing left to do.
    ///
    /// # Errors
    /// The first breach.
    fn verify(&self, stats: &Stats) -> Result<(), String>;
}

/// The size of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The seed of all draws.
    pub seed: u64,
    /// Virtual workers.
    pub workers: usize,
    /// Draws in the storm.
    pub draws: u64,
    /// Turns that the calm may take.
    pub turns_max: u64,
    /// Whether the scheduler shuts down in the calm.
    pub shuts_down: bool,
    /// Crashes of the host in 1,000 draws of the storm.
    pub crashes: u64,
}

impl Simulation {
    /// Creates a simulation of a size that follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            seed,
            workers: 1 + dice.below(4) as usize,
            draws: 200 + dice.below(800),
            turns_max: 200_000,
            shuts_down: dice.chance(20),
            crashes: 0,
        }
    }

    /// Lets the host die now and then.
    #[must_use]
    pub fn with_crashes(mut self) -> Self {
        self.crashes = 1 + self.seed % 12;
        self
    }

    /// Runs the world to its end.
    ///
    /// # Errors
    /// The first breach, as text.
    pub fn run<W: World>(&self, world: &mut W) -> Result<Stats, String> {
        let mut dice = Dice::new(self.seed ^ 0x5eed);
        let time = VirtualClock::default();
        world.use_clock(&time);
        let mut scheduler = self.host(world, &time);
        let mut watch = Watch::new(self.workers, &time);
        self.storm(world, &mut scheduler, &mut watch, &mut dice)?;
        world.calm(&mut scheduler.handle(), &mut dice);
        if self.shuts_down {
            scheduler.close();
        }
        self.settle(world, &mut scheduler, &mut watch, &mut dice)?;
        let stats = scheduler.stats();
        let alive = scheduler.alive();
        let forgotten = if alive.is_empty() {
            Ok(())
        } else {
            Err(format!("there is nothing left to do, but processes were forgotten: {alive:?}"))
        };
        world.verify(&stats).and(forgotten).map(|()| stats)
    }

    fn host<W: World>(&self, world: &W, time: &VirtualClock) -> VirtualScheduler<W::Commit> {
        let (commit, capacity) = world.commit();
        let (clock, outside) = (Clock::Virtual(time.clone()), world.outside());
        let config = Config {
            workers: self.workers,
            capacity,
            seed: self.seed,
            clock,
            processes_max: 1 << 16,
            outside,
            ..Config::default()
        };
        VirtualScheduler::new(commit, &config)
    }

    fn storm<W: World>(
        &self,
        world: &mut W,
        scheduler: &mut VirtualScheduler<W::Commit>,
        watch: &mut Watch,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let mut handle = scheduler.handle();
        // Some workers get many turns and some few, as on a busy machine.
        let rates: Vec<u64> = (0..self.workers).map(|_| 1 + dice.below(10)).collect();
        // Drawn from dice of its own, so that this fault does not change the other draws of a seed.
        let mut fate = Dice::new(self.seed ^ 0xdead);
        for _ in 0..self.draws {
            if self.crashes > 0 && fate.below(1_000) < self.crashes && world.crash(&mut fate) {
                *scheduler = self.host(world, watch.time());
                watch.reset();
                handle = scheduler.handle();
                world.restart(&mut handle);
            }
            match dice.below(100) {
                0..10 => world.act(&mut handle, dice),
                10..15 => watch.pass(Micros(dice.below(2000))),
                _ => {
                    let mut drawn = dice.below(rates.iter().sum());
                    let worker = rates.iter().position(|rate| {
                        let is_it = drawn < *rate;
                        drawn = drawn.saturating_sub(*rate);
                        is_it
                    });
                    let _: TurnOutcome = watch.work(scheduler, worker.unwrap_or(0), dice)?;
                }
            }
            if dice.chance(30) {
                world.background();
            }
        }
        Ok(())
    }

    fn settle<W: World>(
        &self,
        world: &mut W,
        scheduler: &mut VirtualScheduler<W::Commit>,
        watch: &mut Watch,
        dice: &mut Dice,
    ) -> Result<(), String> {
        let (mut rounds, mut stepped, mut idle) = (0, 0, 0);
        loop {
            let mut is_quiet = true;
            for worker in 0..self.workers {
                is_quiet &= watch.work(scheduler, worker, dice)? == TurnOutcome::Nothing;
            }
            world.background();
            rounds += 1;
            if rounds * self.workers as u64 > self.turns_max {
                return Err(format!("not ended after {rounds} rounds of calm"));
            }
            if !is_quiet || (0..self.workers).any(|worker| !scheduler.is_asleep(worker)) {
                continue;
            }
            let steps = scheduler.stats().steps;
            idle = if steps == stepped { idle + 1 } else { 0 };
            stepped = steps;
            match watch.waking(scheduler)? {
                // A timer may poll for ever: then the outside does its pending work.
                Some(time) if idle < IDLE_WAKINGS_MAX => watch.pass_to(time),
                _ if world.settle(&mut scheduler.handle()) => idle = 0,
                _ => return Ok(()),
            }
        }
    }
}
