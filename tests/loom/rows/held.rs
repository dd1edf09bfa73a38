//! Pauses and resumes against evictions, events and the ends of slices.

use super::evicted::*;
use super::*;

#[test]
fn two_wake_one_that_is_evicted() {
    race(
        || {
            let model = Model::evicting(Next::Idle);
            assert_eq!(model.place.word.evicted(Eviction::Done), Heard::Pending);
            model
        },
        |model| post_to_evicted(model, 1, Wake::Message, Next::Idle),
        |model| post_to_evicted(model, 2, Wake::Event, Next::Idle),
        |model| assert_eq!((model.sorted(), model.state()), (vec![1, 2], State::Idle)),
    );
}

fn resume(model: &Model, next: Next) {
    match model.place.word.pause(GENERATION, Pause::Off) {
        Heard::Woken => model.run(None, next),
        Heard::Admit => admitted(model, next),
        Heard::Pending => {}
        other => panic!("{other:?}"),
    }
}

/// Exactly one of the threads, that of the eviction or that of the resume, makes it go on.
#[test]
fn an_eviction_of_one_that_is_held_while_it_is_resumed() {
    race(
        || Model::held(Next::Ready),
        |model| evict(model, Next::Blocked),
        |model| resume(model, Next::Blocked),
        |model| {
            assert_eq!(model.steps(), 1);
            assert!(matches!(model.state(), State::Blocked | State::Evicted));
        },
    );
}

#[test]
fn an_eviction_that_fails_of_one_that_is_held_while_it_is_resumed() {
    race(
        || Model::held(Next::Ready),
        |model| evict_in_vain(model, Next::Blocked),
        |model| resume(model, Next::Blocked),
        |model| assert_eq!((model.steps(), model.state()), (1, State::Blocked)),
    );
}

#[test]
fn one_that_is_held_in_the_middle_of_a_step_is_asked_to_give_way_while_it_is_resumed() {
    race(
        || Model::held(Next::Preempted),
        |model| {
            if model.place.word.evict(GENERATION) == Asked::Yields {
                let step_is_over = model.place.word.load().state() == State::Evicting && model.steps() == 1;
                assert!(step_is_over, "evicted in the middle of a step");
                assert_eq!(model.place.word.evicted(Eviction::Refused), Heard::Pending);
            }
        },
        |model| resume(model, Next::Blocked),
        |model| assert_eq!((model.steps(), model.state()), (1, State::Blocked)),
    );
}

#[test]
fn one_that_is_evicted_while_it_is_held_is_resumed_while_it_is_interrupted() {
    race(
        Model::held_and_evicted,
        |model| resume(model, Next::Blocked),
        |model| match model.place.word.interrupt(GENERATION, Interrupt::Cancel) {
            Heard::Pending => {}
            // It was admitted and has run meanwhile.
            Heard::Woken => model.run(None, Next::Blocked),
            other => unreachable!("it has waited for a permit before: {other:?}"),
        },
        |model| {
            assert_eq!((model.heard.lock().unwrap().interrupts, model.state()), (1, State::Blocked));
            assert!((1..=2).contains(&model.steps()));
        },
    );
}

/// It goes on at the first resumption or at the second, once.
#[test]
fn one_that_is_held_is_resumed_and_paused_again_while_it_is_evicted() {
    race(
        || Model::held(Next::Ready),
        |model| evict(model, Next::Blocked),
        |model| {
            resume(model, Next::Blocked);
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
        },
        |model| {
            resume(model, Next::Blocked);
            assert_eq!(model.steps(), 1);
        },
    );
}

#[test]
fn a_step_without_a_permit_ends_while_one_is_paused_and_resumed() {
    race(
        || {
            let model = Model::evicting(Next::Blocked);
            assert_eq!(model.place.word.evicted(Eviction::Done), Heard::Pending);
            assert_eq!(model.place.word.interrupt(GENERATION, Interrupt::Visit), Heard::Woken);
            let _ = model.place.start(None, &mut Vec::new(), &mut Buffers::new());
            model
        },
        |model| match model.place.word.finish_without_permit(Next::Ready) {
            Heard::Admit => admitted(model, Next::Blocked),
            Heard::Pending => {}
            other => unreachable!("it has no permit: {other:?}"),
        },
        |model| {
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
            resume(model, Next::Blocked);
        },
        |model| assert_eq!((model.steps(), model.state()), (1, State::Blocked)),
    );
}

#[test]
fn an_event_while_one_is_resumed() {
    race(
        || {
            let model = Model::waiting(Next::Idle);
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
            model
        },
        |model| resume(model, Next::Idle),
        |model| {
            let _ = model.post(1, Wake::Message, Next::Idle);
        },
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Idle)),
    );
}

#[test]
fn a_pause_and_a_resume_while_a_slice_ends() {
    race(
        Model::running,
        |model| match model.place.word.finish(Next::Preempted) {
            Finished::Requeue => model.run(None, Next::Blocked),
            Finished::Held => {}
            other => panic!("{other:?}"),
        },
        |model| {
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
            resume(model, Next::Blocked);
        },
        |model| assert_eq!((model.heard.lock().unwrap().steps, model.state()), (1, State::Blocked)),
    );
}

#[test]
fn what_comes_while_one_is_paused_is_heard_after_it() {
    race(
        Model::running,
        |model| {
            assert_eq!(model.place.word.pause(GENERATION, Pause::On), Heard::Pending);
            assert_eq!(model.place.word.finish(Next::Blocked), Finished::Waits);
        },
        |model| {
            let _ = model.post(1, Wake::Event, Next::Blocked);
        },
        |model| {
            resume(model, Next::Blocked);
            assert_eq!((model.events(), model.state()), (vec![1], State::Blocked));
        },
    );
}

/// A search of the table finds it as soon as its word says that it lives, and sees all of it.
#[test]
fn one_that_is_interrupted_while_it_is_spawned() {
    race(
        || Arc::new(Model { place: Place::new(), heard: Mutex::new(Witness::default()) }),
        |model| {
            model.place.occupy(Body { process: (), permit: Permit::NONE, standing: NEWCOMER }, Before::Nothing);
        },
        |model| {
            while model.state() != State::Admitting {
                thread::yield_now();
            }
            interrupt(model, Next::Idle);
        },
        |model| assert_eq!(model.state(), State::Idle),
    );
}
