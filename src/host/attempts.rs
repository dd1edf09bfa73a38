//! The attempts of one step of a run as its records give them: what each was given, and what came
//! of it.

use super::processes::Place;
use super::projection::RunProjection;
use super::spans::SpanEnd;
use crate::process::handler::CACHE;
use crate::process::{Action, Answer, Ending, Payload, Pid, Status, Tag};
use crate::run::{Decided, Decision, News, Record};
use crate::workflow::interpreter::progress::{path_of, without_items};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An attempt of an item of a step: a guest or a call. Waits are none: the workflow itself waits.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// The index of the item; 0 without a `for-each`.
    pub item: u64,
    /// The number of the attempt, from 1.
    pub number: u64,
    /// The process, if it is a guest.
    pub pid: Option<Pid>,
    /// What was called, or the entry point of the guest.
    pub target: Arc<str>,
    /// The record in which it began.
    pub began: Place,
    /// The record in which it ended, if it has.
    pub ended: Option<Place>,
    /// How it ended.
    pub end: SpanEnd,
    /// What it was given.
    pub input: Payload,
    /// Its output, or its problem; `None` if it has not ended, or was cancelled.
    pub answer: Option<Answer>,
}

/// Folds records into the attempts of one step.
#[derive(Debug)]
pub struct StepAttempts {
    step: String,
    item: Option<u64>,
    most: usize,
    projection: RunProjection,
    records: u64,
    attempts: Vec<Attempt>,
    /// How many there were beyond the bound.
    more: u64,
    /// The attempts of each item so far.
    numbers: BTreeMap<u64, u64>,
    /// Those that have not ended, by the command that made them.
    open: BTreeMap<Tag, usize>,
    /// The same, by their processes.
    guests: BTreeMap<Pid, usize>,
}

impl StepAttempts {
    /// Begins before the first record: takes the attempts of a step, or of one of its items; at
    /// most `most`, the first ones.
    #[must_use]
    pub fn of(step: &str, item: Option<u64>, most: usize) -> Self {
        Self {
            step: step.to_owned(),
            item,
            most,
            projection: RunProjection::default(),
            records: 0,
            attempts: Vec::new(),
            more: 0,
            numbers: BTreeMap::new(),
            open: BTreeMap::new(),
            guests: BTreeMap::new(),
        }
    }

    /// Applies the next record.
    pub fn apply(&mut self, record: &Record) {
        self.records += 1;
        self.projection.apply(record, &mut |_| {});
        match record {
            Record::Stepped(stepped) => {
                let place = (self.records, stepped.at);
                let decided: &[Decided] = if stepped.pid == Pid::ROOT { &stepped.decided } else { &[] };
                for Decided { command, decision } in decided {
                    match &command.action {
                        Action::Cancel(tag) => self.ends(*tag, place, None),
                        action => self.begins(command.tag, action, decision, place),
                    }
                }
                match &stepped.status {
                    Status::Complete(output) => self.guest_ends(stepped.pid, place, &Ok(output.clone())),
                    Status::Failed(problem) => self.guest_ends(stepped.pid, place, &Err(problem.clone())),
                    _ => {}
                }
            }
            Record::Died(died) => {
                let place = (self.records, died.at);
                match &died.ending {
                    Ending::Failed(problem) => self.guest_ends(died.pid, place, &Err(problem.clone())),
                    _ => self.cancelled(died.pid, place),
                }
            }
            Record::Arrived(arrived) => {
                if let News::Answered { pid: Pid::ROOT, tag, answer } = &arrived.news {
                    self.ends(*tag, (self.records, arrived.at), Some(answer));
                }
            }
            Record::Started(_) | Record::Leaving { .. } | Record::Upgraded(_) => {}
        }
    }

    fn begins(&mut self, tag: Tag, action: &Action, decision: &Decision, place: Place) {
        let (placement, target, input) = match action {
            Action::Spawn(spawn) => (&spawn.placement, &spawn.entry, &spawn.input),
            // A question to the cache is no attempt.
            Action::Call(call) if *call.handler == *CACHE => return,
            Action::Call(call) => (&call.placement, &call.handler, &call.args),
            _ => return,
        };
        let Some(item) = placement.as_ref().and_then(|placement| self.item_of(&placement.scope)) else { return };
        let number = self.numbers.entry(item).or_default();
        *number += 1;
        if self.attempts.len() == self.most {
            self.more += 1;
            return;
        }
        let index = self.attempts.len();
        let pid = match decision {
            Decision::Spawned(pid) => Some(*pid),
            _ => None,
        };
        self.attempts.push(Attempt {
            item,
            number: *number,
            pid,
            target: Arc::clone(target),
            began: place,
            ended: None,
            end: SpanEnd::Open,
            input: input.clone(),
            answer: None,
        });
        match (pid, decision) {
            (Some(pid), _) => {
                self.guests.insert(pid, index);
            }
            (None, Decision::Answered(answer) | Decision::Took(answer)) => {
                settle(&mut self.attempts[index], place, Some(answer));
            }
            (None, _) => {
                self.open.insert(tag, index);
            }
        }
    }

    /// The item of a scope, `<step>/<item>/<n>`, if it is one that is looked for.
    fn item_of(&self, scope: &str) -> Option<u64> {
        let path = path_of(scope, |_| true);
        let (step, item) = path.strip_suffix(']')?.rsplit_once('[')?;
        let item = item.parse().ok()?;
        let is_wanted = step == self.step || without_items(step) == self.step;
        (is_wanted && self.item.is_none_or(|wanted| wanted == item)).then_some(item)
    }

    fn ends(&mut self, tag: Tag, place: Place, answer: Option<&Answer>) {
        if let Some(index) = self.open.remove(&tag) {
            settle(&mut self.attempts[index], place, answer);
        }
    }

    fn guest_ends(&mut self, pid: Pid, place: Place, answer: &Answer) {
        if let Some(index) = self.guests.remove(&pid) {
            settle(&mut self.attempts[index], place, Some(answer));
        }
        self.root_ends(pid, place);
    }

    fn cancelled(&mut self, pid: Pid, place: Place) {
        if let Some(index) = self.guests.remove(&pid) {
            settle(&mut self.attempts[index], place, None);
        }
        self.root_ends(pid, place);
    }

    /// Nothing of the workflow goes on when its root has ended.
    fn root_ends(&mut self, pid: Pid, place: Place) {
        if pid == Pid::ROOT {
            for index in std::mem::take(&mut self.open).into_values() {
                settle(&mut self.attempts[index], place, None);
            }
        }
    }

    /// The attempts in the order in which they began, how many more there were, and the state of
    /// the run.
    #[must_use]
    pub fn finish(self) -> (Vec<Attempt>, u64, RunProjection) {
        (self.attempts, self.more, self.projection)
    }
}

fn settle(attempt: &mut Attempt, place: Place, answer: Option<&Answer>) {
    attempt.ended = Some(place);
    attempt.end = match answer {
        None => SpanEnd::Cancelled,
        Some(Ok(_)) => SpanEnd::Succeeded,
        Some(Err(problem)) => SpanEnd::Failed(problem.kind.to_string()),
    };
    attempt.answer = answer.cloned();
}
