//! Expressions: jq in the sandbox against native jq, hostile filters, references, templates.

use std::collections::HashMap;
use std::sync::LazyLock;
use wfhost::workflow::expression::{CompileError, EngineConfig, Jq};

mod generate;
mod hostile;
mod inference;
mod plain;
mod running;
mod templates;

/// One engine for all tests: its compilation takes half a second.
static JQ: LazyLock<Jq> = LazyLock::new(|| Jq::new(EngineConfig::default()).unwrap());

/// The result of a filter, as in cases.tsv.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Ok(Vec<String>),
    Error(String),
    Compile(Vec<String>),
}

struct Case {
    filter: String,
    input: String,
    expected: Outcome,
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
}

fn outcome(kind: &str, texts: &[&str]) -> Outcome {
    let texts = || texts.iter().map(|text| (*text).to_owned());
    match kind {
        "ok" => Outcome::Ok(texts().collect()),
        "error" => Outcome::Error(unescaped(&texts().collect::<String>())),
        "compile" => Outcome::Compile(texts().map(|text| unescaped(&text)).collect()),
        _ => panic!("{kind} is no outcome"),
    }
}

/// What native jq 1.8.2 makes of each case.
fn cases() -> Vec<Case> {
    let case = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [filter, input, kind, texts @ ..] = columns.as_slice() else { panic!("{line}") };
        Case { filter: (*filter).into(), input: (*input).into(), expected: outcome(kind, texts) }
    };
    include_str!("../../../guests/jq/cases.tsv").lines().map(case).collect()
}

/// Where the component differs from native jq, and why.
fn exceptions() -> HashMap<String, (String, Outcome)> {
    let exception = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [filter, reason, kind, texts @ ..] = columns.as_slice() else { panic!("{line}") };
        ((*filter).into(), ((*reason).into(), outcome(kind, texts)))
    };
    include_str!("../../../guests/jq/exceptions.tsv").lines().map(exception).collect()
}

fn messages(errors: Vec<CompileError>) -> Vec<String> {
    errors.into_iter().map(|error| error.message).collect()
}

fn run(jq: &Jq, filter: &str, input: &str) -> Outcome {
    match jq.compile(filter) {
        Err(errors) => Outcome::Compile(messages(errors)),
        Ok(filter) => match jq.evaluate_text(&filter, input.as_bytes()) {
            Ok(outputs) => Outcome::Ok(outputs),
            Err(problem) => Outcome::Error(problem.to_string()),
        },
    }
}

#[test]
fn all_cases_are_as_in_native_jq() {
    let mut exceptions = exceptions();
    let mut failures = String::new();
    for Case { filter, input, expected } in cases() {
        let found = run(&JQ, &filter, &input);
        let wanted = match exceptions.get(&filter) {
            Some((reason, own)) => {
                assert_ne!(*own, expected, "{filter} is no exception any more: {reason}");
                own
            }
            None => &expected,
        };
        if found != *wanted {
            failures += &format!("{filter}\n  on     {input}\n  wanted {wanted:?}\n  found  {found:?}\n");
        }
    }
    let known: Vec<String> = cases().into_iter().map(|case| case.filter).collect();
    exceptions.retain(|filter, _| !known.contains(filter));
    assert!(exceptions.is_empty(), "exceptions without a case: {:?}", exceptions.keys());
    assert!(failures.is_empty(), "{failures}");
}

/// The message and the position of each error.
fn errors(filter: &str) -> Vec<(String, String)> {
    let place = |error: CompileError| (error.message, filter[error.span].to_owned());
    JQ.compile(filter).unwrap_err().into_iter().map(place).collect()
}

#[test]
fn compile_errors_have_their_positions() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("\"é\" | bar", &[("bar/0 is not defined", "bar")]),
        (".a.b + foo(1; 2)", &[("foo/2 is not defined", "foo")]),
        ("1 as [$a] | $c", &[("$c is not defined", "$c")]),
        (
            "foo + .a | bar + $x",
            &[("foo/0 is not defined", "foo"), ("bar/0 is not defined", "bar"), ("$x is not defined", "$x")],
        ),
        ("break $x", &[("break $x is not inside of label $x", "break $x")]),
        (". | now", &[("now is not available: an expression has no clock", "now")]),
        (
            "$ENV.HOME, env, zork",
            &[
                ("$ENV is not available: an expression has no environment", "$ENV"),
                ("env is not available: an expression has no environment", "env"),
                ("zork/0 is not defined", "zork"),
            ],
        ),
        ("builtins | length", &[("builtins is not available: an expression cannot list them", "builtins")]),
        ("[inputs]", &[("inputs is not available: an expression has one input, which is `.`", "inputs")]),
        ("# c\n import \"a\" as a; 1", &[("modules are not available: an expression is its text alone", "import")]),
        ("module {a: 1}; 1", &[("modules are not available: an expression is its text alone", "module")]),
        ("1 \0", &[("the text contains a NUL character", "\0")]),
        ("", &[("there is no expression here (the input as it is would be `.`)", "")]),
        ("def f: 1;", &[("there is no expression here (the input as it is would be `.`)", "def f: 1;")]),
    ];
    for (filter, expected) in cases {
        let found = errors(filter);
        let found: Vec<_> = found.iter().map(|(message, place)| (message.as_str(), place.as_str())).collect();
        assert_eq!(found, *expected, "{filter:?}");
    }
    let syntax = JQ.compile(".a | {b: (1 + } | .c").unwrap_err();
    assert!(syntax[0].message.starts_with("syntax error"), "{syntax:?}");
    assert_eq!(syntax[0].span, 14..15);
}

#[test]
fn names_that_were_removed_can_be_defined() {
    for filter in ["def now: 1; now", "def env(f): f; env(.)", ". as $ENV | $ENV", "def f($ENV): $ENV; f(.)"] {
        assert_eq!(run(&JQ, filter, "1"), Outcome::Ok(vec!["1".into()]), "{filter}");
    }
}

#[test]
fn results_do_not_depend_on_what_an_instance_did_before() {
    let fresh_each_time = Jq::new(EngineConfig { warm_instances_max: 0, ..EngineConfig::default() }).unwrap();
    let one = Jq::new(EngineConfig { warm_instances_max: 1, ..EngineConfig::default() }).unwrap();
    for Case { filter, input, .. } in cases().into_iter().chain(cases().into_iter().rev()) {
        assert_eq!(run(&one, &filter, &input), run(&fresh_each_time, &filter, &input), "{filter} on {input}");
    }
}

/// A `break` is an error that carries its label's number, and an expression can raise one itself.
#[test]
fn labels_have_the_same_numbers_in_each_evaluation() {
    let one = Jq::new(EngineConfig { warm_instances_max: 1, ..EngineConfig::default() }).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&one, "label $a | 1, error({__jq: 0}), 2", "null"), Outcome::Ok(vec!["1".into()]));
        let other = run(&one, "first(label $a | 1, error({__jq: 9}), 2)", "null");
        assert_eq!(other, Outcome::Ok(vec!["1".into()]));
    }
}

#[test]
fn calls_may_come_from_many_threads() {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for n in 0..200 {
                    let found = run(&JQ, "[range(.)] | length", &format!("{}", n + thread));
                    assert_eq!(found, Outcome::Ok(vec![(n + thread).to_string()]));
                }
            });
        }
    });
}
