//! The state that all workers and handles of a scheduler share.

use super::admission::{Admission, Duty, Joins};
use super::aside::{Aside, Chore};
use super::buffers::Buffers;
use super::global::GlobalQueue;
use super::local::Thief;
use super::place::{Body, Place, Posted, Standing};
use super::sleep::Sleep;
use super::slots::{FreeSlots, Table};
use super::state::{Before, Eviction, Heard};
use super::stats::{Counters, Stats};
use super::timeline::Timeline;
use super::timers::Timers;
use super::{Commit, Config, Interrupt, Next, Pause, Permitted, Slot, Wake};
use crate::base::foreign;
use crate::base::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, Signal};
use crate::base::{Clock, Monotonic};
use crate::process::Permit;
use std::sync::{Arc, Weak};

/// An item of a run queue: a process that is ready, and perhaps the event that woke it.
#[derive(Debug)]
pub(crate) struct Job<E> {
    pub(crate) slot: Slot,
    /// Older than all events in the process's queue.
    pub(crate) event: Option<E>,
    /// Woken by the worker whose deque it is in: rule S1 counts those.
    pub(crate) woken_here: bool,
}

impl<E> Job<E> {
    /// A process that said `ready`, or is stepped for another reason than an event.
    #[inline]
    pub(crate) fn ready(slot: Slot) -> Self {
        Self { slot, event: None, woken_here: false }
    }
}

/// Where a process goes after a spawn or a wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Placed {
    /// The caller enqueues it.
    Enqueue,
    /// It has joined the admission queue, or waits for an event.
    Waits,
}

/// The phases of a scheduler's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// Processes are accepted.
    Open,
    /// No further processes are accepted.
    Closing,
    /// The workers stop.
    Stopped,
}

/// The state that threads other than workers share.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    free: FreeSlots,
}

/// All of it; see the module.
pub(crate) struct Shared<C: Commit> {
    pub(crate) commit: Arc<C>,
    pub(crate) clock: Clock,
    pub(crate) table: Table<C::Process, C::Event>,
    pub(crate) global: GlobalQueue<Job<C::Event>>,
    pub(crate) thieves: Box<[Thief<Job<C::Event>>]>,
    pub(crate) sleep: Sleep,
    pub(crate) timers: Timers<C::Timer>,
    pub(crate) admission: Admission,
    pub(super) aside: Aside<C::Process>,
    /// Itself, for threads that it starts.
    pub(super) me: Weak<Self>,
    /// One for each worker, which writes it, and the last for other threads, under `outside`.
    pub(crate) counters: Box<[Counters]>,
    /// What the workers do, while somebody looks.
    pub(crate) timeline: Arc<Timeline>,
    outside: Mutex<Outside>,
    phase: AtomicUsize,
    /// Which workers have seen that the scheduler closes, and so start no further process.
    pub(crate) acknowledged: Box<[AtomicBool]>,
    /// Set at each end of a process while the scheduler closes.
    pub(crate) drained: Signal,
}

impl<C: Commit> Shared<C> {
    pub(crate) fn new(commit: Arc<C>, config: &Config, thieves: Box<[Thief<Job<C::Event>>]>, me: Weak<Self>) -> Self {
        let workers = thieves.len();
        Self {
            commit,
            clock: config.clock.clone(),
            table: Table::new(config.processes_max as usize),
            global: GlobalQueue::new(),
            thieves,
            sleep: Sleep::new(workers),
            timers: Timers::new(),
            admission: Admission::new(config.capacity, config.outside.clone()),
            aside: Aside::new(if config.chores_in_turns { 0 } else { workers }),
            me,
            counters: (0..=workers).map(|_| Counters::new()).collect(),
            timeline: Arc::new(Timeline::new(workers)),
            outside: Mutex::new(Outside::default()),
            phase: AtomicUsize::new(Phase::Open as usize),
            acknowledged: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            drained: Signal::default(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.thieves.len()
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Closing,
            _ => Phase::Stopped,
        }
    }

    /// Advances the phase, never back. Under the lock of the other threads, so that none of them
    /// starts a process after that. The commit point is notified first, so that a caller who is
    /// refused can ask it.
    pub(crate) fn advance(&self, phase: Phase) {
        if foreign::call(|| self.commit.closing()).is_err() {
            self.panicked_outside();
        }
        let _outside = self.outside.lock();
        self.phase.fetch_max(phase as usize, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn place(&self, slot: Slot) -> &Place<C::Process, C::Event> {
        self.table.get(slot.index).expect("invariant: a slot names a place of the table")
    }

    /// Puts a process into a free place. It is counted before any worker can run it, so that ends
    /// never outnumber starts.
    pub(crate) fn spawn(
        &self,
        free: &mut FreeSlots,
        counters: &Counters,
        (process, permit): (C::Process, Permit),
        before: Before,
    ) -> Result<(Slot, Placed), C::Process> {
        if !self.can_ever_admit(permit) {
            return Err(process);
        }
        let Some(index) = free.take(&self.table) else { return Err(process) };
        let place = self.table.get(index).expect("invariant: a place that was given out exists");
        let slot = place.next_slot(index);
        counters.spawned.add(1);
        let rests = matches!(before, Before::Step(Next::Blocked | Next::Idle));
        let joins = if before == Before::Nothing { Joins::Newcomer } else { Joins::Evicted };
        let standing = if permit.is_none() {
            Standing::Free
        } else if rests {
            Standing::Waits(joins)
        } else {
            self.admission.take(slot, permit).map_or(Standing::Waits(joins), Standing::Seated)
        };
        let body = Body { process, permit, standing };
        match standing {
            Standing::Waits(joins) if !rests => {
                self.admission.join(place, slot, permit, joins, || {
                    place.occupy(body, before);
                    true
                });
            }
            _ => place.occupy(body, before),
        }
        let is_ready = !rests && standing.permitted() == Permitted::Yes;
        Ok((slot, if is_ready { Placed::Enqueue } else { Placed::Waits }))
    }

    pub(crate) fn can_ever_admit(&self, permit: Permit) -> bool {
        permit.is_none() || self.admission.can_ever_admit(permit)
    }

    /// The same from a thread that is no worker.
    pub(crate) fn spawn_from_outside(
        &self,
        process: C::Process,
        permit: Permit,
        before: Before,
    ) -> Result<(Slot, Placed), C::Process> {
        let mut outside = self.outside.lock();
        if self.phase() != Phase::Open {
            return Err(process);
        }
        self.spawn(&mut outside.free, self.counters_outside(), (process, permit), before)
    }

    /// Returns the event if the process has ended; it is counted.
    #[inline]
    pub(crate) fn post(
        &self,
        slot: Slot,
        event: C::Event,
        wake: Wake,
        buffers: Option<&mut Buffers<C::Event>>,
    ) -> Posted<C::Event> {
        match self.table.get(slot.index) {
            Some(place) => place.post(slot.generation, event, wake, buffers),
            None => Posted::Gone(event),
        }
    }

    /// Counts events that a thread other than a worker dropped.
    pub(crate) fn drop_from_outside(&self, count: u64) {
        let _outside = self.outside.lock();
        self.counters_outside().dropped_events.add(count);
    }

    /// Counts a panic on a thread other than a worker.
    pub(super) fn panicked_outside(&self) {
        let _outside = self.outside.lock();
        self.counters_outside().panics.add(1);
    }

    /// The counters of other threads have one writer at a time: the holder of the lock of
    /// `outside`.
    fn counters_outside(&self) -> &Counters {
        &self.counters[self.workers()]
    }

    pub(crate) fn interrupt(&self, slot: Slot, why: Interrupt) -> Option<Placed> {
        self.follow(slot, self.table.get(slot.index)?.word.interrupt(slot.generation, why))
    }

    pub(crate) fn pause(&self, slot: Slot, pause: Pause) -> Option<Placed> {
        self.follow(slot, self.table.get(slot.index)?.word.pause(slot.generation, pause))
    }

    pub(crate) fn follow(&self, slot: Slot, heard: Heard) -> Option<Placed> {
        match heard {
            Heard::Gone | Heard::Pending => None,
            Heard::Woken => Some(Placed::Enqueue),
            Heard::Admit => Some(self.readmit(slot)),
            Heard::Left => {
                self.admission.left(&self.table);
                Some(Placed::Enqueue)
            }
        }
    }

    /// Joins a process to the admission queue: it has no permit, and was woken.
    pub(crate) fn readmit(&self, slot: Slot) -> Placed {
        let place = self.place(slot);
        let (permit, joins) = {
            let body = place.body.open().expect("invariant: one that is admitting belongs to whoever woke it");
            let body = body.as_ref().expect("invariant: an occupied place has a body");
            let Standing::Waits(joins) = body.standing else {
                unreachable!("invariant: one that is admitting waits for a permit")
            };
            (body.permit, joins)
        };
        let waits = self.admission.join(place, slot, permit, joins, || place.word.queue() == Heard::Admit);
        if waits { Placed::Waits } else { Placed::Enqueue }
    }

    /// Serves the processes that wait for permits. Passes those to be enqueued to the caller, one
    /// by one.
    pub(crate) fn attend(&self, mut enqueue: impl FnMut(Slot)) {
        loop {
            match self.admission.next(&self.table) {
                Duty::None => return,
                Duty::Enqueue(slot) if self.admits_slowly(slot) => self.put_aside(Chore::Admit(slot)),
                Duty::Enqueue(slot) => {
                    self.tell_admitted(slot);
                    enqueue(slot);
                }
                Duty::Evict(slot) if self.evicts_slowly(slot) => self.put_aside(Chore::Evict(slot)),
                Duty::Evict(slot) => {
                    if self.evict(slot) == Some(Placed::Enqueue) {
                        enqueue(slot);
                    }
                }
            }
        }
    }

    fn admits_slowly(&self, slot: Slot) -> bool {
        let body = self.place(slot).body.open().expect("invariant: one that is admitted is in no queue yet");
        let body = body.as_ref().expect("invariant: an occupied place has a body");
        let Some(seat) = body.standing.seat() else { return false };
        self.ask(|| self.commit.admits_slowly(&body.process, seat.allocation))
    }

    /// Reports to a process that it has its permit. A panic does not end it: its next step shows
    /// whether it still works.
    pub(super) fn tell_admitted(&self, slot: Slot) {
        let mut body = self.place(slot).body.open().expect("invariant: one that is admitted is in no queue yet");
        let body = body.as_mut().expect("invariant: an occupied place has a body");
        if let Some(seat) = body.standing.seat() {
            self.ask(|| {
                self.commit.admitted(&mut body.process, seat.allocation);
                true
            });
        }
    }

    /// Asks the commit point a question on any thread; a panic counts as no.
    fn ask(&self, what: impl FnOnce() -> bool) -> bool {
        foreign::call(what).unwrap_or_else(|_| {
            self.panicked_outside();
            false
        })
    }

    fn evicts_slowly(&self, slot: Slot) -> bool {
        let body = self.place(slot).body.open().expect("invariant: one that is evicting belongs to its evictor");
        let body = body.as_ref().expect("invariant: an occupied place has a body");
        self.ask(|| self.commit.evicts_slowly(&body.process))
    }

    /// Takes away the permit of a process that is Evicting.
    pub(super) fn evict(&self, slot: Slot) -> Option<Placed> {
        let place = self.place(slot);
        let (permit, seat, eviction) = {
            let mut body = place.body.open().expect("invariant: one that is evicting belongs to its evictor");
            let body = body.as_mut().expect("invariant: an occupied place has a body");
            let seat = body.standing.seat().expect("invariant: who is evicted has a seat");
            // A panic counts as a refusal; the process's next step shows whether it still works.
            let eviction = if self.ask(|| self.commit.evict(&mut body.process)) {
                body.standing = Standing::Waits(Joins::Evicted);
                Eviction::Done
            } else {
                // It must not be asked again before it has run.
                place.since.store(u64::MAX, Ordering::Relaxed);
                Eviction::Refused
            };
            (body.permit, seat, eviction)
        };
        let heard = place.word.evicted(eviction);
        // After the word, so that a process that has refused is seen to wait.
        self.admission.eviction_ended(permit, seat, eviction);
        self.follow(slot, heard)
    }

    /// Whether any queue has a job.
    pub(crate) fn has_jobs(&self) -> bool {
        self.global.len() > 0 || self.thieves.iter().any(|thief| !thief.is_empty())
    }

    /// Whether a worker that saw `next` as the nearest due time must stay awake.
    pub(crate) fn is_worker_needed(&self, next: Option<Monotonic>) -> bool {
        self.has_jobs()
            || self.phase() == Phase::Stopped
            || self.admission.needs_attention()
            || self.timers.next().is_some_and(|now| next.is_none_or(|seen| now < seen))
    }

    /// The counters of each worker.
    pub(crate) fn worker_stats(&self) -> Vec<Stats> {
        let of = |counters: &Counters| {
            let mut stats = Stats::default();
            stats.add(counters);
            stats
        };
        self.counters[..self.workers()].iter().map(of).collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for counters in &self.counters {
            stats.add(counters);
        }
        stats.evictions = self.admission.evictions();
        stats.admissions_waited = self.admission.waited();
        stats.admitting = self.admission.waiting() as u64;
        (stats.admitted_outside, stats.admissions_refused, stats.slots_used) = self.admission.beyond_the_pool();
        stats.global_queue = self.global.len() as u64;
        stats.local_deques = self.thieves.iter().map(|thief| thief.len() as u64).sum();
        stats.timers = self.timers.len() as u64;
        stats
    }
}
