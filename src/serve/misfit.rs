//! Says where a body or a query does not fit its type, in words for people: the parsers name types
//! of the program.

use super::problem::{PartProblem, ProblemKind, ServeProblem};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

/// The problem of a body that is no `T`.
///
/// Only refused bodies are read with their paths: it takes longer.
pub(super) fn of_body<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> ServeProblem {
    let (kind, pointer, message) = if error.is_data() {
        let reader = &mut serde_json::Deserializer::from_slice(bytes);
        let path = serde_path_to_error::deserialize::<_, T>(reader).err().map(|error| pointer(error.path()));
        (ProblemKind::DoesNotFit, path.unwrap_or_default(), said(&without_place(error)))
    } else {
        (ProblemKind::Malformed, String::new(), format!("it is no JSON: {}", without_place(error)))
    };
    let mut problem = ServeProblem::new(kind);
    let (line, column) = (Some(error.line()), Some(error.column()));
    problem.errors.push(PartProblem { pointer, message, line, column, hint: None });
    problem
}

/// The problem of a query, from the text that its reader gives: `name: message`.
pub(super) fn of_query(text: &str) -> ServeProblem {
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    let (name, message) = text.split_once(": ").unwrap_or(("", text));
    ServeProblem::new(ProblemKind::Malformed).part(name, said(message))
}

/// The message without the place, which has fields of its own.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// A message of serde, in words for people; one that it does not know stays.
fn said(message: &str) -> String {
    if let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("must be {}; it is {}", wanted(expected), given(found));
    }
    if let Some((found, expected)) =
        message.strip_prefix("invalid value: ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("must be {}; it is {}", wanted(expected), given(found));
    }
    if let Some((field, known)) = message.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("{field} is no field; there is {}", choice(known));
    }
    if let Some((word, known)) =
        message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("must be {}; it is {word}", choice(known));
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the field {field} is missing");
    }
    if let Some(field) = message.strip_prefix("duplicate field ") {
        return format!("the field {field} is there twice");
    }
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number".to_owned()
        }
        "number too large to fit in target type" => "is too large a number".to_owned(),
        "provided string was not `true` or `false`" => "must be `true` or `false`".to_owned(),
        other => other.to_owned(),
    }
}

/// `one of a, b` as it is read aloud.
fn choice(known: &str) -> &str {
    known.strip_prefix("one of ").unwrap_or(known)
}

/// What a reader expects.
fn wanted(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        "f64" => "a number",
        "a sequence" => "a list",
        "a map" => "an object",
        text if text.starts_with("struct ") || text.contains(" tagged enum ") => "an object",
        text => text,
    }
}

/// What a reader has found.
fn given(found: &str) -> &str {
    match found {
        "sequence" => "a list",
        "map" => "an object",
        "unit value" => "null",
        text => ["string ", "integer ", "floating point ", "boolean "]
            .into_iter()
            .find_map(|kind| text.strip_prefix(kind))
            .unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[derive(Default)]
    #[allow(dead_code)]
    struct Order {
        number: Option<u64>,
        labels: BTreeMap<String, String>,
        parts: Vec<Part>,
        free: serde_json::Value,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    #[serde(tag = "scheme", rename_all = "kebab-case")]
    enum Part {
        Plain { text: String },
    }

    fn of(text: &str) -> (u16, String, String) {
        let error = serde_json::from_str::<Order>(text).unwrap_err();
        let problem = of_body::<Order>(text.as_bytes(), &error);
        let part = problem.errors[0].clone();
        assert!(part.line.is_some() && part.column.is_some());
        (problem.status, part.pointer, part.message)
    }

    #[test]
    fn what_does_not_fit_is_pointed_at_in_words_for_people() {
        for (text, status, pointer, message) in [
            (r#"{"number": "x"}"#, 422, "/number", r#"must be a whole number; it is "x""#),
            (r#"{"number": -1}"#, 422, "/number", "must be a whole number; it is `-1`"),
            (r#"{"labels": {"a/b": 5}}"#, 422, "/labels/a~1b", "must be a string; it is `5`"),
            (r#"{"labels": []}"#, 422, "/labels", "must be an object; it is a list"),
            (r#"{"parts": {}}"#, 422, "/parts", "must be a list; it is an object"),
            (r#"{"parts": ["none"]}"#, 422, "/parts/0", r#"must be an object; it is "none""#),
            (r#"{"parts": [{}]}"#, 422, "/parts/0", "the field `scheme` is missing"),
            (r#"{"parts": [{"scheme": "odd"}]}"#, 422, "/parts/0/scheme", "must be `plain`; it is `odd`"),
            (r#"{"number": 1, "number": 2}"#, 422, "", "the field `number` is there twice"),
            (
                r#"{"free": 1.5, "numbr": 1}"#,
                422,
                "/numbr",
                "`numbr` is no field; there is `number`, `labels`, `parts`, `free`",
            ),
            (r#"{"number":"#, 400, "", "it is no JSON: EOF while parsing a value"),
        ] {
            assert_eq!(of(text), (status, pointer.to_owned(), message.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_parameter_is_named() {
        let part = |text: &str| {
            let part = of_query(text).errors.remove(0);
            (part.pointer, part.message)
        };
        let limit = part("Failed to deserialize query string: limit: invalid digit found in string");
        assert_eq!(limit, ("limit".to_owned(), "must be a whole number".to_owned()));
        let odd = part("Failed to deserialize query string: odd: unknown field `odd`, expected `wait`");
        assert_eq!(odd, ("odd".to_owned(), "`odd` is no field; there is `wait`".to_owned()));
    }
}
