//! Plain paths and literals: the host evaluates them as jq does.

use super::{JQ, generate};
use proptest::prelude::*;
use serde_json::{Value, json};
use wfhost::workflow::expression::{Expression, Scope};

/// Evaluates natively and in the sandbox, and compares.
fn check(text: &str, value: &Value) {
    let expression = Expression::new(text);
    assert!(expression.is_plain(), "{text}");
    let native = JQ.evaluate(&expression, &Scope::Borrowed(value));
    let sandbox = JQ.evaluate_in_sandbox(&expression, &Scope::Borrowed(value));
    assert_eq!(native, sandbox, "{text} on {value}");
    // The order of keys and the digits of numbers are not compared by `==` alone.
    assert_eq!(format!("{native:?}"), format!("{sandbox:?}"), "{text} on {value}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_are_as_in_jq(path in generate::path(), value in generate::value()) {
        check(&path, &value);
    }

    #[test]
    fn values_pass_as_in_jq(value in generate::value()) {
        check(".", &value);
    }

    #[test]
    fn strings_are_as_in_jq(text in "[a-z\\u{0}-\\u{7f}é😀]{0,12}") {
        check(&serde_json::to_string(&text).unwrap(), &Value::Null);
    }

    #[test]
    fn keys_in_messages_are_as_in_jq(key in "[ab\"\\\\\n\\u{1}é😀]{0,40}") {
        check(&format!(".[{}]", serde_json::to_string(&key).unwrap()), &json!(1));
    }
}

#[test]
fn literals_and_odd_paths_are_as_in_jq() {
    let value = json!({"a": [1, [2, 3], {"b": null}], "n": 1, "s": "x", "t": true, "z": null});
    let texts = [
        "1",
        "1.50",
        "1e2",
        ".5",
        "5.",
        "007",
        "0",
        "0.000",
        "1e1000",
        "12345678901234567890123456789",
        "\"\\u00e9\\n\"",
        "true",
        "false",
        "null",
        "(.a)",
        "((.a))[1][0]",
        ".a[-1].b.c.d",
        ".a[-4]",
        ".a[3]",
        ".a[0].x",
        ".a.x",
        ".n[0]",
        ".s.x",
        ".s[0]",
        ".t.x?",
        ".[\"a\"][0]",
        ".\"a\"[1]",
        ".z[5].x",
        ".a | .",
        "# c\n.a",
        ".a # c",
        ".a[\"0\"]?",
        ".[0]",
    ];
    for text in texts {
        if text == ".a | ." {
            assert!(!Expression::new(text).is_plain());
        } else {
            check(text, &value);
        }
    }
}

#[test]
fn other_expressions_are_not_plain() {
    for text in [
        ".[]",
        "..",
        ".a[.b]",
        ".[1.5]",
        ".[-0]",
        ".[1e3]",
        ".[00]",
        ".[99999999999]",
        ".a[1:]",
        "-1",
        "$x",
        ".a?? ",
        "[]",
        "\"\\(1)\"",
    ] {
        assert!(!Expression::new(text).is_plain(), "{text}");
    }
}
