//! Answers the messages of an editor.

use super::cases::Tested;
use super::check::{Checked, Job};
use super::document::{self, Document};
use super::wire::{code, error, notification, response};
use super::{about, completion};
use crate::cli::exit::Exit;
use crate::host::Host;
use crate::workflow::format::format;
use crate::workflow::syntax::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Most documents that are open at one time. Arbitrary.
const DOCUMENTS_MAX: usize = 1_000;

/// What happens to the server.
pub(super) enum Event {
    Message(Value),
    /// A message that cannot be read: its error code, and why.
    Unusable(i64, String),
    Checked(Checked),
    Closed,
}

/// How far the conversation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Initialized,
    ShutDown,
}

pub(super) struct Server {
    host: Arc<Host>,
    jobs: Sender<Job>,
    phase: Phase,
    documents: BTreeMap<String, Document>,
}

type Refusal = (i64, String);

impl Server {
    pub(super) fn new(host: Arc<Host>, jobs: Sender<Job>) -> Self {
        Self { host, jobs, phase: Phase::New, documents: BTreeMap::new() }
    }

    /// Returns what to send, and how the server ends, if it does.
    pub(super) fn handle(&mut self, event: Event) -> (Vec<Value>, Option<Exit>) {
        match event {
            Event::Closed => (Vec::new(), Some(Exit::Failed)),
            Event::Unusable(code, why) => (vec![error(&Value::Null, code, &why)], None),
            Event::Checked(checked) => (self.publish(checked), None),
            Event::Message(message) => {
                let Some(method) = message["method"].as_str() else {
                    // An answer to a request: there is none that waits for it.
                    let is_answer = message.get("result").is_some() || message.get("error").is_some();
                    let refusal = error(&message["id"], code::INVALID_REQUEST, "the message has no method");
                    return (if is_answer { Vec::new() } else { vec![refusal] }, None);
                };
                match message.get("id") {
                    Some(id) => {
                        let answer = match self.request(method, &message["params"]) {
                            Ok(result) => response(id, result),
                            Err((code, why)) => error(id, code, &why),
                        };
                        (vec![answer], None)
                    }
                    None if method == "exit" => {
                        let is_orderly = self.phase == Phase::ShutDown;
                        (Vec::new(), Some(if is_orderly { Exit::Success } else { Exit::Failed }))
                    }
                    None => (self.notified(method, &message["params"]), None),
                }
            }
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Refusal> {
        match (self.phase, method) {
            (Phase::New, "initialize") => {
                self.phase = Phase::Initialized;
                return Ok(capabilities());
            }
            (Phase::New, _) => return Err((code::NOT_INITIALIZED, "`initialize` comes first".to_owned())),
            (Phase::ShutDown, _) => return Err((code::INVALID_REQUEST, "the server was shut down".to_owned())),
            (Phase::Initialized, "shutdown") => {
                self.phase = Phase::ShutDown;
                self.documents.clear();
                return Ok(Value::Null);
            }
            (Phase::Initialized, _) => {}
        }
        let known = ["completion", "hover", "definition", "documentSymbol", "formatting", "codeAction"];
        let Some(what) = method.strip_prefix("textDocument/").filter(|what| known.contains(what)) else {
            return Err((code::METHOD_NOT_FOUND, format!("there is no method `{method}`")));
        };
        let invalid = |what: &str| (code::INVALID_PARAMS, format!("there is no {what}"));
        let uri = params["textDocument"]["uri"].as_str().ok_or_else(|| invalid("textDocument.uri"))?;
        let Some(document) = self.documents.get(uri) else { return Err(invalid("open document of that URI")) };
        match what {
            "documentSymbol" => return Ok(json!(about::symbols(document))),
            "formatting" => return Ok(formatting(document)),
            "codeAction" => return Ok(code_actions(uri, params)),
            _ => {}
        }
        let byte = document.byte(&params["position"]).ok_or_else(|| invalid("position"))?;
        let tested = document.is_cases().then(|| Tested::of(document, &self.documents)).flatten();
        let tested = tested.as_ref();
        Ok(match what {
            "hover" => about::hover(document, byte, &self.host, tested).unwrap_or_default(),
            "definition" => about::definition(document, byte, uri, tested).unwrap_or_default(),
            _ => json!(completion::complete(document, byte, &self.host, &folder(uri), tested)),
        })
    }

    fn notified(&mut self, method: &str, params: &Value) -> Vec<Value> {
        if self.phase != Phase::Initialized {
            return Vec::new();
        }
        let about = &params["textDocument"];
        let Some(uri) = about["uri"].as_str() else { return Vec::new() };
        let version = about["version"].as_i64().unwrap_or(0);
        match method {
            "textDocument/didOpen" => self.set(uri, version, about["text"].as_str()),
            // Each change has the whole text.
            "textDocument/didChange" if self.documents.contains_key(uri) => {
                let last = params["contentChanges"].as_array().and_then(|all| all.last());
                self.set(uri, version, last.and_then(|change| change["text"].as_str()))
            }
            // A component may be another file now.
            "textDocument/didSave" => {
                self.documents.iter().for_each(|(uri, document)| self.check(uri, document));
                Vec::new()
            }
            "textDocument/didClose" => {
                self.documents.remove(uri);
                vec![notification("textDocument/publishDiagnostics", json!({ "uri": uri, "diagnostics": [] }))]
            }
            _ => Vec::new(),
        }
    }

    fn set(&mut self, uri: &str, version: i64, text: Option<&str>) -> Vec<Value> {
        let Some(text) = text else { return Vec::new() };
        let before = self.documents.remove(uri);
        if before.is_none() && self.documents.len() >= DOCUMENTS_MAX {
            let message = format!("{DOCUMENTS_MAX} documents are open, so {uri} is not checked");
            return vec![notification("window/showMessage", json!({ "type": 2, "message": message }))];
        }
        let document = Document::new(uri, version, text, before);
        self.check(uri, &document);
        self.documents.insert(uri.to_owned(), document);
        Vec::new()
    }

    fn check(&self, uri: &str, document: &Document) {
        let job = Job { uri: uri.to_owned(), version: document.version, source: document.source.clone() };
        // The thread ends with the server only.
        let _ = self.jobs.send(job);
    }

    /// What was found, unless the document has changed since.
    fn publish(&self, Checked { uri, version, diagnostics }: Checked) -> Vec<Value> {
        if self.documents.get(&uri).is_none_or(|document| document.version != version) {
            return Vec::new();
        }
        let params = json!({ "uri": uri, "version": version, "diagnostics": diagnostics });
        vec![notification("textDocument/publishDiagnostics", params)]
    }
}

fn capabilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": { "openClose": true, "change": 1, "save": true },
            "completionProvider": { "triggerCharacters": [".", ":", " ", "/", "{", "[", "-"] },
            "hoverProvider": true,
            "definitionProvider": true,
            "documentSymbolProvider": true,
            "documentFormattingProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        },
        "serverInfo": { "name": "wfhost", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn folder(uri: &str) -> PathBuf {
    document::path(uri).as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// The edits that format a document: none if it is formatted, or cannot be.
fn formatting(document: &Document) -> Value {
    let text = document.text();
    match format(document.source.name(), text) {
        Ok(formatted) if formatted != text => {
            json!([{ "range": document.range(Span::new(0..text.len())), "newText": formatted }])
        }
        _ => json!([]),
    }
}

/// The fixes of the diagnostics that the editor names.
fn code_actions(uri: &str, params: &Value) -> Value {
    let diagnostics = params["context"]["diagnostics"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fix = |diagnostic: &Value| {
        let word = diagnostic["data"]["replacement"].as_str()?;
        let edit = json!({ "range": diagnostic["range"], "newText": word });
        Some(json!({
            "title": format!("Write `{word}`"), "kind": "quickfix", "isPreferred": true, "diagnostics": [diagnostic],
            "edit": { "changes": { uri: [edit] } },
        }))
    };
    diagnostics.iter().filter_map(fix).collect()
}
