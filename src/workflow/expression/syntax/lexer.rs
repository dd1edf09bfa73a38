//! jq's tokens (`src/lexer.l` of 1.8.2), one at a time. The parser reads strings, since they may
//! hold expressions.

use super::SyntaxError;
use std::ops::Range;

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// An identifier or a keyword.
    Word(&'a str),
    /// `.name`: the name.
    Field(&'a str),
    /// `$name`: the name.
    Variable(&'a str),
    /// `@name`: the name.
    Format(&'a str),
    /// A number.
    Number(&'a str),
    /// The `"` that begins a string.
    Quote,
    /// An operator or a bracket.
    Sign(&'a str),
    /// The end of the text.
    End,
}

/// A piece of a string.
pub(super) enum Piece<'a> {
    /// Text, with its escapes unresolved.
    Text(&'a str),
    /// `\(`: an expression follows.
    Interpolation,
    /// The closing `"`.
    Close,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// Operators and brackets, longer ones first.
const SIGNS: &[&str] = &[
    "?//", "//=", "!=", "==", "//", "|=", "+=", "-=", "*=", "/=", "%=", "<=", ">=", "..", ".", "?", "=", ";", ",", ":",
    "|", "+", "-", "*", "/", "%", "$", "<", ">", "(", ")", "[", "]", "{", "}",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The offset of the next token, or of the white space before it.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next token and its span.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, Range<usize>), SyntaxError> {
        self.at += blank(&self.text[self.at..]);
        let start = self.at;
        let rest = &self.text[start..];
        let bytes = rest.as_bytes();
        let second = bytes.get(1).copied().unwrap_or(0);
        let (token, length) = match bytes.first().copied() {
            None => (Token::End, 0),
            Some(b'"') => (Token::Quote, 1),
            Some(b'.') if starts_name(second) => {
                let name = simple_name(&rest[1..]);
                (Token::Field(name), 1 + name.len())
            }
            Some(b'$') if starts_name(second) => {
                let name = qualified_name(&rest[1..]);
                (Token::Variable(name), 1 + name.len())
            }
            Some(b'@') if is_name(second) => {
                let name = &rest[1..=bytes[1..].iter().take_while(|&&b| is_name(b)).count()];
                (Token::Format(name), 1 + name.len())
            }
            Some(b'0'..=b'9') => number(rest),
            Some(b'.') if second.is_ascii_digit() => number(rest),
            Some(b) if starts_name(b) => {
                let name = qualified_name(rest);
                (Token::Word(name), name.len())
            }
            Some(_) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => {
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    let message = format!("`{}` has no meaning here", rest[..length].escape_debug());
                    return Err(SyntaxError { message, span: start..start + length });
                }
            },
        };
        self.at += length;
        Ok((token, start..self.at))
    }

    /// The next piece of a string, after its opening quote or a piece of it.
    pub(super) fn piece(&mut self) -> Result<Piece<'a>, SyntaxError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start;
        while at < bytes.len() {
            match bytes[at] {
                b'"' | b'\\' if at > start && (bytes[at] == b'"' || bytes.get(at + 1) == Some(&b'(')) => {
                    self.at = at;
                    return Ok(Piece::Text(&self.text[start..at]));
                }
                b'"' => {
                    self.at = at + 1;
                    return Ok(Piece::Close);
                }
                b'\\' if bytes.get(at + 1) == Some(&b'(') => {
                    self.at = at + 2;
                    return Ok(Piece::Interpolation);
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        Err(SyntaxError {
            message: "a string has no closing `\"`".into(),
            span: start.min(self.text.len())..self.text.len(),
        })
    }
}

/// The length of the white space and the comments at the beginning of a text.
pub(super) fn blank(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'#') => at += comment(&text[at..]),
            _ => return at,
        }
    }
}

/// The length of a comment, from its `#` to the end of the line. An odd number of backslashes
/// before that end continues it.
pub(in super::super) fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1), bytes.get(at + 2)) {
            (b'\\', Some(b'\r'), Some(b'\n')) => at += 3,
            (b'\\', Some(b'\\' | b'\n'), _) => at += 2,
            (b'\n', ..) => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn starts_name(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn simple_name(text: &str) -> &str {
    &text[..text.bytes().take_while(|&b| is_name(b)).count()]
}

/// `name`, or `module::name`.
fn qualified_name(text: &str) -> &str {
    let mut length = simple_name(text).len();
    while text[length..].starts_with("::") && text.as_bytes().get(length + 2).is_some_and(|&b| starts_name(b)) {
        length += 2 + simple_name(&text[length + 2..]).len();
    }
    &text[..length]
}

/// `([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`
fn number(text: &str) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    (Token::Number(&text[..length]), length)
}
