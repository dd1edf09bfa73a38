//! What a crash leaves of a run that was held in the middle of a step.

use super::{HOLD_AGAIN_AFTER, Host};
use crate::host::RunOptions;
use crate::process::{Context, Event, Payload, Problem, Process, Status};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const TEXT: &str = "name: long\ncomponents: { long: \"native:long\" }\nsteps: [{ id: a, uses: long }]\n";

/// A step takes as long as this says.
static IS_LONG: AtomicBool = AtomicBool::new(true);
static IS_IN_STEP: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Long;

impl Process for Long {
    fn init(&mut self, _: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        Ok(())
    }

    fn step(&mut self, _: &mut Context<'_>, _: &mut Vec<Event>) -> Status {
        IS_IN_STEP.store(true, SeqCst);
        while IS_LONG.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Status::Complete(Payload::json(&serde_json::json!(1)))
    }
}

fn host(folder: &Path) -> Host {
    Host::builder().workers(2).data(folder).native("long", 1, Long::default).build().unwrap()
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begins = Instant::now();
    while !is_so() {
        assert!(begins.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(HOLD_AGAIN_AFTER);
    }
}

/// The folder as a crash of this moment leaves it: no host of the copy lives.
fn crashed(folder: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => crashed(&from, &to),
            kind if kind.is_file() && !from.to_string_lossy().ends_with("-shm") => {
                let _ = std::fs::copy(from, to).unwrap();
            }
            _ => {}
        }
    }
}

/// Whether a host that takes over the folder has the run within some seconds.
fn is_taken_over(folder: &Path) -> bool {
    let (tell, told) = std::sync::mpsc::channel();
    let host = host(folder);
    let taken = host
        .take_over(move |resumed| {
            let _ = tell.send(resumed.map(|(run, _)| run.to_owned()).ok());
        })
        .unwrap();
    let run = told.recv_timeout(Duration::from_secs(5)).ok().flatten();
    drop(taken);
    run.is_some_and(|run| run == "r")
}

#[test]
fn a_run_that_was_held_in_a_step_is_taken_over_after_a_crash() {
    let folders = tempfile::tempdir().unwrap();
    let [live, runs, held_then, after] = ["live", "runs", "held", "after"].map(|name| folders.path().join(name));
    let first = host(&live);
    let workflow = first.parse("long.yaml", TEXT, ".").unwrap();
    let options = RunOptions { id: Some("r".to_owned()), durable: Some(true), ..RunOptions::default() };
    let run = first.start(&workflow, serde_json::Map::new(), options).unwrap();
    assert!(run.started(Duration::from_secs(10)));
    until("it takes no step", || IS_IN_STEP.load(SeqCst));
    crashed(&live, &runs);
    let mut held = None;
    until("it cannot be held", || {
        held = first.shared.kernel.hold("r").ok();
        held.is_some()
    });
    std::thread::sleep(Duration::from_millis(500));
    crashed(&live, &held_then);
    // It has moved, say: it goes on as it was.
    IS_IN_STEP.store(false, SeqCst);
    drop(held);
    until("it takes no step again", || IS_IN_STEP.load(SeqCst));
    std::thread::sleep(Duration::from_millis(500));
    crashed(&live, &after);
    IS_LONG.store(false, SeqCst);
    let _ = run.wait();
    let taken_over = [&runs, &held_then, &after].map(|folder| is_taken_over(folder));
    assert_eq!(taken_over, [true; 3], "[before it is held, while it is, after it was let go]");
}
