//! Guests made by a test: a core module in WAT, encoded as a component of a world of `wit/`.
//!
//! The layouts are those of the canonical ABI for `wfhost:process@0.1.0`. An outcome has 88 bytes:
//! the status (80 bytes, its case at 0, the case's payload at 8), then address and number of the
//! commands. A command has 104: the tag, the action's case at 8, the case's payload at 16. A
//! payload has 32: its case, and address and length of text or bytes at 8.

#![allow(dead_code)] // Each of those who share it needs a part.

use std::path::PathBuf;
use wit_component::{ComponentEncoder, StringEncoding};

/// Encodes a core module as a component of a world of the contract.
pub(crate) fn component(world: &str, core: &str) -> Vec<u8> {
    encode(world, core, StringEncoding::UTF8, contract)
}

/// The same, for a module whose texts are in UTF-16.
pub(crate) fn component_in_utf16(world: &str, core: &str) -> Vec<u8> {
    encode(world, core, StringEncoding::UTF16, contract)
}

fn contract(resolve: &mut wit_parser::Resolve) -> wit_parser::PackageId {
    let wit = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("wit");
    resolve.push_path(&wit).expect("the contract").0
}

/// Encodes a core module as a component of a world in WIT text.
pub(crate) fn component_of(wit: &str, world: &str, core: &str) -> Vec<u8> {
    encode(world, core, StringEncoding::UTF8, |resolve| resolve.push_str("test.wit", wit).expect("WIT"))
}

fn encode(
    world: &str,
    core: &str,
    texts: StringEncoding,
    push: impl FnOnce(&mut wit_parser::Resolve) -> wit_parser::PackageId,
) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let package = push(&mut resolve);
    let world = resolve.select_world(&[package], Some(world)).expect("the world");
    let mut module = wat::parse_str(core).expect("a core module");
    wit_component::embed_component_metadata(&mut module, &resolve, world, texts).expect("metadata");
    let mut encoder = ComponentEncoder::default().module(&module).expect("a module of the world").validate(true);
    encoder.encode().expect("a component")
}

/// The usual parts of a guest: memory, allocator, an `init` that succeeds, a `close` that does
/// nothing. `rest` adds a `step`, as a function `$step` of type `(param i32 i32) (result i32)`, and
/// anything else.
pub(crate) fn module(rest: &str) -> String {
    format!(
        r#"(module
            {rest}
            (memory (export "memory") 2)
            (global $heap (mut i32) (i32.const 65536))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.get $heap)
                (global.set $heap (i32.add (global.get $heap) (local.get 3))))
            (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32 i32 i32 i32 i64 i32 i32) (result i32)
                (i32.const 512))
            (func (export "wfhost:process/guest@0.1.0#step") (param i32 i32) (result i32)
                (call $step (local.get 0) (local.get 1)))
            (func (export "cabi_post_wfhost:process/guest@0.1.0#step") (param i32)
                (global.set $heap (i32.const 65536)))
            (func (export "wfhost:process/guest@0.1.0#close"))
        )"#
    )
}

/// The cases of an action.
pub(crate) const SPAWN: u8 = 1;
pub(crate) const CALL: u8 = 2;
pub(crate) const EXPOSE: u8 = 10;

/// A function `$commands` that writes `count` commands of one `case` from the address `at` on, and
/// adds them to the outcome at 1024. Their tags follow those of earlier commands. `fields` are
/// offsets within a command, each with an i32 expression for its value.
pub(crate) fn commands(at: usize, count: usize, case: u8, fields: &[(usize, &str)]) -> String {
    let store = |(offset, value): &(usize, &str)| format!("(i32.store offset={offset} (local.get $at) {value})");
    let stores: String = fields.iter().map(store).collect();
    format!(
        r"
        (global $tag (mut i64) (i64.const 0))
        (func $commands (local $at i32) (local $left i32)
            (local.set $at (i32.const {at}))
            (local.set $left (i32.const {count}))
            (loop $next
                (global.set $tag (i64.add (global.get $tag) (i64.const 1)))
                (i64.store (local.get $at) (global.get $tag))
                (i32.store8 offset=8 (local.get $at) (i32.const {case}))
                {stores}
                (local.set $at (i32.add (local.get $at) (i32.const 104)))
                (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
            (i32.store (i32.const 1104) (i32.const {at}))
            (i32.store (i32.const 1108) (i32.const {count})))
        "
    )
}

/// A guest that makes one call in each step, and waits for its answer.
pub(crate) fn caller() -> Vec<u8> {
    component(
        "process",
        &module(
            r#"
            (data (i32.const 128) "log")
            (data (i32.const 136) "{\"text\":\"hello\"}")
            (func $step (param i32 i32) (result i32)
                (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
                (i32.store (i32.const 1104) (i32.const 2048))
                (i32.store (i32.const 1108) (i32.const 1))
                (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))) ;; tag
                (i32.store8 (i32.const 2056) (i32.const 2)) ;; call
                (i32.store (i32.const 2064) (i32.const 128))
                (i32.store (i32.const 2068) (i32.const 3))
                (i32.store (i32.const 2080) (i32.const 136))
                (i32.store (i32.const 2084) (i32.const 16))
                (i32.const 1024))
            "#,
        ),
    )
}

/// A guest that completes with `null` in its first step.
pub(crate) fn completer() -> Vec<u8> {
    component(
        "process",
        &module(
            r#"
            (data (i32.const 128) "null")
            (func $step (param i32 i32) (result i32)
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1040) (i32.const 128))
                (i32.store (i32.const 1044) (i32.const 4))
                (i32.const 1024))
            "#,
        ),
    )
}
