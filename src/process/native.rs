//! Processes written in Rust, within the host.

use super::{
    Action, Body, Command, Event, LogLine, Output, Payload, Problem, ProcessInit, Program, Progress, Status, Tag,
    Timestamp,
};
use std::sync::Arc;

/// A state machine in Rust that a run steps.
///
/// It never waits: its requests are commands, and the answers come as events. A durable process
/// must be a pure function of its state and events: no clock but [`Context::now`], no randomness,
/// no environment, no order of a hash map.
pub trait Process: Send {
    /// Checks entry and input, before the first step.
    ///
    /// # Errors
    /// The process ends with the problem.
    fn init(&mut self, context: &mut Context<'_>, entry: &str, input: Payload) -> Result<(), Problem>;

    /// Takes the events out of `events` and returns how to go on. Events that it leaves are lost:
    /// it is not called again for them.
    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status;

    /// Once, after a normal end.
    fn close(&mut self) {}
}

/// What a native process sees of its host within one step.
pub struct Context<'a> {
    /// What the process is. Its input was given to [`Process::init`], and is null here.
    pub init: &'a ProcessInit,
    /// The time of this batch; never goes back within a run.
    pub now: Timestamp,
    next_tag: &'a mut Tag,
    output: &'a mut Output,
}

impl Context<'_> {
    /// Asks for something; the answer comes under the tag.
    #[inline]
    pub fn command(&mut self, action: Action) -> Tag {
        let tag = *self.next_tag;
        self.next_tag.0 += 1;
        self.output.commands.push(Command { tag, action });
        tag
    }

    /// Writes into the run's log.
    pub fn log(&mut self, line: LogLine) {
        self.output.log.push(line);
    }
}

/// A waiting process does not retain a larger buffer of events. Arbitrary.
const KEPT_MAX: usize = 16;

/// A native [`Process`] as a [`Body`].
pub struct Native<P> {
    process: P,
    init: ProcessInit,
    next_tag: Tag,
    now: Timestamp,
    events: Vec<Event>,
    begun: bool,
}

impl<P: Process> Native<P> {
    /// A body that has not run yet.
    pub fn new(process: P, init: ProcessInit) -> Self {
        Self { process, next_tag: init.next_tag, init, now: Timestamp(0), events: Vec::new(), begun: false }
    }
}

impl<P: Process> Body for Native<P> {
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.now = now;
        events.iter_mut().for_each(Event::recall);
        if self.events.is_empty() && events.capacity() <= KEPT_MAX {
            std::mem::swap(&mut self.events, events);
        } else {
            self.events.append(events);
        }
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        let is_first = !std::mem::replace(&mut self.begun, true);
        // The input is needed once: a process that waits long does not retain it.
        let input = is_first.then(|| std::mem::replace(&mut self.init.input, Payload::NULL));
        let mut context = Context { init: &self.init, now: self.now, next_tag: &mut self.next_tag, output };
        if let Some(input) = input
            && let Err(problem) = self.process.init(&mut context, &self.init.entry, input)
        {
            return Progress::Stepped(Status::Failed(problem.into()));
        }
        let status = self.process.step(&mut context, &mut self.events);
        self.events.clear();
        // A word-sized read waits for the byte-sized write just before it: a status without content
        // is made anew.
        Progress::Stepped(match status {
            Status::Ready => Status::Ready,
            Status::Blocked => Status::Blocked,
            Status::Idle => Status::Idle,
            status => status,
        })
    }

    fn close(&mut self) {
        self.process.close();
    }
}

/// A [`Program`] of native processes, made by a function.
pub struct NativeProgram<F> {
    digest: Arc<str>,
    make: F,
}

impl<P: Process + 'static, F: Fn() -> P + Send + Sync> NativeProgram<F> {
    /// A program named `name`. A change of behaviour is a new version.
    pub fn new(name: &str, version: u32, make: F) -> Self {
        Self { digest: format!("native:{name}@{version}").into(), make }
    }
}

impl<P: Process + 'static, F: Fn() -> P + Send + Sync> Program for NativeProgram<F> {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Native::new((self.make)(), init)))
    }
}
