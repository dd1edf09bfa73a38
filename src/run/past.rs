//! A process that was taken up from its records: what it did is done again when it is next stepped, and not before.

use super::record::Digest;
use crate::process::{Birth, Body, Death, Event, Home, Micros, Output, Problem, Program, Progress, problem::kind};
use std::collections::VecDeque;
use std::sync::Arc;

/// Steps that are done again in one turn of a worker. Arbitrary: each is as long as it was.
const STEPS_PER_TURN: usize = 32;

/// What a process was and has heard.
pub(super) struct Past {
    pub(super) program: Arc<dyn Program>,
    pub(super) birth: Birth,
    pub(super) steps: VecDeque<PastStep>,
}

/// A step that was committed.
pub(super) struct PastStep {
    pub(super) number: u64,
    pub(super) at: Micros,
    pub(super) events: Vec<Event>,
    pub(super) digest: Digest,
}

/// A body that begins with a past.
pub(super) struct Replayed {
    past: Past,
    home: Home,
    body: Option<Box<dyn Body>>,
    /// The step of the past that is half done.
    again: Option<(u64, Digest)>,
    /// The step that was begun while there was a past to do first.
    next: Option<(Micros, Vec<Event>)>,
    output: Output,
}

impl Replayed {
    pub(super) fn new(past: Past) -> Self {
        Self { past, home: Home::default(), body: None, again: None, next: None, output: Output::default() }
    }

    /// Does a part of the past again. None: it is done.
    fn catch_up(&mut self) -> Option<Progress> {
        for _ in 0..STEPS_PER_TURN {
            if self.body.is_none() {
                let mut body = match self.past.program.body(self.past.birth.clone()) {
                    Ok(body) => body,
                    Err(problem) => return Some(Progress::Died(Death::Host(problem))),
                };
                body.house(self.home);
                self.body = Some(body);
            }
            let body = self.body.as_mut().expect("invariant: it was just made");
            let (number, digest) = match self.again.take() {
                Some(again) => again,
                None => {
                    let mut step = self.past.steps.pop_front()?;
                    self.output.clear();
                    body.begin(step.at, &mut step.events);
                    (step.number, step.digest)
                }
            };
            match body.poll(&mut self.output) {
                Progress::Preempted => {
                    self.again = Some((number, digest));
                    return Some(Progress::Preempted);
                }
                Progress::Stepped(status) if Digest::of_step(&status, &self.output.commands) == digest => {}
                Progress::Stepped(_) => {
                    let problem = Problem::new(kind::DIVERGED, "The process does not do again what it did")
                        .with_detail(format!("Step {number} gave other commands than its record says."));
                    return Some(Progress::Died(Death::Host(problem)));
                }
                Progress::Died(Death::Guest(problem) | Death::Host(problem)) => {
                    let problem =
                        Problem::new(kind::HOST_CANNOT_REPLAY, "This host cannot repeat what the process did")
                            .with_detail(format!("In step {number}: {problem}"));
                    return Some(Progress::Died(Death::Host(problem)));
                }
            }
        }
        Some(Progress::Preempted)
    }
}

impl Body for Replayed {
    fn begin(&mut self, now: Micros, events: &mut Vec<Event>) {
        match &mut self.body {
            Some(body) if self.past.steps.is_empty() && self.again.is_none() => body.begin(now, events),
            _ => self.next = Some((now, std::mem::take(events))),
        }
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if self.next.is_some()
            && let Some(progress) = self.catch_up()
        {
            return progress;
        }
        let body = self.body.as_mut().expect("invariant: it has caught up");
        if let Some((now, mut events)) = self.next.take() {
            body.begin(now, &mut events);
        }
        body.poll(output)
    }

    fn close(&mut self) {
        if let Some(body) = &mut self.body {
            body.close();
        }
    }

    fn evict(&mut self) -> bool {
        self.body.as_mut().is_none_or(|body| body.evict())
    }

    fn evicts_slowly(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.evicts_slowly())
    }

    fn house(&mut self, home: Home) {
        self.home = home;
        if let Some(body) = &mut self.body {
            body.house(home);
        }
    }
}
