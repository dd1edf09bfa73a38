//! Runs that wait leave the memory.
//!
//! A run all of whose processes wait, and which is durable up to its last record, needs nothing of
//! the host but to be found when something comes for it: a signal, an act, a query, a due timer. It
//! is *parked*: its state, its processes and its log are dropped, and an index entry stays
//! ([`Parked`]). This host still owns it. A caller that needs it recovers it from its records, as
//! after a crash.
//!
//! **When.** A timer of its own checks a run, every [`ParkingPolicy::after`]. If nothing was
//! recorded between two checks and the run is quiet ([`Inner::is_quiet`]), it is parked. If
//! replaying one of its processes would be expensive, that one is saved first: the processes are
//! visited ([`Port::interrupt`]), and the run is parked at the next check. If more runs are in
//! memory than [`ParkingPolicy::resident_max`], each new one checks a few others, and parks those
//! that are quiet without waiting.
//!
//! **Protocol.** The truth is [`Inner::parked`], which the run's commit lock guards.
//! 1. Under the commit lock: the run is quiet. So no queue has an event that a process will be
//!    stepped for, no step is in progress, no call is at a handler, and nothing waits to be
//!    durable.
//! 2. Still under it: the log is parked, `parked` is set, the state is taken away, and the index
//!    entry replaces the run in the kernel's list. This is the point at which the run is parked.
//! 3. The scheduler's tasks are interrupted. Each finds no process in the state, and completes.
//!    Nothing can be posted to them: the slots are gone with the state.
//! 4. A caller of the run takes the commit lock first. If it came before 2, the run is no longer
//!    quiet, or the caller's act stands in the records. If it came after, it sees `parked`, and
//!    asks the kernel for the run.
//! 5. The kernel's list says which run there is for an id: in memory, parked, or being recovered.
//!    The first caller that asks for a parked one changes the entry to *waking* and recovers it, on
//!    its own thread; the others wait for that one.
//! 6. The scheduler may refuse its processes, because it is full or the host stops. Nothing has
//!    been recorded then, and the run is parked again by steps 2 and 3, under the commit lock under
//!    which its processes were made: a host that has no room does not change what the run is on
//!    disk.
//! 7. Whoever changes what a run is recovered with *holds* it ([`hold`]): that is step 5, with the
//!    change before the recovery. A run in memory is parked for it, even if it is not quiet, when
//!    no call of it is at a handler and all of it is durable: its records then have all of it. So
//!    it is recovered also if nothing is changed: otherwise nobody would step it.
//!
//! - **I1** For an id there is at most one run that is not parked.
//! - **I2** An acknowledged act stands in the records before 2, or is applied by the run of 5.
//! - **I3** The locks are taken in this order: commit lock, kernel's list, residence. None is held
//!   while a run is recovered.
//!
//! A log of which nothing stays ([`Parking::Gone`]) changes step 2: the entry leaves the kernel's
//! list, and this host no longer owns the run. Those who hold a handle, or ask for the id, recover
//! it by [`Kernel::recover_by`]; its journal says when it is due. Whoever waits for its outcome
//! hears it if this host recovers the run ([`gone`]). A handle of a run that another host has by
//! then finds no run.
//!
//! A timer names its run by id ([`Timer`]): those that were set before a run was parked find it
//! afterwards, and recover it on a thread of their own if it is due.
//!
//! *Rejected.* Parking single processes: the state of the run, which others of its processes need,
//! would stay, and it is the larger part. Recovering a run on the worker that fires its timer: it
//! waits for a disk.

pub(in crate::run) mod gone;
pub(in crate::run) mod hold;
pub(in crate::run) mod residence;
pub(in crate::run) mod waking;

use super::consequences::no_capacity;
use super::kernel::{Kernel, Timer};
use super::parking::residence::Residence;
use super::parking::waking::{Parked, WAKE_AGAIN};
use super::run::{Inner, Run};
use crate::base::Monotonic;
use crate::base::brief::BriefGuard;
use crate::process::{Micros, Problem, Timestamp, problem::kind};
use crate::run::seam::log::{Durability, Log, Nap, ParkedLog, Parking};
use crate::run::state::events::Outcome;
use crate::run::state::outstanding::Pending;
use crate::run::state::run_state::{Counts, RunTime, State};
use crate::run::state::table::{Phase, WaitState};
use crate::scheduler::{Interrupt, Pause, Port, Slot, TimerId};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// When runs that wait leave the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParkingPolicy {
    /// A run that waits is parked when nothing has happened in it for this long, and at the latest
    /// after twice that.
    pub after: Duration,
    /// If more runs than this are in memory, those that wait are parked at once.
    pub resident_max: usize,
}

impl Default for ParkingPolicy {
    // Both arbitrary: long against a pause between two events, few against what memory holds.
    fn default() -> Self {
        Self { after: Duration::from_secs(5), resident_max: 10_000 }
    }
}

impl ParkingPolicy {
    /// No run is ever parked.
    pub const NEVER: Self = Self { after: Duration::MAX, resident_max: usize::MAX };
}

/// Upper bound of the back-off between checks of a run that is unchanged but cannot be parked.
const BACKOFF_MAX: u32 = 64;
/// How long a run's processes have to be saved before the next check.
const SAVE_TIME: Micros = Micros(50_000);

/// What is known of a parked run without recovering it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParkedRun {
    /// Processes that have not ended.
    pub processes: u32,
    /// Calls whose outcome is unknown.
    pub uncertain: u32,
    /// Whether an operator has paused it.
    pub is_paused: bool,
    /// Counts of what happened in it.
    pub counts: Counts,
}

/// The last parking check of a run.
#[derive(Default)]
pub(in crate::run) struct ParkingCheck {
    /// How many records the run had.
    records: u64,
    /// How many times farther apart the checks are, since the run is unchanged and cannot be
    /// parked.
    backoff: u32,
    /// Its processes were asked to be saved.
    save_requested: bool,
    /// The scheduler's timer for the next check.
    timer: Option<TimerId>,
}

/// Replaces the log of a parked run.
struct NoLog;

impl Log for NoLog {
    fn append(&mut self, _: &[u8]) -> Durability {
        debug_assert!(false, "a run that is parked writes nothing");
        Durability::Later
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        None
    }
}

/// The problem in the outcome of a run that its host releases because it stops.
pub(in crate::run) fn stopped() -> Problem {
    Problem::new(kind::SUSPENDED, "The host stopped before the run ended")
        .with_detail("It continues when it is recovered.")
}

impl Inner {
    /// Whether the run waits, and nothing is on its way into it or out of it.
    fn is_quiet(&mut self, soon: RunTime) -> bool {
        self.watchers.retain(|watcher| !watcher.is_abandoned());
        if self.has_ended
            || self.parked
            || self.is_queued
            || self.is_lost()
            || !self.watchers.is_empty()
            || self.has_undurable()
        {
            return false;
        }
        let state = &self.state;
        if state.has_consequences() || state.timers.next_due().is_some_and(|due| due <= soon) {
            return false;
        }
        state.table.iter().all(|(pid, entry)| match &entry.phase {
            Phase::Ended(_) => true,
            Phase::Cancelling { .. } => false,
            Phase::Live => {
                let waits = match entry.waits {
                    WaitState::Not | WaitState::Owes => false,
                    WaitState::Blocked => true,
                    WaitState::Idle => entry.mail == 0,
                };
                let is_known = |(tag, pending): (_, &Pending)| {
                    !matches!(pending, Pending::Call(_)) || state.uncertain.contains_key(&(pid, tag))
                };
                waits && entry.waking == 0 && entry.slot.is_some() && entry.outstanding.iter().all(is_known)
            }
        })
    }

    /// Takes the scheduler's timers of this run, which are no longer needed.
    pub(in crate::run) fn disarm(&mut self) -> impl Iterator<Item = TimerId> + use<> {
        self.parking_check.timer.take().into_iter().chain(self.state.timers.disarm())
    }

    /// The processes whose replay would be expensive.
    fn expensive(&self) -> Vec<Slot> {
        self.state.table.iter().filter(|(_, entry)| entry.unsaved).filter_map(|(_, entry)| entry.slot).collect()
    }
}

impl Run {
    /// Schedules the first check of a run, if it can be parked.
    pub(in crate::run) fn schedule_first_check<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        inner: &mut Inner,
        port: &mut P,
    ) {
        let policy = self.kernel.parking();
        if policy.after != Duration::MAX && inner.log.can_park() {
            self.kernel.add_resident(self);
            self.schedule_check(policy.after.into(), inner, port);
        }
    }

    /// Checks whether the run can be parked.
    pub(in crate::run) fn check_parking<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P) {
        let policy = self.kernel.parking();
        let mut inner = self.inner.lock();
        if inner.has_ended || inner.parked || inner.is_lost() {
            return;
        }
        let records = inner.state.counts.records;
        let is_still = inner.parking_check.records == records;
        inner.parking_check.records = records;
        let now = port.monotonic();
        let after = Micros::from(policy.after);
        let mut next = after;
        if is_still {
            let soon = self.moment(now).mono.saturating_add(after);
            if inner.is_quiet(soon) {
                let expensive = inner.expensive();
                if expensive.is_empty() || inner.parking_check.save_requested {
                    if self.park(inner, false, port) {
                        return;
                    }
                    inner = self.inner.lock();
                } else {
                    inner.parking_check.save_requested = true;
                    self.request_snapshots(port, &expensive);
                    next = SAVE_TIME.min(after);
                }
            } else {
                inner.parking_check.backoff = (inner.parking_check.backoff * 2).clamp(1, BACKOFF_MAX);
                next = Micros(after.0.saturating_mul(inner.parking_check.backoff.into()));
            }
        } else {
            inner.parking_check.backoff = 0;
            inner.parking_check.save_requested = false;
        }
        self.schedule_check(next, &mut inner, port);
    }

    /// Schedules the next check. Under the lock, so that the end of the run finds the timer.
    fn schedule_check<P: Port<Kernel> + ?Sized>(&self, time: Micros, inner: &mut Inner, port: &mut P) {
        let due = port.monotonic().saturating_add(time);
        inner.parking_check.timer =
            Some(port.timer(due, Timer::CheckParking(Arc::clone(&self.config.id), self.serial)));
    }

    /// Parks the run at once, if it is quiet and nothing of it has to be saved.
    pub(in crate::run) fn park_now<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P) {
        let mut inner = self.inner.lock();
        let now = self.moment(port.monotonic()).mono;
        if inner.log.can_park() && inner.is_quiet(now) {
            let expensive = inner.expensive();
            if expensive.is_empty() {
                self.park(inner, false, port);
            } else {
                self.request_snapshots(port, &expensive);
            }
        }
    }

    /// Steps 2 and 3 of the protocol. Returns whether its log could be parked. A run that is not
    /// quiet, or may not be, is restless: on disk it is due, so that whoever takes it over after a
    /// crash steps it.
    fn park<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        mut inner: BriefGuard<'_, Inner>,
        is_restless: bool,
        port: &mut P,
    ) -> bool {
        let awaited = inner.state.awaited();
        inner.log.awaits(awaited);
        let nap = self.nap((&inner.state, is_restless), port.monotonic());
        match inner.log.park(&nap) {
            Some(Parking::Kept(log)) => self.park_as((log, false), Monotonic(0), inner, port),
            Some(Parking::Gone) => self.go(inner, port),
            None => return false,
        }
        true
    }

    /// Steps 2 and 3 of a run of which nothing stays: its entry leaves the list.
    fn go<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, mut inner: BriefGuard<'_, Inner>, port: &mut P) {
        let (state, log) = self.vacate(&mut inner, port);
        self.kernel.put_gone(self, state.counts);
        drop(inner);
        drop(log);
        self.end_tasks(&state, port);
    }

    /// What the journal notes of a run in this state that is parked now.
    fn nap(&self, (state, is_restless): (&State, bool), now: Monotonic) -> Nap {
        let wall = self.kernel.clock().at(now);
        let due = state.timers.next_due().map(|due| {
            let time = self.host_time(due).0.saturating_sub(now.0);
            Timestamp(wall.0.saturating_add(time))
        });
        let due = if is_restless { Some(wall) } else { due };
        Nap { due, is_paused: state.paused.is_some() }
    }

    /// Returns a run to where it was before its recovery, since the scheduler refused one of its
    /// processes; nothing has been recorded since. One that was parked is parked again, and its
    /// timers, and what it has to do besides, wait for a while. Any other one, and each if the host
    /// stops, is no longer owned.
    pub(in crate::run) fn return_refused<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        (was_parked, is_restless): (bool, bool),
        mut inner: BriefGuard<'_, Inner>,
        port: &mut P,
    ) {
        let is_closing = self.kernel.is_closing();
        let nap = self.nap((&inner.state, is_restless), port.monotonic());
        if was_parked && !is_closing {
            match inner.log.park(&nap) {
                Some(Parking::Kept(log)) => {
                    let again = port.monotonic().saturating_add(WAKE_AGAIN);
                    return self.park_as((log, is_restless), again, inner, port);
                }
                Some(Parking::Gone) => return self.go(inner, port),
                None => {}
            }
        }
        let (state, log) = self.vacate(&mut inner, port);
        self.kernel.unregister(self);
        drop(inner);
        let problem = if is_closing { stopped() } else { no_capacity() };
        self.outcome.set(Arc::new(Outcome::of_problem(problem, state.counts)));
        drop(log);
        self.end_tasks(&state, port);
    }

    /// Parks the run with this log. No timer recovers it before `earliest`, by the host's clock;
    /// then it is recovered if it is restless.
    fn park_as<P: Port<Kernel> + ?Sized>(
        self: &Arc<Self>,
        (log, is_restless): (Box<dyn ParkedLog>, bool),
        earliest: Monotonic,
        mut inner: BriefGuard<'_, Inner>,
        port: &mut P,
    ) {
        let (state, gone) = self.vacate(&mut inner, port);
        let due = state.timers.next_due().map(|due| self.host_time(due).max(earliest));
        let due = if is_restless { Some(earliest) } else { due };
        let parked = Parked {
            spec: self.kernel.shared_spec_of(&self.config),
            log,
            outcome: Arc::downgrade(&self.outcome),
            wakes: due.map(|due| (due, port.timer(due, Timer::Due(Arc::clone(&self.config.id))))),
            clock_offset: self.clock_offset,
            facts: ParkedRun {
                processes: state.living,
                uncertain: state.uncertain.len() as u32,
                is_paused: state.paused.is_some(),
                counts: state.counts,
            },
            is_restless,
        };
        self.kernel.put_parked(&self.config.id, parked);
        drop(inner);
        drop(gone);
        self.end_tasks(&state, port);
    }

    /// Removes the run from memory: a caller that finds it from now on asks the kernel again.
    /// Returns its state and log, to be dropped without the lock.
    fn vacate<P: Port<Kernel> + ?Sized>(&self, inner: &mut Inner, port: &mut P) -> (State, Box<dyn Log>) {
        for timer in inner.disarm() {
            port.unset_timer(timer);
        }
        let bounds = inner.state.bounds;
        inner.parked = true;
        self.parked_hint.store(true, Relaxed);
        (std::mem::replace(&mut inner.state, State::bare(bounds)), std::mem::replace(&mut inner.log, Box::new(NoLog)))
    }

    /// Removes the run from its handles, and ends the tasks of its processes.
    fn end_tasks<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, state: &State, port: &mut P) {
        let residence = self.residence.lock().clone();
        Residence::release(&residence, self);
        for slot in state.table.iter().filter_map(|(_, entry)| entry.slot) {
            port.pause(slot, Pause::Off);
            port.interrupt(slot, Interrupt::End);
        }
    }
}
