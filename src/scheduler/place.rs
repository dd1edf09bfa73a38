//! A place of the slot table: the state word, the event queue and the process itself.
//!
//! **The event queue** has many producers and one consumer. It is a vector behind a lock that is
//! held for one push or one take; the consumer takes all of it. WAKE and MAIL in the word change
//! only under that lock, together with the queue, so they say exactly whether the queue is empty.
//! FIFO per sender follows: a sender's second post comes after its first one returned, and finds
//! the process woken (the first event travelled with it and is first in the batch) or goes behind
//! the first.
//!
//! **The first event travels with the process.** A post that wakes a process whose queue is empty
//! needs no queue at all: the event goes to the run queue beside the slot. Every hop of a ping-pong
//! does so, and saves two locked sections.
//!
//! *Rejected*: a lock-free list of nodes. Without unsafe code it allocates per event (crossbeam's
//! `SegQueue` a block of 31), and it saves only one uncontended lock (12 ns, two atomic operations,
//! against one), on the slow path only. *Rejected*: a spinning lock, whose unlock would be a plain
//! store (6 ns): a producer that loses its core inside would make the others spin.

use super::admission::Joins;
use super::buffers::Buffers;
use super::permit_holders::PermitHolder;
use super::state::{Before, Claim, Heard, Started, Word};
use super::{Permitted, Slot, Wake};
use crate::base::sync::{AtomicU64, Exclusive, Mutex, Ordering};
use crate::process::Permit;

/// A process and what the scheduler stores beside it.
#[derive(Debug)]
pub(crate) struct Body<P> {
    /// The process.
    pub(crate) process: P,
    /// The share of the pool that it needs.
    pub(crate) permit: Permit,
    /// Its standing with that permit.
    pub(crate) standing: Standing,
}

/// How a process stands with the permit that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It needs none.
    Free,
    /// It has it, and this seat among the holders.
    Seated(PermitHolder),
    /// It has none, and joins the admission queue as this kind.
    Waits(Joins),
    /// It was refused, and can have none.
    Refused,
}

impl Standing {
    pub(crate) fn seat(self) -> Option<PermitHolder> {
        if let Self::Seated(seat) = self { Some(seat) } else { None }
    }

    /// Whether the process may act as the holder of a permit.
    #[inline]
    pub(crate) fn permitted(self) -> Permitted {
        match self {
            Self::Free | Self::Seated(_) => Permitted::Yes,
            Self::Waits(_) => Permitted::NotNow,
            Self::Refused => Permitted::Never,
        }
    }
}

/// The outcome of a post.
#[derive(Debug)]
#[must_use]
pub(crate) enum Posted<E> {
    /// The process has ended; the event is returned.
    Gone(E),
    /// The process will get it in time.
    Pending,
    /// The caller woke it and enqueues it, with the event if that is not in the event queue.
    Woken(Option<E>),
    /// The caller woke it and joins it to the admission queue.
    Admit,
}

/// A place of the table. Lookups write nothing to it.
///
/// Aligned to a cache line, so that neighbours do not slow each other.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Place<P, E> {
    pub(crate) word: Word,
    events: Mutex<Vec<E>>,
    /// Opened only by the worker that moved the word to Running or Evicting.
    pub(crate) body: Exclusive<Option<Body<P>>>,
    /// When the holder of a permit began to wait; `u64::MAX` if it cannot be evicted. Written by
    /// the worker that steps it, read by a search for a holder to evict: a stale value costs
    /// nothing but the order.
    pub(crate) since: AtomicU64,
    /// The number of its entry in the admission queue, if it has one. Under that queue's lock.
    pub(crate) entry: AtomicU64,
}

impl<P, E> Place<P, E> {
    pub(crate) fn new() -> Self {
        Self {
            word: Word::new(),
            events: Mutex::new(Vec::new()),
            body: Exclusive::new(None),
            since: AtomicU64::new(u64::MAX),
            entry: AtomicU64::new(0),
        }
    }

    /// Puts a process into a free place, which [`Self::next_slot`] names.
    pub(crate) fn occupy(&self, body: Body<P>, before: Before) {
        let permitted = body.standing.permitted();
        *self.body.open().expect("invariant: a free place is open to its new owner") = Some(body);
        self.since.store(u64::MAX, Ordering::Relaxed);
        self.word.occupy(permitted, before);
    }

    /// Posts an event to the process.
    #[inline]
    pub(crate) fn post(&self, generation: u32, event: E, wake: Wake, buffers: Option<&mut Buffers<E>>) -> Posted<E> {
        match self.word.claim(generation, wake) {
            Claim::Gone => Posted::Gone(event),
            Claim::Woken => Posted::Woken(Some(event)),
            Claim::Queue => self.queue(generation, event, wake, buffers),
        }
    }

    fn queue(&self, generation: u32, event: E, wake: Wake, buffers: Option<&mut Buffers<E>>) -> Posted<E> {
        let mut events = self.events.lock();
        let heard = self.word.notify(generation, wake);
        if heard == Heard::Gone {
            return Posted::Gone(event);
        }
        match buffers {
            Some(buffers) => buffers.push(&mut events, event),
            None => events.push(event),
        }
        match heard {
            Heard::Woken => Posted::Woken(None),
            Heard::Admit => Posted::Admit,
            Heard::Gone | Heard::Pending | Heard::Left => Posted::Pending,
        }
    }

    /// A worker takes the process; `batch` gets its pending events. `first` travelled with it and
    /// is older than the whole queue.
    #[inline]
    pub(crate) fn start(&self, first: Option<E>, batch: &mut Vec<E>, buffers: &mut Buffers<E>) -> Started {
        batch.extend(first);
        if let Some(started) = self.word.start_quiet() {
            return started;
        }
        let mut events = self.events.lock();
        let started = self.word.start();
        let mut taken = std::mem::take(&mut *events);
        drop(events);
        if batch.is_empty() {
            std::mem::swap(batch, &mut taken);
        } else {
            let len = batch.len() + taken.len();
            if batch.capacity() < len {
                let mut larger = buffers.take(len);
                larger.append(batch);
                buffers.give(std::mem::replace(batch, larger));
            }
            batch.append(&mut taken);
        }
        buffers.give(taken);
        started
    }

    /// The process has ended: returns the events that it never got.
    pub(crate) fn complete(&self) -> Vec<E> {
        if self.word.complete_quiet() {
            return Vec::new();
        }
        let mut events = self.events.lock();
        self.word.complete();
        std::mem::take(&mut *events)
    }

    /// The slot that the next tenant will have, for the owner of the free place.
    pub(crate) fn next_slot(&self, index: u32) -> Slot {
        Slot { index, generation: self.word.load().generation().wrapping_add(1) }
    }
}
