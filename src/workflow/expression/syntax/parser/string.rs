//! Strings, their formats, and the expressions in them.

use super::super::lexer::{Piece, Token};
use super::super::{Id, Term};
use super::{Parser, Result};

impl Parser<'_> {
    /// `@name`, or a string of that format.
    pub(super) fn format(&mut self, start: usize, name: &str) -> Result<Id> {
        self.take()?;
        match self.peek()? {
            Token::Quote => self.string_from(start),
            _ => self.add(start, Term::Call { name: format!("@{name}"), arguments: Vec::new() }, &[]),
        }
    }

    /// A string, perhaps with a format before it.
    pub(super) fn string(&mut self) -> Result<Id> {
        let start = self.start()?;
        if let Token::Format(_) = self.peek()? {
            self.take()?;
        }
        match self.peek()? {
            Token::Quote => self.string_from(start),
            _ => self.unexpected("a string"),
        }
    }

    fn string_from(&mut self, start: usize) -> Result<Id> {
        self.take()?;
        let mut text = String::new();
        let mut known = true;
        let mut parts = Vec::new();
        loop {
            match self.lexer.piece()? {
                Piece::Text(raw) => match serde_json::from_str::<String>(&format!("\"{}\"", control_escaped(raw))) {
                    Ok(part) => text.push_str(&part),
                    // jq replaces invalid characters; the host need not know by what.
                    Err(_) => known = false,
                },
                Piece::Interpolation => {
                    parts.push(self.query()?);
                    if self.peek()? != Token::Sign(")") {
                        return self.unexpected("`)`");
                    }
                    self.take()?;
                }
                Piece::Close => break,
            }
        }
        self.end = self.lexer.position();
        if known && parts.is_empty() {
            return self.add(start, Term::Text(text), &[]);
        }
        let children = parts.clone();
        self.add(start, Term::Interpolated(parts), &children)
    }
}

/// Escapes control characters, which jq's strings may hold literally and JSON's may not.
fn control_escaped(raw: &str) -> std::borrow::Cow<'_, str> {
    if raw.bytes().all(|b| b >= 0x20) {
        return raw.into();
    }
    let mut escaped = String::with_capacity(raw.len() + 8);
    for c in raw.chars() {
        match c {
            '\0'..'\x20' => escaped.push_str(&format!("\\u{:04x}", c as u32)),
            _ => escaped.push(c),
        }
    }
    escaped.into()
}
