//! Many runs on one scheduler.

use super::aside::Aside;
use super::clock::Clock;
use super::core::Run;
use super::handle::RunHandle;
use super::keeper::{Keeper, SnapshotCounts, SnapshotPolicy, When};
use super::parking::ParkingPolicy;
use super::rebuild::Rebuild;
use super::record::{News, Record};
use super::stall::Stall;
use super::state::Moment;
use super::task::{Scratch, Task};
use super::waking::{AllParts, Known};
use crate::process::{
    Death, Ending, Event, Home, Level, LogLine, Micros, Pid, Problem, ProblemClass, Progress, problem::kind,
};
use crate::scheduler::{Commit, Handle, Next, Port, Slot, Turn};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// How often a step is tried again after a fault of the host.
const RETRIES_MAX: u8 = 3;
/// A run with more records is not read again for one process. Arbitrary: about a second.
const RETRY_RECORDS_MAX: usize = 1_000_000;

/// The commit point of all runs of a host: what its scheduler steps processes with.
#[derive(Clone)]
pub struct Kernel(Arc<Shared>);

pub(super) struct Shared {
    clock: Clock,
    ports: RwLock<Option<Arc<dyn Ports>>>,
    /// The scheduler shuts down.
    closing: AtomicBool,
    /// No further call leaves the host.
    held: AtomicBool,
    keeper: Keeper,
    stall: Stall,
    /// Why no run of this host will be durable any more.
    abandoned: Mutex<Option<Problem>>,
    pub(super) parking: Mutex<ParkingPolicy>,
    /// Takes up runs whose timers are due.
    pub(super) waking: Aside,
    /// What parked runs have in common.
    pub(super) parts: Mutex<AllParts>,
    /// Unfinished runs by their ids.
    pub(super) runs: Mutex<BTreeMap<Arc<str>, Known>>,
    /// How many of those are in memory. Only a bound: it guards no other data.
    pub(super) resident: AtomicUsize,
    /// Those that can be parked, with their numbers, the one that was looked at last at the end. Some are not in memory any more.
    pub(super) residents: Mutex<VecDeque<(Arc<str>, u64)>>,
    /// Numbers that were given to runs.
    serial: AtomicU64,
}

/// A kernel that may be gone.
pub(super) struct WeakKernel(Weak<Shared>);

impl WeakKernel {
    pub(super) fn upgrade(&self) -> Option<Kernel> {
        self.0.upgrade().map(Kernel)
    }
}

/// The scheduler, for whoever is not on one of its workers.
pub trait Ports: Send + Sync {
    /// Calls `act` once with a port, unless the scheduler is gone.
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>));
}

impl Ports for Handle<Kernel> {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut self.clone());
    }
}

/// A timer of a run, which is named: it may have been parked meanwhile, or taken up again.
pub enum Timer {
    /// It has timers of its own behind it, one of which may be due.
    Due(Arc<str>),
    /// It is looked at whether it can be parked, if it has that number.
    Look(Arc<str>, u64),
}

impl Kernel {
    /// A commit point without runs. [`Self::attach`] it to its scheduler before the first run is started.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared {
            clock,
            ports: RwLock::new(None),
            closing: AtomicBool::new(false),
            held: AtomicBool::new(false),
            keeper: Keeper::new(),
            stall: Stall::default(),
            abandoned: Mutex::default(),
            parking: Mutex::default(),
            waking: Aside::new("waking"),
            parts: Mutex::default(),
            runs: Mutex::default(),
            resident: AtomicUsize::new(0),
            residents: Mutex::default(),
            serial: AtomicU64::new(0),
        }))
    }

    /// Says where its scheduler is.
    pub fn attach(&self, ports: impl Ports + 'static) {
        *self.0.ports.write() = Some(Arc::new(ports));
    }

    /// Lets go of its scheduler, which holds it too. Late answers are dropped from now on.
    pub fn detach(&self) {
        *self.0.ports.write() = None;
    }

    /// The unfinished runs in memory, in the order of their ids; [`Self::parked`] has the others.
    #[must_use]
    pub fn runs(&self) -> Vec<RunHandle> {
        self.0.runs.lock().values().filter_map(Known::here).map(RunHandle::new).collect()
    }

    /// An unfinished run. One that is parked stays so until something is done with it.
    #[must_use]
    pub fn run(&self, id: &str) -> Option<RunHandle> {
        loop {
            let mut runs = self.0.runs.lock();
            let (id, known) = (runs.get_key_value(id).map(|(id, _)| Arc::clone(id))?, runs.get_mut(id)?);
            if let Some(place) = known.place(&id, self) {
                return Some(RunHandle(place));
            }
            match known {
                Known::Here(_) | Known::Ending(_) => return known.here().map(RunHandle::new),
                Known::Waking(done) => {
                    let done = Arc::clone(done);
                    drop(runs);
                    let _ = done.wait(None);
                }
                Known::Parked(_) => unreachable!("invariant: it has a place"),
            }
        }
    }

    /// A run that is in memory.
    pub(super) fn here(&self, id: &str) -> Option<Arc<Run>> {
        self.0.runs.lock().get(id).and_then(Known::here)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(super) fn downgrade(&self) -> WeakKernel {
        WeakKernel(Arc::downgrade(&self.0))
    }

    pub(super) fn next_serial(&self) -> u64 {
        self.0.serial.fetch_add(1, Relaxed)
    }

    /// Whether no further process may be made: the scheduler ends, or the host stops.
    pub(super) fn is_closing(&self) -> bool {
        self.0.closing.load(Relaxed) || self.is_held()
    }

    /// The log says that a run's records up to this number, counted from 1, are durable.
    pub fn durable(&self, id: &str, record: u64) {
        if let Some(run) = self.here(id) {
            self.with_port(|port| run.durable(port, record));
        }
    }

    /// Nothing that the unfinished runs write will be durable any more: nothing leaves the host for them from now on, and whoever waits for
    /// their outcome hears this problem. What they are on disk stays as it is.
    ///
    /// Runs that begin after it are told the same.
    pub fn abandon(&self, problem: &Problem) {
        // Before the list is read: whoever enters a run into it looks here afterwards.
        *self.0.abandoned.lock() = Some(problem.clone());
        let here: Vec<Arc<Run>> = self.0.runs.lock().values().filter_map(Known::here).collect();
        for run in here {
            run.abandon(problem);
        }
        self.abandon_parked(problem);
    }

    /// As [`Self::abandon`], for the runs that are parked: their logs let go of them.
    pub fn abandon_parked(&self, problem: &Problem) {
        let parked: Vec<_> = self.0.runs.lock().extract_if(.., |_, known| matches!(known, Known::Parked(_))).collect();
        for (_, known) in parked {
            known.abandon(problem);
        }
    }

    /// Lets no further call leave: they leave when their runs are taken up again.
    pub fn hold(&self) {
        self.0.held.store(true, Relaxed);
    }

    /// Says when snapshots of durable runs are taken.
    pub fn snapshot_when(&self, policy: SnapshotPolicy) {
        self.0.keeper.set(policy);
    }

    /// What became of the snapshots of durable runs.
    #[must_use]
    pub fn snapshot_counts(&self) -> SnapshotCounts {
        self.0.keeper.counts()
    }

    /// Waits on this thread until the snapshots that were taken are written.
    pub fn flush_snapshots(&self) {
        self.0.keeper.flush();
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }

    /// Lets no step begin, or lets them begin again: while the disk is full. Steps in their middle go on to their end.
    pub fn stall(&self, stalled: bool) {
        self.0.stall.set(stalled);
    }

    /// Lets steps begin from now on, whatever is said of stalling: whoever ends the scheduler waits for its workers.
    pub fn never_stall(&self) {
        self.0.stall.end();
    }

    pub(super) fn is_held(&self) -> bool {
        self.0.held.load(Relaxed)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Takes a run into the list; it may be the one that is being taken up. False: there is one of its id.
    pub(super) fn remember(&self, run: &Arc<Run>, is_woken: bool) -> bool {
        let mut runs = self.0.runs.lock();
        let free = match runs.get(&run.fixed.id) {
            None => true,
            Some(Known::Here(known)) => known.strong_count() == 0,
            Some(Known::Waking(_)) => is_woken,
            Some(Known::Parked(_) | Known::Ending(_)) => false,
        };
        if free {
            let before = runs.insert(Arc::clone(&run.fixed.id), Known::Here(Arc::downgrade(run)));
            self.0.resident.fetch_add(usize::from(!matches!(before, Some(Known::Here(_)))), Relaxed);
        }
        free
    }

    /// A run was entered into the list, and its lock is free: if the others were abandoned before, it is too.
    pub(super) fn entered(&self, run: &Run) {
        let abandoned = self.0.abandoned.lock().clone();
        if let Some(problem) = abandoned {
            run.abandon(&problem);
        }
    }

    /// A run is over, and its outcome waits for a disk.
    pub(super) fn keep_ending(&self, run: &Arc<Run>) {
        if let Some(known @ Known::Here(_)) = self.0.runs.lock().get_mut(&run.fixed.id) {
            *known = Known::Ending(Arc::clone(run));
        }
    }

    pub(super) fn forget(&self, id: &str) {
        let known = self.0.runs.lock().remove(id);
        if let Some(Known::Here(_) | Known::Ending(_)) = known {
            self.0.resident.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn with_port(&self, mut act: impl FnMut(&mut dyn Port<Self>)) {
        let ports = self.0.ports.read().clone();
        if let Some(ports) = ports {
            ports.with(&mut |port| act(port));
        }
    }
}

impl Commit for Kernel {
    type Event = Event;
    type Process = Task;
    type Timer = Timer;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, task: &mut Task, events: &mut Vec<Event>) -> Next {
        if turn.refused {
            task.step.mono = turn.now;
            return task.died(port, no_instance());
        }
        if turn.interrupted {
            if !task.lives() {
                return Next::Complete;
            }
            if self.0.closing.load(Relaxed) && !task.warned(port) {
                return Next::Complete;
            }
            if !turn.resumed {
                task.visit();
            }
        }
        if !turn.resumed {
            self.0.stall.wait();
        }
        if !turn.resumed && !task.begin(turn.now, events) {
            return task.step.next();
        }
        let Task { run, step } = task;
        let scratch = step.scratch.get_or_insert_with(Scratch::get);
        let progress = step.body.poll(&mut scratch.output);
        if let Some(tail) = &mut step.tail {
            tail.took += port.monotonic().0.saturating_sub(turn.now.0);
        }
        match progress {
            Progress::Preempted => Next::Preempted,
            Progress::Stepped(status) => {
                let next = run.commit(port, step, status);
                if next == Next::Complete {
                    step.body.close();
                } else if step.tail.is_some() {
                    run.stepped(step);
                }
                next
            }
            Progress::Died(Death::Guest(problem)) => task.died(port, problem),
            Progress::Died(Death::Host(problem)) => task.faulted(port, problem),
        }
    }

    fn panicked<P: Port<Self>>(&self, port: &mut P, _: Slot, task: &mut Task, message: &str) {
        let problem = Problem::new(kind::HOST_FAULT, "A native process panicked").with_detail(message);
        task.died(port, problem);
    }

    fn slow(&self, _: Slot, task: &Task, took: Micros) {
        if let Some(sink) = &task.run.fixed.sink {
            let text = format!("a slice of {} took {} ms", task.step.program.digest(), took.0 / 1_000);
            let origin = super::log::LogOrigin {
                run: Arc::clone(&task.run.fixed.id),
                pid: task.step.pid,
                scope: None,
                component: None,
                step: 0,
                at: task.step.at,
            };
            sink.lines(&origin, &[LogLine { level: Level::Warn, text, fields: None }], 0);
        }
    }

    /// Each run is cancelled as if somebody had asked for it: the root hears it first, and its end reaches the others.
    fn cancel<P: Port<Self>>(&self, port: &mut P, slot: Slot) {
        self.0.closing.store(true, Relaxed);
        port.interrupt(slot);
    }

    fn evict(&self, task: &mut Task) -> bool {
        let evicted = task.step.body.evict();
        if evicted && task.step.tail.is_some() {
            task.run.save(&mut task.step, When::Leaving);
        }
        evicted
    }

    fn evicts_slowly(&self, task: &Task) -> bool {
        task.step.body.evicts_slowly()
    }

    fn admitted(&self, task: &mut Task, home: Home) {
        task.step.home = home;
        // What only ends makes no instance.
        if !task.run.left.load(Relaxed) {
            task.step.body.house(home);
        }
    }

    fn admits_slowly(&self, task: &Task, home: Home) -> bool {
        !task.run.left.load(Relaxed) && task.step.body.houses_slowly(home)
    }

    fn drops_slowly(&self, task: &Task) -> bool {
        task.step.body.drops_slowly()
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Timer>) {
        for timer in timers.drain(..) {
            match timer {
                Timer::Due(id) => match self.here(&id) {
                    Some(run) => run.fired(port),
                    None => self.fired_parked(port, &id),
                },
                Timer::Look(id, serial) => {
                    if let Some(run) = self.here(&id).filter(|run| run.serial == serial) {
                        run.look(port);
                    }
                }
            }
        }
    }
}

impl Task {
    /// Begins a step with a batch. False: nothing has come that it is stepped for.
    fn begin(&mut self, mono: Micros, events: &mut Vec<Event>) -> bool {
        let Self { run, step } = self;
        if !step.hears(events) {
            return false;
        }
        if !step.begun {
            step.begun = true;
            if !step.native
                && let Some(entry) = run.inner.lock().state.living_mut(step.pid)
            {
                entry.begun = true;
            }
        }
        let moment = run.moment(mono);
        (step.at, step.mono) = (moment.at, moment.mono);
        step.took = super::state::Took::of(events);
        step.retries = 0;
        step.body.begin(step.at, events);
        true
    }

    /// Whether the run still knows it: what was killed ends when its worker next has it in hand.
    fn lives(&self) -> bool {
        self.run.inner.lock().state.living(self.step.pid).is_some()
    }

    /// Ends a process that died in its step.
    fn died<P: Port<Kernel>>(&mut self, port: &mut P, problem: Problem) -> Next {
        let Self { run, step } = self;
        let moment = Moment { at: step.at.max(run.moment(port.monotonic()).at), mono: step.mono };
        run.die(port, step, moment, Ending::Failed(Box::new(problem)));
        Next::Complete
    }

    /// Tells a run's root that the host is shutting down. False: it has ended, since it never began and has no permit to begin.
    fn warned<P: Port<Kernel>>(&mut self, port: &mut P) -> bool {
        let Self { run, step } = self;
        let reason: Arc<str> = "the host is shutting down".into();
        if !step.begun && !step.native {
            let moment = run.moment(port.monotonic());
            run.die(port, step, moment, Ending::Cancelled(reason));
            return false;
        }
        if step.pid == Pid::ROOT && !std::mem::replace(&mut step.warned, true) {
            let _ = run.arrive(port, News::Cancel { pid: step.pid, reason, grace: None });
        }
        true
    }

    /// A step that failed by the host's fault is taken again from the last committed state, where all records are at hand.
    fn faulted<P: Port<Kernel>>(&mut self, port: &mut P, problem: Problem) -> Next {
        if self.step.retries < RETRIES_MAX && self.retry().is_some() {
            self.step.retries += 1;
            return Next::Preempted;
        }
        self.died(port, problem)
    }

    /// Makes a new body from the records, and begins the step with its batch again.
    fn retry(&mut self) -> Option<()> {
        let records = self.run.inner.lock().log.records()?;
        if records.len() > RETRY_RECORDS_MAX {
            return None;
        }
        let fixed = &self.run.fixed;
        let mut rebuild = Rebuild::new(Arc::clone(&fixed.root), fixed.programs.clone());
        // Its instance is gone, and its permit is not: the new one has the place of the old.
        rebuild = rebuild.only(self.step.pid, self.step.home);
        for record in records {
            rebuild.apply(&Record::decode(record).ok()?).ok()?;
        }
        let (body, mut events) = rebuild.into_body(self.step.pid)?;
        events.truncate(self.step.took.events as usize);
        self.step.body = body;
        self.step.scratch.get_or_insert_default().output.clear();
        self.step.body.begin(self.step.at, &mut events);
        self.run.inner.lock().state.counts.retried += 1;
        Some(())
    }
}

fn no_instance() -> Problem {
    Problem::new(kind::NO_CAPACITY, "No instance can be had for the guest").with_class(ProblemClass::Retryable).with_detail(
        "Every slot of the pool is held by a guest that waits and cannot be evicted, and the memory for guests outside the pool is used \
         up. Give the host more slots (`--slots`, `EngineOptions::slots`) or more memory outside the pool \
         (`EngineOptions::on_demand_bytes`).",
    )
}
