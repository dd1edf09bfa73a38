//! The keys of a mapping: known ones, those of a later version, and slips.

use crate::workflow::diagnostics::{Diagnostic, Diagnostics, closest, one_of};
use crate::workflow::syntax::{Entry, Node, Span};

/// What keys a mapping may have.
pub(crate) struct Keys {
    /// What the mapping is, with its article.
    pub(crate) what: &'static str,
    /// The keys that mean something.
    pub(crate) known: &'static [&'static str],
    /// Keys of a later version.
    pub(crate) later: &'static [&'static str],
}

/// The entries of a mapping whose keys were checked.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    entries: &'a [Entry],
    /// Where the mapping stands.
    pub(crate) span: Span,
}

impl<'a> Fields<'a> {
    /// Checks the keys of a mapping, and that it is one.
    pub(crate) fn read(node: &'a Node, keys: &Keys, problems: &mut Diagnostics) -> Option<Self> {
        let Some(entries) = node.as_mapping() else {
            let message = format!("{} is a mapping, not {}", keys.what, node.kind());
            problems.push(
                Diagnostic::new("type", message, node.span)
                    .hint(format!("its keys are {}", one_of(keys.known.iter().copied()))),
            );
            return None;
        };
        for entry in entries {
            check_key(entry, keys, problems);
        }
        Some(Self { entries, span: node.span })
    }

    /// The entry of a key.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key. One that says nothing counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value).filter(|value| !value.is_null())
    }

    /// All keys, in the order of the file.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The entries of those keys that are there, in the order of the file.
    pub(crate) fn among(&self, keys: &[&str]) -> Vec<&'a Entry> {
        self.entries.iter().filter(|entry| keys.contains(&entry.key.as_str())).collect()
    }
}

fn check_key(entry: &Entry, keys: &Keys, problems: &mut Diagnostics) {
    let key = entry.key.as_str();
    if keys.known.contains(&key) {
        return;
    }
    if keys.later.contains(&key) {
        problems.push(Diagnostic::new("not-supported", format!("`{key}` is not supported yet"), entry.key_span));
        return;
    }
    let known = keys.known.iter().chain(keys.later).copied();
    let hint = match (!problems.is_full()).then(|| closest(key, known)).flatten() {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if keys.known.len() <= 12 => format!("its keys are {}", one_of(keys.known.iter().copied())),
        None => "the keys are described in workflows/README.md".to_owned(),
    };
    let message = format!("{} has no key `{}`", keys.what, shorten(key));
    problems.push(Diagnostic::new("unknown-key", message, entry.key_span).hint(hint));
}

pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(60).chain(['…']).collect() }
}

/// Reads a string.
pub(crate) fn text<'a>(node: &'a Node, what: &str, problems: &mut Diagnostics) -> Option<&'a str> {
    let text = node.as_text();
    if text.is_none() {
        let hint =
            node.as_scalar().filter(|scalar| !scalar.is_null()).map(|scalar| format!("quote it: \"{}\"", scalar.text));
        let message = format!("`{what}` is a string, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint_maybe(hint));
    }
    text
}

/// Reads a list of strings, or one string.
pub(crate) fn texts<'a>(node: &'a Node, what: &str, problems: &mut Diagnostics) -> Vec<(&'a str, Span)> {
    match node.as_sequence() {
        Some(items) => items.iter().filter_map(|item| Some((text(item, what, problems)?, item.span))).collect(),
        None if node.as_mapping().is_some() => {
            let message = format!("`{what}` is a list of strings, not a mapping");
            problems.push(Diagnostic::new("type", message, node.span));
            Vec::new()
        }
        None => text(node, what, problems).map(|text| (text, node.span)).into_iter().collect(),
    }
}
