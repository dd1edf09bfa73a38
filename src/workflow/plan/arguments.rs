//! Checks the arguments of a call against its handler's JSON Schema, as far as the file states
//! them.
//!
//! Objects and lists are walked here, so that a wrong part is reported at its own position and a
//! part that an expression gives is skipped. All other keywords are checked by the handlers' own
//! validator, for values that the file states completely.

use super::environment::Handlers;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest, one_of};
use crate::workflow::model::{Spanned, shorten};
use crate::workflow::syntax::{Content, Entry, Node};
use serde_json::{Map, Value, json};

/// Keywords that constrain nothing.
const NOTES: [&str; 7] = ["title", "description", "default", "examples", "deprecated", "$comment", "$schema"];
/// Keywords that constrain only the size of an object or a list.
const PARTIAL: [&str; 4] = ["minProperties", "maxProperties", "minItems", "maxItems"];
/// Keywords that refer to other parts of a schema: a part of such a schema has no meaning by
/// itself.
const REFERENCES: [&str; 4] = ["$ref", "$dynamicRef", "$id", "$anchor"];

/// Returns whether a value contains an expression.
pub(super) fn has_expression(node: &Node) -> bool {
    match &node.content {
        Content::Scalar(scalar) => scalar.text.contains("${"),
        Content::Sequence(items) => items.iter().any(has_expression),
        Content::Mapping(entries) => entries.iter().any(|entry| has_expression(&entry.value)),
    }
}

/// The arguments with a `*` for each expression; an empty object if there are none.
pub(super) fn with_stars(with: Option<&Node>) -> Value {
    let star = |entry: &Entry| {
        let value = match entry.value.as_scalar() {
            Some(scalar) if scalar.text.contains("${") => Value::String(stars(&scalar.text)),
            _ => entry.value.to_json().ok()?,
        };
        Some((entry.key.clone(), value))
    };
    Value::Object(with.and_then(Node::as_mapping).unwrap_or_default().iter().filter_map(star).collect())
}

/// A text with a `*` for each expression. Braces within one are matched, quotes are ignored.
fn stars(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        out.push('*');
        let mut open = 1;
        let end = after.find(|c| {
            open += i32::from(c == '{') - i32::from(c == '}');
            open == 0
        });
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    out.push_str(rest);
    out
}

/// The call whose arguments are checked.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) handler: &'a Spanned<String>,
    pub(super) handlers: &'a dyn Handlers,
}

impl Argument<'_> {
    /// Reports every argument that cannot fit.
    pub(super) fn check(self, with: &Node, schema: &Value, problems: &mut Diagnostics) {
        if !refers(schema) {
            self.walk(with, schema, "", problems);
        } else if !has_expression(with) {
            self.judge(with, schema, None, "", problems);
        }
    }

    /// Reports required arguments of a call that has none.
    pub(super) fn check_absent(self, schema: &Value, problems: &mut Diagnostics) {
        if self.handlers.mismatches(schema, &Value::Null).is_empty() {
            return;
        }
        let keys = required(schema);
        let what = if keys.is_empty() { "arguments".to_owned() } else { all_of(keys) };
        let message = format!("`{}` needs {what}, but the step has no `with`", self.handler.value);
        problems.push(Diagnostic::new("arguments", message, self.handler.span).hint_maybe(example(schema)));
    }

    /// Checks a value and all its parts. `path` is a JSON Pointer.
    fn walk(self, node: &Node, schema: &Value, path: &str, problems: &mut Diagnostics) {
        let before = problems.count();
        let judged: &[&str] = match &node.content {
            Content::Scalar(scalar) if scalar.text.contains("${") => return,
            Content::Scalar(_) => &[],
            Content::Mapping(_) if !may_be(schema, "object") => &[],
            Content::Sequence(_) if !may_be(schema, "array") => &[],
            Content::Mapping(entries) => {
                self.walk_entries(node, entries, schema, path, problems);
                &["properties", "required", "additionalProperties"]
            }
            Content::Sequence(items) => {
                if let Some(schema) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.walk(item, schema, &format!("{path}/{index}"), problems);
                    }
                }
                &["items"]
            }
        };
        // A problem of a part is often the problem of the whole: report it once.
        if problems.count() > before {
            return;
        }
        if let Some(problem) = self.kind(node, schema, path).or_else(|| self.choice(node, schema, path)) {
            problems.push(problem);
            return;
        }
        let Some(keywords) = schema.as_object() else { return };
        let is_partial = has_expression(node);
        // Only the size of a partly known value is checked.
        let matters = |key: &str| {
            !NOTES.contains(&key) && !judged.contains(&key) && (!is_partial || PARTIAL.contains(&key)) && key != "type"
        };
        let rest: Map<String, Value> =
            keywords.iter().filter(|(key, _)| matters(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        if !rest.is_empty() {
            self.judge(node, &Value::Object(rest), described(schema), path, problems);
        }
    }

    fn walk_entries(self, node: &Node, entries: &[Entry], schema: &Value, path: &str, problems: &mut Diagnostics) {
        let before = problems.count();
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let others = schema.get("additionalProperties").filter(|_| schema.get("patternProperties").is_none());
        for entry in entries {
            if let Some(schema) = properties.get(&entry.key).or(others.filter(|schema| schema.is_object())) {
                let key = entry.key.replace('~', "~0").replace('/', "~1");
                self.walk(&entry.value, schema, &format!("{path}/{key}"), problems);
            } else if others == Some(&Value::Bool(false)) {
                let names = || properties.keys().map(String::as_str);
                let message = format!("{} does not take `{}`", self.named(path), shorten(&entry.key));
                let hint = match closest(&entry.key, names()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None if properties.is_empty() => "it takes no arguments".to_owned(),
                    None => format!("it takes {}", all_of(names())),
                };
                problems.push(Diagnostic::new("arguments", message, entry.key_span).hint(hint));
            }
        }
        let mut missing = required(schema);
        missing.retain(|key| !entries.iter().any(|entry| entry.key == *key));
        // A misspelled key may be the missing one, and is reported already.
        if !missing.is_empty() && problems.count() == before {
            let message = format!("{} needs {}", self.named(path), all_of(missing));
            let span = if path.is_empty() { self.handler.span } else { node.span };
            problems.push(Diagnostic::new("arguments", message, span).hint_maybe(example(schema)));
        }
    }

    /// The name of the handler, or of a part of its arguments, for messages.
    fn named(self, path: &str) -> String {
        let name = &self.handler.value;
        if path.is_empty() { format!("`{name}`") } else { format!("`{}` of `{name}`", dotted(path)) }
    }

    /// Reports a value of the wrong type.
    fn kind(self, node: &Node, schema: &Value, path: &str) -> Option<Diagnostic> {
        let wanted = types(schema)?;
        let value = shallow(node)?;
        if wanted.iter().any(|kind| is_of(&value, kind)) {
            return None;
        }
        let forms: Vec<&str> = wanted.iter().map(|kind| with_article(kind)).collect();
        let message = format!("{} must be {}, not {}", self.named(path), forms.join(" or "), node.kind());
        let quoted = || {
            let scalar = node.as_scalar().filter(|_| wanted.contains(&"string"))?;
            Some(format!("quote it: \"{}\"", scalar.text))
        };
        let hint = described(schema).or_else(quoted).or_else(|| example(schema));
        Some(Diagnostic::new("arguments", message, node.span).hint_maybe(hint))
    }

    /// Reports a value that is not in the schema's `enum`.
    fn choice(self, node: &Node, schema: &Value, path: &str) -> Option<Diagnostic> {
        let choices = schema.get("enum")?.as_array()?;
        let value = node.as_scalar()?.to_json().ok()?;
        if choices.contains(&value) {
            return None;
        }
        let names = || choices.iter().filter_map(Value::as_str);
        let same = |text: &str| names().find(|name| name.eq_ignore_ascii_case(text));
        let hint = match value.as_str().and_then(|text| same(text).or_else(|| closest(text, names()))) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let texts: Vec<String> = choices.iter().map(flow).collect();
                format!("it must be {}", one_of(texts.iter().map(|text| text.trim_matches('"'))))
            }
        };
        let message = format!("{} cannot be `{}`", self.named(path), shorten(flow(&value).trim_matches('"')));
        Some(Diagnostic::new("arguments", message, node.span).hint(hint))
    }

    /// Runs the handlers' validator, and reports its findings at the parts that it names.
    fn judge(self, node: &Node, schema: &Value, hint: Option<String>, path: &str, problems: &mut Diagnostics) {
        let Ok(value) = node.to_json() else { return };
        let mut found = self.handlers.mismatches(schema, &value);
        // Of several alternatives, the one that fits deepest was meant.
        let deepest = found.iter().map(|(pointer, _)| pointer.matches('/').count()).max();
        found.retain(|(pointer, _)| Some(pointer.matches('/').count()) == deepest);
        for (pointer, expected) in found {
            let part = part(node, &pointer).unwrap_or(node);
            let named = self.named(&format!("{path}{pointer}"));
            let message = match (&hint, part.as_scalar()) {
                // The schema's description reads better than a validator's message.
                (Some(_), Some(scalar)) => format!("{named} cannot be `{}`", shorten(&scalar.text)),
                _ => format!("{named} does not fit: expected {expected}"),
            };
            problems.push(Diagnostic::new("arguments", message, part.span).hint_maybe(hint.clone()));
        }
    }
}

/// The part of a value that a JSON Pointer leads to.
fn part<'n>(node: &'n Node, pointer: &str) -> Option<&'n Node> {
    pointer.split('/').skip(1).try_fold(node, |node, key| match &node.content {
        Content::Sequence(items) => items.get(key.parse::<usize>().ok()?),
        _ => node.get(&key.replace("~1", "/").replace("~0", "~")),
    })
}

/// A pointer in the notation of people: `body.json`, `expect[2]`.
fn dotted(path: &str) -> String {
    let mut out = String::new();
    for key in path.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit()) {
            out.push_str(&format!("[{key}]"));
        } else {
            out.push_str(if out.is_empty() { "" } else { "." });
            out.push_str(&shorten(&key));
        }
    }
    out
}

/// Returns whether a part of a schema refers to another one.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            keywords.keys().any(|key| REFERENCES.contains(&key.as_str())) || keywords.values().any(refers)
        }
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

fn types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(kind) => Some(vec![kind.as_str()]),
        Value::Array(kinds) => Some(kinds.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn may_be(schema: &Value, kind: &str) -> bool {
    types(schema).is_none_or(|kinds| kinds.contains(&kind))
}

fn required(schema: &Value) -> Vec<&str> {
    let keys = schema.get("required").and_then(Value::as_array);
    keys.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A value of the same type, without its parts.
fn shallow(node: &Node) -> Option<Value> {
    match &node.content {
        Content::Scalar(scalar) => scalar.to_json().ok(),
        Content::Sequence(_) => Some(json!([])),
        Content::Mapping(_) => Some(json!({})),
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn with_article(kind: &str) -> &'static str {
    match kind {
        "string" => "a string",
        "number" => "a number",
        "integer" => "a whole number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a mapping",
        _ => "null",
    }
}

/// The schema's own description.
fn described(schema: &Value) -> Option<String> {
    schema.get("description").and_then(Value::as_str).map(str::to_owned)
}

/// The schema's first example.
fn example(schema: &Value) -> Option<String> {
    let example = schema.get("examples")?.as_array()?.first()?;
    Some(format!("with: {}", flow(example)))
}

/// A value in the flow style of YAML.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let members: Vec<String> = members.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}
