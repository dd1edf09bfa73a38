//! Spans of real runs.

use super::{RunSpans, Span, SpanEnd, SpanKind, Traced};
use crate::host::{Host, RunOptions};
use crate::process::Timestamp;
use crate::run::Record;
use std::collections::BTreeSet;

const WORKFLOW: &str = "\
name: order
steps:
  - { id: stock, call: kv, with: { op: set, key: a, value: 1 }, allow: { kv: [ \"*\" ] } }
  - { id: nap, wait: 1ms, needs: [stock] }
  - { id: approve, wait: { signal: approve }, needs: [nap] }
  - { id: never, if: \"${ false }\", set: 1 }
outputs: { done: \"${ .steps.approve.output }\" }
";

/// The records of a run that has ended.
fn records() -> Vec<Record> {
    let host = Host::builder().workers(1).build().unwrap();
    let workflow = host.parse("order.yaml", WORKFLOW, std::path::Path::new(".")).unwrap();
    let options = RunOptions { id: Some("order-1".into()), records: true, ..RunOptions::default() };
    let run = host.start(&workflow, serde_json::Map::new(), options).unwrap();
    run.signal("approve", &serde_json::json!({ "by": "ann" })).unwrap();
    run.wait();
    run.records().unwrap()
}

fn spans(records: &[Record]) -> (Vec<Span>, Vec<Span>) {
    let mut spans = RunSpans::of("order-1".into(), "order");
    let (mut ended, mut open) = (Vec::new(), Vec::new());
    let into = |to: &mut Vec<Span>, traced| {
        if let Traced::Ended(span) = traced {
            to.push(span);
        }
    };
    for record in records {
        spans.apply(record, &mut |traced| into(&mut ended, traced));
    }
    spans.finish(Timestamp(0), &mut |traced| into(&mut open, traced));
    (ended, open)
}

#[test]
fn a_run_is_one_tree_of_spans() {
    let (ended, open) = spans(&records());
    assert!(open.is_empty(), "{open:#?}");
    let named = |kind: &str, name: &str| {
        let found: Vec<&Span> = ended.iter().filter(|span| span.kind.word() == kind && span.name == name).collect();
        assert_eq!(found.len(), 1, "{kind} {name} in {ended:#?}");
        found[0]
    };
    let run = named("run", "order");
    assert_eq!((run.parent, &run.end), (None, &SpanEnd::Succeeded));
    assert!(matches!(run.kind, SpanKind::Run { origin: None }));
    for step in ["stock", "nap", "approve"] {
        let span = named("step", step);
        assert_eq!((span.parent, &span.end), (Some(run.id), &SpanEnd::Succeeded));
        assert!(run.from <= span.from && span.to <= run.to);
    }
    assert!(!ended.iter().any(|span| span.name == "never"), "a step that was skipped took no time");
    assert_eq!(named("call", "kv").parent, Some(named("step", "stock").id));
    assert!(named("step", "nap").to.0 - named("step", "nap").from.0 >= 1_000);
    let ids: BTreeSet<_> = ended.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), ended.len(), "no two spans have one id");
    let parents: BTreeSet<_> = ended.iter().filter_map(|span| span.parent).collect();
    assert!(parents.is_subset(&ids), "a parent was never reported");
}

#[test]
fn a_prefix_gives_the_first_spans_and_what_is_open() {
    let records = records();
    let (all, _) = spans(&records);
    for length in 0..records.len() {
        let (ended, open) = spans(&records[..length]);
        assert_eq!(ended[..], all[..ended.len()], "after {length} records");
        let known: BTreeSet<_> = all.iter().map(|span| span.id).collect();
        assert!(open.iter().all(|span| span.end == SpanEnd::Open && known.contains(&span.id)), "{open:#?}");
        assert_eq!(open.iter().any(|span| matches!(span.kind, SpanKind::Run { .. })), length > 0);
    }
}
