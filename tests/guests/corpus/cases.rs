//! The cases: a guest each, and the result of its step.

use super::GROWTH_MAX;
use super::wat::*;

/// The result of a case.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// Its step fails with a problem of this kind.
    Fails(&'static str),
    /// It does what it is permitted: the run succeeds.
    Succeeds,
}

use End::{Fails, Succeeds};

#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) guest: fn() -> Vec<u8>,
    /// What the step has in addition to its component.
    pub(super) step: &'static str,
    pub(super) end: End,
    /// Bytes that the process may grow by.
    pub(super) growth_max: u64,
}

pub(super) const fn case(name: &'static str, guest: fn() -> Vec<u8>, end: End) -> Case {
    Case { name, guest, step: ", limits: { fuel-per-step: 50M }", end, growth_max: GROWTH_MAX }
}

/// One that goes on until its fuel is used up.
const fn endless(name: &'static str, guest: fn() -> Vec<u8>) -> Case {
    case(name, guest, Fails("fuel-exhausted")).step(", limits: { fuel-per-step: 20M }")
}

impl Case {
    pub(super) const fn step(self, step: &'static str) -> Self {
        Self { step, ..self }
    }
}

/// A guest whose module begins with this.
fn starts(body: &str) -> Vec<u8> {
    Guest::new().with(&format!("(start $s) (func $s (local $i i32) {body})")).build()
}

/// A guest that does this before its first step, when its imports already exist.
fn initializes(body: &str) -> Vec<u8> {
    Guest::new().with(&format!("(func (export \"_initialize\") (local $i i32) {body})")).build()
}

pub(super) fn steps(body: impl FnOnce(&mut Guest) -> String) -> Vec<u8> {
    let mut guest = Guest::new();
    let body = body(&mut guest);
    guest.step(body).build()
}

/// A guest that does this in its first step until its fuel is used up.
fn computes(rest: &str, body: &str) -> Vec<u8> {
    Guest::new().with(rest).forever(body).build()
}

const LOG: &str = "(call $log (i32.const 2) (i32.const 128) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0))";
const FOR_EVER: &str = "(loop $l (br $l))";

pub(super) const BEGINNING: &[Case] = &[
    case("a start function that loops", || starts(FOR_EVER), Fails("fuel-exhausted")),
    case("a start function that traps", || starts("unreachable"), Fails("trap")),
    case(
        "a start function that takes all memory",
        || starts("(loop $l (br_if $l (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0))))"),
        Succeeds,
    ),
    case("a start function that asks the time", || starts("(drop (call $now))"), Succeeds),
    case("an initializer that logs", || initializes(&times(10, LOG)), Succeeds),
    case(
        "an initializer that logs for ever",
        || initializes(&format!("(loop $l {LOG} (br $l))")),
        Fails("fuel-exhausted"),
    ),
    case("a memory of 65 MiB", || Guest::new().pages(1040).build(), Fails("memory-exhausted")),
    case("a memory of 4 GiB", || Guest::new().pages(65_536).build(), Fails("memory-exhausted")),
    case(
        "a table that grows",
        || {
            let rest = "(table $t 1 funcref) (start $s) (func $s (loop $l (br_if $l (i32.ge_s (table.grow $t (ref.null func) (i32.const 1000)) (i32.const 0)))))";
            Guest::new().with(rest).build()
        },
        Succeeds,
    ),
    case(
        "an allocator that gives what is not there",
        || Guest::new().realloc("(i32.const -16)").build(),
        Fails("trap"),
    ),
    case(
        "an allocator that gives what is not aligned",
        || Guest::new().realloc("(i32.const 4097)").build(),
        Fails("trap"),
    ),
    case(
        "an allocator that loops",
        || Guest::new().realloc("(loop $l (br $l)) unreachable").build(),
        Fails("fuel-exhausted"),
    ),
    case("an allocator that traps", || Guest::new().realloc("unreachable").build(), Fails("trap")),
    case(
        "an allocator that calls itself",
        || Guest::new().realloc("(call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))").build(),
        Fails("stack-exhausted"),
    ),
    case(
        "an allocator that logs",
        || {
            let logs = REALLOC.replacen("(local $p i32)", &format!("(local $p i32) {LOG}"), 1);
            Guest::new().realloc(&logs).build()
        },
        Fails("trap"),
    ),
    case("an init that loops", || Guest::new().init("(loop $l (br $l)) unreachable").build(), Fails("fuel-exhausted")),
    case("an init that traps", || Guest::new().init("unreachable").build(), Fails("trap")),
    case("an init whose answer is not there", || Guest::new().init("(i32.const -4)").build(), Fails("trap")),
    case("a clean-up that loops", || Guest::new().post(FOR_EVER).build(), Fails("fuel-exhausted")),
    case("a clean-up that traps", || Guest::new().post("unreachable").build(), Fails("trap")),
    case("a clean-up that logs", || Guest::new().post(LOG).build(), Fails("trap")),
    case("a close that loops", || Guest::new().close(FOR_EVER).build(), Succeeds),
    case(
        "a close that fills memory for ever",
        || {
            Guest::new()
                .close("(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 1000000)) (br $l))")
                .build()
        },
        Succeeds,
    ),
    case(
        "a start function that asks the time for ever",
        || starts("(loop $l (drop (call $now)) (br $l))"),
        Fails("fuel-exhausted"),
    ),
];

/// Fills memory from 2 MiB on with one character.
pub(super) fn fill(character: char, count: u32) -> String {
    format!("(memory.fill (i32.const 2097152) (i32.const {}) (i32.const {count}))", character as u32)
}

/// Asks for this in the first step, and completes in the second.
pub(super) fn asks(commands: impl FnOnce(&mut Guest) -> (String, u32)) -> Vec<u8> {
    steps(|guest| {
        let (commands, count) = commands(guest);
        let asked = after(READY, count);
        format!("(if (result i32) (global.get $steps) (then (call $complete)) (else {commands} {asked}))")
    })
}

pub(super) const COMPUTING: &[Case] = &[
    endless("a loop", || computes("", "")),
    endless("empty lines of log", || {
        computes(
            "",
            "(call $log (i32.const 2) (i32.const 128) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
        )
    }),
    endless("lines of log", || computes("", LOG)),
    endless("a table that is set", || computes("(table $t 9 funcref)", "(table.set $t (i32.const 0) (ref.null func))")),
    endless("a table that is filled", || {
        computes("(table $t 9000 funcref)", "(table.fill $t (i32.const 0) (ref.null func) (i32.const 9000))")
    }),
    endless("a table that is copied", || {
        computes("(table $t 9000 funcref)", "(table.copy $t $t (i32.const 0) (i32.const 1) (i32.const 8000))")
    }),
    endless("a table that is filled with nothing", || {
        computes("(table $t 9 funcref)", "(table.fill $t (i32.const 0) (ref.null func) (i32.const 0))")
    }),
    endless("a memory that is filled", || {
        computes("", "(memory.fill (i32.const 4096) (i32.const 0) (i32.const 4000000))")
    }),
    endless("a memory that is copied", || {
        computes("", "(memory.copy (i32.const 4096) (i32.const 4097) (i32.const 4000000))")
    }),
    endless("a segment that is copied", || {
        computes("(data $d \"0123456789abcdef\")", "(memory.init $d (i32.const 4096) (i32.const 0) (i32.const 16))")
    }),
    endless("functions by reference", || {
        computes(
            "(type $f (func)) (table $t 1 funcref) (elem (i32.const 0) $g) (func $g)",
            "(call_indirect $t (type $f) (i32.const 0))",
        )
    }),
    endless("rounding", || {
        computes(
            "(global $g (mut f64) (f64.const 1.5))",
            "(global.set $g (f64.nearest (f64.ceil (f64.floor (f64.trunc (global.get $g))))))",
        )
    }),
    endless("roots", || {
        computes(
            "(global $g (mut f64) (f64.const 1.5))",
            "(global.set $g (f64.sqrt (f64.div (global.get $g) (f64.const 1.1))))",
        )
    }),
    endless("divisions", || {
        computes(
            "(global $g (mut i64) (i64.const -1))",
            "(global.set $g (i64.div_u (i64.const -1) (i64.or (global.get $g) (i64.const 1))))",
        )
    }),
    endless("vectors", || {
        computes("", "(local.set $v (f64x2.sqrt (f64x2.div (local.get $v) (f64x2.add (local.get $v) (local.get $v)))))")
    }),
    endless("far memory", || {
        computes(
            "",
            "(local.set $i (i32.load (i32.and (i32.mul (i32.add (local.get $i) (i32.const 12345)) (i32.const 1103515245)) (i32.const 0x3ffff8))))",
        )
    }),
    endless("calls that end in calls", || {
        computes(
            "(func $a (param i32) (return_call $b (local.get 0))) (func $b (param i32))",
            "(call $a (i32.const 1))",
        )
    }),
    endless("many values at one time", || {
        // All of them live at once: they do not fit the registers.
        let loads = repeated(2_000, |at| format!("(i32.load offset={} (i32.const 4096))", at * 4));
        computes("", &format!("{loads} {} (local.set $i)", "i32.add ".repeat(1_999)))
    }),
    endless("the time", || computes("", "(drop (call $now))")),
    endless("who it is", || computes("", "(global.set $heap (i32.const 3145728)) (call $whoami (i32.const 512))")),
    endless("no bytes of randomness", || {
        computes("", "(global.set $heap (i32.const 3145728)) (call $random (i32.const 0) (i32.const 512))")
    }),
    endless("a table that grows by nothing", || {
        computes("(table $t 9 funcref)", "(drop (table.grow $t (ref.null func) (i32.const 0)))")
    }),
    endless("a memory that grows by nothing", || computes("", "(drop (memory.grow (i32.const 0)))")),
    endless("a memory that is filled with nothing", || {
        computes("", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))")
    }),
];

/// A guest that exposes a MiB, filled in this way, this many times.
fn exposes(filled: &str, count: u32) -> Vec<u8> {
    steps(|guest| {
        let query = guest.text("q");
        let commands = times(count, &expose(THIS, query, (2_097_152, 1 << 20)));
        format!("{filled} {commands} {}", after(READY, count))
    })
}

/// A list of ones.
const NUMBERS: &str = "(local.set $i (i32.const 2097152))
    (loop $l (i32.store (local.get $i) (i32.const 0x2c312c31)) (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 3145728))))
    (i32.store8 (i32.const 2097152) (i32.const 91)) (i32.store8 (i32.const 2097153) (i32.const 32))
    (i32.store8 (i32.const 3145727) (i32.const 93))";

pub(super) const CROWDS: &[Case] = &[
    case(
        "a child of a child of a child, all linked",
        || {
            steps(|guest| {
                let child = spawn(guest, COMMANDS, "run", false, None) + &byte(COMMANDS, 84, 1);
                asks_once(&child, 1)
            })
        },
        Fails("timed-out"),
    )
    .step(", timeout: 200ms, limits: { grace: 1ms }"),
    case(
        "more processes than there may be",
        || asks(|guest| (times(1_000, &spawn(guest, THIS, "run", true, None)), 1_000)),
        Succeeds,
    )
    .step(", limits: { processes: 500, fuel-per-step: 50M }"),
    case(
        "two that send to each other",
        || {
            steps(|guest| {
                let null = guest.text("null");
                let child = spawn(guest, COMMANDS, "run", false, None);
                let to_child = times(500, &send(guest, THIS, To::Child(1), "x", null));
                let to_parent = times(500, &send(guest, THIS, To::Pid(2), "x", null));
                format!(
                    "(global.set $heap (i32.const 3145728)) (call $whoami (i32.const 512))
                (if (result i32) (i64.eq (i64.load (i32.const 520)) (i64.const 2))
                    (then (if (result i32) (global.get $steps) (then {to_child} {}) (else {child} {})))
                    (else {to_parent} {}))",
                    after(READY, 500),
                    after(READY, 1),
                    after(READY, 500)
                )
            })
        },
        Fails("fuel-exhausted"),
    )
    .step(", limits: { fuel: 10M }"),
    case("numbers in lists", || exposes(NUMBERS, 3), Fails("fuel-exhausted")).step(", limits: { fuel: 10M }"),
    case("more lists than are taken over", || exposes(NUMBERS, 15), Fails("too-large"))
        .step(", limits: { output: 32MiB }"),
    case("all that kv has, again and again", || {
        steps(|guest| {
            let value = format!(r#"{{"op":"set","key":"a","value":"{}"}}"#, "x".repeat(200_000));
            let set = call(guest, COMMANDS, "kv", &value);
            let get = times(1_000, &call(guest, THIS, "kv", r#"{"op":"get","key":"a"}"#));
            let (sets, gets) = (after(READY, 1), after(READY, 1_000));
            format!("(global.set $heap (i32.const 3145728))
                (if (result i32) (global.get $steps) (then {get} {gets}) (else {set} {sets}))")
        })
    }, Fails("fuel-exhausted")).step(", allow: { kv: [ '*' ] }, limits: { fuel: 10M }"),
    case("thousands that receive one large failure", || {
        steps(|guest| {
            let (kind, title, detail) = (guest.text("x".repeat(200)), guest.text("y".repeat(900)), guest.text("z".repeat(4_000)));
            let child = spawn(guest, COMMANDS, "run", false, None);
            let monitors = times(5_000, &towards(guest, THIS, 6, To::Child(1)));
            format!(
                "(global.set $heap (i32.const 3145728)) (call $whoami (i32.const 512))
                (if (result i32) (i64.eq (i64.load (i32.const 520)) (i64.const 2))
                    (then (if (result i32) (global.get $steps) (then {monitors} {}) (else {child} {})))
                    (else {}))",
                after(READY, 5_000),
                after(READY, 1),
                failed(kind, title, Some(detail)),
            )
        })
    }, Fails("fuel-exhausted")).step(", limits: { fuel: 20M }"),
    case("messages to itself", || {
        steps(|guest| {
            let null = guest.text("null");
            let messages = times(5_000, &send(guest, THIS, To::PidOfX, "x", null));
            format!(
                "(global.set $heap (i32.const 3145728)) (call $whoami (i32.const 512)) (local.set $x (i64.load (i32.const 520)))
                {messages} {}",
                after(READY, 5_000)
            )
        })
    }, Fails("fuel-exhausted")).step(", limits: { fuel: 10M }"),
];
