//! Checks piece by piece whether a text is one well-formed JSON value (RFC 8259).
//!
//! A text passes if every reader of serde_json takes it: numbers of any length, no lone surrogates,
//! no control characters in texts. The check reads no values, its time grows with the text and its
//! memory does not, and it can be interrupted, so that others have their turn while the text of a
//! guest is checked.

use super::payload::JSON_DEPTH_MAX;
use std::fmt;

/// Names by which serde_json passes numbers and raw texts through maps: an object with such a name
/// would not be read as one.
const RESERVED: [&str; 2] = ["$serde_json::private::Number", "$serde_json::private::RawValue"];

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flaw {
    what: &'static str,
    line: usize,
    column: usize,
    /// It nests deeper than allowed, and is well-formed so far.
    #[cfg_attr(not(feature = "wasm"), allow(dead_code, reason = "asked where guests are"))]
    pub(crate) too_deep: bool,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.what, self.line, self.column)
    }
}

/// A check in progress. It is always given the same text.
pub(crate) struct Check {
    at: usize,
    expects: Expects,
    /// The arrays and objects that are open: a set bit is an object, the lowest is the innermost.
    open: u128,
    depth: usize,
    depth_max: usize,
}

#[derive(Clone, Copy)]
enum Expects {
    Value,
    /// A value, or the end of the array that has just begun.
    FirstItem,
    /// A name, or the end of the object that has just begun.
    FirstName,
    Name,
    Colon,
    /// A comma or the end of what is open; the end of the text where nothing is.
    End,
    /// The rest of a text. The name of a member begins there.
    Text {
        name: Option<usize>,
    },
}

type Checked<T> = Result<T, &'static str>;

impl Check {
    /// A check of a text whose arrays and objects may nest to this depth, [`JSON_DEPTH_MAX`] at
    /// most.
    pub(crate) fn new(depth_max: usize) -> Self {
        debug_assert!(depth_max <= JSON_DEPTH_MAX, "the open ones have a bit each");
        Self { at: 0, expects: Expects::Value, open: 0, depth: 0, depth_max }
    }

    /// Continues until about so many further bytes are checked. Returns whether the text is
    /// well-formed to its end.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn advance(&mut self, text: &str, bytes: usize) -> Result<bool, Flaw> {
        let until = self.at.saturating_add(bytes).min(text.len());
        self.check(text.as_bytes(), until).map_err(|what| self.flaw(text, what))
    }

    fn flaw(&self, text: &str, what: &'static str) -> Flaw {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line_from = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before.split(|byte| *byte == b'\n').skip(1).count();
        Flaw { what, line, column: before.len() - line_from + 1, too_deep: what == TOO_DEEP }
    }

    fn check(&mut self, text: &[u8], until: usize) -> Checked<bool> {
        while self.at < until {
            if let Expects::Text { name } = self.expects {
                self.text(text, until, name)?;
                continue;
            }
            let byte = text[self.at];
            if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                self.at += 1;
                continue;
            }
            match self.expects {
                Expects::FirstItem if byte == b']' => self.close(),
                Expects::Value | Expects::FirstItem => self.value(text, byte)?,
                Expects::FirstName if byte == b'}' => self.close(),
                Expects::Name | Expects::FirstName if byte == b'"' => {
                    self.at += 1;
                    self.expects = Expects::Text { name: Some(self.at) };
                }
                Expects::Name if byte == b'}' => return Err("trailing comma"),
                Expects::Name | Expects::FirstName => return Err("key must be a string"),
                Expects::Colon if byte == b':' => {
                    self.at += 1;
                    self.expects = Expects::Value;
                }
                Expects::Colon => return Err("expected `:`"),
                Expects::End => self.end(byte)?,
                Expects::Text { .. } => unreachable!("invariant: looked at before"),
            }
        }
        if self.at < text.len() {
            return Ok(false);
        }
        match self.expects {
            Expects::End if self.depth == 0 => Ok(true),
            Expects::Text { .. } => Err("EOF while parsing a string"),
            Expects::Value if self.depth == 0 => Err("EOF while parsing a value"),
            _ if self.is_object() => Err("EOF while parsing an object"),
            _ => Err("EOF while parsing a list"),
        }
    }

    fn is_object(&self) -> bool {
        self.depth > 0 && self.open & 1 == 1
    }

    fn value(&mut self, text: &[u8], byte: u8) -> Checked<()> {
        self.expects = Expects::End;
        match byte {
            b'"' => {
                self.at += 1;
                self.expects = Expects::Text { name: None };
                Ok(())
            }
            b'[' => self.begin(0, Expects::FirstItem),
            b'{' => self.begin(1, Expects::FirstName),
            b't' => self.word(text, b"true"),
            b'f' => self.word(text, b"false"),
            b'n' => self.word(text, b"null"),
            b'-' | b'0'..=b'9' => self.number(text),
            b']' if self.depth > 0 && !self.is_object() => Err("trailing comma"),
            _ => Err("expected value"),
        }
    }

    fn begin(&mut self, object: u128, expects: Expects) -> Checked<()> {
        if self.depth == self.depth_max {
            return Err(TOO_DEEP);
        }
        self.open = self.open << 1 | object;
        self.depth += 1;
        self.at += 1;
        self.expects = expects;
        Ok(())
    }

    fn close(&mut self) {
        self.open >>= 1;
        self.depth -= 1;
        self.at += 1;
        self.expects = Expects::End;
    }

    fn end(&mut self, byte: u8) -> Checked<()> {
        match (byte, self.is_object()) {
            _ if self.depth == 0 => return Err("trailing characters"),
            (b',', object) => {
                self.at += 1;
                self.expects = if object { Expects::Name } else { Expects::Value };
            }
            (b']', false) | (b'}', true) => self.close(),
            (_, true) => return Err("expected `,` or `}`"),
            (_, false) => return Err("expected `,` or `]`"),
        }
        Ok(())
    }

    fn word(&mut self, text: &[u8], word: &[u8]) -> Checked<()> {
        if !text[self.at..].starts_with(word) {
            return Err("expected ident");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self, text: &[u8]) -> Checked<()> {
        let mut at = self.at + usize::from(text[self.at] == b'-');
        let digits = |at: &mut usize| {
            let from = *at;
            while text.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
            *at - from
        };
        let is_zero = text.get(at) == Some(&b'0');
        let whole = digits(&mut at);
        let mut fits = whole > 0 && !(is_zero && whole > 1);
        if fits && text.get(at) == Some(&b'.') {
            at += 1;
            fits = digits(&mut at) > 0;
        }
        if fits && matches!(text.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
            fits = digits(&mut at) > 0;
        }
        self.at = at;
        if fits { Ok(()) } else { Err("invalid number") }
    }

    /// Reads on in a text, which may have begun in an earlier piece.
    fn text(&mut self, text: &[u8], until: usize, name: Option<usize>) -> Checked<()> {
        while self.at < until {
            match text[self.at] {
                b'"' => {
                    if name.is_some_and(|from| is_reserved(&text[from..self.at])) {
                        return Err("the object has a reserved name");
                    }
                    self.at += 1;
                    self.expects = if name.is_some() { Expects::Colon } else { Expects::End };
                    return Ok(());
                }
                b'\\' => self.escape(text)?,
                0..0x20 => return Err("control character (\\u0000-\\u001F) found while parsing a string"),
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn escape(&mut self, text: &[u8]) -> Checked<()> {
        let Some(letter) = text.get(self.at + 1) else {
            self.at += 1;
            return Err("EOF while parsing a string");
        };
        match letter {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => match hex(text, self.at + 2)? {
                0xdc00..=0xdfff => return Err("lone trailing surrogate in hex escape"),
                0xd800..=0xdbff => {
                    let is_pair =
                        text[self.at + 6..].starts_with(b"\\u") && matches!(hex(text, self.at + 8)?, 0xdc00..=0xdfff);
                    if !is_pair {
                        return Err("lone leading surrogate in hex escape");
                    }
                    self.at += 12;
                }
                _ => self.at += 6,
            },
            _ => return Err("invalid escape"),
        }
        Ok(())
    }
}

const TOO_DEEP: &str = "recursion limit exceeded";

/// Four hexadecimal digits.
fn hex(text: &[u8], at: usize) -> Checked<u32> {
    let digits = text.get(at..at + 4).ok_or("EOF while parsing a string")?;
    let digit = |all: u32, digit: &u8| Some(all << 4 | char::from(*digit).to_digit(16)?);
    digits.iter().try_fold(0, digit).ok_or("invalid escape")
}

/// Whether the name of a member, as written, is one that serde_json reserves.
fn is_reserved(name: &[u8]) -> bool {
    // The longest, with each of its letters escaped.
    let bytes_max = 6 * RESERVED[1].len();
    let may_be = |name: &[u8]| name.first().is_some_and(|first| matches!(first, b'$' | b'\\'));
    if name.len() > bytes_max || !may_be(name) {
        return false;
    }
    let quoted: Vec<u8> = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| RESERVED.contains(&name.as_str()))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Checks in pieces of so many bytes.
    fn check(text: &str, piece: usize, depth_max: usize) -> Result<(), Flaw> {
        let mut check = Check::new(depth_max);
        while !check.advance(text, piece)? {}
        Ok(())
    }

    #[test]
    fn a_flaw_is_told_with_its_place() {
        for (text, flaw) in [
            ("", "EOF while parsing a value at line 1 column 1"),
            ("[1,\n 2,]", "trailing comma at line 2 column 4"),
            ("{\"a\" 1}", "expected `:` at line 1 column 6"),
            ("[1 2]", "expected `,` or `]` at line 1 column 4"),
            ("{\"a\":1,}", "trailing comma at line 1 column 8"),
            ("{1:2}", "key must be a string at line 1 column 2"),
            ("01", "invalid number at line 1 column 3"),
            ("1 2", "trailing characters at line 1 column 3"),
            ("\"\\ud800x\"", "lone leading surrogate in hex escape at line 1 column 2"),
            ("[[[0]]]", "recursion limit exceeded at line 1 column 3"),
        ] {
            assert_eq!(check(text, 1, 2).unwrap_err().to_string(), flaw, "{text}");
        }
        assert!(check("[[[0]]]", 1, 2).unwrap_err().too_deep);
        assert!(check("[[0]]", 1, 2).is_ok());
    }

    #[test]
    fn a_long_text_is_checked_piece_by_piece() {
        let text = format!("[{}1]", "1,\"abc\",{\"name\":null},".repeat(10_000));
        let mut check = Check::new(JSON_DEPTH_MAX);
        let mut pieces = 1;
        while !check.advance(&text, 1_000).unwrap() {
            pieces += 1;
        }
        assert!(pieces >= text.len() / 1_001, "{pieces}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// Whatever serde_json reads passes, and nothing else does, wherever the pieces end.
        #[test]
        fn what_passes_is_what_serde_json_reads(text in texts(), piece in 1_usize..9) {
            let read = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert_eq!(check(&text, piece, JSON_DEPTH_MAX).is_ok(), read, "{}", text);
            prop_assert_eq!(check(&text, usize::MAX, JSON_DEPTH_MAX).is_ok(), read, "{}", text);
        }
    }

    /// Texts that are JSON, or were before something was changed in them.
    fn texts() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "-?(0|[1-9][0-9]{0,2})(\\.[0-9]{1,2})?([eE][+-]?[0-9]{1,3})?",
            "-?[0-9]{0,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,3})?",
            "\"([a-zé\u{7}]|\\\\[bfnrt/\"\\\\x]|\\\\u[0-9a-f]{4}|\\\\ud83d\\\\ude0[0-9]){0,4}\"",
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("fals".to_owned()),
        ];
        let whole = leaf.prop_recursive(4, 24, 3, |inner| {
            let members = proptest::collection::vec(("[a-c]{0,2}", inner.clone()), 0..3);
            let members = members.prop_map(|members| {
                let texts: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\" :{value}")).collect();
                format!("{{{}}}", texts.join(","))
            });
            prop_oneof![
                members,
                proptest::collection::vec(inner, 0..3).prop_map(|items| format!("[{}\n]", items.join(", ")))
            ]
        });
        let change = (any::<prop::sample::Index>(), prop_oneof![Just(""), Just("\""), Just("]"), Just("{"), Just(",")]);
        (whole, proptest::option::weighted(0.3, change)).prop_map(|(text, change)| {
            let Some((at, with)) = change else { return text };
            let mut letters: Vec<String> = text.chars().map(String::from).collect();
            if !letters.is_empty() {
                let at = at.index(letters.len());
                with.clone_into(&mut letters[at]);
            }
            letters.concat()
        })
    }
}
