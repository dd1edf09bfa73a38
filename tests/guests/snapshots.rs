//! Guests of durable runs that start from their snapshots.

use crate::support::{builder, outputs, parse, wait_until};
use serde_json::{Map, json};
use std::path::Path;
use std::time::Duration;
use wfhost::host::{Host, RunHandle, RunOptions};
use wfhost::run::{SnapshotPolicy, Verdict};

/// Two guests that wait for many signals each.
const WORK: &str = "
steps:
  - { id: a, uses: ./approval.wasm, with: { signal: a, count: 40 } }
  - { id: b, uses: ./approval.wasm, with: { signal: b, count: 40 } }
outputs: { a: '${ .steps.a.output }', b: '${ .steps.b.output }' }
";

fn options() -> RunOptions {
    RunOptions { id: Some("r".into()), durable: Some(true), ..RunOptions::default() }
}

/// A host whose guests are saved after this many steps.
fn host(folder: &Path, steps_max: u64) -> Host {
    let policy = SnapshotPolicy { steps_max, tail: Duration::from_hours(1), ..SnapshotPolicy::default() };
    builder(2, 8).data(folder).snapshots(policy).build().unwrap()
}

/// Sends both guests these numbers, and waits until they have received them.
fn send(run: &RunHandle, numbers: std::ops::Range<u64>) {
    for number in numbers {
        for name in ["a", "b"] {
            run.signal(name, &json!(number)).unwrap();
        }
    }
    let waits = || run.inner().signals().iter().filter(|signal| signal.waiting == 1 && signal.kept == 0).count() == 2;
    wait_until(|| run.outcome().is_some() || waits());
}

fn expected() -> serde_json::Value {
    let all: Vec<u64> = (0..40).collect();
    json!({ "a": all, "b": all })
}

#[test]
fn guests_continue_from_their_snapshots_in_another_host() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path(), 3);
    let run = first.start(&parse(&first, WORK), Map::new(), options()).unwrap();
    send(&run, 0..4);
    // The first save learns how it is done, so that later ones happen in the background.
    run.inner().snapshot();
    wait_until(|| first.snapshot_counts().kept == 2);
    send(&run, 4..25);
    // At least one for each guest; how many depends on how many signals each receives at once.
    wait_until(|| first.snapshot_counts().kept >= 4);
    assert_eq!(first.snapshot_counts().failed, 0);
    assert_eq!(first.suspend(Duration::from_secs(5)).unwrap(), 0);
    drop((run, first));

    let second = host(folder.path(), 1_000);
    let verified = second.verify("r").unwrap();
    // A snapshot that waits to be written gives way to the next.
    assert!((2..=4).contains(&verified.snapshots.len()), "at most the last two of each guest: {verified:?}");
    assert!(verified.snapshots.iter().all(|one| one.verdict == Verdict::Equal), "{verified:?}");
    let run = second.recover(&second.workflow_of("r").unwrap(), "r", options()).unwrap();
    send(&run, 25..30);
    // On request.
    run.inner().snapshot();
    wait_until(|| second.snapshot_counts().kept == 2);
    assert_eq!(run.inner().ignored_snapshots().1, 0);
    second.suspend(Duration::from_secs(5)).unwrap();
    drop((run, second));

    // A damaged one is not used, nor is one of another component; both are reported.
    let store = rusqlite::Connection::open(folder.path().join("snapshots.db")).unwrap();
    let changed = store.execute("UPDATE snapshot SET data = zeroblob(100)", []).unwrap() as u64;
    assert!((2..=4).contains(&changed));
    drop(store);
    let third = host(folder.path(), 1_000);
    let verified = third.verify("r").unwrap();
    assert!(verified.snapshots.iter().all(|one| matches!(one.verdict, Verdict::Ignored(_))), "{verified:?}");
    let run = third.recover(&third.workflow_of("r").unwrap(), "r", options()).unwrap();
    send(&run, 30..40);
    assert_eq!(outputs(&run.wait()), expected());
    let (ignored, count) = run.inner().ignored_snapshots();
    assert_eq!(count, changed, "{ignored:?}");
    assert!(ignored.iter().all(|one| one.why.contains("damaged")), "{ignored:?}");
}

/// A run that is not durable stores snapshots for eviction only.
#[test]
fn a_run_that_is_not_durable_writes_no_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path(), 1);
    let options = RunOptions { durable: Some(false), ..RunOptions::default() };
    let run = host.start(&parse(&host, WORK), Map::new(), options).unwrap();
    send(&run, 0..10);
    run.inner().snapshot();
    send(&run, 10..40);
    assert_eq!(outputs(&run.wait()), expected());
    host.flush_snapshots();
    assert_eq!(host.snapshot_counts().kept, 0);
    assert!(!folder.path().join("snapshots.db").exists());
}
