//! What expressions cost, as ratios against floors of the same run:
//!
//! ```sh
//! cargo bench --bench expressions
//! ```
//!
//! The floor of an evaluation is what any engine on this host must do with the input: read it from JSON and write it again, with
//! serde_json. Times are medians; the parts of a row are measured in turns, so that a busy machine slows all of them alike.

use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;
use wfhost::workflow::expression::{EngineConfig, Expression, Filter, Jq, Scope};

/// Medians of the times of some functions, in microseconds, measured in turns.
fn medians(rounds: usize, work: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut times = vec![Vec::with_capacity(rounds); work.len()];
    for _ in 0..rounds {
        for (work, times) in work.iter_mut().zip(&mut times) {
            let start = Instant::now();
            work();
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect()
}

/// A context with `items` items of about 100 bytes each.
fn context(items: usize) -> Value {
    let item = |n: usize| json!({"id": n, "name": format!("item number {n}"), "price": 1.25, "tags": ["red", "green"], "group": n % 7, "ok": n.is_multiple_of(3)});
    json!({
        "inputs": {"tenant": "acme", "limit": 10},
        "steps": {"load": {"status": "completed", "output": {"items": (0..items).map(item).collect::<Vec<_>>(), "count": items}}},
    })
}

const FILTERS: &[(&str, &str)] = &[
    ("path", ".steps.load.output.count"),
    ("select, map", "[.steps.load.output.items[] | select(.ok) | .id]"),
    ("object", "{tenant: .inputs.tenant, count: .steps.load.output.count}"),
    ("interpolation", "\"\\(.inputs.tenant): \\(.steps.load.output.count)\""),
    ("group_by", ".steps.load.output.items | group_by(.group) | map(length)"),
    ("regex", "[.steps.load.output.items[].name | select(test(\"1$\"))] | length"),
];

fn compilation(warm: &Jq, fresh: &Jq) {
    println!("compile                 warm, µs   fresh instance, µs   ratio");
    for (name, text) in FILTERS {
        // A comment makes each text another one, so that no cache knows it.
        let mut n = 0;
        let mut next = || {
            n += 1;
            format!("{text} # {n}")
        };
        let mut texts: Vec<String> = (0..402).map(|_| next()).collect();
        let (mut a, mut b) = (texts.split_off(201), texts);
        let times = medians(
            201,
            &mut [&mut || drop(black_box(warm.compile(&a.pop().expect("one per round")))), &mut || {
                drop(black_box(fresh.compile(&b.pop().expect("one per round"))));
            }],
        );
        println!("  {name:<20} {:>9.1} {:>20.1} {:>7.1}", times[0], times[1], times[1] / times[0]);
    }
}

fn evaluation(warm: &Jq, fresh: &Jq) {
    for (items, rounds) in [(1, 301), (100, 101), (10_000, 11)] {
        let value = context(items);
        let text = value.to_string();
        println!("evaluate on {} bytes; × is against reading and writing the input", text.len());
        println!("                        floor, µs   all in sandbox        ×   referenced        ×   fresh        ×");
        for (name, filter) in FILTERS {
            let compiled: Filter = warm.compile(filter).expect("valid");
            let expression = Expression::new(filter);
            let scope = Scope::Borrowed(&value);
            let times = medians(
                rounds,
                &mut [
                    &mut || {
                        let read: Value = serde_json::from_str(&text).expect("JSON");
                        drop(black_box(read.to_string()));
                    },
                    &mut || drop(black_box(warm.evaluate_text(&compiled, text.as_bytes()).expect("works"))),
                    &mut || drop(black_box(warm.evaluate_in_sandbox(&expression, &scope).expect("works"))),
                    &mut || drop(black_box(fresh.evaluate_in_sandbox(&expression, &scope).expect("works"))),
                ],
            );
            let ratio = |n: usize| times[n] / times[0];
            println!(
                "  {name:<20} {:>11.1} {:>16.1} {:>8.2} {:>12.1} {:>8.2} {:>7.1} {:>8.2}",
                times[0],
                times[1],
                ratio(1),
                times[2],
                ratio(2),
                times[3],
                ratio(3)
            );
        }
    }
}

fn plain_path(warm: &Jq) {
    let value = context(1);
    let scope = Scope::Borrowed(&value);
    let expression = Expression::new(".steps.load.output.count");
    let times = medians(
        1001,
        &mut [
            &mut || drop(black_box(warm.evaluate(&expression, &scope).expect("works"))),
            &mut || drop(black_box(warm.evaluate_in_sandbox(&expression, &scope).expect("works"))),
            &mut || drop(black_box(Expression::new(FILTERS[1].1))),
        ],
    );
    println!(
        "plain path: on the host {:.2} µs, in the sandbox {:.2} µs: {:.0} ×",
        times[0],
        times[1],
        times[1] / times[0]
    );
    println!("parse and infer the references of `{}`: {:.2} µs", FILTERS[1].1, times[2]);
}

fn main() {
    let start = Instant::now();
    let warm = Jq::new(EngineConfig { warm_instances_max: 1, ..EngineConfig::default() }).expect("the engine");
    println!("compile the component: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let fresh = Jq::new(EngineConfig { warm_instances_max: 0, ..EngineConfig::default() }).expect("the engine");
    plain_path(&warm);
    compilation(&warm, &fresh);
    evaluation(&warm, &fresh);
}
