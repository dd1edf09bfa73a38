//! Projections of runs that really ran, and of records by hand.

use super::*;
use crate::host::{Host, RunOptions};
use crate::process::{Call, Command, Grants, Limits, Tag};
use crate::run::{Arrived, Bounds, Died, Digest, News, Started, Stepped};
use serde_json::{Map, json};

const TEXT: &str = "
inputs: { list: { type: array, default: [1, 2] } }
steps:
  - { id: each, for-each: \"${ .inputs.list }\", call: log, with: { level: warn, message: \"item ${ .item }\", fields: { item: \"${ .item }\" } } }
  - { id: one, needs: each, call: log, with: { message: all } }
  - { id: sum, needs: one, set: \"${ .inputs.list | add }\" }
outputs: { sum: \"${ .steps.sum.output }\" }
";

fn told(text: &str) -> (Outcome, Vec<Record>) {
    let guests = crate::guest::EngineOptions { slots: Some(1), ..Default::default() };
    let host = Host::builder().workers(1).guests(guests).build().unwrap();
    let workflow = host.parse("projected.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { records: true, id: Some("it".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, Map::new(), options).unwrap();
    (run.wait(), run.records().unwrap())
}

#[test]
fn records_tell_what_the_run_came_to() {
    let (outcome, records) = told(TEXT);
    let mut lines = Vec::new();
    let mut projection = RunProjection::default();
    for record in &records {
        assert!(projection.outcome("it").is_none(), "it ends with its last record");
        projection.apply(record, &mut |line| lines.push(line));
    }
    let again = projection.outcome("it").unwrap();
    assert_eq!((&again.result, again.status, &again.abandoned), (&outcome.result, outcome.status, &outcome.abandoned));
    let (ours, theirs) = (again.counts, outcome.counts);
    assert_eq!((ours.processes, ours.steps, ours.calls), (theirs.processes, theirs.steps, theirs.calls));
    assert_eq!((ours.commands, ours.fuel, ours.records), (theirs.commands, theirs.fuel, theirs.records));
    let nodes: Vec<_> =
        projection.nodes().iter().map(|node| (node.node.as_str(), node.status.as_str(), node.done)).collect();
    assert_eq!(nodes, [("each", "succeeded", 2), ("one", "succeeded", 1), ("sum", "succeeded", 1)]);
    // What handlers wrote stands among what the workflow wrote.
    let said = lines.iter().filter(|line| line.progress().is_none());
    let said: Vec<_> = said.map(|line| (line.process.as_str(), line.line.level, line.line.text.as_str())).collect();
    assert_eq!(
        said,
        [("each[0]", Level::Warn, "item 1"), ("each[1]", Level::Warn, "item 2"), ("one", Level::Info, "all")]
    );
    let fields = lines.iter().find_map(|line| line.progress().is_none().then(|| line.line.fields.clone())).flatten();
    assert_eq!(fields.unwrap().to_value(), json!({ "item": 1 }));
    let started = projection.state().started().unwrap();
    assert_eq!(started.input, Payload::json(&json!({ "list": [1, 2] })));
    assert!(started.at.0 > 0 && projection.state().at() >= started.at);
}

#[test]
fn a_failure_is_told_as_it_was() {
    let (outcome, records) = told("steps: [{ id: a, set: \"${ 1 | error }\" }]");
    let again = RunProjection::of(&records).outcome("it").unwrap();
    assert_eq!((again.result, again.status), (outcome.result, outcome.status));
}

/// While a run is paused the time of calls and signals stands still, and no step waits after its
/// end.
#[test]
fn a_pause_moves_what_stands_still_and_an_end_leaves_nothing_waiting() {
    let text = "steps: [{ id: asks, wait: { signal: go, timeout: 1h } }, { id: time, wait: 1h }]";
    let guests = crate::guest::EngineOptions { slots: Some(1), ..Default::default() };
    let host = Host::builder().workers(1).guests(guests).build().unwrap();
    let workflow = host.parse("projected.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { records: true, id: Some("it".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, Map::new(), options).unwrap();
    while run.records().unwrap().len() < 2 {
        std::thread::yield_now();
    }
    let mut projection = RunProjection::of(&run.records().unwrap());
    let until = |projection: &RunProjection| [0, 1].map(|at| projection.nodes()[at].waits[0].until.unwrap());
    let [signal, time] = until(&projection);
    let now = projection.state().at().0;
    projection.apply(&arrived(now + 10, News::Paused(true)), &mut |_| {});
    assert_eq!(projection.time(Timestamp(now + 500)), Timestamp(now + 10));
    projection.apply(&arrived(now + 1_010, News::Paused(false)), &mut |_| {});
    assert_eq!(until(&projection), [Timestamp(signal.0 + 1_000), time], "a wait for a time goes on");
    run.kill("enough");
    run.wait();
    let projection = RunProjection::of(&run.records().unwrap());
    let nodes: Vec<_> = projection.nodes().iter().map(|node| (node.status.as_str(), node.waits.len())).collect();
    assert_eq!(nodes, [("cancelled", 0), ("cancelled", 0)]);
}

/// A signal whose name a process has goes into its mailbox, and where that is full it is kept: what
/// the records say of it is what the run itself would say.
#[test]
fn a_signal_for_which_a_mailbox_has_no_room_is_kept() {
    let limits = Limits { mailbox: 2, ..Limits::default() };
    let started = Record::Started(Box::new(Started { limits, ..began() }));
    let decision = Decision::Answered(Ok(Payload::NULL));
    let register = Decided { command: Command { tag: Tag(1), action: Action::Register("door".into()) }, decision };
    let mut records = vec![started, stepped(1, 0, vec![register])];
    let signal = || arrived(10, News::Signal { name: "door".into(), body: Payload::NULL });
    let kept =
        |records: &[Record]| RunProjection::of(records).state().signals().first().map_or(0, |signal| signal.kept);
    for expected in [0, 0, 1, 2] {
        records.push(signal());
        assert_eq!(kept(&records), expected, "{} records", records.len());
    }
    // The answer to the first command, and a message.
    records.push(stepped(2, 2, Vec::new()));
    assert_eq!(kept(&records), 1, "there is room for one more");
}

/// What the records say by themselves is shown, and the state stays as it was.
#[test]
fn records_that_do_not_follow_are_shown_as_far_as_they_can_be_read() {
    let line = |text: &str| LogLine { level: Level::Info, text: text.to_owned(), fields: None };
    let mut last = stepped(3, 0, Vec::new());
    if let Record::Stepped(stepped) = &mut last {
        stepped.log = vec![line("read all the same")];
        stepped.status = Status::Complete(Payload::json(&7));
    }
    let records = [Record::Started(Box::new(began())), stepped(1, 0, Vec::new()), last];
    let mut lines = Vec::new();
    let mut projection = RunProjection::default();
    for record in &records {
        projection.apply(record, &mut |line| lines.push(line.line.text));
    }
    assert_eq!(lines, ["read all the same"]);
    let outcome = projection.outcome("it").unwrap();
    assert_eq!(outcome.result, Ok(Payload::json(&7)));
    assert_eq!((outcome.counts.records, outcome.counts.steps), (3, 1));
    let headless = RunProjection::of(&records[1..]);
    assert_eq!((headless.state().counts().records, headless.name(Pid::ROOT)), (2, None));
}

/// A call whose outcome is unknown is uncertain until its answer is given up.
#[test]
fn a_call_that_was_leaving_is_uncertain_and_then_given_up() {
    let call = |tag: u64| Decided {
        command: Command { tag: Tag(tag), action: Action::Call(Box::new(called("http"))) },
        decision: Decision::Called(format!("it/{tag}").into()),
    };
    let cancel = Command { tag: Tag(9), action: Action::Cancel(Tag(1)) };
    let mut records = vec![
        Record::Started(Box::new(began())),
        stepped(1, 0, (1..=4).map(call).collect()),
        Record::Leaving { pid: Pid::ROOT, tag: Tag(1) },
        Record::Leaving { pid: Pid::ROOT, tag: Tag(2) },
        Record::Leaving { pid: Pid::ROOT, tag: Tag(3) },
        arrived(5, News::Again { pid: Pid::ROOT, tag: Tag(2) }),
        arrived(6, News::Answered { pid: Pid::ROOT, tag: Tag(4), answer: Ok(Payload::NULL) }),
    ];
    let tags = |calls: &[Uncertain]| calls.iter().map(|call| call.tag.0).collect::<Vec<_>>();
    let projection = RunProjection::of(&records);
    assert_eq!((tags(&projection.state().uncertain()), tags(projection.given_up())), (vec![1, 3], vec![]));
    assert_eq!(projection.state().calls().map(|(_, tag)| tag.0).collect::<Vec<_>>(), [1, 2, 3]);
    records.push(stepped(2, 1, vec![Decided { command: cancel, decision: Decision::Done }]));
    assert_eq!(tags(RunProjection::of(&records).given_up()), [1]);
    let ending = Ending::Cancelled("enough".into());
    let died = Died { pid: Pid::ROOT, step: 3, at: Timestamp(9), fuel: 0, ending, log: Vec::new(), log_dropped: 0 };
    records.push(Record::Died(Box::new(died)));
    let projection = RunProjection::of(&records);
    assert_eq!((tags(projection.given_up()), projection.has_ended()), (vec![1, 3], true));
    assert!(projection.state().uncertain().is_empty());
}

fn called(handler: &str) -> Call {
    Call { handler: handler.into(), args: Payload::NULL, timeout: None, idempotency_key: None, placement: None }
}

fn began() -> Started {
    Started {
        run: "it".into(),
        seed: [0; 32],
        at: Timestamp(1),
        root: "program".into(),
        programs: Vec::new(),
        entry: "main".into(),
        input: Payload::NULL,
        limits: Limits::default(),
        grants: Grants::default(),
        bounds: Bounds::default(),
        origin: None,
    }
}

/// A step of the root that takes so many events, and blocks.
fn stepped(step: u64, took: u32, decided: Vec<Decided>) -> Record {
    Record::Stepped(Box::new(Stepped {
        pid: Pid::ROOT,
        step,
        at: Timestamp(step),
        took,
        fuel: 0,
        digest: Digest(0),
        status: Status::Blocked,
        owes: false,
        decided,
        log: Vec::new(),
        log_dropped: 0,
    }))
}

fn arrived(at: u64, news: News) -> Record {
    Record::Arrived(Box::new(Arrived { at: Timestamp(at), news, act: None }))
}
