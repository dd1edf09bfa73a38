//! A finished run is rebuilt from its records alone: every guest is stepped again with its batches,
//! and returns the same.

use crate::support::{host, outputs, parse, start};
use serde_json::json;
use wfhost::host::Host;
use wfhost::run::{Rebuild, RebuildError, Record, Stepped};

/// Runs a workflow, and rebuilds the run in another host. Returns the records and the rebuilt run.
fn again(text: &str) -> (Vec<Record>, Rebuild) {
    let host = host(2, 64);
    let run = start(&host, &parse(&host, text));
    let outcome = run.wait();
    outputs(&outcome);
    let records = run.records().expect("they were asked for");
    let rebuilt = rebuilt(&records, text).unwrap_or_else(|error| panic!("{error}"));
    assert!(rebuilt.is_finished());
    let result = rebuilt.result().expect("it has finished").as_ref().ok().cloned();
    assert_eq!(result, outcome.result.ok());
    assert_eq!(rebuilt.steps, outcome.counts.steps);
    assert_eq!(rebuilt.fuel_differs, 0, "it is the same engine");
    (records, rebuilt)
}

/// Rebuilds in a host of its own with few slots, as on another day.
fn rebuilt(records: &[Record], text: &str) -> Result<Rebuild, RebuildError> {
    let other: Host = host(1, 32);
    other.rebuild(&parse(&other, text), records)
}

#[test]
fn word_counts() {
    let text = json!({
        "steps": [
            { "id": "count", "uses": "./wordcount.wasm", "for-each": ["a b a", "b c", "the end of the text"],
              "with": { "text": "${ .item }", "parts": 3 } },
            { "id": "all", "uses": "./wordcount.wasm", "entry": "reduce",
              "with": { "partials": "${ .steps.count.output }" } },
        ],
        "outputs": { "words": "${ .steps.all.output }" },
    });
    let (records, _) = again(&text.to_string());
    assert!(records.len() > 15, "{}", records.len());
}

/// More guests live at the same time than there are slots, both in the run and in its rebuilding.
#[test]
fn fib() {
    let text =
        "{ steps: [{ id: fib, uses: ./fib.wasm, with: { n: 11 } }], outputs: { fib: \"${ .steps.fib.output }\" } }";
    let (_, rebuilt) = again(text);
    assert!(rebuilt.steps > 177, "each of the guests stepped at least once");
}

/// Time, randomness, names, messages, cancels, answers out of order, a failure that is retried.
#[test]
fn everything_that_conformance_does() {
    for guest in ["conformance-rust", "conformance-c"] {
        let step = |entry: &str, with| {
            json!({ "id": entry, "uses": format!("./{guest}.wasm"), "entry": entry, "with": with,
                    "retry": { "max": 1, "backoff": "1ms..1ms" }, "continue-on-error": true })
        };
        let text = json!({
            "steps": [
                step("echo", json!("x")), step("sleep", json!({ "micros": 10 })), step("concurrent", json!({ "n": 9 })),
                step("spawn", json!({ "n": 9 })), step("message", json!(null)), step("cancel", json!(null)),
                step("failure", json!(null)), step("imports", json!(null)),
                step("call", json!({ "handler": "log", "args": { "text": "hello" } })),
            ],
            "outputs": { "all": "${ .steps | map_values([.status, .output, .attempts]) }" },
        });
        again(&text.to_string());
    }
}

/// A rebuilding that could not fail would prove nothing.
#[test]
fn what_was_not_recorded_is_noticed() {
    let text = |name: &str| {
        format!(
            "{{ steps: [{{ id: x, uses: ./hello.wasm, with: {{ name: {name} }} }}], outputs: {{ x: \"${{ .steps.x.output }}\" }} }}"
        )
    };
    let (mut records, _) = again(&text("Ann"));
    assert!(matches!(rebuilt(&records, &text("Eve")), Err(RebuildError::OtherRoot { .. })), "another workflow");
    let stepped = records.iter().rposition(|record| matches!(record, Record::Stepped(_))).unwrap();
    let mut other = records.clone();
    let digests: Vec<_> = records.iter().filter_map(|record| stepped_as(record).map(|step| step.digest)).collect();
    let Record::Stepped(step) = &mut other[stepped] else { unreachable!() };
    step.digest = *digests.iter().find(|digest| **digest != step.digest).unwrap();
    assert!(matches!(rebuilt(&other, &text("Ann")), Err(RebuildError::Diverged { .. })));
    records.remove(stepped - 1);
    assert!(matches!(rebuilt(&records, &text("Ann")), Err(RebuildError::Incoherent { .. })));
}

fn stepped_as(record: &Record) -> Option<&Stepped> {
    match record {
        Record::Stepped(stepped) => Some(stepped),
        _ => None,
    }
}
