//! The example `post` of the guide of workflow files, against a server that sees its request.

use super::super::{scratch, wfhost};
use super::page::Page;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// A request as the server saw it.
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// Answers one request with this JSON.
fn answer(listener: &TcpListener, status: &str, body: &str) -> Request {
    let (mut stream, _) = listener.accept().unwrap();
    let request = read(&mut BufReader::new(&stream));
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes()).unwrap();
    request
}

fn read(reader: &mut impl BufRead) -> Request {
    let lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.collect();
    let line = lines.remove(0);
    let field = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = lines.iter().filter_map(field).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Request { line, headers, body: String::from_utf8(body).unwrap() }
}

#[test]
fn a_post_with_json_does_what_its_table_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || answer(&listener, "201 Created", r#"{"id": 7}"#));
    let page = Page::read("docs/workflows.md".into());
    let block = page.blocks.iter().find(|block| block.text.starts_with("name: post\n")).unwrap();
    let text = block.text.replace("https://api.example.com", &format!("http://127.0.0.1:{port}"));
    let (_folder, path) = scratch(&text);
    let output = wfhost(&["run", "--quiet", &path, "--allow-address", "127.0.0.1"]);
    let outputs: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outputs, json!({ "status": 201, "id": 7 }));
    let request = server.join().unwrap();
    assert_eq!(request.line, "POST /people HTTP/1.1");
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body, json!({ "name": "Ann", "tags": ["new"] }));
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    assert_eq!((header("content-type"), header("accept")), (Some("application/json"), Some("application/json")));
    assert!(header("idempotency-key").is_some_and(|key| !key.is_empty()));
}
