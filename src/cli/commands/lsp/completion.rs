//! What can be written at a position.

use super::cases::{self, Tested};
use super::cursor::{self, Cursor, Step};
use super::document::Document;
use super::names;
use crate::host::Host;
use crate::workflow::model::keys::Shape;
use crate::workflow::plan::{ERROR_FIELDS, FUNCTIONS, RESPONSE_FIELDS};
use crate::workflow::syntax::Node;
use serde_json::{Value, json};
use std::path::Path;

/// Files of a folder that are offered. Arbitrary: more than anybody reads.
const FILES_MAX: usize = 200;

/// Kinds of the protocol.
pub(super) mod kind {
    pub(in super::super) const FUNCTION: u32 = 3;
    pub(in super::super) const FIELD: u32 = 5;
    pub(in super::super) const VARIABLE: u32 = 6;
    pub(in super::super) const PROPERTY: u32 = 10;
    pub(in super::super) const VALUE: u32 = 12;
    pub(in super::super) const FILE: u32 = 17;
    pub(in super::super) const REFERENCE: u32 = 18;
}

pub(super) fn item(label: &str, kind: u32, text: &str) -> Value {
    json!({ "label": label, "kind": kind, "documentation": { "kind": "markdown", "value": text } })
}

/// The completions at a byte of a document.
pub(super) fn complete(
    document: &Document,
    byte: usize,
    host: &Host,
    folder: &Path,
    tested: Option<&Tested>,
) -> Vec<Value> {
    let cursor = cursor::find(document.text(), byte);
    if document.is_cases() {
        return cases::complete(document, &cursor, byte, host, tested);
    }
    let tree = document.tree_without(document.line_of(byte));
    let root = tree.as_ref().map(|(_, root)| root);
    if let Some(expression) = &cursor.expression {
        return in_expression(expression, root);
    }
    if let Some(keys) = arguments(&cursor, document, root, byte, host) {
        return keys;
    }
    if cursor.is_key {
        return keys(document, &cursor, host);
    }
    let shapes = cursor::shapes(document.shape(), &cursor.path);
    shapes.into_iter().flat_map(|shape| values(shape, &cursor, document, byte, root, host, folder)).collect()
}

/// The keys of the mapping that it is in.
pub(super) fn keys(document: &Document, cursor: &Cursor, host: &Host) -> Vec<Value> {
    let mut found = Vec::new();
    for keys in cursor::mappings(document.shape(), &cursor.path) {
        let taken = |key: &str| cursor.siblings.iter().any(|one| one == key);
        let has_action = keys.exactly_one.iter().any(|key| taken(key));
        for word in keys.words {
            let is_other_action = has_action && keys.exactly_one.contains(&word.key);
            if taken(word.key) || is_other_action {
                continue;
            }
            found.push(key(word.key, word.text));
        }
    }
    if cursor.path.last() == Some(&Step::Key("allow".to_owned())) {
        found.extend(host.handlers().iter().map(|name| item(name, kind::PROPERTY, "A capability.")));
    }
    found
}

/// The arguments of a handler, under `with` of a `call`. `None` if it is not there.
fn arguments(
    cursor: &Cursor,
    document: &Document,
    root: Option<&Node>,
    byte: usize,
    host: &Host,
) -> Option<Vec<Value>> {
    let is_with = matches!(cursor.path.last(), Some(Step::Key(key)) if key == "with");
    if !is_with || !cursor.is_key {
        return None;
    }
    let step = step_at(document, root, byte)?;
    let handler = step.get("call")?.as_text()?;
    let args = step.get("with").and_then(|with| with.to_json().ok()).unwrap_or_default();
    Some(arguments_of(handler, &args, cursor, host))
}

/// The arguments of a handler that are not there yet.
pub(super) fn arguments_of(handler: &str, args: &Value, cursor: &Cursor, host: &Host) -> Vec<Value> {
    let schema = host.handler_requirements(handler, args).and_then(|needs| needs.schema).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let free = properties.filter(|(name, _)| !cursor.siblings.contains(name));
    free.map(|(name, schema)| key(name, schema["description"].as_str().unwrap_or_default())).collect()
}

/// A key, with its colon.
pub(super) fn key(name: &str, text: &str) -> Value {
    let mut one = item(name, kind::PROPERTY, text);
    one["insertText"] = json!(format!("{name}: "));
    one
}

/// The innermost step around a byte, by lines: the last one that begins before it.
fn step_at<'a>(document: &Document, root: Option<&'a Node>, byte: usize) -> Option<&'a Node> {
    let line = document.line_of(byte);
    let before = document.line_start(line) + document.text()[document.line_start(line)..].find('\n').unwrap_or(0);
    let steps = names::steps(root?);
    steps.iter().rev().find(|step| (step.node.span.start as usize) <= before.max(byte)).map(|step| step.node)
}

fn values(
    shape: &'static Shape,
    cursor: &Cursor,
    document: &Document,
    byte: usize,
    root: Option<&Node>,
    host: &Host,
    folder: &Path,
) -> Vec<Value> {
    match shape {
        Shape::StepIds => {
            let own = step_at(document, root, byte).and_then(|step| step.get("id")).and_then(Node::as_text);
            let steps = root.map(names::steps).unwrap_or_default();
            let others = steps.iter().filter(|step| Some(step.id) != own);
            others.map(|step| item(step.id, kind::REFERENCE, &summary(step.node))).collect()
        }
        Shape::Handler => {
            host.handlers().iter().map(|name| item(name, kind::FUNCTION, &host.handler_doc(name))).collect()
        }
        Shape::Component => {
            let line = document.line_start(document.line_of(byte));
            let typed = document.text()[line..byte].rsplit([' ', '"', '\'']).next().unwrap_or_default();
            let is_declaration = cursor.path.first() == Some(&Step::Key("components".to_owned()));
            let named = root.filter(|_| !is_declaration).map(|root| names::entries(root, "components"));
            let mut found: Vec<Value> =
                named.unwrap_or_default().iter().map(|entry| item(&entry.key, kind::VALUE, "A component.")).collect();
            found.extend(files(folder, typed, &["wasm", "js", "mjs", "ts", "mts", "py"]));
            found
        }
        shape => shape.choices().into_iter().map(|word| item(word, kind::VALUE, "")).collect(),
    }
}

/// Files with one of some suffixes, and folders, in the folder that was typed.
fn files(folder: &Path, typed: &str, suffixes: &[&str]) -> Vec<Value> {
    let (inside, _) = typed.rsplit_once('/').unwrap_or((".", ""));
    let Ok(entries) = std::fs::read_dir(folder.join(inside)) else { return Vec::new() };
    let mut found: Vec<String> = entries
        .take(FILES_MAX * 10)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_folder = entry.file_type().ok()?.is_dir() && !name.starts_with('.');
            let fits = Path::new(&name).extension().is_some_and(|suffix| suffixes.iter().any(|one| suffix == *one));
            (is_folder || fits).then(|| format!("{inside}/{name}{}", if is_folder { "/" } else { "" }))
        })
        .collect();
    found.sort();
    found.truncate(FILES_MAX);
    found.iter().map(|name| item(name, kind::FILE, "")).collect()
}

/// A step in a few words.
pub(super) fn summary(step: &Node) -> String {
    let action = match names::action(step) {
        Some((key, Some(what))) => format!("`{key}: {what}`"),
        Some((key, None)) => format!("`{key}`"),
        None => "a step".to_owned(),
    };
    let output = match names::action(step) {
        Some(("wait", _)) => "the body of its signal, if it waits for one",
        Some(("call", Some("http"))) => "the response: `status`, `url`, `headers`, `encoding`, `body`",
        Some(("steps" | "switch" | "workflow", _)) => "its outputs, by name",
        Some(("set", _)) => "the value",
        _ => "what it returns",
    };
    let list = if step.get("for-each").is_some() { "; a list, in the order of the items" } else { "" };
    format!("{action}\n\nIts output is {output}{list}.")
}

/// What an expression can read, or call.
fn in_expression(before: &str, root: Option<&Node>) -> Vec<Value> {
    let Some(path) = names::path_before(before) else {
        return FUNCTIONS.iter().map(|name| item(name, kind::FUNCTION, "A function of jq.")).collect();
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_word = |name: &str| !name.contains('-');
    let fields = |names: &[&str]| names.iter().map(|name| item(name, kind::FIELD, "")).collect();
    match path[..] {
        [_] => ROOTS.iter().map(|(name, text)| item(name, kind::VARIABLE, text)).collect(),
        ["inputs", _] => root
            .map(|root| names::entries(root, "inputs"))
            .unwrap_or_default()
            .iter()
            .filter(|entry| is_word(&entry.key))
            .map(|entry| item(&entry.key, kind::VARIABLE, "An input."))
            .collect(),
        ["steps", _] => root
            .map(names::steps)
            .unwrap_or_default()
            .iter()
            .filter(|step| is_word(step.id))
            .map(|step| item(step.id, kind::REFERENCE, &summary(step.node)))
            .collect(),
        ["steps", _, _] => fields(&["output", "status", "error", "attempts"]),
        ["run", _] => fields(&["id", "name", "started"]),
        ["error", _] | ["steps", _, "error", _] => fields(&ERROR_FIELDS),
        ["steps", id, "output", _] => {
            let steps = root.map(names::steps).unwrap_or_default();
            let is_response =
                steps.iter().any(|step| step.id == id && names::action(step.node) == Some(("call", Some("http"))));
            if is_response { fields(&RESPONSE_FIELDS) } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

/// What `.` has in an expression.
pub(super) const ROOTS: &[(&str, &str)] = &[
    ("inputs", "The inputs of the run."),
    ("steps", "The steps, by id: `output`, `status`, `error`, `attempts`."),
    ("item", "The item of `for-each`."),
    ("index", "The index of the item, from 0."),
    ("run", "`id`, `name`, and `started`, a time such as `2026-01-31T12:00:00.25Z`."),
    ("error", "The failure that a step with another `when` than `succeeded` reacts to."),
    ("last", "The result of the last turn of a `repeat`."),
    ("turn", "The number of this turn of a `repeat`, from 0."),
];
