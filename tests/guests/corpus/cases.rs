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

const fn case(name: &'static str, guest: fn() -> Vec<u8>, end: End) -> Case {
    Case { name, guest, step: ", limits: { fuel-per-step: 50M }", end, growth_max: GROWTH_MAX }
}

/// One that goes on until its fuel is used up.
const fn endless(name: &'static str, guest: fn() -> Vec<u8>) -> Case {
    case(name, guest, Fails("fuel-exhausted")).step(", limits: { fuel-per-step: 20M }")
}

impl Case {
    const fn step(self, step: &'static str) -> Self {
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

fn steps(body: impl FnOnce(&mut Guest) -> String) -> Vec<u8> {
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
fn fill(character: char, count: u32) -> String {
    format!("(memory.fill (i32.const 2097152) (i32.const {}) (i32.const {count}))", character as u32)
}

/// Asks for this in the first step, and completes in the second.
fn asks(commands: impl FnOnce(&mut Guest) -> (String, u32)) -> Vec<u8> {
    steps(|guest| {
        let (commands, count) = commands(guest);
        let asked = after(READY, count);
        format!("(if (result i32) (global.get $steps) (then (call $complete)) (else {commands} {asked}))")
    })
}

pub(super) const RETURNING: &[Case] = &[
    case("a list of 2^31 commands", || steps(|_| outcome(READY, "(i32.const 0x7fffffff)")), Fails("trap")),
    case("a list of 2^32 - 1 commands", || steps(|_| outcome(READY, "(i32.const -1)")), Fails("trap")),
    case(
        "620,000 commands",
        || Guest::new().pages(1_008).step(outcome(READY, "(i32.const 620000)")).build(),
        Fails("too-large"),
    ),
    case("an outcome that is not there", || steps(|_| "(i32.const -8)".into()), Fails("trap")),
    case("an outcome of no known status", || steps(|_| after(77, 0)), Fails("trap")),
    case(
        "10,001 commands",
        || steps(|_| times(10_001, &sleep(THIS, 1)) + &after(READY, 10_001)),
        Fails("too-many-commands"),
    ),
    case("text that is not UTF-8", || steps(|guest| completed(guest.text(b"\"\xff\""))), Fails("trap")),
    case("text of half a character", || steps(|guest| completed(guest.text("\"\\ud800\""))), Fails("bad-json")),
    case("text that is no JSON", || steps(|guest| completed(guest.text("{"))), Fails("bad-json")),
    case("a number with a thousand digits", || steps(|guest| completed(guest.text("7".repeat(1_000)))), Succeeds),
    case(
        "lists 129 deep",
        || steps(|guest| completed(guest.text("[".repeat(129) + &"]".repeat(129)))),
        Fails("json-too-deep"),
    ),
    case(
        "lists 500,000 deep",
        || steps(|_| fill('[', 500_000) + &completed((2_097_152, 500_000))),
        Fails("json-too-deep"),
    ),
    case(
        "a MiB of white space",
        || {
            steps(|_| {
                fill(' ', 1 << 20)
                    + "(i32.store8 (i32.const 3145727) (i32.const 48))"
                    + &completed((2_097_152, 1 << 20))
            })
        },
        Succeeds,
    ),
    case(
        "a MiB of white space and a byte",
        || {
            steps(|_| {
                fill(' ', (1 << 20) + 1)
                    + "(i32.store8 (i32.const 3145728) (i32.const 48))"
                    + &completed((2_097_152, (1 << 20) + 1))
            })
        },
        Fails("too-large"),
    ),
    case(
        "tags that go down",
        || {
            steps(|_| {
                sleep(COMMANDS, 1) + &number(COMMANDS, 0, 9) + &sleep("(i32.const 1048680)", 1) + &after(READY, 2)
            })
        },
        Fails("bad-tag"),
    ),
    case(
        "a tag of 2^53",
        || steps(|_| sleep(COMMANDS, 1) + &number(COMMANDS, 0, 1 << 53) + &after(READY, 1)),
        Fails("bad-number"),
    ),
    case("a sleep of 2^64 - 1", || steps(|_| sleep(COMMANDS, u64::MAX) + &after(READY, 1)), Fails("bad-number")),
    case("a sleep of 2^53 - 1", || steps(|_| asks_once(&sleep(COMMANDS, (1 << 53) - 1), 1)), Fails("timed-out"))
        .step(", timeout: 20ms, limits: { grace: 1ms }"),
    case(
        "a name of 1 MiB",
        || {
            steps(|_| {
                fill('a', 1 << 20)
                    + &command(COMMANDS, 9)
                    + &list(COMMANDS, 16, (2_097_152, 1 << 20))
                    + &after(READY, 1)
            })
        },
        Fails("too-large"),
    ),
    case(
        "a child with more than its parent",
        || asks(|guest| (spawn(guest, COMMANDS, "run", false, Some("{\"limits\":{\"memory\":\"1GiB\"}}")), 1)),
        Succeeds,
    ),
    case("a call of an unknown handler", || asks(|guest| (call(guest, COMMANDS, "no-such", "null"), 1)), Succeeds),
    case(
        "a call that is not granted",
        || asks(|guest| (call(guest, COMMANDS, "http", "{\"url\":\"http://127.0.0.1/\"}"), 1)),
        Succeeds,
    ),
    case(
        "a handler's name of a MiB",
        || {
            steps(|guest| {
                fill('a', 1 << 20)
                    + &call(guest, COMMANDS, "x", "null")
                    + &list(COMMANDS, 16, (2_097_152, 1 << 20))
                    + &after(READY, 1)
            })
        },
        Fails("too-large"),
    ),
    case(
        "10,000 monitors",
        || asks(|guest| (times(9_999, &towards(guest, THIS, 6, To::Pid(1))), 9_999)),
        Fails("too-many-links"),
    )
    .step(", limits: { links: 1000, fuel-per-step: 50M }"),
    case(
        "links to an unknown pid",
        || asks(|guest| (times(5_000, &towards(guest, THIS, 7, To::Pid(777))), 5_000)),
        Succeeds,
    ),
    case(
        "stops of an unknown pid",
        || {
            asks(|guest| {
                let stop = towards(guest, THIS, 5, To::PidOfX);
                (
                    times(
                        5_000,
                        &format!("(local.set $x (i64.add (i64.const 1000) (i64.extend_i32_u (local.get $i)))) {stop}"),
                    ),
                    5_000,
                )
            })
        },
        Succeeds,
    ),
    case(
        "a message in the host's name",
        || {
            asks(|guest| {
                let null = guest.text("null");
                (send(guest, COMMANDS, To::Pid(1), "wfhost.signal", null), 1)
            })
        },
        Succeeds,
    ),
    case(
        "a message to an unregistered name",
        || {
            asks(|guest| {
                let null = guest.text("null");
                (send(guest, COMMANDS, To::Name("nobody"), "x", null), 1)
            })
        },
        Succeeds,
    ),
    case(
        "cancels of what is not there",
        || asks(|_| (times(5_000, &(command(THIS, 4) + &number(THIS, 16, 999_999))), 5_000)),
        Succeeds,
    ),
    case(
        "a name that is taken twice",
        || {
            asks(|guest| {
                let mut commands = register(guest, COMMANDS, "n");
                commands += &register(guest, "(i32.const 1048680)", "n");
                (commands, 2)
            })
        },
        Succeeds,
    ),
    case(
        "sleeps that are cancelled at once",
        || {
            asks(|_| {
                let cancel = command(THIS, 4)
                    + "(i64.store (i32.add (i32.add (i32.const 1048576) (i32.mul (local.get $i) (i32.const 104))) (i32.const 16)) (i64.sub (global.get $tag) (i64.const 4000)))";
                let sleeps = times(4_000, &sleep(THIS, 1_000_000_000));
                let from = format!(
                    "(local.set $i (i32.const 4000)) (loop $next {cancel} (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $next (i32.lt_u (local.get $i) (i32.const 8000))))"
                );
                (sleeps + &from, 8_000)
            })
        },
        Succeeds,
    ),
    case(
        "10,000 queries",
        || {
            asks(|guest| {
                // Each has a name of its own: its number, in eight letters.
                let (name, null) = ((262_144, 8), guest.text("null"));
                let names = "(local.set $j (i32.add (i32.const 262144) (i32.mul (local.get $i) (i32.const 8))))
                (i32.store (local.get $j) (i32.const 0x61616161))
                (i32.store8 (local.get $j) (i32.add (i32.const 97) (i32.and (local.get $i) (i32.const 15))))
                (i32.store8 offset=1 (local.get $j) (i32.add (i32.const 97) (i32.and (i32.shr_u (local.get $i) (i32.const 4)) (i32.const 15))))
                (i32.store8 offset=2 (local.get $j) (i32.add (i32.const 97) (i32.and (i32.shr_u (local.get $i) (i32.const 8)) (i32.const 15))))
                (i32.store8 offset=3 (local.get $j) (i32.add (i32.const 97) (i32.shr_u (local.get $i) (i32.const 12))))";
                let own = "(i32.store (i32.add (i32.add (i32.const 1048576) (i32.mul (local.get $i) (i32.const 104))) (i32.const 16)) (local.get $j))
                (i32.store (i32.add (i32.add (i32.const 1048576) (i32.mul (local.get $i) (i32.const 104))) (i32.const 20)) (i32.const 4))";
                (times(9_999, &(names.to_owned() + &expose(THIS, name, null) + own)), 9_999)
            })
        },
        Fails("too-large"),
    ),
    case(
        "a problem in the host's name",
        || {
            steps(|guest| {
                let (kind, title) = (guest.text("host-fault"), guest.text("It is not mine"));
                failed(kind, title, None)
            })
        },
        Fails("host-fault"),
    )
    .step(", retry: { max: 3, backoff: 1ms..2ms }"),
    case(
        "a problem of control characters",
        || {
            steps(|guest| {
                let (kind, title) = (guest.text("x"), guest.text("\u{1b}[2J\u{7}\u{202e}\nsucceeded"));
                failed(kind, title, Some(title))
            })
        },
        Fails("x"),
    ),
];

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
