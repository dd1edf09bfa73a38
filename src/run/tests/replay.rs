//! Replays and forks.

use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Allocation, Body, Command, Death, Event, Eviction, Micros, NativeProgram, Output, Owed, Payload, Pid,
    Problem, ProblemClass, ProcessInit, Program, Progress, Status, Tag, Timestamp,
};
use crate::run::{
    ForkError, ForkSpec, News, Programs, RebuildError, Record, RecoverySpec, Replay, ReplaySpec, Resolution, RunHandle,
    Started, fork, replay,
};
use std::sync::Arc;

/// The root spawns a child, of another program, that says what it is given; then it calls, and
/// sleeps.
fn root() -> Arc<dyn Program> {
    program(|_| {
        let mut steps = 0;
        act(move |context, events| {
            steps += 1;
            match steps {
                1 => {
                    let mut child = spawn("say");
                    child.component = Some("other".into());
                    child.placement = Some(Arc::new(crate::process::Placement {
                        scope: "a/0/0".into(),
                        limits: None,
                        grants: None,
                        cache: None,
                    }));
                    context.command(Action::Spawn(Box::new(child)));
                }
                2 => {
                    context.command(calls("safe", number(1)));
                    context.command(calls("unsafe", number(2)));
                    context.command(Action::Sleep(Micros(1_000)));
                }
                _ => {}
            }
            let heard: Vec<String> = events.drain(..).map(|event| tell(&event)).collect();
            match (steps, heard.len()) {
                (3.., _) if heard.iter().any(|event| event.starts_with('3')) => Status::Complete(Payload::json(&heard)),
                _ => Status::Blocked,
            }
        })
    })
}

/// A child that logs in its first step how it does it, and then completes.
fn child(version: u32, gives: u64) -> Arc<dyn Program> {
    let choose = move |_: &str| {
        let mut begun = false;
        act(move |context, _| {
            if std::mem::replace(&mut begun, true) {
                return Status::Complete(number(gives));
            }
            context.command(Action::Register("child".into()));
            context.command(Action::Expose { query: "q".into(), value: number(7) });
            Status::Blocked
        })
    };
    Arc::new(NativeProgram::new("child", version, move || Chosen(choose("say"))))
}

struct Chosen(Act);

impl crate::process::Process for Chosen {
    fn init(&mut self, _: &mut crate::process::Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        Ok(())
    }

    fn step(&mut self, context: &mut crate::process::Context<'_>, events: &mut Vec<crate::process::Event>) -> Status {
        (self.0)(context, events)
    }
}

fn programs(other: Arc<dyn Program>) -> Programs {
    [("other".into(), other)].into()
}

fn begin(desk: &Desk, handlers: &Arc<Handlers>) -> RunHandle {
    let mut spec = spec(root(), Arc::clone(handlers), &Setup::default());
    spec.programs = programs(child(1, 42));
    desk.kernel.start(spec).unwrap()
}

/// A run whose calls were sent and have no answer.
fn in_flight() -> Vec<Record> {
    let (mut desk, handlers) = (Desk::new(1), Arc::default());
    let run = begin(&desk, &handlers);
    desk.drain();
    assert_eq!(handlers.waiting.lock().len(), 2);
    run.records().unwrap()
}

fn spec_with(other: Arc<dyn Program>, substituted: bool) -> ReplaySpec {
    ReplaySpec { root: root(), programs: programs(other), substituted, until: None, budget: None }
}

#[test]
fn the_same_is_told_as_the_same_with_every_step() {
    let records = in_flight();
    let mut seen = Vec::new();
    let answer = replay(spec_with(child(1, 42), false), &records, |step| {
        assert_eq!(step.body.is_some(), !matches!(step.stepped.status, Status::Complete(_)));
        seen.push((step.record, step.stepped.pid, step.stepped.step, step.scope.map(|scope| scope.to_string())));
    });
    let count = records.len() as u64;
    assert_eq!(answer, Ok(Replay::Same { steps: 4, fuel_differs: 0, records: count }));
    let scope = Some("a/0/0".to_owned());
    assert_eq!(seen[1], (3, Pid(2), 1, scope.clone()));
    assert_eq!(seen.len(), 4);
    let until = ReplaySpec { until: Some(3), ..spec_with(child(1, 42), false) };
    assert_eq!(replay(until, &records, |_| {}), Ok(Replay::Same { steps: 2, fuel_differs: 0, records: 3 }));
}

#[test]
fn the_first_difference_is_reported_in_words() {
    let records = in_flight();
    let same = replay(spec_with(child(2, 42), true), &records, |_| {});
    assert!(matches!(same, Ok(Replay::Same { .. })), "another program that does the same: {same:?}");
    let Ok(Replay::Diverged(difference)) = replay(spec_with(child(2, 43), true), &records, |_| {}) else { panic!() };
    assert_eq!((difference.record, difference.pid, difference.step, difference.line), (4, Pid(2), 2, 0));
    assert_eq!((difference.scope.as_deref(), difference.component.as_deref()), (Some("a/0/0"), Some("other")));
    assert_eq!(
        (difference.expected, difference.got),
        (vec!["complete: 42".to_owned()], vec!["complete: 43".to_owned()])
    );
}

#[test]
fn another_program_that_was_not_meant_is_refused() {
    let records = in_flight();
    let expected: Arc<str> = child(1, 42).digest();
    let error = replay(spec_with(child(2, 42), false), &records, |_| {}).unwrap_err();
    assert_eq!(error, RebuildError::OtherProgram { name: "other".into(), expected, got: child(2, 42).digest() });
    let none = ReplaySpec { programs: Programs::new(), ..spec_with(child(1, 42), true) };
    let answer = replay(none, &records, |_| {}).unwrap();
    assert!(matches!(answer, Replay::CannotReplay(at) if at.pid == Pid(2) && at.problem.kind == "unknown-component"));
}

/// Dies in its first step.
struct Dies;

impl Body for Dies {
    fn begin(&mut self, _: Timestamp, _: &mut Vec<crate::process::Event>) {}

    fn poll(&mut self, _: &mut Output) -> Progress {
        Progress::Died(Death::Guest(Problem::new("trap", "The guest trapped")))
    }

    fn close(&mut self) {}

    fn evict(&mut self) -> Eviction {
        Eviction::Stays
    }

    fn allocate(&mut self, _: Allocation) {}
}

#[test]
fn a_host_that_cannot_repeat_a_step_says_so_and_another_program_that_dies_does_otherwise() {
    struct Dying;
    impl Program for Dying {
        fn digest(&self) -> Arc<str> {
            child(1, 42).digest()
        }
        fn body(&self, _: ProcessInit) -> Result<Box<dyn Body>, Problem> {
            Ok(Box::new(Dies))
        }
    }
    let records = in_flight();
    let answer = replay(spec_with(Arc::new(Dying), false), &records, |_| {}).unwrap();
    let Replay::CannotReplay(at) = answer else { panic!("{answer:?}") };
    assert_eq!((at.record, at.pid, at.step, &*at.problem.kind), (3, Pid(2), 1, "trap"));
    let answer = replay(spec_with(Arc::new(Dying), true), &records, |_| {}).unwrap();
    let Replay::Diverged(difference) = answer else { panic!("{answer:?}") };
    assert_eq!(difference.expected, ["1: register child", "2: expose q: 7", "blocked"]);
    assert_eq!(difference.got, ["failed: The guest trapped (trap)"]);
}

fn fork_spec(at: u64, resend: bool, other: Arc<dyn Program>) -> ForkSpec {
    let substituted = other.digest() != child(1, 42).digest();
    ForkSpec {
        id: "fork".into(),
        at,
        root: root(),
        programs: programs(other),
        substituted,
        resend,
        other: None,
        budget: None,
    }
}

/// The records that a fork begins with.
fn forked(records: &[Record], spec: ForkSpec) -> Vec<Record> {
    let at = spec.at as usize;
    let started: Started = fork(records, spec).unwrap();
    [&[Record::Started(Box::new(started))], &records[1..at]].concat()
}

fn recover(desk: &Desk, handlers: &Arc<Handlers>, records: &[Record], other: Arc<dyn Program>) -> RunHandle {
    let spec = RecoverySpec { programs: programs(other), ..recovery_spec(&root(), handlers, records) };
    desk.kernel.recover(spec, records).unwrap()
}

fn keys(handlers: &Handlers) -> Vec<String> {
    handlers.waiting.lock().iter().map(|(call, _)| format!("{} {}", call.run, call.idempotency_key)).collect()
}

#[test]
fn calls_in_flight_at_the_cut_wait_until_their_outcome_is_given() {
    let records = in_flight();
    let mut prefix = forked(&records, fork_spec(records.len() as u64, false, child(1, 42)));
    // The host of the fork dies as often as it likes.
    for seed in 1..3 {
        let (mut desk, handlers) = (Desk::new(seed), Arc::<Handlers>::default());
        let run = recover(&desk, &handlers, &prefix, child(1, 42));
        desk.drain();
        assert_eq!(&**run.id(), "fork");
        assert_eq!(handlers.waiting.lock().len(), 0);
        let held: Vec<_> = run.uncertain().into_iter().map(|call| (call.tag, call.key.to_string())).collect();
        assert_eq!(held, [(Tag(2), "run/2".to_owned()), (Tag(3), "run/3".to_owned())]);
        prefix = run.records().unwrap();
    }
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &handlers, &prefix, child(1, 42));
    run.resolve(Pid::ROOT, Tag(2), Resolution::Again).unwrap();
    run.resolve(Pid::ROOT, Tag(3), Resolution::Answered(Ok(number(5)))).unwrap();
    assert_eq!(keys(&handlers), ["fork run/2"], "the key that it had: it is that call");
    handlers.waiting.lock().remove(0).1.answer(Ok(number(6)));
    desk.settle();
    assert!(run.outcome().is_some());
    // A fork of the fork knows what was resolved there.
    let all = run.records().unwrap();
    let again = forked(&all, ForkSpec { id: "again".into(), ..fork_spec(all.len() as u64 - 1, false, child(1, 42)) });
    let run = recover(&desk, &handlers, &again, child(1, 42));
    desk.settle();
    assert!(run.outcome().is_some() && run.uncertain().is_empty());
}

#[test]
fn calls_in_flight_are_sent_again_where_that_is_asked_for() {
    let records = in_flight();
    // By the last record, the call that is not safe to repeat was sent; before that record it may
    // be, too.
    assert!(matches!(records.last(), Some(Record::Leaving { .. })));
    for cut in [records.len() as u64, records.len() as u64 - 1] {
        let prefix = forked(&records, fork_spec(cut, true, child(1, 42)));
        let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
        let run = recover(&desk, &handlers, &prefix, child(1, 42));
        desk.drain();
        assert_eq!(keys(&handlers), ["fork run/2", "fork run/3"], "cut at {cut}");
        assert_eq!(run.uncertain().len(), 0);
        // That it is refused now says nothing of the other run.
        let (_, reply) = handlers.waiting.lock().remove(1);
        reply.answer(Err(Arc::new(Problem::new("address-refused", "No"))));
        desk.drain();
        let all = run.records().unwrap();
        let problem = all.iter().find_map(|record| match record {
            Record::Arrived(arrived) => match &arrived.news {
                News::Answered { answer: Err(problem), .. } => Some(problem.clone()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(problem.unwrap().class, ProblemClass::Uncertain);
    }
    // It is asked for once: if the host of the fork dies, its outcome is unknown as before.
    let prefix = forked(&records, fork_spec(records.len() as u64, true, child(1, 42)));
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &handlers, &prefix, child(1, 42));
    desk.drain();
    let prefix = run.records().unwrap();
    let (mut desk, handlers) = (Desk::new(2), Arc::<Handlers>::default());
    let run = recover(&desk, &handlers, &prefix, child(1, 42));
    desk.drain();
    assert_eq!((keys(&handlers), run.uncertain().len()), (vec!["fork run/2".to_owned()], 1));
}

#[test]
fn the_time_of_a_call_that_is_sent_again_begins_anew() {
    fn timed() -> Action {
        Action::Call(Box::new(crate::process::Call { timeout: Some(Micros(5_000)), ..call("unsafe", number(1)) }))
    }
    let root = || program(|_| collect(|| vec![timed()], 1));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root());
    bench.desk.clone().drain();
    let records = bench.run.records().unwrap();
    let spec =
        ForkSpec { root: root(), programs: Programs::new(), ..fork_spec(records.len() as u64, true, child(1, 1)) };
    let started = fork(&records, ForkSpec { programs: bench.programs(), ..spec }).unwrap();
    let prefix = [&[Record::Started(Box::new(started))], &records[1..]].concat();
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    desk.advance(Micros(60_000_000));
    let run = super::support::recover(&desk, &root(), &handlers, &prefix);
    desk.drain();
    let (_, reply) = handlers.waiting.lock().pop().unwrap();
    reply.answer(Ok(number(2)));
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["1 2"]"#);
}

#[test]
fn what_a_fork_does_by_itself_has_keys_of_its_own() {
    let records = in_flight();
    let step =
        records.iter().position(|record| matches!(record, Record::Stepped(step) if step.decided.len() == 3)).unwrap();
    let prefix = forked(&records, fork_spec(step as u64, false, child(1, 42)));
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &handlers, &prefix, child(1, 42));
    desk.drain();
    assert!(run.uncertain().is_empty());
    assert_eq!(keys(&handlers), ["fork fork/2", "fork fork/3"]);
}

#[test]
fn another_component_goes_on_where_it_would_have_done_the_same_so_far() {
    let records = in_flight();
    // Before the child's second step it has only begun.
    let prefix = forked(&records, fork_spec(3, false, child(2, 43)));
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = recover(&desk, &handlers, &prefix, child(2, 43));
    desk.drain();
    let completed = run
        .records()
        .unwrap()
        .into_iter()
        .any(|record| matches!(record, Record::Stepped(step) if step.status == Status::Complete(number(43))));
    assert!(completed, "the new component goes on");
    let unmeant = ForkSpec { substituted: false, ..fork_spec(3, false, child(2, 43)) };
    let error = fork(&records, unmeant).unwrap_err();
    assert!(matches!(&error, ForkError::Records(RebuildError::OtherProgram { .. })), "{error}");
    let error = fork(&records, fork_spec(4, false, child(2, 43))).unwrap_err();
    assert!(matches!(&error, ForkError::Diverged(at) if at.record == 4), "{error}");
    assert_eq!(error.to_string(), "process 2 diverges in step 2 (record 4)");
}

#[test]
fn there_is_no_fork_where_nothing_would_go_on() {
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let run = begin(&desk, &handlers);
    desk.drain();
    for (call, reply) in handlers.waiting.lock().drain(..).collect::<Vec<_>>() {
        reply.answer(Ok(call.args));
    }
    desk.settle();
    let records = run.records().unwrap();
    let all = records.len() as u64;
    let error = |at| fork(&records, fork_spec(at, false, child(1, 42))).unwrap_err();
    assert_eq!(error(all), ForkError::Ended { at: all });
    assert_eq!(error(all + 1), ForkError::NoRecord { at: all + 1, records: all });
    assert_eq!(error(0), ForkError::NoRecord { at: 0, records: all });
}

/// A guest that gives four commands and then waits: in one step, or each in a part of its own.
struct Wide {
    in_parts: bool,
    /// What is still to be given.
    rest: std::vec::IntoIter<Command>,
    heard: bool,
}

impl Body for Wide {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.heard = events.drain(..).count() > 0;
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if self.heard {
            return Progress::Stepped(Status::Complete(number(4)));
        }
        while let Some(command) = self.rest.next() {
            output.commands.push(command);
            if self.in_parts && self.owes().is_some() {
                return Progress::Stepped(Status::Ready);
            }
        }
        Progress::Stepped(Status::Blocked)
    }

    fn owes(&self) -> Option<Owed<'_>> {
        let commands = self.rest.as_slice();
        (self.in_parts && !commands.is_empty()).then_some(Owed { commands, status: &Status::Blocked })
    }
}

fn wide(in_parts: bool) -> Arc<dyn Program> {
    maker(move |_| {
        let sleep = |tag| Command { tag: Tag(tag), action: Action::Sleep(Micros(1_000_000 * tag)) };
        let rest: Vec<Command> = (1..=4).map(sleep).collect();
        Ok(Box::new(Wide { in_parts, rest: rest.into_iter(), heard: false }))
    })
}

#[test]
fn a_step_that_was_committed_whole_is_repeated_by_a_body_that_gives_it_in_parts() {
    let records = |in_parts| {
        let (mut desk, handlers) = (Desk::new(1), Arc::default());
        let run = desk.kernel.start(spec(wide(in_parts), handlers, &Setup::default())).unwrap();
        desk.drain();
        run.records().unwrap()
    };
    let (whole, parts) = (records(false), records(true));
    assert_eq!((whole.len(), parts.len()), (2, 5));
    let handlers = Arc::default();
    for (records, steps) in [(whole, 1), (parts, 4)] {
        let count = records.len() as u64;
        let programs = spec(wide(true), Arc::clone(&handlers), &Setup::default()).programs;
        let spec = ReplaySpec { root: wide(true), programs, substituted: false, until: None, budget: None };
        assert_eq!(replay(spec, &records, |_| {}), Ok(Replay::Same { steps, fuel_differs: 0, records: count }));
        let mut desk = Desk::new(1);
        let recovered = super::support::recover(&desk, &wide(true), &handlers, &records);
        desk.settle();
        assert_eq!(output(&recovered.outcome().unwrap()), "4");
    }
}
