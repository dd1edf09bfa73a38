//! What expressions cost, in µs and as ratios against floors of the same run:
//!
//! ```sh
//! cargo bench --bench expressions
//! ```
//!
//! Two floors. *Raw calls*: an evaluation in the sandbox is three calls of an instance (load the
//! input, evaluate, release the input), so three calls into a component that does nothing, the
//! first with the input's text, on an engine with the same settings. *Read, write*: what any engine
//! on this host must do with the input, which is to read it from JSON and write it again, with
//! serde_json.
//!
//! Times are medians; the parts of a row are measured in turns, so that a busy machine slows all of
//! them alike.

use serde_json::{Value, json};
use std::hint::black_box;
use std::time::Instant;
use wasmtime::component::{Component, Linker, TypedFunc};
use wasmtime::{Config, Engine, Store};
use wfhost::workflow::expression::{EngineConfig, Expression, Filter, Jq, Scope};

/// Medians of the times of some functions, in microseconds, measured in turns.
fn medians<const N: usize>(rounds: usize, mut work: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    // The first round warms up.
    for round in 0..=rounds {
        for (work, times) in work.iter_mut().zip(&mut times) {
            let start = Instant::now();
            work();
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    times.map(|mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// An engine that holds this many instances.
fn engine(warm_instances_max: usize) -> Jq {
    Jq::new(EngineConfig { warm_instances_max, ..EngineConfig::default() }).expect("the engine")
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

/// A component whose one function takes a text and returns its length.
struct Nothing {
    store: Store<()>,
    take: TypedFunc<(String,), (u32,)>,
}

const NOTHING: &str = r#"
(component
  (core module $main
    (memory (export "memory") 64)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "take") (param i32 i32) (result i32) local.get 1))
  (core instance $m (instantiate $main))
  (func (export "take") (param "text" string) (result u32)
    (canon lift (core func $m "take") (memory (core memory $m "memory")) (realloc (core func $m "realloc")))))
"#;

impl Nothing {
    fn new() -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.consume_fuel(true).concurrency_support(false);
        let engine = Engine::new(&config)?;
        let component = Component::new(&engine, wat::parse_str(NOTHING)?)?;
        let mut store = Store::new(&engine, ());
        store.set_fuel(1_000)?;
        let instance = Linker::new(&engine).instantiate(&mut store, &component)?;
        let take = instance.get_typed_func(&mut store, "take")?;
        Ok(Self { store, take })
    }

    fn call(&mut self, text: &str) -> u32 {
        self.store.set_fuel(1_000).expect("fuel is counted");
        let (length,) = self.take.call(&mut self.store, (text.to_owned(),)).expect("it takes any text");
        length
    }

    /// The calls of one evaluation.
    fn three_calls(&mut self, text: &str) -> u32 {
        self.call(text) + self.call("") + self.call("")
    }
}

fn plain_path(warm: &Jq, floor: &mut Nothing) {
    let value = context(1);
    let scope = Scope::Borrowed(&value);
    let expression = Expression::new(".steps.load.output.count");
    let [host, sandbox, calls] = medians(
        1001,
        [
            &mut || drop(black_box(warm.evaluate(&expression, &scope).expect("works"))),
            &mut || drop(black_box(warm.evaluate_in_sandbox(&expression, &scope).expect("works"))),
            &mut || _ = black_box(floor.three_calls("{}")),
        ],
    );
    println!(
        "a plain path: on the host {host:.2} µs; in the sandbox {sandbox:.2} µs, of which raw calls {calls:.2} µs"
    );
}

fn compilation(warm: &Jq, fresh: &Jq) {
    println!("\ncompile, µs          warm instance   fresh instance   parsed on the host");
    for (name, text) in FILTERS {
        // A comment makes each text different, so that no cache knows it.
        let mut n = 0;
        let mut next = || {
            n += 1;
            format!("{text} # {n}")
        };
        let mut texts: Vec<String> = (0..2 * 202).map(|_| next()).collect();
        let (mut a, mut b) = (texts.split_off(202), texts);
        let [warm, fresh, parsed] = medians(
            201,
            [
                &mut || drop(black_box(warm.compile(&a.pop().expect("one per round")))),
                &mut || drop(black_box(fresh.compile(&b.pop().expect("one per round")))),
                &mut || drop(black_box(Expression::new(text))),
            ],
        );
        println!("  {name:<15} {warm:>16.1} {fresh:>16.1} {parsed:>20.2}");
    }
}

fn evaluation(warm: &Jq, fresh: &Jq, floor: &mut Nothing) {
    // An instance whose memory has grown by a large input is discarded, so large inputs get an
    // engine of their own.
    let other = engine(1);
    for (items, rounds) in [(1, 401), (100, 101), (10_000, 11)] {
        let value = context(items);
        let text = value.to_string();
        let [calls, read] = medians(
            rounds,
            [&mut || _ = black_box(floor.three_calls(&text)), &mut || {
                let read: Value = serde_json::from_str(&text).expect("JSON");
                drop(black_box(read.to_string()));
            }],
        );
        println!("\nevaluate on {} bytes: raw calls {calls:.1} µs; read, write {read:.1} µs", text.len());
        println!("  µs              what it refers to   × read, write   all of it   × read, write   fresh instance");
        for (name, filter) in FILTERS {
            let compiled: Filter = other.compile(filter).expect("valid");
            let expression = Expression::new(filter);
            let scope = Scope::Borrowed(&value);
            let [referenced, all, fresh] = medians(
                rounds,
                [
                    &mut || drop(black_box(warm.evaluate_in_sandbox(&expression, &scope).expect("works"))),
                    &mut || drop(black_box(other.evaluate_text(&compiled, text.as_bytes()).expect("works"))),
                    &mut || drop(black_box(fresh.evaluate_in_sandbox(&expression, &scope).expect("works"))),
                ],
            );
            println!(
                "  {name:<15} {referenced:>17.1} {:>15.2} {all:>11.1} {:>15.2} {fresh:>16.1}",
                referenced / read,
                all / read
            );
        }
    }
}

fn main() {
    let start = Instant::now();
    let warm = engine(1);
    println!("compile the component: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let fresh = engine(0);
    let mut floor = Nothing::new().expect("a component of nothing");
    plain_path(&warm, &mut floor);
    compilation(&warm, &fresh);
    evaluation(&warm, &fresh, &mut floor);
}
