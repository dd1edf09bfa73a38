//! The parts of the models: the shipped workers and handles, with a commit point that steps
//! closures.

use super::super::shared::Shared;
use super::super::start::build;
use super::super::worker::Worker;
use super::super::{Commit, Config, Handle, Next, Pause, Port, Scheduler, Slot, Turn, TurnOutcome, Wake};
use crate::base::{Clock, Monotonic, VirtualClock};
use crate::process::{Allocation, Budget, Permit};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// One of everything.
pub(super) const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 1 };

/// The time at which a model begins: long after the last timers, so that keepers do not rest.
const START: Monotonic = Monotonic(1_000);

/// A step: what it is told, and how the process goes on.
type Step = Box<dyn FnMut(&mut dyn Port<World>, Turn, &[u32]) -> Next + Send>;

/// A process.
pub(super) struct Process {
    step: Step,
    /// How many evictions it refuses.
    refuses: u32,
    /// Evictions, admissions and drops of it take long.
    is_slow: bool,
}

impl Process {
    pub(super) fn new(step: impl FnMut(&mut dyn Port<World>, Turn, &[u32]) -> Next + Send + 'static) -> Self {
        Self { step: Box::new(step), refuses: 0, is_slow: false }
    }

    /// Waits in its step until `bell` was rung so often, then rings itself and ends.
    pub(super) fn waits_for(count: usize, bell: &Bell) -> Self {
        let bell = bell.clone();
        Self::new(move |_, _, _| {
            bell.wait_for(count);
            bell.ring();
            Next::Complete
        })
    }

    /// Rings at its first step and is ready, then rings once more and waits.
    pub(super) fn rings_twice(bell: &Bell) -> Self {
        let (bell, mut next) = (bell.clone(), Next::Ready);
        Self::new(move |_, _, _| {
            bell.ring();
            std::mem::replace(&mut next, Next::Blocked)
        })
    }

    /// Rings, and does not go on before `bell` was rung so often.
    pub(super) fn meets(count: usize, bell: &Bell) -> Self {
        let bell = bell.clone();
        Self::new(move |_, turn, events| {
            if events.is_empty() && turn.interrupted.is_none() {
                return Next::Blocked;
            }
            bell.ring();
            bell.wait_for(count);
            Next::Complete
        })
    }

    /// Rings at each step and then waits for anything, or ends where it is interrupted.
    pub(super) fn rings(bell: &Bell) -> Self {
        let bell = bell.clone();
        Self::new(move |_, turn, _| {
            bell.ring();
            if turn.interrupted.is_some() { Next::Complete } else { Next::Idle }
        })
    }

    pub(super) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    pub(super) fn refuses(self, refuses: u32) -> Self {
        Self { refuses, ..self }
    }
}

/// The commit point. A timer wakes the process that it names.
pub(super) struct World;

impl Commit for World {
    type Event = u32;
    type Process = Process;
    type Timer = Slot;
    const TIMED: bool = false;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, process: &mut Process, events: &mut Vec<u32>) -> Next {
        (process.step)(port, turn, events)
    }

    /// A panic of loom itself within a step arrives here: it must not count as the end of a
    /// process.
    fn panicked<P: Port<Self>>(&self, _: &mut P, slot: Slot, _: &mut Process, message: &str) {
        eprintln!("{slot:?}: {message}");
        std::process::abort();
    }

    fn evict(&self, process: &mut Process) -> bool {
        let gives_way = process.refuses == 0;
        process.refuses = process.refuses.saturating_sub(1);
        gives_way
    }

    fn evicts_slowly(&self, process: &Process) -> bool {
        process.is_slow
    }

    fn admits_slowly(&self, process: &Process, _: Allocation) -> bool {
        process.is_slow
    }

    fn drops_slowly(&self, process: &Process) -> bool {
        process.is_slow
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

/// Counts what has happened; a thread may wait for it.
#[derive(Clone)]
pub(super) struct Bell(Arc<(Mutex<usize>, Condvar)>);

impl Bell {
    pub(super) fn new() -> Self {
        Self(Arc::new((Mutex::new(0), Condvar::new())))
    }

    pub(super) fn ring(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    pub(super) fn wait_for(&self, count: usize) {
        let mut rung = self.0.0.lock().unwrap();
        while *rung < count {
            rung = self.0.1.wait(rung).unwrap();
        }
    }
}

/// How a model ends.
#[derive(Clone, Copy)]
enum End {
    /// The workers are stopped, in one way: another model explores that.
    Stopped,
    /// The workers are stopped.
    Stops,
    /// The scheduler is shut down, and all must have ended.
    ShutsDown,
}

/// What a model is made of.
#[derive(Clone, Copy)]
pub(super) struct Model {
    workers: usize,
    permits: u32,
    outside: Option<u64>,
    preemptions_max: Option<usize>,
    end: End,
}

impl Model {
    /// With so many workers. Explores the schedules in which a thread that could go on is
    /// interrupted no more than three times, or once where there are more workers than one. With
    /// two of them, twice is a hundred times as many schedules.
    pub(super) fn of(workers: usize) -> Self {
        let preemptions_max = Some(if workers == 1 { 3 } else { 1 });
        Self { workers, permits: 0, outside: None, preemptions_max, end: End::Stopped }
    }

    /// Explores every schedule.
    pub(super) fn unbounded(self) -> Self {
        Self { preemptions_max: None, ..self }
    }

    /// Explores the schedules with so many interruptions.
    pub(super) fn preemptions(self, max: usize) -> Self {
        Self { preemptions_max: Some(max), ..self }
    }

    pub(super) fn permits(self, permits: u32) -> Self {
        Self { permits, ..self }
    }

    /// With room for so many bytes outside the pool.
    pub(super) fn outside(self, room: u64) -> Self {
        Self { outside: Some(room), ..self }
    }

    pub(super) fn and_stops(self) -> Self {
        Self { end: End::Stops, ..self }
    }

    pub(super) fn and_shuts_down(self) -> Self {
        Self { end: End::ShutsDown, ..self }
    }

    /// Explores `test`: it prepares a bench that no worker runs on yet, and gives back what is to
    /// happen while all workers run.
    pub(super) fn check<F: FnOnce(&Bench) + 'static>(self, test: impl Fn(&mut Bench) -> F + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.preemptions_max;
        // Some of a model's threads wait by looking again and again: longer than any schedule
        // without that.
        builder.max_branches = 10_000;
        builder.check(move || {
            let mut bench = Bench::new(self);
            let explored = test(&mut bench);
            let scheduler = bench.start();
            explored(&bench);
            match self.end {
                End::Stopped => {
                    loom::stop_exploring();
                    drop(scheduler);
                }
                End::Stops => drop(scheduler),
                End::ShutsDown => assert_eq!(scheduler.shutdown(Duration::MAX).alive, []),
            }
        });
    }
}

/// A scheduler whose workers do not run yet.
pub(super) struct Bench {
    pub(super) shared: Arc<Shared<World>>,
    pub(super) handle: Handle<World>,
    pub(super) workers: Vec<Worker<World>>,
    clock: VirtualClock,
}

impl Bench {
    fn new(model: Model) -> Self {
        let clock = VirtualClock::default();
        clock.advance_to(START);
        let permits = model.permits;
        let config = Config {
            workers: model.workers,
            capacity: Permit {
                instances: permits,
                core_instances: permits,
                memories: permits,
                tables: permits,
                bytes: 0,
            },
            outside: model.outside.map(|room| Arc::new(Budget::new(room))),
            seed: 1,
            clock: Clock::Virtual(clock.clone()),
            processes_max: 8,
            ..Config::default()
        };
        let (shared, workers) = build(Arc::new(World), &config);
        let handle = Handle(Arc::clone(&shared));
        Self { shared, handle, workers, clock }
    }

    pub(super) fn spawn(&self, process: Process, permit: Permit) -> Slot {
        self.handle.clone().spawn(process, permit).ok().expect("open")
    }

    pub(super) fn post(&self, slot: Slot, event: u32) {
        assert!(self.handle.clone().post(slot, event, Wake::Event), "it lives");
    }

    pub(super) fn pause(&self, slot: Slot, pause: Pause) {
        self.handle.clone().pause(slot, pause);
    }

    pub(super) fn timer(&self, due: u64, slot: Slot) {
        self.handle.clone().timer(Monotonic(START.0 + due), slot);
    }

    /// Steps whatever is ready, in the model's first thread, until nothing is.
    pub(super) fn settle(&mut self) {
        while self.workers[0].turn() != TurnOutcome::Nothing {}
    }

    /// Lets the time come.
    pub(super) fn advance_to(&self, time: u64) {
        self.clock.advance_to(Monotonic(START.0 + time));
        self.shared.sleep.clock_was_moved();
    }

    /// So many turns of each worker that find nothing, after which it takes turns for short.
    pub(super) fn hurry(&mut self) {
        for worker in &mut self.workers {
            for _ in 0..16 {
                assert_eq!(worker.turn(), TurnOutcome::Nothing);
            }
        }
    }

    fn start(&mut self) -> Scheduler<World> {
        let threads = self.workers.drain(..).map(|worker| thread::spawn(move || worker.run())).collect();
        Scheduler { shared: Arc::clone(&self.shared), threads }
    }
}
