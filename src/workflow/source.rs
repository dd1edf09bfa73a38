//! The text of a file, and positions in it.

use std::ops::Range;
use std::sync::Arc;

/// Most bytes of a workflow file. Arbitrary: a thousand steps fit easily.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;

/// A range of bytes of a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// Makes a span from a range of bytes.
    #[must_use]
    pub fn new(range: Range<usize>) -> Self {
        Self { start: range.start as u32, end: range.end as u32 }
    }

    /// The span as a range of bytes.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A line and a column, both from 1; the column counts characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

/// A file's name and text.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    line_starts: Arc<[u32]>,
}

impl Source {
    /// Makes a source from a text and the name that diagnostics show. A byte order mark is dropped.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at as u32 + 1)).collect();
        Self { name: name.into(), text: text.into(), line_starts }
    }

    /// The name that diagnostics show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text, without a byte order mark.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span; empty if the span is out of range.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// The line and column of a byte.
    #[must_use]
    pub fn position(&self, byte: u32) -> Position {
        let line = self.line_starts.partition_point(|start| *start <= byte);
        let start = self.line_starts[line - 1] as usize;
        let before = self.text.get(start..byte as usize).unwrap_or("");
        Position { line, column: before.chars().count() + 1 }
    }

    /// The line that contains a byte, without its line end.
    #[must_use]
    pub fn line_of(&self, byte: u32) -> &str {
        let line = self.line_starts.partition_point(|start| *start <= byte);
        let start = self.line_starts[line - 1] as usize;
        self.text[start..].lines().next().unwrap_or("")
    }

    /// The rest of the line after a byte.
    #[must_use]
    pub fn rest_of_line(&self, byte: u32) -> &str {
        self.text.get(byte as usize..).and_then(|rest| rest.split('\n').next()).unwrap_or("")
    }
}
