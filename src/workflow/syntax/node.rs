//! The tree of a file, each part with its span.

use super::Span;
use super::scalar::{self, Plain};
use serde_json::Value;

/// How a scalar is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Without quotes: its type depends on its text.
    Plain,
    /// In single quotes.
    Single,
    /// In double quotes.
    Double,
    /// After `|` or `>`.
    Block,
}

/// A scalar.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    /// Its text, with escapes and line folding resolved.
    pub text: String,
    /// How it is written.
    pub style: Style,
}

impl Scalar {
    /// Its value in JSON.
    ///
    /// # Errors
    /// Says why JSON has no such value.
    pub fn to_json(&self) -> Result<Value, &'static str> {
        match self.style {
            Style::Plain => scalar::resolve(&self.text).to_json(),
            _ => Ok(Value::String(self.text.clone())),
        }
    }

    /// Returns whether it is a string, not null, a boolean or a number.
    #[must_use]
    pub fn is_string(&self) -> bool {
        self.style != Style::Plain || matches!(scalar::resolve(&self.text), Plain::Text(_))
    }

    /// Returns whether it is null: an empty value, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.style == Style::Plain && matches!(scalar::resolve(&self.text), Plain::Null)
    }
}

/// A value in the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its bytes in the file.
    pub span: Span,
    /// A scalar, a list or a mapping.
    pub content: Content,
}

/// The content of a node.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with their values, in file order, no key twice.
    Mapping(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The text of the key.
    pub key: String,
    /// The key's bytes in the file.
    pub key_span: Span,
    /// The value after the colon.
    pub value: Node,
}

impl Node {
    /// Its kind in words, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Sequence(_) => "a list",
            Content::Mapping(_) => "a mapping",
            Content::Scalar(scalar) if scalar.style != Style::Plain => "a string",
            Content::Scalar(scalar) => match scalar::resolve(&scalar.text) {
                Plain::Null => "null",
                Plain::Bool(_) => "a boolean",
                Plain::Number(_) | Plain::NotJson => "a number",
                Plain::Text(_) => "a string",
            },
        }
    }

    /// Itself as a scalar, if it is one.
    #[must_use]
    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text of a string. `None` for anything else, such as a number.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        self.as_scalar().filter(|scalar| scalar.is_string()).map(|scalar| scalar.text.as_str())
    }

    /// Returns whether it is a null scalar.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// The entries, if it is a mapping.
    #[must_use]
    pub fn as_mapping(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items, if it is a list.
    #[must_use]
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.content {
            Content::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The value of a key, if it is a mapping that has the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The JSON value of the tree.
    ///
    /// # Errors
    /// Returns the span of a scalar that JSON cannot hold, and the reason.
    pub fn to_json(&self) -> Result<Value, (Span, &'static str)> {
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json().map_err(|why| (self.span, why)),
            Content::Sequence(items) => items.iter().map(Self::to_json).collect(),
            Content::Mapping(entries) => {
                entries.iter().map(|entry| Ok((entry.key.clone(), entry.value.to_json()?))).collect()
            }
        }
    }
}
