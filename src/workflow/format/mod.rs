//! Formats the text of a workflow file: indentation, blanks and the order of keys.
//!
//! A file is laid out anew line by line: what a line says stays as it is written, and so do its
//! comments, quotes and the choice between `{ }` and lines of their own. [`outline`] finds in the
//! text which line begins a key or an item and which one continues a value; [`layout`] gives each
//! line its indentation; [`order`] moves whole lines, so that keys have the order of
//! [`keys`](super::model::keys); [`wide`] writes collections in brackets that are too wide over
//! several lines.
//!
//! - **I1** The value of the file stays the same, but for the order of keys in mappings whose keys
//!   are known. [`format`] checks that before it returns the text.
//! - **I2** Each comment of the file is in the result, with the same text.
//! - **I3** The result is its own format.
//!
//! *Rejected*: printing the tree. It has no comments, and whoever writes them has to find a place
//! for each one; lines have theirs.

mod brackets;
mod layout;
mod order;
mod outline;
#[cfg(test)]
mod tests;
mod wide;

use super::syntax::{self, Content, Node, Source};
use crate::workflow::diagnostics::Diagnostics;

/// Columns that a line in brackets may have.
pub(crate) const COLUMNS_MAX: usize = 120;

/// Why a text is not formatted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    /// It is not the YAML that a workflow file can hold.
    #[error("{0}")]
    Unreadable(Diagnostics),
    /// It is YAML in a form that cannot be laid out.
    #[error("line {line}: {what}; the formatter leaves such a file as it is")]
    Unusual {
        /// The line, from 1.
        line: usize,
        /// What is unusual.
        what: &'static str,
    },
    /// The result would not be the same workflow. A fault of the formatter.
    #[error("the formatted text would not be the same workflow, so nothing was changed")]
    Changed,
}

/// Formats a text. Line ends are those of the first line, and a byte order mark stays.
///
/// # Errors
/// Fails if the text cannot be read, or cannot be laid out.
pub(crate) fn format(name: &str, text: &str) -> Result<String, FormatError> {
    let source = Source::new(name, text);
    let before = read(&source)?;
    let mark = if text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
    let is_windows = source.text().split_once('\n').is_some_and(|(line, _)| line.ends_with('\r'));
    let plain = source.text().replace("\r\n", "\n");
    let mut laid_out = pass(&plain)?;
    // Each pass writes one level of what is too wide.
    for _ in 0..=syntax::DEPTH_MAX {
        let Some(wider) = wide::split(&laid_out)? else { break };
        laid_out = pass(&wider)?;
    }
    let after = read(&Source::new(name, &laid_out)).map_err(|_| FormatError::Changed)?;
    if !is_same(&before, &after) || comments(&plain) != comments(&laid_out) {
        return Err(FormatError::Changed);
    }
    let ends = if is_windows { laid_out.replace('\n', "\r\n") } else { laid_out };
    Ok(format!("{mark}{ends}"))
}

/// Lays out a text once.
fn pass(text: &str) -> Result<String, FormatError> {
    let outline = outline::read(text)?;
    let mut lines = layout::lay_out(text, &outline);
    order::sort(&mut lines, &outline);
    Ok(layout::join(&lines))
}

/// Reads a text in which nothing is wrong as YAML.
fn read(source: &Source) -> Result<Node, FormatError> {
    let mut problems = Diagnostics::new(source.clone());
    match syntax::parse(source, &mut problems) {
        Some(root) if problems.is_empty() => Ok(root),
        _ => Err(FormatError::Unreadable(problems)),
    }
}

/// Returns whether two trees have the same values, whatever the order of keys.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.content, &other.content) {
        (Content::Scalar(one), Content::Scalar(other)) => one == other,
        (Content::Sequence(one), Content::Sequence(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Content::Mapping(entries), Content::Mapping(others)) => {
            entries.len() == others.len()
                && entries.iter().all(|entry| other.get(&entry.key).is_some_and(|value| is_same(&entry.value, value)))
        }
        _ => false,
    }
}

/// The comments of a text, sorted: the order of keys may move them.
fn comments(text: &str) -> Vec<String> {
    let mut found = outline::read(text).map_or_else(|_| Vec::new(), |outline| outline.comments(text));
    found.sort();
    found
}
