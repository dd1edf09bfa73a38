//! Evictions against the events that come meanwhile.

use super::*;

/// After an eviction the process joins the admission queue; here it gets its permit at once.
pub(super) fn admitted(model: &Model, next: Next) {
    if model.place.word.queue() == Heard::Admit {
        assert!(model.place.word.admit(GENERATION), "joined twice");
    }
    model.run(None, next);
}

pub(super) fn post_to_evicted(model: &Model, event: u32, wake: Wake, next: Next) {
    match model.place.post(GENERATION, event, wake, None) {
        Posted::Woken(first) => model.run(first, next),
        Posted::Admit => admitted(model, next),
        Posted::Pending => {}
        Posted::Gone(_) => unreachable!("it lives"),
    }
}

pub(super) fn evict(model: &Model, next: Next) {
    if model.place.word.evict(GENERATION) != Asked::Yields {
        return;
    }
    drop(model.place.body.open().expect("its evictor's"));
    match model.place.word.evicted(Eviction::Done) {
        Heard::Admit => admitted(model, next),
        Heard::Pending => {}
        other => unreachable!("it has no permit: {other:?}"),
    }
}

/// The same for one that cannot be evicted after all.
pub(super) fn evict_in_vain(model: &Model, next: Next) {
    if model.place.word.evict(GENERATION) != Asked::Yields {
        return;
    }
    drop(model.place.body.open().expect("its evictor's"));
    match model.place.word.evicted(Eviction::Refused) {
        Heard::Woken => model.run(None, next),
        Heard::Pending => {}
        other => unreachable!("it kept its permit: {other:?}"),
    }
}

#[test]
fn an_eviction_while_an_answer_comes() {
    race(
        || Model::waiting(Next::Blocked),
        |model| evict(model, Next::Blocked),
        |model| post_to_evicted(model, 1, Wake::Event, Next::Blocked),
        |model| {
            assert_eq!(model.events(), [1]);
            assert!(matches!(model.state(), State::Blocked | State::Evicted));
        },
    );
}

#[test]
fn an_eviction_of_an_idle_one_while_a_message_comes() {
    race(
        || Model::waiting(Next::Idle),
        |model| evict(model, Next::Idle),
        |model| post_to_evicted(model, 1, Wake::Message, Next::Idle),
        |model| assert_eq!(model.events(), [1]),
    );
}

#[test]
fn a_message_does_not_bring_back_one_that_was_blocked() {
    race(
        || Model::evicting(Next::Blocked),
        |model| assert_eq!(model.place.word.evicted(Eviction::Done), Heard::Pending),
        |model| post_to_evicted(model, 1, Wake::Message, Next::Blocked),
        |model| assert_eq!((model.events(), model.state()), (vec![], State::Evicted)),
    );
}

#[test]
fn an_eviction_that_fails_while_an_answer_comes() {
    race(
        || Model::evicting(Next::Blocked),
        |model| match model.place.word.evicted(Eviction::Refused) {
            Heard::Woken => model.run(None, Next::Blocked),
            Heard::Pending => {}
            other => unreachable!("it kept its permit: {other:?}"),
        },
        |model| post_to_evicted(model, 1, Wake::Event, Next::Blocked),
        |model| assert_eq!((model.events(), model.state()), (vec![1], State::Blocked)),
    );
}
