//! The cases of guests whose first step returns something harmful.

use super::cases::{
    Case,
    End::{Fails, Succeeds},
    asks, case, fill, steps,
};
use super::wat::*;

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
