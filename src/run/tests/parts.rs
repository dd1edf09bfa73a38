//! Steps that are given in parts, as guests give theirs: what comes between two parts is heard after the last.

use super::desk::Desk;
use super::support::*;
use crate::process::{Action, Body, Command, Event, Micros, Output, Payload, Program, Progress, Status, Tag};
use crate::run::{ForkSpec, Programs, RebuildError, Record, RunHandle, fork, rebuild};
use std::sync::Arc;

/// A guest whose first step gives commands, each in a part of its own, and which completes with what it hears then. Where it is stepped for
/// nothing it waits again.
struct Parted {
    first: Option<(Vec<Action>, Status)>,
    /// What is still to be given, the next one last, and how the step ended.
    rest: Vec<Command>,
    last: Status,
    heard: Vec<Event>,
}

impl Body for Parted {
    fn begin(&mut self, _: Micros, events: &mut Vec<Event>) {
        assert!(events.is_empty() || !self.owes(), "a part takes no events");
        self.heard.append(events);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if let Some((actions, last)) = self.first.take() {
            let tagged = (1..).zip(actions).map(|(tag, action)| Command { tag: Tag(tag), action });
            self.rest = tagged.collect();
            self.rest.reverse();
            self.last = last;
        }
        if let Some(next) = self.rest.pop() {
            output.commands.push(next);
            return Progress::Stepped(if self.owes() { Status::Ready } else { self.last.clone() });
        }
        let heard: Vec<String> = self.heard.drain(..).map(|event| tell(&event)).collect();
        let status = if heard.is_empty() { self.last.clone() } else { Status::Complete(Payload::json(&heard)) };
        Progress::Stepped(status)
    }

    fn owes(&self) -> bool {
        !self.rest.is_empty()
    }
}

fn parted(actions: impl Fn() -> Vec<Action> + Send + Sync + 'static, last: Status) -> Arc<dyn Program> {
    maker(move |_| {
        let first = Some((actions(), last.clone()));
        Ok(Box::new(Parted { first, rest: Vec::new(), last: Status::Ready, heard: Vec::new() }))
    })
}

fn exposes(value: u64) -> Action {
    Action::Expose { query: "q".into(), value: number(value) }
}

/// The answer to the first command comes while the others are still to be given.
fn answered_early(last: Status) -> Arc<dyn Program> {
    parted(|| vec![calls("inline", number(7)), exposes(1), exposes(2), exposes(3)], last)
}

fn start(root: &Arc<dyn Program>) -> (Desk, RunHandle) {
    let desk = Desk::new(1);
    let run = desk.kernel.start(spec(Arc::clone(root), Arc::default(), &Setup::default())).unwrap();
    (desk, run)
}

/// What a run comes to that is taken up from these records.
fn outcome_of(root: &Arc<dyn Program>, records: &[Record]) -> Option<String> {
    let mut desk = Desk::new(2);
    let run = resume(&desk, root, &Arc::default(), records);
    desk.settle();
    run.outcome().map(|outcome| output(&outcome))
}

#[test]
fn a_step_in_parts_that_is_cut_after_any_of_them_hears_what_came_meanwhile() {
    for last in [Status::Idle, Status::Blocked] {
        let root = answered_early(last);
        let (mut desk, run) = start(&root);
        desk.settle();
        assert_eq!(output(&run.outcome().unwrap()), r#"["1 7"]"#);
        let records = run.records().unwrap();
        let owing = records.iter().filter(|record| matches!(record, Record::Stepped(stepped) if stepped.owes));
        assert_eq!(owing.count(), 3);
        for count in 1..records.len() {
            let again = outcome_of(&root, &records[..count]);
            assert_eq!(again.as_deref(), Some(r#"["1 7"]"#), "cut after {count} of {}", records.len());
        }
    }
}

#[test]
fn a_step_in_parts_that_is_forked_after_any_of_them_hears_what_came_meanwhile() {
    for last in [Status::Idle, Status::Blocked] {
        let root = answered_early(last);
        let (mut desk, run) = start(&root);
        desk.settle();
        let records = run.records().unwrap();
        for at in 1..records.len() as u64 {
            let programs = spec(Arc::clone(&root), Arc::default(), &Setup::default()).programs;
            let spec = ForkSpec {
                id: "fork".into(),
                at,
                root: Arc::clone(&root),
                programs,
                substituted: false,
                resend: true,
                budget: None,
            };
            let started = Record::Started(Box::new(fork(&records, spec).unwrap()));
            let forked = [&[started], &records[1..at as usize]].concat();
            let outcome = outcome_of(&root, &forked);
            assert_eq!(outcome.as_deref(), Some(r#"["1 7"]"#), "forked at {at} of {}", records.len());
        }
    }
}

#[test]
fn a_part_that_took_events_is_refused() {
    let root = answered_early(Status::Idle);
    let (mut desk, run) = start(&root);
    desk.settle();
    let mut records = run.records().unwrap();
    let arrived = records.iter().position(|record| matches!(record, Record::Arrived(_))).unwrap();
    let next = records[arrived..].iter_mut().find_map(|record| match record {
        Record::Stepped(stepped) => Some(stepped),
        _ => None,
    });
    next.unwrap().took = 1;
    let error = rebuild(&records, &root, &Programs::new()).err().unwrap();
    assert!(matches!(error, RebuildError::Incoherent { .. }), "{error}");
}
