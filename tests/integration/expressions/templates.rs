//! `${ }` in text.

use super::JQ;
use serde_json::{Value, json};
use wfhost::workflow::expression::{EvalProblem, Scope, TextTemplate, ValueTemplate};

fn context() -> Value {
    json!({"n": 3, "s": "text", "list": [1, {"k": "v"}], "big": 12_345_678_901_234_567_890_u64, "no": null})
}

fn fill(text: &str) -> Value {
    TextTemplate::parse(text).unwrap().evaluate(&JQ, &Scope::Borrowed(&context())).unwrap()
}

#[test]
fn a_whole_scalar_keeps_its_type() {
    assert_eq!(fill("${ .n }"), json!(3));
    assert_eq!(fill("${.list}"), json!([1, {"k": "v"}]));
    assert_eq!(fill("${ .no }"), json!(null));
    assert_eq!(fill("${ .big }"), json!(12_345_678_901_234_567_890_u64));
    assert_eq!(fill("${ {a: {b: .n}} }"), json!({"a": {"b": 3}}));
    assert_eq!(fill("${ \"}\" }"), json!("}"));
    assert_eq!(fill("${ .n # a comment }\n }"), json!(3));
}

#[test]
fn text_around_it_interpolates() {
    assert_eq!(fill("n=${ .n }, s=${.s}"), json!("n=3, s=text"));
    assert_eq!(fill(" ${ .n }"), json!(" 3"));
    assert_eq!(fill("${.list}${.no}"), json!("[1,{\"k\":\"v\"}]null"));
    assert_eq!(fill("é${ \"\\(.s)!\" }é"), json!("étext!é"));
}

#[test]
fn an_escape_is_text() {
    assert_eq!(fill("$${ .n }"), json!("${ .n }"));
    assert_eq!(fill("a$${b}${ .n }"), json!("a${b}3"));
    assert_eq!(fill("$"), json!("$"));
    assert_eq!(fill("$ {x} $$ }"), json!("$ {x} $$ }"));
    assert_eq!(fill(""), json!(""));
}

#[test]
fn expressions_know_their_offsets() {
    let text = "é ${  .n | foo } and ${.s}";
    let template = TextTemplate::parse(text).unwrap();
    let places: Vec<_> = template.expressions().map(|p| (p.offset, p.expression.text())).collect();
    assert_eq!(places, [(7, ".n | foo"), (text.len() - 3, ".s")]);
    let first = template.expressions().next().unwrap();
    let error = &JQ.check(&first.expression).unwrap_err()[0];
    assert_eq!(&text[first.offset + error.span.start..first.offset + error.span.end], "foo");
}

#[test]
fn templates_that_do_not_end_are_refused() {
    for (text, offset) in
        [("a ${ .n", 2), ("${ \"} }", 0), ("${ {a: 1 }", 0), ("${}", 0), ("x ${  }", 2), ("${ .a # } ", 0)]
    {
        assert_eq!(TextTemplate::parse(text).unwrap_err().offset, offset, "{text}");
    }
}

#[test]
fn one_value_is_wanted() {
    let problem = |text: &str| {
        let template = TextTemplate::parse(text).unwrap();
        template.evaluate(&JQ, &Scope::Borrowed(&context())).unwrap_err()
    };
    assert_eq!(problem("x ${ .list[] }").problem, EvalProblem::NotOneOutput { count: 2 });
    assert_eq!(problem("${ empty }").problem, EvalProblem::NotOneOutput { count: 0 });
    assert_eq!(
        problem("${ empty }").to_string(),
        "the expression gave 0 values where one is wanted: `first(…) // null` gives null instead"
    );
    assert_eq!(
        problem("${ .list[] }").to_string(),
        "the expression gave 2 values where one is wanted: `[…]` makes a list of them"
    );
    let failed = problem("ab ${ .n.x }");
    assert_eq!((failed.offset, failed.problem.kind()), (6, "expression-failed"));
    assert_eq!(failed.problem.to_string(), "Cannot index number with string (\"x\")");
}

#[test]
fn a_tree_is_filled_in_where_it_has_templates() {
    let value = json!({
        "plain": [1, "two", null],
        "escaped": ["$${x}"],
        "${ .n }": "a key is no template",
        "in/side": {"t~l": "${ .list }", "s": ["x", "n: ${ .n }"]},
    });
    let template = ValueTemplate::parse(&value).unwrap();
    let places: Vec<_> = template.expressions().map(|(pointer, p)| (pointer, p.expression.text(), p.offset)).collect();
    assert_eq!(places, [("/in~1side/t~0l", ".list", 3), ("/in~1side/s/1", ".n", 6)]);
    let filled = template.evaluate(&JQ, &Scope::Borrowed(&context())).unwrap();
    assert_eq!(
        filled,
        json!({
            "plain": [1, "two", null],
            "escaped": ["${x}"],
            "${ .n }": "a key is no template",
            "in/side": {"t~l": [1, {"k": "v"}], "s": ["x", "n: 3"]},
        })
    );
    let problem = ValueTemplate::parse(&json!([{"a": "${ .s | error }"}])).unwrap();
    let problem = problem.evaluate(&JQ, &Scope::Borrowed(&context())).unwrap_err();
    assert_eq!((problem.pointer.as_str(), problem.offset), ("/0/a", 3));
    assert_eq!(problem.problem, EvalProblem::Failed("text".into()));
}

#[test]
fn all_errors_of_a_tree_are_reported() {
    let errors = ValueTemplate::parse(&json!({"a": "${", "b": ["ok", "x ${ {"]})).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| (error.pointer.as_str(), error.error.offset)).collect();
    assert_eq!(places, [("/a", 0), ("/b/1", 2)]);
}
