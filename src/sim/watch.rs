//! Watches the workers of a simulation for those that sleep although there is work, and for late
//! timers.

use super::Dice;
use crate::base::{Monotonic, VirtualClock};
use crate::process::Micros;
use crate::scheduler::{Commit, TurnOutcome, VirtualScheduler};

/// Turns that one worker may have while a timer is due. It reads the clock every 64th turn at
/// least.
const LATE_MAX: u32 = 66;
/// How many of those may be long. After a long turn a worker reads the clock.
const LATE_LONG_MAX: u32 = 1;
/// The length from which a turn is long: far more than turns take between two readings of the
/// clock.
const LONG: Micros = Micros(1_000);
/// Turns of others that a worker may sleep through while there are jobs after each of them, beyond
/// one in each deque: a worker wakes no thief for the only job in its own deque. Arbitrary: each
/// turn that exposes a job to thieves wakes a worker, unless one is searching.
const IDLE_MAX: u32 = 200;
/// How much later than its timer a timekeeping worker may wake, in microseconds: see `timers.rs`.
const REST: u64 = 250;

/// The observed state of the workers.
pub(super) struct Watch {
    time: VirtualClock,
    /// Whether each worker's last turn found no work: it may go to sleep.
    idle: Vec<bool>,
    /// Turns of each worker since a timer was due, and how many of those were long.
    late: Vec<(u32, u32)>,
    /// Timers that had fired by the last check.
    fired: u64,
    /// Turns in a row after which a worker slept although there were jobs.
    slept: u32,
}

impl Watch {
    pub(super) fn new(workers: usize, time: &VirtualClock) -> Self {
        Self { time: time.clone(), idle: vec![false; workers], late: vec![(0, 0); workers], fired: 0, slept: 0 }
    }

    pub(super) fn time(&self) -> &VirtualClock {
        &self.time
    }

    /// Starts over, with the workers of another host.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.idle.len(), &self.time);
    }

    pub(super) fn pass(&self, time: Micros) {
        self.time.advance_to(self.time.now().saturating_add(time));
    }

    pub(super) fn pass_to(&self, time: Monotonic) {
        self.time.advance_to(time);
    }

    /// Lets a worker sleep on, go to sleep, or have a turn.
    pub(super) fn work<C: Commit>(
        &mut self,
        scheduler: &mut VirtualScheduler<C>,
        worker: usize,
        dice: &mut Dice,
    ) -> Result<TurnOutcome, String> {
        if scheduler.is_asleep(worker) {
            return Ok(TurnOutcome::Nothing);
        }
        // Not at once: others have turns between its last search and its sleep.
        if self.idle[worker] && dice.chance(60) {
            self.idle[worker] = false;
            let _ = scheduler.sleep(worker);
            return Ok(TurnOutcome::Nothing);
        }
        let begun = self.time.now();
        let was_due = scheduler.next_timer().is_some_and(|due| due <= begun);
        let turned = scheduler.turn(worker);
        self.idle[worker] = turned == TurnOutcome::Nothing;
        self.count_late(scheduler, worker, was_due, begun)?;
        self.count_sleep(scheduler)?;
        Ok(turned)
    }

    fn count_late<C: Commit>(
        &mut self,
        scheduler: &VirtualScheduler<C>,
        worker: usize,
        was_due: bool,
        begun: Monotonic,
    ) -> Result<(), String> {
        let fired = scheduler.stats().timers_fired;
        if !was_due || fired != self.fired {
            self.fired = fired;
            self.late.fill((0, 0));
            return Ok(());
        }
        let (turns, long) = &mut self.late[worker];
        *turns += 1;
        *long += u32::from(self.time.now().since(begun) >= LONG);
        if *turns > LATE_MAX || *long > LATE_LONG_MAX {
            let due = scheduler.next_timer();
            return Err(format!(
                "worker {worker} had {turns} turns, {long} of them long, while a timer was due: {due:?}"
            ));
        }
        Ok(())
    }

    fn count_sleep<C: Commit>(&mut self, scheduler: &mut VirtualScheduler<C>) -> Result<(), String> {
        let sleeps = (0..self.idle.len()).filter(|worker| scheduler.is_asleep(*worker)).count();
        let jobs = jobs(scheduler);
        self.slept = if sleeps > 0 && jobs > (self.idle.len() - sleeps) as u64 { self.slept + 1 } else { 0 };
        if self.slept > IDLE_MAX {
            return Err(format!("{sleeps} workers sleep on while {jobs} jobs are queued"));
        }
        Ok(())
    }

    /// Returns when the first worker wakes by itself, once all sleep; `None` if none does.
    pub(super) fn waking<C: Commit>(&self, scheduler: &VirtualScheduler<C>) -> Result<Option<Monotonic>, String> {
        let jobs = jobs(scheduler);
        if jobs > 0 {
            return Err(format!("all workers sleep while {jobs} jobs are queued"));
        }
        match (scheduler.next_timer(), scheduler.next_waking()) {
            (Some(due), Some(waking)) if waking.0 > due.max(self.time.now()).0 + REST => {
                Err(format!("a timer is due at {due:?}, and the first worker wakes at {waking:?}"))
            }
            (Some(due), None) => Err(format!("a timer is due at {due:?}, and no worker wakes for it")),
            (_, waking) => Ok(waking),
        }
    }
}

fn jobs<C: Commit>(scheduler: &VirtualScheduler<C>) -> u64 {
    let stats = scheduler.stats();
    stats.global_queue + stats.local_deques
}
