//! The meaning of plain scalars (the core schema of YAML 1.2), and the position in the file of each
//! part of a scalar's text.

use super::{Scalar, Source, Span, Style};
use serde_json::Value;
use std::borrow::Cow;

/// The meaning of a scalar without quotes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Plain<'a> {
    /// Empty, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number in JSON notation, all digits kept.
    Number(Cow<'a, str>),
    /// `.inf` or `.nan`: a number that JSON does not have.
    NotJson,
    /// Anything else.
    Text(&'a str),
}

impl Plain<'_> {
    pub(crate) fn to_json(&self) -> Result<Value, &'static str> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(text) => serde_json::from_str(text).map_err(|_| "JSON cannot hold this number")?,
            Self::NotJson => return Err("JSON has no infinity and no NaN"),
            Self::Text(text) => Value::String((*text).to_owned()),
        })
    }
}

/// Determines the meaning of a plain scalar.
pub(crate) fn resolve(text: &str) -> Plain<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Null,
        "true" | "True" | "TRUE" => Plain::Bool(true),
        "false" | "False" | "FALSE" => Plain::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Plain::NotJson,
        _ if matches!(text.trim_start_matches(['-', '+']), ".inf" | ".Inf" | ".INF") => Plain::NotJson,
        _ => number(text).map_or(Plain::Text(text), Plain::Number),
    }
}

fn number(text: &str) -> Option<Cow<'_, str>> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(|n| Cow::Owned(n.to_string()));
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits.strip_prefix('+').map_or(digits, |_| ""), 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits.strip_prefix('+').map_or(digits, |_| ""), 8);
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let all_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let fraction_digits = fraction.unwrap_or("");
    if !all_digits(whole) || !all_digits(fraction_digits) || (whole.is_empty() && fraction_digits.is_empty()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if digits.is_empty() || !all_digits(digits) {
            return None;
        }
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = match fraction {
        None => String::new(),
        Some("") => ".0".to_owned(),
        Some(digits) => format!(".{digits}"),
    };
    let exponent = exponent.map_or(String::new(), |exponent| format!("e{exponent}"));
    Some(Cow::Owned(format!("{sign}{whole}{fraction}{exponent}")))
}

/// Maps the parts of a scalar's text to positions in the file.
pub(crate) struct ScalarOffsets {
    /// For each byte of the text, and its end, the byte of the file.
    table: Vec<u32>,
}

impl ScalarOffsets {
    /// Walks the text and its source side by side. They differ at escapes, doubled quotes, folded
    /// line ends and indentation; each of these is recognised in the source.
    pub(crate) fn new(source: &Source, span: Span, Scalar { text, style }: &Scalar) -> Self {
        let raw = source.slice(span);
        let mut at = match style {
            Style::Single | Style::Double => 1,
            Style::Plain | Style::Block => 0,
        };
        let mut table = Vec::with_capacity(text.len() + 1);
        let place = |at: usize| span.start + at.min(raw.len()) as u32;
        // A block's span begins at its first line that is not empty.
        let is_begun = raw.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
        let empty =
            if *style == Style::Block && !is_begun { text.len() - text.trim_start_matches('\n').len() } else { 0 };
        table.extend(std::iter::repeat_n(place(at), empty));
        for wanted in text[empty..].chars() {
            at = skip_layout(raw, at, *style, wanted);
            table.extend(std::iter::repeat_n(place(at), wanted.len_utf8()));
            at += written_len(raw, at, *style, wanted);
        }
        table.push(place(at));
        Self { table }
    }

    /// The position of a byte of the text, or of the text's end for a byte beyond it.
    pub(crate) fn at(&self, offset: usize) -> u32 {
        self.table[offset.min(self.table.len() - 1)]
    }
}

/// Skips source that has no counterpart in the text: indentation and folded line ends.
fn skip_layout(raw: &str, mut at: usize, style: Style, wanted: char) -> usize {
    loop {
        let rest = &raw[at.min(raw.len())..];
        if style == Style::Double && rest.starts_with("\\\n") {
            at += 2 + leading_blanks(&rest[2..]);
        } else if wanted != '\n' && wanted != ' ' && rest.starts_with(['\n', '\r', ' ', '\t']) {
            at += 1;
        } else {
            return at;
        }
    }
}

/// The number of source bytes for one character of the text.
fn written_len(raw: &str, at: usize, style: Style, wanted: char) -> usize {
    let rest = &raw[at.min(raw.len())..];
    match style {
        Style::Single if rest.starts_with("''") => 2,
        Style::Double if rest.starts_with('\\') => escape_len(rest),
        // A folded line end became a space, together with the blanks around it.
        Style::Plain | Style::Single | Style::Double | Style::Block
            if (wanted == ' ' && rest.trim_start_matches([' ', '\t']).starts_with(['\n', '\r'])) || wanted == '\n' =>
        {
            let blanks = leading_blanks(rest);
            let line_end = rest[blanks..].find(|c| c != '\r').unwrap_or(0) + 1;
            let next = (blanks + line_end).min(rest.len());
            // Indentation belongs to the line end, except that a block keeps what exceeds its own.
            if style == Style::Block { next } else { next + leading_blanks(&rest[next..]) }
        }
        _ => rest.chars().next().map_or(0, char::len_utf8),
    }
}

fn escape_len(rest: &str) -> usize {
    match rest.as_bytes().get(1) {
        Some(b'x') => 4,
        Some(b'u') => 6,
        Some(b'U') => 10,
        Some(_) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        None => 1,
    }
    .min(rest.len())
}

fn leading_blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}
