//! A worker: one turn at a time, and what it does between turns.
//!
//! [`Worker::turn`] finds a process and runs one slice of it. It never waits, so one thread can
//! drive many workers in any order, as the simulator does. Only [`Worker::run`] waits.
//!
//! **The LIFO slot.** While all workers are busy and turns are shorter than about a microsecond,
//! the process that was woken or spawned last does not go through the deque: the worker keeps it in
//! its *LIFO slot* and runs it in its next turn. The order is that of the deque, since a second
//! process pushes the first one to the bottom. With the slot a hop of a ping-pong takes 32 ns of
//! one worker's time, and 47 ns without it. A process in the slot is out of a thief's reach until
//! the slice that woke it ends; so once any worker is idle or turns are longer, the slot is not
//! used and each process goes to the deque at once. The same holds for the processes that said
//! `ready`: at most 16 are put into the global queue together. Before each slice, which may be the
//! first long one, a worker publishes the jobs that it holds back and sends the wakes that it owes.
//!
//! *Rejected*: putting every woken process into the global queue, as some schedulers do. CPU time
//! of the whole bench, own deque against global queue: ping-pong of two 71 against 147 ms (one
//! worker), 98 against 150 (two); 1,000 pairs 92 against 158; ring 51 against 75; fib(25) 37
//! against 79.

mod context;
mod find;
mod slice;

use super::buffers::Buffers;
use super::fairness::Fairness;
use super::local::Local;
use super::pace::Pace;
use super::shared::{Job, Phase, Shared};
use super::sleep::Awake;
use super::slots::FreeSlots;
use super::stats::Counters;
use super::victim::Random;
use super::{Commit, Config, Deed, Slot};
use crate::base::Monotonic;
use crate::base::foreign;
use crate::base::sync::{Ordering, spin_loop, thread};
use std::sync::Arc;

/// Processes that said `ready` and enter the global queue as one batch. As many as are taken out of
/// it at once.
const YIELDED_MAX: usize = 16;
/// Rounds of looking for work before a worker yields its core, and before it parks. Arbitrary. (A
/// model explores what happens when workers park, and pays for each round.)
const SPIN_ROUNDS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 4 };
const YIELD_ROUNDS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };
/// Rounds for which a thief does not steal the only job of a deque: its worker will mostly take it
/// next and has the data in its cache. Some microseconds. Measured by the workloads `count` and
/// `pingpong` with two workers.
pub(super) const PATIENT_ROUNDS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 12 };

/// The outcome of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum TurnOutcome {
    /// The worker ran a slice of this process.
    Stepped(Slot),
    /// No process was ready, but the worker served timers or the admission queue.
    Served,
    /// There was nothing to do.
    Nothing,
}

/// A worker.
pub(crate) struct Worker<C: Commit> {
    shared: Arc<Shared<C>>,
    core: Core<C>,
}

/// The state that belongs to the worker alone.
pub(crate) struct Core<C: Commit> {
    index: usize,
    local: Local<Job<C::Event>>,
    lifo_slot: Option<Job<C::Event>>,
    /// Processes that said `ready`, on their way to the global queue.
    yielded: Vec<Slot>,
    /// Whether a job was put where others may take it, with no fenced wake sent yet.
    wake_owed: bool,
    /// The same for a job that this worker was to take next.
    reserved: bool,
    fairness: Fairness,
    pace: Pace,
    random: Random,
    free: FreeSlots,
    buffers: Buffers<C::Event>,
    /// The events of the process that is found or stepped.
    batch: Vec<C::Event>,
    due: Vec<C::Timer>,
    searching: bool,
    /// Whether it has not searched for long yet: it does not steal the job that its worker will
    /// take next.
    patient: bool,
    closing: bool,
    /// The end of the last slice, which is the start of the next one; nothing after a rest.
    now: Option<Monotonic>,
}

/// A worker as a step sees it.
pub(crate) struct Context<'a, C: Commit> {
    shared: &'a Shared<C>,
    core: &'a mut Core<C>,
}

impl<C: Commit> Worker<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>, index: usize, local: Local<Job<C::Event>>, config: &Config) -> Self {
        let Config { seed, slice_fuel, .. } = *config;
        let core = Core {
            index,
            local,
            lifo_slot: None,
            yielded: Vec::with_capacity(YIELDED_MAX),
            wake_owed: false,
            reserved: false,
            fairness: Fairness::new(slice_fuel),
            pace: Pace::new(),
            random: Random::new(seed.wrapping_add(index as u64)),
            free: FreeSlots::default(),
            buffers: Buffers::new(),
            batch: Vec::new(),
            due: Vec::new(),
            searching: false,
            patient: false,
            closing: false,
            now: None,
        };
        Self { shared, core }
    }

    /// Works until the scheduler stops.
    pub(crate) fn run(mut self) {
        let mut rounds = 0;
        while self.shared.phase() != Phase::Stopped {
            self.has_searched_for(rounds);
            if self.turn() != TurnOutcome::Nothing {
                rounds = 0;
                continue;
            }
            rounds += 1;
            match rounds {
                // Enough others search already, or there is nothing.
                _ if !self.core.searching || rounds >= YIELD_ROUNDS => rounds = self.park(),
                ..SPIN_ROUNDS => spin_loop(),
                _ => thread::yield_now(),
            }
        }
    }

    /// Reports for how many rounds it has found nothing. Without this report a worker is impatient.
    pub(crate) fn has_searched_for(&mut self, rounds: u32) {
        self.core.patient = rounds < PATIENT_ROUNDS;
    }

    /// Runs one slice of one process, if there is any to run.
    pub(crate) fn turn(&mut self) -> TurnOutcome {
        let (shared, core) = (&*self.shared, &mut self.core);
        // Not if the workers stop without a shutdown: a step that this one still begins is refused
        // nothing.
        if !core.closing && shared.phase() == Phase::Closing {
            core.closing = true;
            // Release: a thread that sees it sees every process that this worker has started.
            shared.acknowledged[core.index].store(true, Ordering::Release);
            shared.drained.set();
        }
        let mut served = shared.admission.needs_attention() && core.attend(shared);
        if core.pace.is_due() {
            let now = shared.clock.now();
            core.pace.read(now);
            served |= core.fire(shared, now);
        }
        let Some(found) = core.find(shared).or_else(|| core.find_late(shared, &mut served)) else {
            return if served { TurnOutcome::Served } else { TurnOutcome::Nothing };
        };
        core.take_up(shared, found.slot())
    }

    fn park(&mut self) -> u32 {
        let bed = self.bed();
        let (shared, core) = (&*self.shared, &self.core);
        let until = bed.deadline.map(|deadline| (&shared.clock, deadline));
        let (was_searching, begun) = (core.searching, Core::begin(shared));
        let awake = shared.sleep.park(core.index, was_searching, until, || core.is_needed(shared, &bed));
        core.record(shared, Deed::Park, begun);
        self.rises(&bed, awake);
        if awake == Awake::Alone && !was_searching {
            // As many workers search as may, and one of them is about to find the work that this
            // worker must not sleep for. Let that one run first.
            thread::yield_now();
        }
        0
    }

    /// The first part of `park` for a worker that has no thread. `None` if it is needed and goes
    /// on.
    pub(crate) fn lie_down(&mut self) -> Option<Bed> {
        let bed = self.bed();
        let (shared, core) = (&*self.shared, &self.core);
        let is_keeper = bed.deadline.is_some();
        if shared.sleep.lie_down(core.index, core.searching, is_keeper, || core.is_needed(shared, &bed)) {
            return Some(bed);
        }
        let awake = shared.sleep.stay_up(core.index, core.searching);
        self.rises(&bed, awake);
        None
    }

    /// Whether a parked worker goes on: it was woken, or its deadline has passed.
    pub(crate) fn wakes(&self, bed: &Bed) -> bool {
        let shared = &*self.shared;
        shared.sleep.is_called(self.core.index) || bed.deadline.is_some_and(|deadline| deadline <= shared.clock.now())
    }

    /// The last part of `park` for a worker that has no thread.
    pub(crate) fn rise(&mut self, bed: &Bed) {
        let awake = self.shared.sleep.rise(self.core.index);
        self.rises(bed, awake);
    }

    fn bed(&self) -> Bed {
        let shared = &*self.shared;
        let next = shared.timers.next();
        self.core.counters(shared).parks.add(1);
        Bed { next, deadline: shared.timers.keep() }
    }

    fn rises(&mut self, bed: &Bed, awake: Awake) {
        let (shared, core) = (&*self.shared, &mut self.core);
        if let Some(deadline) = bed.deadline {
            shared.timers.release(deadline);
        }
        core.searching = awake == Awake::Searching;
        core.pace.restart(shared.clock.now());
    }
}

/// The state of a worker that goes to sleep.
#[derive(Debug)]
pub(crate) struct Bed {
    /// The due time of the first timer when the worker checked.
    next: Option<Monotonic>,
    /// When it wakes, if it is the keeper of the timers.
    pub(crate) deadline: Option<Monotonic>,
}

impl<C: Commit> Core<C> {
    fn counters<'a>(&self, shared: &'a Shared<C>) -> &'a Counters {
        &shared.counters[self.index]
    }

    /// The time, if somebody looks at what the workers do.
    #[inline]
    fn begin(shared: &Shared<C>) -> Option<Monotonic> {
        (C::TIMED && shared.timeline.is_armed()).then(|| shared.clock.now())
    }

    /// Records what this worker did since then.
    #[inline]
    fn record(&self, shared: &Shared<C>, deed: Deed, begun: Option<Monotonic>) {
        if let Some(begun) = begun {
            shared.timeline.note(self.index, (deed, begun, shared.clock.now().since(begun)), None);
        }
    }

    /// Whether a worker that goes to sleep is needed after all.
    fn is_needed(&self, shared: &Shared<C>, bed: &Bed) -> bool {
        shared.is_worker_needed(bed.next) || !self.closing && shared.phase() != Phase::Open
    }

    #[inline]
    fn take_up(&mut self, shared: &Shared<C>, slot: Slot) -> TurnOutcome {
        if self.searching {
            self.searching = false;
            shared.sleep.found(|| shared.has_jobs() || shared.admission.needs_attention());
        }
        self.lay_open(shared);
        self.slice(shared, slot);
        TurnOutcome::Stepped(slot)
    }

    /// Serves the admission queue. Returns whether it did: another worker may be doing so.
    #[cold]
    fn attend(&mut self, shared: &Shared<C>) -> bool {
        if !shared.admission.attend() {
            return false;
        }
        let begun = Self::begin(shared);
        shared.attend(|slot| self.send_global(shared, slot));
        self.record(shared, Deed::Admit, begun);
        // Its time must not count towards the next slice.
        self.now = None;
        true
    }

    /// Reports timers that are due to the commit point. Returns whether there were any.
    fn fire(&mut self, shared: &Shared<C>, now: Monotonic) -> bool {
        if shared.timers.next().is_none_or(|next| next > now) {
            return false;
        }
        let begun = Self::begin(shared);
        let mut due = std::mem::take(&mut self.due);
        shared.timers.drain(now, &mut due);
        if !due.is_empty() {
            let counters = self.counters(shared);
            counters.timer_batches.add(1);
            counters.timers_fired.add(due.len() as u64);
            let mut context = Context { shared, core: self };
            // A panic here is the commit point's own and not a process's. The worker must survive
            // it: others depend on it.
            let fired = foreign::call(|| shared.commit.fired(&mut context, &mut due));
            self.note(shared, fired);
            self.note(shared, foreign::call(|| due.clear()));
            self.tell(shared);
            self.record(shared, Deed::Fire, begun);
        }
        self.due = due;
        self.now = None;
        true
    }

    /// Puts a process that was woken or spawned here at the tail of its own deque.
    #[inline]
    fn enqueue(&mut self, shared: &Shared<C>, job: Job<C::Event>) {
        if job.woken_here {
            self.fairness.woken();
        }
        if self.may_hold_back(shared) {
            if let Some(older) = self.lifo_slot.replace(job) {
                self.local.push(older);
                self.wake_owed = true;
            }
            return;
        }
        // No wake for a job in a deque that was empty: this worker will take it next.
        let is_alone = self.lifo_slot.is_none() && self.local.is_empty();
        self.put_down();
        self.local.push(job);
        if is_alone {
            self.reserved = true;
        } else {
            self.wake_owed = true;
            shared.sleep.hint();
        }
    }

    /// Puts a process at the back of the global queue, behind those already on their way there.
    fn send_global(&mut self, shared: &Shared<C>, slot: Slot) {
        self.yielded.push(slot);
        let len = shared.global.append(self.yielded.drain(..).map(Job::ready));
        // If there is nothing else, this worker will take it next.
        if len > 1 || self.lifo_slot.is_some() || !self.local.is_empty() {
            shared.sleep.notify();
        } else {
            self.reserved = true;
        }
    }

    /// Called before a slice, which may take long: publishes every job that others could run
    /// meanwhile, and wakes them.
    #[inline]
    fn lay_open(&mut self, shared: &Shared<C>) {
        debug_assert!(self.lifo_slot.is_none(), "the job in the LIFO slot is run first, or put down");
        if !self.yielded.is_empty() && !self.may_hold_back(shared) {
            shared.global.append(self.yielded.drain(..).map(Job::ready));
            self.wake_owed = true;
        }
        if self.reserved {
            self.reserved = false;
            // This worker took another one first, or there are more.
            self.wake_owed |= shared.has_jobs();
        }
        self.tell(shared);
        debug_assert!(!self.wake_owed && (self.yielded.is_empty() || self.pace.is_fine()));
    }

    /// Whether no other worker could take a job sooner than this one will.
    #[inline]
    fn may_hold_back(&self, shared: &Shared<C>) -> bool {
        self.pace.is_fine() && shared.sleep.all_are_active()
    }

    /// Sends the wake that is owed, with a fence.
    #[inline]
    fn tell(&mut self, shared: &Shared<C>) {
        if self.wake_owed {
            self.wake_owed = false;
            if shared.workers() > 1 {
                shared.sleep.notify();
            }
        }
    }

    /// Counts a panic of foreign code if there was one; it ends no process.
    #[inline]
    fn note(&self, shared: &Shared<C>, called: Result<(), String>) {
        if called.is_err() {
            self.counters(shared).panics.add(1);
        }
    }
}
