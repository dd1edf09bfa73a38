//! Hints for text that is not YAML. The mistake is often not where the parser stopped.

use super::Span;
use saphyr_parser::ScanError;

/// What to change, and where, if that is not where the parser stopped.
pub(super) struct Hint {
    pub(super) hint: String,
    pub(super) elsewhere: Option<(Span, &'static str)>,
}

/// The parser's message without its internal terms.
pub(super) fn plain_message(info: &str) -> &str {
    const WORDS: &[(&str, &str)] = &[
        ("did not find expected '-' indicator", "the indentation of this line matches no line above it"),
        (
            "while parsing a block mapping, did not find expected key",
            "the indentation of this line matches no line above it",
        ),
        ("mapping values are not allowed", "a key with a value is not allowed here"),
        ("mapping keys are not allowed", "a key is not allowed here"),
        ("block sequence entries are not allowed", "an item of a list is not allowed here"),
        ("flow mapping, did not find expected ',' or '}'", "expected `,` or `}` here"),
        ("flow sequence, expected ',' or ']'", "expected `,` or `]` here"),
        ("quoted scalar, found unexpected end of stream", "this quote is never closed"),
        ("invalid trailing content after double-quoted scalar", "found text after the closing quote"),
        ("found unknown escape character", "unknown escape in a double-quoted string"),
        ("tabs disallowed", "found a tab in the indentation"),
        ("tab cannot be used as indentation", "found a tab in the indentation"),
    ];
    WORDS.iter().find(|(theirs, _)| info.contains(theirs)).map_or(info, |(_, ours)| ours)
}

/// The indentation of a line, in spaces.
fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Suggests indentations that match the lines above: the nearest smaller one and the nearest larger
/// one.
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
        // The content of an item is indented beyond its dash.
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
            Some(format!("indent it by {less} or {more} spaces, like the lines that it belongs to"))
        }
        (Some(one), None) | (None, Some(one)) => {
            Some(format!("indent it by {one} spaces, like the lines that it belongs to"))
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
        return here("YAML takes `: ` as the end of a key: quote the expression, '${ … }', or write it after `|`");
    }
    if before.contains('\t') {
        return here("indent with spaces: YAML refuses tabs");
    }
    if info.contains("unknown anchor") {
        return here("an alias starts with `*`: quote the text if it is not an alias");
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
            hint: format!("close it with `{closing}`"),
            elsewhere: Some((Span::new(open..open + 1), "this is not closed")),
        });
    }
    if plain_message(info).starts_with("the indentation") && before.trim().is_empty() {
        return indentations(text, start, line).map(|hint| Hint { hint, elsewhere: None });
    }
    if info.contains("quoted scalar, found unexpected end") {
        return here("close it with the same quote; write a quote within the text twice ('') or as \\\"");
    }
    if info.contains("mapping values are not allowed") {
        return missing_blank_above(text, start)
            .or_else(|| here("check the indentation, and quote any value that contains `: `"));
    }
    None
}

/// The innermost bracket that is open at the end of a text, outside of quotes and comments.
fn open_bracket(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        // A quote or a bracket within a word is part of it, unless a bracket is already open.
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

/// A key or an item on the line above without its blank, which made the whole line plain text.
fn missing_blank_above(text: &str, start: usize) -> Option<Hint> {
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
        (Some(rest), _) => format!("add a blank after the dash: - {}", shorten(rest)),
        (None, Some(at)) => {
            format!("add a blank after the colon: {}: {}", &item[..at], shorten(&item[at + 1..]))
        }
        _ => return None,
    };
    Some(Hint { hint, elsewhere: Some((Span::new(from..end), "YAML reads this as plain text")) })
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
