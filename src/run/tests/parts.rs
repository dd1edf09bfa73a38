//! Steps that are given in parts, as guests give theirs: events between two parts are received
//! after the last.

use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Body, Command, Event, Limits, Micros, Output, Owed, Payload, Pid, Program, Progress, Status, Tag, Target,
    Timestamp,
};
use crate::run::{Bounds, ForkSpec, Programs, RebuildError, Record, RunHandle, fork, rebuild};
use std::sync::Arc;

/// A guest whose first step gives commands, each in a part of its own, and which completes with the
/// events that it receives then. Stepped without events, it waits again.
struct Parted {
    /// What is still to be given, and how the step ends.
    rest: std::vec::IntoIter<Command>,
    last: Status,
    heard: Vec<Event>,
    begun: bool,
}

impl Body for Parted {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        assert!(events.is_empty() || !self.begun || self.owes().is_none(), "a part takes no events");
        self.heard.append(events);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        self.begun = true;
        if let Some(next) = self.rest.next() {
            output.commands.push(next);
            return Progress::Stepped(if self.owes().is_some() { Status::Ready } else { self.last.clone() });
        }
        let heard: Vec<String> = self.heard.drain(..).map(|event| tell(&event)).collect();
        let status = if heard.is_empty() { self.last.clone() } else { Status::Complete(Payload::json(&heard)) };
        Progress::Stepped(status)
    }

    fn owes(&self) -> Option<Owed<'_>> {
        let commands = self.rest.as_slice();
        (!commands.is_empty()).then_some(Owed { commands, status: &self.last })
    }
}

fn parted(actions: impl Fn() -> Vec<Action> + Send + Sync + 'static, last: Status) -> Arc<dyn Program> {
    maker(move |_| Ok(parted_body(actions(), last.clone())))
}

fn parted_body(actions: Vec<Action>, last: Status) -> Box<dyn Body> {
    let tagged = (1..).zip(actions).map(|(tag, action)| Command { tag: Tag(tag), action });
    let rest: Vec<Command> = tagged.collect();
    Box::new(Parted { rest: rest.into_iter(), last, heard: Vec::new(), begun: false })
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

/// The output of a run that is recovered from these records.
fn outcome_of(root: &Arc<dyn Program>, records: &[Record]) -> Option<String> {
    let mut desk = Desk::new(2);
    let run = recover(&desk, root, &Arc::default(), records);
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
                other: None,
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

#[test]
fn a_step_in_parts_one_of_which_is_not_allowed_does_nothing() {
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        Setup { limits, ..Setup::default() }
    };
    let bounded = |change: fn(&mut Bounds)| {
        let mut bounds = Bounds::default();
        change(&mut bounds);
        Setup { bounds, ..Setup::default() }
    };
    let exposes = |count: u64| (0..count).map(|n| Action::Expose { query: n.to_string().into(), value: number(n) });
    let sleeps = || vec![Action::Sleep(Micros(1)); 3];
    let monitors = || vec![Action::Monitor(Target::Process(Pid(9))); 3];
    let long = Action::Register("n".repeat(2_000).into());
    let large = Payload::Bytes(vec![0; 100].into());
    for (setup, actions, last, kind) in [
        (Setup::default(), [sleeps(), vec![long]].concat(), Status::Idle, "too-large"),
        (limits(|limits| limits.commands_per_step = 2), sleeps(), Status::Idle, "too-many-commands"),
        (limits(|limits| limits.output_bytes = 9), sleeps(), Status::Idle, "too-large"),
        (limits(|limits| limits.payload_bytes = 99), sleeps(), Status::Complete(large), "too-large"),
        (limits(|limits| limits.links = 2), monitors(), Status::Idle, "too-many-links"),
        (bounded(|bounds| bounds.ties = 2), monitors(), Status::Idle, "too-many-links"),
        (bounded(|bounds| bounds.exposed = 2), exposes(3).collect(), Status::Idle, "too-large"),
        (bounded(|bounds| bounds.exposed_bytes = 2), exposes(3).collect(), Status::Idle, "too-large"),
    ] {
        let root = parted(move || actions.clone(), last);
        let mut desk = Desk::new(1);
        let run = desk.kernel.start(spec(Arc::clone(&root), Arc::default(), &setup)).unwrap();
        desk.settle();
        let outcome = run.outcome().unwrap();
        assert_eq!(&*outcome.result.clone().unwrap_err().kind, kind);
        assert_eq!((outcome.counts.steps, outcome.counts.commands), (0, 0), "{kind}");
    }
}

#[test]
fn what_is_still_to_come_of_a_step_in_parts_is_kept_for_it() {
    // Two want what there is for one, at one time.
    let root = maker(|init| {
        let parts = (0..3).map(|n| Action::Expose { query: format!("{} {n}", init.entry).into(), value: number(n) });
        match &*init.entry {
            "root" => program(|_| collect(|| vec![spawns("one"), spawns("other")], 2)).body(init),
            _ => Ok(parted_body(parts.collect(), Status::Complete(Payload::NULL))),
        }
    });
    for seed in 1..30 {
        let bounds = Bounds { exposed: 4, ..Bounds::default() };
        let mut desk = Desk::new(seed);
        let run = desk.kernel.start(spec(Arc::clone(&root), Arc::default(), &Setup { bounds, ..Setup::default() }));
        let run = run.unwrap();
        desk.settle();
        let outcome = run.outcome().unwrap();
        let heard = output(&outcome);
        assert!(heard.contains("null") && heard.contains("too-large"), "seed {seed}: {heard}");
        assert_eq!(outcome.counts.commands, 2 + 3, "seed {seed}");
    }
}
