//! Runs whose process is killed while a service lives on the folder.

use super::scheduled::{Server, prepared};
use super::support::{World, eventually};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const ASKS: &str = "
name: asks
steps:
  - { id: asks, wait: { signal: answer, timeout: 24h } }
outputs: { got: \"${ .steps.asks.output }\" }
";

/// How long a service may take to have a run. It takes milliseconds; the machine may be loaded.
const TIME_MAX: Duration = Duration::from_secs(5);

/// How often the thread of a process that waits for ends of hosts has been woken.
fn woken(process: u32) -> u64 {
    let threads = Path::new("/proc").join(process.to_string()).join("task");
    let thread = std::fs::read_dir(threads)
        .unwrap()
        .map(|thread| thread.unwrap().path())
        .find(|thread| std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == "host-ends"));
    let status = std::fs::read_to_string(thread.expect("the thread").join("status")).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    count.trim().parse().unwrap()
}

#[test]
fn a_service_goes_on_with_the_runs_of_a_killed_process() {
    let mut world = World::new(ASKS);
    let (data, folder, token) = prepared(ASKS);
    world.data = data;
    let before = world.begin("before", "asks", &[]);
    let server = Server::start(&world.data, folder.path());
    while server.ask(&token, "GET", "/readyz", "", "").is_none_or(|(status, _)| status != 200) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let later = world.begin("later", "asks", &[]);
    let paused = world.begin("paused", "asks", &[]);
    world.says(&["pause", "paused"]);
    let state = |run: &str| world.tells(&["status", "--json", run])["state"].as_str().unwrap().to_owned();
    let owner = |run: &str| {
        let list = world.tells(&["ls", "--json"]);
        let row = list.as_array().unwrap().iter().find(|row| row["run"] == run).unwrap();
        row["host"].as_u64()
    };
    assert_eq!(owner("later"), Some(later.id().into()), "it is that process's while it lives");

    // Nothing is asked again and again.
    let idle = woken(server.id());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(woken(server.id()), idle);

    for (run, process) in [("before", before), ("later", later), ("paused", paused)] {
        process.kill();
        let killed = Instant::now();
        eventually(|| (owner(run) == Some(server.id().into())).then_some(()));
        assert!(killed.elapsed() < TIME_MAX, "{run}: {:?}", killed.elapsed());
    }
    assert_eq!(state("paused"), "paused");
    for run in ["before", "later"] {
        let path = format!("/v1/runs/{run}/signals/answer");
        let (status, answer) = server.ask(&token, "POST", &path, "Idempotency-Key: k\r\n", "7").unwrap();
        assert!((200..300).contains(&status), "{status} {answer}");
        let ended = eventually(|| {
            let (status, outcome) = server.ask(&token, "GET", &format!("/v1/runs/{run}/outcome"), "", "")?;
            (status == 200 && outcome["outputs"].is_object()).then_some(outcome)
        });
        assert_eq!(ended["outputs"], json!({ "got": 7 }), "{ended}");
    }
}

#[test]
fn a_service_goes_on_with_the_run_of_a_process_that_was_asked_to_end() {
    let mut world = World::new(ASKS);
    let (data, folder, _token) = prepared(ASKS);
    world.data = data;
    let server = Server::start(&world.data, folder.path());
    let mut run = world.begin("it", "asks", &[]);
    run.send("-TERM");
    run.ends();
    eventually(|| (world.tells(&["ls", "--json"])[0]["host"].as_u64() == Some(server.id().into())).then_some(()));
}

/// After this long, a run that waits is parked.
const PARKED_AFTER: Duration = Duration::from_millis(10_500);

#[test]
fn a_service_has_the_parked_run_of_a_killed_process_when_something_comes_for_it() {
    let mut world = World::new(ASKS);
    let (data, folder, token) = prepared(ASKS);
    world.data = data;
    let server = Server::start(&world.data, folder.path());
    let runs = ["by-command", "by-api"].map(|run| (run, world.begin(run, "asks", &[])));
    std::thread::sleep(PARKED_AFTER);
    for (run, process) in runs {
        process.kill();
        let host = || {
            world.tells(&["ls", "--json"]).as_array().unwrap().iter().find(|row| row["run"] == run).unwrap()["host"]
                .as_u64()
        };
        eventually(|| (host() == Some(server.id().into())).then_some(()));
    }
    // The service has not read them, and they wait all the same.
    let waiting = world.tells(&["ls", "--json", "--status", "waiting"]);
    assert_eq!(waiting.as_array().unwrap().len(), 2, "{waiting}");
    world.says(&["signal", "by-command", "answer", "7"]);
    let (status, answer) = server.ask(&token, "POST", "/v1/runs/by-api/signals/answer", "", "7").unwrap();
    assert_eq!((status, &answer["outcome"]), (200, &json!("recorded")), "{answer}");
    for run in ["by-command", "by-api"] {
        let outcome = server.ask(&token, "GET", &format!("/v1/runs/{run}/outcome?wait=20s"), "", "").unwrap().1;
        assert_eq!(outcome["outputs"], json!({ "got": 7 }), "{outcome}");
    }
}
