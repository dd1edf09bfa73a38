//! Schedules of a real service: it is killed, and every due time has its run once.

use super::command_in;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const EACH_SECOND: &str = "\
name: tick
inputs: { due: { type: string } }
schedule: { every: 1s, catch-up: all, overlap: allow, inputs: { due: \"${ .due }\" } }
steps: [{ id: seen, set: \"${ .inputs.due }\" }]
";

/// A service that may be killed, and started again.
pub(super) struct Server {
    child: Child,
    url: String,
    address: String,
}

impl Server {
    pub(super) fn start(data: &Path, workflows: &Path) -> Self {
        Self::start_with(data, workflows, &[])
    }

    pub(super) fn start_with(data: &Path, workflows: &Path, options: &[&str]) -> Self {
        let usual = ["serve", "--listen", "127.0.0.1:0", "--workflows", workflows.to_str().unwrap()];
        let mut command = command_in(data, &[&usual[..], options].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it did not start: {said:?}")).unwrap();
            match line.split_once("listening on ") {
                Some((_, url)) => break url.trim().to_owned(),
                _ => said.push(line),
            }
        };
        // It must not block on a pipe that nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.split_once("://").unwrap().1.to_owned();
        Self { child, url, address }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a request. `None` if the server is not there yet.
    pub(super) fn ask(&self, token: &str, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, Value)> {
        ask_at(&self.address, token, method, path, headers, body)
    }
}

/// Sends a request to an address. `None` if no whole answer comes.
pub(super) fn ask_at(
    address: &str,
    token: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A data folder with a token, and a folder of one workflow.
pub(super) fn prepared(file: &str) -> (PathBuf, tempfile::TempDir, String) {
    let data = super::data();
    let made =
        command_in(&data, &["token", "create", "--name", "test", "--scope", "admin", "--json"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flow.yaml"), file).unwrap();
    (data, folder, made["token"].as_str().unwrap().to_owned())
}

/// The second of a time of RFC 3339.
fn second(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

#[test]
fn each_due_time_has_one_run_over_kills() {
    let (data, folder, token) = prepared(EACH_SECOND);
    let mut pause = Duration::from_millis(700);
    let mut server = Server::start(&data, folder.path());
    for round in 0..8 {
        std::thread::sleep(pause);
        server.kill();
        pause = Duration::from_millis(350 + (round * 977 + 401) % 1_700);
        std::thread::sleep(Duration::from_millis((round * 613) % 1_200));
        server = Server::start(&data, folder.path());
    }
    std::thread::sleep(Duration::from_millis(2_500));
    let (status, firings) = server.ask(&token, "GET", "/v1/schedules/tick/history?limit=1000", "", "").unwrap();
    assert_eq!(status, 200, "{firings}");
    let firings: Vec<&Value> = firings.as_array().unwrap().iter().rev().collect();
    let dues: Vec<i64> = firings.iter().map(|firing| second(firing["due"].as_str().unwrap())).collect();
    assert!(dues.len() >= 8, "{dues:?}");
    for pair in dues.windows(2) {
        assert_eq!(pair[1], pair[0] + 1, "a due time is missing or there twice: {dues:?}");
    }
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for firing in &firings {
        assert!(["fired", "caught-up"].contains(&firing["outcome"].as_str().unwrap()), "{firing}");
        *runs.entry(firing["run"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(runs.len(), dues.len());
    // And no run that no due time has: one may have begun since.
    let (_, listed) = server.ask(&token, "GET", "/v1/runs?limit=1000&workflow=tick", "", "").unwrap();
    let extra = listed["runs"].as_array().unwrap().iter().filter(|run| !runs.contains_key(run["id"].as_str().unwrap()));
    assert!(extra.count() <= 1, "{listed}");
}

#[test]
fn a_schedule_of_the_api_is_written_fired_paused_and_filled_in() {
    let (data, folder, token) = prepared("name: hello\nsteps: [{ id: a, set: 1 }]\n");
    let server = Server::start(&data, folder.path());
    let ask = |method: &str, path: &str, headers: &str, body: Value| {
        let path = format!("/v1/schedules{path}");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        server.ask(&token, method, &path, headers, &body).unwrap()
    };
    let spec = json!({ "workflow": "hello", "every": "1s", "overlap": "allow" });
    let begins = Instant::now();
    let (status, made) = loop {
        let (status, made) = ask("PUT", "/mine", "If-None-Match: *\r\n", spec.clone());
        if status != 503 || begins.elapsed() > Duration::from_secs(10) {
            break (status, made);
        }
        // The folder's files are being deployed.
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((status, &made["revision"], &made["zone"]), (201, &json!(1), &json!("UTC")), "{made}");
    assert_eq!(ask("PUT", "/mine", "If-None-Match: *\r\n", spec.clone()).0, 412);
    assert_eq!(ask("PUT", "/mine", "If-Match: \"7\"\r\n", spec.clone()).0, 412);
    assert_eq!(ask("PUT", "/mine", "If-Match: \"1\"\r\n", spec).0, 200);
    let fired = loop {
        let (_, firings) = ask("GET", "/mine/history", "", Value::Null);
        match firings[0]["run"].as_str() {
            Some(_) => break firings,
            None if begins.elapsed() > Duration::from_secs(20) => panic!("{firings}"),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    assert_eq!(fired[0]["outcome"], "fired");
    let (status, paused) = ask("POST", "/mine/pause", "", Value::Null);
    assert!(status == 200 && paused["paused"].is_string() && paused["next"].is_null(), "{paused}");
    let count = ask("GET", "/mine/history", "", Value::Null).1.as_array().unwrap().len();
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(ask("GET", "/mine/history", "", Value::Null).1.as_array().unwrap().len(), count);
    assert_eq!(ask("POST", "/mine/resume", "", Value::Null).0, 200);
    let (_, next) = ask("GET", "/mine/next?n=3", "", Value::Null);
    assert_eq!(next.as_array().unwrap().len(), 3);
    // A run by hand, twice under one key.
    let (status, first) = ask("POST", "/mine/run", "Idempotency-Key: one\r\n", Value::Null);
    assert_eq!(status, 201, "{first}");
    assert_eq!(ask("POST", "/mine/run", "Idempotency-Key: one\r\n", Value::Null).1["run"], first["run"]);
    // What was before the schedule, filled in once.
    let at = second(fired[0]["due"].as_str().unwrap());
    let time = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string();
    let range = json!({ "from": time(at - 10), "until": time(at) });
    let (status, queued) = ask("POST", "/mine/backfill", "", range.clone());
    let missing = |items: &Value| items.as_array().unwrap().iter().filter(|item| item["missing"] == true).count();
    assert_eq!((status, queued.as_array().unwrap().len()), (202, 11), "{queued}");
    assert!(missing(&queued) >= 8 && queued[10]["missing"] == false, "{queued}");
    let begins = Instant::now();
    loop {
        let (_, history) = ask("GET", "/mine/history?limit=1000", "", Value::Null);
        let filled = history.as_array().unwrap().iter().filter(|firing| firing["outcome"] == "backfilled").count();
        if filled == missing(&queued) {
            break;
        }
        assert!(begins.elapsed() < Duration::from_secs(20), "{history}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(missing(&ask("POST", "/mine/backfill", "", range).1), 0);
    // What is wrong is said with its place.
    let (status, problem) = ask("PUT", "/bad", "", json!({ "workflow": "hello", "cron": "0 25 * * *", "zone": "UTC" }));
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("/cron")), "{problem}");
    assert_eq!(ask("DELETE", "/mine", "", Value::Null).0, 204);
    assert_eq!(ask("GET", "/mine", "", Value::Null).0, 404);
}

#[test]
fn the_command_line_asks_the_service() {
    let (data, folder, token) = prepared(EACH_SECOND);
    let server = Server::start(&data, folder.path());
    let address = format!("http://{}", server.address);
    let run = |arguments: &[&str]| {
        let mut command = command_in(&data, &[&["schedule"], arguments, &["--server", &address]].concat());
        let output = command.env("WFHOST_TOKEN", &token).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let begins = Instant::now();
    while !run(&["show", "tick"]).1.contains("fired") {
        assert!(begins.elapsed() < Duration::from_secs(20), "{:?}", run(&["show", "tick"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    let (code, listed, _) = run(&["ls"]);
    assert!(code == Some(0) && listed.contains("tick") && listed.contains("every 1s"), "{listed}");
    let (code, _, said) = run(&["pause", "tick"]);
    assert!(code == Some(0) && said.contains("is paused"), "{said}");
    assert!(run(&["ls"]).1.contains("paused"));
    let (code, id, _) = run(&["run", "tick"]);
    assert!(code == Some(0) && id.starts_with('s'), "{id}");
    let (_, said, _) =
        run(&["backfill", "tick", "--from", "2026-01-01T00:00:00Z", "--until", "2026-01-01T00:00:02Z", "--dry-run"]);
    assert_eq!(said.matches("would start").count(), 3, "{said}");
    assert_eq!(run(&["resume", "tick"]).0, Some(0));
    let (code, _, said) = run(&["show", "nothing"]);
    assert!(code == Some(2) && said.contains("nothing"), "{said}");
    let output = command_in(&data, &["schedule", "ls", "--server", "http://flows.example.com"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("plain text"));
}
