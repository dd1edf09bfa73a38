//! What the tests share: hosts with small pools, and runs of workflow texts.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, HostBuilder, Outcome, RunHandle, RunOptions, Workflow};

/// A host with this many workers and slots, and compiled code that all tests share.
pub(crate) fn host(workers: usize, slots: u32) -> Host {
    builder(workers, slots).build().expect("a host")
}

pub(crate) fn builder(workers: usize, slots: u32) -> HostBuilder {
    Host::builder().workers(workers).guests(options(slots)).engines(guests("built-on-demand"))
}

/// The engine of [`host`].
pub(crate) fn options(slots: u32) -> EngineOptions {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests-cache");
    EngineOptions { slots: Some(slots), cache_dir: Some(cache), ..EngineOptions::default() }
}

pub(crate) fn guests(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests").join(folder)
}

/// Whether a component exists that is too large to be stored with the sources. In CI it must.
pub(crate) fn is_built(name: &str) -> bool {
    let is_there = guests("built-on-demand").join(name).with_extension("wasm").exists();
    let must = std::env::var_os("WFHOST_GUESTS_MUST_BE_BUILT").is_some();
    assert!(is_there || !must, "{name} is not built; `guests/build.sh {name}` builds it");
    if !is_there {
        eprintln!("SKIPPED: {name} is not built; `guests/build.sh {name}` builds it");
    }
    is_there
}

/// A workflow in text over the components of `guests/built`.
#[track_caller]
pub(crate) fn parse(host: &Host, text: &str) -> Workflow {
    host.parse("test.yaml", text, guests("built")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Starts a run with records.
#[track_caller]
pub(crate) fn start(host: &Host, workflow: &Workflow) -> RunHandle {
    let options = RunOptions { records: true, ..RunOptions::default() };
    host.start(workflow, Map::new(), options).expect("it starts")
}

/// Starts a run without records, so that it can go on for long.
#[track_caller]
pub(crate) fn begin(host: &Host, text: &str) -> RunHandle {
    host.start(&parse(host, text), Map::new(), RunOptions::default()).expect("it starts")
}

/// Runs a workflow in text to its end.
#[track_caller]
pub(crate) fn run(host: &Host, text: &str) -> Outcome {
    begin(host, text).wait()
}

/// The outputs of a run that must succeed.
#[track_caller]
pub(crate) fn outputs(outcome: &Outcome) -> Value {
    match &outcome.result {
        Ok(_) => outcome.outputs().expect("outputs are JSON"),
        Err(problem) => panic!("{problem}"),
    }
}

/// The problem of the step that failed, of a run that failed because of it.
#[track_caller]
pub(crate) fn cause(outcome: &Outcome) -> Value {
    let value = outcome.to_json();
    assert_eq!(value["problem"]["kind"], "step-failed", "{value}");
    value["problem"]["data"]["cause"].clone()
}

/// Waits until the condition holds, while other threads run.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
