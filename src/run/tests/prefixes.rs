//! Runs in which everything occurs, recovered from every prefix of their records, also by hosts
//! whose clocks are wrong.

use super::desk::{Desk, EPOCH};
use super::support::*;
use crate::process::{
    Action, Context, Event, Grants, Limits, Micros, Payload, Pid, Program, Send, Status, Tag, Target, Timestamp,
};
use crate::run::{self as runs, Record, Resolution, RunHandle, rebuild};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The root's children and the answer of each, whichever is quicker and whichever dies.
const CHILDREN: [(&str, &str); 12] = [
    ("sends", "3"),
    ("keeps", r#"{"done":true,"value":2}"#),
    ("linked", r#""cancelled with its child""#),
    ("monitors", r#""heard of the end""#),
    ("renews", "7"),
    ("signalled", "[1,2]"),
    ("cancels", r#""cancelled""#),
    ("calls", "[2,3]"),
    ("sleeps", "3"),
    ("detaches", r#""left one alone""#),
    ("is late", r#""timed-out""#),
    ("fails", r#""mine""#),
];

fn signal() -> Action {
    calls("signal", Payload::json(&serde_json::json!({ "name": "go" })))
}

fn kv(args: serde_json::Value) -> Action {
    calls("kv", Payload::json(&args))
}

/// What a child has received, in the order of the log.
#[derive(Default)]
struct Received {
    answers: BTreeMap<Tag, Result<Payload, String>>,
    exits: u32,
    is_cancelled: bool,
}

impl Received {
    fn add(&mut self, event: Event) {
        match event {
            Event::Completed { tag, answer } => {
                let answer = answer.map_err(|problem| problem.kind.to_string());
                assert!(self.answers.insert(tag, answer).is_none(), "a tag has one answer");
            }
            Event::Exited(_) => self.exits += 1,
            Event::Cancel { .. } => self.is_cancelled = true,
            Event::Message(other) => panic!("{other:?}"),
        }
    }

    fn has(&self, answers: usize) -> bool {
        self.answers.len() >= answers
    }

    fn ok(&self, tag: u64) -> &Payload {
        self.answers[&Tag(tag)].as_ref().unwrap()
    }

    fn problem(&self) -> Payload {
        Payload::json(self.answers[&Tag(1)].as_ref().unwrap_err())
    }

    fn two_numbers(&self) -> Payload {
        Payload::json(&[1, 2].map(|tag| text(self.ok(tag)).parse::<u64>().unwrap()))
    }

    /// The end of a child with this entry point. `None` if it waits for more.
    fn end_of(&self, entry: &str) -> Option<Payload> {
        match entry {
            "keeps" if self.has(2) => Some(self.ok(2).clone()),
            "linked" if self.is_cancelled && self.exits == 1 && self.has(1) => {
                Some(Payload::json(&"cancelled with its child"))
            }
            "monitors" if self.exits == 1 && self.has(2) => Some(Payload::json(&"heard of the end")),
            // The answer may come with its first step.
            "renewed" if self.has(1) => Some(number(7)),
            "signalled" | "calls" if self.has(2) => Some(self.two_numbers()),
            "cancels" | "is late" if self.has(1) => Some(self.problem()),
            "sleeps" if self.has(3) => Some(number(3)),
            "quick" if self.has(1) => Some(Payload::NULL),
            _ => None,
        }
    }
}

/// A child gives its commands in its first step, and ends when it has received what it waits for.
fn child(entry: &str) -> Act {
    let entry = entry.to_owned();
    let mut received = Received::default();
    let mut begun = false;
    act(move |context, events| {
        events.drain(..).for_each(|event| received.add(event));
        if !std::mem::replace(&mut begun, true)
            && let Some(status) = first_step(&entry, context)
        {
            return status;
        }
        if let Some(end) = received.end_of(&entry) {
            return Status::Complete(end);
        }
        match entry.as_str() {
            "stubborn" => Status::Idle,
            "linked" => Status::Blocked,
            _ if received.is_cancelled => Status::Complete(Payload::NULL),
            "renewed" => Status::Idle,
            _ => Status::Blocked,
        }
    })
}

/// Gives the commands of a child's first step. Returns its status if it does not depend on events.
fn first_step(entry: &str, context: &mut Context<'_>) -> Option<Status> {
    let mut ask = |action| context.command(action);
    match entry {
        "sends" => {
            for body in 0..3 {
                ask(Action::Send(Send::new(Target::Name("hub".into()), "t".into(), number(body))));
            }
            return Some(Status::Complete(number(3)));
        }
        "keeps" => {
            ask(kv(serde_json::json!({ "op": "set", "key": "k", "value": 1 })));
            ask(kv(serde_json::json!({ "op": "compare-and-set", "key": "k", "expected": 1, "value": 2 })));
        }
        "linked" => {
            let mut child = spawn("dies");
            child.link = true;
            ask(Action::Spawn(Box::new(child)));
        }
        "monitors" => {
            let spawned = ask(spawns("quick"));
            ask(Action::Monitor(Target::Child(spawned)));
            ask(Action::Register("monitor".into()));
            ask(Action::Expose { query: "q".into(), value: number(1) });
        }
        "renews" => {
            ask(Action::Sleep(Micros(700)));
            return Some(Status::Renew { entry: "renewed".into(), input: number(7) });
        }
        "signalled" => {
            ask(signal());
            ask(signal());
        }
        "cancels" => {
            let stubborn = ask(spawns("stubborn"));
            ask(Action::Cancel(stubborn));
        }
        "calls" => {
            ask(calls("safe", number(1)));
            ask(calls("unsafe", number(2)));
        }
        "sleeps" => {
            for time in [300, 900, 5_000_000] {
                ask(Action::Sleep(Micros(time)));
            }
        }
        "detaches" => {
            let mut child = spawn("quick");
            child.detached = true;
            child.name = Some("alone".into());
            ask(Action::Spawn(Box::new(child)));
            return Some(Status::Complete(Payload::json(&"left one alone")));
        }
        "is late" => {
            let mut call = call("safe never", number(0));
            call.timeout = Some(Micros(2_000));
            ask(Action::Call(Box::new(call)));
        }
        "fails" | "dies" => {
            return Some(Status::Failed(Arc::new(crate::process::Problem::new("mine", "A failure"))));
        }
        "quick" => {
            ask(Action::Sleep(Micros(400)));
        }
        _ => {}
    }
    None
}

/// Registers a name, then spawns all of these children, and completes with their answers. Asked to
/// end, it ends at once.
fn busy() -> Arc<dyn Program> {
    program(|entry| {
        if entry != "root" {
            return child(entry);
        }
        let mut tags: BTreeMap<Tag, &str> = BTreeMap::new();
        let mut heard: BTreeMap<&str, String> = BTreeMap::new();
        let (mut mail, mut named) = (0, false);
        act(move |context, events| {
            if events.is_empty() {
                context.command(Action::Register("hub".into()));
            }
            for event in events.drain(..) {
                match event {
                    Event::Completed { answer: Ok(_), .. } if !named => {
                        named = true;
                        for (child, _) in CHILDREN {
                            tags.insert(context.command(spawns(child)), child);
                        }
                    }
                    Event::Completed { tag, answer } => {
                        let said = match answer {
                            Ok(payload) => text(&payload),
                            Err(problem) => format!("{:?}", problem.kind),
                        };
                        heard.insert(tags[&tag], said);
                    }
                    Event::Message(_) => mail += 1,
                    Event::Cancel { .. } => return Status::Complete(Payload::json(&"asked to end")),
                    Event::Exited(other) => panic!("{other:?}"),
                }
            }
            if heard.len() == CHILDREN.len() && mail == 3 {
                return Status::Complete(Payload::json(&heard));
            }
            Status::Idle
        })
    })
}

fn setup() -> Setup {
    Setup {
        grants: Grants(Arc::new([("kv".to_owned(), vec!["*".to_owned()])].into())),
        limits: Limits { grace: Micros(1_500), ..Limits::default() },
        ..Setup::default()
    }
}

/// Gives the run what it needs from outside, until nothing is left to do. A second call does
/// nothing twice.
fn attend(desk: &mut Desk, handlers: &Handlers, run: &RunHandle, ends: bool) {
    let act = |act: runs::Act, id: &str| drop(run.act(act, Some(id)));
    for (body, id) in [(1, "first"), (2, "second")] {
        act(runs::Act::Signal { name: "go".into(), body: number(body) }, id);
    }
    act(runs::Act::Pause, "pause");
    desk.drain();
    act(runs::Act::Resume, "resume");
    loop {
        desk.drain();
        for uncertain in run.uncertain() {
            run.resolve(uncertain.pid, uncertain.tag, Resolution::Answered(Ok(number(3)))).unwrap();
        }
        let waiting: Vec<_> =
            handlers.waiting.lock().extract_if(.., |(call, _)| &*call.handler != "safe never").collect();
        for (call, reply) in &waiting {
            let asked: u64 = text(&call.args).parse().unwrap();
            reply.answer(Ok(number(asked + 1)));
        }
        if ends && run.counts().processes > 10 {
            act(runs::Act::Cancel { reason: "enough".into(), grace: None }, "end");
        }
        if waiting.is_empty() && !desk.turn() && !desk.fire() {
            return;
        }
    }
}

fn expected(ends: bool) -> String {
    if ends {
        return "\"asked to end\"".to_owned();
    }
    let said: BTreeMap<&str, &str> = CHILDREN.map(|(child, said)| (child, said)).into();
    let said: BTreeMap<&str, &str> =
        said.into_iter().map(|(child, said)| (child, if child == "fails" { "\"mine\"" } else { said })).collect();
    text(&Payload::json(&said))
}

/// A run from its beginning, and its records.
fn recorded(seed: u64, root: &Arc<dyn Program>, ends: bool) -> Vec<Record> {
    let setup = Setup { seed, ..setup() };
    let bench = Bench::of(Desk::new(seed), Arc::default(), &setup, root);
    attend(&mut bench.desk.clone(), &bench.handlers, &bench.run, ends);
    let run = bench.run.clone();
    assert_eq!(output(&bench.finish()), expected(ends));
    run.records().unwrap()
}

fn time(record: &Record) -> Timestamp {
    match record {
        Record::Started(started) => started.at,
        Record::Stepped(stepped) => stepped.at,
        Record::Died(died) => died.at,
        Record::Arrived(arrived) => arrived.at,
        Record::Leaving { .. } => Timestamp(0),
        Record::Upgraded(upgraded) => upgraded.at,
    }
}

/// Takes the run up, and sees to it that it ends as the one did that nothing happened to.
fn goes_on(desk: &mut Desk, root: &Arc<dyn Program>, records: &[Record], ends: bool, what: &str) {
    let outcome = recovers(desk, root, records, ends, what);
    assert_eq!(output(&outcome), expected(ends), "{what}");
}

fn recovers(
    desk: &mut Desk,
    root: &Arc<dyn Program>,
    records: &[Record],
    ends: bool,
    what: &str,
) -> Arc<runs::Outcome> {
    let handlers = Arc::<Handlers>::default();
    let run = recover(desk, root, &handlers, records);
    let projection = project(records);
    assert_eq!((run.uncertain(), run.signals()), (projection.uncertain(), projection.signals()), "{what}");
    attend(desk, &handlers, &run, ends);
    let outcome = run.outcome().unwrap_or_else(|| panic!("it ends, {what}: {:?}", run.processes()));
    assert_eq!(desk.living(), 0, "{what}");
    let all = run.records().unwrap();
    assert_eq!(&all[..records.len()], records, "{what}");
    let programs = spec(Arc::clone(root), handlers, &setup()).programs;
    let rebuilt = rebuild(&all, root, &programs).unwrap_or_else(|error| panic!("{error}, {what}"));
    assert_eq!(rebuilt.result(), Some(&outcome.result), "{what}");
    assert!(rebuilt.is_finished(), "{what}");
    // No process's time goes back, whatever the clock said.
    let mut last: BTreeMap<Pid, Timestamp> = BTreeMap::new();
    for record in &all {
        if let Record::Stepped(stepped) = record {
            let before = last.insert(stepped.pid, stepped.at).unwrap_or_default();
            assert!(stepped.at >= before, "{what}");
        }
    }
    let latest = records.iter().map(time).max().unwrap();
    assert!(
        all[records.len()..].iter().all(|record| matches!(record, Record::Leaving { .. }) || time(record) >= latest)
    );
    outcome
}

#[test]
fn everything_goes_on_from_every_prefix() {
    let root = busy();
    for (seed, ends) in [(1, false), (2, false), (3, true)] {
        let records = recorded(seed, &root, ends);
        assert!(records.len() > if ends { 20 } else { 50 }, "{}", records.len());
        for count in 1..records.len() {
            for again in 1..3 {
                let what = format!("seed {seed}, after {count} of {} records, again with {again}", records.len());
                goes_on(&mut Desk::new(again), &root, &records[..count], ends, &what);
            }
        }
    }
}

const YEARS: i64 = 10 * 365 * 86_400 * 1_000_000;

#[test]
fn a_host_whose_clock_is_wrong_by_years_takes_a_run_up_all_the_same() {
    let root = busy();
    let records = recorded(4, &root, false);
    for jump in [-YEARS, YEARS, i64::MIN] {
        for count in (1..records.len()).step_by(3) {
            let mut desk = Desk::new(1);
            desk.advance(Micros(60_000_000));
            desk.set_wall(jump);
            let what = format!("{jump} µs, after {count} records");
            let outcome = recovers(&mut desk, &root, &records[..count], false, &what);
            // A process that was asked to end ten years ago is past its grace, and receives nothing
            // more of its child.
            let heard =
                output(&outcome).replace(r#""linked":"\"cancelled\"""#, r#""linked":"\"cancelled with its child\"""#);
            assert_eq!(if jump == YEARS { heard } else { output(&outcome) }, expected(false), "{what}");
        }
    }
}

#[test]
fn a_run_that_began_before_the_clock_was_set_goes_on() {
    let root = busy();
    let desk = Desk::new(1);
    desk.set_wall(i64::MIN);
    let bench = Bench::of(desk, Arc::default(), &setup(), &root);
    attend(&mut bench.desk.clone(), &bench.handlers, &bench.run, false);
    let records = bench.run.records().unwrap();
    assert_eq!(time(&records[0]), Timestamp(0));
    // The host that takes it up has been there for longer than the run.
    for (jump, count) in [(i64::MIN, 10), (0, 10), (i64::MIN, 40)] {
        let mut desk = Desk::new(1);
        desk.advance(Micros(3_600_000_000));
        desk.set_wall(jump);
        goes_on(&mut desk, &root, &records[..count], false, &format!("{jump} µs, after {count} records"));
    }
}

#[test]
fn a_clock_that_jumps_while_a_run_goes_on_moves_no_timer_and_time_goes_on() {
    let hour = 3_600_000_000;
    for jump in [-hour, hour] {
        let root = program(|_| {
            let mut left = 4;
            act(move |context, _| {
                left -= 1;
                if left == 0 {
                    return Status::Complete(number(context.now.0));
                }
                context.command(Action::Sleep(Micros(5_000_000)));
                Status::Blocked
            })
        });
        let mut bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
        for jumped in [0, jump, 0] {
            bench.desk.set_wall(jumped);
            bench.desk.drain();
            let begun = bench.desk.now();
            while bench.run.outcome().is_none() && bench.desk.now().0 - begun.0 < 5_000_000 {
                assert!(bench.desk.fire());
            }
            assert_eq!(bench.desk.now().0 - begun.0, 5_000_000, "a sleep takes its time");
        }
        let run = bench.run.clone();
        bench.finish();
        let records = run.records().unwrap();
        assert!(records.iter().map(time).is_sorted(), "{records:?}");
        if jump < 0 {
            let mut seconds: Vec<u64> = records.iter().map(|record| (time(record).0 - EPOCH) / 1_000_000).collect();
            seconds.dedup();
            assert_eq!(seconds, [0, 5, 10, 15], "time passes where the clock was set back");
        }
    }
}
