//! Admission: one that waits for a permit gets it, however its coming meets the holder's going to
//! rest.

use super::super::admission::{Admission, Duty, Joins};
use super::super::buffers::Buffers;
use super::super::permit_holders::PermitHolder;
use super::super::place::{Body, Standing};
use super::super::slots::{FreeSlots, Table};
use super::super::state::{Before, Eviction, Finished, Heard, State};
use super::super::{Next, Pause, Slot};
use crate::base::Monotonic;
use crate::process::{Budget, Permit};
use loom::sync::Arc;
use loom::thread;

const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 1 };

struct Model {
    table: Table<(), ()>,
    admission: Admission,
    /// Whether holders let themselves be evicted.
    gives_way: bool,
}

impl Model {
    fn place(&self, slot: Slot) -> &super::super::place::Place<(), ()> {
        self.table.get(slot.index).unwrap()
    }

    /// What a worker does at a turn's beginning.
    fn attend(&self) {
        if !self.admission.attend() {
            return;
        }
        loop {
            match self.admission.next(&self.table) {
                Duty::None => return,
                Duty::Enqueue(_) => {}
                Duty::Evict(slot) => {
                    let place = self.place(slot);
                    let seat = place.body.open().unwrap().as_ref().unwrap().standing.seat().unwrap();
                    let eviction = if self.gives_way {
                        place.body.open().unwrap().as_mut().unwrap().standing = Standing::Waits(Joins::Evicted);
                        Eviction::Done
                    } else {
                        place.since.store(u64::MAX, loom::sync::atomic::Ordering::Relaxed);
                        Eviction::Refused
                    };
                    assert_eq!(place.word.evicted(eviction), Heard::Pending);
                    self.admission.eviction_ended(ONE, seat, eviction);
                }
            }
        }
    }
}

fn check(gives_way: bool, rests: fn(&Model, Slot)) {
    loom::model(move || {
        // Who does not give way fills the pool, and there is room for one outside.
        let outside = (!gives_way).then(|| std::sync::Arc::new(Budget::new(1)));
        let model = Arc::new(Model { table: Table::new(4), admission: Admission::new(ONE, outside), gives_way });
        let mut free = FreeSlots::default();
        let mut slot = |seat: fn(&Model, Slot) -> Option<PermitHolder>| {
            let index = free.take(&model.table).unwrap();
            let slot = model.table.get(index).unwrap().next_slot(index);
            let seat = seat(&model, slot);
            let standing = seat.map_or(Standing::Waits(Joins::Newcomer), Standing::Seated);
            model.place(slot).occupy(Body { process: (), permit: ONE, standing }, Before::Nothing);
            slot
        };
        let holder = slot(|model, slot| model.admission.take(slot, ONE));
        let newcomer = slot(|_, _| None);
        let _ = model.place(holder).start(None, &mut Vec::new(), &mut Buffers::new());

        let theirs = Arc::clone(&model);
        let worker = thread::spawn(move || {
            rests(&theirs, holder);
            theirs.attend();
        });
        assert!(model.admission.join(model.place(newcomer), newcomer, ONE, Joins::Newcomer, || true));
        model.attend();
        worker.join().unwrap();
        // What the two workers left to their next turns.
        model.attend();
        model.attend();
        assert_eq!(model.place(newcomer).word.load().state(), State::Ready, "the newcomer was forgotten");
    });
}

fn comes_to_rest(model: &Model, holder: Slot, next: Next, finished: Finished) {
    let seat = model.place(holder).body.open().unwrap().as_ref().unwrap().standing.seat().unwrap();
    model.place(holder).since.store(5, loom::sync::atomic::Ordering::Relaxed);
    assert_eq!(model.place(holder).word.finish(next), finished);
    model.admission.comes_to_rest(&model.table, holder, seat, Monotonic(5));
}

fn begins_to_wait(model: &Model, holder: Slot) {
    comes_to_rest(model, holder, Next::Blocked, Finished::Waits);
}

fn is_held(model: &Model, holder: Slot, next: Next) {
    assert_eq!(model.place(holder).word.pause(holder.generation, Pause::On), Heard::Pending);
    comes_to_rest(model, holder, next, Finished::Held);
}

#[test]
fn a_newcomer_while_the_holder_begins_to_wait() {
    check(true, begins_to_wait);
}

#[test]
fn a_newcomer_while_a_holder_that_does_not_give_way_begins_to_wait() {
    check(false, begins_to_wait);
}

#[test]
fn a_newcomer_while_the_holder_is_held_by_a_pause() {
    check(true, |model, holder| is_held(model, holder, Next::Ready));
}

#[test]
fn a_newcomer_while_the_holder_is_held_by_a_pause_and_does_not_give_way() {
    check(false, |model, holder| is_held(model, holder, Next::Ready));
}

#[test]
fn a_newcomer_while_the_holder_is_held_in_the_middle_of_a_step() {
    check(false, |model, holder| is_held(model, holder, Next::Preempted));
}

#[test]
fn a_newcomer_while_the_holder_ends() {
    check(true, |model, holder| {
        let seat = model.place(holder).body.open().unwrap().take().unwrap().standing.seat().unwrap();
        assert!(model.place(holder).complete().is_empty());
        model.admission.release(ONE, seat);
    });
}
