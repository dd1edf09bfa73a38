//! A secret's value, and the texts by which a server could send it back.

use super::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// Bytes of the longest escape of one byte that is found: `&#x0000041;`, or `\\u0041` with each `\`
/// written as two.
const ESCAPED_BYTES_MAX: usize = 12;

/// A secret's value. It has no `Debug`, and is overwritten when it is dropped.
pub struct SecretValue {
    bytes: Zeroizing<Vec<u8>>,
    /// The texts that stand for it: itself, in base64 at each place of a longer text, and in
    /// hexadecimal digits.
    needles: Vec<Zeroizing<Vec<u8>>>,
}

impl SecretValue {
    /// Takes a value. White space at its end does not count: it is that of a file.
    ///
    /// # Errors
    /// It is too short or too long.
    pub(super) fn new(mut bytes: Zeroizing<Vec<u8>>) -> Result<Self, String> {
        let len = bytes.trim_ascii_end().len();
        bytes.truncate(len);
        if len < SECRET_BYTES_MIN {
            return Err(format!("a secret has at least {SECRET_BYTES_MIN} bytes, and this one has {len}"));
        }
        if len > SECRET_BYTES_MAX {
            return Err(format!("a secret has at most {SECRET_BYTES_MAX} bytes"));
        }
        let mut needles = vec![bytes.clone()];
        for before in 0..3 {
            add_base64(&mut needles, &bytes, before);
        }
        for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
            let mut text = Zeroizing::new(Vec::with_capacity(2 * len));
            text.extend(bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]));
            needles.push(text);
        }
        Ok(Self { bytes, needles })
    }

    /// The value itself.
    pub(in crate::dispatch) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether it is the same value.
    pub(super) fn is(&self, other: &Self) -> bool {
        *self.bytes == *other.bytes
    }

    pub(super) fn needles(&self) -> impl Iterator<Item = &[u8]> {
        self.needles.iter().map(|needle| needle.as_slice())
    }

    pub(super) fn longest(&self) -> usize {
        ESCAPED_BYTES_MAX * self.needles.iter().map(|needle| needle.len()).max().unwrap_or(0)
    }
}

/// Adds the base64 text of a value that follows some bytes in a longer text, without the digits
/// that depend on its neighbours.
fn add_base64(needles: &mut Vec<Zeroizing<Vec<u8>>>, bytes: &[u8], before: usize) {
    let mut longer = Zeroizing::new(Vec::with_capacity(before + bytes.len()));
    longer.resize(before, 0);
    longer.extend_from_slice(bytes);
    // A digit has 6 bits, and the first of them belong to what is before.
    let first = (before * 8).div_ceil(6);
    let last = longer.len() * 8 / 6;
    for (number, engine) in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD].into_iter().enumerate() {
        let mut text = Zeroizing::new(vec![0; longer.len() * 8 / 6 + 2]);
        let Ok(written) = engine.encode_slice(&*longer, &mut text) else { continue };
        text.truncate(written.min(last));
        text.drain(..first);
        if number == 0 || needles.last().is_none_or(|other| **other != *text) {
            needles.push(text);
        }
    }
}
