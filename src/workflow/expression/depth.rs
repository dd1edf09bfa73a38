//! The nesting depth of JSON, as a value and as text.

use super::{EvalProblem, INPUT_DEPTH_MAX, OUTPUT_DEPTH_MAX};
use serde_json::Value;

/// The nesting depth of a value, exact up to one level beyond `bound`. A scalar has depth 0.
pub(super) fn of_value(value: &Value, bound: usize) -> usize {
    let below = |item: &Value| if bound == 0 { 0 } else { of_value(item, bound - 1) };
    match value {
        Value::Array(items) => 1 + items.iter().map(below).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(below).max().unwrap_or(0),
        _ => 0,
    }
}

/// The nesting depth of a JSON text. The text must be valid JSON.
pub(super) fn of_text(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut in_string = false;
    let mut escaped = false;
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Refuses an input that nests too deeply.
pub(super) fn check_input(depth: usize) -> Result<(), EvalProblem> {
    if depth <= INPUT_DEPTH_MAX {
        return Ok(());
    }
    Err(EvalProblem::BadInput(format!("it nests more than {INPUT_DEPTH_MAX} levels deep")))
}

/// Refuses an output that nests too deeply.
pub(super) fn check_output(depth: usize) -> Result<(), EvalProblem> {
    if depth <= OUTPUT_DEPTH_MAX {
        return Ok(());
    }
    Err(EvalProblem::Failed(format!("the output nests more than {OUTPUT_DEPTH_MAX} levels deep")))
}

#[cfg(test)]
mod tests {
    use super::{of_text, of_value};
    use serde_json::json;

    #[test]
    fn both_measures_agree() {
        let values =
            [json!(1), json!([]), json!({}), json!([[1], {"a": [[]]}]), json!({"[{": "]}\\\"["}), json!(["\"[[", [1]])];
        for (value, depth) in values.iter().zip([0, 1, 1, 4, 1, 2]) {
            assert_eq!(of_value(value, 10), depth, "{value}");
            assert_eq!(of_text(value.to_string().as_bytes()), depth, "{value}");
        }
        assert_eq!(of_value(&json!([[[[]]]]), 1), 2);
    }
}
