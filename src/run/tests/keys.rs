//! Keys of calls in runs that are made from others.

use super::desk::Desk;
use super::support::*;
use crate::base::Monotonic;
use crate::process::{Action, Event, Micros, Payload, Pid, Placement, Problem, ProblemClass, Program, Status, Tag};
use crate::run::{
    ForkSpec, FormerKeys, Origin, Programs, Rebuild, Record, Resolution, RunHandle, Started, fork, rebuild, repeats,
};
use std::sync::Arc;

/// A call and a child, each made again under its path until it succeeds. The child calls, and fails
/// if the answer is 0.
fn root() -> Arc<dyn Program> {
    fn place(scope: &str) -> Arc<Placement> {
        Arc::new(Placement { scope: scope.into(), limits: None, grants: None, cache: None })
    }
    fn ask(child: bool) -> Action {
        if child {
            Action::Spawn(Box::new(crate::process::Spawn { placement: Some(place("child/0/0")), ..spawn("child") }))
        } else {
            let call = call("safe", number(1));
            Action::Call(Box::new(crate::process::Call { placement: Some(place("call/0/0")), ..call }))
        }
    }
    program(|entry| {
        if entry == "child" {
            let mut begun = false;
            return act(move |context, events| {
                if !std::mem::replace(&mut begun, true) {
                    context.command(calls("safe", number(2)));
                    return Status::Blocked;
                }
                match answers(events).remove(0).1 {
                    Ok(answer) if text(&answer) != "0" => Status::Complete(answer),
                    _ => Status::Failed(Arc::new(Problem::new("odd", "It is 0"))),
                }
            });
        }
        let mut asked: Vec<(Tag, bool)> = Vec::new();
        let mut done = 0;
        act(move |context, events| {
            if asked.is_empty() {
                asked.extend([false, true].map(|child| (context.command(ask(child)), child)));
            }
            for event in events.drain(..) {
                let Event::Completed { tag, answer } = event else { panic!("{event:?}") };
                let (_, child) = *asked.iter().find(|(asked, _)| *asked == tag).unwrap();
                match answer {
                    Ok(_) => done += 1,
                    Err(_) => asked.push((context.command(ask(child)), child)),
                }
            }
            if done == 2 { Status::Complete(Payload::NULL) } else { Status::Blocked }
        })
    })
}

fn programs() -> Programs {
    spec(root(), Arc::default(), &Setup::default()).programs
}

fn unknown() -> Problem {
    Problem::new("reset", "The connection was reset").with_class(ProblemClass::Uncertain)
}

/// The keys of the calls that were sent, in order.
fn keys(handlers: &Handlers) -> Vec<String> {
    let mut keys: Vec<_> = handlers.waiting.lock().iter().map(|(call, _)| call.idempotency_key.to_string()).collect();
    keys.sort();
    keys
}

/// Answers the calls that were sent: the call itself with a problem of unknown outcome, that of the
/// child with 0.
fn fail(desk: &mut Desk, handlers: &Handlers) {
    for (call, reply) in std::mem::take(&mut *handlers.waiting.lock()) {
        reply.answer(if text(&call.args) == "1" { Err(Arc::new(unknown())) } else { Ok(number(0)) });
    }
    desk.drain();
}

/// The records of a run whose calls were sent and have no answer.
fn in_flight() -> Vec<Record> {
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root());
    bench.desk.clone().drain();
    assert_eq!(keys(&bench.handlers), CALLS);
    bench.run.records().unwrap()
}

const CALLS: [&str; 2] = ["run/call/0/0", "run/child/0/0/1"];

fn forked(records: &[Record], id: &str, at: usize, resend: bool) -> Vec<Record> {
    let (root, programs) = (root(), programs());
    let spec = ForkSpec {
        id: id.into(),
        at: at as u64,
        root,
        programs,
        substituted: false,
        resend,
        other: None,
        budget: None,
    };
    [&[Record::Started(Box::new(fork(records, spec).unwrap()))], &records[1..at]].concat()
}

fn recovered(records: &[Record]) -> (Desk, Arc<Handlers>, RunHandle) {
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &root(), &handlers, records);
    desk.drain();
    (desk, handlers, run)
}

#[test]
fn a_fork_keeps_the_keys_of_calls_in_flight_however_often_it_makes_them() {
    let records = in_flight();
    for resend in [true, false] {
        let (mut desk, handlers, run) = recovered(&forked(&records, "fork", records.len(), resend));
        for call in run.uncertain() {
            run.resolve(call.pid, call.tag, Resolution::Again).unwrap();
        }
        desk.drain();
        for _ in 0..3 {
            assert_eq!(keys(&handlers), CALLS, "resend: {resend}");
            fail(&mut desk, &handlers);
        }
        // And so does who takes it up, and who forks it.
        let records = run.records().unwrap();
        for records in [records.clone(), forked(&records, "again", records.len(), true)] {
            let (mut desk, handlers, _) = recovered(&records);
            for _ in 0..2 {
                assert_eq!(keys(&handlers), CALLS);
                fail(&mut desk, &handlers);
            }
        }
    }
}

#[test]
fn a_fork_keeps_the_keys_of_calls_that_had_an_answer_before() {
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root());
    let mut desk = bench.desk.clone();
    desk.drain();
    let before = bench.run.records().unwrap().len();
    fail(&mut desk, &bench.handlers);
    let records = bench.run.records().unwrap();
    for at in before..records.len() {
        let (_, handlers, _) = recovered(&forked(&records, "fork", at, true));
        assert!(keys(&handlers).iter().all(|key| CALLS.contains(&&**key)), "cut at {at}: {:?}", keys(&handlers));
    }
}

#[test]
fn what_only_the_fork_asks_for_has_keys_of_its_own() {
    let records = in_flight();
    let (mut desk, handlers, _) = recovered(&forked(&records, "fork", 1, true));
    for _ in 0..2 {
        assert_eq!(keys(&handlers), ["fork/call/0/0", "fork/child/0/0/1"]);
        fail(&mut desk, &handlers);
    }
}

/// The start of a run that repeats the one of these records.
fn repeating(records: &[Record]) -> Record {
    repeating_of(records, root())
}

fn repeating_of(records: &[Record], root: Arc<dyn Program>) -> Record {
    let Record::Started(before) = &records[0] else { panic!("no start") };
    let rebuild = Rebuild::new(root, programs()).noting_keys().apply_all(records).unwrap();
    let former_keys: FormerKeys = rebuild.former_keys();
    let origin = Origin {
        run: Arc::clone(&before.run),
        record: 0,
        keys: repeats(before.keys()),
        seen_as: "repeat".into(),
        held: Vec::new(),
        former_keys,
    };
    Record::Started(Box::new(Started { run: "repeat".into(), origin: Some(origin), ..(**before).clone() }))
}

#[test]
fn a_run_that_repeats_a_fork_keeps_the_keys_that_the_fork_kept() {
    let records = in_flight();
    let (mut desk, handlers, run) = recovered(&forked(&records, "fork", records.len(), true));
    fail(&mut desk, &handlers);
    run.cancel("enough", None).ok();
    let (_, handlers, _) = recovered(&[repeating(&run.records().unwrap())]);
    assert_eq!(keys(&handlers), CALLS);
}

#[test]
fn a_fork_of_a_run_that_repeats_another_keeps_its_keys_from_the_first_record_on() {
    let repeating = repeating(&in_flight());
    let bytes = {
        let mut bytes = Vec::new();
        repeating.encode(&mut bytes);
        bytes
    };
    assert_eq!(Record::decode(bytes.into()).unwrap(), repeating);
    let (mut desk, handlers, run) = recovered(&[repeating]);
    assert_eq!(keys(&handlers), CALLS);
    let records = run.records().unwrap();
    for at in 1..=records.len() {
        let (_, handlers, _) = recovered(&forked(&records, "fork", at, true));
        assert_eq!(keys(&handlers), CALLS, "cut at {at}");
    }
    fail(&mut desk, &handlers);
    assert!(rebuild(&run.records().unwrap(), &root(), &programs()).is_ok());
    assert!(run.processes().iter().any(|process| process.pid == Pid::ROOT));
}

/// A call that is sent again in a fork has its timeout from the first sending there on, however
/// often its host changes.
#[test]
fn the_time_of_a_call_that_a_fork_sends_again_goes_on_from_host_to_host() {
    const TIMEOUT: u64 = 5_000_000;
    let root = || {
        program(|_| {
            collect(
                || {
                    let call = call("safe", number(1));
                    vec![Action::Call(Box::new(crate::process::Call { timeout: Some(Micros(TIMEOUT)), ..call }))]
                },
                1,
            )
        })
    };
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root());
    bench.desk.clone().drain();
    let records = bench.run.records().unwrap();
    let (at, programs) = (records.len() as u64, programs());
    let spec = ForkSpec {
        id: "fork".into(),
        at,
        root: root(),
        programs,
        substituted: false,
        resend: true,
        other: None,
        budget: None,
    };
    let started = Record::Started(Box::new(fork(&records, spec).unwrap()));
    let mut records = [&[started], &records[1..]].concat();
    // Each host takes it up two seconds after the one before.
    const LATER: i64 = 2_000_000;
    for (wall, left) in [(0, TIMEOUT), (LATER, TIMEOUT - 2_000_000), (2 * LATER, TIMEOUT - 4_000_000)] {
        let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
        desk.set_wall(1_000_000_000 + wall);
        let run = recover(&desk, &root(), &handlers, &records);
        desk.drain();
        assert_eq!(handlers.waiting.lock().len(), 1, "it is sent");
        records = run.records().unwrap();
        assert_eq!(run.counts().records, records.len() as u64);
        desk.settle();
        assert_eq!((output(&run.outcome().unwrap()).contains("timed-out"), desk.now()), (true, Monotonic(left)));
    }
}

/// Makes one call after the other, with these arguments, whatever becomes of the one before.
fn calling(arguments: &'static [u64]) -> Arc<dyn Program> {
    program(|_| {
        let mut left = arguments.iter();
        act(move |context, _| match left.next() {
            Some(argument) => {
                let place = Placement { scope: "call/0/0".into(), limits: None, grants: None, cache: None };
                let call = call("safe", number(*argument));
                let call = crate::process::Call { placement: Some(Arc::new(place)), ..call };
                context.command(Action::Call(Box::new(call)));
                Status::Blocked
            }
            None => Status::Complete(Payload::NULL),
        })
    })
}

/// The outcome of the call in the run that is repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Before {
    Succeeded,
    Refused,
    Unknown,
    Unanswered,
    UnknownThenRefused,
    UnknownThenSucceeded,
}

impl Before {
    fn answers(self) -> Vec<crate::process::Answer> {
        let refused = || Err(Arc::new(Problem::new("no", "It is refused")));
        let unknown = || Err(Arc::new(unknown()));
        match self {
            Self::Succeeded => vec![Ok(number(1))],
            Self::Refused => vec![refused()],
            Self::Unknown => vec![unknown()],
            Self::Unanswered => vec![],
            Self::UnknownThenRefused => vec![unknown(), refused()],
            Self::UnknownThenSucceeded => vec![unknown(), Ok(number(1))],
        }
    }

    fn is_known(self) -> bool {
        matches!(self, Self::Succeeded | Self::Refused | Self::UnknownThenSucceeded)
    }
}

/// Answers one call after the other, and gives their keys.
fn answer_all(desk: &mut Desk, handlers: &Handlers, answers: Vec<crate::process::Answer>) -> Vec<String> {
    let mut all = Vec::new();
    desk.drain();
    for answer in answers {
        all.extend(keys(handlers));
        for (_, reply) in std::mem::take(&mut *handlers.waiting.lock()) {
            reply.answer(answer.clone());
        }
        desk.drain();
    }
    all.extend(keys(handlers));
    all
}

#[test]
fn a_call_that_a_person_repeats_has_a_new_key_where_it_is_another_and_its_outcome_is_known() {
    use Before::*;
    for before in [Succeeded, Refused, Unknown, Unanswered, UnknownThenRefused, UnknownThenSucceeded] {
        let original = || calling(&[1, 1, 1]);
        let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &original());
        let made = answer_all(&mut bench.desk.clone(), &bench.handlers, before.answers());
        assert!(made.iter().all(|key| key == "run/call/0/0"), "{before:?}: {made:?}");
        // The calls that it makes after the answers have no answers themselves: their outcome is
        // unknown.
        let mut records = bench.run.records().unwrap();
        while before.is_known() && matches!(records.last(), Some(Record::Stepped(_))) {
            records.pop();
        }
        for arguments in [&[1, 2, 1][..], &[2, 1, 2]] {
            let is_kept = arguments[0] == 1 || !before.is_known();
            let start = repeating_of(&records, original());
            let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
            let root = calling(if arguments[0] == 1 { &[1, 2, 1] } else { &[2, 1, 2] });
            let run = recover(&desk, &root, &handlers, std::slice::from_ref(&start));
            // Whatever becomes of it, what the run makes again by itself has the same key.
            let answers = vec![Err(Arc::new(unknown())), Ok(number(1))];
            let made = answer_all(&mut desk, &handlers, answers);
            let key = made[0].clone();
            assert_eq!(made, vec![key.clone(); 3], "{before:?}, {arguments:?}");
            assert!(if is_kept { key == "run/call/0/0" } else { key.starts_with("run~") }, "{before:?}, {made:?}");
            // And so it is for who takes it up.
            let records = run.records().unwrap();
            let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
            let _run = recover(&desk, &root, &handlers, &records);
            assert_eq!(
                answer_all(&mut desk, &handlers, vec![]),
                std::slice::from_ref(&key),
                "{before:?}, {arguments:?}"
            );
            // Another run that repeats the same one and makes the same call: a server takes both
            // for one.
            let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
            let _run = recover(&desk, &root, &handlers, std::slice::from_ref(&start));
            assert_eq!(answer_all(&mut desk, &handlers, vec![]), [key], "{before:?}, {arguments:?}");
        }
    }
}

#[test]
fn former_keys_of_the_first_form_are_read_and_keep_their_calls_whatever_the_arguments() {
    let Record::Started(started) = repeating(&in_flight()) else { panic!("no start") };
    let mut bytes = Vec::new();
    Record::Started(started.clone()).encode(&mut bytes);
    assert!(started.origin.as_ref().unwrap().former_keys.is_plain());
    assert_eq!(Record::decode(bytes.into()).unwrap(), Record::Started(started));
}

/// A call that no run has made before: two runs that repeat the same one have one key if they make
/// the same call, and not if they make different ones. So have the guests of their steps.
#[test]
fn runs_that_repeat_the_same_one_share_keys_where_they_ask_for_the_same() {
    let none = || calling(&[]);
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &none());
    bench.desk.clone().drain();
    let start = repeating_of(&bench.run.records().unwrap(), none());
    let keys_of = |root: Arc<dyn Program>| {
        let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
        let run = recover(&desk, &root, &handlers, std::slice::from_ref(&start));
        desk.drain();
        assert!(run.outcome().is_none());
        keys(&handlers)
    };
    let [one, same, other] =
        [[1, 1], [1, 2], [2, 1]].map(|[first, _]| keys_of(calling(if first == 1 { &[1] } else { &[2] })));
    assert_eq!(one, same);
    assert!(one != other && one[0].starts_with("run~") && one[0].ends_with("/call/0/0"), "{one:?} {other:?}");
    // A guest's calls have the beginning of what it was given.
    let both = keys_of(root());
    assert!(both[1].starts_with("run~") && both[1].ends_with("/child/0/0/1"), "{both:?}");
    assert_eq!(both, keys_of(root()));
}
