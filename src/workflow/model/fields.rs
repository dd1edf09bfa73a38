//! The keys of a mapping: known keys, keys of a later version, and misspelled ones.

use super::durations::NO_EXPRESSION;
use super::foreign_keys::{self, ForeignKeys};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest, plain};
use crate::workflow::syntax::{Entry, Node, Span};

/// The keys that a mapping may have.
pub(crate) struct KnownKeys {
    /// What the mapping is, with its article: `a step`.
    pub(crate) what: &'static str,
    /// The keys that this release reads.
    pub(crate) known: &'static [&'static str],
    /// Keys of a later version, each with a way to do without it.
    pub(crate) later: &'static [(&'static str, &'static str)],
    /// Keys that other tools use for the same thing.
    pub(crate) foreign: ForeignKeys,
}

/// The entries of a mapping, its keys checked.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    entries: &'a [Entry],
    /// The whole mapping.
    pub(crate) span: Span,
    /// Whether a key was reported as unknown.
    pub(crate) has_unknown_keys: bool,
}

impl<'a> Fields<'a> {
    /// Checks that a node is a mapping, and its keys.
    pub(crate) fn read(node: &'a Node, keys: &KnownKeys, problems: &mut Diagnostics) -> Option<Self> {
        let Some(entries) = node.as_mapping() else {
            let message = format!("{} must be a mapping, not {}", keys.what, node.kind());
            problems.push(
                Diagnostic::new("type", message, node.span)
                    .hint(format!("its keys are {}", all_of(keys.known.iter().copied()))),
            );
            return None;
        };
        let mut has_unknown_keys = false;
        for entry in entries {
            has_unknown_keys |= !check_key(entry, entries, keys, problems);
        }
        Some(Self { entries, span: node.span, has_unknown_keys })
    }

    /// The entry of a key.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key. A null value counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value).filter(|value| !value.is_null())
    }

    /// All keys, in file order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The entries whose key is one of `keys`, in file order.
    pub(crate) fn among(&self, keys: &[&str]) -> Vec<&'a Entry> {
        self.entries.iter().filter(|entry| keys.contains(&entry.key.as_str())).collect()
    }
}

/// Returns whether a key is known here, and reports it otherwise.
fn check_key(entry: &Entry, entries: &[Entry], keys: &KnownKeys, problems: &mut Diagnostics) -> bool {
    let key = entry.key.as_str();
    if keys.known.contains(&key) {
        return true;
    }
    if let Some((_, meanwhile)) = keys.later.iter().find(|(later, _)| *later == key) {
        let problem = Diagnostic::new("not-supported", format!("`{key}` is not supported yet"), entry.key_span);
        problems.push(problem.hint(*meanwhile));
        return true;
    }
    // A key that is already present is an unlikely suggestion.
    let is_free = |known: &&str| !entries.iter().any(|entry| entry.key == **known);
    let known = || keys.known.iter().copied().chain(keys.later.iter().map(|(later, _)| *later));
    let spelled = plain(key);
    let same = known().find(|known| plain(known) == spelled);
    let nearest = || closest(key, known().filter(is_free)).or_else(|| closest(key, known()));
    let nearest = || if problems.is_full() { None } else { nearest() };
    let hint = match (same, foreign_keys::of(&spelled, keys.foreign)) {
        (None, Some(hint)) => Some(hint.to_owned()),
        (same, _) => same.or_else(nearest).map(|meant| format!("did you mean `{meant}`?")),
    };
    let hint = match hint {
        Some(hint) => hint,
        None if keys.known.len() <= 12 => format!("its keys are {}", all_of(keys.known.iter().copied())),
        None => "the keys are described in docs/workflows.md".to_owned(),
    };
    let message = format!("{} has no key `{}`", keys.what, shorten(key));
    problems.push(Diagnostic::new("unknown-key", message, entry.key_span).hint(hint));
    false
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
        let message = format!("`{what}` must be a string, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint_maybe(hint));
    }
    text
}

/// Reads a string that is taken literally: an expression in it would never be evaluated.
pub(crate) fn fixed_text<'a>(node: &'a Node, what: &str, problems: &mut Diagnostics) -> Option<&'a str> {
    let text = text(node, what, problems)?;
    if text.contains("${") {
        let message = format!("`{what}` cannot hold an expression");
        problems.push(Diagnostic::new("expression", message, node.span).hint(NO_EXPRESSION));
        return None;
    }
    Some(text)
}

/// Reads a list of strings, or a single string.
pub(crate) fn texts<'a>(node: &'a Node, what: &str, problems: &mut Diagnostics) -> Vec<(&'a str, Span)> {
    match node.as_sequence() {
        Some(items) => items.iter().filter_map(|item| Some((text(item, what, problems)?, item.span))).collect(),
        None if node.as_mapping().is_some() => {
            let message = format!("`{what}` must be a list of strings, not a mapping");
            problems.push(Diagnostic::new("type", message, node.span));
            Vec::new()
        }
        None => text(node, what, problems).map(|text| (text, node.span)).into_iter().collect(),
    }
}
