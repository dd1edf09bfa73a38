//! Finds the end of an expression within other text.

use super::syntax::comment_length;

/// The length of the expression at the beginning of `text`. It ends before the first `}` that
/// closes nothing within it; braces in strings, interpolations and comments do not count.
///
/// # Errors
/// Fails if there is no such `}`, with the missing character: a bracket or a quote before it, else
/// the brace itself.
pub(super) fn expression_length(text: &str) -> Result<usize, char> {
    let bytes = text.as_bytes();
    // What is open, innermost last: `"` for a string, else the closing bracket. An interpolation
    // closes with `)`.
    let mut open: Vec<u8> = Vec::new();
    // What was still open at the first `}` that could have been the end.
    let mut missing = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if open.last() == Some(&b'"') {
            match (byte, bytes.get(at + 1)) {
                (b'\\', Some(b'(')) => open.push(b')'),
                (b'"', _) => {
                    open.pop();
                }
                _ => {}
            }
            at += if byte == b'\\' { 2 } else { 1 };
            continue;
        }
        match byte {
            b'"' => open.push(b'"'),
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            b'}' if open.is_empty() => return Ok(at),
            // jq reports a bracket that does not match. It must not hide the end.
            b')' | b']' | b'}' if open.last() == Some(&byte) => {
                open.pop();
            }
            b'}' => missing = missing.or(open.last().copied()),
            b'#' => {
                at += comment_length(&text[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Err(missing.or(open.last().copied()).map_or('}', char::from))
}

#[cfg(test)]
mod tests {
    use super::expression_length;

    #[test]
    fn the_end_is_the_first_brace_that_closes_nothing() {
        let cases = [
            (".a } rest", Some(".a ")),
            ("{a: {b: 1}} }", Some("{a: {b: 1}} ")),
            (r#""}" }"#, Some(r#""}" "#)),
            (r#""\"}" }"#, Some(r#""\"}" "#)),
            (r#""a\({b: "}"} | tojson)c}" }"#, Some(r#""a\({b: "}"} | tojson)c}" "#)),
            ("1 # }\n }", Some("1 # }\n ")),
            ("1 # \\\n } \n }", Some("1 # \\\n } \n ")),
            ("1 # }", None),
            (r#""abc }"#, None),
            ("{a: 1", None),
            ("", None),
            ("}", Some("")),
            (r#""\\" }"#, Some(r#""\\" "#)),
            ("\"é\\é}\" }", Some("\"é\\é}\" ")),
        ];
        for (text, expected) in cases {
            assert_eq!(expression_length(text).ok().map(|n| &text[..n]), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_before_the_end_is_found() {
        let cases = [
            ("(1 + 2 }", ')'),
            ("[1, 2 | map(. + 1) }", ']'),
            ("[1,2] | map(. + 1 }", ')'),
            ("(1 } and ${ .x }", ')'),
            ("\"abc }", '"'),
            ("{a: 1", '}'),
            (".a", '}'),
        ];
        for (text, expected) in cases {
            assert_eq!(expression_length(text), Err(expected), "{text}");
        }
    }
}
