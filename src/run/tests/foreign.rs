//! Code of an embedder that panics where the run calls it in the middle of a commit: what it is
//! asked for is refused, nothing that is recorded is undone, and nothing is seen that is not
//! recorded.

use super::desk::Desk;
use super::support::*;
use crate::journal::Memory;
use crate::process::{
    Action, Allocation, Body, Event, Grants, Json, Level, LogLine, Output, Payload, Permit, Pid, Problem, ProcessInit,
    Program, Progress, Status, Tag, Target, Timestamp,
};
use crate::run::{Dispatched, Durability, Effects, Log, LogOrigin, LogSink, OutgoingCall, Reply, RunSpec, rebuild};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Effects that answer calls, and panic when anything else is asked of them.
#[derive(Clone, Copy, PartialEq)]
enum Panicky {
    Dispatch,
    IsRepeatable,
    Narrows,
}

impl Effects for Panicky {
    fn dispatch(&self, call: OutgoingCall, _: Arc<dyn Reply>) -> Dispatched {
        assert!(*self != Self::Dispatch, "it is not dispatched");
        Dispatched::Answered(Ok(call.args))
    }

    fn abandon(&self, _: &str, _: Pid, _: Tag) {}

    fn is_repeatable(&self, _: &str, _: &Payload) -> bool {
        assert!(*self != Self::IsRepeatable, "nobody knows");
        true
    }

    fn narrows(&self, _: &str, _: &[String], _: &str) -> bool {
        assert!(*self != Self::Narrows, "nobody knows");
        true
    }
}

/// A run of that root whose step notifies a watcher before it asks for the foreign thing.
fn spec_of(last: impl Fn() -> Action + Send + Sync + 'static) -> RunSpec {
    let last = Arc::new(last);
    let root = program(move |entry| {
        let last = Arc::clone(&last);
        match entry {
            "root" => collect(move || vec![spawns("listener"), sends(Target::Child(Tag(1)), number(7)), last()], 2),
            _ => collect(Vec::new, 1),
        }
    });
    spec(root, Arc::default(), &Setup::default())
}

/// Runs it to its end, and returns its output. Its records replay the same run.
fn ended(spec: RunSpec) -> String {
    let (root, programs) = (Arc::clone(&spec.root), spec.programs.clone());
    let mut desk = Desk::new(1);
    let run = desk.kernel.start(spec).unwrap();
    desk.settle();
    let outcome = run.outcome().expect("the run ends");
    let rebuilt = rebuild(&run.records().unwrap(), &root, &programs).unwrap();
    assert!(rebuilt.is_finished());
    assert_eq!(rebuilt.result(), Some(&outcome.result));
    output(&outcome)
}

#[test]
fn a_spawn_of_a_program_that_panics_is_answered_with_that() {
    struct Unpermitted(Arc<dyn Program>);
    impl Program for Unpermitted {
        fn permit(&self) -> Permit {
            panic!("no permit")
        }
        fn digest(&self) -> Arc<str> {
            "test:unpermitted".into()
        }
        fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
            self.0.body(init)
        }
    }
    let unpermitted = Unpermitted(program(|_| collect(Vec::new, 0)));
    for program in [maker(|_| panic!("no body")), Arc::new(unpermitted)] {
        let spec = spec_of(|| {
            let mut other = spawn("x");
            other.component = Some("other".into());
            Action::Spawn(Box::new(other))
        });
        let heard = ended(RunSpec { programs: [("other".into(), program)].into(), ..spec });
        assert!(heard.contains("3 host-fault Definite"), "{heard}");
    }
}

#[test]
fn what_effects_do_not_say_is_taken_to_be_no() {
    let narrowed = || {
        let mut child = spawn("listener");
        child.narrow = Some(Json::parse(r#"{"grants":{"x":["y"]}}"#).unwrap());
        Action::Spawn(Box::new(child))
    };
    let spec = spec_of(narrowed);
    let grants =
        Grants([("x".into(), vec!["z".into()])].into_iter().collect::<std::collections::BTreeMap<_, _>>().into());
    let heard = ended(RunSpec { effects: Arc::new(Panicky::Narrows), grants, ..spec });
    assert!(heard.contains("3 bad-narrow Definite"), "{heard}");
    let heard = ended(RunSpec { effects: Arc::new(Panicky::IsRepeatable), ..spec_of(|| calls("x", number(1))) });
    assert!(heard.contains("3 1"), "{heard}");
    let heard = ended(RunSpec { effects: Arc::new(Panicky::Dispatch), ..spec_of(|| calls("x", number(1))) });
    assert!(heard.contains("3 host-fault"), "{heard}");
}

#[test]
fn one_whose_instance_cannot_be_housed_when_it_is_renewed_ends_as_that() {
    struct Homeless(bool);
    impl Body for Homeless {
        fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}
        fn poll(&mut self, _: &mut Output) -> Progress {
            Progress::Stepped(Status::Renew { entry: "renewed".into(), input: Payload::NULL })
        }
        fn allocate(&mut self, _: Allocation) {
            assert!(!self.0, "it has no allocation");
        }
    }
    let root = maker(|init| Ok(Box::new(Homeless(&*init.entry == "renewed"))));
    let mut desk = Desk::new(1);
    let run = desk.kernel.start(spec(root, Arc::default(), &Setup::default())).unwrap();
    desk.settle();
    let problem = run.outcome().expect("the run ends").result.clone().unwrap_err();
    assert_eq!((&*problem.kind, problem.detail.as_deref()), ("host-fault", Some("it has no allocation")));
    assert_eq!(&*problem.title, "The program panicked when a process of it was made");
}

/// What a log and a sink were given, in order.
type Given = Arc<Mutex<Vec<String>>>;

struct Recording(Memory, Given);

impl Log for Recording {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.1.lock().push("record".into());
        self.0.append(record)
    }
    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

struct Sink(Given);

impl LogSink for Sink {
    fn lines(&self, _: &LogOrigin, lines: &[LogLine], _: u64) {
        self.0.lock().extend(lines.iter().map(|line| line.text.clone()));
        panic!("it is full");
    }
}

#[test]
fn lines_are_seen_when_their_record_is_in_the_log_and_a_sink_that_panics_keeps_none_from_it() {
    let root = program(|_| {
        let mut steps = 0;
        act(move |context, _| {
            steps += 1;
            let text = format!("line {steps}");
            context.log(LogLine { level: Level::Info, text, fields: None });
            if steps == 2 {
                // No name is so long: it fails, with what it wrote.
                context.command(Action::Register("n".repeat(2_000).into()));
            }
            Status::Ready
        })
    });
    let given = Given::default();
    let mut spec = spec(Arc::clone(&root), Arc::default(), &Setup::default());
    spec.log = Box::new(Recording(Memory::default(), Arc::clone(&given)));
    spec.sink = Some(Arc::new(Sink(Arc::clone(&given))));
    let programs = spec.programs.clone();
    let mut desk = Desk::new(1);
    let run = desk.kernel.start(spec).unwrap();
    desk.settle();
    assert_eq!(&*run.outcome().expect("the run ends").result.clone().unwrap_err().kind, "too-large");
    assert_eq!(*given.lock(), ["record", "record", "line 1", "record", "line 2"]);
    assert!(rebuild(&run.records().unwrap(), &root, &programs).unwrap().is_finished());
}
