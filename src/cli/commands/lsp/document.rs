//! An open document: its text, positions in it, and its last tree.

use crate::testing::case_file::keys::CASE_FILE;
use crate::testing::suite::is_case_file;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::model::keys::{Shape, WORKFLOW};
use crate::workflow::syntax::{self, Node, SOURCE_BYTES_MAX, Source, Span};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A document that an editor has open.
pub(super) struct Document {
    pub(super) version: i64,
    pub(super) source: Source,
    /// The tree of the text, or of an earlier one if it is not YAML just now, with the text that it
    /// is of.
    pub(super) tree: Option<(Source, Node)>,
    starts: Vec<usize>,
}

impl Document {
    pub(super) fn new(uri: &str, version: i64, text: &str, before: Option<Self>) -> Self {
        let source = Source::new(&name(uri), text);
        let starts = line_starts(source.text());
        let tree = parse(&source).or_else(|| before.and_then(|before| before.tree));
        Self { version, source, tree, starts }
    }

    /// Whether it has the tests of a workflow.
    pub(super) fn is_cases(&self) -> bool {
        is_case_file(Path::new(self.source.name()))
    }

    /// The shape of the whole file.
    pub(super) fn shape(&self) -> &'static Shape {
        if self.is_cases() { &Shape::Keys(|| &CASE_FILE) } else { &Shape::Keys(|| &WORKFLOW) }
    }

    pub(super) fn text(&self) -> &str {
        self.source.text()
    }

    /// The tree; of a text that is not YAML just now, that of the text without this line.
    pub(super) fn tree_without(&self, line: usize) -> Option<(Source, Node)> {
        if let Some((source, root)) = &self.tree {
            return Some((source.clone(), root.clone()));
        }
        let text: Vec<&str> =
            self.text().split('\n').enumerate().map(|(at, text)| if at == line { "" } else { text }).collect();
        let source = Source::new(self.source.name(), &text.join("\n"));
        parse(&source)
    }

    /// The byte of a position of the protocol: a line, and UTF-16 code units. What is beyond the
    /// end of a line is its end.
    pub(super) fn byte(&self, position: &Value) -> Option<usize> {
        let number = |key: &str| usize::try_from(position[key].as_u64()?).ok();
        let (line, units) = (number("line")?, number("character")?);
        let Some(start) = self.starts.get(line) else { return Some(self.text().len()) };
        let text = self.text()[*start..].split('\n').next().unwrap_or_default();
        let text = text.strip_suffix('\r').unwrap_or(text);
        let mut left = units;
        for (at, c) in text.char_indices() {
            if left < c.len_utf16() {
                return Some(start + at);
            }
            left -= c.len_utf16();
        }
        Some(start + text.len())
    }

    pub(super) fn line_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }

    pub(super) fn line_start(&self, line: usize) -> usize {
        self.starts[line]
    }

    pub(super) fn range(&self, span: Span) -> Value {
        range(self.text(), span)
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

pub(super) fn parse(source: &Source) -> Option<(Source, Node)> {
    if source.text().len() > SOURCE_BYTES_MAX {
        return None;
    }
    syntax::parse(source, &mut Diagnostics::new(source.clone())).map(|root| (source.clone(), root))
}

/// A part of a text as a range of the protocol.
pub(super) fn range(text: &str, span: Span) -> Value {
    let position = |byte: u32| {
        let before = &text[..text.floor_char_boundary(byte as usize)];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let character: usize = before[start..].chars().map(char::len_utf16).sum();
        json!({ "line": before.matches('\n').count(), "character": character })
    };
    json!({ "start": position(span.start), "end": position(span.end) })
}

/// The path of a document, if it is a file.
pub(super) fn path(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = &path[path.find('/')?..];
    Some(PathBuf::from(percent_encoding::percent_decode_str(path).decode_utf8().ok()?.into_owned()))
}

/// What messages call a document.
pub(super) fn name(uri: &str) -> String {
    path(uri).map_or_else(|| uri.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf_16() {
        let text = "a: 1\r\nb: \"😀ü\" # x\nc";
        let document = Document::new("file:///tmp/a%20b.yaml", 1, text, None);
        assert_eq!(document.source.name(), "/tmp/a b.yaml");
        let byte = |line: u64, character: u64| document.byte(&json!({ "line": line, "character": character })).unwrap();
        assert_eq!(&text[byte(1, 6)..], "ü\" # x\nc");
        // Within a pair of surrogates, and beyond an end.
        assert_eq!(&text[byte(1, 5)..], "😀ü\" # x\nc");
        assert_eq!((byte(0, 99), byte(9, 0)), (4, text.len()));
        let at = text.find('ü').unwrap();
        let range = document.range(Span::new(at..at + 2));
        assert_eq!(range, json!({ "start": { "line": 1, "character": 6 }, "end": { "line": 1, "character": 7 } }));
    }
}
