//! The place against a model that is written from the table of `state.rs`, in plain collections.

use super::buffers::Buffers;
use super::place::{Body, Place, Posted};
use super::state::{Evicted, Finished, Heard};
use super::{Next, Wake};
use crate::process::Permit;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
enum Act {
    Post(Wake),
    /// Where a worker could do so: takes the process, or ends its slice.
    Work(Next),
    Interrupt,
    Pause(bool),
    /// Takes the permit of a process that waits; the second says whether that succeeds.
    Evict(bool),
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
    prop_oneof![
        4 => wake.prop_map(Act::Post),
        6 => next.prop_map(Act::Work),
        1 => Just(Act::Interrupt),
        2 => any::<bool>().prop_map(Act::Pause),
        2 => any::<bool>().prop_map(Act::Evict),
        2 => Just(Act::Admit),
    ]
}

/// Where the process is, as its own words would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Queue { half_done: bool },
    Worker,
    Waits { any: bool, permit: bool },
    Held { half_done: bool },
    Admission { fresh: bool },
}

struct Model {
    at: At,
    /// Not heard, in order.
    events: VecDeque<(u32, Wake)>,
    interrupted: bool,
    paused: bool,
}

impl Model {
    fn is_woken(&self) -> bool {
        let At::Waits { any, .. } = self.at else { return false };
        let has_event = self.events.iter().any(|(_, wake)| any || *wake == Wake::Event);
        !self.paused && (self.interrupted || has_event)
    }

    /// After something came: whether somebody must enqueue it or join it to the admission queue.
    fn wake(&mut self) -> Heard {
        match self.at {
            At::Waits { permit: true, .. } if self.is_woken() => {
                self.at = At::Queue { half_done: false };
                Heard::Woken
            }
            At::Waits { permit: false, .. } if self.is_woken() => {
                self.at = At::Admission { fresh: false };
                Heard::Admit
            }
            _ => Heard::Pending,
        }
    }

    fn finish(&mut self, next: Next) -> Finished {
        let requeue = |half_done, paused| {
            if paused { (At::Held { half_done }, Finished::Held) } else { (At::Queue { half_done }, Finished::Requeue) }
        };
        let finished;
        (self.at, finished) = match next {
            Next::Preempted => requeue(true, self.paused),
            Next::Ready => requeue(false, self.paused),
            next => (At::Waits { any: next == Next::Idle, permit: true }, Finished::Waits),
        };
        if self.wake() == Heard::Woken { Finished::Woken } else { finished }
    }
}

/// The event that went along with the process, and the batch that the process is given.
struct Rig {
    place: Place<(), u32>,
    buffers: Buffers<u32>,
    first: Option<u32>,
}

impl Rig {
    fn heard(&mut self, posted: Posted<u32>) -> Heard {
        match posted {
            Posted::Gone(_) => Heard::Gone,
            Posted::Pending => Heard::Pending,
            Posted::Admit => Heard::Admit,
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
        (Act::Interrupt, at) => {
            let heard = rig.place.word.interrupt(GENERATION);
            model.interrupted = true;
            if at == (At::Admission { fresh: true }) {
                model.at = At::Queue { half_done: false };
                prop_assert_eq!(heard, Heard::Woken);
            } else {
                prop_assert_eq!(heard, model.wake());
            }
        }
        (Act::Pause(paused), at) => {
            let heard = rig.place.word.pause(GENERATION, paused);
            model.paused = paused;
            if let (At::Held { half_done }, false) = (at, paused) {
                model.at = At::Queue { half_done };
                prop_assert_eq!(heard, Heard::Woken);
            } else if paused {
                prop_assert_eq!(heard, Heard::Pending);
            } else {
                prop_assert_eq!(heard, model.wake());
            }
        }
        (Act::Work(_), At::Queue { half_done }) => {
            let mut batch = Vec::new();
            let started = rig.place.start(rig.first.take(), &mut batch, &mut rig.buffers);
            prop_assert_eq!((started.resumed, started.interrupted), (half_done, model.interrupted));
            if !half_done {
                model.interrupted = false;
                let expected: Vec<u32> = model.events.drain(..).map(|(event, _)| event).collect();
                prop_assert_eq!(&batch, &expected);
            }
            rig.buffers.give(batch);
            model.at = At::Worker;
        }
        (Act::Work(next), At::Worker) => prop_assert_eq!(rig.place.word.finish(next), model.finish(next)),
        (Act::Evict(succeeds), At::Waits { any, permit: true }) => {
            prop_assert!(rig.place.word.evict(GENERATION));
            model.at = At::Waits { any, permit: !succeeds };
            let expected = match model.wake() {
                Heard::Admit => Evicted::Admit,
                Heard::Woken => Evicted::Woken,
                _ => Evicted::Waits,
            };
            prop_assert_eq!(rig.place.word.evicted(succeeds), expected);
        }
        (Act::Evict(_), _) => prop_assert!(!rig.place.word.evict(GENERATION)),
        (Act::Admit, At::Admission { .. }) => {
            prop_assert!(rig.place.word.admit(GENERATION));
            model.at = At::Queue { half_done: false };
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
        place.occupy(Body { process: (), permit: Permit::NONE, seat: None, refused: false }, admitting);
        let mut rig = Rig { place, buffers: Buffers::new(), first: None };
        let at = if admitting { At::Admission { fresh: true } } else { At::Queue { half_done: false } };
        let mut model = Model { at, events: VecDeque::new(), interrupted: false, paused: false };
        for (number, act) in (0..).zip(acts) {
            play(&mut rig, &mut model, number, act)?;
        }
    }
}
