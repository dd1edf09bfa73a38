//! Filters and inputs that would hang, exhaust or crash a native jq: each ends with a clear
//! problem, and the next call works.

use super::JQ;
use serde_json::json;
use wfhost::workflow::expression::{
    EXPRESSION_BYTES_MAX, EngineConfig, EvalProblem, Expression, INPUT_DEPTH_MAX, Jq, Meter, OUTPUT_DEPTH_MAX, Scope,
    ValueTemplate,
};

/// The kind of problem with which a filter ends, or its result.
fn end(filter: &str, input: &str) -> String {
    let end = match JQ.compile(filter) {
        Err(errors) => format!("invalid: {}", errors[0].message),
        Ok(filter) => match JQ.evaluate_text(&filter, input.as_bytes()) {
            Err(EvalProblem::Failed(message)) => format!("failed: {message}"),
            Err(problem) => problem.kind().to_owned(),
            Ok(outputs) => outputs.join(" "),
        },
    };
    let sum = JQ.compile(".a + 1").unwrap();
    assert_eq!(JQ.evaluate_text(&sum, br#"{"a": 2}"#), Ok(vec!["3".into()]), "after {filter}");
    end
}

#[test]
fn endless_work_runs_out_of_fuel() {
    let filters = [
        "[range(1e9)]",
        "range(1e9) | empty",
        "def f: f; f",
        "def f: 1 + f; f",
        "def f(n): if n == 0 then 0 else 1 + f(n - 1) end; f(100000)",
        "reduce range(60) as $i ([1]; . + .)",
        "reduce range(1000000) as $i (null; [.])",
        "[range(9)] | combinations(9) | empty",
        "[range(300) as $a | range(300) as $b | range(300) as $c | $a] | length",
        r#"("a" * 39 + "b") | test("^(a+)+$")"#,
        r#"("9" * 1000000) | tonumber"#,
    ];
    for filter in filters {
        assert_eq!(end(filter, "null"), "expression-too-expensive", "{filter}");
    }
}

#[test]
fn what_needs_too_much_memory_is_refused() {
    let filters = [
        r#"1000000000 as $n | "x" * $n"#,
        r#"reduce range(60) as $i ("x"; . + .)"#,
        "[range(3e6)]",
        "reduce range(20000) as $i (null; [.]) | tojson",
        "reduce range(100000) as $i (null; [.]) | length",
    ];
    for filter in filters {
        let end = end(filter, "null");
        assert!(end == "expression-too-large" || end == "expression-too-expensive", "{filter}: {end}");
    }
    // One allocation: its result is certain.
    assert_eq!(end(filters[0], "null"), "expression-too-large");
    // jq computes constants when it compiles.
    assert!(
        end(r#""x" * 1000000000"#, "null")
            .starts_with("invalid: jq could not compile it: the expression needs more than")
    );
}

/// The bounds are far from what people do, even with lists of a thousand items.
#[test]
fn ordinary_work_on_large_inputs_is_within_the_bounds() {
    let item = |n: usize| json!({"id": n, "name": format!("item number {n}"), "price": 1.25, "tags": ["red", "green"], "group": n % 7});
    let items = json!((0..1000).map(|n| item(n * 7919 % 1000)).collect::<Vec<_>>()).to_string();
    let filters = [
        ". | length",
        "tojson | fromjson | length",
        "sort_by(.name) | length",
        "group_by(.group) | map(.[]) | length",
        "unique_by(.name) | length",
        "map({id, name, twice: (.price * 2)}) | length",
        "INDEX(.id) | length",
        "map(.name | ascii_upcase) | unique | length",
        "map(.name | sub(\"item\"; \"x\")) | length",
        "map(.tags | join(\"-\")) | length",
        "map(to_entries) | length",
        "map(with_entries(.value |= tostring)) | length",
        "reduce .[] as $i ({}; .[$i.name] += 1) | length",
        "([paths] | length) / 8",
    ];
    for filter in filters {
        assert_eq!(end(filter, &items), "1000", "{filter}");
    }
    // Many small values take most memory for each byte.
    let numbers = format!("[{}1]", "1,".repeat(400_000));
    assert_eq!(end("map(. + 1) | length", &numbers), "400001");
    let objects = format!("[{}1]", "{\"a\":1},".repeat(100_000));
    assert_eq!(end("map(.a?) | length", &objects), "100000");
}

#[test]
fn budgets_do_not_grow_without_end() {
    let config = EngineConfig { fuel_max: 500_000_000, memory_max_bytes: 17 << 20, ..EngineConfig::default() };
    let small = Jq::new(config).unwrap();
    let zeros = format!("[{}0]", "0,".repeat(200_000));
    let evaluate = |filter: &str| small.evaluate_text(&small.compile(filter).unwrap(), zeros.as_bytes());
    assert_eq!(evaluate("length"), Err(EvalProblem::TooLarge { memory_bytes: 17 << 20 }));
    let text = format!("{:?}", "x".repeat(400_000));
    let evaluate = |filter: &str| small.evaluate_text(&small.compile(filter).unwrap(), text.as_bytes());
    assert_eq!(evaluate("length"), Ok(vec!["400000".into()]));
    let spent = EvalProblem::TooExpensive { fuel: 500_000_000, input_bytes: text.len() };
    assert_eq!(evaluate("def f: f; f"), Err(spent));
}

#[test]
fn the_expressions_of_one_value_share_an_upper_bound() {
    let config = EngineConfig { fuel_max: 60_000_000, ..EngineConfig::default() };
    let small = Jq::new(config).unwrap();
    let null = json!(null);
    let fill = |count: usize| {
        let list = json!(vec!["${ [range(5000)] | length }"; count]);
        ValueTemplate::parse(&list).unwrap().evaluate(&small, &Scope::Borrowed(&null))
    };
    // Some 10 M units each. Each value may use the full budget, whatever the ones before have used.
    for _ in 0..3 {
        assert_eq!(fill(4), Ok(json!([5_000, 5_000, 5_000, 5_000])));
        let problem = fill(100).unwrap_err();
        assert_eq!(problem.problem, EvalProblem::TooExpensiveTogether { fuel: 60_000_000 });
        assert_eq!(problem.problem.kind(), "expression-too-expensive");
    }
    let meter = Meter::default();
    let expression = Expression::new("[.a | range(10000)] | length");
    assert_eq!(small.evaluate_one_metered(&expression, &Scope::Owned(json!({"a": 1})), &meter), Ok(json!(10_000)));
    assert_eq!((meter.sandboxed(), meter.input_bytes()), (1, 7));
    assert!((1_000_000..30_000_000).contains(&meter.fuel()), "{}", meter.fuel());
}

#[test]
fn messages_are_of_a_bounded_length() {
    let long = end(r#"error("é" * 100000)"#, "null");
    assert!(long.starts_with("failed: éééé") && long.ends_with("éé… (200000 bytes)"), "{} bytes", long.len());
    assert!(long.len() < 5_000);
    let name = end(&"x".repeat(60_000), "null");
    assert!(name.ends_with("xx… (60017 bytes)"), "{}", &name[4_000..]);
}

#[test]
fn names_that_the_host_reserves_are_refused() {
    for name in ["Number", "RawValue"] {
        let expression = Expression::new(&format!("{{\"$serde_json::private::{name}\": \"1\"}}"));
        let problem = JQ.evaluate(&expression, &Scope::Owned(json!(null))).unwrap_err();
        let message = "the output has $serde_json::private:: in it, which this host reserves";
        assert_eq!(problem, EvalProblem::Failed(message.into()));
    }
}

#[test]
fn outputs_are_bounded() {
    assert_eq!(end("repeat(1)", "null"), "expression-output-limit");
    assert_eq!(end("range(10001)", "null"), "expression-output-limit");
    let small = Jq::new(EngineConfig { output_bytes_max: 1000, outputs_max: 3, ..EngineConfig::default() }).unwrap();
    let evaluate = |filter: &str| small.evaluate_text(&small.compile(filter).unwrap(), b"null");
    assert_eq!(evaluate("1, 2, 3").unwrap().len(), 3);
    assert_eq!(evaluate("1, 2, 3, 4"), Err(EvalProblem::OutputLimit { outputs: 3, bytes: 1000 }));
    assert_eq!(evaluate(r#""x" * 998"#).unwrap()[0].len(), 1000);
    assert_eq!(evaluate(r#""x" * 999"#), Err(EvalProblem::OutputLimit { outputs: 3, bytes: 1000 }));
    assert_eq!(evaluate(r#""x" * 500, "x" * 500"#), Err(EvalProblem::OutputLimit { outputs: 3, bytes: 1000 }));
}

#[test]
fn deep_nesting_is_refused() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert_eq!(end(".", &deep(200_000)), "bad-json");
    assert_eq!(end(".", &deep(INPUT_DEPTH_MAX + 1)), "bad-json");
    assert_eq!(end("[..] | length", &deep(INPUT_DEPTH_MAX)), INPUT_DEPTH_MAX.to_string());
    assert!(end(&format!("{:?} | fromjson", deep(20_000)), "null").starts_with("failed: Exceeds depth limit"));

    // Built by an expression, and deeper than this host reads.
    let expression = Expression::new("reduce range(200) as $i (null; [.])");
    let problem = JQ.evaluate(&expression, &Scope::Owned(json!(null))).unwrap_err();
    assert_eq!(problem.kind(), "expression-failed");
    // Given by the host, with the objects of the scope counted.
    let nested = |depth: usize| (0..depth).fold(json!(null), |value, _| json!([value]));
    let scope = |value| Scope::object([("a", Scope::Owned(value))]);
    let expression = Expression::new("[.a | ..] | length");
    assert_eq!(JQ.evaluate_one(&expression, &scope(nested(INPUT_DEPTH_MAX - 1))), Ok(json!(INPUT_DEPTH_MAX)));
    assert_eq!(JQ.evaluate_one(&expression, &scope(nested(INPUT_DEPTH_MAX))).unwrap_err().kind(), "bad-json");
    // The two ways of evaluation agree on what is too deep to be a result.
    for depth in [OUTPUT_DEPTH_MAX, OUTPUT_DEPTH_MAX + 1] {
        let (scope, expression) = (scope(nested(depth)), Expression::new(".a"));
        let native = JQ.evaluate(&expression, &scope);
        assert_eq!(native.is_ok(), depth == OUTPUT_DEPTH_MAX);
        assert_eq!(native, JQ.evaluate_in_sandbox(&expression, &scope));
    }
}

/// A file has thousands of expressions, so compiling one may take far less than evaluating one.
#[test]
fn constants_are_computed_within_small_bounds() {
    assert_eq!(end(r#""x" * 1000000 == "x""#, "null"), "false");
    let end = end(r#""x" * 7000000 == "x""#, "null");
    assert!(end.starts_with("invalid: jq could not compile it: the expression needs more than 420"), "{end}");
    // Long and rich expressions are within them.
    let builtins = "abs|add|all|any|arrays|ascii_downcase|combinations|flatten|from_entries|gmtime|group_by(.)|implode|INDEX(.)|IN(.)|\
        indices(1)|inside(1)|JOIN(.; .)|keys|limit(1; .)|map_values(.)|max_by(.)|mktime|paths|pick(.a)|range(1; 2; 3)|recurse|scan(.)|\
        splits(.)|strptime(.)|sub(.; .)|test(.)|tojson|tostream|transpose|unique_by(.)|walk(.)|with_entries(.)|@csv|@sh|@uri|todate|\
        fromdate|fromstream(.)|truncate_stream(.)|getpath([])|gsub(.; .)|capture(.)|ltrimstr(.)|until(.; .)|while(.; .)|repeat(.)";
    JQ.compile(builtins).unwrap_or_else(|errors| panic!("{errors:?}"));
    let long = format!("[{}1]", "(.a | select(.b) | map(.c)) // 2, ".repeat(500));
    JQ.compile(&long).unwrap_or_else(|errors| panic!("{errors:?}"));
}

#[test]
fn hostile_texts_are_refused() {
    let parentheses = "(".repeat(30_000) + "1" + &")".repeat(30_000);
    assert_eq!(end(&parentheses, "null"), "invalid: memory exhausted");
    let long = "1".repeat(EXPRESSION_BYTES_MAX + 1);
    assert!(end(&long, "null").starts_with("invalid: the expression is longer than"));
    let sums = "1".to_owned() + &"+1".repeat(30_000);
    let calls = ".a|length".to_owned() + &"+length".repeat(9_000);
    let definitions = "def f: 1; ".repeat(6_000) + "f";
    for text in [sums, calls, definitions, "[".repeat(60_000), "\"\\(".repeat(20_000), "if 1 then ".repeat(6_000)] {
        // Whatever the result, it ends, and neither jq nor the host's own parser takes the process
        // down.
        let _ = end(&text, r#"{"a": 1}"#);
        let _ = Expression::new(&text);
    }
}

#[test]
fn odd_but_harmless_ones_are_as_in_jq() {
    assert_eq!(end(".[1e9] = 1", "null"), "failed: Array index too large");
    assert_eq!(end("1e1000 * 1e1000", "null"), "1.7976931348623157e+308");
    assert_eq!(end(r#"test("((a{1000}){1000}){1000}")"#, "\"a\""), "false");
    assert_eq!(end(r#"("a" * 300000) | test("(a|a?)+b")"#, "null"), "false");
    assert_eq!(end(r#"test("(?<n>a\\g<n>?b?)+c")"#, "\"aaaa\""), "false");
    assert_eq!(end(r#"test("a{99999999}")"#, "\"a\""), "failed: Regex failure: too big number for repeat range");
    assert_eq!(end(r#"[limit(3; repeat("x"))]"#, "null"), r#"["x","x","x"]"#);
}

#[test]
fn text_that_is_no_json_is_refused() {
    for input in ["", "nan", "1 2", "{a: 1}", "[1,]", "\"\\ud800\"", "NaN10"] {
        assert_eq!(end(".", input), "bad-json", "{input}");
    }
    let identity = JQ.compile(".").unwrap();
    assert_eq!(JQ.evaluate_text(&identity, b"\"\xff\"").unwrap_err().kind(), "bad-json");
}
