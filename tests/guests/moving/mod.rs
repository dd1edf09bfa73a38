//! Guests that are written to files between steps, in every available language: restored in fresh
//! stores, here and in another process of the operating system, they continue like the
//! uninterrupted one, to the unit of fuel and the byte.

mod elsewhere;
mod everything;

use crate::process_init::init;
use crate::support::{guests, is_built, options};
use bytes::Bytes;
use elsewhere::{EXPECTED, Move, move_elsewhere, write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use wfhost::guest::{Component, GuestEngine};
use wfhost::process::{
    Body, Event, Form, Message, Output, Payload, Pid, ProcessInit, ProcessSnapshot, Program, Progress, Random, Sender,
    Tag, Timestamp,
};

const STEPS: usize = 1_000;
/// Random points; the first and the last possible one are added.
const SNAPSHOTS: usize = 20;
/// More than the guests that are live at the same time.
const SLOTS: u32 = 4;

/// The name of the guest of [`everything`].
const EVERYTHING: &str = "everything";

/// A stream of test data from a seed, the same in every process.
struct Draw(Random);

impl Draw {
    fn new(seed: u8) -> Self {
        Self(Random::new(&[seed; 32], Pid(1)))
    }

    /// A number below this one.
    fn below(&mut self, end: usize) -> usize {
        let mut number = [0; 8];
        self.0.fill(&mut number);
        (u64::from_le_bytes(number) % end as u64) as usize
    }

    /// At most this many bytes.
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.below(most + 1)];
        self.0.fill(&mut bytes);
        bytes
    }
}

fn message(topic: &str, bytes: Vec<u8>) -> Event {
    let body = Payload::Bytes(bytes.into());
    Event::Message(Box::new(Message { sender: Sender::Process(Pid(2)), topic: topic.into(), body }))
}

/// The events of `counter` in each step: messages, all of which affect its outputs. The last one
/// ends it.
fn messages(mut draw: Draw) -> Vec<Vec<Event>> {
    let mut batches = Vec::new();
    for _ in 1..STEPS {
        let count = draw.below(4);
        batches.push((0..count).map(|_| message("x", draw.bytes(64))).collect());
    }
    batches.push(vec![message("end", Vec::new())]);
    batches
}

/// The events of the entry `spawn` of the conformance guest, which has one child less than there
/// are steps: nothing in the first step, then their answers in random order, among messages that it
/// ignores. It stores all answers, and completes with them in the last step.
fn answers(mut draw: Draw) -> Vec<Vec<Event>> {
    let mut tags: Vec<_> = (1..STEPS as u64).map(Tag).collect();
    for end in (2..=tags.len()).rev() {
        tags.swap(end - 1, draw.below(end));
    }
    let mut batches = vec![Vec::new()];
    for tag in tags {
        let mut events = vec![Event::Completed { tag, answer: Ok(Payload::json(&draw.bytes(32))) }];
        if draw.below(4) == 0 {
            events.insert(0, message("noise", draw.bytes(500)));
        }
        batches.push(events);
    }
    batches
}

/// What a step returned. As text, since it is only compared and shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    status: String,
    commands: String,
    log: String,
    fuel: u64,
}

impl Step {
    /// What differs, if anything.
    fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let equal = [
            ("status", self.status == other.status),
            ("commands", self.commands == other.commands),
            ("log", self.log == other.log),
            ("fuel", self.fuel == other.fuel),
        ];
        equal.iter().find_map(|(what, equal)| (!equal).then_some(*what))
    }
}

/// The state of a guest after its last step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct End {
    /// Of its memories and globals, its next tag and its random stream.
    digest: [u8; 32],
    /// Of all its steps, including those before it was moved.
    fuel: u64,
}

/// What the uninterrupted guest returned.
#[derive(Clone, Serialize, Deserialize)]
struct Expected {
    steps: Vec<Step>,
    end: End,
}

/// A guest of a component, and its events in each step.
struct Case {
    component: Component,
    init: ProcessInit,
    batches: Vec<Vec<Event>>,
}

impl Case {
    /// A guest of that component, on an engine of its own.
    fn of(name: &str) -> Self {
        let bytes = if name == EVERYTHING { everything::guest() } else { component(name) };
        let engine = Arc::new(GuestEngine::new(options(SLOTS)).expect("an engine"));
        let component = Component::load(&engine, &bytes).expect("a component that fits");
        component.learn_snapshot_support();
        let (entry, input, batches) = if name.starts_with("conformance") {
            ("spawn", format!("{{\"n\":{}}}", STEPS - 1), answers(Draw::new(2)))
        } else {
            ("run", "{}".to_owned(), messages(Draw::new(1)))
        };
        let mut init = init(entry, &input);
        Arc::make_mut(&mut init.limits).memory_bytes = 256 << 20;
        assert_eq!(batches.len(), STEPS);
        Self { component, init, batches }
    }

    fn step(&self, body: &mut dyn Body, at: usize) -> Step {
        let mut output = Output::default();
        body.begin(Timestamp(1_000_000 + at as u64 * 1_000), &mut self.batches[at].clone());
        let status = loop {
            match body.poll(&mut output) {
                Progress::Preempted => {}
                Progress::Stepped(_) if body.owes().is_some() => {
                    body.begin(Timestamp(1_000_000 + at as u64 * 1_000), &mut Vec::new());
                }
                Progress::Stepped(status) => break format!("{status:?}"),
                Progress::Died(death) => break format!("{death:?}"),
            }
        };
        let Output { commands, log, fuel, .. } = output;
        Step { status, commands: format!("{commands:?}"), log: format!("{log:?}"), fuel }
    }

    /// The uninterrupted guest: what it returned, and the bytes of its snapshots before these
    /// steps.
    fn whole(&self, points: &BTreeSet<usize>) -> (Expected, Vec<(usize, Bytes)>) {
        let mut body = self.component.body(self.init.clone()).expect("a body");
        let (mut steps, mut snapshots) = (Vec::new(), Vec::new());
        for at in 0..STEPS {
            if points.contains(&at) {
                snapshots.push((at, packed(&mut *body)));
            }
            steps.push(self.step(&mut *body, at));
        }
        let last = &steps[STEPS - 1].status;
        assert!(last.starts_with("Complete"), "its last output must depend on all of its events: {last}");
        (Expected { steps, end: end(&mut *body) }, snapshots)
    }

    fn restore(&self, bytes: &Bytes) -> Result<Box<dyn Body>, String> {
        let saved = ProcessSnapshot::decode(bytes).map_err(|error| error.to_string())?;
        self.component.restore(self.init.clone(), &saved).map_err(|error| error.to_string())
    }

    /// Restores a guest that was saved before a step, and continues to the end.
    ///
    /// # Errors
    /// Returns the first difference from the uninterrupted guest.
    fn continue_from(&self, bytes: &Bytes, before: usize, expected: &Expected) -> Result<(), String> {
        let mut body = self.restore(bytes)?;
        if packed(&mut *body) != *bytes {
            return Err("saved again before it has stepped, it is another".into());
        }
        for at in before..STEPS {
            let (found, wanted) = (self.step(&mut *body, at), &expected.steps[at]);
            if let Some(what) = found.differs_from(wanted) {
                return Err(format!("step {at}, {what}: {found:?} for {wanted:?}"));
            }
            // Half of them are moved again soon after, without a difference.
            if at == before + 3 && before.is_multiple_of(2) {
                body = self.restore(&packed(&mut *body))?;
            }
        }
        let end = end(&mut *body);
        if end == expected.end { Ok(()) } else { Err(format!("the end: {end:?} for {:?}", expected.end)) }
    }
}

/// The bytes of a component that was built.
fn component(name: &str) -> Vec<u8> {
    let on_demand = name.ends_with("-js") || name.ends_with("-py");
    let path = guests(if on_demand { "built-on-demand" } else { "built" }).join(name).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn save(body: &mut dyn Body) -> ProcessSnapshot {
    let saved = body.save().expect("it can be saved").pack().expect("it packs");
    assert_eq!(saved.form, Form::Image);
    saved
}

/// The bytes for a disk.
fn packed(body: &mut dyn Body) -> Bytes {
    save(body).encode().expect("it can be written").into()
}

fn end(body: &mut dyn Body) -> End {
    let ProcessSnapshot { digest, fuel, .. } = save(body);
    End { digest, fuel }
}

/// The first step before which a guest can be saved, the last, and random ones between.
fn points() -> BTreeSet<usize> {
    let mut draw = Draw::new(4);
    let mut points = BTreeSet::from([1, STEPS - 1]);
    while points.len() < SNAPSHOTS + 2 {
        points.insert(1 + draw.below(STEPS - 1));
    }
    points
}

fn continues_anywhere(name: &str) {
    let case = Case::of(name);
    let (expected, snapshots) = case.whole(&points());
    for (before, bytes) in &snapshots {
        assert_eq!(case.continue_from(bytes, *before, &expected), Ok(()), "{name}, saved before step {before}");
    }
    // The test can fail: a guest that misses the events of a single step is different.
    let (before, bytes) = &snapshots[SNAPSHOTS / 2];
    assert!(case.continue_from(bytes, before + 1, &expected).is_err(), "{name}: its events leave no trace");

    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), EXPECTED, &expected);
    let mut moves = Vec::new();
    for (before, bytes) in &snapshots {
        let snapshot = format!("before-{before}");
        std::fs::write(folder.path().join(&snapshot), bytes).expect("there is room");
        moves.push(Move { before: *before, snapshot, expected: EXPECTED.into() });
    }
    let differences = move_elsewhere(folder.path(), name, moves);
    for ((before, _), difference) in snapshots.iter().zip(differences) {
        assert_eq!(difference, None, "{name}, saved before step {before}, in another process");
    }
}

#[test]
fn rust() {
    continues_anywhere("counter");
    continues_anywhere("conformance-rust");
}

#[test]
fn c() {
    continues_anywhere("counter-c");
    continues_anywhere("conformance-c");
}

#[test]
fn javascript() {
    if is_built("conformance-js") {
        continues_anywhere("conformance-js");
    }
}

#[test]
fn python() {
    if is_built("conformance-py") {
        continues_anywhere("conformance-py");
    }
}

#[test]
fn every_kind_of_state() {
    continues_anywhere(EVERYTHING);
}

/// The other process sees every kind of difference, even in the last step alone, and refuses bytes
/// that are not a snapshot of this component.
#[test]
fn the_other_process_reports_what_differs() {
    const BEFORE: usize = 600;
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case::of("counter-c");
    let (expected, snapshots) = case.whole(&BTreeSet::from([BEFORE, BEFORE + 1]));
    let (_, other) = Case::of("counter").whole(&BTreeSet::from([BEFORE]));
    let mut damaged = snapshots[0].1.to_vec();
    *damaged.last_mut().expect("it is not empty") ^= 1;
    let files = [
        ("right", snapshots[0].1.clone()),
        ("later", snapshots[1].1.clone()),
        ("damaged", damaged.into()),
        ("other", other[0].1.clone()),
    ];
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("there is room");
    }
    write(folder.path(), EXPECTED, &expected);
    let write_changed = |name: &str, change: fn(&mut Expected)| {
        let mut expected = expected.clone();
        change(&mut expected);
        write(folder.path(), name, &expected);
    };
    write_changed("status", |expected| expected.steps[STEPS - 1].status.push(' '));
    write_changed("commands", |expected| expected.steps[STEPS - 2].commands.push(' '));
    write_changed("log", |expected| expected.steps[STEPS - 1].log.push(' '));
    write_changed("fuel", |expected| expected.steps[STEPS - 1].fuel += 1);
    write_changed("digest", |expected| expected.end.digest[31] ^= 1);
    write_changed("all-fuel", |expected| expected.end.fuel += 1);

    let cases = [
        ("right", EXPECTED, ""),
        ("later", EXPECTED, "step 600, commands"),
        ("damaged", EXPECTED, "the snapshot is damaged"),
        ("other", EXPECTED, "the snapshot is of another component"),
        ("right", "status", "step 999, status"),
        ("right", "commands", "step 998, commands"),
        ("right", "log", "step 999, log"),
        ("right", "fuel", "step 999, fuel"),
        ("right", "digest", "the end"),
        ("right", "all-fuel", "the end"),
    ];
    let moves = cases.map(|(snapshot, expected, _)| Move {
        before: BEFORE,
        snapshot: snapshot.to_owned(),
        expected: expected.to_owned(),
    });
    let found = move_elsewhere(folder.path(), "counter-c", moves.into());
    for ((snapshot, expected, wanted), found) in cases.iter().zip(found) {
        let found = found.unwrap_or_default();
        let is_so = found.starts_with(wanted) && found.is_empty() == wanted.is_empty();
        assert!(is_so, "{snapshot} with {expected}: {found:?}");
    }
}
