//! Runs guests natively, without a host, for tests.

use std::cell::RefCell;
use std::rc::Rc;

use crate::executor::{Executor, Task};
use crate::host::{Host, Identity, Level};
use crate::{Completion, Ctx, Event, Outcome, Payload, Problem, Status};

/// The part of the host that a test sees and sets.
#[derive(Clone, Default)]
pub struct Scripted {
    /// The lines that the guest has logged.
    pub logged: Rc<RefCell<Vec<(Level, String)>>>,
    /// The time of the batch, in microseconds since 1970.
    pub now: Rc<RefCell<u64>>,
}

impl Host for Scripted {
    fn log(&self, level: Level, text: &str, _fields: Option<&str>) {
        self.logged.borrow_mut().push((level, text.to_owned()));
    }

    fn whoami(&self) -> Identity {
        Identity { run: "test".to_owned(), pid: 1, next_tag: 1 }
    }

    fn now(&self) -> u64 {
        *self.now.borrow()
    }

    fn random(&self, len: u32) -> Vec<u8> {
        vec![7; len as usize]
    }
}

/// One process, stepped by a test.
pub struct Stepped {
    executor: Executor,
    /// Its host.
    pub host: Scripted,
}

impl Stepped {
    /// Starts an entry: `Stepped::start(|ctx, input| wfhost_guest::start(run, ctx, input), input)`.
    ///
    /// # Errors
    /// Fails with `bad-input`.
    pub fn start(entry: fn(Ctx, Payload) -> Result<Task, Problem>, input: Payload) -> Result<Self, Problem> {
        let host = Scripted::default();
        let executor = Executor::start(host.clone(), &[("run", entry)], "run", input)?;
        Ok(Self { executor, host })
    }

    /// Steps it once.
    pub fn step(&mut self, events: Vec<Event>) -> Outcome {
        self.executor.step(events)
    }

    /// Steps it with the answer to one tag.
    pub fn answer(&mut self, tag: u64, answer: Result<Payload, Problem>) -> Outcome {
        self.step(vec![answer_to(tag, answer)])
    }
}

/// The event that answers a tag.
pub fn answer_to(tag: u64, answer: Result<Payload, Problem>) -> Event {
    Event::Completed(Completion { tag, answer })
}

/// The JSON text with which a process has completed.
pub fn completed(outcome: &Outcome) -> Option<&str> {
    match &outcome.status {
        Status::Complete(Payload::Json(text)) => Some(text),
        _ => None,
    }
}
