//! What differs between the outputs of two runs.

use serde_json::Value;

/// Differences that are shown. Arbitrary: most of a screen.
const SHOWN_MAX: usize = 20;

/// Characters of a value that are shown. Arbitrary: most of a line.
const VALUE_MAX: usize = 60;

/// The differences, a line each: `~ path: before → after`, `+ path: after`, `- path: before`.
pub(super) fn lines(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", before, after, &mut lines);
    if lines.len() > SHOWN_MAX {
        let more = lines.len() - SHOWN_MAX;
        lines.truncate(SHOWN_MAX);
        lines.push(format!("… {more} more"));
    }
    lines
}

fn compare(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, before) in old {
                match new.get(key) {
                    Some(after) => compare(&within(path, key), before, after, lines),
                    None => lines.push(format!("- {}: {}", within(path, key), short(before))),
                }
            }
            for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                lines.push(format!("+ {}: {}", within(path, key), short(after)));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (index, pair) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{index}]"), pair.0, pair.1, lines);
            }
            for (index, before) in old.iter().enumerate().skip(new.len()) {
                lines.push(format!("- {path}[{index}]: {}", short(before)));
            }
            for (index, after) in new.iter().enumerate().skip(old.len()) {
                lines.push(format!("+ {path}[{index}]: {}", short(after)));
            }
        }
        _ if before == after => {}
        _ => lines.push(format!("~ {path}: {} → {}", short(before), short(after))),
    }
}

fn within(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::lines;
    use serde_json::json;

    #[test]
    fn what_is_new_gone_and_other_has_its_path() {
        let before = json!({ "a": 1, "b": { "c": [1, 2, 3], "d": "x" }, "gone": null });
        let after = json!({ "a": 1, "b": { "c": [1, 5], "d": "y" }, "new": true });
        let expected = ["~ b.c[1]: 2 → 5", "- b.c[2]: 3", "~ b.d: \"x\" → \"y\"", "- gone: null", "+ new: true"];
        assert_eq!(lines(&before, &after), expected);
        assert_eq!(lines(&after, &after), Vec::<String>::new());
        assert_eq!(lines(&json!([]), &json!({})), ["~ : [] → {}"]);
    }

    #[test]
    fn many_and_long_ones_are_cut() {
        let found = lines(&json!([]), &json!(vec!["ä".repeat(100); 25]));
        assert_eq!((found.len(), found[20].as_str()), (21, "… 5 more"));
        assert_eq!(found[0], format!("+ [0]: \"{}…", "ä".repeat(59)));
    }
}
