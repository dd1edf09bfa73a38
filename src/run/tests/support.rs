//! What the tests run: native processes made of closures, and handlers that answer when the test
//! says so.

use super::desk::Desk;
use crate::journal::Memory;
use crate::process::{
    Action, Answer, Body, Context, Event, Grants, Limits, NativeProgram, Payload, Permit, Pid, Problem, Process,
    ProcessInit, Program, Send, Spawn, Status, Tag, Target,
};
use crate::run::{
    Bounds, Counts, Dispatched, Effects, Log as _, Outcome, OutgoingCall, Programs, Projection, Record, RecoverySpec,
    Reply, RunHandle, RunSpec, rebuild,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// What a process of a test does in a step.
pub(super) type Act = Box<dyn FnMut(&mut Context<'_>, &mut Vec<Event>) -> Status + std::marker::Send>;

/// A process that is a closure, chosen by its entry point.
pub(super) struct Scripted {
    choose: Arc<dyn Fn(&str) -> Act + std::marker::Send + Sync>,
    act: Option<Act>,
}

impl Process for Scripted {
    fn init(&mut self, _: &mut Context<'_>, entry: &str, _: Payload) -> Result<(), Problem> {
        self.act = Some((self.choose)(entry));
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status {
        self.act.as_mut().unwrap()(context, events)
    }
}

pub(super) fn program(choose: impl Fn(&str) -> Act + std::marker::Send + Sync + 'static) -> Arc<dyn Program> {
    let choose: Arc<dyn Fn(&str) -> Act + std::marker::Send + Sync> = Arc::new(choose);
    Arc::new(NativeProgram::new("scripted", 1, move || Scripted { choose: Arc::clone(&choose), act: None }))
}

pub(super) fn act(act: impl FnMut(&mut Context<'_>, &mut Vec<Event>) -> Status + std::marker::Send + 'static) -> Act {
    Box::new(act)
}

/// Calls that wait for the test to answer them. A handler named `inline` answers its arguments at
/// once; one whose name begins with `safe` may be repeated.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) waiting: Mutex<Vec<(OutgoingCall, Arc<dyn Reply>)>>,
    pub(super) abandoned: Mutex<Vec<(Pid, Tag)>>,
}

impl Effects for Handlers {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        if &*call.handler == "inline" {
            return Dispatched::Answered(Ok(call.args));
        }
        self.waiting.lock().push((call, reply));
        Dispatched::Pending
    }

    fn abandon(&self, _: &str, pid: Pid, tag: Tag) {
        self.abandoned.lock().push((pid, tag));
    }

    fn is_repeatable(&self, handler: &str, _: &Payload) -> bool {
        handler.starts_with("safe") || handler == "inline"
    }
}

/// A run at a desk.
pub(super) struct Bench {
    pub(super) desk: Desk,
    pub(super) handlers: Arc<Handlers>,
    pub(super) run: RunHandle,
    root: Arc<dyn Program>,
    programs: Programs,
}

pub(super) struct Setup {
    pub(super) limits: Limits,
    pub(super) bounds: Bounds,
    pub(super) grants: Grants,
    pub(super) seed: u64,
    pub(super) places: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            bounds: Bounds::default(),
            grants: Grants::default(),
            seed: 1,
            places: 100_000,
        }
    }
}

pub(super) fn spec(root: Arc<dyn Program>, handlers: Arc<Handlers>, setup: &Setup) -> RunSpec {
    RunSpec {
        id: "run".into(),
        seed: [7; 32],
        root,
        entry: "root".into(),
        input: Payload::NULL,
        limits: setup.limits.clone(),
        grants: setup.grants.clone(),
        bounds: setup.bounds,
        programs: [("other".into(), program(|_| act(|_, _| Status::Complete(number(42)))))].into(),
        log: Box::new(Memory::default()),
        effects: handlers,
        sink: None,
        watcher: None,
        origin: None,
    }
}

/// A log in memory that has these records.
pub(super) fn memory_of(records: &[Record]) -> Memory {
    let mut log = Memory::default();
    for record in records {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        log.append(&bytes);
    }
    log
}

/// What a run of [`spec`] is recovered with.
pub(super) fn recovery_spec(root: &Arc<dyn Program>, handlers: &Arc<Handlers>, records: &[Record]) -> RecoverySpec {
    let RunSpec { root, programs, effects, .. } = spec(Arc::clone(root), Arc::clone(handlers), &Setup::default());
    let (log, left) = (Box::new(memory_of(records)), Vec::new());
    RecoverySpec { root, programs, left, unless_paused: false, log, effects, sink: None, watcher: None }
}

/// Recovers a run from these records.
pub(super) fn recover(desk: &Desk, root: &Arc<dyn Program>, handlers: &Arc<Handlers>, records: &[Record]) -> RunHandle {
    desk.kernel.recover(recovery_spec(root, handlers, records), records).unwrap()
}

impl Bench {
    pub(super) fn programs(&self) -> Programs {
        self.programs.clone()
    }

    pub(super) fn with(setup: &Setup, choose: impl Fn(&str) -> Act + std::marker::Send + Sync + 'static) -> Self {
        let desk = Desk::with_places(setup.seed, setup.places);
        let handlers = Arc::new(Handlers::default());
        let root = program(choose);
        Self::of(desk, handlers, setup, &root)
    }

    pub(super) fn of(desk: Desk, handlers: Arc<Handlers>, setup: &Setup, root: &Arc<dyn Program>) -> Self {
        let spec = spec(Arc::clone(root), Arc::clone(&handlers), setup);
        let programs = spec.programs.clone();
        let run = desk.kernel.start(spec).unwrap();
        Self { desk, handlers, run, root: Arc::clone(root), programs }
    }

    pub(super) fn new(choose: impl Fn(&str) -> Act + std::marker::Send + Sync + 'static) -> Self {
        Self::with(&Setup::default(), choose)
    }

    /// Continues to the end of the run, and rebuilds it from its records.
    pub(super) fn finish(mut self) -> Arc<Outcome> {
        let here = self.run.run();
        self.desk.settle();
        let outcome = self.run.outcome().expect("the run ends");
        assert_eq!(self.desk.living(), 0);
        if let Some(run) = here {
            assert_eq!(run.inner.lock().state.bytes, 0, "what its processes held was given back");
        }
        self.check(&outcome);
        outcome
    }

    /// The records can be read back as they were written, and replay the same run: the same
    /// commands in each step, the same result.
    pub(super) fn check(&self, outcome: &Outcome) {
        let records = self.run.records().unwrap();
        for record in &records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(bytes.into()).as_ref(), Ok(record));
        }
        assert_eq!(records.len() as u64, outcome.counts.records);
        let rebuilt = rebuild(&records, &self.root, &self.programs).unwrap();
        assert!(rebuilt.is_finished());
        assert_eq!(rebuilt.result(), Some(&outcome.result));
        assert_eq!(rebuilt.steps, outcome.counts.steps);
        assert_eq!(rebuilt.fuel_differs, 0);
        let Counts { dropped, retried, .. } = outcome.counts;
        let projection = project(&records);
        assert_eq!(Counts { dropped, retried, ..projection.counts() }, outcome.counts);
        assert_eq!(projection.abandoned(), (&outcome.abandoned[..], outcome.abandoned_more));
        assert_eq!((projection.late(), projection.calls().count()), (outcome.late, 0));
    }
}

/// The run as these records give it.
pub(super) fn project(records: &[Record]) -> Projection {
    let mut projection = Projection::default();
    for record in records {
        projection.apply(record).unwrap();
    }
    projection
}

pub(super) fn number(number: u64) -> Payload {
    Payload::json(&number)
}

pub(super) fn text(payload: &Payload) -> String {
    match payload {
        Payload::Json(json) => json.as_str().to_owned(),
        other => panic!("no JSON: {other:?}"),
    }
}

pub(super) fn output(outcome: &Outcome) -> String {
    text(outcome.result.as_ref().expect("the run has an output"))
}

pub(super) fn spawn(entry: &str) -> Spawn {
    Spawn {
        component: None,
        entry: entry.into(),
        input: Payload::NULL,
        name: None,
        link: false,
        detached: false,
        narrow: None,
        placement: None,
    }
}

pub(super) fn spawns(entry: &str) -> Action {
    Action::Spawn(Box::new(spawn(entry)))
}

pub(super) fn call(handler: &str, args: Payload) -> crate::process::Call {
    crate::process::Call { handler: handler.into(), args, timeout: None, idempotency_key: None, placement: None }
}

pub(super) fn calls(handler: &str, args: Payload) -> Action {
    Action::Call(Box::new(call(handler, args)))
}

pub(super) fn sends(to: Target, body: Payload) -> Action {
    Action::Send(Send::new(to, "t".into(), body))
}

/// The answers among events, with their tags.
pub(super) fn answers(events: &[Event]) -> Vec<(Tag, Answer)> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Completed { tag, answer } => Some((*tag, answer.clone())),
            _ => None,
        })
        .collect()
}

/// A process that gives these commands, collects everything that it receives until it has that
/// many, and completes with the list.
pub(super) fn collect(commands: impl Fn() -> Vec<Action> + std::marker::Send + 'static, count: usize) -> Act {
    let mut heard: Vec<String> = Vec::new();
    let mut begun = false;
    act(move |context, events| {
        if !begun {
            begun = true;
            for action in commands() {
                context.command(action);
            }
        }
        heard.extend(events.drain(..).map(|event| tell(&event)));
        if heard.len() >= count { Status::Complete(Payload::json(&heard)) } else { Status::Idle }
    })
}

/// An event in a few words.
pub(super) fn tell(event: &Event) -> String {
    use crate::process::{Ending, Sender};
    let ending = |ending: &Ending| match ending {
        Ending::Completed => "completed".to_owned(),
        Ending::Failed(problem) => format!("failed {}", problem.kind),
        Ending::Cancelled(reason) => format!("cancelled: {reason}"),
    };
    match event {
        Event::Completed { tag, answer: Ok(payload) } => format!("{tag} {}", text(payload)),
        Event::Completed { tag, answer: Err(problem) } => format!("{tag} {} {:?}", problem.kind, problem.class),
        Event::Message(message) => {
            let from = match &message.sender {
                Sender::Child(tag) => format!("child {tag}"),
                Sender::Process(pid) => format!("process {pid}"),
                Sender::Call(tag) => format!("call {tag}"),
                Sender::Outside(name) => format!("outside {name}"),
            };
            format!("{from}: {}", text(&message.body))
        }
        Event::Exited(exit) => format!("exit of {} by {}: {}", exit.pid, exit.by, ending(&exit.ending)),
        Event::Cancel { reason, .. } => format!("cancel: {reason}"),
    }
}

/// A program of bodies that a function makes.
pub(super) fn maker(
    make: impl Fn(ProcessInit) -> Result<Box<dyn Body>, Problem> + std::marker::Send + Sync + 'static,
) -> Arc<dyn Program> {
    guests(Permit::NONE, make)
}

/// The same, with that permit for each body.
pub(super) fn guests(
    permit: Permit,
    make: impl Fn(ProcessInit) -> Result<Box<dyn Body>, Problem> + std::marker::Send + Sync + 'static,
) -> Arc<dyn Program> {
    struct Maker<F>(Permit, F);
    impl<F: Fn(ProcessInit) -> Result<Box<dyn Body>, Problem> + std::marker::Send + Sync> Program for Maker<F> {
        fn permit(&self) -> Permit {
            self.0
        }
        fn digest(&self) -> Arc<str> {
            "test:maker".into()
        }
        fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
            (self.1)(init)
        }
    }
    Arc::new(Maker(permit, make))
}
