//! A scripted world: it answers what the interpreter asks for, in any order, and moves a virtual
//! clock.

mod after;
mod blocks;
mod bounds;
mod built;
mod children;
pub(crate) mod drawn;
mod failures;
mod properties;
mod random;
pub(crate) mod reference;
mod retry;
mod rules;
mod signals;
mod turns;
mod waits;

use super::progress::Progress;
use super::*;
use crate::process::{
    Answer, Command, Grants, Level, Limits, LogLine, Micros, Output, Pid, ProblemClass, Target, Timestamp,
};
use crate::process::{Native, Progress as Slice};
use crate::workflow::expression::EngineConfig;
use crate::workflow::plan::{Unchecked, load};
use crate::workflow::syntax::Source;
use std::sync::OnceLock;

pub(super) fn jq() -> Arc<Jq> {
    static JQ: OnceLock<Arc<Jq>> = OnceLock::new();
    Arc::clone(JQ.get_or_init(|| Arc::new(Jq::new(EngineConfig::default()).unwrap())))
}

pub(super) fn plan(yaml: &str) -> Plan {
    load(&Source::new("test.yaml", yaml), &jq(), &Unchecked).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A spawn or a call of the interpreter.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) tag: Tag,
    /// The component or the handler.
    pub(super) what: String,
    pub(super) entry: String,
    pub(super) input: Value,
    /// `<id>/<item>/<n>`.
    pub(super) scope: String,
    pub(super) grants: Grants,
    pub(super) limits: Arc<Limits>,
    /// What its outcome is kept under in the cache.
    pub(super) cache: Option<Arc<str>>,
    is_spawn: bool,
}

impl Ask {
    pub(super) fn node(&self) -> &str {
        self.scope.split('/').next().unwrap()
    }
}

pub(super) enum Reply {
    Now(Answer),
    /// Only once it is stopped.
    Never,
}

pub(super) fn ok(value: Value) -> Reply {
    Reply::Now(Ok(Payload::json(&value)))
}

pub(super) fn fails(kind: &'static str, class: ProblemClass) -> Reply {
    Reply::Now(Err(Arc::new(Problem::new(kind, "It broke").with_class(class))))
}

/// The interpreter and its commands.
pub(super) struct World {
    body: Native<Interpreter>,
    pub(super) now: u64,
    /// Commands without an answer.
    pub(super) pending: Vec<Ask>,
    sleeps: Vec<(u64, Tag)>,
    /// When unanswered calls time out.
    deadlines: Vec<(u64, Tag)>,
    stopped: Vec<Tag>,
    /// All spawns and calls.
    pub(super) asked: Vec<Ask>,
    /// Every command, for comparisons.
    pub(super) commands: Vec<Command>,
    pub(super) reported: Vec<Progress>,
    /// All log lines.
    pub(super) lines: Vec<LogLine>,
    pub(super) end: Option<StepStatus>,
    /// Steps of the interpreter.
    pub(super) steps: usize,
    /// The most commands pending at a time.
    pub(super) most: usize,
    /// The most bytes of inputs in the commands of one step.
    pub(super) step_bytes_most: usize,
}

impl World {
    pub(super) fn new(yaml: &str, inputs: Value) -> Self {
        Self::of(plan(yaml), inputs)
    }

    pub(super) fn of(plan: Plan, inputs: Value) -> Self {
        Self::with_limits(plan, inputs, Limits::default())
    }

    pub(super) fn with_limits(plan: Plan, inputs: Value, limits: Limits) -> Self {
        Self::begun(plan, ("run", Payload::json(&inputs)), limits)
    }

    /// A run that repeats another.
    pub(super) fn again(yaml: &str, given: &RepeatInput) -> Self {
        Self::begun(plan(yaml), (RETRY, Payload::json(given)), Limits::default())
    }

    /// A run with an earlier version of the interpreter.
    pub(super) fn of_version(plan: Plan, version: u32) -> Self {
        let interpreter = Interpreter::of_version(Arc::new(plan), jq(), version);
        Self::born(interpreter, ("run", Payload::json(&json!({}))), Limits::default())
    }

    fn begun(plan: Plan, given: (&str, Payload), limits: Limits) -> Self {
        Self::born(Interpreter::new(Arc::new(plan), jq()), given, limits)
    }

    fn born(interpreter: Interpreter, (entry, input): (&str, Payload), limits: Limits) -> Self {
        let init = ProcessInit {
            run: "r1".into(),
            holder: "r1".into(),
            pid: Pid::ROOT,
            seed: [7; 32],
            entry: entry.into(),
            input,
            limits: Arc::new(limits),
            grants: Grants::default(),
            next_tag: Tag(1),
            is_anonymous: false,
        };
        let body = Native::new(interpreter, init);
        let mut world = Self {
            body,
            now: 1_000_000,
            pending: Vec::new(),
            sleeps: Vec::new(),
            deadlines: Vec::new(),
            stopped: Vec::new(),
            asked: Vec::new(),
            commands: Vec::new(),
            reported: Vec::new(),
            lines: Vec::new(),
            end: None,
            steps: 0,
            most: 0,
            step_bytes_most: 0,
        };
        world.step(Vec::new());
        world
    }

    /// Steps it until it waits or has ended.
    pub(super) fn step(&mut self, mut events: Vec<Event>) {
        loop {
            assert!(self.end.is_none(), "stepped after its end");
            let mut output = Output::default();
            self.steps += 1;
            self.body.begin(Timestamp(self.now), &mut events);
            let Slice::Stepped(status) = self.body.poll(&mut output) else { panic!("native steps are whole") };
            self.reported.extend(output.log.iter().filter_map(Progress::of));
            self.lines.append(&mut output.log);
            let size = |command: &Command| match &command.action {
                Action::Spawn(spawn) => spawn.input.size(),
                Action::Call(call) => call.args.size(),
                _ => 0,
            };
            self.step_bytes_most = self.step_bytes_most.max(output.commands.iter().map(size).sum());
            for command in output.commands {
                self.commands.push(command.clone());
                self.take(command);
            }
            self.most = self.most.max(self.pending.len());
            match status {
                StepStatus::Ready => {}
                StepStatus::Blocked => {
                    assert!(!self.pending.is_empty() || !self.sleeps.is_empty(), "blocked on nothing");
                    return;
                }
                end => {
                    self.end = Some(end);
                    return;
                }
            }
        }
    }

    fn take(&mut self, Command { tag, action }: Command) {
        let value = |payload: &Payload| match payload {
            Payload::Json(json) => json.to_value(),
            other => panic!("{other:?}"),
        };
        match action {
            Action::Sleep(time) => self.sleeps.push((self.now + time.0, tag)),
            Action::Spawn(spawn) => {
                let placement = spawn.placement.unwrap();
                self.pending.push(Ask {
                    tag,
                    what: spawn.component.unwrap().to_string(),
                    entry: spawn.entry.to_string(),
                    input: value(&spawn.input),
                    scope: placement.scope.to_string(),
                    grants: placement.grants.clone().unwrap(),
                    limits: placement.limits.clone().unwrap(),
                    cache: None,
                    is_spawn: true,
                });
                self.asked.push(self.pending.last().unwrap().clone());
            }
            Action::Call(call) if call.placement.is_none() => {
                assert_eq!(&*call.handler, crate::run::SIGNAL, "every call but that for a signal has its place");
                self.pending.push(Ask {
                    tag,
                    what: call.handler.to_string(),
                    entry: String::new(),
                    input: value(&call.args),
                    scope: format!("signal {}", names_of(&value(&call.args))),
                    grants: Grants::default(),
                    limits: Arc::default(),
                    cache: None,
                    is_spawn: false,
                });
                self.asked.push(self.pending.last().unwrap().clone());
            }
            Action::Call(call) => {
                let placement = call.placement.unwrap();
                self.deadlines.extend(call.timeout.map(|timeout| (self.now + timeout.0, tag)));
                self.pending.push(Ask {
                    tag,
                    what: call.handler.to_string(),
                    entry: String::new(),
                    input: value(&call.args),
                    scope: placement.scope.to_string(),
                    grants: placement.grants.clone().unwrap_or_default(),
                    limits: placement.limits.clone().unwrap_or_default(),
                    cache: placement.cache.as_ref().map(|cache| Arc::clone(&cache.key)),
                    is_spawn: false,
                });
                self.asked.push(self.pending.last().unwrap().clone());
            }
            Action::Cancel(tag) | Action::Stop(Target::Child(tag)) => self.stopped.push(tag),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a pending command.
    pub(super) fn answer(&mut self, tag: Tag, answer: Answer) {
        let at = self.pending.iter().position(|ask| ask.tag == tag).expect("it is pending");
        self.pending.remove(at);
        self.step(vec![Event::Completed { tag, answer }]);
    }

    /// Answers the pending command of a scope.
    pub(super) fn answer_scope(&mut self, scope: &str, reply: Reply) {
        let ask = self.pending.iter().find(|ask| ask.scope == scope);
        let tag = ask.unwrap_or_else(|| panic!("{scope} is not pending: {:?}", self.scopes())).tag;
        let Reply::Now(answer) = reply else { panic!("an answer is given now") };
        self.answer(tag, answer);
    }

    pub(super) fn scopes(&self) -> Vec<&str> {
        self.pending.iter().map(|ask| ask.scope.as_str()).collect()
    }

    /// Ends the next sleep, or times out the next call.
    pub(super) fn sleep_over(&mut self) {
        self.sleeps.sort_unstable();
        let pending = |tag: Tag| self.pending.iter().any(|ask| ask.tag == tag);
        let late = self.deadlines.iter().copied().filter(|(_, tag)| pending(*tag)).min();
        if let Some((due, tag)) = late.filter(|(due, _)| self.sleeps.first().is_none_or(|(sleep, _)| due < sleep)) {
            self.now = self.now.max(due);
            let problem = Problem::new(crate::process::problem::kind::TIMED_OUT, "It took longer than its timeout");
            return self.answer(tag, Err(Arc::new(problem.with_class(ProblemClass::Uncertain))));
        }
        let (due, tag) = self.sleeps.remove(0);
        self.now = self.now.max(due);
        self.step(vec![Event::Completed { tag, answer: Ok(Payload::NULL) }]);
    }

    /// Answers the stopped commands.
    pub(super) fn settle_stopped(&mut self) -> bool {
        let cancelled = || Err(Arc::new(Problem::new(crate::process::problem::kind::CANCELLED, "It was cancelled")));
        let Some(tag) = self.stopped.pop() else { return false };
        if let Some(at) = self.sleeps.iter().position(|(_, sleep)| *sleep == tag) {
            self.sleeps.remove(at);
        } else if let Some(at) = self.pending.iter().position(|ask| ask.tag == tag) {
            assert_eq!(
                self.commands.iter().any(|command| command.action == Action::Stop(Target::Child(tag))),
                self.pending[at].is_spawn,
                "a child is stopped, a call is cancelled"
            );
            self.pending.remove(at);
        } else {
            return true;
        }
        if self.end.is_none() {
            self.step(vec![Event::Completed { tag, answer: cancelled() }]);
        }
        true
    }

    /// Runs it to its end. `order` picks the pending command to answer next.
    pub(super) fn run(mut self, mut reply: impl FnMut(&Ask) -> Reply, mut order: impl FnMut(usize) -> usize) -> Self {
        let mut unanswered = std::collections::BTreeSet::new();
        while self.end.is_none() {
            if self.settle_stopped() {
                continue;
            }
            let open: Vec<usize> =
                (0..self.pending.len()).filter(|at| !unanswered.contains(&self.pending[*at].tag)).collect();
            if open.is_empty() {
                self.sleep_over();
                continue;
            }
            let ask = self.pending[open[order(open.len()) % open.len()]].clone();
            match reply(&ask) {
                Reply::Now(answer) => self.answer(ask.tag, answer),
                Reply::Never => {
                    unanswered.insert(ask.tag);
                }
            }
        }
        self
    }

    /// The output of the completed run.
    pub(super) fn output(&self) -> Value {
        match &self.end {
            Some(StepStatus::Complete(Payload::Json(json))) => json.to_value(),
            other => panic!("it did not complete: {other:?}"),
        }
    }

    /// The problem of the failed run.
    pub(super) fn problem(&self) -> &Problem {
        match &self.end {
            Some(StepStatus::Failed(problem)) => problem,
            other => panic!("it did not fail: {other:?}"),
        }
    }

    /// The extension members of that problem.
    pub(super) fn data(&self) -> Value {
        self.problem().data.as_ref().map(crate::process::Json::to_value).unwrap_or_default()
    }

    /// The last status of a node in the log.
    pub(super) fn status(&self, node: &str) -> String {
        let of = |progress: &Progress| match progress {
            Progress::Node(reported) if reported.node == node => Some(reported.status.clone()),
            _ => None,
        };
        self.reported.iter().rev().find_map(of).expect("every node has progress")
    }
}

/// Runs with answers in the order of the commands.
pub(super) fn run(yaml: &str, inputs: Value, reply: impl FnMut(&Ask) -> Reply) -> World {
    World::new(yaml, inputs).run(reply, |_| 0)
}

/// The names of the signals that a call waits for.
fn names_of(args: &Value) -> String {
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    match args["any"].as_array() {
        Some(all) => all.iter().map(name).collect::<Vec<_>>().join(" or "),
        None => name(args),
    }
}
