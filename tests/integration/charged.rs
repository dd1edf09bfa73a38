//! What the host does for a guest costs the guest fuel, and is done in slices: host calls, and
//! checking what a step returns.

use crate::support::{ENGINE, End, Stepper, init};
use crate::wat_guest;
use wfhost::guest::Component;
use wfhost::process::{Payload, Status};

/// Fuel of a slice of [`ENGINE`].
const SLICE: u64 = 1_000_000;

fn load(rest: &str) -> Component {
    Component::load(&ENGINE, &wat_guest::component("process", &wat_guest::module(rest))).expect("it fits")
}

/// A guest whose step makes a call ten thousand times.
fn calling(import: &str, call: &str) -> Component {
    load(&format!(
        r"
        {import}
        (func $step (param i32 i32) (result i32) (local $left i32)
            (local.set $left (i32.const 10000))
            (loop $next
                {call}
                (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.const 1024))
        (func $unused)
        "
    ))
}

#[test]
fn every_call_of_the_host_costs_fuel_and_ends_slices() {
    for (name, import, call) in [
        ("now", r#"(import "wfhost:process/host@0.1.0" "now" (func $now (result i64)))"#, "(drop (call $now))"),
        (
            "whoami",
            r#"(import "wfhost:process/host@0.1.0" "whoami" (func $whoami (param i32)))"#,
            "(call $whoami (i32.const 4096)) (global.set $heap (i32.const 65536))",
        ),
        (
            "random",
            r#"(import "wfhost:process/host@0.1.0" "random" (func $random (param i32 i32)))"#,
            "(call $random (i32.const 0) (i32.const 4096))",
        ),
        (
            "log",
            r#"(import "wfhost:process/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))"#,
            "(call $log (i32.const 0) (i32.const 64) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
        ),
    ] {
        let mut guest = Stepper::new(&calling(import, call), init("run", "null"));
        assert_eq!(guest.step(vec![]).status(), Status::Idle, "{name}");
        let fuel = guest.output.fuel;
        assert!(fuel > 10_000 * 200, "{name}: {fuel}");
        // What the calls owe is paid when it amounts to a slice.
        assert!(u64::from(guest.preempted) + 1 >= fuel / SLICE, "{name}: {} slices of {fuel}", guest.preempted);
    }
}

#[test]
fn instructions_that_call_into_the_host_cost_fuel() {
    for (name, instruction) in [
        ("table.set", "(table.set (i32.const 0) (ref.null func))"),
        ("table.grow", "(drop (table.grow (ref.null func) (i32.const 0)))"),
        ("table.fill", "(table.fill (i32.const 0) (ref.null func) (i32.const 0))"),
        ("table.copy", "(table.copy (i32.const 0) (i32.const 0) (i32.const 0))"),
        ("memory.grow", "(drop (memory.grow (i32.const 0)))"),
        ("memory.fill", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))"),
        ("memory.copy", "(memory.copy (i32.const 0) (i32.const 0) (i32.const 0))"),
        ("ref.func", "(drop (ref.is_null (ref.func $unused)))"),
    ] {
        let component = calling("(table 1 funcref) (elem declare func $unused)", instruction);
        let mut guest = Stepper::new(&component, init("run", "null"));
        assert_eq!(guest.step(vec![]).status(), Status::Idle, "{name}");
        assert!(guest.output.fuel > 10_000 * 90, "{name}: {}", guest.output.fuel);
    }
}

/// A guest that exposes a JSON text of this many bytes in each step: `[1,1,…]`, made in the first.
fn exposing(bytes: u32) -> Component {
    let core = wat_guest::module(&format!(
        r#"
        (data (i32.const 128) "x")
        (global $made (mut i32) (i32.const 0))
        (global $tag (mut i64) (i64.const 0))
        (func $step (param i32 i32) (result i32) (local $at i32) (local $end i32)
            (local.set $at (i32.const 131072))
            (local.set $end (i32.sub (i32.add (local.get $at) (i32.const {bytes})) (i32.const 2)))
            (if (i32.eqz (global.get $made)) (then
                (global.set $made (i32.const 1))
                (drop (memory.grow (i32.const 40)))
                (loop $next
                    (i32.store16 (local.get $at) (i32.const 0x2c31)) ;; 1,
                    (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 2))) (local.get $end))))
                (i32.store8 (i32.const 131072) (i32.const 0x5b))
                (i32.store8 (i32.const 131073) (i32.const 0x20))
                (i32.store16 (local.get $end) (i32.const 0x5d31))))
            (global.set $tag (i64.add (global.get $tag) (i64.const 1)))
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (global.get $tag))
            (i32.store8 (i32.const 2056) (i32.const 10)) ;; expose
            (i32.store (i32.const 2064) (i32.const 128))
            (i32.store (i32.const 2068) (i32.const 1))
            (i32.store (i32.const 2080) (i32.const 131072))
            (i32.store (i32.const 2084) (i32.const {bytes}))
            (i32.const 1024))
        "#
    ));
    Component::load(&ENGINE, &wat_guest::component("process", &core)).expect("it fits")
}

#[test]
fn what_a_step_returns_costs_fuel_and_is_checked_in_slices() {
    let mut guest = Stepper::new(&exposing(1 << 20), init("run", "null"));
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    assert_eq!(guest.step(vec![]).status(), Status::Idle);
    let fuel = guest.output.fuel;
    assert!(fuel >= 4 << 20 && guest.preempted >= 2, "{fuel} in {} slices", guest.preempted + 1);
    let wfhost::process::Action::Expose { value: Payload::Json(json), .. } = &guest.output.commands[0].action else {
        panic!("{:?}", guest.output.commands)
    };
    assert!(json.as_str().starts_with("[ 1,1,") && json.as_str().ends_with(",1]"));
    // One more byte is too much, and is reported before anything is checked.
    let mut guest = Stepper::new(&exposing((1 << 20) + 2), init("run", "null"));
    assert_eq!(guest.step(vec![]).problem().kind, "too-large");
}

/// A guest whose step completes with arrays nested this deep.
fn nesting(depth: usize) -> Component {
    let text = "[".repeat(depth) + &"]".repeat(depth);
    load(&format!(
        r#"
        (data (i32.const 4096) "{text}")
        (func $step (param i32 i32) (result i32)
            (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
            (i32.store (i32.const 1040) (i32.const 4096))
            (i32.store (i32.const 1044) (i32.const {}))
            (i32.const 1024))
        "#,
        text.len()
    ))
}

#[test]
fn json_nests_as_deep_as_leaves_room_for_what_the_host_puts_around_it() {
    let step = |depth| Stepper::new(&nesting(depth), init("run", "null")).step(vec![]);
    assert!(matches!(step(100).status(), Status::Complete(_)));
    for depth in [101, 127, 128, 5_000] {
        let problem = step(depth).problem();
        assert_eq!(problem.kind, "json-too-deep", "{depth}");
        assert!(problem.detail.as_deref().unwrap().contains("line 1 column 101"), "{problem}");
    }
}

#[test]
fn the_texts_of_a_problem_are_cut() {
    let component = load(
        r"
        (func $step (param i32 i32) (result i32)
            (memory.fill (i32.const 8192) (i32.const 0x61) (i32.const 40000))
            (i32.store8 (i32.const 1024) (i32.const 4)) ;; failed
            (i32.store (i32.const 1032) (i32.const 8192)) (i32.store (i32.const 1036) (i32.const 40000))
            (i32.store (i32.const 1040) (i32.const 8192)) (i32.store (i32.const 1044) (i32.const 40000))
            (i32.store8 (i32.const 1052) (i32.const 1))
            (i32.store (i32.const 1056) (i32.const 8192)) (i32.store (i32.const 1060) (i32.const 40000))
            (i32.const 1024))
        ",
    );
    let mut guest = Stepper::new(&component, init("run", "null"));
    let End::Stepped(Status::Failed(problem)) = guest.step(vec![]) else { panic!("it did not fail") };
    let detail = problem.detail.as_deref().unwrap();
    assert_eq!(
        (problem.kind.chars().count(), problem.title.chars().count(), detail.chars().count()),
        (257, 1_025, 4_097)
    );
    assert!(problem.kind.ends_with("a…") && problem.title.ends_with("a…") && detail.ends_with("a…"));
}
