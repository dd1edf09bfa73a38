//! What a definition consists of: the tree of the file that it is rendered to.

use super::value::{MARK, escaped};
use serde::Serialize;
use serde_json::Value;
use std::panic::Location;

/// A value of the file.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Tree {
    /// A string.
    Text(String),
    /// Null, a boolean or a number, as JSON writes it.
    Plain(String),
    List(Vec<Tree>),
    Map(Map),
    /// A value that cannot be serialised, and why.
    Unwritable(String),
}

/// Keys with their values. A key that was given twice is there twice, for the reader to report.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Map {
    pub(super) entries: Vec<(String, Tree)>,
    /// Where the step that it is was made.
    pub(super) place: Option<&'static Location<'static>>,
}

impl Tree {
    /// A value in a place where a file may have expressions: literals are escaped.
    pub(super) fn value(value: impl Serialize) -> Self {
        Self::of(value, escaped)
    }

    /// A value in a place that is read literally.
    pub(super) fn literal(value: impl Serialize) -> Self {
        Self::of(value, str::to_owned)
    }

    fn of(value: impl Serialize, write: fn(&str) -> String) -> Self {
        serde_json::to_value(value)
            .map_or_else(|why| Self::Unwritable(why.to_string()), |value| Self::from_json(value, write))
    }

    fn from_json(value: Value, write: fn(&str) -> String) -> Self {
        match value {
            Value::String(text) => Self::Text(write(&text)),
            Value::Array(items) => Self::List(items.into_iter().map(|item| Self::from_json(item, write)).collect()),
            Value::Object(entries) => {
                if let (1, Some(Value::String(expression))) = (entries.len(), entries.get(MARK.as_str())) {
                    return Self::Text(expression.clone());
                }
                let entries = entries.into_iter().map(|(key, value)| (key, Self::from_json(value, write)));
                Self::Map(Map { entries: entries.collect(), place: None })
            }
            plain => Self::Plain(plain.to_string()),
        }
    }

    /// A list of texts that are read literally.
    pub(super) fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::List(texts.into_iter().map(|text| Self::Text(text.into())).collect())
    }
}

impl Map {
    /// Adds a key.
    pub(super) fn with(mut self, key: &str, value: impl Into<Tree>) -> Self {
        self.entries.push((key.to_owned(), value.into()));
        self
    }

    /// Adds a key to the mapping under a key.
    pub(super) fn with_within(mut self, outer: &str, key: impl Into<String>, value: impl Into<Tree>) -> Self {
        self.map(outer).entries.push((key.into(), value.into()));
        self
    }

    /// The mapping under a key, which is made if it is absent.
    pub(super) fn map(&mut self, key: &str) -> &mut Map {
        match self.entry(key, || Tree::Map(Map::default())) {
            Tree::Map(map) => map,
            _ => unreachable!("invariant: a key that collects entries has a mapping"),
        }
    }

    /// The list under a key, which is made if it is absent.
    pub(super) fn list(&mut self, key: &str) -> &mut Vec<Tree> {
        match self.entry(key, || Tree::List(Vec::new())) {
            Tree::List(list) => list,
            _ => unreachable!("invariant: a key that collects items has a list"),
        }
    }

    fn entry(&mut self, key: &str, make: fn() -> Tree) -> &mut Tree {
        let found = self.entries.iter().position(|(known, _)| known == key);
        let at = found.unwrap_or_else(|| {
            self.entries.push((key.to_owned(), make()));
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }
}

impl From<Map> for Tree {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Tree {
    fn from(value: bool) -> Self {
        Self::Plain(value.to_string())
    }
}

impl From<u32> for Tree {
    fn from(number: u32) -> Self {
        Self::Plain(number.to_string())
    }
}

impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Self::Plain(number.to_string())
    }
}

impl From<f64> for Tree {
    fn from(number: f64) -> Self {
        Self::Plain(number.to_string())
    }
}
