//! A mistake is the same mistake in Rust and in a file.

use super::*;
use serde_json::json;

/// What is reported, without positions.
fn titles(problems: &Diagnostics) -> Vec<(&'static str, String)> {
    problems.iter().map(|problem| (problem.code, problem.message.clone())).collect()
}

fn assert_same_problem(code: &str, definition: &Definition, file: &str) {
    let of_file = read(file).expect_err(file);
    let of_definition = read(&definition.to_string()).expect_err(code);
    assert_eq!(titles(&of_definition), titles(&of_file), "{definition}");
    assert_eq!(titles(&of_file)[0].0, code);
}

#[test]
fn problems_are_those_of_the_file() {
    let one = |step| Definition::new("order").step("pay", step);
    let cases = [
        (
            "unknown-step",
            one(Step::set(1)).step("ship", Step::set(expr(".steps.pya.output"))),
            "steps: [{ id: pay, set: 1 }, { id: ship, set: \"${ .steps.pya.output }\" }]",
        ),
        (
            "duplicate-id",
            one(Step::set(1)).step("pay", Step::set(2)),
            "steps: [{ id: pay, set: 1 }, { id: pay, set: 2 }]",
        ),
        (
            "cycle",
            one(Step::set(1).needs(["ship"])).step("ship", Step::set(2).needs(["pay"])),
            "steps: [{ id: pay, set: 1, needs: [ship] }, { id: ship, set: 2, needs: [pay] }]",
        ),
        ("name", Definition::new("order").step("1st", Step::set(1)), "steps: [{ id: 1st, set: 1 }]"),
        ("expression", one(Step::set(expr(".inputs.["))), "steps: [{ id: pay, set: \"${ .inputs.[ }\" }]"),
        ("key-not-here", one(Step::set(1).entry("main")), "steps: [{ id: pay, set: 1, entry: main }]"),
        ("no-steps", Definition::new("order"), "name: order"),
        (
            "no-braces",
            one(Step::set(".inputs.a")).input("a", Input::string()),
            "inputs: { a: string }\nsteps: [{ id: pay, set: .inputs.a }]",
        ),
        (
            "duplicate-key",
            one(Step::call("log").timeout(seconds(1)).timeout(seconds(2))),
            "steps: [{ id: pay, call: log, timeout: 1s, timeout: 2s }]",
        ),
        (
            "duration",
            one(Step::call("log").timeout(Duration::MAX)),
            "steps: [{ id: pay, call: log, timeout: 213503982d8h1m49s551ms615us }]",
        ),
        (
            "duplicate-key",
            one(Step::set(1)).input("a", Input::string()).input("a", Input::string()),
            "inputs: { a: string, a: string }\nsteps: [{ id: pay, set: 1 }]",
        ),
    ];
    for (code, definition, file) in &cases {
        assert_same_problem(code, definition, file);
    }
}

/// The problems of a definition, as `Host::load_definition` gives them.
fn placed(definition: &Definition) -> Diagnostics {
    let rendering = definition.render();
    rendering.check("order.yaml").err().unwrap_or_else(|| rendering.placed(read(&rendering.text).unwrap_err()))
}

#[test]
fn a_problem_of_a_step_names_the_place_that_made_it() {
    let inner = Step::set(expr(".steps.pya.output"));
    let line = line!() - 1;
    let definition = Definition::new("order")
        .step("pay", Step::set(1))
        .step("ship", Step::group([("label", inner), ("box", Step::set(1))]))
        .output("got", expr(".steps.pya.output"));
    let problems = placed(&definition);
    let found: Vec<_> = problems.iter().map(|problem| problem.related.clone()).collect();
    let [inner, outputs] = &found[..] else { panic!("{problems}") };
    let [(span, label)] = &inner[..] else { panic!("{problems}") };
    assert_eq!(problems.source().slice(*span), "id: label");
    assert_eq!(*label, format!("the step of {}:{line}:17", file!()));
    assert!(outputs.is_empty(), "{problems}");
}

#[test]
fn a_value_that_does_not_serialise_is_a_problem() {
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    let definition = Definition::new("order").step("pay", Step::set(json!({ "a": 1 })).with(pairs));
    let problems = placed(&definition);
    let [problem] = &problems.iter().collect::<Vec<_>>()[..] else { panic!("{problems}") };
    assert_eq!(problem.message, "a value cannot be serialised: key must be a string");
    assert_eq!(problems.source().slice(problem.span), "null");
    assert_eq!(problems.source().position(problem.span.start).line, 6);
    assert_eq!(problem.related.len(), 1);
}
