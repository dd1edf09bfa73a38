//! Takes secrets out of what a server sends, also where it has written them in another way.

use super::SecretValue;
use memchr::{memchr, memmem};
use std::ops::{Deref, Range};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A way to write a text.
#[derive(Clone, Copy)]
enum Escapes {
    /// `%2F`.
    Percent,
    /// `%2F`, and a blank as `+`.
    Form,
    /// `\u002f`, `\/`.
    Json,
    /// `&#47;`, `&amp;`.
    Html,
}

/// Whether the case of letters counts.
#[derive(Clone, Copy)]
enum Case {
    Exact,
    Ignored,
}

impl Case {
    /// A text as it is compared.
    fn fold(self, text: &[u8]) -> Folded<'_> {
        match self {
            Self::Exact => Folded::Same(text),
            Self::Ignored => Folded::Lower(Zeroizing::new(text.to_ascii_lowercase())),
        }
    }
}

/// A text as it is compared. It may be a secret.
enum Folded<'t> {
    Same(&'t [u8]),
    Lower(Zeroizing<Vec<u8>>),
}

impl Deref for Folded<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Same(text) => text,
            Self::Lower(text) => text,
        }
    }
}

/// A text without its escapes.
struct View {
    bytes: Zeroizing<Vec<u8>>,
    /// Where the view and the text run apart: places in the view, and in the text.
    jumps: Vec<(usize, usize)>,
}

/// Replaces every value in a text: by `[secret NAME]`. `None` if there is none in it.
///
/// Values are found as they are; in base64 and in hexadecimal digits; and each of these where
/// characters are escaped as in URLs, forms, JSON (twice, too) and HTML.
pub(super) fn redacted(bytes: &[u8], known: &[(&str, Arc<SecretValue>)]) -> Option<Vec<u8>> {
    replaced(bytes, find(bytes, known, Case::Exact), in_text)
}

/// As [`redacted`] of the name of a header field, which has lost the case of its letters. What
/// replaces a value is part of a valid name.
pub(super) fn redacted_name(name: &[u8], known: &[(&str, Arc<SecretValue>)]) -> Option<Vec<u8>> {
    replaced(name, find(name, known, Case::Ignored), |secret| format!("secret-{secret}"))
}

/// As [`redacted`] of the beginning of a text, which ends before the last bytes that are to stay,
/// and before a value that goes on in them. Returns where it ends.
pub(super) fn redacted_start(
    bytes: &[u8],
    staying: usize,
    known: &[(&str, Arc<SecretValue>)],
) -> (usize, Option<Vec<u8>>) {
    let found = find(bytes, known, Case::Exact);
    let mut end = bytes.len().saturating_sub(staying);
    // Two values may overlap.
    while let Some((range, _)) = found.iter().find(|(range, _)| range.start < end && range.end > end) {
        end = range.start;
    }
    (end, replaced(&bytes[..end], found.into_iter().filter(|(range, _)| range.end <= end).collect(), in_text))
}

/// Finds the values in a text, in their order.
fn find<'n>(bytes: &[u8], known: &[(&'n str, Arc<SecretValue>)], case: Case) -> Vec<(Range<usize>, &'n str)> {
    if known.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(Range<usize>, &'n str)> = Vec::new();
    let mut look = |view: &[u8], place: &dyn Fn(usize) -> usize| {
        let view = case.fold(view);
        for (name, value) in known {
            for needle in value.needles() {
                let needle = case.fold(needle);
                let matches = memmem::find_iter(&view, &*needle);
                found.extend(matches.map(|at| (place(at)..place(at + needle.len()), *name)));
            }
        }
    };
    look(bytes, &|at| at);
    for escapes in [Escapes::Percent, Escapes::Form, Escapes::Html, Escapes::Json] {
        let Some(view) = View::of(bytes, escapes) else { continue };
        look(&view.bytes, &|at| view.place(at));
        if let (Escapes::Json, Some(twice)) = (escapes, View::of(&view.bytes, escapes)) {
            look(&twice.bytes, &|at| view.place(twice.place(at)));
        }
    }
    found.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    found
}

/// What replaces the value of a secret in a text.
fn in_text(secret: &str) -> String {
    format!("[secret {secret}]")
}

/// Replaces the values that were found in a text. `None` if there are none.
fn replaced(bytes: &[u8], found: Vec<(Range<usize>, &str)>, instead: fn(&str) -> String) -> Option<Vec<u8>> {
    if found.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for (range, name) in found {
        if range.start >= done {
            out.extend_from_slice(&bytes[done..range.start]);
            out.extend_from_slice(instead(name).as_bytes());
        }
        done = done.max(range.end);
    }
    out.extend_from_slice(&bytes[done..]);
    Some(out)
}

impl View {
    /// `None` if the text has no escapes of this kind.
    fn of(text: &[u8], escapes: Escapes) -> Option<Self> {
        let has = |byte| memchr(byte, text).is_some();
        let is_there = match escapes {
            Escapes::Percent => has(b'%'),
            Escapes::Form => has(b'+'),
            Escapes::Json => has(b'\\'),
            Escapes::Html => has(b'&'),
        };
        if !is_there {
            return None;
        }
        let mut view = Self { bytes: Zeroizing::new(Vec::with_capacity(text.len())), jumps: Vec::new() };
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let mut buffer = [0; 4];
            match escapes.read(rest, &mut buffer) {
                Some((taken, given)) => {
                    view.jumps.push((view.bytes.len(), at));
                    view.bytes.extend_from_slice(&buffer[..given]);
                    at += taken;
                    view.jumps.push((view.bytes.len(), at));
                }
                None => {
                    view.bytes.push(rest[0]);
                    at += 1;
                }
            }
        }
        Some(view)
    }

    /// The place in the text of a place in the view.
    fn place(&self, at: usize) -> usize {
        let after = self.jumps.partition_point(|(view, _)| *view <= at);
        match after.checked_sub(1).map(|before| self.jumps[before]) {
            Some((view, text)) => text + (at - view),
            None => at,
        }
    }
}

impl Escapes {
    /// Reads an escape at the beginning of a text: how long it is, and how many bytes it stands
    /// for. No escape is shorter than what it stands for.
    fn read(self, text: &[u8], out: &mut [u8; 4]) -> Option<(usize, usize)> {
        match (self, text[0]) {
            (Self::Percent | Self::Form, b'%') => {
                out[0] = u8::try_from(number(text.get(1..3)?, 16)?).ok()?;
                Some((3, 1))
            }
            (Self::Form, b'+') => {
                out[0] = b' ';
                Some((1, 1))
            }
            (Self::Json, b'\\') => json(text, out),
            (Self::Html, b'&') => html(text, out),
            _ => None,
        }
    }
}

fn json(text: &[u8], out: &mut [u8; 4]) -> Option<(usize, usize)> {
    let unit = |at: usize| {
        let is_escape = text.get(at..at + 2) == Some(b"\\u");
        number(text.get(at + 2..at + 6)?, 16).filter(|_| is_escape)
    };
    out[0] = match text.get(1)? {
        b'u' => {
            let first = unit(0)?;
            let pair = unit(6).filter(|second| (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(second));
            let (code, taken) = match pair {
                Some(second) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12),
                None => (first, 6),
            };
            return Some((taken, char::from_u32(code)?.encode_utf8(out).len()));
        }
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other @ (b'"' | b'\\' | b'/') => *other,
        _ => return None,
    };
    Some((2, 1))
}

fn html(text: &[u8], out: &mut [u8; 4]) -> Option<(usize, usize)> {
    let end = text.iter().take(12).position(|byte| *byte == b';')?;
    let code = match &text[1..end] {
        b"amp" => 38,
        b"lt" => 60,
        b"gt" => 62,
        b"quot" => 34,
        b"apos" => 39,
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16)?,
        [b'#', digits @ ..] => number(digits, 10)?,
        _ => return None,
    };
    Some((end + 1, char::from_u32(code)?.encode_utf8(out).len()))
}

/// A number of up to 8 digits.
fn number(digits: &[u8], base: u32) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    digits.iter().try_fold(0_u32, |sum, digit| sum.checked_mul(base)?.checked_add(char::from(*digit).to_digit(base)?))
}
