//! Starting a scheduler: with threads, or as workers whose turns the caller drives.

use super::handle::Handle;
use super::local::Local;
use super::shared::{Job, Phase, Shared};
use super::worker::{Bed, TurnOutcome, Worker};
use super::{Commit, Stats, WorkerRecording};
use crate::base::sync::thread;
use crate::base::{Clock, Monotonic};
use crate::process::{Budget, Permit};
use std::sync::{Arc, Weak};

/// The configuration of a scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads, at least one.
    pub workers: usize,
    /// The capacity of the pool.
    pub capacity: Permit,
    /// The budget outside the pool, for when no holder in it gives way. If `None`, all wait.
    pub outside: Option<Arc<Budget>>,
    /// Seeds the choice of the victim at which a thief begins.
    pub seed: u64,
    /// Fuel of a slice: a worker whose turns have used this much since it last looked at the global
    /// queue looks there first.
    pub slice_fuel: u64,
    /// The clock of the timers.
    pub clock: Clock,
    /// How many processes may live at once.
    pub processes_max: u32,
    /// Whether turns do the slow parts of admission and eviction themselves, and no other thread
    /// does: for simulations that must be the same each time.
    pub chores_in_turns: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: crate::base::processors(),
            capacity: Permit::NONE,
            outside: None,
            seed: 0,
            slice_fuel: u64::MAX,
            clock: Clock::machine(),
            // Arbitrary: 16 million places are some gigabytes.
            processes_max: 1 << 24,
            chores_in_turns: false,
        }
    }
}

pub(crate) fn build<C: Commit>(commit: Arc<C>, config: &Config) -> (Arc<Shared<C>>, Vec<Worker<C>>) {
    let workers = config.workers.max(1);
    let locals: Vec<Local<Job<C::Event>>> = (0..workers).map(|_| Local::new(workers)).collect();
    let thieves = locals.iter().map(Local::thief).collect();
    let shared = Arc::new_cyclic(|me| Shared::new(commit, config, thieves, Weak::clone(me)));
    let workers = locals.into_iter().enumerate();
    let workers = workers.map(|(index, local)| Worker::new(Arc::clone(&shared), index, local, config)).collect();
    (shared, workers)
}

/// A scheduler with a thread for each worker. Dropped, it stops its workers where they are;
/// [`Scheduler::shutdown`] is the clean way.
pub struct Scheduler<C: Commit> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) threads: Vec<thread::JoinHandle<()>>,
}

impl<C: Commit> Scheduler<C> {
    /// Starts the workers.
    ///
    /// # Errors
    /// The error of the machine if it gives no thread.
    pub fn start(commit: Arc<C>, config: &Config) -> std::io::Result<Self> {
        let (shared, workers) = build(commit, config);
        let mut scheduler = Self { shared, threads: Vec::with_capacity(workers.len()) };
        for (index, worker) in workers.into_iter().enumerate() {
            let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || worker.run())?;
            scheduler.threads.push(thread);
        }
        Ok(scheduler)
    }

    /// A port for any thread.
    #[must_use]
    pub fn handle(&self) -> Handle<C> {
        Handle(Arc::clone(&self.shared))
    }

    /// Its counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The counters of each worker so far: those that a worker has of its own; the others are 0.
    #[must_use]
    pub fn worker_stats(&self) -> Vec<Stats> {
        self.shared.worker_stats()
    }

    /// Records what each worker does from now on. `None` if somebody records already.
    #[must_use]
    pub fn record(&self) -> Option<WorkerRecording> {
        WorkerRecording::begin(&self.shared.timeline)
    }

    /// Reports that the model's clock was moved: workers that sleep until a time read it.
    #[cfg(shuttle)]
    pub fn clock_was_moved(&self) {
        self.shared.sleep.clock_was_moved();
    }

    /// Stops the workers after their slice, and joins them.
    pub(crate) fn stop(&mut self) {
        self.shared.advance(Phase::Stopped);
        self.shared.sleep.wake_all();
        let own = thread::current().id();
        for thread in self.threads.drain(..) {
            // A step that drops its own scheduler cannot wait for itself.
            if thread.thread().id() != own {
                // A worker catches the panics of steps; if it panicked all the same, that was
                // reported.
                let _ = thread.join();
            }
        }
        self.shared.aside.stop();
    }
}

impl<C: Commit> Drop for Scheduler<C> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<C: Commit> std::fmt::Debug for Scheduler<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("workers", &self.threads.len()).finish_non_exhaustive()
    }
}

/// A scheduler without threads: its caller chooses which worker has its turn. For simulation.
pub struct VirtualScheduler<C: Commit> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(super) workers: Vec<(Worker<C>, Option<Bed>)>,
}

impl<C: Commit> VirtualScheduler<C> {
    /// A scheduler of [`Config::workers`] virtual workers.
    #[must_use]
    pub fn new(commit: Arc<C>, config: &Config) -> Self {
        let (shared, workers) = build(commit, config);
        Self { shared, workers: workers.into_iter().map(|worker| (worker, None)).collect() }
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Gives a worker one turn. One that sleeps wakes for it.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn turn(&mut self, worker: usize) -> TurnOutcome {
        let (worker, bed) = &mut self.workers[worker];
        if let Some(bed) = bed.take() {
            worker.rise(&bed);
        }
        let turned = worker.turn();
        debug_assert!(
            self.shared.admission.needs_attention() || !self.shared.admission.foresees(&self.shared.table),
            "something can be done for one that waits for a permit, and nobody is told to look"
        );
        turned
    }

    /// Puts a worker to sleep whose turn found nothing, as its thread would. Returns `false` if it
    /// is needed.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn sleep(&mut self, worker: usize) -> bool {
        let (worker, bed) = &mut self.workers[worker];
        if bed.is_none() {
            *bed = worker.lie_down();
        }
        bed.is_some()
    }

    /// Whether a worker sleeps. It no longer does once it was woken or its deadline has passed.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn is_asleep(&mut self, worker: usize) -> bool {
        let (worker, bed) = &mut self.workers[worker];
        if let Some(lies) = bed.take_if(|bed| worker.wakes(bed)) {
            worker.rise(&lies);
        }
        bed.is_some()
    }

    /// When the first of the sleeping workers wakes by itself. `None` if none does.
    #[must_use]
    pub fn next_waking(&self) -> Option<Monotonic> {
        self.workers.iter().filter_map(|(_, bed)| bed.as_ref()?.deadline).min()
    }

    /// When the first timer is due.
    #[must_use]
    pub fn next_timer(&self) -> Option<Monotonic> {
        self.shared.timers.next()
    }

    /// A port for requests from outside.
    #[must_use]
    pub fn handle(&self) -> Handle<C> {
        Handle(Arc::clone(&self.shared))
    }

    /// Its counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<C: Commit> Drop for VirtualScheduler<C> {
    fn drop(&mut self) {
        self.shared.aside.stop();
    }
}

impl<C: Commit> std::fmt::Debug for VirtualScheduler<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualScheduler").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}
