//! Durable runs: another host recovers them from a folder as it was in the middle of a run.

use crate::support::{builder, guests, outputs, parse, wait_until};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use wfhost::host::{Host, RecoverError, RunOptions, Status};
use wfhost::journal::{NewRun, StoreError};
use wfhost::process::Timestamp;
use wfhost::run::EndStatus;

/// Guests that spawn, sleep and return; the sleep is the middle.
const WORK: &str = "
inputs: { ms: integer }
steps:
  - { id: fib, uses: ./fib.wasm, with: { n: 12 } }
  - { id: rest, wait: \"${ \\\"\\\\(.inputs.ms)ms\\\" }\", needs: fib }
  - { id: hello, uses: ./hello.wasm, with: { name: Ann }, needs: rest }
outputs: { fib: \"${ .steps.fib.output }\", hello: \"${ .steps.hello.output.greeting }\" }
";

fn host(folder: &Path) -> Host {
    builder(2, 8).data(folder).build().unwrap()
}

fn options(id: &str) -> RunOptions {
    RunOptions { id: Some(id.to_owned()), ..RunOptions::default() }
}

fn inputs(ms: u64) -> Map<String, Value> {
    Map::from_iter([("ms".to_owned(), Value::from(ms))])
}

/// What a crash would leave: the store as it is, while the host that writes it is running.
pub(crate) fn image(of: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let store = rusqlite::Connection::open(of.join("journal.db")).unwrap();
    store.execute("VACUUM INTO ?1", [copy.path().join("journal.db").to_str().unwrap()]).unwrap();
    copy
}

/// Records that are complete on disk, but invalid.
#[test]
fn a_run_with_damaged_records_is_marked_until_it_can_be_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    let workflow = parse(&host, WORK);
    host.start(&workflow, inputs(1), options("whole")).unwrap().wait();
    let store = host.journal().unwrap().unwrap().store();
    // The last one is of a run with another name.
    let started = store.records("whole").unwrap().swap_remove(0);
    for (id, first) in [("rubbish", &b"rubbish"[..]), ("headless", &[1, 4, 1, 1]), ("renamed", &started)] {
        let (name, manifest) = ("".into(), store.manifest("whole").unwrap().unwrap());
        let new = NewRun {
            id: id.into(),
            name,
            created: Timestamp(1),
            manifest,
            components: Vec::new(),
            ..NewRun::default()
        };
        store.fork("whole", &new, 1, first).unwrap();
        assert!(store.run(id).unwrap().unwrap().damage.is_none());
        let error = host.recover(&workflow, id, options(id)).err().unwrap();
        let damage = store.run(id).unwrap().unwrap().damage;
        assert!(damage.is_some() && damage.as_deref() == error.damage().as_deref(), "{error}: {damage:?}");
    }
    let cut = RecoverError::Journal(StoreError::Ended("whole".into()));
    assert_eq!(cut.damage(), None);
}

#[test]
fn a_run_continues_in_another_host_and_has_the_same_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path());
    let whole = first.start(&parse(&first, WORK), inputs(1), options("whole")).unwrap().wait();
    let run = first.start(&parse(&first, WORK), inputs(3_600_000), options("cut")).unwrap();
    // Only the wait remains: everything before it has ended.
    wait_until(|| run.inner().counts().processes > 60 && run.processes().len() == 1);
    let journal = first.journal().unwrap().unwrap();
    assert!(journal.run("whole").unwrap().unwrap().status == Some(EndStatus::Succeeded));
    assert_eq!(journal.unfinished().unwrap().iter().map(|run| &*run.id).collect::<Vec<_>>(), ["cut"]);
    assert!(matches!(first.recover(&parse(&first, WORK), "cut", options("cut")), Err(RecoverError::Journal(_))));
    // The disk may be a little behind; any of it is enough.
    let image = image(folder.path());
    run.kill("the test has ended");
    run.wait();

    let second = host(image.path());
    let workflow = parse(&second, WORK);
    let other = parse(&second, &WORK.replace("Ann", "Bob"));
    assert!(matches!(second.recover(&other, "cut", options("cut")), Err(RecoverError::Run(_))));
    let resumed = second.recover(&workflow, "cut", options("cut")).unwrap();
    wait_until(|| resumed.processes().len() == 1);
    assert!(resumed.outcome().is_none(), "an hour is not over");
    resumed.kill("no test waits an hour");
    resumed.wait();

    // The same, cut at the end of a short wait.
    let run = second.start(&workflow, inputs(300), options("short")).unwrap();
    wait_until(|| run.inner().counts().processes > 60);
    // Part of it is on disk.
    run.inner().acknowledged().wait_for(std::time::Duration::from_mins(1)).unwrap();
    let image = self::image(image.path());
    let third = host(image.path());
    let resumed = third.recover(&parse(&third, WORK), "short", options("short")).unwrap().wait();
    assert_eq!(outputs(&resumed), outputs(&whole));
    assert_eq!(outputs(&run.wait()), outputs(&whole));
    drop(second);
    // The run has ended there, and every process can see that.
    wait_until(|| third.journal().unwrap().unwrap().run("short").unwrap().unwrap().status.is_some());
    let again = third.recover(&parse(&third, WORK), "short", options("short"));
    assert!(matches!(again, Err(RecoverError::Journal(_))), "{:?}", again.err());
}

#[test]
fn a_suspended_run_is_recovered_without_the_files_that_it_was_started_from() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    for name in ["fib.wasm", "hello.wasm"] {
        std::fs::copy(guests("built").join(name), files.path().join(name)).unwrap();
    }
    let first = host(folder.path());
    let workflow = first.parse("work.yaml", WORK, files.path()).unwrap();
    let run = first.start(&workflow, inputs(200), options("a")).unwrap();
    let brief =
        first.start(&workflow, inputs(1), RunOptions { durable: Some(false), ..RunOptions::default() }).unwrap();
    wait_until(|| run.inner().counts().processes > 60 && run.processes().len() == 1);
    let whole = brief.wait();
    assert_eq!(first.suspend(Duration::from_secs(5)).unwrap(), 0);
    assert_eq!(run.wait().status, Status::Suspended);
    drop((first, workflow, run, brief, files));

    let second = host(folder.path());
    let journal = second.journal().unwrap().unwrap();
    assert_eq!(journal.unfinished().unwrap().iter().map(|run| &*run.id).collect::<Vec<_>>(), ["a"]);
    let manifest = journal.manifest("a").unwrap();
    assert_eq!((&*manifest.file, manifest.components.len()), ("work.yaml", 2));
    let workflow = second.workflow_of("a").unwrap();
    let taken_up = second.recover(&workflow, "a", RunOptions::default()).unwrap();
    assert_eq!(outputs(&taken_up.wait()), outputs(&whole));
    assert!(second.recover(&workflow, "a", RunOptions::default()).is_err(), "it has ended");
    assert!(matches!(second.workflow_of("b"), Err(RecoverError::Journal(_))));
    // The same start, repeated, is distinguished from another one.
    let start = |name: &str, ms: u64| wfhost::host::RunManifest::new(&parse(&second, name), &inputs(ms)).start;
    assert_eq!(start(WORK, 200), manifest.start);
    assert_ne!(start(WORK, 201), manifest.start);
    assert_ne!(start(&WORK.replace("Ann", "Bob"), 200), manifest.start);
    assert_eq!(json!(outputs(&whole))["hello"], "Hello, Ann!");
}
