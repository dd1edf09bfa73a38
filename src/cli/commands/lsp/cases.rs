//! Case files: what can be written in one, by the names of the workflow that it tests.

use super::completion::{arguments_of, item, key, keys, kind, summary};
use super::cursor::{self, Cursor, Step};
use super::document::{self, Document};
use super::names;
use crate::host::{Host, read_definition};
use crate::testing::suite::workflow_of;
use crate::workflow::model::keys::Shape;
use crate::workflow::plan::{ERROR_FIELDS, FUNCTIONS};
use crate::workflow::syntax::{Node, Source};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The workflow of a case file.
pub(super) struct Tested {
    pub(super) uri: String,
    pub(super) source: Source,
    pub(super) root: Node,
}

impl Tested {
    /// Reads the workflow of a case file: as an editor has it open, or from its file.
    pub(super) fn of(document: &Document, open: &BTreeMap<String, Document>) -> Option<Self> {
        let named = document.tree.as_ref().and_then(|(_, root)| root.get("workflow")?.as_text());
        let path = workflow_of(Path::new(document.source.name()), named);
        let is_it = |other: &&(&String, &Document)| Path::new(other.1.source.name()) == path;
        if let Some((uri, other)) = open.iter().find(|other| is_it(&other)) {
            let (source, root) = other.tree.clone()?;
            return Some(Self { uri: uri.clone(), source, root });
        }
        let text = read_definition(&path).ok()?;
        let (source, root) = document::parse(&Source::new(&path.to_string_lossy(), &text))?;
        let uri = url::Url::from_file_path(&path).map_or_else(|()| String::new(), String::from);
        Some(Self { uri, source, root })
    }

    /// The paths of the steps, each with its step. Those of other files are not known.
    fn paths(&self) -> Vec<(String, &Node)> {
        let mut found = Vec::new();
        add(&self.root, "", &mut found);
        for occasion in names::entries(&self.root, "on") {
            add(&occasion.value, &format!("on.{}.", occasion.key), &mut found);
        }
        found
    }

    /// The names of signals that steps wait for.
    fn signals(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for step in names::steps(&self.root) {
            let Some(wait) = step.node.get("wait") else { continue };
            let several = wait.get("any").and_then(Node::as_mapping).unwrap_or_default();
            let waits = several.iter().map(|entry| &entry.value).chain([wait]);
            found.extend(waits.filter_map(|wait| wait.get("signal")?.as_text()));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn add<'a>(within: &'a Node, prefix: &str, found: &mut Vec<(String, &'a Node)>) {
    for step in within.get("steps").and_then(Node::as_sequence).unwrap_or_default() {
        let Some(id) = step.get("id").and_then(Node::as_text) else { continue };
        let path = format!("{prefix}{id}");
        let item = if step.get("for-each").is_some() { "[0]" } else { "" };
        found.push((path.clone(), step));
        let inner = format!("{path}{item}.");
        add(step, &inner, found);
        for case in step.get("switch").and_then(Node::as_sequence).unwrap_or_default() {
            add(case, &inner, found);
        }
    }
}

/// The completions at a byte of a case file.
pub(super) fn complete(
    document: &Document,
    cursor: &Cursor,
    byte: usize,
    host: &Host,
    tested: Option<&Tested>,
) -> Vec<Value> {
    if let Some(expression) = &cursor.expression {
        return in_expression(expression, &cursor.path, tested);
    }
    let shapes = cursor::shapes(document.shape(), &cursor.path);
    let mut found = if cursor.is_key { keys(document, cursor, host) } else { Vec::new() };
    for shape in shapes {
        let taken = |name: &str| cursor.siblings.iter().any(|one| one == name);
        match (shape, cursor.is_key, tested) {
            (Shape::StepPaths(_), true, Some(tested)) => {
                let free = tested.paths().into_iter().filter(|(path, _)| !taken(path));
                found.extend(free.map(|(path, step)| key(&path, &summary(step))));
            }
            (Shape::StepPath, false, Some(tested)) => {
                let all = tested.paths();
                found.extend(all.iter().map(|(path, step)| item(path, kind::REFERENCE, &summary(step))));
            }
            (Shape::Inputs | Shape::Outputs, true, Some(tested)) => {
                let of = if matches!(shape, Shape::Inputs) { "inputs" } else { "outputs" };
                let names = names::entries(&tested.root, of).iter().map(|entry| entry.key.as_str());
                found.extend(names.filter(|name| !taken(name)).map(|name| key(name, "")));
            }
            (Shape::Signal, false, Some(tested)) => {
                found.extend(tested.signals().into_iter().map(|name| item(name, kind::VALUE, "A signal.")));
            }
            (Shape::Arguments, true, _) => {
                let handler = handler_above(document, byte);
                found.extend(handler.into_iter().flat_map(|name| arguments_of(name, &Value::Null, cursor, host)));
            }
            (Shape::Handler, false, _) => {
                let handlers = host.handlers();
                found.extend(handlers.iter().map(|name| item(name, kind::FUNCTION, &host.handler_doc(name))));
            }
            (shape, false, _) => {
                found.extend(shape.choices().into_iter().map(|word| item(word, kind::VALUE, "")));
            }
            _ => {}
        }
    }
    found
}

/// The handler of the entry of `answers` or `calls` around a byte: the nearest one above. The text
/// need not be YAML just now.
fn handler_above(document: &Document, byte: usize) -> Option<&str> {
    let (_, behind) = document.text().get(..byte)?.rsplit_once("call:")?;
    let name = behind.trim_start_matches([' ', '"', '\'']);
    let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))).unwrap_or(name.len());
    Some(&name[..end])
}

/// What an expression can read, by where it is.
fn in_expression(before: &str, at: &[Step], tested: Option<&Tested>) -> Vec<Value> {
    let Some(path) = names::path_before(before) else {
        return FUNCTIONS.iter().map(|name| item(name, kind::FUNCTION, "A function of jq.")).collect();
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_in = |key: &str| at.contains(&Step::Key(key.to_owned()));
    let roots: &[&str] = match (is_in("expect"), is_in("calls")) {
        (true, false) => &FACTS,
        (true, true) => &["args", "step", "inputs"],
        (false, _) => &["args", "step", "count", "inputs"],
    };
    let fields = |names: &[&str]| names.iter().map(|name| item(name, kind::FIELD, "")).collect();
    let entries = |key: &str| {
        let all = tested.map(|tested| names::entries(&tested.root, key)).unwrap_or_default().iter();
        let words = all.filter(|entry| !entry.key.contains('-'));
        words.map(|entry| item(&entry.key, kind::VARIABLE, "")).collect()
    };
    match path[..] {
        [_] => {
            let known = ROOTS.iter().filter(|(name, _)| roots.contains(name));
            known.map(|(name, text)| item(name, kind::VARIABLE, text)).collect()
        }
        [root, ..] if !roots.contains(&root) => Vec::new(),
        ["inputs", _] => entries("inputs"),
        ["outputs", _] => entries("outputs"),
        ["steps", _] => {
            let paths = tested.map(Tested::paths).unwrap_or_default();
            let words = paths.iter().filter(|(path, _)| !path.contains(['-', '.', '[']));
            words.map(|(path, step)| item(path, kind::REFERENCE, &summary(step))).collect()
        }
        ["steps", _, _] => fields(&["status", "attempts", "error"]),
        ["steps", _, "error", _] => fields(&ERROR_FIELDS),
        ["problem", _] => fields(&["kind", "title", "detail", "status", "class", "data"]),
        [list, _] if list.starts_with("calls[") => fields(&["call", "step", "args", "sends"]),
        _ => Vec::new(),
    }
}

/// What expressions of `expect` see.
const FACTS: [&str; 8] = ["inputs", "outputs", "status", "problem", "steps", "calls", "logs", "takes"];

/// What `.` has in an expression of a case.
pub(super) const ROOTS: &[(&str, &str)] = &[
    ("inputs", "The inputs of the run."),
    ("outputs", "The outputs of the run."),
    ("status", "How the run ended: `succeeded`, `failed`, `cancelled`, `timed-out`."),
    ("problem", "The problem that the run ended with."),
    ("steps", "The steps, by path: `status`, `attempts`, `error`."),
    ("calls", "The calls, in their order: `call`, `step`, `args`, `sends`."),
    ("logs", "The lines of the log."),
    ("takes", "The virtual time that the run took, in milliseconds."),
    ("args", "The arguments of the call."),
    ("step", "The path of the step that calls."),
    ("count", "The number of the call among those of this entry, from 1."),
];
