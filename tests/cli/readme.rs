//! The examples of `workflows/README.md`: each is a whole workflow, valid, and does what the text says. And the one of the front page.

use super::{root, wfhost};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

/// The blocks of YAML, in order.
fn examples() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("workflows/README.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The block that has this name.
fn example(name: &str) -> String {
    let line = format!("name: {name}\n");
    examples().into_iter().find(|text| text.contains(&line)).unwrap_or_else(|| panic!("no example {name}"))
}

/// A folder with this workflow, and the component that the smallest example names.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("guests/built/hello.wasm"), folder.path().join("hello.wasm")).unwrap();
    let path = folder.path().join("example.yaml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// The outputs of a run.
fn outputs(text: &str, arguments: &[&str]) -> Value {
    let (_folder, path) = written(text);
    let output = wfhost(&[&["run", "--json", path.to_str().unwrap()], arguments].concat());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["status"], "succeeded", "{value}");
    value["outputs"].clone()
}

/// A request as the server saw it.
struct Seen {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// Answers every request alike, on a port of its own.
fn server(status: &'static str, media_type: &'static str, body: &'static str) -> (u16, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = read(&stream);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}");
            stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes()).unwrap();
            if seen.send(request).is_err() {
                return;
            }
        }
    });
    (port, requests)
}

fn read(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let line = lines.remove(0);
    let field = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = lines.iter().filter_map(field).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Seen { line, headers, body: String::from_utf8(body).unwrap() }
}

/// The commands with which the front page shows that a run outlives its process, done as they stand there. Only before the kill it is waited
/// until the run is where it waits for somebody.
#[test]
fn a_run_is_killed_and_resumed_as_the_front_page_says() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let block = text.split("```sh\n").find(|block| block.contains("kill -9")).unwrap().split("```").next().unwrap();
    let (before, after) = block.split_once("kill -9").unwrap();
    let data = super::data();
    let wait = "until wfhost status --json order-1 2>/dev/null | grep -q '\"name\": \"approve\"'; do sleep 0.02; done";
    let script = format!("set -e\n{before}{wait}\nkill -9{after}");
    let run = |script: &str| {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_wfhost"));
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut bash = std::process::Command::new("timeout");
        bash.args(["120", "bash", "-c", script]).current_dir(root()).env("PATH", path);
        bash.env("WFHOST_CACHE", super::cache()).env("WFHOST_DATA", &data).output().unwrap()
    };
    let killed = run(&script);
    assert!(killed.status.success(), "{}", super::transcript(&killed));
    let whole = "wfhost run workflows/approval.yaml --run-id whole & \
                 until wfhost signal whole approve '{\"by\": \"Ann\"}' 2>/dev/null; do sleep 0.02; done; wait $!";
    let whole = run(whole);
    assert_eq!(killed.stdout, whole.stdout, "{}", super::transcript(&whole));
    let outputs: Value = serde_json::from_slice(&killed.stdout).unwrap();
    assert_eq!(outputs, json!({ "price": 610, "thanks": "Hello, Ann!" }));
}

#[test]
fn every_example_is_a_valid_workflow() {
    let examples = examples();
    assert!(examples.len() >= 5, "{}", examples.len());
    for text in examples {
        let (_folder, path) = written(&text);
        let output = wfhost(&["validate", path.to_str().unwrap()]);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_post_with_json_does_what_its_table_says() {
    let (port, requests) = server("201 Created", "application/json", r#"{"id": 7}"#);
    let text = example("post").replace("https://api.example.com", &format!("http://127.0.0.1:{port}"));
    assert_eq!(outputs(&text, &["--allow-address", "127.0.0.1"]), json!({ "status": 201, "id": 7 }));
    let seen = requests.recv().unwrap();
    assert_eq!(seen.line, "POST /people HTTP/1.1");
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), json!({ "name": "Ann", "tags": ["new"] }));
    assert_eq!(
        (seen.headers["content-type"].as_str(), seen.headers["accept"].as_str()),
        ("application/json", "application/json")
    );
    assert!(!seen.headers["idempotency-key"].is_empty());
}

#[test]
fn a_server_on_this_machine_is_reached_where_that_is_permitted() {
    let (port, requests) = server("200 OK", "text/html", "<p>hi</p>");
    let text = example("local").replace("8000", &port.to_string());
    let (_folder, path) = written(&text);
    let refused = wfhost(&["run", "--json", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("address-refused"));
    assert!(requests.try_recv().is_err(), "nothing was sent");
    assert_eq!(outputs(&text, &["--allow-address", "localhost"]), json!({ "status": 200, "bytes": 9 }));
}

#[test]
fn the_store_of_a_run_does_what_its_table_says() {
    assert_eq!(outputs(&example("counter"), &[]), json!({ "first": 1, "swapped": true, "keys": ["visits"] }));
}

#[test]
fn a_line_of_the_log_is_shown() {
    let text = examples().into_iter().find(|text| text.contains("call: log")).unwrap();
    let (_folder, path) = written(&text);
    let output = wfhost(&["run", path.to_str().unwrap()]);
    assert!(output.status.success());
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("half of it is done"), "{shown}");
}
