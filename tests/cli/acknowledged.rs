//! A service that is killed again and again under load through its API: what it has acknowledged is
//! there afterwards, no key has two runs, and streams that are resumed miss and repeat nothing.
//!
//! `WFHOST_SERVICE_KILLS` says how many kills there are.

use super::scheduled::{Server, ask_at, prepared};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const HOLD: &str = "\
name: hold
inputs: { key: { type: string } }
steps:
  - { id: before, set: \"${ .inputs.key }\" }
  - { id: held, needs: before, wait: { signal: go } }
outputs: { key: \"${ .steps.before.output }\", got: \"${ .steps.held.output }\" }
";

const QUICK: &str = "\
name: quick
inputs: { key: { type: string } }
steps: [{ id: it, set: \"${ .inputs.key }\" }]
outputs: { key: \"${ .steps.it.output }\" }
";

/// It takes the time of several kills, with a record now and then.
const LONG: &str = "\
name: long
steps: [{ id: moments, for-each: \"${ [range(60)] }\", max-parallel: 1, wait: 60ms }]
";

/// How many load it, and how many follow.
const THREADS: (u64, u64) = (4, 2);

/// The pause between two acts of a thread: there must be time for the check.
const PAUSE: Duration = Duration::from_millis(15);

/// How long an act may take with all its repetitions.
const ACT_TIME_MAX: Duration = Duration::from_mins(2);

/// What became of a run, as the service has acknowledged it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Expected {
    /// It has started; what it does is not known.
    Exists,
    Succeeds,
    Gets(String),
    IsCancelled,
}

/// What the service has acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// By the keys of their starts: the run, its workflow, and what must become of it.
    runs: BTreeMap<String, (String, &'static str, Expected)>,
    /// Streams that were read to their ends, the breaks in them, and events.
    followed: (usize, usize, usize),
}

struct Load {
    token: String,
    address: Mutex<String>,
    is_over: AtomicBool,
    acknowledged: Mutex<Acknowledged>,
    /// Requests that were sent again since no answer came.
    repeated: AtomicU64,
}

impl Load {
    /// Sends a request under a key until it has an answer that says what happened.
    fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let until = Instant::now() + ACT_TIME_MAX;
        let headers = format!("Idempotency-Key: {key}\r\n");
        loop {
            let address = self.address.lock().clone();
            match ask_at(&address, &self.token, method, path, &headers, &body.to_string()) {
                // The folder is being taken up.
                Some((404 | 503, _)) | None => {}
                Some(answer) => return answer,
            }
            assert!(Instant::now() < until, "{method} {path} has no answer");
            self.repeated.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn note(&self, key: &str, run: &str, workflow: &'static str, expected: Expected) {
        self.acknowledged.lock().runs.insert(key.to_owned(), (run.to_owned(), workflow, expected));
    }

    fn start(&self, workflow: &'static str, key: &str, inputs: &Value) -> String {
        let body = json!({ "inputs": inputs, "labels": { "key": key } });
        let (status, run) = self.ask("POST", &format!("/v1/workflows/{workflow}/runs"), key, &body);
        assert_eq!(status, 201, "{run}");
        let id = run["id"].as_str().unwrap().to_owned();
        self.note(key, &id, workflow, Expected::Exists);
        id
    }

    /// Starts, signals and cancels until it is over.
    fn act(&self, thread: u64) {
        for number in 0.. {
            if self.is_over.load(Relaxed) {
                return;
            }
            let key = format!("{thread}-{number}");
            let inputs = json!({ "key": key });
            if number % 4 == 0 {
                let body = json!({ "inputs": inputs, "labels": { "key": key } });
                let (status, ended) = self.ask("POST", "/v1/workflows/quick/runs?wait=20s", &key, &body);
                let run = ended["run"].as_str().or(ended["id"].as_str()).unwrap_or_else(|| panic!("{status} {ended}"));
                let expected = if status == 200 { Expected::Succeeds } else { Expected::Exists };
                self.note(&key, run, "quick", expected);
            } else {
                let run = self.start("hold", &key, &inputs);
                let (path, body, expected) = match number % 4 {
                    1 => (format!("/v1/runs/{run}/cancel"), json!({}), Expected::IsCancelled),
                    _ => (format!("/v1/runs/{run}/signals/go"), json!(key), Expected::Gets(key.clone())),
                };
                let (status, answer) = self.ask("POST", &path, &format!("act-{key}"), &body);
                // The run has ended since an act before, whose answer was lost.
                assert!(status == 200 || (status, &answer["kind"]) == (409, &json!("run-ended")), "{status} {answer}");
                self.note(&key, &run, "hold", expected);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Follows one run after the other to its end, over every break, and compares what came with
    /// the records.
    fn follow(&self, thread: u64) {
        for number in 0.. {
            if self.is_over.load(Relaxed) {
                return;
            }
            let run = self.start("long", &format!("long-{thread}-{number}"), &json!({}));
            let (mut seen, mut breaks) = (Vec::new(), 0);
            let until = Instant::now() + 5 * ACT_TIME_MAX;
            while !self.reads_to_the_end(&run, &mut seen) {
                breaks += 1;
                assert!(Instant::now() < until, "the run {run} does not end");
                std::thread::sleep(Duration::from_millis(10));
            }
            let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>(), "a record is missing or there twice");
            let (_, page) = self.ask("GET", &format!("/v1/runs/{run}/history?limit=1000"), "none", &json!({}));
            let records: Vec<Value> = page["records"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
            assert!(page["next"].is_null() && records.len() == seen.len(), "{} {}", records.len(), seen.len());
            for ((number, event), record) in seen.iter().zip(&records) {
                assert_eq!(event, record, "record {number} of {run}");
            }
            let mut acknowledged = self.acknowledged.lock();
            let followed = &mut acknowledged.followed;
            *followed = (followed.0 + 1, followed.1 + breaks, followed.2 + seen.len());
        }
    }

    /// Reads the stream of a run from what was seen on; whether its end came.
    fn reads_to_the_end(&self, run: &str, seen: &mut Vec<(u64, Value)>) -> bool {
        let address = self.address.lock().clone();
        let Ok(mut stream) = TcpStream::connect(&address) else { return false };
        let last = seen.last().map_or_else(String::new, |(number, _)| format!("Last-Event-ID: {number}\r\n"));
        let sent = write!(
            stream,
            "GET /v1/runs/{run}/events HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n{last}\r\n",
            self.token
        );
        if sent.is_err() {
            return false;
        }
        let (mut name, mut id, mut data) = (String::new(), None, Value::Null);
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return false };
            if let Some(given) = line.strip_prefix("event: ") {
                given.clone_into(&mut name);
            } else if let Some(given) = line.strip_prefix("id: ") {
                id = given.parse().ok();
            } else if let Some(given) = line.strip_prefix("data: ") {
                // A line that the kill has cut is no event: the empty line after it is missing.
                data = serde_json::from_str(given).unwrap_or_default();
            } else if line.is_empty() {
                match (name.as_str(), id.take()) {
                    ("record", Some(number)) => seen.push((number, std::mem::take(&mut data))),
                    ("end", _) => return true,
                    _ => {}
                }
                name.clear();
            }
        }
        false
    }

    /// Compares what was acknowledged with what there is.
    fn check(&self) {
        let acknowledged = self.acknowledged.lock();
        for (key, (run, workflow, expected)) in &acknowledged.runs {
            let (status, outcome) = match expected {
                Expected::Exists => self.ask("GET", &format!("/v1/runs/{run}"), "none", &json!({})),
                _ => self.ask("GET", &format!("/v1/runs/{run}/outcome?wait=30s"), "none", &json!({})),
            };
            assert_eq!(status, 200, "{key}: {run} {outcome}");
            match expected {
                Expected::Exists => assert_eq!(outcome["labels"]["key"], **key),
                Expected::Succeeds => assert_eq!(outcome["outputs"]["key"], **key, "{outcome}"),
                Expected::Gets(body) => {
                    assert_eq!(outcome["outputs"], json!({ "key": key, "got": body }), "{run} {outcome}");
                }
                Expected::IsCancelled => assert_eq!(outcome["status"], "cancelled", "{run} {outcome}"),
            }
            if *workflow == "hold" && !key.starts_with("first") {
                let body = json!({ "inputs": { "key": key }, "labels": { "key": key } });
                let (status, again) = self.ask("POST", "/v1/workflows/hold/runs", key, &body);
                assert_eq!((status, again["id"].as_str()), (201, Some(run.as_str())), "{again}");
            }
        }
    }

    /// The ids of all runs, by the keys of their starts.
    fn runs_of_keys(&self) -> BTreeMap<String, Vec<String>> {
        let mut of_keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let (status, page) = self.ask("GET", &format!("/v1/runs?limit=1000{cursor}"), "none", &json!({}));
            assert_eq!(status, 200, "{page}");
            for run in page["runs"].as_array().unwrap() {
                let key = run["labels"]["key"].as_str().unwrap().to_owned();
                of_keys.entry(key).or_default().push(run["id"].as_str().unwrap().to_owned());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return of_keys,
            }
        }
    }
}

/// Kills the server at moments that differ, and starts it again.
fn killed(load: &Load, mut server: Server, data: &Path, workflows: &Path, kills: u64) -> (Server, Duration) {
    let mut longest = Duration::ZERO;
    for round in 0..kills {
        std::thread::sleep(Duration::from_millis(200 + round * 977 % 700));
        server.kill();
        let begins = Instant::now();
        server = Server::start(data, workflows);
        longest = longest.max(begins.elapsed());
        server.address().clone_into(&mut load.address.lock());
        if round % 50 == 49 {
            let acknowledged = load.acknowledged.lock();
            println!("{} kills, {} runs, {:?}", round + 1, acknowledged.runs.len(), acknowledged.followed);
        }
    }
    (server, longest)
}

#[test]
fn what_was_acknowledged_is_there_after_kills_under_load() {
    let kills = std::env::var("WFHOST_SERVICE_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let (data, folder, token) = prepared(HOLD);
    std::fs::write(folder.path().join("quick.yaml"), QUICK).unwrap();
    std::fs::write(folder.path().join("long.yaml"), LONG).unwrap();
    let server = Server::start(&data, folder.path());
    let load = Load {
        token,
        address: Mutex::new(server.address().to_owned()),
        is_over: AtomicBool::new(false),
        acknowledged: Mutex::default(),
        repeated: AtomicU64::new(0),
    };
    // All three are deployed before the first kill.
    for workflow in ["hold", "quick", "long"] {
        load.start(
            workflow,
            &format!("first-{workflow}"),
            &if workflow == "long" { json!({}) } else { json!({ "key": "" }) },
        );
    }
    let (_server, longest) = std::thread::scope(|scope| {
        let load = &load;
        let acting: Vec<_> = (0..THREADS.0).map(|thread| scope.spawn(move || load.act(thread))).collect();
        let following: Vec<_> = (0..THREADS.1).map(|thread| scope.spawn(move || load.follow(thread))).collect();
        let (data, folder) = (&data, folder.path());
        let killing = scope.spawn(move || {
            let killed = killed(load, server, data, folder, kills);
            load.is_over.store(true, Relaxed);
            killed
        });
        for thread in acting.into_iter().chain(following) {
            thread.join().unwrap();
        }
        killing.join().unwrap()
    });
    load.check();
    let of_keys = load.runs_of_keys();
    let twice: Vec<_> = of_keys.iter().filter(|(_, runs)| runs.len() > 1).collect();
    assert!(twice.is_empty(), "keys with two runs: {twice:?}");
    let acknowledged = load.acknowledged.lock();
    let (streams, breaks, events) = acknowledged.followed;
    assert_eq!(of_keys.len(), acknowledged.runs.len(), "a run that nobody has started");
    let repeated = load.repeated.load(Relaxed);
    assert!(streams > 0 && breaks > 0 && repeated > 0, "no kill came between: {streams} {breaks} {repeated}");
    println!(
        "{kills} kills: {} runs acknowledged, {} there; {} requests repeated; {streams} streams with {breaks} breaks and \
         {events} events; the longest start took {} ms",
        acknowledged.runs.len(),
        of_keys.len(),
        repeated,
        longest.as_millis(),
    );
}
