//! References: what is inferred, and that it suffices.

use super::{Case, JQ, cases, generate};
use proptest::prelude::*;
use serde_json::Value;
use wfhost::workflow::expression::{EvalProblem, Expression, References, Scope};

/// The paths that are inferred, as text, sorted.
fn inferred(text: &str) -> String {
    match Expression::new(text).references() {
        References::Paths(paths) => {
            let mut paths: Vec<String> = paths.iter().map(|reference| reference.path.join(".")).collect();
            paths.sort();
            paths.join(" ")
        }
        References::Everything(span) => format!("everything: {}", &text[span.clone()]),
        References::NotInferable { message, .. } => format!("not inferable: {message}"),
    }
}

#[test]
fn the_paths_that_are_read_are_found() {
    let cases = [
        (".steps.a.output | {id: .user.id, n: (.items | length)}", "steps.a.output.items steps.a.output.user.id"),
        (".steps[.inputs.which].output", "inputs.which steps"),
        ("if .steps.d.output.ok then .steps.e else .inputs.z end", "inputs.z steps.d.output.ok steps.e"),
        (".steps[\"my-id\"].output.x", "steps.my-id.output.x"),
        (".steps.\"my-id\".output[0].x", "steps.my-id.output"),
        ("(.steps.thumb.output | length) > 100", "steps.thumb.output"),
        (".steps.a.output // .steps.b.output", "steps.a.output steps.b.output"),
        (".a as $x | .b | . + $x", "a b"),
        (". as $c | .steps.a.output | map(. + $c.inputs.n)", "inputs.n steps.a.output"),
        (". as {a: $x} | $x", "everything: ."),
        (". as $c | .steps.a.output | map(.n |= . + $c.inputs.n)", "inputs.n steps.a.output"),
        (". as $c | .steps.a.output | del($c.inputs.n)", "everything: $c"),
        (".a as $v | $v.b | ($v.c = 1)", "a"),
        (". as $c | .a | _modify($c.b.n; 1)", "everything: $c"),
        (". as $c | .a as {(\"k\\($c.b)\"): $c} | $c.d", "a b"),
        (". as $c | .a as [{(\"k\\($c.b)\"): $c}] ?// $c | $c.d", "a b"),
        ("reduce .steps.a.output[] as $x (.inputs.start; . + $x.n)", "inputs.start steps.a.output"),
        ("[foreach .a[] as $x (0; . + $x; [$x, .])]", "a"),
        ("\"\\(.inputs.name): \\(.steps.a.output.n)\"", "inputs.name steps.a.output.n"),
        ("range(.inputs.n)", "inputs.n"),
        ("first(.a[] | select(.ok)) // .b", "a b"),
        (".a | select(.ok) | .n", "a.n a.ok"),
        ("try .a.b catch .c", "a.b"),
        (".a?.b", "a.b"),
        ("{inputs, x: .steps.a.status}", "inputs steps.a.status"),
        ("{steps}.steps.a", "steps"),
        ("def f(x): x * 2; .inputs.n | f(.)", "inputs.n"),
        ("def f: .steps.q; f", "everything: f"),
        (".a |= 1", "everything: .a |= 1"),
        ("keys", "everything: keys"),
        ("..", "everything: .."),
        (".", "everything: ."),
        ("$__loc__.line + 1", ""),
        ("\"text\"", ""),
        (".a.b, .a", "a"),
        ("(.a | .b), (.a | .b.c)", "a.b"),
        ("def first(f): .x; first(.a)", "everything: first(.a)"),
        (".a + (", "not inferable: the expression ends where a value is expected"),
        (". as [$a] ?// $a | $a", "everything: ."),
        (".a = .b // .c", "c everything"),
    ];
    for (text, expected) in cases {
        if text == ".a = .b // .c" {
            // An assignment reads all of its input, whatever follows it.
            assert_eq!(inferred(text), "everything: .a = .b");
        } else {
            assert_eq!(inferred(text), expected, "{text}");
        }
    }
}

#[test]
fn references_have_their_positions() {
    let cases = [
        ("1 + .steps.a.output.n | . + \"é\"", ".steps.a.output.n"),
        (".inputs.a | ascii_upcase", ".inputs.a"),
        ("(.inputs.a | .) | length", ".inputs.a"),
        ("-(.inputs.a)", ".inputs.a"),
        ("if true then .inputs.a else 1 end | tostring", ".inputs.a"),
        (".inputs.a as $a | \"x\" + $a", ".inputs.a"),
        ("[1, .inputs.a] | map(. * 2)", ".inputs.a"),
        (".inputs | .a | length", ".a"),
        (". as {inputs: $i} | $i", "."),
    ];
    for (text, expected) in cases {
        let span = match Expression::new(text).references() {
            References::Paths(paths) => paths[0].span.clone(),
            References::Everything(span) => span.clone(),
            References::NotInferable { message, .. } => panic!("{text}: {message}"),
        };
        assert_eq!(&text[span], expected, "{text}");
    }
}

/// Evaluates on the referenced part, and on everything.
fn check(text: &str, context: &Value) -> Result<(), TestCaseError> {
    let expression = Expression::new(text);
    let valid = JQ.check(&expression).is_ok();
    if let References::NotInferable { message, .. } = expression.references() {
        prop_assert!(!valid, "jq accepts {text}: {message}");
    }
    if !valid {
        return Ok(());
    }
    let pruned = JQ.evaluate_in_sandbox(&expression, &Scope::Borrowed(context));
    let filter = JQ.compile(text).expect("checked");
    let whole = JQ.evaluate_text(&filter, context.to_string().as_bytes());
    let exhausted = |problem: &EvalProblem| !matches!(problem, EvalProblem::Failed(_));
    if pruned.as_ref().is_err_and(exhausted) || whole.as_ref().is_err_and(exhausted) {
        // Budgets grow with the input, so these may differ.
        return Ok(());
    }
    let whole =
        whole.map(|texts| texts.iter().map(|text| serde_json::from_str::<Value>(text).expect("JSON")).collect());
    prop_assert_eq!(
        format!("{pruned:?}"),
        format!("{:?}", whole as Result<Vec<Value>, _>),
        "{} on {}, which reads {}",
        text,
        context,
        inferred(text)
    );
    Ok(())
}

#[test]
fn all_cases_are_parsed_and_read_what_is_inferred() {
    for Case { filter, input, .. } in cases() {
        check(&filter, &serde_json::from_str(&input).unwrap()).unwrap();
    }
}

#[test]
fn syntax_that_jq_accepts_is_parsed() {
    let texts = include_str!("syntax.txt");
    for text in texts.lines() {
        let valid = JQ.compile(text).is_ok();
        let parsed = !matches!(Expression::new(text).references(), References::NotInferable { .. });
        assert!(parsed || !valid, "{text}: {:?}", Expression::new(text).references());
    }
}

proptest! {
    // PROPTEST_CASES can ask for more.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(800), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_inferred_suffices(text in generate::expression(), context in generate::context()) {
        check(&text, &context)?;
    }

    #[test]
    fn parts_of_the_context_suffice(text in generate::program(), context in generate::context()) {
        check(&text, &context)?;
    }

    /// Any text: the host's parser survives it, and accepts it if jq does.
    #[test]
    fn any_text_is_survived(text in "([a-c.$|,:;?()\\[\\]{}\"\\\\# /=+*<>!@0-9\n-]|as|def|if|then|end|reduce|try|//|\\.\\.|é){0,24}") {
        check(&text, &Value::Null)?;
    }
}
