//! Durable runs that wait are parked outside their host's memory, and return.

use crate::support::{builder, outputs, parse, wait_until};
use serde_json::{Map, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wfhost::host::{Acted, Host, Resumed, RunOptions};
use wfhost::run::{Act, EndStatus, ParkingPolicy, SnapshotPolicy};

/// A guest that receives some signals, and a step that waits a little.
const WORK: &str = "
steps:
  - { id: guest, uses: ./approval.wasm, with: { signal: s, count: 12 } }
  - { id: rest, wait: 300ms, needs: guest }
outputs: { heard: '${ .steps.guest.output }' }
";

fn host(folder: &Path) -> Host {
    let parking = ParkingPolicy { after: Duration::from_millis(20), ..ParkingPolicy::default() };
    let snapshots = SnapshotPolicy { parked_tail: Duration::ZERO, ..SnapshotPolicy::default() };
    builder(2, 8).data(folder).parking(parking).snapshots(snapshots).build().unwrap()
}

#[test]
fn runs_are_parked_between_their_signals_and_by_their_timers() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path());
    let workflow = parse(&first, WORK);
    let options = |id: &str| RunOptions { id: Some(id.into()), durable: Some(true), ..RunOptions::default() };
    let ids: Vec<String> = (0..5).map(|n| format!("run-{n}")).collect();
    let runs: Vec<_> = ids.iter().map(|id| first.start(&workflow, Map::new(), options(id)).unwrap()).collect();
    for number in 0..8 {
        wait_until(|| first.parked().len() == ids.len());
        for run in &runs {
            run.signal("s", &json!(number)).unwrap();
        }
    }
    wait_until(|| first.parked().len() == ids.len());
    first.flush_snapshots();
    assert!(first.snapshot_counts().kept > 5, "{:?}", first.snapshot_counts());
    for run in &runs {
        assert_eq!(run.inner().ignored_snapshots().1, 0);
    }
    // A host that ends releases its parked runs: the next one recovers them, and parks them again.
    wait_until(|| first.parked().len() == ids.len());
    first.shutdown_blocking(Duration::from_secs(10));
    assert_eq!(runs[0].wait().to_json()["problem"]["kind"], "suspended");
    drop((runs, first));
    let second = host(folder.path());
    let verified = second.verify(&ids[0]).unwrap();
    assert!(verified.snapshots.iter().all(|one| one.verdict == wfhost::run::Verdict::Equal), "{verified:?}");
    let workflow = parse(&second, WORK);
    let runs: Vec<_> = ids.iter().map(|id| second.recover(&workflow, id, RunOptions::default()).unwrap()).collect();
    for number in 8..12 {
        wait_until(|| second.parked().len() == ids.len());
        for run in &runs {
            run.signal("s", &json!(number)).unwrap();
        }
    }
    // The rest takes longer than parking does.
    wait_until(|| !second.parked().is_empty());
    for run in &runs {
        assert_eq!(outputs(&run.wait()), json!({ "heard": (0..12).collect::<Vec<_>>() }));
    }
    wait_until(|| second.parked().is_empty());
}

/// No guest: a step that waits, and one that waits for a signal.
const NAPS: &str = "
steps:
  - { id: rest, wait: 8s }
outputs: { rested: true }
";
const ASKS: &str = "
steps:
  - { id: asks, wait: { signal: answer } }
outputs: { got: '${ .steps.asks.output }' }
";

#[test]
fn parked_runs_of_a_host_that_is_gone_are_only_rows_until_something_comes() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path());
    let options = |id: &str| RunOptions { id: Some(id.into()), durable: Some(true), ..RunOptions::default() };
    for (id, source) in [("naps", NAPS), ("asks", ASKS), ("paused", ASKS)] {
        let _run = first.start(&parse(&first, source), Map::new(), options(id)).unwrap();
    }
    // A run that is paused before it has begun to wait is not parked.
    wait_until(|| first.parked().len() == 3);
    assert_eq!(first.act("paused", &Act::Pause, None).unwrap(), Acted::Recorded);
    wait_until(|| first.parked().len() == 3);
    first.shutdown_blocking(Duration::from_secs(10));
    drop(first);

    let second = host(folder.path());
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let taken = second.take_over(move |resumed| match resumed {
        Ok((run, Resumed::Run(_))) => list.lock().unwrap().push(run.to_owned()),
        Ok((run, _)) => panic!("{run} is not resumed"),
        Err(error) => panic!("{error}"),
    });
    let taken = taken.unwrap();
    // One that is paused is there to be shown as such.
    assert_eq!(*told.lock().unwrap(), ["paused"]);
    assert!(second.run_of("naps").is_none() && second.run_of("asks").is_none());
    let journal = second.journal().unwrap().unwrap();
    let has_succeeded = |id: &str| journal.run(id).unwrap().unwrap().status == Some(EndStatus::Succeeded);
    wait_until(|| has_succeeded("naps"));
    assert!(second.run_of("asks").is_none());
    assert_eq!(second.signal("asks", "answer", &json!(7), None).unwrap(), Acted::Recorded);
    wait_until(|| has_succeeded("asks"));
    drop(taken);
    second.shutdown_blocking(Duration::from_secs(10));
}
