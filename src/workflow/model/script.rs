//! Reads `script:`, a program that is written in the workflow file.

use super::fields::{Fields, KnownKeys, text};
use super::foreign_keys;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, word_len};
use crate::workflow::syntax::{Entry, Node, Scalar, ScalarOffsets, Source, Span};
use std::path::Path;

/// The language of a script.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScriptLanguage {
    /// JavaScript.
    JavaScript,
    /// TypeScript, which is run without a check of its types.
    TypeScript,
    /// Python.
    Python,
}

impl ScriptLanguage {
    /// Finds the language of a file by its suffix. `None` if it is no script.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        match Path::new(path).extension()?.to_str()? {
            "js" | "mjs" => Some(Self::JavaScript),
            "ts" | "mts" => Some(Self::TypeScript),
            "py" => Some(Self::Python),
            _ => None,
        }
    }

    /// Its key under `script:`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Python => "py",
        }
    }
}

/// What the source of an inline script begins with; the id of its step follows.
pub(crate) const INLINE: &str = "script:";

/// A script in the workflow file: the body of its one entry point.
#[derive(Clone, PartialEq, Debug)]
pub struct InlineScript {
    /// Its language.
    pub language: ScriptLanguage,
    /// Its text in the file.
    pub span: Span,
    /// Its text, as YAML reads it.
    pub scalar: Scalar,
}

impl InlineScript {
    /// The line of its first line in the file, from 1.
    #[must_use]
    pub fn line(&self, source: &Source) -> u32 {
        let text = &self.scalar.text;
        let empty = text.len() - text.trim_start_matches('\n').len();
        let first = ScalarOffsets::new(source, self.span, &self.scalar).at(empty);
        u32::try_from(source.position(first).line.saturating_sub(empty).max(1)).unwrap_or(u32::MAX)
    }

    /// The part of the file for a line and a column of the script, where lines are those that an
    /// engine counts from [`Self::line`]. Columns count characters of the text as YAML reads it.
    #[must_use]
    pub fn span_at(&self, source: &Source, line: usize, column: usize) -> Span {
        let text = &self.scalar.text;
        let nth = line.saturating_sub(self.line(source) as usize);
        let mut start = 0;
        for line in text.split_inclusive('\n').take(nth) {
            start += line.len();
        }
        let line = text[start.min(text.len())..].lines().next().unwrap_or("");
        let column = column.saturating_sub(1);
        let within = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        let places = ScalarOffsets::new(source, self.span, &self.scalar);
        let first = places.at(start + within);
        let last = places.at(start + (within + word_len(&line[within..])).min(line.len()));
        Span { start: first, end: last.max(first) }
    }
}

pub(super) const KEYS: KnownKeys =
    KnownKeys { what: "`script`", known: &["js", "ts", "py"], later: &[], foreign: foreign_keys::SCRIPT };

pub(super) fn read_script(entry: &Entry, problems: &mut Diagnostics) -> Option<InlineScript> {
    let node = &entry.value;
    if node.as_mapping().is_none() {
        return body(node, ScriptLanguage::JavaScript, problems);
    }
    let fields = Fields::read(node, &KEYS, problems)?;
    let found = fields.among(KEYS.known);
    match found[..] {
        [one] => {
            let language = match one.key.as_str() {
                "py" => ScriptLanguage::Python,
                "ts" => ScriptLanguage::TypeScript,
                _ => ScriptLanguage::JavaScript,
            };
            body(&one.value, language, problems)
        }
        [] => {
            if !fields.has_unknown_keys {
                let problem = Diagnostic::new("missing-key", "the `script` has no text", entry.key_span);
                problems.push(problem.hint("script: return input.count + 1"));
            }
            None
        }
        [_, second, ..] => {
            let message = "a `script` has one language";
            problems.push(Diagnostic::new("value", message, second.key_span).hint("make two steps of it"));
            None
        }
    }
}

/// What an expression of the workflow reads, if the text of a script has one. In no language does a
/// path begin so.
fn expression(text: &str) -> Option<&'static str> {
    let rests = text.split("${").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('.'));
    let mut named = rests.filter_map(|rest| {
        ["inputs", "steps", "item", "run"].into_iter().find(|name| {
            rest.strip_prefix(name)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        })
    });
    named.next()
}

fn body(node: &Node, language: ScriptLanguage, problems: &mut Diagnostics) -> Option<InlineScript> {
    text(node, "script", problems)?;
    let scalar = node.as_scalar()?;
    if scalar.text.trim().is_empty() {
        problems.push(Diagnostic::new("value", "the `script` is empty", node.span).hint("script: return input"));
        return None;
    }
    if let Some(language) = ScriptLanguage::of(&scalar.text).filter(|_| !scalar.text.contains(char::is_whitespace)) {
        let message = "`script` holds the program itself, not the name of its file";
        let hint = match language {
            ScriptLanguage::Python => "for a file, write uses: ./program.py",
            _ => "for a file, write uses: ./program.js",
        };
        problems.push(Diagnostic::new("value", message, node.span).hint(hint));
        return None;
    }
    if let Some(name) = expression(&scalar.text) {
        let message = format!("`${{ .{name}` is no expression in a script");
        let hint =
            format!("give it as data, with: {{ value: \"${{ .{name}… }}\" }}, and read input.value in the script");
        problems.push(Diagnostic::new("expression", message, node.span).hint(hint));
        return None;
    }
    Some(InlineScript { language, span: node.span, scalar: scalar.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::model;

    const FILE: &str = "steps:\n  - id: a\n    script: |\n\n      const x = 1;\n        return ümlaut + x;\n  - \
        { id: b, script: \"return\\n y\" }\n  - id: c\n    script:\n      py: |-\n        return 1\n";

    fn scripts(source: &Source) -> Vec<InlineScript> {
        let mut problems = Diagnostics::new(source.clone());
        let root = crate::workflow::syntax::parse(source, &mut problems).unwrap();
        let workflow = model::read(&root, &mut problems);
        assert!(problems.is_empty(), "{problems}");
        let script = |step: model::Step| match step.action {
            model::Action::Script(script) => script,
            other => panic!("{other:?}"),
        };
        workflow.steps.into_iter().map(script).collect()
    }

    #[test]
    fn a_place_of_a_script_is_found_in_the_file() {
        let source = Source::new("f.yaml", FILE);
        let scripts = scripts(&source);
        let at = |script: usize, line, column| {
            let script = &scripts[script];
            let span = script.span_at(&source, script.line(&source) as usize + line, column);
            let place = source.position(span.start);
            (place.line, place.column, source.slice(span))
        };
        assert_eq!(at(0, 1, 7), (5, 13, "x"));
        assert_eq!(at(0, 2, 10), (6, 16, "ümlaut"));
        assert_eq!(at(0, 2, 19), (6, 25, "x"));
        assert_eq!(at(1, 0, 1), (7, 23, "return"));
        assert_eq!(at(2, 0, 8), (11, 16, "1"));
        assert_eq!(scripts[2].language, ScriptLanguage::Python);
        // Beyond the text.
        assert_eq!(at(0, 9, 99).2, "");
        assert_eq!(scripts.iter().map(|script| script.line(&source)).collect::<Vec<_>>(), [4, 7, 11]);
    }
}
