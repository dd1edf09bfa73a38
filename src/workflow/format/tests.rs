use super::*;
use proptest::prelude::*;

fn formatted(text: &str) -> String {
    match format("flow.yaml", text) {
        Ok(formatted) => {
            assert_eq!(format("flow.yaml", &formatted).unwrap(), formatted, "not its own format");
            formatted
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

#[test]
fn lines_are_laid_out() {
    let text = "\n\n# Head.\n\nname:   flow   # a name\nsteps:\n- id:   a\n  set:\n      x:  1\n      # of y\n      y: [1,\n          2]\n\n\n\
                # before b\n-   id: b\n    set: |\n         text\n           more\n    # end of b\n# end\n\n";
    let expected = "# Head.\n\nname: flow   # a name\nsteps:\n  - id: a\n    set:\n      x: 1\n      # of y\n      y: [1,\n          2]\n\n  \
                    # before b\n  - id: b\n    set: |\n      text\n        more\n    # end of b\n# end\n";
    assert_eq!(formatted(text), expected);
}

#[test]
fn keys_are_sorted_with_their_comments() {
    let text = "# Head.\noutputs: { a: 1 }\n# The steps.\nsteps:\n  # First.\n  - set: 1\n    # Its name.\n    id: a  # here\n    # Why.\n    \
                needs: []\n  - id: b\n    with:\n      z: 1\n      a: 2\n    uses: ./b.wasm\n\n# Its name.\nname: flow\n";
    let expected = "# Head.\n# Its name.\nname: flow\n# The steps.\nsteps:\n  # First.\n  # Its name.\n  - id: a  # here\n    # Why.\n    \
                    needs: []\n    set: 1\n  - id: b\n    uses: ./b.wasm\n    with:\n      z: 1\n      a: 2\noutputs: { a: 1 }\n";
    assert_eq!(formatted(text), expected.replace("# Head.\n#", "# Head.\n\n#"));
}

#[test]
fn what_is_too_wide_gets_lines_of_its_own() {
    let long = "x".repeat(70);
    let text =
        format!("steps:\n  - {{ id: a, set: {{ one: {long}, two: {long} }} }}\n  - {{ id: b, set: [{long}] }}\n");
    let expected =
        format!("steps:\n  - id: a\n    set:\n      one: {long}\n      two: {long}\n  - {{ id: b, set: [{long}] }}\n");
    assert_eq!(formatted(&text), expected);
}

#[test]
fn aliases_keep_the_order() {
    let text = "steps:\n  - set: &a 1\n    id: one\n  - { set: *a, id: two }\n";
    assert_eq!(formatted(text), text);
}

#[test]
fn line_ends_and_marks_stay() {
    assert_eq!(formatted("\u{feff}steps:\r\n- id: a\r\n  set: 1\r\n"), "\u{feff}steps:\r\n  - id: a\r\n    set: 1\r\n");
    assert_eq!(
        formatted("%YAML 1.2\n---\n# c\nsteps: [ { id: ä, set: \"#\" } ] # d"),
        "%YAML 1.2\n---\n# c\nsteps: [ { id: ä, set: \"#\" } ] # d\n"
    );
}

#[test]
fn texts_keep_their_lines() {
    let text = "steps:\n- id: a\n  set: |+2\n      two more\n\n\n- id: b\n  set: >-\n      folded\n      text\n\n- id: c\n  set: \"a  \n    \n   b\\\n   c\"\n- id: d\n  set:\n     plain text\n     on lines\n";
    let formatted = formatted(text);
    assert!(
        formatted.contains("    set: |+2\n        two more\n\n\n  - id: b\n    set: >-\n      folded\n"),
        "{formatted}"
    );
    assert!(formatted.contains("    set: \"a  \n\n      b\\\n      c\"\n"), "{formatted}");
    assert!(formatted.contains("    set:\n      plain text\n      on lines\n"), "{formatted}");
}

#[test]
fn what_is_not_yaml_is_reported() {
    assert!(matches!(format("a.yaml", "steps: [ {"), Err(FormatError::Unreadable(_))));
    assert!(matches!(format("a.yaml", "a: 1\na: 2\n"), Err(FormatError::Unreadable(_))));
    assert!(matches!(format("a.yaml", "? a\n: 1\n"), Err(FormatError::Unusual { line: 1, .. })));
}

/// Workflow files of the repository, good and bad, and the blocks of its pages.
#[test]
fn files_of_the_repository_are_formatted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders =
        vec![root.join("workflows"), root.join("tests/workflows"), root.join("guests"), root.join("docs")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                folders.push(path);
            } else if let ("yaml" | "md", Ok(text)) = (extension, std::fs::read_to_string(&path)) {
                let blocks: Vec<&str> = match extension {
                    "md" => {
                        text.split("\n```yaml\n").skip(1).map(|block| block.split("\n```").next().unwrap()).collect()
                    }
                    _ => vec![&text],
                };
                for block in blocks {
                    match format("flow.yaml", block) {
                        Ok(one) => {
                            count += 1;
                            assert_eq!(format("flow.yaml", &one).unwrap(), one, "{}", path.display());
                        }
                        Err(FormatError::Unreadable(_)) => {}
                        Err(error) => panic!("{}: {error}\n{block}", path.display()),
                    }
                }
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// The examples have the form that the formatter gives them.
#[test]
fn the_examples_are_formatted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows");
    for name in [
        "hello",
        "approval",
        "fan-out",
        "failures",
        "fib",
        "shipments",
        "wordcount",
        "orders/workflow",
        "weather/workflow",
    ] {
        let text = std::fs::read_to_string(root.join(format!("{name}.yaml"))).unwrap();
        assert_eq!(formatted(&text), text, "{name}");
    }
}

/// A text that is YAML, written in a careless way: indentation, blanks, comments, styles.
fn careless(depth: u32) -> BoxedStrategy<Vec<String>> {
    let scalar = prop_oneof![
        Just("1"),
        Just("plain text"),
        Just("\"quoted # no comment\""),
        Just("'it''s'"),
        Just("${ .inputs.n + 1 }"),
        Just("grün # ein Kommentar"),
        Just("[a, b]   # after"),
        Just("{ a: 1, b: [ 2, \"x, #y\" ] }"),
        Just("&anchor x"),
        Just(""),
        Just("[ this, is, a, very, long, list, of, words, that, does, not, fit, on, a, line, of, one, hundred, and, twenty, columns, at, all ]"),
    ]
    .prop_map(|text| vec![format!(" {text}")]);
    let lines = prop_oneof![
        (Just(" |"), 2usize..5).prop_map(|(style, indent)| block(style, indent, &["one", "  two", "", "three # text"])),
        (Just(" >-"), 2usize..5).prop_map(|(style, indent)| block(style, indent, &["one", "two", "", "- three: 3"])),
        (Just(" |+"), 2usize..4).prop_map(|(style, indent)| block(style, indent, &["", "one", "", ""])),
        Just(vec![" \"one".to_owned(), "    two  ".to_owned(), String::new(), "   # three\"".to_owned()]),
        Just(vec![" [ one, # first".to_owned(), "    # of two".to_owned(), "   two ]".to_owned()]),
        Just(vec![" {".to_owned(), "   a: 1,".to_owned(), " }".to_owned()]),
    ];
    let leaf = prop_oneof![3 => scalar, 1 => lines];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = careless(depth - 1);
    let mapping = (proptest::collection::vec((0usize..KEYS.len(), inner.clone(), junk()), 1..5), 1usize..5).prop_map(
        |(entries, indent)| {
            let mut seen = std::collections::BTreeSet::new();
            let mut lines = vec![String::new()];
            for (key, value, junk) in entries.into_iter().filter(|(key, ..)| seen.insert(*key)) {
                lines.extend(junk.iter().map(|line| shift(line, indent)));
                lines.extend(entry(&format!("{}:", KEYS[key]), value, indent));
            }
            lines
        },
    );
    let list = (proptest::collection::vec((inner, junk()), 1..4), 0usize..4).prop_map(|(items, indent)| {
        let mut lines = vec![String::new()];
        for (value, junk) in items {
            lines.extend(junk.iter().map(|line| shift(line, indent)));
            lines.extend(entry("-", value, indent));
        }
        lines
    });
    prop_oneof![2 => leaf, 2 => mapping, 2 => list].boxed()
}

const KEYS: [&str; 9] = ["id", "steps", "set", "with", "needs", "outputs", "name", "grün", "\"a b\""];

fn junk() -> impl Strategy<Value = Vec<String>> {
    let one =
        prop_oneof![4 => Just(None), 1 => Just(Some(String::new())), 1 => Just(Some("# ein Wörtchen: x".to_owned()))];
    proptest::collection::vec(one, 0..3).prop_map(|lines| lines.into_iter().flatten().collect())
}

fn shift(line: &str, indent: usize) -> String {
    if line.is_empty() { String::new() } else { format!("{}{line}", " ".repeat(indent)) }
}

fn block(style: &str, indent: usize, text: &[&str]) -> Vec<String> {
    std::iter::once(style.to_owned()).chain(text.iter().map(|line| shift(line, indent))).collect()
}

/// A key or a dash with its value: the first line goes behind it, the others are indented.
fn entry(opener: &str, value: Vec<String>, indent: usize) -> Vec<String> {
    let mut lines = value.into_iter();
    let first = shift(&format!("{opener}{}", lines.next().unwrap_or_default()), indent);
    // A list may stand as far left as the key that it belongs to, unless that is behind a dash.
    std::iter::once(first).chain(lines.map(|line| shift(&line, indent + 1))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The checks of `format` are not the ones that this test relies on.
    #[test]
    fn formatting_changes_nothing_but_the_layout(
        entries in proptest::collection::vec((0usize..KEYS.len(), careless(3), junk()), 1..5),
        windows in any::<bool>(),
    ) {
        let mut seen = std::collections::BTreeSet::new();
        let mut lines = Vec::new();
        for (key, value, junk) in entries.into_iter().filter(|(key, ..)| seen.insert(*key)) {
            lines.extend(junk);
            lines.extend(entry(&format!("{}:", KEYS[key]), value, 0));
        }
        let text = lines.join(if windows { "\r\n" } else { "\n" });
        let tree = |text: &str| {
            let source = Source::new("flow.yaml", text);
            let mut problems = Diagnostics::new(source.clone());
            let root = syntax::parse(&source, &mut problems);
            root.filter(|_| problems.is_empty()).map(|root| {
                let mut value = root.to_json().unwrap();
                value.sort_all_objects();
                value
            })
        };
        let Some(before) = tree(&text) else { return Ok(()) };
        let formatted = match format("flow.yaml", &text) {
            Ok(formatted) => formatted,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
        };
        prop_assert_eq!(tree(&formatted), Some(before), "{}\n---\n{}", text, formatted);
        let again = format("flow.yaml", &formatted).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&again, &formatted, "{}", text);
        let count = |text: &str| text.matches("ein Wörtchen").count() + text.matches("ein Kommentar").count();
        prop_assert_eq!(count(&formatted), count(&text));
prop_assert_eq!(formatted.contains("\r\n"), text.contains("\r\n"));
        prop_assert_eq!(formatted.matches('\n').count(), formatted.matches("\r\n").count().max(formatted.matches('\n').count() * usize::from(!text.contains('\r'))));
    }
}
