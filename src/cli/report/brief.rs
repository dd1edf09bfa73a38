//! Values, cut to what a line holds.

use crate::cli::table::counted;
use crate::cli::terminal::fit;
use crate::process::Payload;

/// Characters of a value that are shown. Arbitrary: a line of a terminal.
const VALUE_CHARS_MAX: usize = 100;

pub(in crate::cli) fn shown(payload: &Payload) -> String {
    match payload {
        Payload::Json(json) => cut(json.as_str()),
        Payload::Bytes(bytes) => counted(bytes.len() as u64, "byte", "bytes"),
        Payload::Blob(blob) => format!("{} ({})", blob.digest, counted(blob.size, "byte", "bytes")),
        Payload::Recalled(recalled) => {
            format!("{}, read by {}", counted(recalled.size, "byte", "bytes"), cut(recalled.args.as_str()))
        }
    }
}

pub(in crate::cli) fn cut(text: &str) -> String {
    fit(text, VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted() {
        let shown = |bytes: &'static [u8]| shown(&Payload::Bytes(bytes.into()));
        assert_eq!((shown(b"a"), shown(b"ab")), ("1 byte".to_owned(), "2 bytes".to_owned()));
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(cut(&"x".repeat(1_000)).chars().count(), VALUE_CHARS_MAX);
    }
}
