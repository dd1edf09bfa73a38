//! Admission: who holds a permit, who waits for one, and who has to give one up.
//!
//! A permit is what one instance takes of the pool. A process that needs one and finds none joins the admission queue, and is in no
//! run queue. While somebody waits, the holder that has been Blocked or Idle longest is evicted; where every holder is running or
//! ready, the newcomer waits. Without eviction a hundred parents that wait for children, on a pool of a hundred, would never end.
//!
//! - **A1** permits are given in the order of the queue; who comes while somebody waits goes behind.
//! - **A2** what is free plus what the holders hold is the capacity.
//! - **A3** while somebody waits (`pressed`), every holder that begins to wait is in `victims`, oldest first, behind those that waited when
//!   the pressure began. An entry whose holder has run since is stale, and is recognised by its time.
//! - **A4** whoever changes something that may help one who waits sets `attention`; the next worker that begins a turn looks after it. No
//!   snapshot is taken within somebody else's step.
//!
//! A process without a permit never comes here.

use super::Slot;
use super::place::Place;
use super::slots::Table;
use super::state::State;
use crate::base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use crate::process::{Micros, Permit};
use std::collections::VecDeque;

/// What [`Admission::next`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Duty {
    /// It has its permit and is Ready: enqueue it.
    Enqueue(Slot),
    /// It is Evicting: take its permit away.
    Evict(Slot),
    /// Nothing can be done now.
    None,
}

#[derive(Debug, Default)]
struct Seats {
    holders: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl Seats {
    fn take(&mut self, slot: Slot) -> u32 {
        if let Some(seat) = self.free.pop() {
            self.holders[seat as usize] = Some(slot);
            return seat;
        }
        self.holders.push(Some(slot));
        self.holders.len() as u32 - 1
    }

    fn give(&mut self, seat: u32) {
        self.holders[seat as usize] = None;
        self.free.push(seat);
    }
}

#[derive(Debug)]
struct Inner {
    free: Permit,
    waiting: VecDeque<(Slot, Permit)>,
    seats: Seats,
    /// Holders that wait, with the time since when: oldest first.
    victims: VecDeque<(u64, Slot)>,
    /// Whether the holders were looked through since the pressure began.
    searched: bool,
    /// Evictions that were asked for and are not over.
    evicting: usize,
}

/// The permits and who waits for them.
#[derive(Debug)]
pub(crate) struct Admission {
    capacity: Permit,
    inner: Mutex<Inner>,
    /// Something can perhaps be done for one who waits. Set after the change, taken before the look.
    attention: AtomicBool,
    /// Somebody waits. Written under the lock; read by workers without it, see [`Self::begins_to_wait`].
    pressed: AtomicBool,
    waited: AtomicU64,
    evictions: AtomicU64,
    /// As long as the admission queue was when the lock was last given up.
    len: AtomicUsize,
}

impl Admission {
    pub(crate) fn new(capacity: Permit) -> Self {
        let inner = Inner {
            free: capacity,
            waiting: VecDeque::new(),
            seats: Seats::default(),
            victims: VecDeque::new(),
            searched: false,
            evicting: 0,
        };
        Self {
            capacity,
            inner: Mutex::new(inner),
            attention: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            len: AtomicUsize::new(0),
        }
    }

    /// Whether the whole pool is enough for it.
    pub(crate) fn can_ever_admit(&self, permit: Permit) -> bool {
        subtract(self.capacity, permit).is_some()
    }

    /// A permit for a newcomer that nobody has to wait for; gives its seat.
    pub(crate) fn take(&self, slot: Slot, permit: Permit) -> Option<u32> {
        let mut inner = self.inner.lock();
        if !inner.waiting.is_empty() {
            return None;
        }
        inner.free = subtract(inner.free, permit)?;
        Some(inner.seats.take(slot))
    }

    /// A process that is Admitting goes to the end of the queue.
    pub(crate) fn join(&self, slot: Slot, permit: Permit) {
        let mut inner = self.inner.lock();
        inner.waiting.push_back((slot, permit));
        self.len.store(inner.waiting.len(), Ordering::Relaxed);
        self.pressed.store(true, Ordering::Release);
        self.waited.fetch_add(1, Ordering::Relaxed);
        drop(inner);
        self.call_attention();
    }

    /// A permit comes back.
    pub(crate) fn release(&self, permit: Permit, seat: u32) {
        let mut inner = self.inner.lock();
        inner.free = add(inner.free, permit);
        inner.seats.give(seat);
        let is_awaited = !inner.waiting.is_empty();
        drop(inner);
        if is_awaited {
            self.call_attention();
        }
    }

    /// An eviction that [`Self::next`] asked for is over.
    pub(crate) fn eviction_ended(&self, evicted: bool) {
        self.inner.lock().evicting -= 1;
        self.evictions.fetch_add(u64::from(evicted), Ordering::Relaxed);
        self.call_attention();
    }

    /// The holder of a permit is Blocked or Idle since `now`: its word says so already.
    pub(crate) fn begins_to_wait(&self, slot: Slot, now: Micros) {
        // Partner: the fence in `next`. Either we see the pressure, or the search there sees that we wait.
        fence(Ordering::SeqCst);
        if self.pressed.load(Ordering::Acquire) {
            self.inner.lock().victims.push_back((now.0, slot));
            self.call_attention();
        }
    }

    /// Whether a worker should look after the queue. Cheap: one load of a line that seldom changes.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.attention.load(Ordering::Relaxed)
    }

    /// An exchange, as its partner in [`Self::attend`] is one: loom lets two exchanges around a plain store both miss it.
    fn call_attention(&self) {
        self.attention.swap(true, Ordering::AcqRel);
    }

    /// Takes the attention back, before [`Self::next`] is called until it gives [`Duty::None`].
    pub(crate) fn attend(&self) -> bool {
        self.attention.swap(false, Ordering::AcqRel)
    }

    /// What is to be done next for those who wait.
    pub(crate) fn next<P, E>(&self, table: &Table<P, E>) -> Duty {
        let mut inner = self.inner.lock();
        let duty = inner.look(table);
        self.len.store(inner.waiting.len(), Ordering::Relaxed);
        if inner.waiting.is_empty() {
            self.pressed.store(false, Ordering::Release);
            inner.victims.clear();
            inner.searched = false;
        }
        duty
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
}

impl Inner {
    /// Admits the first in the queue, or says whose permit it is to have.
    fn look<P, E>(&mut self, table: &Table<P, E>) -> Duty {
        while let Some((slot, permit)) = self.waiting.front().copied() {
            let place = place(table, slot);
            let Some(free) = subtract(self.free, permit) else {
                if is_admitting(place, slot) {
                    return self.victim(table);
                }
                self.waiting.pop_front();
                continue;
            };
            self.waiting.pop_front();
            // One that was interrupted before it started does not wait any more.
            if place.word.admit(slot.generation) {
                self.free = free;
                let seat = self.seats.take(slot);
                let mut body = place.body.open().expect("invariant: one that is admitted is in no queue yet");
                body.as_mut().expect("invariant: an occupied place has a body").seat = Some(seat);
                return Duty::Enqueue(slot);
            }
        }
        Duty::None
    }

    fn victim<P, E>(&mut self, table: &Table<P, E>) -> Duty {
        if self.evicting >= self.waiting.len() {
            return Duty::None;
        }
        if !self.searched {
            self.searched = true;
            // Partner: the fence in `begins_to_wait`.
            fence(Ordering::SeqCst);
            self.victims.extend(self.seats.holders.iter().flatten().filter_map(|slot| {
                let place = place(table, *slot);
                let word = place.word.load();
                let waits =
                    matches!(word.state(), State::Blocked | State::Idle) && word.generation() == slot.generation;
                waits.then(|| (place.since.load(Ordering::Relaxed), *slot))
            }));
            self.victims.make_contiguous().sort_unstable_by_key(|(since, slot)| (*since, slot.index));
        }
        while let Some((since, slot)) = self.victims.pop_front() {
            let place = place(table, slot);
            let is_as_then = since != u64::MAX && place.since.load(Ordering::Relaxed) == since;
            if is_as_then && place.word.evict(slot.generation) {
                self.evicting += 1;
                return Duty::Evict(slot);
            }
        }
        Duty::None
    }
}

fn place<P, E>(table: &Table<P, E>, slot: Slot) -> &Place<P, E> {
    table.get(slot.index).expect("invariant: a slot names a place of the table")
}

fn is_admitting<P, E>(place: &Place<P, E>, slot: Slot) -> bool {
    let word = place.word.load();
    word.generation() == slot.generation && word.state() == State::Admitting
}

fn subtract(from: Permit, what: Permit) -> Option<Permit> {
    Some(Permit {
        instances: from.instances.checked_sub(what.instances)?,
        core_instances: from.core_instances.checked_sub(what.core_instances)?,
        memories: from.memories.checked_sub(what.memories)?,
        tables: from.tables.checked_sub(what.tables)?,
    })
}

fn add(to: Permit, what: Permit) -> Permit {
    Permit {
        instances: to.instances + what.instances,
        core_instances: to.core_instances + what.core_instances,
        memories: to.memories + what.memories,
        tables: to.tables + what.tables,
    }
}
