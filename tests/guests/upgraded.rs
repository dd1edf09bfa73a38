//! Runs of guests that go on with other components.

use crate::support::{builder, guests, outputs, parse, wait_until};
use serde_json::{Map, json};
use std::path::Path;
use std::time::Duration;
use wfhost::host::{Host, RunOptions, Upgrade, UpgradeError, Workflow};
use wfhost::run::{ParkingPolicy, Record, SnapshotPolicy, Verdict};

/// A guest that receives some signals.
const WORK: &str = "
steps: [{ id: guest, uses: ./approval.wasm, with: { signal: s, count: 6 } }]
outputs: { heard: '${ .steps.guest.output }' }
";

/// A custom section: other bytes that do the same.
const NOTE: [u8; 7] = [0, 5, 4, b'n', b'o', b't', b'e'];

fn host(folder: &Path) -> Host {
    let parking = ParkingPolicy { after: Duration::from_millis(20), ..ParkingPolicy::default() };
    let snapshots = SnapshotPolicy { parked_tail: Duration::ZERO, ..SnapshotPolicy::default() };
    builder(2, 8).data(folder).parking(parking).snapshots(snapshots).build().unwrap()
}

/// The workflow with the bytes of another component.
fn with(host: &Host, bytes: &[u8]) -> Workflow {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("approval.wasm"), bytes).unwrap();
    host.parse("test.yaml", WORK, folder.path()).unwrap()
}

fn built(name: &str) -> Vec<u8> {
    std::fs::read(guests("built").join(name).with_extension("wasm")).unwrap()
}

#[test]
fn a_snapshot_of_the_former_component_is_not_restored_into_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path());
    let former = parse(&first, WORK);
    let options = RunOptions { id: Some("it".into()), durable: Some(true), ..RunOptions::default() };
    let run = first.start(&former, Map::new(), options).unwrap();
    for number in 0..3 {
        wait_until(|| first.parked().len() == 1);
        run.signal("s", &json!(number)).unwrap();
    }
    wait_until(|| first.parked().len() == 1);
    first.flush_snapshots();
    assert!(first.snapshot_counts().kept > 0, "{:?}", first.snapshot_counts());

    // Another guest under the same name does something else, and so does the same one asked for
    // more.
    for (other, is_of_guest) in [
        (with(&first, &built("fib")), true),
        (with(&first, &built("hello")), true),
        (parse(&first, &WORK.replace("count: 6", "count: 7")), false),
    ] {
        match first.upgrade(&other, "it", None) {
            Err(UpgradeError::Differs(difference)) => assert_eq!(difference.component.is_some(), is_of_guest),
            refused => panic!("{refused:?}"),
        }
    }
    let next = with(&first, &[&built("approval")[..], &NOTE].concat());
    let before = first.journal().unwrap().unwrap().records("it").unwrap().len() as u64;
    assert_eq!(first.upgrade(&next, "it", None).unwrap(), Upgrade::Done { record: before + 1 });
    assert_eq!(first.upgrade(&next, "it", None).unwrap(), Upgrade::Unchanged);
    let records = first.journal().unwrap().unwrap().records("it").unwrap();
    assert!(matches!(records.last(), Some(Record::Upgraded(_))), "{records:?}");
    for number in 3..5 {
        run.signal("s", &json!(number)).unwrap();
        wait_until(|| first.parked().len() == 1);
    }
    // Those of the former component stand beside those of the new one, and are not used.
    let verified = first.verify("it").unwrap();
    assert!(verified.snapshots.iter().all(|one| one.verdict != Verdict::Differs), "{verified:?}");
    assert!(first.recover(&former, "it", RunOptions::default()).is_err());
    first.shutdown_blocking(Duration::from_secs(10));
    drop((run, first));

    // Another host finds the new component with the run.
    let second = host(folder.path());
    let workflow = second.workflow_of("it").unwrap();
    assert!(second.recover(&parse(&second, WORK), "it", RunOptions::default()).is_err());
    let run = second.recover(&workflow, "it", RunOptions::default()).unwrap();
    run.signal("s", &json!(5)).unwrap();
    assert_eq!(outputs(&run.wait()), json!({ "heard": (0..6).collect::<Vec<_>>() }));
}
