//! Every file ends in a plan or in problems.

use super::*;
use crate::workflow::expression::{EngineConfig, Jq};
use crate::workflow::syntax::Source;
use proptest::prelude::*;
use std::sync::OnceLock;

fn jq() -> &'static Jq {
    static JQ: OnceLock<Jq> = OnceLock::new();
    JQ.get_or_init(|| Jq::new(EngineConfig::default()).unwrap())
}

const GOOD: &str = r#"
name: thumbnails
inputs:
  urls: { type: array, items: { type: string, format: uri }, default: [] }
  width: { type: integer, minimum: 1, default: 128 }
components:
  fetch: ./fetch.wasm
  resize: { source: ./resize.wasm, limits: { memory: 64MiB, fuel-per-step: 500M } }
defaults: { timeout: 2m, retry: { max: 3, backoff: 1s..30s } }
steps:
  - id: download
    uses: fetch
    for-each: ${ .inputs.urls }
    max-parallel: 16
    with: { url: "${ .item }", text: "no ${ .index } of ${ .inputs.urls | length }" }
    allow: { http: [ "GET https://*.example.com" ] }
  - id: thumb
    uses: resize
    for-each: ${ .steps.download.output }
    with: { image: "${ .item }", width: "${ .inputs.width }" }
    continue-on-error: true
  - id: pause
    needs: thumb
    if: ${ (.steps.thumb.output | length) > 100 }
    wait: 5s
  - id: alert
    needs: [ thumb, pause ]
    when: failed
    call: http
    with:
      body: |
        ${ .error.title
           | ascii_upcase }
outputs: { count: "${ .steps.thumb.output | length }" }
"#;

#[test]
fn a_good_file_is_planned_with_all_that_follows_from_it() {
    let plan = load(&Source::new("x.yaml", GOOD), jq(), &Unchecked).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        plan.nodes.iter().map(|node| node.needs.clone()).collect::<Vec<_>>(),
        [vec![], vec![0], vec![1], vec![1, 2]]
    );
    assert_eq!(plan.nodes[0].retry.unwrap().max, 3);
    assert_eq!(plan.nodes[0].timeout, Some(Micros(120_000_000)));
    assert_eq!((plan.nodes[2].retry, plan.nodes[2].timeout), (None, None));
    assert_eq!(plan.nodes[1].limits.memory_bytes, 64 << 20);
    assert_eq!(plan.grants().of("http").unwrap(), ["GET https://*.example.com"]);
    assert_eq!(plan.handlers().collect::<Vec<_>>(), ["http"]);
    let again = Plan::from_json(&plan.to_json()).unwrap();
    assert_eq!(plan, again);
    assert_eq!(plan.digest(), again.digest());
}

#[test]
fn the_signals_of_waits_are_known_by_their_names() {
    let waits = |name: &str, signal: &str| {
        let text = format!(
            "inputs: {{ who: string }}\nsteps: [{{ id: w, wait: {{ signal: {name:?} }} }}, {{ id: s, set: other }}]"
        );
        let plan =
            load(&Source::new("x.yaml", &text), jq(), &Unchecked).unwrap_or_else(|problems| panic!("{problems}"));
        plan.waits_for_signal(signal)
    };
    assert!(waits("approve", "approve") && !waits("approve", "approved") && !waits("approve", "other"));
    // The value of an expression is unknown before the run.
    assert!(waits("by-${ .inputs.who }", "by-Ann") && !waits("by-${ .inputs.who }", "for-Ann"));
    assert!(waits("${ .inputs.who }", "anything"));
}

/// Files close to good ones, which reach further than noise.
fn nearly_good() -> impl Strategy<Value = String> {
    let lines: Vec<&str> = GOOD.lines().collect();
    let count = lines.len();
    let edit = (0..count, 0..count, 0u8..6, 0usize..80, "[-:{}\\[\\]$|#'\"a-z .0-9>&*é]{0,4}");
    prop::collection::vec(edit, 1..4).prop_map(move |edits| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for (from, to, kind, at, text) in edits {
            let (from, to) = (from % lines.len(), to % lines.len());
            let at = (0..=at.min(lines[from].len())).rev().find(|at| lines[from].is_char_boundary(*at)).unwrap();
            match kind {
                0 => lines[from].insert_str(at, &text),
                1 => lines[from].truncate(at),
                2 => lines.swap(from, to),
                3 => lines[to] = lines[from].clone(),
                4 => lines[from].insert_str(0, "  "),
                _ => drop(lines.remove(from)),
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_gives_a_plan_or_problems(text in nearly_good()) {
        let source = Source::new("x.yaml", &text);
        match load(&source, jq(), &Unchecked) {
            Ok(plan) => prop_assert_eq!(plan.order.len(), plan.nodes.len()),
            Err(problems) => {
                prop_assert!(problems.count() > 0);
                for problem in problems.iter() {
                    prop_assert!(source.text().get(problem.span.range()).is_some(), "{problem:?}");
                }
                prop_assert!(problems.render(false).contains("x.yaml"));
                prop_assert!(problems.to_json()["problems"].is_array());
            }
        }
    }
}

/// Each bound of a file has a problem of its own.
#[test]
fn what_a_file_may_hold_is_bounded() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let steps = "steps: [{ id: a, set: 1 }]\n";
    let cases = [
        (format!("# {}\n", "x".repeat(1 << 20)), "bytes, the most that"),
        (format!("{steps}x: [{}]", "1, ".repeat(100_000)), "more than 100000 values"),
        (format!("steps:\n{}", many(1_001, &|n| format!("  - {{ id: s{n}, set: 1 }}\n"))), "1001 steps"),
        (format!("{steps}inputs:\n{}", many(1_001, &|n| format!("  i{n}: string\n"))), "1001 inputs"),
        (format!("{steps}components:\n{}", many(1_001, &|n| format!("  c{n}: ./c.wasm\n"))), "1001 components"),
        (
            format!("steps:\n  - id: a\n    set:\n{}", many(10_001, &|_| "      - ${ 1 }\n".to_owned())),
            "more than 10000 expressions",
        ),
    ];
    for (text, expected) in cases {
        let problems = load(&Source::new("x.yaml", &text), jq(), &Unchecked).unwrap_err();
        assert!(problems.iter().any(|problem| problem.message.contains(expected)), "{expected}: {problems}");
    }
    let slips = format!("{steps}{}", many(300, &|n| format!("stepx{n}: 1\n")));
    let problems = load(&Source::new("x.yaml", &slips), jq(), &Unchecked).unwrap_err();
    assert_eq!((problems.count(), problems.iter().count()), (300, 100));
}

/// A file made to exhaust its reader is refused soon, with a problem that names the bound.
#[test]
fn a_hostile_file_is_refused_by_its_bounds() {
    let many = |count: usize, text: &str| text.repeat(count);
    let anchors = (0..40_000).map(|n| format!("a{n}: &a{n} [x]\n")).collect::<Vec<_>>().concat();
    let laugh = |n: usize| format!("l{n}: &l{n} [{}]\n", many(9, &format!("*l{}, ", n - 1)));
    let laughs = (1..9).map(laugh).collect::<Vec<_>>().concat();
    let cases = [
        (many(1 << 20, "["), "too-deep"),
        (format!("a: {}", many(200_000, "{a: ")), "too-deep"),
        (many(300_000, "- "), "too-deep"),
        (many(300_000, "? "), "too-deep"),
        (anchors, "too-large"),
        (format!("l0: &l0 [x]\n{laughs}"), "too-large"),
        (format!("a: &a {}\nb: [{}]", many(1_000, "x"), many(9_000, "*a, ")), "too-large"),
        (format!("steps: [{}]", many(60_000, "{id: a, set: 1},")), "too-large"),
        (many(1 << 20, "\0"), "yaml"),
        (many((1 << 20) + 1, "\0"), "too-large"),
        (format!("\"{}", many(400_000, "x\n")), "yaml"),
        (format!("steps: {}", many(200_000, "*a ")), "yaml"),
        (many(200_000, "k: v\n"), "duplicate-key"),
        (format!("steps: [{{ id: a, set: \"${{ {} }}\" }}]", many(50_000, "(")), "expression"),
        (format!("steps: [{{ id: a, set: \"{}\" }}]", many(100_000, "${ 1 }")), "too-large"),
    ];
    for (text, code) in cases {
        let problems = load(&Source::new("x.yaml", &text), jq(), &Unchecked).unwrap_err();
        let start: String = text.chars().take(40).collect();
        assert!(problems.iter().any(|problem| problem.code == code), "{start:?} is not {code}: {problems}");
        assert!(problems.render(true).len() < 1 << 20, "{start:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Any text is a plan that keeps its invariants, or is refused with a reason.
    #[test]
    fn a_damaged_plan_is_refused_or_is_another_one(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u8..6), 1..3),
    ) {
        let plan = load(&Source::new("x.yaml", GOOD), jq(), &Unchecked).unwrap_or_else(|problems| panic!("{problems}"));
        let mut text = plan.to_json();
        for (place, other, kind) in edits {
            if text.is_empty() {
                break;
            }
            // Numbers are the likeliest for a reader to trust too much.
            let digits: Vec<usize> = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
            let boundary = |place: prop::sample::Index| text.floor_char_boundary(place.index(text.len()));
            match kind {
                0 => drop(text.remove(boundary(place))),
                1 => text.truncate(boundary(place)),
                2 => text.insert_str(boundary(place), &other.index(100).to_string()),
                _ if digits.is_empty() => {}
                _ => {
                    let at = digits[place.index(digits.len())];
                    text.replace_range(at..=at, &other.index(12).to_string());
                }
            }
        }
        match Plan::from_json(&text) {
            Ok(plan) => {
                prop_assert_eq!(plan.order.len(), plan.nodes.len());
                let mut order = plan.order.clone();
                order.sort_unstable();
                prop_assert!(order.into_iter().eq(0..plan.nodes.len()));
                let place = |node: usize| plan.order.iter().position(|at| *at == node);
                for (index, node) in plan.nodes.iter().enumerate() {
                    prop_assert!(node.needs.iter().all(|need| place(*need) < place(index)), "{}", text);
                }
                let _ = plan.graph(GraphStyle::Mermaid);
                prop_assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan));
            }
            Err(problem) => prop_assert!(!problem.is_empty()),
        }
    }
}
