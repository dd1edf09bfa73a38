//! Each row of the transition table against the operations that may come at the same time.
//!
//! The thread that must enqueue a process runs it at once itself: then "exactly one enqueues" and
//! "never stepped twice at once" are the same check, since a second thread finds the body open.

mod evicted;
mod held;

use super::super::admission::Joins;
use super::super::buffers::Buffers;
use super::super::place::{Body, Place, Posted, Standing};
use super::super::state::{Asked, Before, Eviction, Finished, Heard, State};
use super::super::{Interrupt, Next, Pause, Slot, Wake};
use crate::process::Permit;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Records that it was enqueued and stepped, and its events.
#[derive(Default)]
struct Witness {
    events: Vec<u32>,
    steps: usize,
    interrupts: usize,
}

struct Model {
    place: Place<(), u32>,
    heard: Mutex<Witness>,
}

const GENERATION: u32 = 1;
const NEWCOMER: Standing = Standing::Waits(Joins::Newcomer);

impl Model {
    /// A process that is Running.
    fn running() -> Arc<Self> {
        let model = Self::ready(Standing::Free);
        let _ = model.place.start(None, &mut Vec::new(), &mut Buffers::new());
        model
    }

    fn ready(standing: Standing) -> Arc<Self> {
        let place = Place::new();
        assert_eq!(place.next_slot(0), Slot { index: 0, generation: GENERATION });
        place.occupy(Body { process: (), permit: Permit::NONE, standing }, Before::Nothing);
        Arc::new(Self { place, heard: Mutex::new(Witness::default()) })
    }

    /// A process that waits.
    fn waiting(next: Next) -> Arc<Self> {
        let model = Self::running();
        assert_eq!(model.place.word.finish(next), Finished::Waits);
        model
    }

    /// A process whose permit is being taken away.
    fn evicting(next: Next) -> Arc<Self> {
        let model = Self::waiting(next);
        assert_eq!(model.place.word.evict(GENERATION), Asked::Yields);
        model
    }

    /// A process that a pause holds after its slice.
    fn held(next: Next) -> Arc<Self> {
        let model = Self::running();
        assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
        assert_eq!(model.place.word.finish(next), Finished::Held);
        model
    }

    /// The same without its permit.
    fn held_and_evicted() -> Arc<Self> {
        let model = Self::held(Next::Ready);
        assert_eq!(model.place.word.evict(GENERATION), Asked::Yields);
        assert_eq!(model.place.word.evicted(Eviction::Done), Heard::Pending);
        model
    }

    fn steps(&self) -> usize {
        self.heard.lock().unwrap().steps
    }

    /// Steps it until it waits with `next` or ends.
    fn run(&self, first: Option<u32>, next: Next) {
        let mut first = first;
        loop {
            let body = self.place.body.open();
            assert!(body.is_some(), "stepped twice at once");
            let mut batch = Vec::new();
            let started = self.place.start(first.take(), &mut batch, &mut Buffers::new());
            {
                let mut heard = self.heard.lock().unwrap();
                heard.events.append(&mut batch);
                heard.steps += 1;
                heard.interrupts += usize::from(started.interrupted.is_some());
            }
            drop(body);
            match self.place.word.finish(next) {
                Finished::Woken | Finished::Requeue => {}
                Finished::Waits | Finished::Held => return,
            }
        }
    }

    /// Posts, and runs the process if that woke it. Returns whether it did.
    fn post(&self, event: u32, wake: Wake, next: Next) -> bool {
        match self.place.post(GENERATION, event, wake, None) {
            Posted::Woken(first) => {
                self.run(first, next);
                true
            }
            Posted::Pending => false,
            Posted::Admit | Posted::Gone(_) => unreachable!("it lives and has its permit"),
        }
    }

    fn events(&self) -> Vec<u32> {
        self.heard.lock().unwrap().events.clone()
    }

    fn sorted(&self) -> Vec<u32> {
        let mut events = self.events();
        events.sort_unstable();
        events
    }

    fn state(&self) -> State {
        self.place.word.load().state()
    }
}

/// Runs `one` in a thread of its own and `other` in this one, in every interleaving.
fn race(model: fn() -> Arc<Model>, one: fn(&Model), other: fn(&Model), check: fn(&Model)) {
    loom::model(move || {
        let model = model();
        let theirs = Arc::clone(&model);
        let thread = thread::spawn(move || one(&theirs));
        other(&model);
        thread.join().unwrap();
        check(&model);
    });
}

#[test]
fn ready_taken_while_an_event_comes() {
    race(
        || Model::ready(Standing::Free),
        |model| model.run(None, Next::Idle),
        |model| {
            let _ = model.post(1, Wake::Message, Next::Idle);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Idle)),
    );
}

#[test]
fn running_blocks_while_an_answer_comes() {
    race(
        Model::running,
        |model| {
            if model.place.word.finish(Next::Blocked) == Finished::Woken {
                model.run(None, Next::Blocked);
            }
        },
        |model| {
            let _ = model.post(1, Wake::Event, Next::Blocked);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Blocked)),
    );
}

#[test]
fn running_blocks_while_a_message_comes_and_is_not_stepped_for_it() {
    race(
        Model::running,
        |model| assert_eq!(model.place.word.finish(Next::Blocked), Finished::Waits),
        |model| assert!(!model.post(1, Wake::Message, Next::Blocked)),
        |model| {
            assert_eq!((model.events(), model.state()), (vec![], State::Blocked));
            assert!(model.post(2, Wake::Event, Next::Blocked));
            assert_eq!(model.events(), [1, 2]);
        },
    );
}

#[test]
fn running_idles_while_a_message_comes() {
    race(
        Model::running,
        |model| {
            if model.place.word.finish(Next::Idle) == Finished::Woken {
                model.run(None, Next::Idle);
            }
        },
        |model| {
            let _ = model.post(1, Wake::Message, Next::Idle);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Idle)),
    );
}

#[test]
fn idle_woken_by_two_at_once() {
    race(
        || Model::waiting(Next::Idle),
        |model| {
            let _ = model.post(1, Wake::Message, Next::Idle);
        },
        |model| {
            let _ = model.post(2, Wake::Event, Next::Idle);
        },
        |model| assert_eq!((model.sorted(), model.state()), (vec![1, 2], State::Idle)),
    );
}

#[test]
fn blocked_hears_a_message_with_the_answer_or_after_it() {
    race(
        || Model::waiting(Next::Blocked),
        |model| assert!(!model.post(1, Wake::Message, Next::Blocked)),
        |model| assert!(model.post(2, Wake::Event, Next::Blocked)),
        |model| {
            assert_eq!(model.state(), State::Blocked);
            assert!(model.post(3, Wake::Event, Next::Blocked));
            assert_eq!(model.sorted(), [1, 2, 3]);
        },
    );
}

#[test]
fn events_of_one_sender_stay_in_order() {
    race(
        || Model::waiting(Next::Blocked),
        |model| {
            let _ = model.post(1, Wake::Message, Next::Blocked);
            let _ = model.post(2, Wake::Event, Next::Blocked);
            let _ = model.post(3, Wake::Event, Next::Blocked);
        },
        |model| {
            let _ = model.post(9, Wake::Event, Next::Blocked);
        },
        |model| {
            let events: Vec<u32> = model.events().into_iter().filter(|event| *event != 9).collect();
            assert_eq!((events, model.state()), (vec![1, 2, 3], State::Blocked));
        },
    );
}

#[test]
fn preempted_hears_at_the_end_of_its_step_what_came_meanwhile() {
    race(
        Model::running,
        |model| {
            assert_eq!(model.place.word.finish(Next::Preempted), Finished::Requeue);
            let mut batch = Vec::new();
            let started = model.place.start(None, &mut batch, &mut Buffers::new());
            assert!(started.resumed && batch.is_empty());
            if model.place.word.finish(Next::Blocked) == Finished::Woken {
                model.run(None, Next::Blocked);
            }
        },
        |model| {
            let _ = model.post(1, Wake::Event, Next::Blocked);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Blocked)),
    );
}

#[test]
fn ready_again_while_an_event_comes() {
    race(
        Model::running,
        |model| {
            assert_eq!(model.place.word.finish(Next::Ready), Finished::Requeue);
            model.run(None, Next::Idle);
        },
        |model| {
            let _ = model.post(1, Wake::Event, Next::Idle);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Idle)),
    );
}

#[test]
fn an_event_for_one_that_completes_is_dropped_once() {
    race(
        Model::running,
        |model| {
            drop(model.place.body.open().expect("its worker's").take());
            let unheard = model.place.complete();
            model.heard.lock().unwrap().events.extend(unheard);
        },
        |model| match model.place.post(GENERATION, 1, Wake::Event, None) {
            Posted::Gone(event) => model.heard.lock().unwrap().events.push(event),
            Posted::Pending => {}
            other => panic!("{other:?}"),
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Complete)),
    );
}

#[test]
fn a_late_event_never_reaches_the_next_tenant() {
    race(
        Model::running,
        |model| {
            drop(model.place.body.open().expect("its worker's").take());
            let unheard = model.place.complete();
            model.heard.lock().unwrap().events.extend(unheard);
            model.place.occupy(Body { process: (), permit: Permit::NONE, standing: Standing::Free }, Before::Nothing);
        },
        |model| match model.place.post(GENERATION, 1, Wake::Event, None) {
            Posted::Gone(event) => model.heard.lock().unwrap().events.push(event),
            Posted::Pending => {}
            other => panic!("{other:?}"),
        },
        |model| {
            assert_eq!(model.events(), [1]);
            model.run(None, Next::Idle);
            assert_eq!(model.events(), [1], "the next tenant heard it");
        },
    );
}

#[test]
fn complete_stays_complete() {
    race(
        Model::running,
        |model| assert!(model.place.complete().is_empty()),
        |model| {
            let _ = model.place.word.interrupt(GENERATION, Interrupt::Cancel);
            let _ = model.place.word.pause(GENERATION, Pause::On);
            let _ = model.place.word.pause(GENERATION, Pause::Off);
        },
        |model| {
            assert_eq!(model.state(), State::Complete);
            assert_eq!(model.place.word.interrupt(GENERATION, Interrupt::Cancel), Heard::Gone);
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Gone);
            assert_eq!((model.place.word.evict(GENERATION), model.place.word.admit(GENERATION)), (Asked::Moves, false));
        },
    );
}

fn interrupt(model: &Model, next: Next) {
    match model.place.word.interrupt(GENERATION, Interrupt::Cancel) {
        Heard::Woken | Heard::Left => model.run(None, next),
        Heard::Pending => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_interrupt_is_heard_once_whenever_it_comes() {
    race(
        Model::running,
        |model| {
            if model.place.word.finish(Next::Blocked) == Finished::Woken {
                model.run(None, Next::Blocked);
            }
        },
        |model| interrupt(model, Next::Blocked),
        |model| {
            let heard = model.heard.lock().unwrap();
            assert_eq!((heard.interrupts, heard.steps), (1, 1));
        },
    );
}

#[test]
fn an_interrupt_and_an_answer_for_one_that_waits() {
    race(
        || Model::waiting(Next::Blocked),
        |model| {
            let _ = model.post(1, Wake::Event, Next::Blocked);
        },
        |model| interrupt(model, Next::Blocked),
        |model| {
            assert_eq!((model.events(), model.state()), (vec![1], State::Blocked));
            assert_eq!(model.heard.lock().unwrap().interrupts, 1);
        },
    );
}

#[test]
fn one_that_waits_for_its_first_permit_gets_it_or_is_interrupted() {
    race(
        || Model::ready(NEWCOMER),
        |model| {
            if model.place.word.admit(GENERATION) {
                model.run(None, Next::Idle);
            }
        },
        |model| interrupt(model, Next::Idle),
        |model| {
            assert_eq!((model.heard.lock().unwrap().interrupts, model.state()), (1, State::Idle));
            assert!(!model.place.word.admit(GENERATION));
        },
    );
}

#[test]
fn events_for_one_that_is_admitting_wait_for_it() {
    race(
        || Model::ready(NEWCOMER),
        |model| {
            assert!(model.place.word.admit(GENERATION));
            model.run(None, Next::Idle);
        },
        |model| {
            let _ = model.post(1, Wake::Message, Next::Idle);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Idle)),
    );
}
