//! Stories of runs that really ran.

use super::*;
use crate::host::{Host, RunOptions};
use crate::process::Level;
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
    let workflow = host.parse("story.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { records: true, id: Some("it".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, Map::new(), options).unwrap();
    (run.wait(), run.records().unwrap())
}

#[test]
fn records_tell_what_the_run_came_to() {
    let (outcome, records) = told(TEXT);
    let mut lines = Vec::new();
    let mut story = Story::default();
    for record in &records {
        assert!(story.outcome("it").is_none(), "it ends with its last record");
        story.hear(record, &mut |line| lines.push(line));
    }
    let again = story.outcome("it").unwrap();
    assert_eq!((&again.result, again.status, &again.abandoned), (&outcome.result, outcome.status, &outcome.abandoned));
    let (ours, theirs) = (again.counts, outcome.counts);
    assert_eq!((ours.processes, ours.steps, ours.calls), (theirs.processes, theirs.steps, theirs.calls));
    assert_eq!((ours.commands, ours.fuel, ours.records), (theirs.commands, theirs.fuel, theirs.records));
    let nodes: Vec<_> =
        story.nodes().iter().map(|node| (node.node.as_str(), node.status.as_str(), node.done)).collect();
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
    assert_eq!(story.input(), Some(&Payload::json(&json!({ "list": [1, 2] }))));
    assert!(story.began().0 > 0 && story.at() >= story.began());
}

#[test]
fn a_failure_is_told_as_it_was() {
    let (outcome, records) = told("steps: [{ id: a, set: \"${ 1 | error }\" }]");
    let again = Story::of(&records).outcome("it").unwrap();
    assert_eq!((again.result, again.status), (outcome.result, outcome.status));
}

/// While a run is paused the time of calls and signals stands still, and what its end cuts off is over.
#[test]
fn a_pause_moves_what_stands_still_and_an_end_leaves_nothing_waiting() {
    let text = "steps: [{ id: asks, wait: { signal: go, timeout: 1h } }, { id: time, wait: 1h }]";
    let guests = crate::guest::EngineOptions { slots: Some(1), ..Default::default() };
    let host = Host::builder().workers(1).guests(guests).build().unwrap();
    let workflow = host.parse("story.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { records: true, id: Some("it".to_owned()), ..RunOptions::default() };
    let run = host.start(&workflow, Map::new(), options).unwrap();
    while run.records().unwrap().len() < 2 {
        std::thread::yield_now();
    }
    let mut story = Story::of(&run.records().unwrap());
    let until = |story: &Story| [0, 1].map(|at| story.nodes()[at].waits[0].until.unwrap());
    let [signal, time] = until(&story);
    let arrived =
        |at: u64, news: News| Record::Arrived(Box::new(crate::run::Arrived { at: Micros(at), news, act: None }));
    let now = story.at().0;
    story.hear(&arrived(now + 10, News::Paused(true)), &mut |_| {});
    assert_eq!(story.time(Micros(now + 500)), Micros(now + 10));
    story.hear(&arrived(now + 1_010, News::Paused(false)), &mut |_| {});
    assert_eq!(until(&story), [Micros(signal.0 + 1_000), time], "a wait for a time goes on");
    run.kill("enough");
    run.wait();
    let story = Story::of(&run.records().unwrap());
    let nodes: Vec<_> = story.nodes().iter().map(|node| (node.status.as_str(), node.waits.len())).collect();
    assert_eq!(nodes, [("cancelled", 0), ("cancelled", 0)]);
}
