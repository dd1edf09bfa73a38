//! The language server, as an editor drives it.

use crate::command;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Far more than an answer takes on a busy machine.
const WAIT: Duration = Duration::from_mins(2);

struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    next_id: u64,
}

impl Editor {
    fn start() -> Self {
        let mut child =
            command(&["lsp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if from.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    length = line.trim().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
                }
                let mut bytes = vec![0; length];
                from.read_exact(&mut bytes).unwrap();
                let _ = sender.send(serde_json::from_slice(&bytes).unwrap());
            }
        });
        let input = child.stdin.take();
        Self { child, input, messages, next_id: 1 }
    }

    fn initialized() -> Self {
        let mut editor = Self::start();
        let answer = editor.ask("initialize", json!({ "capabilities": {} }));
        assert_eq!(answer["result"]["capabilities"]["hoverProvider"], true);
        editor.tell("initialized", json!({}));
        editor
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.raw(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.wait(|message| message["id"] == id)
    }

    fn wait(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.messages.recv_timeout(WAIT).expect("an answer comes");
            if is_it(&message) {
                return message;
            }
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        self.tell("textDocument/didOpen", json!({ "textDocument": { "uri": uri, "version": 1, "text": text } }));
    }

    fn change(&mut self, uri: &str, version: i64, text: &str) {
        let document = json!({ "uri": uri, "version": version });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [{ "text": text }] }));
    }

    /// The diagnostics of a version.
    fn diagnostics(&self, version: i64) -> Vec<Value> {
        let message = self.wait(|message| message["params"]["version"] == version);
        message["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// Asks about the place of `‸` in a text, which becomes the document's text.
    fn at(&mut self, method: &str, uri: &str, text: &str) -> Value {
        let at = text.find('‸').unwrap();
        let before = &text[..at];
        let line = before.matches('\n').count();
        let character: usize = before.rsplit('\n').next().unwrap().chars().map(char::len_utf16).sum();
        self.change(uri, 99, &text.replace('‸', ""));
        let position = json!({ "line": line, "character": character });
        let answer = self.ask(method, json!({ "textDocument": { "uri": uri }, "position": position }));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn offered(&mut self, uri: &str, text: &str) -> Vec<String> {
        let items = self.at("textDocument/completion", uri, text);
        items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_owned()).collect()
    }

    fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

const FLOW: &str = "name: größe
inputs:
  url: string
components:
  stats: ./stats.wasm
steps:
  - id: load
    call: http
    with: { url: \"${ .inputs.url }\" }
    allow: { http: [ \"GET https://example.com\" ] }
  - id: twice
    needs: load
    set: \"😀 ${ .steps.load.output.body }\"
";

#[test]
fn problems_are_shown_while_a_file_is_written() {
    let mut editor = Editor::initialized();
    let uri = "file:///tmp/does-not-exist/flow.yaml";
    editor.open(uri, "steps:\n  - { id: a, set: 1, naem: \"😀\", wehn: done }\n");
    let problems = editor.diagnostics(1);
    let told: Vec<Value> = problems.iter().map(|one| json!([one["code"], one["range"]])).collect();
    let range = |from: u32, to: u32| json!({ "start": { "line": 1, "character": from }, "end": { "line": 1, "character": to } });
    // The emoji counts as two.
    assert_eq!(told, [json!(["unknown-key", range(21, 25)]), json!(["unknown-key", range(33, 37)])]);
    assert!(problems[0]["message"].as_str().unwrap().contains("hint: did you mean `name`?"), "{problems:#?}");
    let params =
        json!({ "textDocument": { "uri": uri }, "range": range(0, 1), "context": { "diagnostics": problems } });
    let fixes = editor.ask("textDocument/codeAction", params)["result"].clone();
    assert_eq!(fixes[0]["edit"]["changes"][uri], json!([{ "range": range(21, 25), "newText": "name" }]));
    // Only the last of quick changes is checked, and a mended file has no problems.
    for version in 2..20 {
        editor.change(uri, version, &format!("steps:\n  - {{ id: a{version}, ste: 1 }}\n"));
    }
    editor.change(uri, 20, "steps:\n  - { id: a, set: 1 }\n");
    assert_eq!(editor.diagnostics(20), Vec::<Value>::new());
    // A component that is not there.
    editor.change(uri, 21, "steps:\n  - { id: a, uses: ./none.wasm }\n");
    assert!(editor.diagnostics(21)[0]["message"].as_str().unwrap().contains("none.wasm"));
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    let cleared = editor.wait(|message| message["method"] == "textDocument/publishDiagnostics");
    assert_eq!(cleared["params"]["diagnostics"], json!([]));
}

#[test]
fn what_can_be_written_is_offered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stats.wasm"), "").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    let mut editor = Editor::initialized();
    let uri = format!("file://{}/flow.yaml", folder.path().display());
    editor.open(&uri, FLOW);
    let mut offers = |text: &str, some: &[&str], none: &[&str]| {
        let offered = editor.offered(&uri, text);
        for one in some {
            assert!(offered.iter().any(|label| label == one), "{one} is not in {offered:?}\n{text}");
        }
        for one in none {
            assert!(!offered.iter().any(|label| label == one), "{one} is in {offered:?}\n{text}");
        }
    };
    offers(&format!("{FLOW}    ‸"), &["when", "retry"], &["id", "set", "uses", "inputs"]);
    offers(&format!("{FLOW}o‸"), &["outputs", "schedule"], &["steps", "name"]);
    offers(&format!("{FLOW}  - {{ id: c, needs: ‸ }}"), &["load", "twice"], &["when"]);
    offers(&format!("{FLOW}  - {{ id: c, when: ‸"), &["failed", "done"], &["load"]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .steps.‸"), &["load", "twice"], &["url"]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .steps.load.‸ }}"), &["output", "error"], &[]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .steps.load.output.‸ }}"), &["body", "status"], &[]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .inputs.‸"), &["url"], &["load"]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .‸"), &["inputs", "steps", "item"], &[]);
    offers(&format!("{FLOW}  - id: c\n    set: ${{ .inputs | to_‸"), &["to_entries", "map"], &["url"]);
    offers(&format!("{FLOW}  - id: c\n    call: ‸"), &["http", "kv", "log"], &[]);
    offers(&format!("{FLOW}  - id: c\n    call: http\n    with:\n      me‸"), &["method", "url", "headers"], &["id"]);
    offers(&format!("{FLOW}  - id: c\n    uses: ‸"), &["stats", "./stats.wasm"], &["./notes.txt"]);
    offers(&format!("{FLOW}  - id: c\n    uses: stats\n    limits:\n      ‸"), &["memory", "fuel"], &["id"]);
    offers("inputs:\n  n: { type: ‸ }\n", &["integer", "string"], &[]);
}

#[test]
fn names_are_explained_and_found() {
    let mut editor = Editor::initialized();
    let uri = "file:///tmp/flow.yaml";
    editor.open(uri, FLOW);
    let mut hover = |text: &str| {
        editor.at("textDocument/hover", uri, text)["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    assert!(hover(&FLOW.replace("needs", "ne‸eds")).contains("Steps to wait for"));
    assert!(hover(&FLOW.replace("needs: load", "needs: lo‸ad")).contains("Step `load`: `call: http`"));
    assert!(hover(&FLOW.replace(".inputs.url", ".inputs.u‸rl")).contains("Input `url`"));
    assert!(hover(&FLOW.replace("call: http", "call: ht‸tp")).contains("max-response-bytes"));
    assert!(hover(&FLOW.replace(".steps.load", ".st‸eps.load")).contains("The steps, by id"));
    assert_eq!(
        hover(&FLOW.replace("größe", "grö‸ße")),
        "`name`\n\nThe name of the workflow; by default the file's name."
    );
    let mut line = |text: &str| editor.at("textDocument/definition", uri, text)["range"]["start"].clone();
    assert_eq!(line(&FLOW.replace(".steps.load.output", ".steps.lo‸ad.output")), json!({ "line": 6, "character": 8 }));
    assert_eq!(line(&FLOW.replace(".inputs.url", ".inputs.u‸rl")), json!({ "line": 2, "character": 2 }));
    let uses = format!("{FLOW}  - {{ id: c, uses: sta‸ts }}\n");
    assert_eq!(line(&uses), json!({ "line": 4, "character": 2 }));
    assert_eq!(line(&FLOW.replace("größe", "grö‸ße")), Value::Null);
    editor.change(uri, 3, FLOW);
    let symbols =
        editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }))["result"].clone();
    let names: Vec<&str> = symbols.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["url", "stats", "load", "twice"]);
    editor.change(uri, 4, "steps:\n- set: 1\n  id: a\n");
    let edits = editor.ask("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": {} }));
    assert_eq!(edits["result"][0]["newText"], "steps:\n  - id: a\n    set: 1\n");
}

#[test]
fn a_conversation_begins_and_ends_in_order() {
    let mut editor = Editor::start();
    let early = editor.ask("textDocument/hover", json!({}));
    assert_eq!(early["error"]["code"], -32_002);
    editor.ask("initialize", json!({}));
    assert_eq!(editor.ask("textDocument/hover", json!({}))["error"]["code"], -32_602);
    assert_eq!(editor.ask("workspace/nothing", json!({}))["error"]["code"], -32_601);
    assert_eq!(editor.ask("shutdown", Value::Null)["result"], Value::Null);
    assert_eq!(editor.ask("textDocument/hover", json!({}))["error"]["code"], -32_600);
    editor.tell("exit", Value::Null);
    assert_eq!(editor.end().code(), Some(0));
}

#[test]
fn an_editor_that_dies_ends_the_server() {
    let editor = Editor::initialized();
    assert_eq!(editor.end().code(), Some(1));
    let mut editor = Editor::initialized();
    editor.raw(b"Content-Length: 100\r\n\r\n{");
    assert_eq!(editor.end().code(), Some(1));
    let mut editor = Editor::initialized();
    editor.tell("exit", Value::Null);
    assert_eq!(editor.end().code(), Some(1));
}

#[test]
fn malformed_and_huge_messages_do_no_harm() {
    let mut editor = Editor::initialized();
    editor.raw(b"Content-Length: 3\r\n\r\n{x}");
    assert_eq!(editor.wait(|message| message["id"].is_null())["error"]["code"], -32_700);
    editor.send(&json!([1]));
    assert_eq!(editor.wait(|message| message["id"].is_null())["error"]["code"], -32_600);
    editor.send(&json!({ "jsonrpc": "2.0", "id": 7 }));
    assert_eq!(editor.wait(|message| message["id"] == 7)["error"]["code"], -32_600);
    // A message of 17 MiB is skipped; a document of 2 MiB is refused as a file of that size is.
    editor.raw(format!("Content-Length: {}\r\n\r\n", 17 << 20).as_bytes());
    editor.raw(&vec![b' '; 17 << 20]);
    assert_eq!(editor.wait(|message| message["id"].is_null())["error"]["code"], -32_600);
    let uri = "file:///tmp/huge.yaml";
    editor.open(uri, &format!("steps:\n{}", "  - { id: a, set: 1 }\n".repeat(100_000)));
    assert_eq!(editor.diagnostics(1)[0]["code"], "too-large");
    let position = json!({ "line": 50_000, "character": 8 });
    let answer = editor.ask("textDocument/completion", json!({ "textDocument": { "uri": uri }, "position": position }));
    assert!(answer["result"].is_array(), "{answer}");
    let answer = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(answer["result"], json!([]));
    editor.raw(b"Nonsense\r\n\r\n");
    assert_eq!(editor.end().code(), Some(1));
}

const TESTED: &str = "inputs: { order: integer }
steps:
  - { id: review, wait: { signal: approve } }
  - id: all
    for-each: [ 1 ]
    steps:
      - { id: pay, call: http, with: { url: https://a.example.com }, allow: { http: GET https://a.example.com } }
outputs: { refund: 1 }
";

/// The beginning of a case file.
const CASES: &str = "cases:\n  - name: one\n    inputs: { order: 1 }\n";

/// A workflow, an editor, and the URI of its tests.
fn tested() -> (tempfile::TempDir, Editor, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flow.yaml"), TESTED).unwrap();
    let uri = format!("file://{}/flow.test.yaml", folder.path().display());
    (folder, Editor::initialized(), uri)
}

/// A case file is no workflow, and has problems of its own.
#[test]
fn case_files_are_checked_with_their_workflow() {
    let (folder, mut editor, uri) = tested();
    let head = CASES;
    editor.open(&uri, head);
    assert_eq!(editor.diagnostics(1), Vec::<Value>::new());
    editor.change(
        &uri,
        2,
        &format!("{head}    expect: {{ steps: {{ reviw: succeeded }}, that: \"${{ .outputs.refnd }}\" }}\n"),
    );
    let problems = editor.diagnostics(2);
    let codes: Vec<&Value> = problems.iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["unknown-step", "unknown-reference"], "{problems:#?}");
    assert_eq!(problems[0]["range"]["start"], json!({ "line": 3, "character": 23 }));
    assert!(problems[1]["message"].as_str().unwrap().contains("did you mean `.outputs.refund`?"), "{problems:#?}");

    // Without its workflow.
    let alone = format!("file://{}/alone.test.yaml", folder.path().display());
    editor.open(&alone, head);
    let told = editor.wait(|message| message["params"]["uri"] == alone.as_str());
    let message = told["params"]["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("there is no workflow"), "{message}");
}

/// Keys, and the names of the workflow beside it.
#[test]
fn case_files_are_completed_by_their_workflow() {
    let (folder, mut editor, uri) = tested();
    let head = CASES;
    editor.open(&uri, head);
    let mut offers = |text: &str, some: &[&str], none: &[&str]| {
        let offered = editor.offered(&uri, text);
        for one in some {
            assert!(offered.iter().any(|label| label == one), "{one} is not in {offered:?}\n{text}");
        }
        for one in none {
            assert!(!offered.iter().any(|label| label == one), "{one} is in {offered:?}\n{text}");
        }
    };
    offers("‸", &["cases", "answers", "workflow"], &["steps", "inputs"]);
    offers(&format!("{head}    ‸"), &["expect", "signals", "faults"], &["name", "inputs", "steps"]);
    offers("cases:\n  - name: one\n    inputs: { ‸ }\n", &["order"], &["refund"]);
    offers(&format!("{head}    expect:\n      ‸"), &["outputs", "no-other-calls"], &["inputs"]);
    offers(&format!("{head}    expect: {{ status: ‸"), &["succeeded", "timed-out"], &["skipped"]);
    offers(&format!("{head}    expect: {{ steps: {{ ‸"), &["review", "all[0].pay"], &["order"]);
    offers(&format!("{head}    expect: {{ steps: {{ review: ‸"), &["skipped", "succeeded"], &["timed-out"]);
    offers(&format!("{head}    expect: {{ order: [ ‸"), &["review"], &["order"]);
    offers(&format!("{head}    expect: {{ outputs: {{ ‸"), &["refund"], &["order"]);
    offers(&format!("{head}    expect: {{ that: \"${{ .‸"), &["outputs", "takes"], &["args", "item"]);
    offers(&format!("{head}    expect: {{ that: \"${{ .steps.review.‸"), &["status"], &["output"]);
    offers(&format!("{head}    signals: [ {{ name: ‸"), &["approve"], &["review"]);
    offers(&format!("{head}    answers: [ {{ call: ‸"), &["http", "kv"], &["review"]);
    offers(&format!("{head}    answers:\n      - call: http\n        answer: {{ ‸"), &["status", "body"], &["call"]);
    offers(&format!("{head}    answers:\n      - call: http\n        with: {{ ‸"), &["url", "method"], &["status"]);
    offers(&format!("{head}    answers:\n      - call: http\n        where: ${{ .‸"), &["args", "count"], &["outputs"]);
    // What is not saved yet counts.
    let flow = format!("file://{}/flow.yaml", folder.path().display());
    editor.open(&flow, &TESTED.replace("id: review", "id: ask"));
    let offered = editor.offered(&uri, &format!("{head}    expect: {{ order: [ ‸"));
    assert!(offered.contains(&"ask".to_owned()) && !offered.contains(&"review".to_owned()), "{offered:?}");
}

#[test]
fn case_files_are_explained_by_their_workflow() {
    let (folder, mut editor, uri) = tested();
    let head = CASES;
    let flow = format!("file://{}/flow.yaml", folder.path().display());
    editor.open(&uri, head);
    let mut says = |text: &str| {
        let hover = editor.at("textDocument/hover", &uri, text);
        hover["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    assert!(says("ca‸ses: []").starts_with("`cases`"));
    assert!(says(&format!("{head}    ex‸pect: {{}}")).contains("without it, the run must succeed"));
    assert!(
        says(&format!("{head}    expect: {{ steps: {{ rev‸iew: succeeded }} }}")).contains("Step `review`: `wait`")
    );
    assert!(says(&format!("{head}    expect: {{ order: [ rev‸iew ] }}")).contains("Step `review`"));
    assert!(says("cases:\n  - name: one\n    inputs: { or‸der: 1 }\n").contains("Input `order`"));
    assert!(says(&format!("{head}    expect: {{ that: \"${{ .tak‸es }}\" }}")).contains("milliseconds"));
    let place = editor.at("textDocument/definition", &uri, &format!("{head}    expect: {{ order: [ rev‸iew ] }}"));
    assert_eq!((&place["uri"], &place["range"]["start"]["line"]), (&json!(flow), &json!(2)), "{place}");
    let symbols = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(symbols["result"][0]["name"], "one");
}
