//! Runs that go on with another version of their workflow: by the command, in a folder and by a
//! service that is killed again and again meanwhile.

use super::scheduled::{Server, ask_at, prepared};
use super::support::World;
use super::{command_in, transcript};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ASKS: &str = "\
name: flow
steps:
  - { id: asks, wait: { signal: answer } }
  - { id: told, set: \"then\", needs: asks }
outputs: { told: \"${ .steps.told.output }\" }
";

#[test]
fn a_run_of_a_folder_goes_on_with_a_corrected_file() {
    let world = World::new(ASKS);
    world.begin("it", "asks", &[]).kill();
    let file = |name: &str, text: String| {
        let file = world.data.join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let other = file("other.yaml", ASKS.replace("answer", "reply"));
    let differs = world.does(&["upgrade", "it", "--to", &other]);
    assert_eq!(differs.status.code(), Some(1), "{}", transcript(&differs));
    assert!(transcript(&differs).contains("reply"), "{}", transcript(&differs));
    let fixed = file("fixed.yaml", ASKS.replace("then", "now"));
    let upgraded = world.tells(&["upgrade", "it", "--to", &fixed, "--json"]);
    assert_eq!(upgraded["outcome"], "upgraded", "{upgraded}");
    assert_eq!(world.tells(&["upgrade", "it", "--to", &fixed, "--json"])["outcome"], "unchanged");
    assert!(world.refuses(&["upgrade", "it", "--to", "9"]).contains("no version 9"));
    world.says(&["signal", "it", "answer", "1"]);
    assert_eq!(world.tells(&["resume", "it", "--json"])["outputs"], json!({ "told": "now" }));
    let history = world.says(&["history", "it"]);
    assert!(history.contains("upgraded to version"), "{history}");
    assert_eq!(world.tells(&["replay", "it", "--json"])["answer"], "same");
    assert!(world.refuses(&["upgrade", "it", "--to", &fixed]).contains("has ended"));
}

const RUNS: usize = 12;

/// A service, its runs, and what was acknowledged of their upgrades.
struct Upgrading {
    token: String,
    address: Mutex<String>,
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Upgrading {
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let until = Instant::now() + Duration::from_mins(2);
        loop {
            let address = self.address.lock().clone();
            match ask_at(&address, &self.token, method, path, "", &body.to_string()) {
                // It is being taken up, or moves.
                Some((404 | 503, _)) | None => {}
                Some((409, problem)) if problem["kind"] == "run-busy" => {}
                Some(answer) => return answer,
            }
            assert!(Instant::now() < until, "{method} {path} has no answer");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Upgrades some runs to one version and back, until it is over.
    fn upgrade(&self, thread: usize) {
        for number in 0_u64.. {
            for run in (thread..RUNS).step_by(2) {
                if self.is_over.load(Relaxed) {
                    return;
                }
                let to = 1 + (number + 1) % 2;
                let (status, answer) = self.ask("POST", &format!("/v1/runs/r-{run}/upgrade"), &json!({ "to": to }));
                assert_eq!(status, 200, "{answer}");
                let (_, shown) = self.ask("GET", &format!("/v1/runs/r-{run}"), &json!({}));
                assert_eq!(shown["version"], to, "{shown}");
                self.done.fetch_add(1, Relaxed);
            }
        }
    }
}

#[test]
fn a_run_is_one_of_the_former_version_or_of_the_new_one_after_kills() {
    let kills = std::env::var("WFHOST_SERVICE_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let text = |told: &str| ASKS.replace("then", told);
    let (data, folder, token) = prepared(&text("1"));
    let mut server = Server::start(&data, folder.path());
    let (address, is_over, done) =
        (Mutex::new(server.address().to_owned()), AtomicBool::default(), AtomicU64::default());
    let load = Upgrading { token, address, is_over, done };
    for run in 0..RUNS {
        let (status, begun) = load.ask("POST", "/v1/workflows/flow/runs", &json!({ "run-id": format!("r-{run}") }));
        assert_eq!(status, 201, "{begun}");
    }
    let body = json!({ "file": "flow.yaml", "source": text("2") });
    let (status, version) = load.ask("POST", "/v1/workflows", &body);
    assert_eq!((status, &version["version"]), (201, &json!(2)), "{version}");
    let server = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            scope.spawn({
                let load = &load;
                move || load.upgrade(thread)
            })
        });
        for round in 0..kills {
            std::thread::sleep(Duration::from_millis(300 + round * 977 % 700));
            server.kill();
            server = Server::start(&data, folder.path());
            server.address().clone_into(&mut load.address.lock());
        }
        load.is_over.store(true, Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        server
    });
    let done = load.done.load(Relaxed);
    assert!(done > kills, "{done} upgrades, {kills} kills");
    for run in 0..RUNS {
        let (_, shown) = load.ask("GET", &format!("/v1/runs/r-{run}"), &json!({}));
        let (status, answer) = load.ask("POST", &format!("/v1/runs/r-{run}/signals/answer"), &json!(0));
        assert_eq!(status, 200, "{answer}");
        let (_, outcome) = load.ask("GET", &format!("/v1/runs/r-{run}/outcome?wait=30s"), &json!({}));
        assert_eq!(outcome["outputs"]["told"], shown["version"].to_string(), "{outcome} {shown}");
        let (_, replayed) = load.ask("POST", &format!("/v1/runs/r-{run}/replay"), &json!({}));
        assert_eq!(replayed["answer"], "same", "{replayed}");
    }
    // The command asks the service.
    let (status, _) = load.ask("POST", "/v1/workflows/flow/runs", &json!({ "run-id": "last" }));
    assert_eq!(status, 201);
    let mut command = command_in(&data, &["upgrade", "last", "--to", "2", "--server", &server.url()]);
    let told = command.env("WFHOST_TOKEN", &load.token).output().unwrap();
    assert!(transcript(&told).contains("run last goes on with version 2, from record"), "{}", transcript(&told));
    println!("{kills} kills, {done} upgrades");
}
