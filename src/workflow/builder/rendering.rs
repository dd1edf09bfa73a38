//! The text of a definition: YAML in block style, a key on each line.

use super::tree::{Map, Tree};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Scalar, Source, Span, Style};
use std::panic::Location;

/// Longest key that is written before its colon: YAML looks no further than 1,024 characters.
const KEY_BYTES_MAX: usize = 1_000;

/// A definition as text.
pub(crate) struct Rendering {
    /// The text of the workflow file.
    pub(crate) text: String,
    /// The steps: the whole of each, its first line, and where it was made. Outer ones come first.
    places: Vec<(Span, Span, &'static Location<'static>)>,
    /// Values that could not be serialised, and why. The text has null in their place.
    unwritable: Vec<(Span, String)>,
}

/// What stands before a value on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Key,
    Dash,
}

impl Rendering {
    pub(super) fn of(keys: &Map) -> Self {
        let mut rendering = Self { text: String::new(), places: Vec::new(), unwritable: Vec::new() };
        rendering.entries(keys, 0, Before::Key);
        rendering
    }

    /// Reports the values that could not be serialised.
    ///
    /// # Errors
    /// Fails if there are some.
    pub(crate) fn check(&self, file: &str) -> Result<(), Diagnostics> {
        let mut problems = Diagnostics::new(Source::new(file, &self.text));
        for (span, why) in &self.unwritable {
            problems.push(Diagnostic::new("value", format!("a value cannot be serialised: {why}"), *span));
        }
        if problems.is_empty() { Ok(()) } else { Err(self.placed(problems)) }
    }

    /// Adds the places in the program to the problems of the text.
    pub(crate) fn placed(&self, problems: Diagnostics) -> Diagnostics {
        let mut placed = Diagnostics::new(problems.source().clone());
        let (kept, dropped) = problems.into_kept();
        for problem in kept {
            let within = |step: &&(Span, Span, _)| step.0.start <= problem.span.start && problem.span.end <= step.0.end;
            let found = self.places.iter().rev().find(within);
            placed.push(match found {
                Some((_, line, place)) => problem.related(*line, format!("the step of {place}")),
                None => problem,
            });
        }
        placed.count_dropped(dropped);
        placed
    }

    fn value(&mut self, value: &Tree, level: usize, before: Before) {
        match value {
            Tree::Map(map) if map.entries.is_empty() => self.text.push_str(" {}\n"),
            Tree::List(items) if items.is_empty() => self.text.push_str(" []\n"),
            Tree::Map(map) => self.entries(map, level, before),
            Tree::List(items) => self.items(items, level, before),
            Tree::Plain(text) => self.text.push_str(&format!(" {text}\n")),
            Tree::Text(text) => match lines(text) {
                Some(ending) => {
                    self.text.push_str(&format!(" |{ending}\n"));
                    for line in text.lines() {
                        if !line.is_empty() {
                            self.indent(level);
                        }
                        self.text.push_str(&format!("{line}\n"));
                    }
                }
                None => self.text.push_str(&format!(" {}\n", scalar(text))),
            },
            Tree::Unwritable(why) => {
                let start = self.text.len() + 1;
                self.text.push_str(" null\n");
                self.unwritable.push((Span::new(start..start + 4), why.clone()));
            }
        }
    }

    fn entries(&mut self, map: &Map, level: usize, before: Before) {
        let (place, mut start) = (self.places.len(), 0);
        for (at, (key, value)) in map.entries.iter().enumerate() {
            self.lead(at == 0, level, before);
            let from = self.text.len();
            let key = scalar(key);
            if key.len() > KEY_BYTES_MAX {
                self.text.push_str(&format!("? {key}\n"));
                self.indent(level);
            } else {
                self.text.push_str(&key);
            }
            self.text.push(':');
            self.value(value, level + 1, Before::Key);
            if let (0, Some(location)) = (at, map.place) {
                start = from;
                let line = self.text[from..].lines().next().map_or(0, str::len);
                let line = Span::new(from..from + line);
                self.places.insert(place, (line, line, location));
            }
        }
        if map.place.is_some() {
            self.places[place].0 = Span::new(start..self.text.len());
        }
    }

    fn items(&mut self, items: &[Tree], level: usize, before: Before) {
        for (at, item) in items.iter().enumerate() {
            self.lead(at == 0, level, before);
            self.text.push('-');
            self.value(item, level + 1, Before::Dash);
        }
    }

    /// Begins the line of an entry or an item. The first one after a dash stands beside it.
    fn lead(&mut self, is_first: bool, level: usize, before: Before) {
        match before {
            Before::Dash if is_first => self.text.push(' '),
            Before::Key if is_first && level > 0 => {
                self.text.push('\n');
                self.indent(level);
            }
            _ => self.indent(level),
        }
    }

    fn indent(&mut self, level: usize) {
        self.text.extend(std::iter::repeat_n("  ", level));
    }
}

/// How the text ends, after the sign of a block scalar, if it can be written as one.
fn lines(text: &str) -> Option<&'static str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    // The reader drops the end of a block that is one expression.
    let is_ended_expression = body.len() < text.len() && body.starts_with("${") && body.ends_with('}');
    let is_shown = |c: char| c == '\n' || !needs_escape(c);
    let is_block = text.contains('\n')
        && !body.is_empty()
        && !is_ended_expression
        && !body.starts_with([' ', '\n'])
        && !body.ends_with('\n')
        && text.chars().all(is_shown)
        && body.lines().all(|line| line.is_empty() || !line.trim().is_empty());
    is_block.then_some(if body.len() == text.len() { "-" } else { "" })
}

/// A string on one line: without quotes if it then means the same.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "$_./".contains(c))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(needs_escape)
        && Scalar { text: text.to_owned(), style: Style::Plain }.is_string();
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// JSON's string is YAML's, but for characters that YAML does not show.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for c in serde_json::Value::from(text).to_string().chars() {
        if needs_escape(c) {
            quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            quoted.push(c);
        }
    }
    quoted
}

/// Whether a character has to be escaped: a control character, an end of a line, a mark of the
/// order of bytes, or none at all.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
