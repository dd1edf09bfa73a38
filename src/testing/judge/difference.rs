//! Compares values, and says where they differ.

use crate::workflow::syntax::{Content, Node, Span};
use serde_json::Value;

/// Differences that are listed of one value. Arbitrary: nobody reads more.
const DIFFERENCES_MAX: usize = 10;
/// Characters of a value in a message. Arbitrary.
const SHOWN_MAX: usize = 200;

/// A place where a value is not as expected.
pub(super) struct Difference {
    /// The path, `.total.cents`.
    pub(super) path: String,
    /// The part of the case file that says otherwise.
    pub(super) span: Span,
    /// What was expected; `None` if nothing.
    pub(super) expected: Option<Value>,
    /// What there is; `None` if nothing.
    pub(super) actual: Option<Value>,
}

/// Compares a value with an expected one, whose text is `node`. If `is_part`, what is not
/// mentioned may be anything.
pub(super) fn differences(node: &Node, expected: &Value, actual: &Value, is_part: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    Comparison { is_part, found: &mut found }.compare(Some(node), node.span, expected, actual, String::new());
    found
}

struct Comparison<'a> {
    is_part: bool,
    found: &'a mut Vec<Difference>,
}

impl Comparison<'_> {
    fn compare(&mut self, node: Option<&Node>, span: Span, expected: &Value, actual: &Value, path: String) {
        if self.found.len() >= DIFFERENCES_MAX {
            return;
        }
        match (expected, actual) {
            (Value::Object(wanted), Value::Object(has)) => {
                for (key, value) in wanted {
                    let entry = node.and_then(Node::as_mapping).and_then(|all| all.iter().find(|one| one.key == *key));
                    let below = entry.map(|entry| &entry.value);
                    let path = format!("{path}{}", member(key));
                    match has.get(key) {
                        Some(actual) => self.compare(below, below.map_or(span, |node| node.span), value, actual, path),
                        None => self.add(entry.map_or(span, |entry| entry.key_span), path, Some(value), None),
                    }
                }
                let is_part = self.is_part;
                for (key, value) in has.iter().filter(|(key, _)| !is_part && !wanted.contains_key(*key)) {
                    self.add(start_of(node, span), format!("{path}{}", member(key)), None, Some(value));
                }
            }
            (Value::Array(wanted), Value::Array(has)) => {
                for index in 0..wanted.len().max(has.len()) {
                    let below = node.and_then(|node| match &node.content {
                        Content::Sequence(items) => items.get(index),
                        _ => None,
                    });
                    let at = below.map_or(start_of(node, span), |node| node.span);
                    let path = format!("{path}[{index}]");
                    match (wanted.get(index), has.get(index)) {
                        (Some(value), Some(actual)) => self.compare(below, at, value, actual, path),
                        (wanted, has) => self.add(at, path, wanted, has),
                    }
                }
            }
            _ if is_same(expected, actual) => {}
            _ => self.add(span, path, Some(expected), Some(actual)),
        }
    }

    fn add(&mut self, span: Span, path: String, expected: Option<&Value>, actual: Option<&Value>) {
        if self.found.len() < DIFFERENCES_MAX {
            let path = if path.is_empty() { String::new() } else { path };
            self.found.push(Difference { path, span, expected: expected.cloned(), actual: actual.cloned() });
        }
    }
}

/// The place for what is missing in a mapping or a list.
fn start_of(node: Option<&Node>, span: Span) -> Span {
    node.map_or(span, |node| Span { start: node.span.start, end: node.span.end })
}

fn member(key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { format!(".{key}") } else { format!("[{}]", Value::from(key)) }
}

/// Whether two values are the same; `1` and `1.0` are.
fn is_same(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.as_f64() == other.as_f64() && (one.is_f64() || other.is_f64()))
        }
        _ => expected == actual,
    }
}

/// Why a value does not have these parts; `None` if it does. A `*` in a text stands for any text.
pub(super) fn matches_part(wanted: &Value, has: &Value, path: &str) -> Option<String> {
    match (wanted, has) {
        (Value::Object(wanted), Value::Object(has)) => wanted.iter().find_map(|(key, value)| {
            let path = format!("{path}{}", member(key));
            match has.get(key) {
                Some(has) => matches_part(value, has, &path),
                None => Some(format!("the call has no `{}`", path.trim_start_matches('.'))),
            }
        }),
        (Value::Array(wanted), Value::Array(has)) if wanted.len() == has.len() => {
            let pairs = wanted.iter().zip(has).enumerate();
            pairs.into_iter().find_map(|(index, (wanted, has))| matches_part(wanted, has, &format!("{path}[{index}]")))
        }
        (Value::String(pattern), Value::String(text)) if is_like(pattern, text) => None,
        _ if is_same(wanted, has) => None,
        _ => Some(format!("`{}` is {}, not {}", path.trim_start_matches('.'), shown(has), shown(wanted))),
    }
}

/// Whether a text is like a pattern, in which `*` stands for any text.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A value in a message.
pub(in crate::testing) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_MAX { text } else { text.chars().take(SHOWN_MAX).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, is) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acd", false),
            ("*", "", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*b*a", "aba", true),
            ("a*ba", "aba", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(is_like(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn a_part_has_no_more_than_it_says() {
        let has = json!({ "url": "https://pay.example.com/1", "body": { "json": { "n": 1 } }, "list": [1, 2] });
        for wanted in [json!({}), json!({ "url": "https://pay.*" }), json!({ "body": { "json": { "n": 1.0 } } })] {
            assert_eq!(matches_part(&wanted, &has, ""), None, "{wanted}");
        }
        let why = matches_part(&json!({ "body": { "json": { "n": 2 } } }), &has, "");
        assert_eq!(why.as_deref(), Some("`body.json.n` is 1, not 2"));
        assert_eq!(matches_part(&json!({ "x": 2 }), &has, "").as_deref(), Some("the call has no `x`"));
        assert!(matches_part(&json!({ "list": [1] }), &has, "").is_some());
    }
}
