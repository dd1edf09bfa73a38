//! Admission: which processes hold a permit, which wait for one, and which must give one up.
//!
//! A permit is the share of the pool that one instance takes. A process that needs one and finds
//! none joins the admission queue, and is in no run queue. While any process waits, the holder that
//! has *rested* longest is evicted: one that is Blocked or Idle, or held by a pause. If every
//! holder is running or in a run queue, the newcomer waits. Without eviction a hundred parents that
//! wait for children, on a pool of a hundred, would never end; and a run that an operator has
//! paused would block all others.
//!
//! A process that is held between two steps loses nothing by its eviction: it joins the queue when
//! it is resumed, in order like all others. It does not matter who has paused it. One that is held
//! in the middle of a step cannot be evicted, and counts as one that refuses.
//!
//! A step may take as long as its fuel lasts, and a process in the middle of one keeps its permit.
//! So while every holder that does not rest has used up a slice, evicted processes that come back
//! do not wait for it: they go on *outside the pool*, out of a budget of memory, as far as there is
//! room. Otherwise a guest could have as many children compute as there are permits, and every
//! other guest of the host, evicted when it rested, would get its timer only when one of them has
//! ended. Newcomers wait.
//!
//! If all holders rest and none of them can be evicted, the first in the queue gets a permit
//! outside the pool, too; holders there are evicted like those of the pool. When the budget is used
//! up, and no holder outside gives way either, a newcomer is *refused*: it is stepped once without
//! a permit, to end. An evicted process that comes back is never refused, but goes beyond the
//! budget: it can be evicted again, so there is one such process at a time. If that one is held in
//! the middle of a step, the next one waits until it is resumed. Without a budget (`outside` is
//! `None`) there is only the pool, and the queue waits.
//!
//! A process that was stepped in another place and is recovered here is treated as an evicted one:
//! it enters without a permit, joins the queue when it is to be stepped, and is never refused,
//! since it had its permit before.
//!
//! - **A1** permits of the pool are given in the order of the queue; a process that comes while
//!   others wait goes behind them.
//! - **A2** the free permits plus those held in the pool are the capacity; the part taken of the
//!   budget is what the other holders hold.
//! - **A3** while any process waits (`pressed`), every holder that comes to rest is among the
//!   victims of its [`PermitHolders`], oldest first, behind those that rested when the pressure
//!   began. An entry is stale if its holder has run since: its place then has another time.
//! - **A4** each change that may help a waiting process sets `attention`; the next worker that
//!   begins a turn serves the queue. So while it is not set there is nothing to do:
//!   [`VirtualScheduler::turn`](super::VirtualScheduler::turn) asserts it. (Other takers of the
//!   budget give it back without setting it. No process waits for that alone: a holder outside will
//!   come to rest or end.) No snapshot is taken within another process's step.
//!
//! A process without a permit never comes here.

use super::Slot;
use super::permit_holders::{PermitHolder, PermitHolders, Reclaim, place};
use super::place::{Place, Standing};
use super::slots::Table;
use super::state::Eviction;
use crate::base::Monotonic;
use crate::base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use crate::process::{Allocation, Budget, Permit};
use std::collections::VecDeque;
use std::sync::Arc;

/// Stale entries tolerated before the queue is compacted. Arbitrary.
const LEFT_MIN: usize = 64;

/// The work that [`Admission::next`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Duty {
    /// It has its permit, or was refused, and is Ready: enqueue it.
    Enqueue(Slot),
    /// It is Evicting: take its permit away.
    Evict(Slot),
    /// Nothing can be done now.
    None,
}

/// The kinds of processes that join the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joins {
    /// A process that never had its permit.
    Newcomer,
    /// A process that was evicted, or is recovered.
    Evicted,
}

/// A waiting process. The number distinguishes it from stale entries of the same process: one that
/// leaves the queue by itself may join it again.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: Slot,
    permit: Permit,
    joins: Joins,
    number: u64,
}

#[derive(Debug)]
struct Inner {
    free: Permit,
    waiting: VecDeque<Entry>,
    /// The evicted ones among them, in the same order. An entry is here no longer than there.
    returning: VecDeque<Entry>,
    /// Numbers the entries.
    entries: u64,
    /// Stale entries in the queue, of processes that have left it by themselves. Below zero while
    /// one was found before it was reported.
    left: isize,
    pool: PermitHolders,
    outside: PermitHolders,
    refused: u64,
    admitted_outside: u64,
}

/// The permits, and the processes that wait for them.
#[derive(Debug)]
pub(crate) struct Admission {
    capacity: Permit,
    outside: Option<Arc<Budget>>,
    inner: Mutex<Inner>,
    /// Whether something can perhaps be done for a waiting process. Set after the change, cleared
    /// before the look.
    attention: AtomicBool,
    /// Whether any process waits. Written under the lock; read by workers without it, see
    /// [`Self::comes_to_rest`].
    pressed: AtomicBool,
    waited: AtomicU64,
    evictions: AtomicU64,
    /// How many processes waited when the lock was last released.
    len: AtomicUsize,
}

impl Admission {
    pub(crate) fn new(capacity: Permit, outside: Option<Arc<Budget>>) -> Self {
        let inner = Inner {
            free: capacity,
            waiting: VecDeque::new(),
            returning: VecDeque::new(),
            entries: 0,
            left: 0,
            pool: PermitHolders::new(Allocation::Pool),
            outside: PermitHolders::new(Allocation::OnDemand),
            refused: 0,
            admitted_outside: 0,
        };
        Self {
            capacity,
            outside,
            inner: Mutex::new(inner),
            attention: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            len: AtomicUsize::new(0),
        }
    }

    /// Whether the permit can be had at all: the whole pool is enough, or there is room outside.
    pub(crate) fn can_ever_admit(&self, permit: Permit) -> bool {
        self.outside.is_some() || subtract(self.capacity, permit).is_some()
    }

    /// Gives a newcomer a permit of the pool if none has to wait for it, and returns its seat.
    pub(crate) fn take(&self, slot: Slot, permit: Permit) -> Option<PermitHolder> {
        let mut inner = self.inner.lock();
        if !inner.waiting.is_empty() {
            return None;
        }
        inner.free = subtract(inner.free, permit)?;
        Some(inner.pool.take(slot))
    }

    /// Puts a process at the end of the queue, unless its word says that it does not wait after
    /// all. `enters` makes it Admitting and QUEUED under the lock, so that it is so if and only if
    /// it has its entry.
    pub(crate) fn join<P, E>(
        &self,
        place: &Place<P, E>,
        slot: Slot,
        permit: Permit,
        joins: Joins,
        enters: impl FnOnce() -> bool,
    ) -> bool {
        let mut inner = self.inner.lock();
        let number = inner.entries + 1;
        place.entry.store(number, Ordering::Relaxed);
        if !enters() {
            return false;
        }
        inner.entries = number;
        let entry = Entry { slot, permit, joins, number };
        inner.waiting.push_back(entry);
        if joins == Joins::Evicted {
            inner.returning.push_back(entry);
        }
        self.len.store(inner.count(), Ordering::Relaxed);
        self.pressed.store(true, Ordering::Release);
        self.waited.fetch_add(1, Ordering::Relaxed);
        drop(inner);
        self.call_attention();
        true
    }

    /// A process has left the queue by itself: the one behind it may be the first now.
    pub(crate) fn left<P, E>(&self, table: &Table<P, E>) {
        let mut inner = self.inner.lock();
        inner.left += 1;
        if inner.left.unsigned_abs() > LEFT_MIN && inner.left.unsigned_abs() > inner.waiting.len() / 2 {
            let before = inner.waiting.len();
            inner.waiting.retain(|entry| entry.waits(place(table, entry.slot)));
            inner.returning.retain(|entry| entry.waits(place(table, entry.slot)));
            inner.left -= (before - inner.waiting.len()).cast_signed();
        }
        self.len.store(inner.count(), Ordering::Relaxed);
        drop(inner);
        self.call_attention();
    }

    /// Takes a permit back.
    pub(crate) fn release(&self, permit: Permit, seat: PermitHolder) {
        let mut inner = self.inner.lock();
        inner.seats(seat.allocation).give(seat);
        self.put_back(&mut inner, permit, seat);
        let is_awaited = !inner.waiting.is_empty();
        drop(inner);
        if is_awaited {
            self.call_attention();
        }
    }

    /// An eviction that [`Self::next`] asked for has ended, and the word says so.
    pub(crate) fn eviction_ended(&self, permit: Permit, seat: PermitHolder, eviction: Eviction) {
        let mut inner = self.inner.lock();
        inner.seats(seat.allocation).eviction_ended(seat, eviction);
        if eviction == Eviction::Done {
            self.put_back(&mut inner, permit, seat);
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        drop(inner);
        self.call_attention();
    }

    fn put_back(&self, inner: &mut Inner, permit: Permit, seat: PermitHolder) {
        match (seat.allocation, &self.outside) {
            (Allocation::OnDemand, Some(budget)) => budget.give(permit.bytes),
            _ => inner.free = add(inner.free, permit),
        }
    }

    /// The holder of a permit has rested since `now`: its word says so, or has said so.
    pub(crate) fn comes_to_rest<P, E>(&self, table: &Table<P, E>, slot: Slot, seat: PermitHolder, now: Monotonic) {
        // Partner: the fence in `PermitHolders::search`. One of the two sees the other.
        fence(Ordering::SeqCst);
        if self.pressed.load(Ordering::Acquire) {
            self.inner.lock().seats(seat.allocation).comes_to_rest(table, seat, slot, now.0);
            self.call_attention();
        }
    }

    /// The holder of a permit has used up a slice, and is about to be put back.
    pub(crate) fn used_slice(&self, seat: PermitHolder) {
        // A holder that misses the pressure sees it at the end of its next slice.
        if self.pressed.load(Ordering::Relaxed) && self.inner.lock().seats(seat.allocation).is_long(seat) {
            self.call_attention();
        }
    }

    /// Whether a worker should serve the queue. Cheap: one load of a line that seldom changes.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.attention.load(Ordering::Relaxed)
    }

    /// An exchange, as its partner in [`Self::attend`] is one: loom lets two exchanges around a
    /// plain store both miss it.
    fn call_attention(&self) {
        self.attention.swap(true, Ordering::AcqRel);
    }

    /// Clears `attention`, before [`Self::next`] is called until it returns [`Duty::None`].
    pub(crate) fn attend(&self) -> bool {
        self.attention.swap(false, Ordering::AcqRel)
    }

    /// The next duty towards the waiting processes.
    pub(crate) fn next<P, E>(&self, table: &Table<P, E>) -> Duty {
        let mut inner = self.inner.lock();
        let duty = self.look(&mut inner, table);
        self.len.store(inner.count(), Ordering::Relaxed);
        if inner.waiting.is_empty() {
            self.pressed.store(false, Ordering::Release);
            inner.pool.relax();
            inner.outside.relax();
        }
        duty
    }

    /// Admits the first in the queue, or names the holder that must give way to it, or refuses it.
    fn look<P, E>(&self, inner: &mut Inner, table: &Table<P, E>) -> Duty {
        while let Some(entry) = inner.waiting.front().copied() {
            let Entry { slot, permit, joins, .. } = entry;
            let place = place(table, slot);
            // A process that was interrupted may no longer wait.
            if !entry.waits(place) {
                inner.pop();
                inner.left -= 1;
                continue;
            }
            let waiting = inner.count();
            if let Some(free) = subtract(inner.free, permit) {
                inner.pop();
                if place.word.admit(slot.generation) {
                    inner.free = free;
                    sit(place, inner.pool.take(slot));
                    return Duty::Enqueue(slot);
                }
                inner.left -= 1;
                continue;
            }
            if subtract(self.capacity, permit).is_some() {
                match inner.pool.give_way(table, waiting) {
                    Reclaim::Evict(victim) => return Duty::Evict(victim),
                    Reclaim::Wait => return Duty::None,
                    Reclaim::Busy => return self.let_one_return(inner, table),
                    Reclaim::Held | Reclaim::Stuck => {}
                }
            }
            let Some(budget) = &self.outside else { return Duty::None };
            let fits = budget.take(permit.bytes);
            if !fits {
                match inner.outside.give_way(table, waiting) {
                    Reclaim::Evict(victim) => return Duty::Evict(victim),
                    Reclaim::Wait | Reclaim::Busy => return Duty::None,
                    Reclaim::Held if joins == Joins::Evicted && budget.is_overdrawn() => return Duty::None,
                    Reclaim::Held | Reclaim::Stuck if joins == Joins::Evicted => budget.overdraw(permit.bytes),
                    Reclaim::Held | Reclaim::Stuck => {}
                }
            }
            inner.pop();
            let takes = fits || joins == Joins::Evicted;
            if !place.word.admit(slot.generation) {
                if takes {
                    budget.give(permit.bytes);
                }
                inner.left -= 1;
                continue;
            }
            if takes {
                inner.admitted_outside += 1;
                sit(place, inner.outside.take(slot));
            } else {
                inner.refused += 1;
                refuse(place);
            }
            return Duty::Enqueue(slot);
        }
        Duty::None
    }

    /// While all holders are long in their steps: the first evicted process goes on outside the
    /// pool, if there is room.
    fn let_one_return<P, E>(&self, inner: &mut Inner, table: &Table<P, E>) -> Duty {
        let Some(budget) = &self.outside else { return Duty::None };
        while let Some(entry) = inner.returning.front().copied() {
            let place = place(table, entry.slot);
            if !entry.waits(place) {
                inner.returning.pop_front();
                continue;
            }
            if !budget.take(entry.permit.bytes) {
                let waiting = inner.count();
                return match inner.outside.give_way(table, waiting) {
                    Reclaim::Evict(victim) => Duty::Evict(victim),
                    _ => Duty::None,
                };
            }
            inner.returning.pop_front();
            if !place.word.admit(entry.slot.generation) {
                budget.give(entry.permit.bytes);
                continue;
            }
            // Its entry in the queue is now stale.
            inner.left += 1;
            inner.admitted_outside += 1;
            sit(place, inner.outside.take(entry.slot));
            return Duty::Enqueue(entry.slot);
        }
        Duty::None
    }

    /// Whether [`Self::next`] has something to do according to the holders themselves: for an
    /// assertion.
    pub(crate) fn foresees<P, E>(&self, table: &Table<P, E>) -> bool {
        let inner = self.inner.lock();
        let first = inner.waiting.iter().find(|entry| entry.waits(place(table, entry.slot)));
        let Some(Entry { permit, joins, .. }) = first.copied() else { return false };
        if subtract(inner.free, permit).is_some() {
            return true;
        }
        if subtract(self.capacity, permit).is_some() {
            match inner.pool.foresee(table, inner.count()) {
                Reclaim::Evict(_) => return true,
                Reclaim::Wait => return false,
                Reclaim::Busy => return self.foresees_a_return(&inner, table),
                Reclaim::Held | Reclaim::Stuck => {}
            }
        }
        let Some(budget) = &self.outside else { return false };
        budget.has_room(permit.bytes)
            || match inner.outside.foresee(table, inner.count()) {
                Reclaim::Wait | Reclaim::Busy => false,
                Reclaim::Held => joins == Joins::Newcomer || !budget.is_overdrawn(),
                Reclaim::Evict(_) | Reclaim::Stuck => true,
            }
    }

    fn foresees_a_return<P, E>(&self, inner: &Inner, table: &Table<P, E>) -> bool {
        let first = inner.returning.iter().find(|entry| entry.waits(place(table, entry.slot)));
        let (Some(first), Some(budget)) = (first, &self.outside) else { return false };
        budget.has_room(first.permit.bytes) || matches!(inner.outside.foresee(table, inner.count()), Reclaim::Evict(_))
    }

    /// Length of the queue, with its stale entries.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn entries(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(crate) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// The number of processes admitted outside the pool, of those refused, and of used instances.
    pub(crate) fn beyond_the_pool(&self) -> (u64, u64, u64) {
        let inner = self.inner.lock();
        (inner.admitted_outside, inner.refused, u64::from(self.capacity.instances - inner.free.instances))
    }
}

impl Inner {
    /// Removes the first entry from the queue.
    fn pop(&mut self) {
        let Some(first) = self.waiting.pop_front() else { return };
        // The order is the same in both queues.
        self.returning.pop_front_if(|entry| entry.number == first.number);
    }

    /// How many wait.
    fn count(&self) -> usize {
        self.waiting.len().saturating_add_signed(-self.left)
    }

    fn seats(&mut self, allocation: Allocation) -> &mut PermitHolders {
        match allocation {
            Allocation::Pool => &mut self.pool,
            Allocation::OnDemand => &mut self.outside,
        }
    }
}

fn sit<P, E>(place: &Place<P, E>, seat: PermitHolder) {
    let mut body = place.body.open().expect("invariant: one that is admitted is in no queue yet");
    body.as_mut().expect("invariant: an occupied place has a body").standing = Standing::Seated(seat);
}

fn refuse<P, E>(place: &Place<P, E>) {
    let mut body = place.body.open().expect("invariant: one that is refused is in no queue yet");
    body.as_mut().expect("invariant: an occupied place has a body").standing = Standing::Refused;
}

impl Entry {
    /// Whether the process still waits by this entry.
    fn waits<P, E>(&self, place: &Place<P, E>) -> bool {
        place.word.load().waits_for_permit(self.slot.generation) && place.entry.load(Ordering::Relaxed) == self.number
    }
}

fn subtract(from: Permit, what: Permit) -> Option<Permit> {
    Some(Permit {
        instances: from.instances.checked_sub(what.instances)?,
        core_instances: from.core_instances.checked_sub(what.core_instances)?,
        memories: from.memories.checked_sub(what.memories)?,
        tables: from.tables.checked_sub(what.tables)?,
        bytes: from.bytes,
    })
}

fn add(to: Permit, what: Permit) -> Permit {
    Permit {
        instances: to.instances + what.instances,
        core_instances: to.core_instances + what.core_instances,
        memories: to.memories + what.memories,
        tables: to.tables + what.tables,
        bytes: to.bytes,
    }
}
