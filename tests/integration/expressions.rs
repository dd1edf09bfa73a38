//! Expressions: jq in the sandbox against native jq, hostile filters, references, templates.

use std::collections::HashMap;
use std::sync::LazyLock;
use wfhost::workflow::expression::{CompileError, EngineConfig, Jq};

/// One engine for all tests: its compilation takes half a second.
static JQ: LazyLock<Jq> = LazyLock::new(|| Jq::new(EngineConfig::default()).unwrap());

/// What came of a filter, as in cases.tsv.
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
    include_str!("../../guests/jq/cases.tsv").lines().map(case).collect()
}

/// Where the component differs from native jq, and why.
fn exceptions() -> HashMap<String, (String, Outcome)> {
    let exception = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [filter, reason, kind, texts @ ..] = columns.as_slice() else { panic!("{line}") };
        ((*filter).into(), ((*reason).into(), outcome(kind, texts)))
    };
    include_str!("../../guests/jq/exceptions.tsv").lines().map(exception).collect()
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
