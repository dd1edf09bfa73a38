//! A real service and clients that mean no good: what it does with them, and what it never says.

use super::command_in;
use super::scheduled::{Server, ask_at, prepared};
use super::support::eventually;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const WAITS: &str = "\
name: waits
inputs: { text: { type: string, default: none } }
steps:
  - { id: said, call: log, with: { message: \"${ .inputs.text }\" } }
  - { id: held, needs: said, wait: { signal: go } }
";

/// Sends bytes, and returns all that comes until the server closes, or nothing comes for so long.
fn sends(address: &str, bytes: &[u8], patience: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.set_write_timeout(Some(patience)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut some = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut some) {
        answer.extend_from_slice(&some[..count]);
    }
    answer
}

/// The service answers others meanwhile.
fn answers(server: &Server, token: &str) {
    let begun = Instant::now();
    let (status, _) = server.ask(token, "GET", "/v1/runs", "", "").unwrap();
    assert!(status == 200 && begun.elapsed() < Duration::from_secs(5), "{status} after {:?}", begun.elapsed());
}

/// What `wfhost serve` says when it does not start.
fn refuses(data: &Path, arguments: &[&str]) -> String {
    let output = command_in(data, &[&["serve"], arguments].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn beyond_loopback_a_service_needs_a_token_and_a_certificate() {
    let (data, _folder, _) = prepared(WAITS);
    let untouched = super::data();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let why = refuses(&untouched, &["--listen", address]);
        assert!(why.contains("there is no token"), "{why}");
        let why = refuses(&data, &["--listen", "127.0.0.1:0", "--listen", address]);
        assert!(why.contains("there is no certificate"), "{why}");
    }
    let arguments = ["serve", "--listen", "0.0.0.0:0", "--behind-proxy"];
    let mut child = command_in(&data, &arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let listens = lines.any(|line| line.unwrap().contains("listening on"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(listens);
}

/// Bytes of all files below a folder.
fn everything(folder: &Path, bytes: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            everything(&entry.path(), bytes);
        } else if kind.is_file() {
            bytes.extend(std::fs::read(entry.path()).unwrap());
        }
    }
}

/// A service whose log is read.
struct Logged {
    child: Child,
    lines: mpsc::Receiver<String>,
    log: Vec<String>,
    address: String,
}

impl Logged {
    fn start(data: &Path, arguments: &[&str]) -> Self {
        let mut command = command_in(data, &[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        command.env("WFHOST_LOG", "trace").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut log: Vec<String> = Vec::new();
        let address = loop {
            log.push(lines.recv_timeout(Duration::from_mins(1)).unwrap());
            match log.last().and_then(|line| line.split_once("http://")) {
                Some((before, address)) if before.contains("listening") => break address.trim().to_owned(),
                _ => {}
            }
        };
        Self { child, lines, log, address }
    }

    fn ask(&self, token: &str, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        ask_at(&self.address, token, method, path, headers, &body.to_string()).unwrap()
    }

    /// Signs in by a token, and returns the cookie.
    fn signs_in(&self, token: &str) -> String {
        let body = json!({ "token": token }).to_string();
        let request = format!(
            "POST /v1/login HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let answer = String::from_utf8(sends(&self.address, request.as_bytes(), Duration::from_secs(10))).unwrap();
        let cookie = answer.split_once("wfhost=").unwrap_or_else(|| panic!("{answer}")).1;
        cookie.split_once(';').unwrap().0.to_owned()
    }

    /// Ends it, and returns what it has said.
    fn ends(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.extend(self.lines.iter());
        self.log
    }
}

/// The secret of a webhook is gone when the service starts again: who starts it is told, and a
/// delivery is to be sent again later.
#[test]
fn a_webhook_without_its_secret_is_told_of_before_a_delivery_comes() {
    let (data, folder, token) = prepared(WAITS);
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("hook");
    std::fs::write(&file, "the-secret-of-a-webhook").unwrap();
    let arguments = ["--workflows", folder.path().to_str().unwrap(), "--secrets", secrets.path().to_str().unwrap()];
    let server = Logged::start(&data, &arguments);
    eventually(|| (server.ask(&token, "GET", "/readyz", "", &json!({})).0 == 200).then_some(()));
    let verify = json!({ "scheme": "token", "header": "X-Token", "secrets": [{ "from": "file", "path": "hook" }] });
    let hook = json!({ "starts": "waits", "verify": verify, "inputs": "{text: .body}" });
    assert_eq!(server.ask(&token, "PUT", "/v1/webhooks/a", "", &hook).0, 201);
    server.ends();
    std::fs::remove_file(&file).unwrap();

    let checked = command_in(&data, &[&["serve", "--check"], &arguments[..]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("the webhook a is not used: "), "{said}");
    let server = Logged::start(&data, &arguments);
    eventually(|| (server.ask(&token, "GET", "/readyz", "", &json!({})).0 == 200).then_some(()));
    let delivers = || server.ask("", "POST", "/hooks/a", "X-Token: the-secret-of-a-webhook\r\n", &json!("x"));
    let (status, problem) = delivers();
    assert_eq!((status, &problem["kind"]), (503, &json!("webhook-unusable")));
    std::fs::write(&file, "the-secret-of-a-webhook").unwrap();
    assert_eq!(delivers().0, 202, "it is read at each delivery");
    let log = server.ends();
    assert!(log.iter().any(|line| line.contains("the webhook a is not used: ")), "{log:?}");
}

/// A token, a session, an approval link, the secret of a webhook; and text that wants to be a line
/// of the log. Neither the data folder nor the log has them.
#[test]
fn neither_the_folder_nor_the_log_has_a_secret() {
    let (data, folder, token) = prepared(WAITS);
    let secrets = tempfile::tempdir().unwrap();
    std::fs::write(secrets.path().join("hook"), "the-secret-of-a-webhook").unwrap();
    let (workflows, kept) = (folder.path().to_str().unwrap(), secrets.path().to_str().unwrap());
    let server = Logged::start(&data, &["--workflows", workflows, "--secrets", kept]);
    let ask = |token: &str, method: &str, path: &str, headers: &str, body: &Value| {
        server.ask(token, method, path, headers, body)
    };
    eventually(|| (ask(&token, "GET", "/readyz", "", &json!({})).0 == 200).then_some(()));
    let forged = "\n{\"level\":\"ERROR\",\"message\":\"forged\"}";
    let start = json!({ "inputs": { "text": format!("a-payload-that-is-private{forged}") }, "run-id": "one" });
    assert_eq!(ask(&token, "POST", "/v1/workflows/waits/runs", "", &start).0, 201);
    let (_, link) = ask(&token, "POST", "/v1/runs/one/links", "", &json!({ "signal": "go" }));
    let link = link["path"].as_str().unwrap().strip_prefix("/a/").unwrap().to_owned();
    let hook = |path: &str| {
        let verify = json!({ "scheme": "token", "header": "X-Token", "secrets": [{ "from": "file", "path": path }] });
        json!({ "starts": "waits", "verify": verify, "inputs": "{text: .body}" })
    };
    assert_eq!(ask(&token, "PUT", "/v1/webhooks/a", "", &hook("hook")).0, 201);
    // It is logged which file cannot be read: as one line.
    assert_eq!(ask(&token, "PUT", "/v1/webhooks/b", "", &hook(&format!("absent{forged}"))).0, 422);
    assert_eq!(ask("", "POST", "/hooks/a", "X-Token: the-secret-of-a-webhook\r\n", &json!("x")).0, 202);
    assert_eq!(ask("", "POST", "/hooks/a", "X-Token: another-secret-of-a-webhook\r\n", &json!("x")).0, 401);
    let wrong = "wfh_0123456789_wrong-wrong-wrong-wrong-wrong-wrong-wrong-1_00000000";
    assert_eq!(ask(wrong, "GET", "/v1/runs/%0A%7B%22message%22:%22forged%22%7D", "", &json!({})).0, 401);
    let private = json!("a-body-that-is-private");
    assert_eq!(ask(&token, "POST", "/v1/runs/one/signals/other", "", &private).0, 200);
    let cookie = server.signs_in(&token);
    let log = server.ends();

    let mut stored = Vec::new();
    everything(&data, &mut stored);
    let has = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("a-payload-that-is-private"), "the folder was not read: records are in it");
    let is_logged = |text: &str| log.iter().any(|line| line.contains(text));
    // Behind `wfh_`, the id and its `_`.
    let of_token = &token[15..58];
    for secret in [&*token, of_token, &link, &cookie, "the-secret-of-a-webhook", "another-secret-of-a-webhook"] {
        assert!(secret.len() > 20 && !has(secret), "{secret} is in the folder");
        assert!(!is_logged(secret), "{secret} is in the log");
    }
    for private in ["a-payload-that-is-private", "a-body-that-is-private", "wrong-wrong"] {
        assert!(!is_logged(private), "{private} is in the log");
    }
    // What the server says to whoever started it is text; its log is JSON, a line for each entry.
    let entries: Vec<Value> = log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(entries.iter().any(|entry| entry["webhook"] == "b"), "{log:?}");
    assert!(entries.iter().all(|entry| entry["message"] != "forged"), "{log:?}");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

#[test]
fn slow_and_huge_clients_are_left_and_others_are_served() {
    let (data, folder, token) = prepared(WAITS);
    let server = Server::start(&data, folder.path());
    eventually(|| (server.ask(&token, "GET", "/readyz", "", "")?.0 == 200).then_some(()));
    let address = server.address().to_owned();
    // A thousand that say nothing, or a letter now and then.
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..1_000).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        if number % 2 == 0 {
            stream.write_all(b"GET /v1/runs HTTP/1.1\r\nX-A").unwrap();
        }
    }
    answers(&server, &token);
    // A body without an end: it is refused at its bound.
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = |more: &str| {
        format!(
            "POST /v1/workflows/waits/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nConnection: close\r\n{more}\r\n"
        )
    };
    stream.write_all(head("Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
    // A gigabyte, if somebody takes it.
    let taken = (0..16_384).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(taken < 1_000, "it took {taken} chunks of 64 KiB");
    // What is compressed has no size that is known; what is said to be too long is not read.
    let patience = Duration::from_secs(10);
    for (header, status) in [
        ("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "415"),
        ("Content-Encoding: br\r\nContent-Length: 2\r\n", "415"),
    ] {
        let answer = sends(&address, [head(header).as_bytes(), b"{}"].concat().as_slice(), patience);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{header}: {answer}");
    }
    // HTTP/2: streams that are begun and taken back at once, again and again.
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend(frame(4, 0, 0, &[]));
    let fields = [&[0x82, 0x86, 0x84, 0x41, 9][..], b"localhost"].concat();
    for number in 0..20_000 {
        flood.extend(frame(1, 5, 2 * number + 1, &fields));
        flood.extend(frame(3, 0, 2 * number + 1, &8_u32.to_be_bytes()));
    }
    let answer = sends(&address, &flood, patience);
    // The type of the last frame: the connection is ended (GOAWAY).
    let is_goaway = |at: usize| answer.get(at + 3) == Some(&7);
    let mut at = 0;
    while at + 9 <= answer.len() && !is_goaway(at) {
        at += 9 + usize::from(answer[at]) * 0x10000 + usize::from(answer[at + 1]) * 0x100 + usize::from(answer[at + 2]);
    }
    assert!(is_goaway(at) || answer.is_empty(), "a flood of streams goes on");
    answers(&server, &token);
    // The slow ones are closed: ten seconds, and some for a busy machine.
    for stream in &mut slow {
        let left = Duration::from_mins(1).saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_over =
            ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset) || ended.is_ok();
        assert!(is_over, "a silent connection is open after {:?}: {ended:?}", begun.elapsed());
    }
    answers(&server, &token);
}

/// Every test that docs/security.md names exists.
#[test]
fn each_threat_names_tests_that_exist() {
    let root = super::root();
    let text = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let (_, section) = text.split_once("## The service").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> =
        section.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    let mut all = Vec::new();
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut all);
    }
    let code = all.concat();
    let mut named = BTreeSet::new();
    for row in &rows[1..] {
        let tests: Vec<&str> = row.last().unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {row:?}");
        for test in tests {
            assert!(code.contains(&format!("fn {test}(")), "there is no test `{test}`");
            named.insert(test);
        }
    }
    assert!(rows.len() > 17 && named.len() > 25, "{} {}", rows.len(), named.len());
}

/// The texts of all Rust files below a folder.
fn sources(folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|found| found == "rs") {
            all.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}
