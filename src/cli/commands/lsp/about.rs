//! What a word means, where its name is declared, and what a document consists of.

use super::cases::{ROOTS as CASE_ROOTS, Tested};
use super::completion::{ROOTS, summary};
use super::cursor::{self, Step};
use super::document::Document;
use super::names;
use crate::host::Host;
use crate::workflow::model::keys::Shape;
use crate::workflow::syntax::{Node, Source, Span};
use serde_json::{Value, json};

/// A name that a word refers to.
enum Named<'a> {
    Step(&'a Node, Span),
    Input(&'a Node, Span),
    Component(&'a Node, Span),
}

/// What a word refers to: in an expression, in `needs`, `uses`, or as an `id` itself.
fn named<'a>(document: &Document, byte: usize, root: &'a Node) -> Option<Named<'a>> {
    let text = document.text();
    let (start, end) = names::word_at(text, byte);
    let word = &text[start..end];
    let step = |id: &str| {
        let steps = names::steps(root);
        // A step that is nearer is deeper, or comes later.
        let found = steps.iter().filter(|step| step.id == id).min_by_key(|step| step.depth)?;
        Some(Named::Step(found.node, found.id_span))
    };
    let entry = |key: &str, name: &str| names::entries(root, key).iter().find(|entry| entry.key == name);
    let input = |name: &str| entry("inputs", name).map(|entry| Named::Input(&entry.value, entry.key_span));
    let cursor = cursor::find(text, end);
    if let Some(expression) = &cursor.expression {
        let path = names::path_before(expression)?;
        return match &path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["steps", id] => step(id),
            ["inputs", name] => input(name),
            _ => None,
        };
    }
    let shapes = cursor::shapes(document.shape(), &cursor.path);
    let is_step = |shape: &Shape| match shape {
        Shape::StepIds | Shape::Name | Shape::StepPath => !cursor.is_key,
        Shape::StepPaths(_) => cursor.is_key,
        _ => false,
    };
    if shapes.iter().any(|shape| is_step(shape)) {
        return step(word);
    }
    if shapes.iter().any(|shape| matches!(shape, Shape::Inputs)) && cursor.is_key {
        return input(word);
    }
    if shapes.iter().any(|shape| matches!(shape, Shape::Component)) {
        return entry("components", word).map(|entry| Named::Component(&entry.value, entry.key_span));
    }
    None
}

/// What a word means, in Markdown. In a case file, names are those of its workflow.
pub(super) fn hover(document: &Document, byte: usize, host: &Host, tested: Option<&Tested>) -> Option<Value> {
    let text = document.text();
    let (start, end) = names::word_at(text, byte);
    let span = Span::new(start..end);
    let about = |text: String| {
        Some(json!({ "contents": { "kind": "markdown", "value": text }, "range": document.range(span) }))
    };
    let cursor = cursor::find(text, end);
    let word = &text[start..end];
    if cursor.is_key && cursor.expression.is_none() {
        let mappings = cursor::mappings(document.shape(), &cursor.path);
        let found = mappings.into_iter().find_map(|keys| keys.word(word));
        if found.is_some() || !document.is_cases() {
            return found.and_then(|found| about(format!("`{}`\n\n{}", found.key, found.text)));
        }
    }
    let tree = names_of(document, byte, tested);
    match tree.as_ref().and_then(|(_, root)| named(document, byte, root)) {
        Some(Named::Step(node, _)) => return about(format!("Step `{word}`: {}", summary(node))),
        Some(Named::Input(node, _)) => {
            let schema = node.to_json().ok().and_then(|schema| serde_json::to_string_pretty(&schema).ok())?;
            return about(format!("Input `{word}`\n\n```json\n{schema}\n```"));
        }
        Some(Named::Component(node, _)) => {
            let source = node.as_text().or_else(|| node.get("source")?.as_text()).unwrap_or_default();
            return about(format!("Component `{word}`: `{source}`"));
        }
        None => {}
    }
    if let Some(expression) = &cursor.expression {
        let path = names::path_before(expression)?;
        let [first] = &path[..] else { return None };
        let roots = if document.is_cases() { CASE_ROOTS } else { ROOTS };
        return roots
            .iter()
            .find(|(name, _)| name == first)
            .and_then(|(name, text)| about(format!("`.{name}`\n\n{text}")));
    }
    let is_handler = cursor::shapes(document.shape(), &cursor.path).iter().any(|shape| matches!(shape, Shape::Handler));
    if is_handler && host.handlers().iter().any(|name| name == word) {
        let schema = host.handler_requirements(word, &Value::Null).and_then(|needs| needs.schema);
        let schema = schema.and_then(|schema| serde_json::to_string_pretty(&schema["properties"]).ok());
        let schema = schema.map_or(String::new(), |schema| format!("\n\n```json\n{schema}\n```"));
        return about(format!("Handler `{word}`: {}{schema}", host.handler_doc(word)));
    }
    let Some(Step::Key(key)) = cursor.path.last() else { return None };
    let within = cursor::mappings(document.shape(), &cursor.path[..cursor.path.len() - 1]);
    let found = within.into_iter().find_map(|keys| keys.word(key))?;
    about(format!("`{}`\n\n{}", found.key, found.text))
}

/// The tree whose names a document uses: its own, or of a case file that of its workflow.
fn names_of(document: &Document, byte: usize, tested: Option<&Tested>) -> Option<(Source, Node)> {
    if document.is_cases() {
        return tested.map(|tested| (tested.source.clone(), tested.root.clone()));
    }
    document.tree_without(document.line_of(byte))
}

/// Where the name under a position is declared.
pub(super) fn definition(document: &Document, byte: usize, uri: &str, tested: Option<&Tested>) -> Option<Value> {
    let (source, root) = names_of(document, byte, tested)?;
    let uri = tested.map_or(uri, |tested| &tested.uri);
    let (Named::Step(_, span) | Named::Input(_, span) | Named::Component(_, span)) = named(document, byte, &root)?;
    Some(json!({ "uri": uri, "range": super::document::range(source.text(), span) }))
}

/// Kinds of symbols of the protocol.
const VARIABLE: u32 = 13;
const MODULE: u32 = 2;
const FUNCTION: u32 = 12;
const PROPERTY: u32 = 7;

/// What a document consists of.
pub(super) fn symbols(document: &Document) -> Vec<Value> {
    let Some((source, root)) = &document.tree else { return Vec::new() };
    let range = |span: Span| super::document::range(source.text(), span);
    let mut found = Vec::new();
    for case in root.get("cases").and_then(Node::as_sequence).filter(|_| document.is_cases()).unwrap_or_default() {
        if let Some((name, span)) = case.get("name").and_then(|name| Some((name.as_text()?, name.span))) {
            let ranges = (range(case.span), range(span));
            found.push(json!({ "name": name, "kind": FUNCTION, "range": ranges.0, "selectionRange": ranges.1 }));
        }
    }
    for (key, kind) in [("inputs", VARIABLE), ("components", MODULE)] {
        for entry in names::entries(root, key) {
            let whole = range(entry.key_span.to(entry.value.span));
            let name = json!(entry.key);
            found.push(json!({ "name": name, "kind": kind, "range": whole, "selectionRange": range(entry.key_span) }));
        }
    }
    found.extend(step_symbols(root, &range));
    for entry in names::entries(root, "outputs") {
        let whole = range(entry.key_span.to(entry.value.span));
        found.push(
            json!({ "name": entry.key, "kind": PROPERTY, "range": whole, "selectionRange": range(entry.key_span) }),
        );
    }
    found
}

fn step_symbols(within: &Node, range: &dyn Fn(Span) -> Value) -> Vec<Value> {
    let mut found = Vec::new();
    for step in within.get("steps").and_then(Node::as_sequence).unwrap_or_default() {
        let mut below = step_symbols(step, range);
        for case in step.get("switch").and_then(Node::as_sequence).unwrap_or_default() {
            below.extend(step_symbols(case, range));
        }
        match step.get("id").and_then(|id| Some((id.as_text().filter(|text| !text.is_empty())?, id.span))) {
            Some((id, span)) => found.push(json!({
                "name": id, "kind": FUNCTION, "detail": names::action(step).map(|(action, _)| action),
                "range": range(step.span), "selectionRange": range(span), "children": below,
            })),
            None => found.extend(below),
        }
    }
    found
}
