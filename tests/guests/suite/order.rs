//! The program that the guide shows in each language: at most 20 lines, the same output, and in the
//! guide word for word.

use super::scenario::{Language, languages};
use crate::support::{builder, guests};
use serde::Deserialize;
use serde_json::{Map, json};
use std::sync::Arc;
use wfhost::dispatch::{Declaration, arguments, from_inline_fn};
use wfhost::host::RunOptions;
use wfhost::process::{Level, Payload};

use super::handlers::{Board, Sink};

/// In source lines: what a page shows without scrolling.
const LINES_MAX: usize = 20;

#[derive(Deserialize)]
struct Item {
    id: u64,
}

fn is_written(language: &Language) -> bool {
    language.order_program().exists() && language.order_source().exists() && language.has_engine()
}

#[test]
fn the_same_program_has_the_same_output_in_each_language() {
    let price = || {
        from_inline_fn(Declaration::new("The price of an item").repeatable(), |args, _| {
            arguments::<Item>(&args).map(|item| Payload::json(&(10 * item.id))).map_err(Arc::new)
        })
    };
    let host = builder(2, 64).handler("price", price()).build().unwrap();
    let languages = languages();
    for language in languages.iter().filter(|language| is_written(language)) {
        let text = json!({
            "components": { "order": { "source": language.order_program(), "limits": { "memory": "256MiB" } } },
            "steps": [{ "id": "order", "uses": "order", "with": { "ids": [1, 2, 3] }, "allow": { "signal": ["*"] } }],
            "outputs": { "order": "${ .steps.order.output }" },
        });
        let workflow = host.parse("order.yaml", &text.to_string(), guests(""));
        let workflow = workflow.unwrap_or_else(|error| panic!("{}: {error}", language.name));
        let board = Board::default();
        let sink = Some(Arc::new(Sink(board.clone(), "order".into())) as _);
        let run = host.start(&workflow, Map::new(), RunOptions { sink, ..RunOptions::default() }).unwrap();
        run.signal("approve", &json!({ "by": "Ann" })).unwrap();
        let outcome = run.wait();
        let found = outcome.outputs().unwrap_or_else(|| panic!("{}: {}", language.name, outcome.to_json()));
        assert_eq!(found["order"], json!({ "total": 60, "by": "Ann" }), "{}", language.name);
        board.of("order", |seen| {
            let is_logged = seen.lines.iter().any(|line| line.level == Level::Info && line.text == "total is 60");
            assert!(is_logged, "{}: {:?}", language.name, seen.lines);
        });
    }
}

#[test]
fn the_guide_shows_it_word_for_word() {
    let page = std::fs::read_to_string(guests("").parent().unwrap().join("docs/guests.md")).unwrap();
    for language in languages() {
        let Ok(source) = std::fs::read_to_string(language.order_source()) else { continue };
        let lines = source.lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines", language.order);
        assert!(page.contains(&format!("\n{source}```")), "docs/guests.md does not show {}", language.order);
    }
}
