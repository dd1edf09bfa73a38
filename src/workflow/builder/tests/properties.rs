//! Random values and random texts.

use super::*;
use crate::workflow::expression::{Meter, Scope};
use crate::workflow::plan::Action;
use crate::workflow::syntax::{Node, parse};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// What YAML, JSON and expressions give a meaning to, separated by `¦`.
const ODD: &str = "${¦$${ .x }¦}¦null¦~¦true¦1e3¦0x1f¦.inf¦- a¦a: b¦a #b¦#¦'¦\"¦|¦\n¦a\nb¦\n\n¦ ¦  x¦\t¦\r¦<<¦---¦...¦&a¦\
                   *a¦!t¦%¦@¦`¦? ¦\\n¦\0¦\u{7f}¦\u{85}¦\u{2028}¦\u{feff}¦é¦😀¦\u{fffe}¦[¦{ }¦,¦yes¦2027-01-01¦¦=¦:";

fn text() -> impl Strategy<Value = String> {
    let odd: Vec<&str> = ODD.split('¦').collect();
    prop_oneof![
        proptest::collection::vec(proptest::sample::select(odd), 0..5).prop_map(|parts| parts.concat()),
        "[ -~\n]{0,12}",
        any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = text();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The value of the tree that a text is read as.
fn parsed(text: &str) -> Value {
    let source = Source::new("order.yaml", text);
    let mut problems = Diagnostics::new(source.clone());
    let root = parse(&source, &mut problems);
    assert!(problems.is_empty(), "{problems}\n{text}");
    root.as_ref().map(Node::to_json).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 512 }))]

    #[test]
    fn what_is_rendered_is_read_again(value in value(), key in text()) {
        // In a place that is read literally.
        let schema = json!({ "k": value, (key): value });
        let definition = Definition::new("order").step("pay", Step::wait(Signal::named("s").schema(&schema)));
        let text = definition.to_string();
        prop_assert_eq!(&parsed(&text)["steps"][0]["wait"]["schema"], &schema, "{}", text);
        prop_assert_eq!(definition.to_string(), text);
    }

    #[test]
    fn a_literal_stays_a_literal(value in value()) {
        let definition = Definition::new("order").step("pay", Step::set(&value)).output("one", &value);
        match read(&definition.to_string()) {
            Ok(plan) => {
                let Action::Set(template) = &plan.nodes[0].action else { panic!("{definition}") };
                let empty = Scope::from(Value::Null);
                let found = template.evaluate(jq(), &empty, &Meter::default()).unwrap();
                prop_assert_eq!(found, value, "{}", definition);
            }
            // Keys cannot hold expressions, in no file.
            Err(problems) => {
                prop_assert!(problems.iter().all(|problem| problem.message == "a key cannot hold an expression"), "{}", problems);
            }
        }
    }
}

#[test]
fn a_long_key_is_read_again() {
    let key = "k".repeat(5_000);
    let value = json!({ "list": [{ (key.clone()): { (key): [[], {}] } }] });
    let definition = Definition::new("order").step("pay", Step::set(&value));
    assert_eq!(parsed(&definition.to_string())["steps"][0]["set"], value);
}

#[test]
fn data_cannot_pass_for_an_expression() {
    let forged = serde_json::to_value(expr(".run.id")).unwrap();
    let key = forged.as_object().unwrap().keys().next().unwrap().clone();
    // Of this process it is one; no other process has the same key.
    assert!(key.strip_prefix("wfhost expression ").is_some_and(|rest| rest.len() == 32), "{key}");
    let other = json!({ format!("wfhost expression {}", "0".repeat(32)): "${ .run.id }" });
    let definition = Definition::new("order").step("pay", Step::set(&other)).step("ship", Step::set(&forged));
    let set = |at: usize| match &planned(&definition).nodes[at].action {
        Action::Set(value) => value.to_value(),
        other => panic!("{other:?}"),
    };
    assert_eq!(set(0), json!({ format!("wfhost expression {}", "0".repeat(32)): "$${ .run.id }" }));
    assert_eq!(set(1), json!("${ .run.id }"));
}
