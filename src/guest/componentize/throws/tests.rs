use super::*;
use wasmtime::{Engine, Instance, Store};

/// A module with one kind of exception and these functions. `$throw` throws its argument, unless it
/// is 0.
fn module(functions: &str) -> Vec<u8> {
    let text = format!(
        r#"(module (tag $e (param i32)) (type $of (func (param i32) (result i64)))
            (table funcref (elem $thrower)) (func (export "_start") (drop (call $main (i32.const 0))))
            (func $throw (param i32) (if (local.get 0) (then (local.get 0) (throw $e))))
            (func $thrower (type $of) (call $throw (local.get 0)) (i64.const 7))
            {functions})"#
    );
    wat::parse_str(text).expect("a module")
}

/// Calls the function `main` once for each argument, in one instance.
#[track_caller]
fn results(functions: &str, arguments: &[i32]) -> Vec<i32> {
    let lowered = lowered(&module(functions)).expect("it is lowered");
    let engine = Engine::default();
    let module = wasmtime::Module::new(&engine, lowered).expect("what is made is valid");
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let main = instance.get_typed_func::<i32, i32>(&mut store, "main").unwrap();
    arguments.iter().map(|argument| main.call(&mut store, *argument).unwrap()).collect()
}

#[test]
fn what_is_thrown_here_or_in_a_call_is_caught_and_the_next_call_is_as_before() {
    let direct = r#"(func $main (export "main") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $e $caught) (call $throw (local.get 0)))
            (return (i32.const 100))))"#;
    assert_eq!(results(direct, &[5, 0, 6, 0]), [5, 100, 6, 100]);
    // Values lie below the call on the stack, and the function that is called has a result.
    let within = r#"(func $main (export "main") (param i32) (result i32)
        (i32.const 1000)
        (block $caught (result i32)
            (try_table (result i32) (catch $e $caught)
                (i32.const 1) (i32.wrap_i64 (call $thrower (local.get 0))) i32.add))
        i32.add)"#;
    assert_eq!(results(within, &[5, 0, 5]), [1005, 1008, 1005]);
    let indirect =
        within.replace("(call $thrower (local.get 0))", "(call_indirect (type $of) (local.get 0) (i32.const 0))");
    assert_eq!(results(&indirect, &[5, 0, 5]), [1005, 1008, 1005]);
    let all = r#"(func $main (export "main") (param i32) (result i32)
        (block $caught (try_table (catch_all $caught) (call $throw (local.get 0))) (return (i32.const 1)))
        (i32.const 2))"#;
    assert_eq!(results(all, &[5, 0, 5]), [2, 1, 2]);
}

#[test]
fn what_is_thrown_again_reaches_the_next_that_catches() {
    // Each of 1,000 calls cleans up: it adds 1, and throws again.
    let functions = r#"(global $cleaned (mut i32) (i32.const 0))
        (func $deep (param i32 i32) (result f64) (local $kept exnref)
            (block $clean (result exnref)
                (try_table (catch_all_ref $clean)
                    (if (local.get 1)
                        (then (drop (call $deep (local.get 0) (i32.sub (local.get 1) (i32.const 1)))))
                        (else (call $throw (local.get 0)))))
                (return (f64.const 1)))
            (local.set $kept)
            (global.set $cleaned (i32.add (global.get $cleaned) (i32.const 1)))
            (throw_ref (local.get $kept)))
        (func $main (export "main") (param i32) (result i32)
            (global.set $cleaned (i32.const 0))
            (block $caught (result i32 exnref)
                (try_table (catch_ref $e $caught) (drop (call $deep (local.get 0) (i32.const 999))))
                (return (i32.const -1)))
            drop
            (i32.add (global.get $cleaned)))"#;
    assert_eq!(results(functions, &[5, 0, 7]), [1005, -1, 1007]);
}

#[test]
fn branches_lead_where_they_led() {
    // Out of two blocks that catch, to each block around them, and out of the function.
    let functions = r#"(func $main (export "main") (param i32) (result i32)
        (block $caught (result i32)
            (block $one
                (block $two
                    (try_table (catch $e $caught)
                        (loop $again
                            (block $inner (result i32)
                                (try_table $try (catch $e $inner)
                                    (block $three
                                        (br_table $one $two $three $try (local.get 0)))
                                    (if (i32.eq (local.get 0) (i32.const 2)) (then (return (i32.const 12))))
                                    (if (i32.eq (local.get 0) (i32.const 4)) (then
                                        (local.set 0 (i32.const 1)) (br $again)))
                                    (br_if 7 (i32.const 15) (i32.eq (local.get 0) (i32.const 5)))
                                    drop
                                    (call $throw (local.get 0)))
                                (return (i32.const 13)))
                            (call $throw (i32.add (i32.const 100)))))
                    unreachable)
                (return (i32.const 11)))
            (return (i32.const 10))))"#;
    let functions = functions.replace("$two $three $try (local.get 0)", "$two $three $try $three (local.get 0)");
    assert_eq!(results(&functions, &[0, 1, 2, 3, 4, 5, 6]), [10, 11, 12, 13, 11, 15, 106]);
}

#[test]
fn what_nothing_catches_is_a_trap() {
    let lowered = lowered(&module("(func $main (param i32) (result i32) (call $throw (i32.const 1)) (i32.const 2))"));
    let engine = Engine::default();
    let module = wasmtime::Module::new(&engine, lowered.unwrap()).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let start = instance.get_typed_func::<(), ()>(&mut store, START).unwrap();
    let trap = start.call(&mut store, ()).unwrap_err();
    assert_eq!(trap.downcast_ref(), Some(&wasmtime::Trap::UnreachableCodeReached));
}

/// Each branch and call costs the same, however many blocks are around it.
#[test]
fn deep_blocks_are_lowered_quickly() {
    let (open, close) =
        ("block br_if_0 block ".repeat(50_000).replace("br_if_0", "i32.const 0 br_if 0"), "end ".repeat(100_000));
    let main = format!(
        "(func $main (param i32) (result i32) {open} {} {close} i32.const 0)",
        "(call $throw (i32.const 0)) ".repeat(50_000)
    );
    let begun = std::time::Instant::now();
    lowered(&module(&main)).unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
}

#[test]
fn other_kinds_are_refused() {
    let main = "(func $main (param i32) (result i32) (i32.const 0))";
    for more in [
        "(tag (param i32))",
        "(start $start) (func $start)",
        "(func (i32.const 1) (try_table (param i32) (catch_all 0) drop))",
        "(func try catch_all end)",
    ] {
        assert!(lowered(&module(&format!("{main} {more}"))).is_err(), "{more}");
    }
    for tag in ["(tag (param i64))", "(tag)", r#"(import "a" "b" (tag (param i32)))"#] {
        let text = format!(r#"(module {tag} (func (export "_start")))"#);
        assert!(lowered(&wat::parse_str(&text).unwrap()).is_err(), "{tag}");
    }
}
