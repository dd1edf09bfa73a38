//! The duration of a slice of fuel, whatever a guest spends it on: processor time of the mean and
//! of the longest turn of a step, as multiples of a turn of plain instructions.

use super::{cpu_ns, engine, init, wat_guest};
use std::sync::Arc;
use wfhost::guest::{Component, GuestEngine, Profile};
use wfhost::process::{Output, Program, Progress, Timestamp};

/// Steps that are measured, after one that is not.
const STEPS: usize = 5;

/// A guest that does something two million times in each step.
fn looping(imports: &str, body: &str) -> String {
    wat_guest::module(&format!(
        r"
        {imports}
        (global $sum (mut f64) (f64.const 1.5))
        (func $step (param i32 i32) (result i32) (local $left i32)
            (local.set $left (i32.const 2000000))
            (loop $next
                {body}
                (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1108) (i32.const 0))
            (i32.const 1024))
        "
    ))
}

fn host(name: &str, signature: &str) -> String {
    format!(r#"(import "wfhost:process/host@0.1.0" "{name}" (func $call {signature}))"#)
}

/// A guest that exposes `count` payloads of `bytes` bytes in each step, all of the same text:
/// `piece`, repeated.
fn exposing(piece: &str, bytes: usize, count: usize) -> String {
    let escaped = piece.replace('"', "\\22");
    let fields =
        [(16, "(i32.const 128)"), (20, "(i32.const 1)"), (32, "(i32.const 131072)"), (36, "(i32.load (i32.const 64))")];
    wat_guest::module(&format!(
        r#"
        (data (i32.const 128) "x") (data (i32.const 256) "{escaped}")
        (global $made (mut i32) (i32.const 0))
        {commands}
        (func $step (param i32 i32) (result i32) (local $at i32)
            (local.set $at (i32.const 131072))
            (if (i32.eqz (global.get $made)) (then
                (global.set $made (i32.const 1))
                (drop (memory.grow (i32.const 40)))
                (loop $next
                    (memory.copy (local.get $at) (i32.const 256) (i32.const {length}))
                    (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const {length})))
                        (i32.const {last}))))
                (i32.store8 (i32.const 131072) (i32.const 0x5b))
                (i32.store8 (local.get $at) (i32.const 0x5d))
                (i32.store (i32.const 64) (i32.sub (local.get $at) (i32.const 131071)))))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (call $commands)
            (i32.const 1024))
        "#,
        commands = wat_guest::commands(1_310_720, count, wat_guest::EXPOSE, &fields),
        length = piece.len(),
        last = 131_072 + bytes - piece.len() - 1,
    ))
}

fn drawing(bytes: usize) -> String {
    format!("(call $call (i32.const {bytes}) (i32.const 4096)) (global.set $heap (i32.const 65536))")
}

/// A guest that logs a text of this many letters, again and again.
fn logging(letters: usize) -> String {
    let times = (64 << 20) / letters;
    wat_guest::module(&format!(
        r"
        {}
        (func $step (param i32 i32) (result i32) (local $left i32)
            (if (i32.lt_u (memory.size) (i32.const 80)) (then (drop (memory.grow (i32.const 80)))))
            (memory.fill (i32.const 131072) (i32.const 33) (i32.const {}))
            (local.set $left (i32.const {times}))
            (loop $next
                (call $call (i32.const 2) (i32.const 131072) (i32.const {letters})
                    (i32.const 0) (i32.const 0) (i32.const 0))
                (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1108) (i32.const 0))
            (i32.const 1024))
        ",
        host("log", "(param i32 i32 i32 i32 i32 i32)"),
        2 * letters,
    ))
}

/// Nanoseconds of the mean and of the longest turn.
fn measure(engine: &Arc<GuestEngine>, component: &[u8]) -> (f64, f64, u64) {
    let component = Component::load(engine, component).expect("a guest");
    let mut init = init();
    Arc::make_mut(&mut init.limits).fuel_per_step = 100_000_000_000;
    let mut body = component.body(init).expect("a body");
    let mut output = Output::default();
    let (mut all, mut longest, mut fuel) = (0.0, 0.0_f64, 0);
    for step in 0..=STEPS {
        output.clear();
        body.begin(Timestamp(1), &mut Vec::new());
        loop {
            let start = cpu_ns();
            let progress = body.poll(&mut output);
            let took = cpu_ns() - start;
            if step > 0 {
                (all, longest) = (all + took, longest.max(took));
            }
            match progress {
                Progress::Preempted => {}
                Progress::Stepped(_) if body.owes().is_some() => output.commands.clear(),
                Progress::Stepped(_) => break,
                Progress::Died(death) => panic!("{death:?}"),
            }
        }
        if step > 0 {
            fuel += output.fuel;
        }
    }
    let slices = (fuel as f64 / engine.options().slice_fuel as f64).max(1.0);
    (all / slices, longest, fuel / STEPS as u64)
}

pub(crate) fn slices() {
    let engine = engine(Profile::Fast);
    let table = "(table 1 10 funcref) (elem declare func $unused) (func $unused)";
    let random = host("random", "(param i32 i32)");
    let whoami = host("whoami", "(param i32)");
    let log = host("log", "(param i32 i32 i32 i32 i32 i32)");
    let cases: Vec<(&str, String)> = vec![
        ("plain instructions", looping("", "(global.set $sum (f64.add (global.get $sum) (f64.const 1)))")),
        ("now", looping(&host("now", "(result i64)"), "(drop (call $call))")),
        ("whoami", looping(&whoami, "(call $call (i32.const 4096)) (global.set $heap (i32.const 65536))")),
        ("random of 64 bytes", looping(&random, &drawing(64))),
        ("random of 4,096 bytes", looping(&random, &drawing(4_096))),
        ("random of nothing", looping(&random, "(call $call (i32.const 0) (i32.const 4096))")),
        ("log of nothing", {
            let zero = "(i32.const 0)";
            looping(&log, &format!("(call $call {zero} (i32.const 64) {zero} {zero} {zero} {zero})"))
        }),
        ("table.set", looping(table, "(table.set (i32.const 0) (ref.null func))")),
        ("table.set of a function", looping(table, "(table.set (i32.const 0) (ref.func $unused))")),
        ("table.get", looping(table, "(drop (ref.is_null (table.get (i32.const 0))))")),
        ("table.grow by 0", looping(table, "(drop (table.grow (ref.null func) (i32.const 0)))")),
        ("table.fill of 0", looping(table, "(table.fill (i32.const 0) (ref.null func) (i32.const 0))")),
        ("table.copy of 0", looping(table, "(table.copy (i32.const 0) (i32.const 0) (i32.const 0))")),
        ("memory.grow by 0", looping("", "(drop (memory.grow (i32.const 0)))")),
        ("memory.fill of 0 bytes", looping("", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))")),
        ("memory.copy of 0 bytes", looping("", "(memory.copy (i32.const 0) (i32.const 0) (i32.const 0))")),
        ("memory.copy of 64 bytes", looping("", "(memory.copy (i32.const 0) (i32.const 64) (i32.const 64))")),
        ("ref.func", looping(table, "(drop (ref.is_null (ref.func $unused)))")),
        ("f64.nearest", looping("", "(global.set $sum (f64.nearest (f64.add (global.get $sum) (f64.const 0.3))))")),
        ("f64.div", looping("", "(global.set $sum (f64.div (global.get $sum) (f64.const 1.0001)))")),
        ("3 MiB of numbers", exposing(",1", 1 << 20, 3)),
        ("3 MiB of texts", exposing(",\"abcdefgh\"", 1 << 20, 3)),
        ("3 MiB of objects", exposing(",{\"a\":{}}", 1 << 20, 3)),
        ("10,000 commands of 64 bytes", exposing(",1", 64, 10_000)),
    ];
    let encoded = |(name, core): (&'static str, String)| (name, wat_guest::component("process", &core));
    let mut cases: Vec<(&str, Vec<u8>)> = cases.into_iter().map(encoded).collect();
    cases.push(("log of 1 MiB in UTF-16", wat_guest::component_in_utf16("process", &logging(1 << 19))));
    cases.push(("log of 4 KiB in UTF-16", wat_guest::component_in_utf16("process", &logging(2 << 10))));
    let mut plain = None;
    println!("{:<28} {:>12} {:>14} {:>16}", "a step of", "fuel", "mean of a slice", "longest turn");
    for (name, component) in &cases {
        let (mean, longest, fuel) = measure(&engine, component);
        let plain = *plain.get_or_insert(mean);
        println!("{name:<28} {fuel:>12} {:>13.2} x {:>14.2} x", mean / plain, longest / plain);
    }
}
