//! The place against a model that is written from the table of `state/mod.rs`, in plain
//! collections.

use super::admission::Joins;
use super::buffers::Buffers;
use super::place::{Body, Place, Posted, Standing};
use super::state::{Asked, Before, Eviction, Finished, Heard};
use super::{Interrupt, Next, Pause, Wake};
use crate::process::Permit;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
enum Act {
    Post(Wake),
    /// Where a worker could do so: takes the process, or ends its slice.
    Work(Next),
    Interrupt(Interrupt),
    Pause(Pause),
    /// Asks a process for its permit, or ends the eviction that is under way.
    Evict(Eviction),
    /// Gives one that is admitting its permit.
    Admit,
}

fn act() -> impl Strategy<Value = Act> {
    let wake = prop_oneof![Just(Wake::Event), Just(Wake::Message)];
    let next = prop_oneof![
        1 => Just(Next::Preempted),
        1 => Just(Next::Ready),
        2 => Just(Next::Blocked),
        2 => Just(Next::Idle),
    ];
    let why = prop_oneof![Just(Interrupt::Visit), Just(Interrupt::Cancel), Just(Interrupt::End)];
    let pause = prop_oneof![Just(Pause::On), Just(Pause::Off)];
    let eviction = prop_oneof![Just(Eviction::Done), Just(Eviction::Refused)];
    prop_oneof![
        4 => wake.prop_map(Act::Post),
        6 => next.prop_map(Act::Work),
        2 => why.prop_map(Act::Interrupt),
        2 => pause.prop_map(Act::Pause),
        2 => eviction.prop_map(Act::Evict),
        2 => Just(Act::Admit),
    ]
}

/// Where the process is, as its own words would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Queue { half_done: bool, permit: bool },
    Worker { permit: bool },
    Waits { any: bool, permit: bool },
    Held { half_done: bool, permit: bool },
    Admission { fresh: bool },
}

/// In a run queue, to begin a step.
const READY: At = At::Queue { half_done: false, permit: true };
const READY_WITHOUT_PERMIT: At = At::Queue { half_done: false, permit: false };

struct Model {
    at: At,
    /// Not heard, in order.
    events: VecDeque<(u32, Wake)>,
    /// The strongest reason.
    interrupted: Option<Interrupt>,
    paused: bool,
    /// Its permit is being taken away.
    evicting: bool,
}

impl Model {
    /// After something came: whether somebody must enqueue it or join it to the admission queue.
    fn wake(&mut self) -> Heard {
        let (half_done, permit, goes_on) = match self.at {
            At::Waits { any, permit } => {
                (false, permit, self.events.iter().any(|(_, wake)| any || *wake == Wake::Event))
            }
            At::Held { half_done, permit } => (half_done, permit, true),
            _ => return Heard::Pending,
        };
        let heard;
        (self.at, heard) = match self.interrupted {
            _ if self.paused || self.evicting => return Heard::Pending,
            Some(Interrupt::End) if !permit => (READY_WITHOUT_PERMIT, Heard::Woken),
            _ if goes_on && !permit => (At::Admission { fresh: false }, Heard::Admit),
            None if !goes_on => return Heard::Pending,
            _ => (At::Queue { half_done, permit }, Heard::Woken),
        };
        heard
    }

    fn finish(&mut self, next: Next) -> Finished {
        let requeue = |half_done, paused| {
            if paused {
                (At::Held { half_done, permit: true }, Finished::Held)
            } else {
                (At::Queue { half_done, permit: true }, Finished::Requeue)
            }
        };
        let finished;
        (self.at, finished) = match next {
            Next::Preempted => requeue(true, self.paused),
            Next::Ready => requeue(false, self.paused),
            next => (At::Waits { any: next == Next::Idle, permit: true }, Finished::Waits),
        };
        if self.wake() == Heard::Woken { Finished::Woken } else { finished }
    }

    fn finish_without_permit(&mut self, next: Next) -> Heard {
        match next {
            Next::Ready => self.at = At::Held { half_done: false, permit: false },
            next => self.at = At::Waits { any: next == Next::Idle, permit: false },
        }
        self.wake()
    }
}

/// The event that went along with the process, and the batch that the process is given.
struct Rig {
    place: Place<(), u32>,
    buffers: Buffers<u32>,
    first: Option<u32>,
}

impl Rig {
    /// Whoever is told to join it to the admission queue does so.
    fn follow(&self, heard: Heard) -> Heard {
        if heard == Heard::Admit {
            assert_eq!(self.place.word.queue(), Heard::Admit);
        }
        heard
    }

    fn heard(&mut self, posted: Posted<u32>) -> Heard {
        match posted {
            Posted::Gone(_) => Heard::Gone,
            Posted::Pending => Heard::Pending,
            Posted::Admit => self.follow(Heard::Admit),
            Posted::Woken(first) => {
                self.first = first;
                Heard::Woken
            }
        }
    }
}

const GENERATION: u32 = 1;

fn play(rig: &mut Rig, model: &mut Model, number: u32, act: Act) -> Result<(), TestCaseError> {
    match (act, model.at) {
        (Act::Post(wake), _) => {
            let posted = rig.place.post(GENERATION, number, wake, Some(&mut rig.buffers));
            let heard = rig.heard(posted);
            model.events.push_back((number, wake));
            prop_assert_eq!(heard, model.wake());
        }
        (Act::Interrupt(why), at) => {
            let heard = rig.follow(rig.place.word.interrupt(GENERATION, why));
            model.interrupted = model.interrupted.max(Some(why));
            match (at, why) {
                (At::Admission { .. }, Interrupt::End) | (At::Admission { fresh: true }, Interrupt::Cancel) => {
                    model.at = READY_WITHOUT_PERMIT;
                    prop_assert_eq!(heard, Heard::Left);
                }
                _ => prop_assert_eq!(heard, model.wake()),
            }
        }
        (Act::Pause(pause), _) => {
            let heard = rig.follow(rig.place.word.pause(GENERATION, pause));
            model.paused = pause == Pause::On;
            prop_assert_eq!(heard, model.wake());
        }
        (Act::Work(_), At::Queue { half_done, permit }) => {
            let mut batch = Vec::new();
            let started = rig.place.start(rig.first.take(), &mut batch, &mut rig.buffers);
            prop_assert_eq!((started.resumed, started.interrupted), (half_done, model.interrupted));
            if !half_done {
                model.interrupted = None;
                let expected: Vec<u32> = model.events.drain(..).map(|(event, _)| event).collect();
                prop_assert_eq!(&batch, &expected);
            }
            rig.buffers.give(batch);
            model.at = At::Worker { permit };
        }
        (Act::Work(next), At::Worker { permit: true }) => {
            prop_assert_eq!(rig.place.word.finish(next), model.finish(next));
        }
        (Act::Work(Next::Preempted), At::Worker { permit: false }) => {}
        (Act::Work(next), At::Worker { permit: false }) => {
            let heard = rig.follow(rig.place.word.finish_without_permit(next));
            prop_assert_eq!(heard, model.finish_without_permit(next));
        }
        (Act::Evict(eviction), _) if model.evicting => {
            model.evicting = false;
            if let At::Waits { permit, .. } | At::Held { permit, .. } = &mut model.at {
                *permit = eviction == Eviction::Refused;
            }
            let heard = rig.follow(rig.place.word.evicted(eviction));
            prop_assert_eq!(heard, model.wake());
        }
        (Act::Evict(_), at) => {
            let asked = match at {
                At::Waits { permit: true, .. } | At::Held { half_done: false, permit: true } => Asked::Yields,
                At::Held { half_done: true, .. } => Asked::Stays,
                _ => Asked::Moves,
            };
            model.evicting = asked == Asked::Yields;
            prop_assert_eq!(rig.place.word.evict(GENERATION), asked);
        }
        (Act::Admit, At::Admission { .. }) => {
            prop_assert!(rig.place.word.admit(GENERATION));
            model.at = READY;
        }
        (Act::Admit, _) => prop_assert!(!rig.place.word.admit(GENERATION)),
        (Act::Work(_), _) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_place_does_what_the_table_says(admitting: bool, acts in prop::collection::vec(act(), 0..120)) {
        let place = Place::new();
        let (standing, at) = if admitting {
            (Standing::Waits(Joins::Newcomer), At::Admission { fresh: true })
        } else {
            (Standing::Free, READY)
        };
        place.occupy(Body { process: (), permit: Permit::NONE, standing }, Before::Nothing);
        let mut rig = Rig { place, buffers: Buffers::new(), first: None };
        let mut model = Model { at, events: VecDeque::new(), interrupted: None, paused: false, evicting: false };
        for (number, act) in (0..).zip(acts) {
            play(&mut rig, &mut model, number, act)?;
        }
    }
}

#[test]
fn one_that_is_to_end_before_it_has_joined_the_queue_does_not_join_it() {
    let place: Place<(), u32> = Place::new();
    let slot = place.next_slot(0);
    place.occupy(Body { process: (), permit: Permit::NONE, standing: Standing::Free }, Before::Nothing);
    let _ = place.start(None, &mut Vec::new(), &mut Buffers::new());
    assert_eq!(place.word.finish(Next::Idle), Finished::Waits);
    assert_eq!(place.word.evict(slot.generation), Asked::Yields);
    assert_eq!(place.word.evicted(Eviction::Done), Heard::Pending);
    assert!(matches!(place.post(slot.generation, 1, Wake::Event, None), Posted::Admit));
    assert_eq!(place.word.interrupt(slot.generation, Interrupt::End), Heard::Pending);
    assert_eq!(place.word.queue(), Heard::Woken);
}

#[test]
fn one_that_is_held_and_stays_goes_on_when_it_is_resumed() {
    let place: Place<(), u32> = Place::new();
    let slot = place.next_slot(0);
    place.occupy(Body { process: (), permit: Permit::NONE, standing: Standing::Free }, Before::Nothing);
    let _ = place.start(None, &mut Vec::new(), &mut Buffers::new());
    assert_eq!(place.word.pause(slot.generation, Pause::On), Heard::Pending);
    assert_eq!(place.word.finish(Next::Ready), Finished::Held);
    assert_eq!(place.word.evict(slot.generation), Asked::Yields);
    assert_eq!(place.word.evicted(Eviction::Refused), Heard::Pending);
    assert_eq!(place.word.pause(slot.generation, Pause::Off), Heard::Woken);
}
