//! Admission, turned by hand: what workers say comes in any order.

use super::admission::{Admission, Duty, Joins};
use super::buffers::Buffers;
use super::permit_holders::PermitHolder;
use super::place::{Body, Place, Posted, Standing};
use super::slots::{FreeSlots, Table};
use super::state::{Before, Eviction, Finished, Heard, State};
use super::{Interrupt, Next, Slot, Wake};
use crate::base::Monotonic;
use crate::process::{Budget, Permit};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn permits(count: u32) -> Permit {
    Permit { instances: count, core_instances: count, memories: count, tables: count, bytes: 0 }
}

struct Rig {
    table: Table<(), ()>,
    free: FreeSlots,
    admission: Admission,
}

impl Rig {
    fn new(capacity: u32) -> Self {
        Self::with_outside(capacity, None)
    }

    /// With room for so many bytes outside the pool.
    fn with_outside(capacity: u32, room: Option<u64>) -> Self {
        let outside = room.map(|room| Arc::new(Budget::new(room)));
        Self {
            table: Table::new(1 << 10),
            free: FreeSlots::default(),
            admission: Admission::new(permits(capacity), outside),
        }
    }

    fn place(&self, slot: Slot) -> &Place<(), ()> {
        self.table.get(slot.index).unwrap()
    }

    fn enter(&mut self, standing: impl FnOnce(&Admission, Slot) -> Standing) -> Slot {
        let index = self.free.take(&self.table).unwrap();
        let slot = self.table.get(index).unwrap().next_slot(index);
        let standing = standing(&self.admission, slot);
        self.place(slot).occupy(Body { process: (), permit: permits(1), standing }, Before::Nothing);
        slot
    }

    /// One that has its permit, and runs.
    fn holder(&mut self) -> (Slot, PermitHolder) {
        let slot = self.enter(|admission, slot| Standing::Seated(admission.take(slot, permits(1)).unwrap()));
        self.run(slot);
        let seat = self.place(slot).body.open().unwrap().as_ref().unwrap().standing.seat().unwrap();
        (slot, seat)
    }

    fn newcomer(&mut self, permit: Permit) -> Slot {
        let index = self.free.take(&self.table).unwrap();
        let place = self.table.get(index).unwrap();
        let (slot, joins) = (place.next_slot(index), Joins::Newcomer);
        let enters = || {
            place.occupy(Body { process: (), permit, standing: Standing::Waits(joins) }, Before::Nothing);
            true
        };
        assert!(self.admission.join(place, slot, permit, joins, enters));
        slot
    }

    fn run(&self, slot: Slot) {
        let _ = self.place(slot).start(None, &mut Vec::new(), &mut Buffers::new());
    }

    /// It waits, and nobody was told so yet.
    fn waits(&self, slot: Slot, since: u64) {
        self.place(slot).since.store(since, Relaxed);
        assert_eq!(self.place(slot).word.finish(Next::Blocked), Finished::Waits);
    }

    fn wakes(&self, slot: Slot) {
        assert!(matches!(self.place(slot).post(slot.generation, (), Wake::Event, None), Posted::Woken(_)));
        self.run(slot);
    }

    fn says(&self, (slot, seat): (Slot, PermitHolder), since: u64) {
        self.admission.comes_to_rest(&self.table, slot, seat, Monotonic(since));
    }

    fn next(&self) -> Duty {
        self.admission.next(&self.table)
    }

    /// One that is Evicting gives its permit up, or does not.
    fn evicted(&self, (slot, seat): (Slot, PermitHolder), eviction: Eviction) {
        if eviction == Eviction::Refused {
            self.place(slot).since.store(u64::MAX, Relaxed);
        }
        assert_eq!(self.place(slot).word.evicted(eviction), Heard::Pending);
        self.admission.eviction_ended(permits(1), seat, eviction);
    }
}

#[test]
fn a_holder_is_found_although_an_older_wait_of_it_is_told_after_a_younger_one() {
    let mut rig = Rig::new(2);
    let (one, other) = (rig.holder(), rig.holder());
    rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::None, "both run");
    // The worker that put it back at 10 is slow to say so; at another it has run meanwhile, and
    // waits again.
    rig.waits(one.0, 10);
    rig.wakes(one.0);
    rig.waits(one.0, 20);
    rig.says(one, 20);
    rig.says(one, 10);
    // The other one waits and runs often, while nobody looks after the queue.
    for since in 30..60 {
        rig.waits(other.0, since);
        rig.says(other, since);
        rig.wakes(other.0);
    }
    assert_eq!(rig.place(one.0).word.load().state(), State::Blocked);
    assert_eq!(rig.next(), Duty::Evict(one.0));
}

#[test]
fn a_wait_that_is_told_after_its_holder_has_ended_is_nobodys() {
    let mut rig = Rig::new(2);
    let (one, other) = (rig.holder(), rig.holder());
    rig.newcomer(permits(2));
    assert_eq!(rig.next(), Duty::None, "both run");
    rig.waits(one.0, 10);
    rig.wakes(one.0);
    assert!(rig.place(one.0).complete().is_empty());
    rig.admission.release(permits(1), one.1);
    rig.says(one, 10);
    rig.waits(other.0, 10);
    rig.says(other, 10);
    assert_eq!(rig.next(), Duty::Evict(other.0));
}

/// One that has left the queue by itself, since it was asked to end, and wants its permit all the
/// same.
fn leaves(rig: &Rig, slot: Slot) {
    assert_eq!(rig.place(slot).word.interrupt(slot.generation, Interrupt::Cancel), Heard::Left);
    rig.admission.left(&rig.table);
    rig.run(slot);
    assert_eq!(rig.place(slot).word.finish_without_permit(Next::Ready), Heard::Admit);
}

#[test]
fn a_wait_that_is_told_late_says_nothing_of_what_came_after_it() {
    let mut rig = Rig::with_outside(1, Some(100));
    let holder = rig.holder();
    let back = rig.newcomer(permits(1));
    leaves(&rig, back);
    let enters = || rig.place(back).word.queue() == Heard::Admit;
    assert!(rig.admission.join(rig.place(back), back, permits(1), Joins::Evicted, enters));
    assert_eq!(rig.next(), Duty::None, "the holder runs");
    // It waits, and runs again for a whole slice, before it is told that it waits.
    rig.waits(holder.0, 10);
    rig.wakes(holder.0);
    rig.place(holder.0).since.store(20, Relaxed);
    rig.admission.used_slice(holder.1);
    rig.says(holder, 10);
    assert_eq!(rig.next(), Duty::Enqueue(back), "the holder is long in its step");
}

#[test]
fn one_that_is_about_to_join_the_queue_again_is_its_workers() {
    let mut rig = Rig::new(1);
    let (one, seat) = rig.holder();
    let late = rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::None);
    leaves(&rig, late);
    assert!(rig.place(one).complete().is_empty());
    rig.admission.release(permits(1), seat);
    assert_eq!(rig.next(), Duty::None, "it is not in the queue: its worker is about to open its body");
}

#[test]
fn one_that_joins_the_queue_again_goes_behind() {
    let mut rig = Rig::new(1);
    let (one, seat) = rig.holder();
    let late = rig.newcomer(permits(1));
    leaves(&rig, late);
    let next = rig.newcomer(permits(1));
    let enters = || rig.place(late).word.queue() == Heard::Admit;
    assert!(rig.admission.join(rig.place(late), late, permits(1), Joins::Newcomer, enters));
    assert_eq!(rig.admission.waiting(), 2);
    assert!(rig.place(one).complete().is_empty());
    rig.admission.release(permits(1), seat);
    assert_eq!(rig.next(), Duty::Enqueue(next));
    assert_eq!((rig.next(), rig.admission.waiting()), (Duty::None, 1));
}

#[test]
fn one_that_is_to_end_does_not_join() {
    let mut rig = Rig::new(1);
    rig.holder();
    let late = rig.newcomer(permits(1));
    leaves(&rig, late);
    assert_eq!(rig.place(late).word.interrupt(late.generation, Interrupt::End), Heard::Pending);
    let enters = || rig.place(late).word.queue() == Heard::Admit;
    assert!(!rig.admission.join(rig.place(late), late, permits(1), Joins::Newcomer, enters));
    assert_eq!((rig.next(), rig.admission.waiting(), rig.admission.entries()), (Duty::None, 0, 0));
}

#[test]
fn who_has_left_the_queue_is_not_counted_and_takes_no_room() {
    let mut rig = Rig::new(1);
    rig.holder();
    rig.newcomer(permits(1));
    for _ in 0..900 {
        let slot = rig.newcomer(permits(1));
        let _ = rig.place(slot).word.interrupt(slot.generation, Interrupt::Cancel);
        rig.admission.left(&rig.table);
        assert_eq!(rig.admission.waiting(), 1);
    }
    assert!(rig.admission.entries() < 200);
    assert_eq!(rig.next(), Duty::None);
    assert_eq!(rig.admission.waiting(), 1);
}

#[test]
fn who_comes_while_somebody_waits_goes_behind() {
    let mut rig = Rig::new(2);
    let one = rig.holder();
    let large = rig.newcomer(permits(2));
    assert_eq!(rig.next(), Duty::None, "one of two permits is free");
    assert_eq!(rig.admission.take(one.0, permits(1)), None, "it is not its turn");
    rig.newcomer(permits(1));
    rig.admission.release(permits(1), one.1);
    assert_eq!(rig.next(), Duty::Enqueue(large));
}

#[test]
fn nobody_is_evicted_for_one_that_has_left_the_queue() {
    let mut rig = Rig::new(2);
    let one = rig.holder();
    rig.waits(one.0, 10);
    let large = rig.newcomer(permits(2));
    let small = rig.newcomer(permits(1));
    let _ = rig.place(large).word.interrupt(large.generation, Interrupt::End);
    assert_eq!(rig.next(), Duty::Enqueue(small), "also where it has not said so yet");
}

/// Those that waited when the pressure began by the time since when, whoever begins to wait later
/// behind them.
#[test]
fn who_has_waited_longest_is_evicted_first() {
    let mut rig = Rig::new(4);
    let holders: Vec<_> = (0..4).map(|_| rig.holder()).collect();
    for (holder, since) in holders.iter().zip([20, 30, 10]) {
        rig.waits(holder.0, since);
    }
    for _ in &holders {
        rig.newcomer(permits(1));
    }
    let mut evicted = Vec::new();
    for turn in 0..4 {
        let Duty::Evict(slot) = rig.next() else { panic!("{turn} were evicted for four") };
        evicted.push(holders.iter().position(|holder| holder.0 == slot).unwrap());
        if turn == 0 {
            rig.waits(holders[3].0, 40);
            rig.says(holders[3], 40);
        }
    }
    assert_eq!(evicted, [2, 0, 1, 3]);
}

#[test]
fn who_has_run_since_has_not_waited_longest() {
    let mut rig = Rig::new(2);
    let (one, other) = (rig.holder(), rig.holder());
    rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::None, "both run");
    rig.waits(one.0, 10);
    rig.says(one, 10);
    rig.waits(other.0, 20);
    rig.says(other, 20);
    rig.wakes(one.0);
    rig.waits(one.0, 30);
    rig.says(one, 30);
    assert_eq!(rig.next(), Duty::Evict(other.0));
}

#[test]
fn no_more_are_evicted_than_wait() {
    let mut rig = Rig::new(2);
    let holders = [rig.holder(), rig.holder()];
    for holder in holders {
        rig.waits(holder.0, 10);
    }
    let newcomer = rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::Evict(holders[0].0));
    assert_eq!(rig.next(), Duty::None, "what it holds is on its way");
    rig.evicted(holders[0], Eviction::Done);
    assert_eq!(rig.next(), Duty::Enqueue(newcomer));
    assert_eq!((rig.next(), rig.admission.evictions()), (Duty::None, 1));
}

/// One that runs will end, or wait, and may give way then, although it has refused before.
#[test]
fn nobody_goes_outside_the_pool_while_a_holder_runs() {
    let mut rig = Rig::with_outside(1, Some(100));
    let holder = rig.holder();
    rig.waits(holder.0, 10);
    let newcomer = rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::Evict(holder.0));
    rig.evicted(holder, Eviction::Refused);
    rig.wakes(holder.0);
    assert_eq!(rig.next(), Duty::None, "the holder runs");
    rig.waits(holder.0, 20);
    rig.says(holder, 20);
    assert_eq!(rig.next(), Duty::Evict(holder.0));
    rig.evicted(holder, Eviction::Refused);
    assert_eq!(rig.next(), Duty::Enqueue(newcomer), "nobody gives way");
    let (outside, refused, _) = rig.admission.beyond_the_pool();
    assert_eq!((outside, refused), (1, 0));
}

#[test]
fn what_may_help_one_that_waits_calls_attention() {
    let mut rig = Rig::new(3);
    let holders = [rig.holder(), rig.holder(), rig.holder()];
    let calls = |rig: &Rig| rig.admission.attend();
    for _ in 0..3 {
        rig.newcomer(permits(1));
    }
    assert!(calls(&rig), "one joins the queue");
    assert_eq!((rig.next(), calls(&rig)), (Duty::None, false));
    for (holder, since) in holders.iter().zip([10, 20]) {
        rig.waits(holder.0, since);
        rig.says(*holder, since);
        assert!(calls(&rig), "a holder begins to wait");
        assert_eq!((rig.next(), calls(&rig)), (Duty::Evict(holder.0), false));
    }
    rig.evicted(holders[0], Eviction::Done);
    assert!(calls(&rig), "a permit was taken away");
    rig.evicted(holders[1], Eviction::Refused);
    assert!(calls(&rig), "a holder has refused");
    assert!(rig.place(holders[2].0).complete().is_empty());
    rig.admission.release(permits(1), holders[2].1);
    assert!(calls(&rig), "a holder has ended");
    rig.admission.left(&rig.table);
    assert!(calls(&rig), "one has left the queue");
}
