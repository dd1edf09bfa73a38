//! Processes that a pause holds, and others that wait for their permits.

use super::{Actor, Rig, actor, permits, says};
use crate::process::{Budget, Permit};
use crate::scheduler::{Config, Interrupt, Next, Pause, Permitted, Port, Slot, Turn, Wake};
use std::sync::{Arc, Mutex};

/// One of everything, outside the pool a byte.
const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 1 };

/// The turns that a process had.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<Vec<Turn>>>);

impl Turns {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn last(&self) -> Turn {
        *self.0.lock().unwrap().last().unwrap()
    }

    /// A process that says this at its first step, and afterwards waits.
    fn says_first(&self, next: Next) -> Actor {
        self.says([next])
    }

    /// A process that says these one after the other, and then waits. It ends where it is
    /// cancelled.
    fn says(&self, nexts: impl IntoIterator<Item = Next, IntoIter: Send + 'static>) -> Actor {
        let (turns, mut nexts) = (self.clone(), nexts.into_iter());
        actor(move |_, turn, _| {
            turns.0.lock().unwrap().push(turn);
            match turn.interrupted {
                Some(Interrupt::Cancel | Interrupt::End) => Next::Complete,
                _ if turn.permitted == Permitted::Never => Next::Complete,
                _ => nexts.next().unwrap_or(Next::Blocked),
            }
        })
    }
}

impl Rig {
    fn with_room_outside(bytes: u64) -> Self {
        let outside = Some(Arc::new(Budget::new(bytes)));
        Self::with(Config { workers: 1, capacity: permits(1), outside, ..Config::default() })
    }

    fn pause(&mut self, slot: Slot, pause: Pause) {
        self.handle.pause(slot, pause);
    }

    /// One that is paused before its first slice is over, which ends so.
    fn held(&mut self, actor: Actor) -> Slot {
        let slot = self.spawn(actor, ONE);
        self.pause(slot, Pause::On);
        self.settle();
        slot
    }

    fn completed(&self) -> u64 {
        self.scheduler.stats().completed
    }
}

#[test]
fn one_that_is_held_gives_way_and_comes_back_when_it_is_resumed() {
    // Whether the newcomer is there before or after it is held.
    for is_first in [false, true] {
        let (mut rig, turns) = (Rig::new(1), Turns::default());
        let holder = rig.spawn(turns.says_first(Next::Ready), ONE);
        rig.pause(holder, Pause::On);
        if is_first {
            rig.spawn(says(Next::Complete), ONE);
        }
        rig.settle();
        if !is_first {
            rig.spawn(says(Next::Complete), ONE);
            rig.settle();
        }
        assert_eq!((rig.completed(), rig.scheduler.stats().evictions, turns.count()), (1, 1, 1), "{is_first}");
        rig.pause(holder, Pause::Off);
        rig.settle();
        assert_eq!((turns.count(), turns.last().permitted, turns.last().resumed), (2, Permitted::Yes, false));
    }
}

#[test]
fn who_was_held_longest_gives_way_first() {
    let mut rig = Rig::new(2);
    let turns = [Turns::default(), Turns::default()];
    let waits = rig.spawn(turns[0].says([]), ONE);
    rig.settle();
    rig.advance();
    let held = rig.held(turns[1].says_first(Next::Ready));
    rig.spawn(says(Next::Blocked), ONE);
    rig.settle();
    // Only the one that waited was evicted, and has to wait for a permit.
    rig.pause(held, Pause::Off);
    rig.settle();
    assert_eq!((turns[1].count(), rig.scheduler.stats().admissions_waited), (2, 1));
    rig.handle.post(waits, 1, Wake::Event);
    rig.settle();
    assert_eq!((turns[0].count(), rig.scheduler.stats().admissions_waited), (2, 2));
}

/// Without a permit of its own it stays where it is, whatever comes.
#[test]
fn what_comes_for_one_that_is_held_without_its_permit_waits_for_the_end_of_the_pause() {
    let (mut rig, turns) = (Rig::new(1), Turns::default());
    let held = rig.held(turns.says_first(Next::Ready));
    rig.spawn(says(Next::Complete), ONE);
    rig.settle();
    rig.handle.post(held, 1, Wake::Event);
    rig.handle.post(held, 2, Wake::Message);
    rig.handle.interrupt(held, Interrupt::Visit);
    rig.pause(held, Pause::On);
    rig.settle();
    assert_eq!((turns.count(), rig.scheduler.stats().admissions_waited), (1, 1));
    rig.pause(held, Pause::Off);
    rig.settle();
    assert_eq!(turns.count(), 2);
    assert_eq!((turns.last().permitted, turns.last().interrupted), (Permitted::Yes, Some(Interrupt::Visit)));
}

#[test]
fn who_is_held_without_its_permit_is_cancelled_or_ends_when_it_is_resumed() {
    for (why, permitted) in [(Interrupt::Cancel, Permitted::Yes), (Interrupt::End, Permitted::NotNow)] {
        for is_resumed_first in [false, true] {
            let (mut rig, turns) = (Rig::new(1), Turns::default());
            let held = rig.held(turns.says_first(Next::Ready));
            rig.spawn(says(Next::Complete), ONE);
            rig.settle();
            if is_resumed_first {
                rig.pause(held, Pause::Off);
                rig.handle.interrupt(held, why);
            } else {
                rig.handle.interrupt(held, why);
                rig.settle();
                assert_eq!(turns.count(), 1, "it is paused");
                rig.pause(held, Pause::Off);
            }
            rig.settle();
            assert_eq!((rig.completed(), rig.scheduler.stats().admitting), (2, 0), "{why:?}");
            assert_eq!((turns.last().permitted, turns.last().interrupted), (permitted, Some(why)));
        }
    }
}

/// It was evicted and interrupted, and is stepped for that without its permit: it does not join the
/// queue while it is paused.
#[test]
fn who_is_paused_in_a_step_without_its_permit_is_held_there() {
    let (mut rig, turns) = (Rig::new(1), Turns::default());
    let slot = rig.spawn(turns.says([Next::Blocked, Next::Ready]), ONE);
    rig.settle();
    rig.spawn(says(Next::Complete), ONE);
    rig.settle();
    rig.handle.interrupt(slot, Interrupt::Visit);
    rig.pause(slot, Pause::On);
    rig.settle();
    assert_eq!((turns.count(), turns.last().permitted), (2, Permitted::NotNow));
    assert_eq!(rig.scheduler.stats().admissions_waited, 1);
    rig.pause(slot, Pause::Off);
    rig.settle();
    assert_eq!((turns.count(), turns.last().permitted), (3, Permitted::Yes));
}

#[test]
fn one_that_refuses_while_it_is_held_keeps_its_permit_and_others_go_on_outside() {
    let (mut rig, turns) = (Rig::with_room_outside(1), Turns::default());
    let mut stays = turns.says([Next::Ready, Next::Ready]);
    stays.gives_way = false;
    let held = rig.held(stays);
    rig.spawn(says(Next::Complete), ONE);
    rig.settle();
    let stats = rig.scheduler.stats();
    assert_eq!((stats.completed, stats.evictions, stats.admitted_outside), (1, 0, 1));
    rig.pause(held, Pause::Off);
    rig.settle();
    assert_eq!((turns.count(), turns.last().permitted), (3, Permitted::Yes));
}

#[test]
fn one_that_is_held_in_the_middle_of_a_step_keeps_its_permit_and_others_go_on_outside() {
    for is_first in [false, true] {
        let (mut rig, turns) = (Rig::with_room_outside(1), Turns::default());
        let holder = rig.spawn(turns.says_first(Next::Preempted), ONE);
        rig.pause(holder, Pause::On);
        if is_first {
            rig.spawn(says(Next::Complete), ONE);
        }
        rig.settle();
        if !is_first {
            rig.spawn(says(Next::Complete), ONE);
            rig.settle();
        }
        let stats = rig.scheduler.stats();
        assert_eq!((stats.completed, stats.evictions, stats.admitted_outside), (1, 0, 1), "{is_first}");
        rig.pause(holder, Pause::Off);
        rig.settle();
        assert_eq!((turns.count(), turns.last().permitted, turns.last().resumed), (2, Permitted::Yes, true));
        // When its step is over it gives way like all others.
        rig.spawn(says(Next::Complete), ONE);
        rig.settle();
        assert_eq!((rig.completed(), rig.scheduler.stats().evictions), (2, 1));
    }
}

#[test]
fn a_newcomer_is_refused_where_all_room_is_held_in_the_middle_of_steps() {
    let (mut rig, turns) = (Rig::with_room_outside(0), Turns::default());
    rig.held(Turns::default().says_first(Next::Preempted));
    rig.spawn(turns.says([]), ONE);
    rig.settle();
    assert_eq!((turns.count(), turns.last().permitted, rig.completed()), (1, Permitted::Never, 1));
}

#[test]
fn only_one_is_beyond_the_budget_although_that_one_is_held_in_the_middle_of_a_step() {
    let mut rig = Rig::with_room_outside(0);
    let turns = [(); 3].map(|()| Turns::default());
    // Each gives way to the next.
    let slots = [0, 1, 2].map(|n: usize| {
        let slot = rig.spawn(turns[n].says([Next::Blocked, Next::Preempted]), ONE);
        rig.settle();
        slot
    });
    let counts = || turns.each_ref().map(Turns::count);
    let wake_and_pause = |rig: &mut Rig, slot| {
        rig.handle.post(slot, 1, Wake::Event);
        rig.pause(slot, Pause::On);
        rig.settle();
    };
    wake_and_pause(&mut rig, slots[2]);
    wake_and_pause(&mut rig, slots[0]);
    assert_eq!((counts(), rig.scheduler.stats().admitted_outside), ([2, 1, 2], 1));
    rig.handle.post(slots[1], 1, Wake::Event);
    rig.settle();
    assert_eq!((counts(), rig.scheduler.stats().admitting), ([2, 1, 2], 1), "it waits for the one that is there");
    rig.pause(slots[0], Pause::Off);
    rig.settle();
    assert_eq!((counts(), rig.scheduler.stats().admitting), ([3, 3, 2], 0));
}
