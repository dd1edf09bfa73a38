//! Gives each line its indentation, and writes the blanks between its parts.

use super::outline::{INDENT, Opener, Outline, Role};

/// A line of the result.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) indent: usize,
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// What matters about a line when lines are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Nothing is on it, and it may be left out.
    Blank,
    Comment,
    Other,
}

pub(super) fn lay_out(text: &str, outline: &Outline) -> Vec<Line> {
    let count = outline.starts.len();
    let mut lines: Vec<Line> = Vec::with_capacity(count);
    let mut levels: Vec<(usize, usize)> = Vec::new();
    for number in 0..count {
        let start = outline.starts[number];
        let raw = text[start..].split('\n').next().unwrap_or_default();
        let body = raw.trim_start_matches([' ', '\t']);
        let (indent, text, kind) = match outline.roles[number] {
            Role::Blank => (0, String::new(), Kind::Blank),
            Role::Marker => (0, body.trim_end().to_owned(), Kind::Other),
            Role::Comment => {
                let old = raw.len() - body.len();
                let indent = comment_indent(old, &levels, next_level(outline, number));
                (indent, body.trim_end().to_owned(), Kind::Comment)
            }
            Role::Opens { first, count } => {
                let openers = &outline.openers[first..first + count];
                enter(&mut levels, openers);
                (openers[0].new, opening(text, start + raw.len(), openers, outline.open_text[number]), Kind::Other)
            }
            Role::Value { column } | Role::Text { column } => {
                let keeps = outline.open_text[number];
                (column, if keeps { body } else { body.trim_end() }.to_owned(), Kind::Other)
            }
            Role::Flow { begins } => {
                let old_begins = indent_of(text, outline.starts[begins]);
                let indent = (raw.len() - body.len() + lines[begins].indent).saturating_sub(old_begins);
                (indent, if outline.open_text[number] { body } else { body.trim_end() }.to_owned(), Kind::Other)
            }
            Role::Block { strip, column } => {
                let content = if raw.len() >= strip { &raw[strip..] } else { "" };
                (column, content.to_owned(), Kind::Other)
            }
        };
        let indent = if text.is_empty() { 0 } else { indent };
        lines.push(Line { indent, text, kind });
    }
    lines
}

fn indent_of(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    rest.len() - rest.trim_start_matches([' ', '\t']).len()
}

/// Leaves the levels that a line closes, and enters those that it opens.
fn enter(levels: &mut Vec<(usize, usize)>, openers: &[Opener]) {
    for opener in openers {
        while levels.last().is_some_and(|(_, new)| *new >= opener.new) {
            levels.pop();
        }
        levels.push((opener.old, opener.new));
    }
}

/// The old and the new column of the next line that begins a key or an item.
fn next_level(outline: &Outline, number: usize) -> (usize, usize) {
    let next = outline.roles[number..].iter().find_map(|role| match role {
        Role::Opens { first, .. } => Some(&outline.openers[*first]),
        _ => None,
    });
    next.map_or((0, 0), |opener| (opener.old, opener.new))
}

/// The indentation of a comment on a line of its own: that of the next key or item, unless it is
/// deeper, with what is above.
fn comment_indent(old: usize, levels: &[(usize, usize)], next: (usize, usize)) -> usize {
    if old <= next.0 {
        return next.1;
    }
    match levels.iter().rev().find(|(level, _)| *level <= old) {
        Some((level, new)) if *level == old => *new,
        Some((_, new)) => (new + INDENT).max(next.1),
        None => next.1,
    }
}

/// A line that begins keys or items, without its indentation.
fn opening(text: &str, line_end: usize, openers: &[Opener], keeps_end: bool) -> String {
    let mut out = String::new();
    for opener in openers {
        if opener.is_dash {
            out.push_str("- ");
        } else {
            out.push_str(&text[opener.start..opener.end]);
            out.push(':');
        }
    }
    let last = openers.last().expect("invariant: such a line has an opener");
    let rest = &text[last.after..line_end];
    let value = rest.trim_start_matches([' ', '\t']);
    let blanks = rest.len() - value.len();
    let value = if keeps_end { value } else { value.trim_end() };
    if value.is_empty() {
        return out.trim_end().to_owned();
    }
    // The distance of a comment is its author's; it has at least one blank before it.
    let gap = if value.starts_with('#') { blanks.max(1) } else { 1 };
    let written = usize::from(last.is_dash);
    out.push_str(&" ".repeat(gap - written.min(gap)));
    out.push_str(value);
    out
}

/// The text of lines: no blank lines at both ends, and never two in a row.
pub(super) fn join(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut is_blank_due = false;
    for line in lines {
        if line.kind == Kind::Blank {
            is_blank_due = !out.is_empty();
            continue;
        }
        if std::mem::take(&mut is_blank_due) {
            out.push('\n');
        }
        if !line.text.is_empty() {
            out.push_str(&" ".repeat(line.indent));
            out.push_str(&line.text);
        }
        out.push('\n');
    }
    out
}
