//! The tree of a file, each part with its place.

use super::Span;
use super::scalar::{self, Plain};
use serde_json::Value;

/// How a scalar is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Without quotes: what it means depends on how it looks.
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
    /// Its text, with escapes and folding undone.
    pub text: String,
    /// How it is written.
    pub style: Style,
}

impl Scalar {
    /// What it means in JSON.
    ///
    /// # Errors
    /// Why JSON has no such value.
    pub fn to_json(&self) -> Result<Value, &'static str> {
        match self.style {
            Style::Plain => scalar::resolve(&self.text).to_json(),
            _ => Ok(Value::String(self.text.clone())),
        }
    }

    /// Whether it is a string and not null, a boolean or a number.
    #[must_use]
    pub fn is_string(&self) -> bool {
        self.style != Style::Plain || matches!(scalar::resolve(&self.text), Plain::Text(_))
    }

    /// Whether it says nothing: an empty value, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.style == Style::Plain && matches!(scalar::resolve(&self.text), Plain::Null)
    }
}

/// A value of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Clone, PartialEq, Debug)]
pub enum Content {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with their values, in the order of the file, no key twice.
    Mapping(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// What it is, in a word, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Sequence(_) => "a list",
            Content::Mapping(_) => "a mapping",
            Content::Scalar(scalar) if scalar.style != Style::Plain => "a string",
            Content::Scalar(scalar) => match scalar::resolve(&scalar.text) {
                Plain::Null => "nothing",
                Plain::Bool(_) => "a boolean",
                Plain::Number(_) | Plain::NotJson => "a number",
                Plain::Text(_) => "a string",
            },
        }
    }

    /// The scalar, where it is one.
    #[must_use]
    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text of a string; none where it is something else, a number for instance.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        self.as_scalar().filter(|scalar| scalar.is_string()).map(|scalar| scalar.text.as_str())
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(Scalar::is_null)
    }

    /// The entries, where it is a mapping.
    #[must_use]
    pub fn as_mapping(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The items, where it is a list.
    #[must_use]
    pub fn as_sequence(&self) -> Option<&[Node]> {
        match &self.content {
            Content::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The value of a key, where it is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_mapping()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The plain JSON value of the tree.
    ///
    /// # Errors
    /// The place of a scalar that JSON cannot hold, and why.
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
