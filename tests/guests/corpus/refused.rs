//! Components that are refused before anything is compiled, because of what they would cost or
//! contain.

use super::wat::repeated;
use crate::slow;
use crate::wat_guest;

/// The name of the case, its bytes, and a part of the refusal.
pub(super) type Refused = (&'static str, fn() -> Vec<u8>, &'static str);

fn wat(text: impl AsRef<str>) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// A component that fits by the names of its exports.
fn named(text: &str) -> Vec<u8> {
    let export = "(instance $guest) (export \"wfhost:process/guest@0.1.0\" (instance $guest))";
    wat(format!("(component {text} {export})"))
}

fn module(text: impl std::fmt::Display) -> Vec<u8> {
    wat(format!("(component (core module {text}))"))
}

/// Levels of ten instances each of the level below.
fn instances_of_instances(levels: usize) -> Vec<u8> {
    let mut text = "(component (component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
    for level in 1..=levels {
        let instances = "(instance (instantiate $p))".repeat(10);
        text += &format!("(component $c{level} (alias outer 1 $c{} (component $p)) {instances})", level - 1);
    }
    wat(text + &format!("(instance (instantiate $c{levels})))"))
}

fn components_within_components(depth: usize) -> Vec<u8> {
    let component = b"\0asm\x0d\0\x01\0";
    (0..depth).fold(component.to_vec(), |inner, _| [&component[..], &slow::section(4, &inner)].concat())
}

/// Nested loops, each of which may change all locals.
fn loops_by_locals(loops: usize, locals: usize) -> Vec<u8> {
    let mut text = format!("(func (local {})", "i32 ".repeat(locals)) + &"(loop ".repeat(loops);
    for local in 0..locals {
        text += &format!("(local.set {local} (i32.add (local.get {local}) (i32.const 1)))");
    }
    module(text + &"(br_if 0 (local.get 0)))".repeat(loops) + ")")
}

fn branch_tables(tables: usize, blocks: usize, locals: usize) -> Vec<u8> {
    let targets = repeated(blocks, |block| format!("{} ", block + 1));
    let table = format!("(block (br_table 0 {targets} (local.get 0)))");
    let locals = "i32 ".repeat(locals);
    let (open, close) = ("(block ".repeat(blocks), ")".repeat(blocks));
    module(format!("(func (param i32) (local {locals}) {open} {} {close})", table.repeat(tables)))
}

fn calls(values: usize, calls: usize) -> Vec<u8> {
    let types = "i32 ".repeat(values);
    let arguments = repeated(values, |value| format!("local.get {value} "));
    module(format!(
        "(type $t (func (param {types}) (result {types}))) (import \"a\" \"b\" (func $f (type $t)))
        (func (type $t) {arguments} {})",
        "call $f ".repeat(calls)
    ))
}

/// What the contract's world imports and exports, with this in the core module.
fn guest_with(rest: &str) -> Vec<u8> {
    wat_guest::component(
        "process",
        &wat_guest::module(&format!("(func $step (param i32 i32) (result i32) unreachable) {rest}")),
    )
}

pub(super) const REFUSED: &[Refused] = &[
    ("instances of instances, 10^3", || instances_of_instances(3), "1000 core instances"),
    ("instances of instances, 10^40", || instances_of_instances(40), "types, imports, exports, aliases and instances"),
    ("components 40 deep", || components_within_components(40), "33 levels of nested components"),
    ("components 5,000 deep", || components_within_components(5_000), "33 levels of nested components"),
    ("300 components", || wat(format!("(component {})", "(component)".repeat(300))), "257 nested components"),
    (
        "an instance of a component that is an argument",
        || {
            wat("(component (component $c (import \"x\" (component $x)) (instance (instantiate $x)))
                (component $d) (instance (instantiate $c (with \"x\" (component $d)))))")
        },
        "its size is not known in advance",
    ),
    (
        "an instance of a component out of an instance",
        || {
            wat("(component (component $c (component $d) (export \"d\" (component $d))) (instance $i (instantiate $c))
                (alias export $i \"d\" (component $d)) (instance (instantiate $d)))")
        },
        "its size is not known in advance",
    ),
    ("200 loops by 200 locals", || loops_by_locals(200, 200), "has 40000 locals times levels of loops"),
    ("1,000 loops by 1,000 locals", || loops_by_locals(1_000, 1_000), "locals times levels of loops"),
    ("1,000 branch tables of 400", || branch_tables(1_000, 400, 0), "squared for each function"),
    ("branch tables by locals", || branch_tables(100, 400, 200), "locals times branches"),
    ("100,000 branches to one place", || slow::of_bodies(&[slow::branches(100_000)]), "squared for each function"),
    (
        "many functions with many branches",
        || slow::of_bodies(&vec![slow::branches(20_000); 11]),
        "squared for each function",
    ),
    ("calls of 1,000 values", || calls(1_000, 100), "values that its calls and blocks take and return"),
    (
        "blocks of 1,000 values",
        || {
            let (types, gets) = ("i32 ".repeat(1_000), "local.get 0 ".repeat(1_000));
            let blocks = "block (type $t) end ".repeat(100);
            module(format!("(type $t (func (param {types}) (result {types}))) (func (type $t) {gets} {blocks})"))
        },
        "values that its calls and blocks take and return",
    ),
    (
        "50,000 locals in each of many functions",
        || {
            let locals = "i32 ".repeat(50_000);
            module(format!("(func (local {locals}))").repeat(21))
        },
        "locals of all functions together",
    ),
    ("100,001 functions", || slow::of_bodies(&vec![Vec::new(); 100_001]), "100001 functions"),
    ("a function of 1 MiB", || slow::of_bodies(&[slow::additions(1_100_000)]), "bytes; at most 1048576"),
    ("257 core modules", || wat(format!("(component {})", "(core module)".repeat(257))), "257 core modules"),
    (
        "100,001 types",
        || wat(format!("(component {})", "(type u8)".repeat(100_001))),
        "types, imports, exports, aliases and instances",
    ),
    ("a core module", || wat("(module)"), "a core WebAssembly module"),
    (
        "types within types",
        || {
            let types = [&[1][..], &[0x41, 1, 1].repeat(1_200), &[0x41, 0]].concat();
            [&b"\0asm\x0d\0\x01\0"[..], &slow::section(7, &types)].concat()
        },
        "nest too deep",
    ),
    (
        "types that double",
        || {
            let doubled = repeated(60, |at| format!("(type $t{} (tuple $t{at} $t{at}))", at + 1));
            named(&format!("(type $t0 (tuple u8 u8)) {doubled}"))
        },
        "type size",
    ),
    (
        "10,000 instances",
        || {
            let instances = "(core instance (instantiate $m))".repeat(10_000);
            wat(format!("(component (core module $m) {instances})"))
        },
        "10000 core instances",
    ),
    ("shared memory", || guest_with("(memory 1 1 shared)"), "threads"),
    ("atomics", || guest_with("(func (drop (i32.atomic.load (i32.const 0))))"), "threads"),
    ("collected values", || guest_with("(type (struct (field i32)))"), "gc"),
    ("exceptions", || guest_with("(tag)"), "exceptions"),
    ("external references", || guest_with("(table 1 externref)"), "gc types are disallowed"),
    ("continuations", || guest_with("(type $f (func)) (type (cont $f))"), "stack"),
    (
        "wide arithmetic",
        || guest_with("(func (result i64 i64) (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)))"),
        "wide",
    ),
    ("memory of 64 bits", || guest_with("(memory i64 1)"), "memory64"),
    ("pages of one byte", || guest_with("(memory 1 (pagesize 1))"), "page"),
    ("two memories", || guest_with("(memory 1)"), "per-instance limit"),
    ("two tables", || guest_with("(table 1 funcref) (table 1 funcref)"), "per-instance limit"),
    ("an asynchronous function", || named("(type (func async))"), "async"),
    ("streams", || named("(type (stream u8))"), "async"),
    ("an import of a core module", || wat("(component (import \"m\" (core module)))"), "not offered"),
    ("an import of a component", || wat("(component (import \"c\" (component)))"), "not offered"),
    ("HTTP of WASI", || wat("(component (import \"wasi:http/types@0.2.0\" (instance)))"), "not offered"),
    (
        "a key-value store of WASI",
        || wat("(component (import \"wasi:keyvalue/store@0.2.0-draft\" (instance)))"),
        "not offered",
    ),
    (
        "sockets of another type",
        || named("(import \"wasi:sockets/tcp@0.2.0\" (instance (export \"start-bind\" (func (param \"x\" string)))))"),
        "the type of an import differs",
    ),
    (
        "an environment of another type",
        || named("(import \"wasi:cli/environment@0.2.0\" (instance (export \"get-environment\" (func (result u8)))))"),
        "the type of an import differs",
    ),
    ("nothing at all", || wat("(component)"), "does not export"),
    ("bytes that end", || wat("(component (core module (func)))")[..30].to_vec(), "not a valid component"),
];
