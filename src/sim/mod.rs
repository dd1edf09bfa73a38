//! The simulator: a scheduler of virtual workers in virtual time, driven by one thread from one seed.
//!
//! A [`World`] says what is stepped, what happens outside, and what must hold. The simulation draws, step by step, whose turn it is,
//! whether something happens outside, and whether time passes; so each seed is one interleaving, at the grain of turns, and the same seed is
//! the same one again. Interleavings within a turn are the business of loom and shuttle.
//!
//! 1. *Storm*: turns, acts of the outside and time, at random; workers get turns at different rates.
//!    In a world that knows how, the host dies now and then and another one comes up in its place.
//! 2. *Calm*: faults stop, and every worker is turned until nothing is left to do; time moves to when the first worker wakes. Then the
//!    world must be over: if it is not, somebody was forgotten.
//!
//! A worker that finds nothing to do goes to sleep, and gets no turn before somebody wakes it or its time has come. So it is a breach
//!
//! - that all workers sleep while a job is in a queue, or while a timer is set and none of them wakes for it;
//! - that one sleeps on while jobs lie about for others to take (`IDLE_MAX`);
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
pub use ledger::Heard;
pub use runs::Runs;
pub use scripted::{Actor, INJECTED, Script, Scripted};

use crate::base::{Clock, VirtualClock};
use crate::process::{Budget, Micros, Permit};
use crate::scheduler::{Commit, Config, Handle, Stats, TurnOutcome, VirtualScheduler};
use std::sync::Arc;
use watch::Watch;

/// How often time may pass in the calm, with no step, before the outside does what it owes.
const IDLE_WAKINGS_MAX: u32 = 500;

/// Random numbers of a seed (xorshift64 behind splitmix64). They must never change: a failing seed is to fail tomorrow.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)).max(1))
    }

    /// Another number, below 2^53.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The lowest bits of an xorshift are its weakest.
        self.0 >> 11
    }

    /// A number below `bound`; zero where that is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

/// What is simulated.
pub trait World {
    /// The commit point under test.
    type Commit: Commit;

    /// The commit point, and what there is of the pool.
    fn commit(&self) -> (Arc<Self::Commit>, Permit);

    /// What there is outside the pool.
    fn outside(&self) -> Option<Arc<Budget>> {
        None
    }

    /// The clock of the world, for those whose steps take time.
    fn keep_time(&mut self, time: &VirtualClock) {
        let _ = time;
    }

    /// Does what threads of the host's own have to do, in their place.
    fn aside(&mut self) {}

    /// Something happens outside: a start, an answer, a cancel.
    fn act(&mut self, handle: &mut Handle<Self::Commit>, dice: &mut Dice);

    /// Faults stop. From now on there are no more acts, and all that was started must come to its end.
    fn calm(&mut self, handle: &mut Handle<Self::Commit>, dice: &mut Dice);

    /// All workers have nothing to do and no timer is set: does what the outside still owes. False: it owes nothing.
    fn settle(&mut self, handle: &mut Handle<Self::Commit>) -> bool;

    /// The host dies, and with it all that it held in memory. False: this world knows no such fault.
    fn crash(&mut self, dice: &mut Dice) -> bool {
        let _ = dice;
        false
    }

    /// Another host has come up: its commit point is the one that [`Self::commit`] gives now.
    fn restart(&mut self, handle: &mut Handle<Self::Commit>) {
        let _ = handle;
    }

    /// What must hold once nothing is left to do.
    ///
    /// # Errors
    /// What does not.
    fn verify(&self, stats: &Stats) -> Result<(), String>;
}

/// How long and how wide a simulation is.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Everything is drawn from it.
    pub seed: u64,
    /// Virtual workers.
    pub workers: usize,
    /// Draws of the storm.
    pub draws: u64,
    /// Turns that the calm may take.
    pub turns_max: u64,
    /// The calm is a shutdown.
    pub shuts_down: bool,
    /// The host dies in so many of 1,000 draws of the storm.
    pub crashes: u64,
}

impl Simulation {
    /// A simulation of a size that follows from the seed.
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

    /// The same with a host that dies now and then.
    #[must_use]
    pub fn with_crashes(mut self) -> Self {
        self.crashes = 1 + self.seed % 12;
        self
    }

    /// Runs the world to its end.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn run<W: World>(&self, world: &mut W) -> Result<Stats, String> {
        let mut dice = Dice::new(self.seed ^ 0x5eed);
        let time = VirtualClock::default();
        world.keep_time(&time);
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
            Err(format!("nothing is left to do, but somebody was forgotten: {alive:?}"))
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
        // Some workers get many turns and some few, as on a machine that has other things to do.
        let rates: Vec<u64> = (0..self.workers).map(|_| 1 + dice.below(10)).collect();
        // Drawn apart, so that a seed without crashes is the same with and without this fault.
        let mut fate = Dice::new(self.seed ^ 0xdead);
        for _ in 0..self.draws {
            if self.crashes > 0 && fate.below(1_000) < self.crashes && world.crash(&mut fate) {
                *scheduler = self.host(world, watch.time());
                watch.begin_anew();
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
                world.aside();
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
            world.aside();
            rounds += 1;
            if rounds * self.workers as u64 > self.turns_max {
                return Err(format!("not over after {rounds} rounds of calm"));
            }
            if !is_quiet || (0..self.workers).any(|worker| !scheduler.is_asleep(worker)) {
                continue;
            }
            let steps = scheduler.stats().steps;
            idle = if steps == stepped { idle + 1 } else { 0 };
            stepped = steps;
            match watch.waking(scheduler)? {
                // Somebody may look again and again whether there is something to do: then the outside does what it owes.
                Some(time) if idle < IDLE_WAKINGS_MAX => watch.pass_to(time),
                _ if world.settle(&mut scheduler.handle()) => idle = 0,
                _ => return Ok(()),
            }
        }
    }
}
