//! What is refused, and for the right reason.

use super::rig::{self, Data, Rig};
use crate::guest::snapshot::{CheckError, Reason, Unfit, Verdict, check};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use wasmtime::component::Linker;

fn verdict(wat: &str) -> Verdict {
    let bytes = wat::parse_str(wat).unwrap_or_else(|error| panic!("{error}"));
    check(&bytes).expect("it is well-formed")
}

fn reasons(wat: &str) -> Vec<Reason> {
    verdict(wat).refusals.into_iter().map(|refusal| refusal.reason).collect()
}

/// A component of one core module.
fn of_module(module: &str) -> String {
    format!("(component (core module {module}))")
}

#[test]
fn state_in_tables_and_segments() {
    let cases = [
        ("table.set", "(func (table.set (i32.const 0) (ref.null func)))"),
        ("table.grow", "(func (drop (table.grow (ref.null func) (i32.const 1))))"),
        ("table.fill", "(func (table.fill (i32.const 0) (ref.null func) (i32.const 1)))"),
        ("table.copy", "(func (table.copy (i32.const 0) (i32.const 0) (i32.const 0)))"),
        ("table.init", "(func (table.init 0 (i32.const 0) (i32.const 0) (i32.const 0)))"),
        ("elem.drop", "(func (elem.drop 0))"),
        ("data.drop", "(func (data.drop 0))"),
    ];
    for (name, function) in cases {
        let module = of_module(&format!("(memory 1) (data \"x\") (table 1 9 funcref) (elem func 0) {function}"));
        assert_eq!(reasons(&module), [Reason::Instruction(name.into())], "{module}");
    }
}

#[test]
fn state_of_other_kinds_in_core_modules() {
    let cases = [
        ("(global (mut externref) (ref.null extern))", Reason::ReferenceGlobal),
        ("(global (mut funcref) (ref.null func))", Reason::ReferenceGlobal),
        ("(import \"m\" \"g\" (global (mut funcref)))", Reason::ReferenceGlobal),
        ("(table 1 externref)", Reason::ReferenceTable),
        ("(import \"m\" \"t\" (table 1 externref))", Reason::ReferenceTable),
        ("(type (struct (field (mut i32))))", Reason::HeapType),
        ("(type (array (mut i8)))", Reason::HeapType),
        ("(type $f (func)) (type (cont $f))", Reason::HeapType),
        ("(memory 1 1 shared)", Reason::Shared),
        ("(import \"m\" \"m\" (memory 1 1 shared))", Reason::Shared),
        ("(memory 1 (pagesize 1))", Reason::PageSize),
        ("(tag)", Reason::ExceptionTag),
        ("(func (param i32) (drop (ref.i31 (local.get 0))))", Reason::Proposal("gc".into())),
        ("(func (param exnref) (throw_ref (local.get 0)))", Reason::Proposal("exceptions".into())),
        (
            "(memory 1) (func (drop (memory.atomic.notify (i32.const 0) (i32.const 0))))",
            Reason::Instruction("memory.atomic.notify".into()),
        ),
        ("(memory 1) (func (memory.discard (i32.const 0) (i32.const 0)))", Reason::Proposal("memory_control".into())),
    ];
    for (module, reason) in cases {
        assert_eq!(reasons(&of_module(module)), [reason], "{module}");
    }
}

#[test]
fn state_that_the_host_keeps_for_a_component() {
    let cases = [
        ("(type (resource (rep i32)))", Reason::Resource("of its own".into())),
        ("(import \"r\" (type (sub resource)))", Reason::Resource("r".into())),
        ("(import \"i\" (instance (export \"handle\" (type (sub resource)))))", Reason::Resource("handle".into())),
        ("(core func (canon waitable-set.new))", Reason::Builtin("WaitableSetNew".into())),
        ("(core func (canon subtask.drop))", Reason::Builtin("SubtaskDrop".into())),
        ("(core func (canon error-context.drop))", Reason::Builtin("ErrorContextDrop".into())),
        ("(core func (canon context.get i32 0))", Reason::Builtin("ContextGet".into())),
        ("(type (stream u8))", Reason::Stream),
        ("(type (future u8))", Reason::Stream),
        ("(import \"f\" (func async))", Reason::Asynchronous),
        ("(import \"m\" (core module))", Reason::ImportedCode),
        ("(import \"c\" (component))", Reason::ImportedCode),
    ];
    for (item, reason) in cases {
        let found = reasons(&format!("(component {item})"));
        assert!(found.contains(&reason), "{item}: {found:?}");
    }
}

#[test]
fn nested_components_are_looked_into() {
    let nested = "(component (component (component (core module (table 1 externref)))))";
    assert_eq!(reasons(nested), [Reason::ReferenceTable]);
}

#[test]
fn what_only_a_start_function_does_is_allowed() {
    let module = |more: &str| {
        of_module(&format!(
            "(table 1 funcref) (func $s (table.set (i32.const 0) (ref.null func))) (start $s) {more} (func $other)"
        ))
    };
    assert_eq!(reasons(&module("")), []);
    let reachable = [
        "(export \"s\" (func $s))",
        "(elem (i32.const 0) $s)",
        "(elem declare func $s)",
        "(elem declare funcref (ref.func $s))",
        "(global funcref (ref.func $s))",
        "(table 1 funcref (ref.func $s))",
        "(func (call $s))",
        "(func (return_call $s))",
        "(elem declare func $s) (func (drop (ref.func $s)))",
    ];
    for more in reachable {
        assert_eq!(reasons(&module(more)), [Reason::Instruction("table.set".into())], "{more}");
    }
    let recursive =
        of_module("(table 1 funcref) (func $s (table.set (i32.const 0) (ref.null func)) (call $s)) (start $s)");
    assert_eq!(reasons(&recursive), [Reason::Instruction("table.set".into())]);
    let imported = of_module(
        "(import \"m\" \"f\" (func $s)) (table 1 funcref) (func (table.set (i32.const 0) (ref.null func))) (start $s)",
    );
    assert_eq!(reasons(&imported), [Reason::Instruction("table.set".into())]);
}

#[test]
fn refusals_are_counted_and_located() {
    let drops = "(core module (data \"x\") (func (data.drop 0)) (func (data.drop 0)))";
    let verdict = verdict(&format!("(component (core module (memory 1) (global (mut i32) (i32.const 0))) {drops})"));
    assert_eq!(verdict.refusals.len(), 1);
    assert_eq!(verdict.refusals[0].to_string(), "the instruction data.drop (2 times) in core module 1");
    assert_eq!((verdict.modules, verdict.memories, verdict.mutable_globals), (2, 1, 1));
}

/// A component whose start function uses an answer of the host.
fn asking(start: &str) -> String {
    format!(
        r#"
(component
  (import "ask" (func $ask (result u32)))
  (core func $lowered (canon lower (func $ask)))
  (core module $m
    (import "host" "ask" (func $ask (result i32)))
    (memory 1)
    (global $g (mut i32) (i32.const 0))
    (func $s {start})
    (start $s))
  (core instance (instantiate $m (with "host" (instance (export "ask" (func $lowered)))))))
"#
    )
}

const INTO_MEMORY: &str = "(i32.store (i32.const 0) (call $ask))";

#[test]
fn a_component_that_asks_the_host_while_it_starts() {
    let asking = asking(INTO_MEMORY);
    assert!(verdict(&asking).snapshottable(), "its bytes do not show it");
    let refused = rig::probe(&asking);
    assert!(matches!(refused, Err(Unfit::CallsHost(1))), "{refused:?}");
}

/// A host that does not count a call, and answers each instance differently.
#[test]
fn a_component_whose_fresh_instances_differ() {
    let offer = |linker: &mut Linker<Data>| {
        static ASKED: AtomicU32 = AtomicU32::new(1);
        let mut root = linker.root();
        root.func_wrap("ask", |_, (): ()| Ok((ASKED.fetch_add(1, Ordering::Relaxed),))).expect("the name is free");
    };
    for (start, what) in [(INTO_MEMORY, "memories"), ("(global.set $g (call $ask))", "globals")] {
        let refused = rig::probe_bytes(&wat::parse_str(asking(start)).unwrap(), offer);
        assert!(matches!(refused, Err(Unfit::Differs(found)) if found == what), "{what}: {refused:?}");
    }
}

#[test]
fn an_instance_of_another_component() {
    let rig = |memory: &str, start: &str| {
        let module = format!("(memory {memory}) (func $s {start}) (start $s)");
        Rig::new(&format!("(component (core module $m {module}) (core instance (instantiate $m)))"))
    };
    let grows = "(drop (memory.grow (i32.const 1)))";
    let one = rig("1 9", grows);
    // Its memory is of another type, or of the same type and smaller than a fresh one.
    for other in [rig("1 8", grows), rig("1 9", "")] {
        let bound = one.template.bind(&mut other.guest().store);
        assert!(matches!(bound, Err(Unfit::OtherComponent)), "{bound:?}");
    }
}

#[test]
fn a_component_whose_start_traps() {
    let trapping = "(component (core module $m (func $s unreachable) (start $s)) (core instance (instantiate $m)))";
    assert!(matches!(rig::probe(trapping), Err(Unfit::Instantiate(_))));
}

#[test]
fn bytes_that_are_no_component() {
    assert!(matches!(check(b""), Err(CheckError::Malformed(_))));
    assert!(matches!(check(b"\0asm\x01\0\0\0"), Err(CheckError::CoreModule)));
    assert!(matches!(check(&[0xff; 100]), Err(CheckError::Malformed(_))));
}

/// The parser recurses: without our own bound, this would overflow the stack and end the host.
#[test]
fn types_within_types_without_end() {
    assert!(matches!(check(&nested_types(1_000_000)), Err(CheckError::TooDeep)));
    // A thread with a small stack can parse what is accepted.
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    let parsed = thread.spawn(|| check(&nested_types(999))).unwrap().join().unwrap();
    assert!(matches!(parsed, Err(CheckError::Malformed(_))), "{parsed:?}");
}

fn nested_types(levels: usize) -> Vec<u8> {
    // Each level: an instance type (0x42) of one declaration (1), which is a type (1).
    let nested = [0x42, 1, 1].repeat(levels);
    let mut bytes = b"\0asm\x0d\0\x01\0\x07".to_vec();
    let mut length = nested.len() + 1;
    while length > 0x7f {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.push(1);
    bytes.extend(nested);
    bytes
}

const SAMPLE: &str = r#"
(component
  (import "i" (instance (export "f" (func (param "x" (list string)) (result (option u8))))))
  (core module $m
    (type (func (param i32) (result i32)))
    (memory (export "memory") 1)
    (table 2 funcref)
    (global (mut i64) (i64.const 5))
    (elem (i32.const 0) func $f)
    (data (i32.const 8) "data")
    (func $f (export "f") (param i32) (result i32) (i32.add (local.get 0) (i32.load (i32.const 8))))
    (func $s (global.set 0 (i64.const 1)))
    (start $s))
  (core instance $i (instantiate $m))
  (func (export "f") (param "x" u32) (result u32) (canon lift (core func $i "f"))))
"#;

proptest! {
    #[test]
    fn damaged_bytes_never_panic(
        cut in 0_usize..1_000,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = wat::parse_str(SAMPLE).expect("the text is well-formed");
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(500)));
        // Either answer is right; a panic is not.
        let _ = check(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.extend(tail);
        let _ = check(&bytes);
    }
}
