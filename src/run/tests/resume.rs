//! Runs that are recovered from a prefix of their records.

use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Answer, Event, Micros, Payload, Pid, Problem, ProblemClass, Program, Status, Tag, Target,
};
use crate::run::{News, Outcome, Record, RecoveryError, Resolution, RunHandle};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A tree of processes that sleep, call, send and wait for each other; its output does not depend
/// on which is quicker.
fn tree() -> Arc<dyn Program> {
    program(|entry| {
        let mut heard: BTreeMap<Tag, u64> = BTreeMap::new();
        let mut mail = 0;
        let leaf = entry == "leaf";
        let root = entry == "root";
        let mut begun = false;
        act(move |context, events| {
            if !std::mem::replace(&mut begun, true) {
                if leaf {
                    context.command(Action::Sleep(Micros(1_000)));
                    context.command(calls("inline", number(3)));
                    let hub = Target::Name("hub".into());
                    context.command(Action::Send(crate::process::Send::new(hub, "t".into(), number(1))));
                } else {
                    if root {
                        context.command(Action::Register("hub".into()));
                    }
                    for _ in 0..3 {
                        context.command(spawns(if root { "node" } else { "leaf" }));
                    }
                }
            }
            for event in events.drain(..) {
                match event {
                    Event::Completed { tag, answer: Ok(Payload::Json(json)) } => {
                        heard.insert(tag, json.as_str().parse().unwrap_or(0));
                    }
                    Event::Message(_) => mail += 1,
                    other => panic!("{other:?}"),
                }
            }
            // A message has an answer only if it is refused; a registered name has one.
            let answers = if leaf { 2 } else { 3 + usize::from(root) };
            if heard.len() >= answers && (!root || mail == 9) {
                return Status::Complete(number(heard.values().sum::<u64>() + mail));
            }
            if root { Status::Idle } else { Status::Blocked }
        })
    })
}

fn answer_of(outcome: &Outcome) -> &Answer {
    &outcome.result
}

#[test]
fn a_run_is_recovered_from_every_prefix_of_its_records() {
    let root = tree();
    let bench = Bench::of(Desk::new(3), Arc::default(), &Setup::default(), &root);
    let run = bench.run.clone();
    let outcome = bench.finish();
    let records = run.records().unwrap();
    assert!(records.len() > 40);
    for count in 1..records.len() {
        for seed in 1..4 {
            let (mut desk, handlers) = (Desk::new(seed), Arc::default());
            let recovered = recover(&desk, &root, &handlers, &records[..count]);
            desk.settle();
            let again = recovered.outcome().unwrap_or_else(|| panic!("it ends, recovered after {count} records"));
            assert_eq!(answer_of(&again), answer_of(&outcome), "after {count} records");
            // What it wrote from then on follows from what was there, and can be recovered again.
            let all = recovered.records().unwrap();
            assert_eq!(all[..count], records[..count]);
            let rebuilt = crate::run::rebuild(&all, &root, &recovery_spec(&root, &handlers, &[]).programs).unwrap();
            assert_eq!(rebuilt.result(), Some(answer_of(&outcome)));
        }
    }
    let ended = desk_error(&root, &records);
    assert_eq!(ended, RecoveryError::Ended("run".into()));
    assert_eq!(desk_error(&root, &[]), RecoveryError::Empty);
}

fn desk_error(root: &Arc<dyn Program>, records: &[Record]) -> RecoveryError {
    let desk = Desk::new(1);
    desk.kernel.recover(recovery_spec(root, &Arc::default(), records), records).err().unwrap()
}

#[test]
fn a_timer_is_due_at_its_time_by_the_wall_clock() {
    let root = program(|_| collect(|| vec![Action::Sleep(Micros(5_000_000))], 1));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    let mut desk = bench.desk.clone();
    while desk.turn() {}
    let records = bench.run.records().unwrap();
    for (away, left) in [(2_000_000, 3_000_000), (9_000_000, 0)] {
        let mut later = Desk::new(1);
        later.advance(Micros(away));
        let recovered = recover(&later, &root, &Arc::default(), &records);
        let begun = later.now();
        later.settle();
        assert!(recovered.outcome().is_some());
        assert_eq!(later.now().0 - begun.0, left);
    }
}

/// A call to each of two handlers.
fn caller() -> Arc<dyn Program> {
    program(|_| collect(|| vec![calls("safe", number(1)), calls("unsafe", number(2))], 2))
}

#[test]
fn calls_without_an_answer_leave_again_under_their_keys_unless_they_may_have_happened() {
    let root = caller();
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    let mut desk = bench.desk.clone();
    while desk.turn() {}
    let keys = |handlers: &Handlers| -> Vec<(String, String)> {
        let waiting = handlers.waiting.lock();
        waiting.iter().map(|(call, _)| (call.handler.to_string(), call.idempotency_key.to_string())).collect()
    };
    let before = keys(&bench.handlers);
    assert_eq!(before.len(), 2);
    let records = bench.run.records().unwrap();
    assert!(matches!(records.last(), Some(Record::Leaving { .. })), "it stands behind the step that asks for it");

    for resolution in [Resolution::Again, Resolution::Answered(Ok(number(20)))] {
        let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
        let recovered = recover(&desk, &root, &handlers, &records);
        desk.settle();
        assert_eq!(keys(&handlers), [before[0].clone()]);
        let uncertain = recovered.uncertain();
        assert_eq!(uncertain.len(), 1);
        assert_eq!((&*uncertain[0].handler, &*uncertain[0].key), ("unsafe", &*before[1].1));
        let (pid, tag) = (uncertain[0].pid, uncertain[0].tag);
        let is_again = resolution == Resolution::Again;
        recovered.resolve(pid, tag, resolution).unwrap();
        assert!(recovered.resolve(pid, tag, Resolution::Again).is_err() && recovered.uncertain().is_empty());
        if is_again {
            assert_eq!(keys(&handlers), before);
        }
        for (call, reply) in handlers.waiting.lock().drain(..) {
            reply.answer(Ok(call.args));
        }
        desk.settle();
        let said = output(&recovered.outcome().unwrap());
        assert!(said.contains(if is_again { "2 2" } else { "2 20" }), "{said}");
    }

    // A refusal of the second attempt says nothing of the first: a further attempt must use the
    // same key.
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let recovered = recover(&desk, &root, &handlers, &records);
    let refused = || Problem::new("busy", "Come again").with_class(ProblemClass::Retryable);
    let (_, reply) = handlers.waiting.lock().pop().unwrap();
    reply.answer(Err(Arc::new(refused())));
    desk.settle();
    let doubted = |detail: &str| refused().with_unknown_outcome(true).with_detail(detail);
    assert_eq!(problems(&recovered), [doubted("an earlier sending may have happened")]);
    let (_, reply) = bench.handlers.waiting.lock().remove(0);
    reply.answer(Err(Arc::new(refused())));
    assert_eq!(problems(&bench.run), [refused()]);

    // Before its `leaving` record, it was not sent.
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let recovered = recover(&desk, &root, &handlers, &records[..records.len() - 1]);
    desk.settle();
    assert_eq!(keys(&handlers).len(), 2);
    assert!(recovered.uncertain().is_empty());
}

/// What a run was answered with, by the records.
fn problems(run: &RunHandle) -> Vec<Problem> {
    let arrived = |record| match record {
        Record::Arrived(arrived) => match arrived.news {
            News::Answered { answer, .. } => answer.err().map(Arc::unwrap_or_clone),
            _ => None,
        },
        _ => None,
    };
    run.records().unwrap().into_iter().filter_map(arrived).collect()
}

#[test]
fn a_sending_that_fails_before_the_server_says_nothing_of_an_earlier_one() {
    let root = caller();
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.clone().drain();
    let mut records = bench.run.records().unwrap();
    let refused = Problem::new("address-refused", "No").with_detail("127.0.0.1");
    let answered =
        |class| Problem { status: 400, ..Problem::new("http-status", "The server answered").with_class(class) };
    let doubted = |class| {
        let problem = refused.clone().with_class(class).with_detail("127.0.0.1; an earlier sending may have happened");
        Problem { may_have_happened: true, ..problem }
    };
    let told = |class| Problem { may_have_happened: true, ..answered(class) };
    // (sent again, because it is safe or was resolved so; its answer; what the process receives)
    let cases = [
        (Tag(1), refused.clone(), doubted(ProblemClass::Definite)),
        (Tag(2), refused.clone(), doubted(ProblemClass::Uncertain)),
        (Tag(2), refused.clone().with_class(ProblemClass::Retryable), doubted(ProblemClass::Uncertain)),
        // The server's own word stands.
        (Tag(1), answered(ProblemClass::Definite), told(ProblemClass::Definite)),
        (Tag(2), answered(ProblemClass::Definite), told(ProblemClass::Definite)),
        (Tag(2), answered(ProblemClass::Retryable), told(ProblemClass::Retryable)),
    ];
    for (tag, answer, heard) in cases {
        let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
        let run = recover(&desk, &root, &handlers, &records);
        desk.drain();
        run.resolve(Pid::ROOT, Tag(2), Resolution::Again).unwrap();
        let place = handlers.waiting.lock().iter().position(|(call, _)| call.tag == tag).unwrap();
        let (_, reply) = handlers.waiting.lock().remove(place);
        reply.answer(Err(Arc::new(answer)));
        desk.drain();
        assert_eq!(problems(&run), [heard]);
    }

    // A resolution that the call did not happen covers every sending, also a repeated one whose
    // outcome is unknown.
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &root, &handlers, &records);
    desk.drain();
    run.resolve(Pid::ROOT, Tag(2), Resolution::Again).unwrap();
    records = run.records().unwrap();
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &root, &handlers, &records);
    desk.drain();
    run.resolve(Pid::ROOT, Tag(2), Resolution::Answered(Err(Arc::new(refused.clone())))).unwrap();
    assert_eq!(problems(&run), std::slice::from_ref(&refused));

    // One that had no record of its leaving was never sent.
    let left = records.iter().position(|record| matches!(record, Record::Leaving { .. })).unwrap();
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &root, &handlers, &records[..left]);
    desk.drain();
    let place = handlers.waiting.lock().iter().position(|(call, _)| call.tag == Tag(2)).unwrap();
    let (_, reply) = handlers.waiting.lock().remove(place);
    reply.answer(Err(Arc::new(refused.clone())));
    desk.drain();
    assert_eq!(problems(&run), [refused]);
}

#[test]
fn a_process_that_diverges_from_its_records_is_reported() {
    let root = caller();
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    let mut desk = bench.desk.clone();
    while desk.turn() {}
    let records = bench.run.records().unwrap();
    let other = program(|_| collect(|| vec![calls("safe", number(2)), calls("unsafe", number(2))], 2));
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let recovered = recover(&desk, &other, &handlers, &records);
    let (_, reply) = handlers.waiting.lock().pop().unwrap();
    reply.answer(Ok(number(1)));
    desk.settle();
    assert_eq!(recovered.outcome().unwrap().result.as_ref().unwrap_err().kind, "diverged");
}
