//! Durable runs: a folder as it was in the middle of a run is taken up by another host.

use crate::support::{builder, outputs, parse, wait_until};
use serde_json::{Map, Value};
use std::path::Path;
use wfhost::host::{Host, RunOptions, TakeUpError};

/// Guests that spawn, sleep and give; the sleep is the middle.
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
    RunOptions { id: Some(id.to_owned()), durable: Some(Value::Null), ..RunOptions::default() }
}

fn inputs(ms: u64) -> Map<String, Value> {
    Map::from_iter([("ms".to_owned(), Value::from(ms))])
}

/// What a crash would leave: the store as it is, while the host that writes it goes on.
fn image(of: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let store = rusqlite::Connection::open(of.join("journal.db")).unwrap();
    store.execute("VACUUM INTO ?1", [copy.path().join("journal.db").to_str().unwrap()]).unwrap();
    copy
}

#[test]
fn a_run_goes_on_in_another_host_and_has_the_same_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let first = host(folder.path());
    let whole = first.start(&parse(&first, WORK), inputs(1), options("whole")).unwrap().wait();
    let run = first.start(&parse(&first, WORK), inputs(3_600_000), options("cut")).unwrap();
    // Only the wait is left: everything before it is over.
    wait_until(|| run.inner().counts().processes > 60 && run.processes().len() == 1);
    let journal = first.journal().unwrap();
    assert!(journal.run("whole").unwrap().unwrap().ended);
    assert_eq!(journal.unfinished().unwrap().iter().map(|run| &*run.id).collect::<Vec<_>>(), ["cut"]);
    assert!(matches!(first.resume(&parse(&first, WORK), "cut", options("cut")), Err(TakeUpError::Journal(_))));
    // What is on disk may be a little behind; any of it is enough.
    let image = image(folder.path());
    run.kill("the test is over");
    run.wait();

    let second = host(image.path());
    let workflow = parse(&second, WORK);
    let other = parse(&second, &WORK.replace("Ann", "Bob"));
    assert!(matches!(second.resume(&other, "cut", options("cut")), Err(TakeUpError::Run(_))));
    let resumed = second.resume(&workflow, "cut", options("cut")).unwrap();
    wait_until(|| resumed.processes().len() == 1);
    assert!(resumed.outcome().is_none(), "an hour is not over");
    resumed.kill("nobody waits an hour");
    resumed.wait();

    // The same, cut at the end of a short wait.
    let run = second.start(&workflow, inputs(300), options("short")).unwrap();
    wait_until(|| run.inner().counts().processes > 60);
    let image = self::image(image.path());
    let third = host(image.path());
    let resumed = third.resume(&parse(&third, WORK), "short", options("short")).unwrap().wait();
    assert_eq!(outputs(&resumed), outputs(&whole));
    assert_eq!(outputs(&run.wait()), outputs(&whole));
    drop(second);
    // It is over there, and everybody may know.
    wait_until(|| third.journal().unwrap().run("short").unwrap().unwrap().ended);
    let again = third.resume(&parse(&third, WORK), "short", options("short"));
    assert!(matches!(again, Err(TakeUpError::Run(_))), "{:?}", again.err());
}
