//! The processes that hold permits of one allocation (the pool, or the memory outside it), and
//! which of them must give its permit up.

use super::Slot;
use super::place::Place;
use super::slots::Table;
use super::state::{Asked, Eviction, HELD, State, Value};
use crate::base::sync::{Ordering, fence};
use crate::process::Allocation;
use std::collections::VecDeque;

/// Where the holder of a permit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PermitHolder {
    pub(crate) allocation: Allocation,
    pub(super) index: u32,
}

/// The outcome of [`PermitHolders::give_way`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Reclaim {
    /// It is Evicting: take its permit away.
    Evict(Slot),
    /// A holder runs, is ready or is being evicted: it will end, come to rest, or give way.
    Wait,
    /// The same, but each holder that does not rest has used up a slice: it may take as long as its
    /// step has fuel.
    Busy,
    /// All holders rest, and none of them can be evicted; some of them only because they are
    /// paused.
    Held,
    /// All holders wait, and none of them can be evicted.
    Stuck,
}

/// A holder that rests: since when, at which seat, and who.
type Victim = (u64, u32, Slot);

#[derive(Debug)]
struct Holder {
    slot: Slot,
    /// It has refused to give its permit up or could not, and has perhaps not run since.
    refused: bool,
    /// It has used up a slice while a process waited, and was not seen to rest since.
    long: bool,
}

/// The holders of one allocation.
#[derive(Debug)]
pub(super) struct PermitHolders {
    allocation: Allocation,
    holders: Vec<Option<Holder>>,
    free: Vec<u32>,
    /// Holders that rest, with the start of their rest: oldest first.
    victims: VecDeque<Victim>,
    /// Holders that are marked as having refused.
    refused: usize,
    /// Holders that are marked as being long in their step, and not as having refused.
    long: usize,
    /// Whether the holders were searched since the pressure began.
    searched: bool,
    /// Evictions under way.
    evicting: usize,
}

impl PermitHolders {
    pub(super) fn new(allocation: Allocation) -> Self {
        Self {
            allocation,
            holders: Vec::new(),
            free: Vec::new(),
            victims: VecDeque::new(),
            refused: 0,
            long: 0,
            searched: false,
            evicting: 0,
        }
    }

    pub(super) fn take(&mut self, slot: Slot) -> PermitHolder {
        let holder = Some(Holder { slot, refused: false, long: false });
        let index = if let Some(index) = self.free.pop() {
            self.holders[index as usize] = holder;
            index
        } else {
            self.holders.push(holder);
            self.holders.len() as u32 - 1
        };
        PermitHolder { allocation: self.allocation, index }
    }

    pub(super) fn give(&mut self, seat: PermitHolder) {
        self.mark(seat.index, |holder| (holder.refused, holder.long) = (false, false));
        self.holders[seat.index as usize] = None;
        self.free.push(seat.index);
    }

    /// A holder came to rest while a process waits for a permit. It may have run since, or have
    /// ended: the report may be late. So the entry is only a hint, and the place has the truth.
    pub(super) fn comes_to_rest<P, E>(&mut self, table: &Table<P, E>, seat: PermitHolder, slot: Slot, since: u64) {
        if !self.searched {
            // The search will find it.
            return;
        }
        let victim = (since, seat.index, slot);
        if !self.is_as_then(table, victim) {
            return;
        }
        self.mark(seat.index, |holder| holder.long = false);
        if self.victims.len() > 2 * self.holders.len() {
            let mut victims = std::mem::take(&mut self.victims);
            victims.retain(|victim| self.is_as_then(table, *victim));
            self.victims = victims;
        }
        self.victims.push_back(victim);
    }

    /// A holder has used up a slice while a process waits for a permit. Returns whether that is
    /// new.
    pub(super) fn is_long(&mut self, seat: PermitHolder) -> bool {
        let before = self.long;
        self.mark(seat.index, |holder| (holder.refused, holder.long) = (false, true));
        self.long > before
    }

    /// Whether this holder still has its seat, and has not run since.
    fn is_as_then<P, E>(&self, table: &Table<P, E>, (since, index, slot): Victim) -> bool {
        let stands = self.holders[index as usize].as_ref().is_some_and(|holder| holder.slot == slot);
        stands && since != u64::MAX && place(table, slot).since.load(Ordering::Relaxed) == since
    }

    /// An eviction that [`Self::give_way`] asked for has ended.
    pub(super) fn eviction_ended(&mut self, seat: PermitHolder, eviction: Eviction) {
        self.evicting -= 1;
        match eviction {
            Eviction::Done => self.give(seat),
            Eviction::Refused => self.mark(seat.index, |holder| holder.refused = true),
        }
    }

    /// No process waits for a permit any more.
    pub(super) fn relax(&mut self) {
        self.victims.clear();
        self.searched = false;
        if self.long > 0 {
            self.long = 0;
            self.holders.iter_mut().flatten().for_each(|holder| holder.long = false);
        }
    }

    /// The holder that must give its permit up, while `waiting` processes wait for one.
    pub(super) fn give_way<P, E>(&mut self, table: &Table<P, E>, waiting: usize) -> Reclaim {
        if self.evicting >= waiting {
            return Reclaim::Wait;
        }
        if !std::mem::replace(&mut self.searched, true) {
            self.search(table);
        }
        while let Some(victim) = self.victims.pop_front() {
            let (_, index, slot) = victim;
            if !self.is_as_then(table, victim) {
                continue;
            }
            match place(table, slot).word.evict(slot.generation) {
                Asked::Yields => {
                    self.mark(index, |holder| holder.refused = false);
                    self.evicting += 1;
                    return Reclaim::Evict(slot);
                }
                Asked::Stays => self.mark(index, |holder| holder.refused = true),
                Asked::Moves => {}
            }
        }
        let holders = self.holders.len() - self.free.len();
        match self.evicting {
            0 if self.refused == holders => self.check_refusals(table),
            0 if self.refused + self.long == holders => Reclaim::Busy,
            _ => Reclaim::Wait,
        }
    }

    fn search<P, E>(&mut self, table: &Table<P, E>) {
        // Partner: the fence in `Admission::comes_to_rest`.
        fence(Ordering::SeqCst);
        for (index, holder) in (0..).zip(&self.holders) {
            let Some(holder) = holder else { continue };
            if at_rest(table, holder.slot).is_some() {
                let since = place(table, holder.slot).since.load(Ordering::Relaxed);
                self.victims.push_back((since, index, holder.slot));
            }
        }
        self.victims.make_contiguous().sort_unstable_by_key(|(since, _, slot)| (*since, slot.index));
    }

    /// Whether no holder, of all that have refused to give way, has run since. The refusal of one
    /// that has run is cleared: it is asked again when it rests. So each look either finds all
    /// unchanged or has less to do the next time.
    fn check_refusals<P, E>(&mut self, table: &Table<P, E>) -> Reclaim {
        let mut way = Reclaim::Stuck;
        for index in 0..self.holders.len() {
            let Some(holder) = &self.holders[index] else { continue };
            match stays(table, holder.slot) {
                Some(word) if word.has(HELD) => way = Reclaim::Held,
                Some(_) => {}
                None => {
                    self.mark(index as u32, |holder| (holder.refused, holder.long) = (false, false));
                    return Reclaim::Wait;
                }
            }
        }
        way
    }

    /// The outcome of [`Self::give_way`] according to the holders themselves: for an assertion.
    pub(super) fn foresee<P, E>(&self, table: &Table<P, E>, waiting: usize) -> Reclaim {
        if waiting <= self.evicting {
            return Reclaim::Wait;
        }
        let mut way = if self.evicting == 0 { Reclaim::Stuck } else { Reclaim::Wait };
        for Holder { slot, long, .. } in self.holders.iter().flatten() {
            match (at_rest(table, *slot), stays(table, *slot)) {
                (None, _) if *long && way != Reclaim::Wait => way = Reclaim::Busy,
                (None, _) => way = Reclaim::Wait,
                (Some(_), None) => return Reclaim::Evict(*slot),
                (_, Some(word)) if word.has(HELD) && way == Reclaim::Stuck => way = Reclaim::Held,
                _ => {}
            }
        }
        way
    }

    /// Changes the marks of a holder, and the numbers of those that have them.
    fn mark(&mut self, index: u32, change: impl FnOnce(&mut Holder)) {
        let Some(holder) = &mut self.holders[index as usize] else { return };
        let count = |holder: &Holder| (usize::from(holder.refused), usize::from(holder.long && !holder.refused));
        let before = count(holder);
        change(holder);
        let after = count(holder);
        self.refused = self.refused + after.0 - before.0;
        self.long = self.long + after.1 - before.1;
    }
}

/// The word of a holder that rests.
fn at_rest<P, E>(table: &Table<P, E>, slot: Slot) -> Option<Value> {
    let word = place(table, slot).word.load();
    (word.generation() == slot.generation && word.rests()).then_some(word)
}

/// The word of a holder that rests and cannot be evicted: it has refused to be and has not run
/// since, or is held in the middle of a step.
fn stays<P, E>(table: &Table<P, E>, slot: Slot) -> Option<Value> {
    // The word first: a thread that sees that it rests also sees since when.
    let word = at_rest(table, slot)?;
    let refused = || place(table, slot).since.load(Ordering::Relaxed) == u64::MAX;
    (word.state() == State::Preempted || refused()).then_some(word)
}

pub(super) fn place<P, E>(table: &Table<P, E>, slot: Slot) -> &Place<P, E> {
    table.get(slot.index).expect("invariant: a slot names a place of the table")
}
