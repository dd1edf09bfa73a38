use super::*;
use crate::workflow::diagnostics::Diagnostics;
use proptest::prelude::*;
use serde_json::{Value, json};

fn tree(text: &str) -> Result<Node, String> {
    let source = Source::new("x.yaml", text);
    let mut problems = Diagnostics::new(source.clone());
    let tree = parse(&source, &mut problems);
    if problems.is_empty() { Ok(tree.unwrap()) } else { Err(problems.render(false)) }
}

fn value(text: &str) -> Value {
    tree(text).unwrap_or_else(|problems| panic!("{problems}")).to_json().unwrap()
}

#[test]
fn scalars_mean_what_yaml_1_2_says() {
    let text = "[~, null, true, False, 7, -0x1, 0x1F, 0o17, 1.50, .5, +3., 007, 1e3, yes, on, 12:30, 1_000, '5', \"5\", 0x, '']";
    assert_eq!(
        value(text).to_string(),
        r#"[null,null,true,false,7,"-0x1",31,15,1.50,0.5,3.0,7,1e+3,"yes","on","12:30","1_000","5","5","0x",""]"#
    );
    assert!(tree("[.inf]").unwrap().to_json().is_err());
    assert!(tree("[-.Inf]").unwrap().to_json().is_err());
    assert_eq!(value("99999999999999999999999.25").to_string(), "99999999999999999999999.25");
}

#[test]
fn aliases_stand_for_their_values() {
    assert_eq!(value("a: &x {k: [1]}\nb: *x\n"), json!({"a": {"k": [1]}, "b": {"k": [1]}}));
}

/// Each mark `«…»` encloses a part of the scalar's value: its position must be found again.
#[test]
fn parts_of_scalars_are_found_in_the_file() {
    let cases = [
        "a: x «MARK» y",
        "a: 'it''s «MARK» ''y'''",
        "a: \"\\u00e9\\t\\\"é «MARK» \\\\\"",
        "a: \"one\n   two\n\n   three «MARK»\"",
        "a: \"one \\\n   two «MARK»\"",
        "a: |\n  first\n    second\n\n  third «MARK»\n",
        "a: >-\n  first\n  second\n\n  third «MARK»\n  fourth\n",
        "a: |2-\n    x\n  «MARK»\n",
        "a: one\n  two\n  «MARK» three",
        "- - { k: [ é«MARK» ] }",
        "a: |\r\n  first\r\n  second «MARK»\r\n",
    ];
    for case in cases {
        let text = case.replace(['«', '»'], "");
        let source = Source::new("x.yaml", &text);
        let root = tree(&text).unwrap();
        let (span, scalar) = find(&root).unwrap_or_else(|| panic!("{case}"));
        let offset = scalar.text.find("MARK").unwrap();
        let at = ScalarOffsets::new(&source, span, scalar).at(offset);
        assert_eq!(source.text().get(at as usize..at as usize + 4), Some("MARK"), "{case:?} {:?}", scalar.text);
    }
}

fn find(node: &Node) -> Option<(Span, &Scalar)> {
    match &node.content {
        Content::Scalar(scalar) => scalar.text.contains("MARK").then_some((node.span, scalar)),
        Content::Sequence(items) => items.iter().find_map(find),
        Content::Mapping(entries) => entries.iter().find_map(|entry| find(&entry.value)),
    }
}

#[test]
fn plain_values_come_from_json_and_yaml() {
    assert_eq!(read_value("{\"n\": 1.50}").unwrap().to_string(), "{\"n\":1.50}");
    assert_eq!(read_value("a: [1, x]").unwrap(), json!({"a": [1, "x"]}));
    assert!(read_value("a: [").is_err());
    assert!(read_value("{1: 2}").is_err());
    assert!(read_value("!x 1").is_err());
    assert!(read_value("[.nan]").is_err());
}

fn yaml_values() -> impl Strategy<Value = Value> {
    let text = "[ -~éß\t]{0,12}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// A number of serde_json that keeps its digits is a map for other formats.
fn yaml(value: &Value) -> serde_yaml::Value {
    match value {
        Value::Number(number) => number.as_i64().unwrap().into(),
        Value::Array(items) => items.iter().map(yaml).collect(),
        Value::Object(object) => {
            serde_yaml::Value::Mapping(object.iter().map(|(key, value)| (key.as_str().into(), yaml(value))).collect())
        }
        other => serde_yaml::to_value(other).unwrap(),
    }
}

proptest! {
    /// Two parsers that share no code agree.
    #[test]
    fn what_serde_yaml_writes_is_read_as_it_was(value in yaml_values()) {
        let text = serde_yaml::to_string(&yaml(&value)).unwrap();
        prop_assert_eq!(tree(&text).unwrap().to_json().unwrap(), value.clone());
        prop_assert_eq!(read_value(&text).unwrap(), value);
    }

    /// All spans of a tree lie within the file.
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\t]{0,60}|[-:{}\\[\\]&*!|>'\"%#@ \n$ab?,]{0,60}|\\PC{0,30}") {
        let source = Source::new("x.yaml", &text);
        let mut problems = Diagnostics::new(source.clone());
        if let Some(root) = parse(&source, &mut problems) {
            check_spans(&source, &root)?;
        }
        let _ = problems.render(true);
        let _ = problems.to_json();
        let _ = read_value(&text);
    }
}

fn check_spans(source: &Source, node: &Node) -> Result<(), TestCaseError> {
    prop_assert!(source.text().get(node.span.range()).is_some(), "{:?}", node.span);
    match &node.content {
        Content::Scalar(scalar) => {
            let places = ScalarOffsets::new(source, node.span, scalar);
            for offset in 0..=scalar.text.len() {
                let at = places.at(offset);
                prop_assert!(source.text().is_char_boundary(at as usize), "{at}");
            }
        }
        Content::Sequence(items) => items.iter().try_for_each(|item| check_spans(source, item))?,
        Content::Mapping(entries) => {
            for entry in entries {
                prop_assert!(source.text().get(entry.key_span.range()).is_some());
                check_spans(source, &entry.value)?;
            }
        }
    }
    Ok(())
}
