//! Why a step failed, beyond its title: its detail, and what a server said.

use crate::cli::terminal::{fit, in_line};
use serde_json::Value;

/// Characters of a server's answer that are shown. Arbitrary: some lines of a terminal.
const BODY_CHARS_MAX: usize = 300;

/// The detail of a failure besides its title and kind, as expressions see it: a line each.
pub(in crate::cli) fn details(error: &Value) -> Vec<String> {
    let detail = error["detail"].as_str().map(|detail| in_line(detail).into_owned());
    detail.into_iter().chain(said(error)).collect()
}

/// The answer of a server whose status counts as a failure, cut to a useful length.
pub(in crate::cli) fn said(error: &Value) -> Option<String> {
    if error["kind"] != crate::dispatch::kind::HTTP_STATUS {
        return None;
    }
    let body = match (&error["data"]["body"], error["data"]["encoding"].as_str()?) {
        (Value::String(text), "text" | "json") => text.trim().to_owned(),
        (body, "json") => body.to_string(),
        _ => return None,
    };
    let cut = fit(&body, BODY_CHARS_MAX);
    (!cut.is_empty()).then(|| format!("the server said: {}", in_line(&cut)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_server_said_is_shown_as_far_as_it_is_text() {
        let answered = |encoding: &str, body: Value| {
            let data = json!({ "encoding": encoding, "body": body });
            json!({ "kind": "http-status", "title": "t", "detail": "GET /", "data": data })
        };
        assert_eq!(
            details(&answered("text", json!("no\x1b[2J such\norder\n"))),
            ["GET /", "the server said: no\\u{1b}[2J such\\norder"]
        );
        assert_eq!(
            details(&answered("json", json!({ "error": "no stock" }))),
            ["GET /", "the server said: {\"error\":\"no stock\"}"]
        );
        assert_eq!(details(&answered("base64", json!("AAAA"))), ["GET /"]);
        let long = said(&answered("text", json!("x".repeat(10_000)))).unwrap();
        assert!(long.len() < 400 && long.ends_with('…'), "{long}");
        assert_eq!(said(&json!({ "kind": "x", "data": { "encoding": "text", "body": "b" } })), None);
    }
}
