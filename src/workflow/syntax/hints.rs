//! Hints for text that is not YAML: what the parser stumbled over is often not where the slip is.

use super::Span;
use saphyr_parser::ScanError;

/// What was probably meant, and the other place where the slip is, if it is elsewhere.
pub(super) struct Hint {
    pub(super) hint: String,
    pub(super) elsewhere: Option<(Span, &'static str)>,
}

/// What the parser says, without its inner words.
pub(super) fn plain_message(info: &str) -> &str {
    const WORDS: &[(&str, &str)] = &[
        ("did not find expected '-' indicator", "the indentation of this line fits no line above it"),
        (
            "while parsing a block mapping, did not find expected key",
            "the indentation of this line fits no line above it",
        ),
        ("mapping values are not allowed", "a key with a value cannot stand here"),
        ("mapping keys are not allowed", "a key cannot stand here"),
        ("block sequence entries are not allowed", "an item of a list cannot stand here"),
        ("flow mapping, did not find expected ',' or '}'", "there is no `,` or `}` here"),
        ("flow sequence, expected ',' or ']'", "there is no `,` or `]` here"),
        ("quoted scalar, found unexpected end of stream", "this quote is never closed"),
        ("invalid trailing content after double-quoted scalar", "there is text after the closing quote"),
        ("found unknown escape character", "there is no such escape in a text with double quotes"),
        ("tabs disallowed", "there is a tab in the indentation"),
        ("tab cannot be used as indentation", "there is a tab in the indentation"),
    ];
    WORDS.iter().find(|(theirs, _)| info.contains(theirs)).map_or(info, |(_, ours)| ours)
}

/// How far a line is indented.
fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The indentations that a line could have, by those above it: the nearest that is smaller, and the
/// nearest that is larger.
fn indentations(text: &str, start: usize, line: &str) -> Option<String> {
    let own = indent_of(line);
    let is_item = line.trim_start().starts_with("- ");
    let mut limit = usize::MAX;
    let mut open = Vec::new();
    for above in
        text[..start].lines().rev().filter(|above| !above.trim().is_empty() && !above.trim_start().starts_with('#'))
    {
        let indent = indent_of(above);
        let item = above.trim_start().strip_prefix('-').filter(|rest| rest.starts_with(' '));
        // What an item holds is indented by more than its dash.
        let inner = item.map(|rest| indent + 1 + indent_of(rest));
        for (column, opens_item) in [(inner, false), (Some(indent), item.is_some())] {
            if let Some(column) = column.filter(|column| *column < limit) {
                limit = column;
                if opens_item == is_item {
                    open.push(column);
                }
            }
        }
    }
    let (less, more) = (open.iter().find(|column| **column < own), open.iter().rfind(|column| **column > own));
    match (less, more) {
        (Some(less), Some(more)) => {
            Some(format!("indent it by {less} or {more} spaces, as the lines that it belongs to"))
        }
        (Some(one), None) | (None, Some(one)) => {
            Some(format!("indent it by {one} spaces, as the lines that it belongs to"))
        }
        (None, None) => None,
    }
}

/// The hint for an error at a byte of the text.
pub(super) fn of(text: &str, at: usize, error: &ScanError) -> Option<Hint> {
    let here = |hint: &str| Some(Hint { hint: hint.to_owned(), elsewhere: None });
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let before = &text[start..at];
    let line = text[start..].lines().next().unwrap_or_default();
    let info = error.info();
    if text[..at].ends_with('$') && text[at..].starts_with('{') {
        return here("quote an expression within `{ }` or `[ ]`: \"${ … }\"");
    }
    if line.contains("${") && before.contains("${") {
        return here("YAML takes `: ` for the end of a key: quote the expression, '${ … }', or write it after `|`");
    }
    if before.contains('\t') {
        return here("indent with spaces: YAML refuses tabs");
    }
    if info.contains("unknown anchor") {
        return here("an alias starts with `*`: quote the text if it is none");
    }
    if info.contains("unexpected character") || info.contains("anchor or alias") {
        let first = text[at..].chars().next().filter(|c| !c.is_whitespace() && !matches!(c, ']' | '}' | ','));
        let first = first.or_else(|| before.trim_end().chars().next_back())?;
        return here(&format!("quote a value that begins with `{first}`: \"{first}…\""));
    }
    if let Some(open) = open_bracket(&text[..at]).filter(|open| *open < start) {
        let bracket = &text[open..=open];
        let closing = if bracket == "[" { "]" } else { "}" };
        return Some(Hint {
            hint: format!("close it by `{closing}`"),
            elsewhere: Some((Span::new(open..open + 1), "this is still open")),
        });
    }
    if plain_message(info).starts_with("the indentation") && before.trim().is_empty() {
        return indentations(text, start, line).map(|hint| Hint { hint, elsewhere: None });
    }
    if info.contains("quoted scalar, found unexpected end") {
        return here("close it with the same quote; a quote within the text is written twice ('') or as \\\"");
    }
    if info.contains("mapping values are not allowed") {
        return slip_above(text, start)
            .or_else(|| here("check the indentation, and quote a value that has `: ` in it"));
    }
    None
}

/// The innermost bracket that is open at the end of a text; what stands in quotes and comments does not count.
fn open_bracket(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        // A quote or a bracket within a word is a part of it, unless a bracket is open already.
        let begins = previous.is_whitespace() || matches!(previous, '[' | '{' | ',' | ':');
        match (quote, c) {
            (Some('"'), '\\') if previous == '\\' => {
                previous = ' ';
                continue;
            }
            (Some('"'), '"') if previous == '\\' => {}
            (Some('#'), '\n') => quote = None,
            (Some(mark), _) if mark == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if begins => quote = Some(c),
            (None, '#') if previous.is_whitespace() => quote = Some('#'),
            (None, '[' | '{') if begins || !open.is_empty() => open.push(at),
            (None, ']' | '}') => drop(open.pop()),
            _ => {}
        }
        previous = c;
    }
    open.pop()
}

/// A key or an item of the line above that lacks its blank, by which the whole line became text.
fn slip_above(text: &str, start: usize) -> Option<Hint> {
    let end = text[..start].trim_end().len();
    let above = text[..end].rfind('\n').map_or(0, |end| end + 1);
    let line = text[above..end].trim_start();
    let from = end - line.len();
    let after_dash = line.strip_prefix('-').filter(|rest| rest.starts_with(char::is_alphabetic));
    let item = line.strip_prefix("- ").unwrap_or(line).trim_start();
    let colon = item.find(':').filter(|at| {
        let (key, rest) = (&item[..*at], &item[*at + 1..]);
        !key.is_empty()
            && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
            && rest.starts_with(|c: char| !c.is_whitespace() && c != '/')
    });
    let hint = match (after_dash, colon) {
        (Some(rest), _) => format!("a dash needs a blank after it: - {}", shorten(rest)),
        (None, Some(at)) => {
            format!("a colon needs a blank after it: {}: {}", &item[..at], shorten(&item[at + 1..]))
        }
        _ => return None,
    };
    Some(Hint { hint, elsewhere: Some((Span::new(from..end), "this is one text")) })
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::open_bracket;

    #[test]
    fn the_innermost_open_bracket_is_found() {
        assert_eq!(open_bracket("a: [ b, { c: d }"), Some(3));
        assert_eq!(open_bracket("a: [ b, { c: [ d ]"), Some(8));
        assert_eq!(open_bracket("a: [ b ] # ["), None);
        assert_eq!(open_bracket("a: '[' \n\"\\\"[\": x[1]"), None);
        assert_eq!(open_bracket("a: it's [ b"), Some(8));
        assert_eq!(open_bracket("é: ${ .x[0] }"), None);
    }
}
