//! Hostile expressions in the steps of a workflow: each ends with a problem of its own kind and
//! position, while other steps go on.

use serde_json::{Map, Value, json};
use wfhost::host::{Host, RunOptions};

type Expected = Result<Value, (&'static str, &'static str)>;

/// Expressions, and for each the kind and detail of its problem, or its value. `…` at the end of a
/// detail stands for anything.
fn cases() -> Vec<(&'static str, Expected)> {
    let failed = |detail| Err(("expression-failed", detail));
    let expensive = || Err(("expression-too-expensive", "the expression used 50…"));
    let large = || Err(("expression-too-large", "the expression needs more than 16…"));
    let one = |detail| Err(("expression-not-one-output", detail));
    vec![
        ("def f: f; f", expensive()),
        ("def f: try f catch f; f", large()),
        ("[range(1e12)]", expensive()),
        ("[range(infinite)]", expensive()),
        ("first(range(1e12) | select(. < 0))", expensive()),
        ("[limit(1e9; repeat(1))]", expensive()),
        ("0 | until(false; . + 1)", expensive()),
        ("(\"a\" * 40) + \"!\" | test(\"^(a+)+$\")", expensive()),
        ("(\"a\" * 5000) | [gsub(\"\"; \"b\")] | length", expensive()),
        ("(\"a,\" * 1000000) | [splits(\",\")] | length", expensive()),
        ("(\"9\" * 1000000) | tonumber", expensive()),
        ("[range(100000) | {a: .}] | sort", expensive()),
        ("1e9 as $n | \"x\" * $n", large()),
        ("\"x\" | [recurse(. + .)] | length", large()),
        ("reduce range(10000) as $i (null; [.]) | tojson", large()),
        ("getpath([range(10000) | \"a\"])", large()),
        ("reduce range(130) as $i (null; [.])", failed("the output nests more than 100 levels deep")),
        ("error(\"x\" * 100000)", failed("xxxx…")),
        ("error({\"a\": 1})", failed("{\"a\":1}")),
        ("error(null)", failed("null")),
        (
            "label $f | error({__jq: 0})",
            one("the expression gave 0 values where one is wanted: `first(…) // null` gives null instead"),
        ),
        ("range(10)", one("the expression gave 10 values where one is wanted: `[…]` makes a list of them")),
        ("[[1]] | @sh", failed("array ([1]) can not be escaped for shell")),
        ("[{}] | @csv", failed("object ({}) is not valid in a csv row")),
        ("@foo", failed("foo is not a valid format")),
        ("1 | ltrimstr(\"a\")", failed("startswith() requires string inputs")),
        ("[] | .[1e9] = 1", failed("Array index too large")),
        ("[] | .[nan] = 1", failed("Cannot set array element at NaN index")),
        (
            "\"\\\"\\\\ud800\\\"\" | fromjson",
            failed("Invalid \\uXXXX\\uXXXX surrogate pair escape at line 1, column 8…"),
        ),
        ("\"!\" | @base64d", failed("string (\"!\") is not valid base64 data")),
        ("[\"x\"] | implode", failed("string (\"x\") can't be imploded, unicode codepoint needs to be numeric")),
        ("\"a\" | test(\"(\")", failed("Regex failure: end pattern with unmatched parenthesis")),
        ("{\"$serde_json::private::Number\": \"1\"}", failed("the output has $serde_json::private:: in it…")),
        ("[55296, 1114112, -1] | implode", Ok(json!("\u{fffd}\u{fffd}\u{fffd}"))),
        ("\"//79\" | @base64d", Ok(json!("\u{fffd}\u{fffd}\u{fffd}"))),
        ("{\"a\\u0000b\": \"\\u0000\"} | .[\"a\\u0000b\"] |= . + \"é\"", Ok(json!({"a\0b": "\0é"}))),
        ("[nan, 1e1000 + 0, -infinite, -0 + 0]", Ok(json!([null, f64::MAX, f64::MIN, 0]))),
        ("123456789012345678901234567890", Ok(serde_json::from_str("123456789012345678901234567890").unwrap())),
    ]
}

#[test]
fn hostile_expressions_end_with_their_problems_while_other_steps_go_on() {
    let cases = cases();
    let mut text = String::from("name: hostile\nsteps:\n");
    for (number, (expression, _)) in cases.iter().enumerate() {
        let value = format!(
            "needs: []\n    continue-on-error: true\n    set:\n      deep: [ 1, {}]\n",
            json!(format!("${{ {expression} }}"))
        );
        text += &format!("  - id: h{number}\n    {value}  - id: o{number}\n    set: {number}\n");
    }
    text += "  - id: end\n    needs: [ h0, o0 ]\n    wait: 1ms\noutputs:\n";
    for number in 0..cases.len() {
        text += &format!("  h{number}: ${{ .steps.h{number} }}\n  o{number}: ${{ .steps.o{number}.output }}\n");
    }
    let host = Host::builder().workers(2).build().unwrap();
    let workflow = host.parse("hostile.yaml", &text, ".").unwrap_or_else(|error| panic!("{error}"));
    let run = host.start(&workflow, Map::new(), RunOptions::default()).unwrap();
    let outputs = run.wait().outputs().expect("the run succeeds");
    let mut failures = String::new();
    for (number, (expression, expected)) in cases.iter().enumerate() {
        let found = &outputs[format!("h{number}")];
        let (error, output) = (&found["error"], &found["output"]["deep"][1]);
        let is_as_expected = match expected {
            Ok(value) => found["status"] == "succeeded" && format!("{output}") == format!("{value}"),
            Err((kind, detail)) => {
                let reported = error["detail"].as_str().unwrap_or_default();
                found["status"] == "failed"
                    && error["kind"] == *kind
                    && error["data"]["pointer"] == format!("/steps/{}/set/deep/1", 2 * number)
                    && detail.strip_suffix('…').map_or(reported == *detail, |start| reported.starts_with(start))
                    && reported.len() < 5_000
            }
        };
        let goes_on = outputs[format!("o{number}")] == number;
        if !is_as_expected || !goes_on {
            failures += &format!("{expression}: {output} {error}, expected {expected:?}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// As the documentation of workflow files says: jq's own dates have no fractions of seconds.
#[test]
fn the_time_of_the_start_can_be_computed_with() {
    let text = "
steps:
  - { id: seconds, set: '${ .run.started[:19] + \"Z\" | fromdate }' }
  - { id: failed, continue-on-error: true, set: '${ error }' , needs: [] }
  - { id: day, set: '${ .run.started[:10] }' }
outputs: { seconds: '${ .steps.seconds.output }', attempts: '${ [.steps[].attempts] }', error: '${ .steps.failed.error }' }";
    let host = Host::builder().workers(1).build().unwrap();
    let workflow = host.parse("x.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
    let outputs = host.start(&workflow, Map::new(), RunOptions::default()).unwrap().wait().outputs().unwrap();
    assert!(outputs["seconds"].as_f64().is_some_and(|seconds| seconds > 1.7e9), "{outputs}");
    assert_eq!(outputs["attempts"], json!([0, 0, 0]));
    assert_eq!((&outputs["error"]["attempt"], &outputs["error"]["step"]), (&json!(0), &json!("failed")));
}

/// What jq can report when it compiles is reported before anything runs, with its position in the
/// file.
#[test]
fn what_does_not_compile_is_reported_with_its_position() {
    let host = Host::builder().workers(1).build().unwrap();
    let cases = [
        ("input", "input is not available", "input"),
        ("1 | now", "now is not available", "now"),
        ("$ENV.HOME", "$ENV is not available", "$ENV"),
        ("\"é\" | ascii", "ascii/0 is not defined", "ascii"),
        ("\"x\" * 1e9", "jq could not compile it: the expression needs more than", "\"x\" * 1e9"),
        ("\"\\ud800\" | 1", "Invalid \\uXXXX\\uXXXX surrogate pair escape", "\\ud800"),
        ("import \"a\" as a; 1", "modules are not available", "import"),
    ];
    for (expression, message, place) in cases {
        let text = format!("steps:\n  - id: a\n    needs: []\n    set: |\n      é ${{ {expression} }}\n");
        let Err(error) = host.parse("x.yaml", &text, ".") else { panic!("{expression} compiles") };
        let reported = error.to_string();
        let column = "      é ${ ".chars().count() + 1 + expression[..expression.find(place).unwrap()].chars().count();
        assert!(reported.contains(message), "{expression}: {reported}");
        assert!(reported.contains(&format!("x.yaml:5:{column}")), "{expression}: {reported}");
        assert!(reported.contains(&"^".repeat(place.chars().count())), "{expression}: {reported}");
    }
}
