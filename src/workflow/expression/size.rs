//! The size of a value, before it is built.

use super::context::{Node, Scope};
use serde_json::Value;
use std::ops::{Add, AddAssign, SubAssign};

/// The size of a value: its text, and the values in it. In memory, a list of one-digit numbers
/// takes fifty times the bytes of its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Bytes of its JSON text without white space.
    pub bytes: usize,
    /// The number of values: itself, and all that it contains.
    pub values: usize,
}

impl Size {
    /// No bound.
    pub const MAX: Self = Self { bytes: usize::MAX, values: usize::MAX };

    /// The size of a part of a text.
    #[must_use]
    pub fn bytes(bytes: usize) -> Self {
        Self { bytes, values: 0 }
    }

    /// The size of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let inner = match value {
            Value::Null => Self::bytes(4),
            Value::Bool(truth) => Self::bytes(if *truth { 4 } else { 5 }),
            Value::Number(number) => Self::bytes(number.as_str().len()),
            Value::String(text) => Self::bytes(quoted(text)),
            Value::Array(items) => enclosed(items.iter().map(Self::of)),
            Value::Object(entries) => enclosed(entries.iter().map(|(key, value)| entry(key, Self::of(value)))),
        };
        inner + Self { bytes: 0, values: 1 }
    }

    pub(super) fn of_node(node: Node<'_, '_>) -> Self {
        match node {
            Node::Value(value) => Self::of(value),
            Node::Parts(parts) => {
                let of = |part: &Scope<'_>| Self::of_node(Node::of(part));
                enclosed(parts.iter().map(|(key, part)| entry(key, of(part)))) + Self { bytes: 0, values: 1 }
            }
        }
    }

    /// The size of the value of a JSON text, or slightly more: white space counts, and an empty
    /// list counts as one that holds a value.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let mut values = 1;
        let mut in_string = false;
        let mut escaped = false;
        for byte in text.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' | b',' if !in_string => values += 1,
                _ => {}
            }
        }
        Self { bytes: text.len(), values }
    }

    /// Returns whether it is within a bound in both measures.
    #[must_use]
    pub fn fits(self, max: Self) -> bool {
        self.bytes <= max.bytes && self.values <= max.values
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), values: self.values.saturating_add(other.values) }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.values = self.values.saturating_sub(other.values);
    }
}

/// The size of items between brackets, with commas.
fn enclosed(items: impl ExactSizeIterator<Item = Size>) -> Size {
    let commas = items.len().saturating_sub(1);
    items.fold(Size::bytes(2 + commas), Add::add)
}

/// The size of a value with its key and the colon.
fn entry(key: &str, value: Size) -> Size {
    value + Size::bytes(quoted(key) + 1)
}

/// The length of a string as JSON.
fn quoted(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_measures_are_those_of_the_text() {
        let values = [
            (json!(null), 1),
            (json!([]), 1),
            (json!({}), 1),
            (json!([true, false, -1.5e3, 12]), 5),
            (json!({"a\n": ["\u{1}\u{7f}é\"", {"b": [[]]}], "": null}), 7),
            (json!("\u{8}\t\n\u{c}\r\\\u{1f}"), 1),
        ];
        for (value, count) in values {
            let text = value.to_string();
            assert_eq!(Size::of(&value), Size { bytes: text.len(), values: count }, "{text}");
            let scope = Scope::object([("k", Scope::Borrowed(&value)), ("l", Scope::Owned(json!(1)))]);
            let whole = json!({"k": value, "l": 1});
            assert_eq!(Size::of_node(Node::of(&scope)), Size::of(&whole), "{text}");
            let read = Size::of_text(&text);
            assert!(read.bytes == text.len() && (count..=2 * count).contains(&read.values), "{text}: {read:?}");
        }
    }
}
