//! Concurrency groups: processes that are killed share the places of a folder.

use super::command_in;
use super::scheduled::{Server, prepared};
use super::support::{World, eventually};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Each run takes two steps of time while it has a place.
const SHARES: &str = "\
name: shares
concurrency: { group: \"g${ .inputs.n }\", limit: 2, queue-max: 1000 }
inputs: { n: { type: integer, default: 1 } }
steps:
  - { id: first, continue-on-error: true, wait: { signal: never, timeout: 60ms } }
  - { id: second, needs: first, continue-on-error: true, wait: { signal: never, timeout: 60ms } }
";

const HOLDS: &str = "\
name: holds
concurrency: { group: one }
steps: [{ id: held, wait: { signal: go } }]
";

fn reader(data: &Path) -> Connection {
    let reader = Connection::open_with_flags(data.join("journal.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.busy_timeout(Duration::from_secs(10)).unwrap();
    reader
}

/// Looks at the group until it is stopped. Returns how often it looked, and how often runs waited.
fn watched(data: &Path, stop: &Arc<AtomicBool>) -> JoinHandle<(u32, u32)> {
    let (reader, stop) = (reader(data), Arc::clone(stop));
    std::thread::spawn(move || {
        let (mut looks, mut full) = (0, 0);
        while !stop.load(Relaxed) {
            let (placed, waiting): (u32, u32) = reader
                .query_row(
                    "SELECT count(*) FILTER (WHERE queued = 0), count(*) FILTER (WHERE queued = 1)
                     FROM run WHERE grp = 'g1' AND status IS NULL",
                    [],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .unwrap();
            assert!(placed <= 2, "{placed} runs have one of 2 places");
            assert!(waiting == 0 || placed == 2, "{waiting} runs wait, and {placed} of 2 places are taken");
            (looks, full) = (looks + 1, full + u32::from(waiting > 0));
            std::thread::sleep(Duration::from_millis(1));
        }
        (looks, full)
    })
}

/// A process that executes one run, over kills.
#[derive(Default)]
struct Slot {
    child: Option<Child>,
    run: String,
    killed: bool,
}

impl Slot {
    fn go_on(&mut self, data: &Path, file: &str, next: &mut u32) {
        if let Some(child) = &mut self.child
            && child.try_wait().unwrap().is_none()
        {
            return;
        }
        let arguments = if std::mem::take(&mut self.killed) {
            vec!["resume", &self.run]
        } else {
            *next += 1;
            self.run = format!("run-{next}");
            vec!["run", "--run-id", &self.run, file]
        };
        let mut command = command_in(data, &arguments);
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            child.wait().unwrap();
            self.killed = true;
        }
    }
}

/// `WFHOST_GROUP_SECONDS` is how long processes are killed: by default 8.
#[test]
fn three_processes_that_are_killed_never_hold_more_places_than_two_nor_leave_one_free() {
    let seconds = std::env::var("WFHOST_GROUP_SECONDS").ok().map_or(8, |text| text.parse().unwrap());
    let (data, folder, token) = prepared(SHARES);
    let file = folder.path().join("flow.yaml").to_str().unwrap().to_owned();
    let mut server = Server::start(&data, folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watched(&data, &stop);
    let (mut slots, mut next, mut random, mut kills) = ([Slot::default(), Slot::default()], 0, 7_u64, 0);
    let begins = Instant::now();
    while begins.elapsed() < Duration::from_secs(seconds) {
        for slot in &mut slots {
            slot.go_on(&data, &file, &mut next);
        }
        let _ = server.ask(&token, "POST", "/v1/workflows/shares/runs", "", r#"{"inputs":{"n":1}}"#);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis((random >> 40) % 300));
        match (random >> 33) % 4 {
            0 => {
                server.kill();
                server = Server::start(&data, folder.path());
                kills += 1;
            }
            one @ (1 | 2) => {
                slots[one as usize - 1].kill();
                kills += 1;
            }
            _ => {}
        }
        assert!(!watcher.is_finished(), "{:?}", watcher.join());
    }
    slots.iter_mut().for_each(Slot::kill);
    server.kill();
    // What is unfinished has no host: the service takes it up.
    let server = Server::start(&data, folder.path());
    let reader = reader(&data);
    let count = |which: &str| -> u32 {
        reader.query_row(&format!("SELECT count(*) FROM run WHERE {which}"), [], |row| row.get(0)).unwrap()
    };
    let ends = Instant::now() + Duration::from_secs(60 + seconds);
    while count("status IS NULL") > 0 {
        assert!(Instant::now() < ends && !watcher.is_finished(), "{} runs do not end", count("status IS NULL"));
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Relaxed);
    let (looks, full) = watcher.join().unwrap();
    let runs = count("grp = 'g1'");
    println!("{runs} runs, {kills} kills, {looks} looks, {full} with runs that wait");
    assert_eq!(count("status IS NOT 'succeeded'"), 0);
    assert!(runs > 10 && kills > 3 && full > 20, "{runs} runs, {kills} kills, {full} of {looks} looks");
    drop(server);
}

#[test]
fn a_run_that_waits_is_listed_as_queued_and_can_be_cancelled() {
    let world = World::new(HOLDS);
    let first = world.begin("first", "held", &[]);
    let second = world.spawn(&["run", "--json", "--run-id", "second", &world.file]);
    let listed = || world.tells(&["ls", "--status", "queued", "--json"]);
    eventually(|| (listed()[0]["run"] == "second").then_some(()));
    let third = world.spawn(&["run", "--json", "--run-id", "third", &world.file]);
    let queue = eventually(|| Some(listed()).filter(|list| list.as_array().unwrap().len() == 2));
    let numbers: Vec<(&Value, &Value)> =
        queue.as_array().unwrap().iter().map(|run| (&run["run"], &run["queue"]["number"])).collect();
    assert_eq!(numbers, [(&json!("third"), &json!(2)), (&json!("second"), &json!(1))]);
    let shown = world.says(&["ls"]);
    assert!(shown.contains("queued (1 of 2 in one)"), "{shown}");
    world.says(&["cancel", "second"]);
    assert_eq!(second.told().0["status"], "cancelled");
    assert!(!world.is_at("third", "held"));
    world.says(&["signal", "first", "go", "1"]);
    assert_eq!(first.told().0["status"], "succeeded");
    eventually(|| world.is_at("third", "held").then_some(()));
    assert_eq!(listed(), json!([]));
    world.says(&["signal", "third", "go", "1"]);
    assert_eq!(third.told().0["status"], "succeeded");
}
