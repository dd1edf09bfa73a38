//! Where in a file a position is, found from lines and brackets, so that it works in a text
//! that is not YAML just now.

use crate::workflow::model::keys::{Keys, Part, Shape};

/// A part of the path to a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Key(String),
    Item,
}

/// What stands at a position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    /// The path to the mapping of a key, or to a value.
    pub(super) path: Vec<Step>,
    /// Whether a key is, or may be, at the position; else a value.
    pub(super) is_key: bool,
    /// The keys that the mapping has already, as far as they are near.
    pub(super) siblings: Vec<String>,
    /// The text of an expression up to the position.
    pub(super) expression: Option<String>,
    /// The word before the position.
    pub(super) word: String,
}

/// A key or a dash at the beginning of a line.
#[derive(Clone, Debug)]
enum Opener {
    Dash(usize),
    Key(usize, String),
}

impl Opener {
    fn column(&self) -> usize {
        match self {
            Self::Dash(column) | Self::Key(column, _) => *column,
        }
    }
}

/// The keys and dashes of a line, and where the value behind them begins.
fn openers(line: &str) -> (Vec<Opener>, usize) {
    let mut found = Vec::new();
    let mut at = line.len() - line.trim_start_matches(' ').len();
    loop {
        let rest = &line[at..];
        if let Some(behind) = rest.strip_prefix('-').filter(|behind| behind.is_empty() || behind.starts_with(' ')) {
            found.push(Opener::Dash(at));
            at += 1 + behind.len() - behind.trim_start_matches(' ').len();
            continue;
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '$'))).unwrap_or(rest.len());
        let behind = &rest[end..];
        if end > 0 && behind.starts_with(':') && (behind.len() == 1 || behind[1..].starts_with([' ', '\r'])) {
            found.push(Opener::Key(at, rest[..end].to_owned()));
            let value = &behind[1..];
            at += end + 1 + value.len() - value.trim_start_matches(' ').len();
        }
        return (found, at);
    }
}

/// Finds what stands at a byte of a text.
pub(super) fn find(text: &str, byte: usize) -> Cursor {
    let start = text[..byte].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[start..byte];
    let line = text[start..].split('\n').next().unwrap_or_default();
    let (mut own, value_at) = openers(line);
    let is_key = byte - start < value_at
        && matches!(own.last(), Some(Opener::Key(column, name)) if byte - start <= column + name.len());
    let is_behind = byte - start >= value_at && matches!(own.last(), Some(Opener::Key(..)));
    if is_key {
        own.pop();
    }
    let is_item_value = byte - start >= value_at && matches!(own.last(), Some(Opener::Dash(_)));
    let column = if is_behind || is_key || is_item_value { value_at } else { byte - start - word(before).len() };
    let own: Vec<Opener> = own.into_iter().filter(|opener| opener.column() < byte - start).collect();
    let key_column = if is_key { byte - start - word(before).len() } else { column };
    let mut path = ancestors(text, start, &own, key_column);
    let mut cursor = Cursor {
        path: Vec::new(),
        is_key: !is_behind,
        siblings: Vec::new(),
        expression: expression(before),
        word: word(before).to_owned(),
    };
    let value = before.get(value_at.min(before.len())..).unwrap_or_default();
    if value.starts_with(['{', '[']) && (is_behind || is_item_value) {
        (cursor.is_key, cursor.siblings) = brackets(value, &mut path);
    } else if !is_behind {
        cursor.siblings = siblings(text, start, key_column);
    }
    cursor.path = path;
    cursor
}

/// The path to what begins at a column of the line at `start`, whose own openers are given.
fn ancestors(text: &str, start: usize, own: &[Opener], column: usize) -> Vec<Step> {
    let mut path = Vec::new();
    let mut needed = column;
    let mut is_list = false;
    let mut take = |opener: &Opener| {
        let (is_ancestor, step, is_dash) = match opener {
            Opener::Dash(column) => (*column < needed, Step::Item, true),
            // A list may stand as far left as its key.
            Opener::Key(column, name) => {
                (*column < needed || (is_list && *column == needed), Step::Key(name.clone()), false)
            }
        };
        if is_ancestor {
            path.push(step);
            needed = opener.column();
            is_list = is_dash;
        }
    };
    own.iter().rev().for_each(&mut take);
    for line in text[..start].trim_end_matches('\n').rsplit('\n') {
        if line.trim_start().starts_with('#') {
            continue;
        }
        openers(line).0.iter().rev().for_each(&mut take);
        if line.starts_with(|c: char| c.is_alphanumeric()) {
            break;
        }
    }
    path.reverse();
    path
}

/// The keys at a column above and below a line, up to a line that is less indented.
fn siblings(text: &str, start: usize, column: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |line: &str| {
        let mut is_inside = line.trim().is_empty();
        for opener in openers(line).0 {
            is_inside |= opener.column() >= column;
            if let Opener::Key(at, name) = opener
                && at == column
            {
                found.push(name);
            }
        }
        let indent = line.len() - line.trim_start().len();
        indent >= column || (is_inside && !line.trim_start().starts_with('-'))
    };
    // What begins an item of a list has no keys above it.
    let own = text[start..].split('\n').next().unwrap_or_default();
    let begins_item = own.trim_start().starts_with('-') && own.len() - own.trim_start().len() < column;
    for line in text[..start].trim_end_matches('\n').rsplit('\n') {
        if start == 0 || begins_item || !look(line) {
            break;
        }
    }
    for line in text[start..].split('\n').skip(1) {
        let is_next_item = line.trim_start().starts_with('-') && line.len() - line.trim_start().len() < column;
        if is_next_item || !look(line) {
            break;
        }
    }
    found
}

/// Goes into brackets up to the end of a text. Returns whether a key comes next, and the keys that
/// the innermost mapping has.
fn brackets(text: &str, path: &mut Vec<Step>) -> (bool, Vec<String>) {
    let mut open: Vec<(char, Vec<String>, bool)> = Vec::new();
    let mut quote = None;
    let mut token = String::new();
    let mut previous = ' ';
    for c in text.chars() {
        match (quote, c) {
            (Some(mark), _) if mark == c && previous != '\\' => quote = None,
            (Some(_), _) => token.push(c),
            (None, '"' | '\'') if token.trim().is_empty() => quote = Some(c),
            (None, '{' | '[') => {
                open.push((c, Vec::new(), false));
                token.clear();
            }
            (None, '}' | ']') => {
                open.pop();
                token.clear();
            }
            (None, ',') => {
                if let Some((_, _, has_key)) = open.last_mut() {
                    *has_key = false;
                }
                token.clear();
            }
            (None, ' ') if previous == ':' => {
                if let Some((_, keys, has_key)) = open.last_mut() {
                    keys.push(token.trim().trim_end_matches(':').to_owned());
                    *has_key = true;
                }
                token.clear();
            }
            (None, _) => token.push(c),
        }
        previous = c;
    }
    let mut result = (false, Vec::new());
    for (bracket, keys, has_key) in open {
        result = (false, Vec::new());
        match (bracket, has_key) {
            ('[', _) => path.push(Step::Item),
            (_, true) => path.push(Step::Key(keys.last().cloned().unwrap_or_default())),
            _ => result = (true, keys),
        }
    }
    result
}

/// The text of an open expression.
fn expression(before: &str) -> Option<String> {
    let at = before.rfind("${")?;
    let inside = &before[at + 2..];
    let depth = inside.chars().fold(0, |depth, c| match c {
        '{' => depth + 1,
        '}' => depth - 1,
        _ => depth,
    });
    (depth >= 0).then(|| inside.to_owned())
}

fn word(before: &str) -> &str {
    let at = before
        .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '$')))
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    &before[at..]
}

/// The shapes of what a path in a file leads to.
pub(super) fn shapes(file: &'static Shape, path: &[Step]) -> Vec<&'static Shape> {
    let mut found = vec![file];
    for step in path {
        let part = match step {
            Step::Key(name) => Part::Key(name),
            Step::Item => Part::Item,
        };
        found = found.into_iter().flat_map(|shape| shape.within(part)).collect();
    }
    found
}

/// The mappings with known keys that a path may lead to.
pub(super) fn mappings(file: &'static Shape, path: &[Step]) -> Vec<&'static Keys> {
    shapes(file, path).into_iter().flat_map(Shape::mappings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path, whether a key comes next, and the keys that are there, at `‸`.
    fn at(text: &str) -> String {
        let byte = text.find('‸').unwrap();
        let cursor = find(&text.replace('‸', ""), byte);
        let path: Vec<String> = cursor
            .path
            .iter()
            .map(|step| match step {
                Step::Key(key) => key.clone(),
                Step::Item => "-".to_owned(),
            })
            .collect();
        let kind = if cursor.is_key { "key" } else { "value" };
        let mut siblings = cursor.siblings;
        siblings.sort();
        format!("{} {kind} {}", path.join("/"), siblings.join(","))
    }

    #[test]
    fn lines_and_brackets_say_where_it_is() {
        let head = "name: x\nsteps:\n  - id: a\n    retry:\n      max: 3\n";
        assert_eq!(at("na‸"), " key ");
        assert_eq!(at(&format!("{head}    ‸")), "steps/- key id,retry");
        assert_eq!(at(&format!("{head}    ne‸\n    set: 1\n  - id: b\n")), "steps/- key id,retry,set");
        assert_eq!(at(&format!("{head}      ba‸")), "steps/-/retry key max");
        assert_eq!(at(&format!("{head}  - ‸")), "steps/- key ");
        assert_eq!(at(&format!("{head}  - id: b\n    when: fa‸")), "steps/-/when value ");
        assert_eq!(at(&format!("{head}  - {{ id: b, needs: [ ‸")), "steps/-/needs/- value ");
        assert_eq!(at(&format!("{head}  - {{ id: b, re‸ }}")), "steps/- key id");
        assert_eq!(at("steps:\n- id: a\n  wait: { si‸"), "steps/-/wait key ");
        assert_eq!(at("steps:\n- id: a\n  n‸"), "steps/- key id");
        assert_eq!(at("inputs:\n  n: { type: ‸ }"), "inputs/n/type value ");
        assert_eq!(at("‸name: x\nsteps: []"), " key steps");
    }

    #[test]
    fn expressions_are_found() {
        let expression = |text: &str| find(text, text.len()).expression;
        assert_eq!(expression("set: \"a ${ .steps.").as_deref(), Some(" .steps."));
        assert_eq!(expression("set: ${ .a | {b: 1} | .").as_deref(), Some(" .a | {b: 1} | ."));
        assert_eq!(expression("set: ${ .a } and "), None);
    }
}
