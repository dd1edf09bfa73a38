//! Admission, turned by hand: what workers say comes in any order.

use super::admission::{Admission, Duty, Joins};
use super::buffers::Buffers;
use super::place::{Body, Place, Posted, Standing};
use super::seats::Seat;
use super::slots::{FreeSlots, Table};
use super::state::{Before, Finished, Heard, State};
use super::{Interrupt, Next, Slot, Wake};
use crate::process::{Micros, Permit};
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
        Self {
            table: Table::new(1 << 10),
            free: FreeSlots::default(),
            admission: Admission::new(permits(capacity), None),
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
    fn holder(&mut self) -> (Slot, Seat) {
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

    fn says(&self, (slot, seat): (Slot, Seat), since: u64) {
        self.admission.comes_to_rest(&self.table, slot, seat, Micros(since));
    }

    fn next(&self) -> Duty {
        self.admission.next(&self.table)
    }
}

#[test]
fn a_holder_is_found_although_an_older_wait_of_it_is_told_after_a_younger_one() {
    let mut rig = Rig::new(2);
    let (one, other) = (rig.holder(), rig.holder());
    rig.newcomer(permits(1));
    assert_eq!(rig.next(), Duty::None, "both run");
    // The worker that put it back at 10 is slow to say so; at another it has run meanwhile, and waits again.
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

/// One that has left the queue by itself, since it was asked to end, and wants its permit all the same.
fn leaves(rig: &Rig, slot: Slot) {
    assert_eq!(rig.place(slot).word.interrupt(slot.generation, Interrupt::Cancel), Heard::Left);
    rig.admission.left(&rig.table);
    rig.run(slot);
    assert_eq!(rig.place(slot).word.finish_without_permit(Next::Ready), Heard::Admit);
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
