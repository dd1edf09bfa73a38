//! Guests made in a few lines: a core module in WAT, with commands at the addresses that the
//! canonical ABI requires.
//!
//! A part of a command is given as (offset, value); texts are in a pool of their own. `at` is
//! always an i32 expression: the address of a command, so that a loop can write many.

use crate::wat_guest;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const HOST: &str = "wfhost:process/host@0.1.0";
const GUEST: &str = "wfhost:process/guest@0.1.0";

/// Where commands are written, where the outcome is, and where texts begin.
pub(super) const COMMANDS: &str = "(i32.const 1048576)";
const OUTCOME: &str = "(i32.const 1024)";
const TEXTS: u32 = 4_096;

/// The host functions that a guest may call.
const IMPORTS: [(&str, &str); 4] = [
    ("log", "(param i32 i32 i32 i32 i32 i32)"),
    ("random", "(param i32 i32)"),
    ("now", "(result i64)"),
    ("whoami", "(param i32)"),
];

/// The usual allocator: a pointer that only rises, with memory that grows.
pub(super) const REALLOC: &str = "(local $p i32)
    (local.set $p (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $p) (local.get 3)))
    (block $enough
        (br_if $enough (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
        (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get 3) (i32.const 16))))))
    (local.get $p)";

/// A guest under construction. It completes with `null` in its first step by default.
pub(super) struct Guest {
    pages: u32,
    init: String,
    realloc: String,
    step: String,
    post: String,
    close: String,
    rest: String,
    texts: BTreeMap<Vec<u8>, (u32, u32)>,
    texts_end: u32,
}

impl Guest {
    pub(super) fn new() -> Self {
        Self {
            pages: 64,
            init: "(i32.const 512)".into(),
            realloc: REALLOC.into(),
            step: String::new(),
            post: "(global.set $heap (i32.const 3145728))".into(),
            close: String::new(),
            rest: String::new(),
            texts: BTreeMap::new(),
            texts_end: TEXTS,
        }
    }

    /// Pages of memory at the start.
    pub(super) fn pages(mut self, pages: u32) -> Self {
        self.pages = pages;
        self
    }

    /// What else the module has: globals, tables, functions, a start function.
    pub(super) fn with(mut self, rest: &str) -> Self {
        self.rest.push_str(rest);
        self
    }

    pub(super) fn init(mut self, body: &str) -> Self {
        self.init = body.into();
        self
    }

    /// The body of `cabi_realloc`.
    pub(super) fn realloc(mut self, body: &str) -> Self {
        self.realloc = body.into();
        self
    }

    pub(super) fn post(mut self, body: &str) -> Self {
        self.post = body.into();
        self
    }

    pub(super) fn close(mut self, body: &str) -> Self {
        self.close = body.into();
        self
    }

    /// The body of the step, which leaves the address of an outcome. Locals are `$i`, `$j`, `$k`
    /// and `$x` (i64); the global `$steps` is the step's number, from 0, and `$tag` (i64) is a tag
    /// that no command has had.
    pub(super) fn step(mut self, body: impl Into<String>) -> Self {
        self.step = body.into();
        self
    }

    /// A step that does this for ever.
    pub(super) fn forever(self, body: &str) -> Self {
        let step = format!("(loop $again {body} (br $again)) (unreachable)");
        self.step(step)
    }

    /// A text's address in memory, and its length.
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) -> (u32, u32) {
        let text = text.as_ref();
        let end = &mut self.texts_end;
        *self.texts.entry(text.to_vec()).or_insert_with(|| {
            let at = *end;
            *end += (text.len() as u32).next_multiple_of(8);
            (at, text.len() as u32)
        })
    }

    /// The module in text.
    pub(super) fn module(&self) -> String {
        let mut imports = String::new();
        for (name, ty) in IMPORTS {
            let call = format!("(call ${name}");
            let is_used = [&self.init, &self.realloc, &self.step, &self.post, &self.close, &self.rest]
                .iter()
                .any(|part| part.contains(&call));
            if is_used {
                writeln!(imports, "(import \"{HOST}\" \"{name}\" (func ${name} {ty}))").unwrap();
            }
        }
        let mut data = String::new();
        for (text, (at, _)) in &self.texts {
            let escaped = text.iter().fold(String::new(), |escaped, byte| escaped + &format!("\\{byte:02x}"));
            writeln!(data, "(data (i32.const {at}) \"{escaped}\")").unwrap();
        }
        let Self { pages, init, realloc, step, post, close, rest, .. } = self;
        let step = if step.is_empty() { "(call $complete)" } else { step };
        format!(
            r#"(module {imports}
            (memory $m (export "memory") {pages})
            (global $heap (mut i32) (i32.const 3145728))
            (global $steps (mut i32) (i32.const -1))
            (global $tag (mut i64) (i64.const 0))
            (data (i32.const 128) "null") {data}
            (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
            (func $complete (result i32)
                (i64.store (i32.const 1104) (i64.const 0))
                (i32.store8 {OUTCOME} (i32.const 3))
                (i32.store8 (i32.const 1032) (i32.const 0))
                (i64.store (i32.const 1040) (i64.const 0x400000080))
                {OUTCOME})
            (func (export "{GUEST}#init") (param i32 i32 i32 i32 i32 i64 i32 i32) (result i32) {init})
            (func (export "{GUEST}#step") (param $events i32) (param $events_count i32) (result i32)
                (local $i i32) (local $j i32) (local $k i32) (local $x i64) (local $v v128)
                (global.set $steps (i32.add (global.get $steps) (i32.const 1)))
                {step})
            (func (export "cabi_post_{GUEST}#step") (param i32) {post})
            (func (export "{GUEST}#close") {close})
            {rest})"#
        )
    }

    /// The component.
    pub(super) fn build(&self) -> Vec<u8> {
        wat_guest::component("process", &self.module())
    }
}

/// The value of this for each number below `count`, one after the other.
pub(super) fn repeated(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().concat()
}

/// Repeats `body`, with the number in `$i`.
pub(super) fn times(count: u32, body: &str) -> String {
    format!(
        "(local.set $i (i32.const 0)) (loop $next {body} (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $i) (i32.const {count}))))"
    )
}

/// The address of the command of number `$i`.
pub(super) const THIS: &str = "(i32.add (i32.const 1048576) (i32.mul (local.get $i) (i32.const 104)))";

fn store(kind: &str, at: &str, offset: u32, value: &str) -> String {
    format!("({kind} (i32.add {at} (i32.const {offset})) {value})")
}

pub(super) fn byte(at: &str, offset: u32, value: u32) -> String {
    store("i32.store8", at, offset, &format!("(i32.const {value})"))
}

pub(super) fn number(at: &str, offset: u32, value: u64) -> String {
    store("i64.store", at, offset, &format!("(i64.const {value})"))
}

pub(super) fn list(at: &str, offset: u32, (address, length): (u32, u32)) -> String {
    number(at, offset, u64::from(length) << 32 | u64::from(address))
}

/// A payload of JSON.
pub(super) fn json(at: &str, offset: u32, text: (u32, u32)) -> String {
    byte(at, offset, 0) + &list(at, offset + 8, text)
}

/// A command with the next tag.
pub(super) fn command(at: &str, action: u32) -> String {
    "(global.set $tag (i64.add (global.get $tag) (i64.const 1)))".to_owned()
        + &store("i64.store", at, 0, "(global.get $tag)")
        + &byte(at, 8, action)
}

pub(super) fn sleep(at: &str, micros: u64) -> String {
    command(at, 0) + &number(at, 16, micros)
}

/// Spawns this component.
pub(super) fn spawn(guest: &mut Guest, at: &str, entry: &str, detached: bool, narrow: Option<&str>) -> String {
    let (entry, null) = (guest.text(entry), guest.text("null"));
    let narrow = match narrow {
        None => byte(at, 88, 0),
        Some(text) => byte(at, 88, 1) + &list(at, 92, guest.text(text)),
    };
    command(at, 1)
        + &byte(at, 16, 0)
        + &list(at, 28, entry)
        + &json(at, 40, null)
        + &byte(at, 72, 0)
        + &byte(at, 84, 0)
        + &byte(at, 85, u32::from(detached))
        + &narrow
}

pub(super) fn call(guest: &mut Guest, at: &str, handler: &str, args: &str) -> String {
    let (handler, args) = (guest.text(handler), guest.text(args));
    command(at, 2) + &list(at, 16, handler) + &json(at, 24, args) + &byte(at, 56, 0) + &byte(at, 72, 0)
}

/// Where a command goes.
#[derive(Clone, Copy)]
pub(super) enum To<'a> {
    Pid(u64),
    /// The pid that the local `$x` holds.
    PidOfX,
    /// The child that the spawn of this tag made.
    Child(u64),
    Name(&'a str),
}

fn target(guest: &mut Guest, at: &str, to: To<'_>) -> String {
    match to {
        To::Pid(pid) => byte(at, 16, 0) + &number(at, 24, pid),
        To::PidOfX => byte(at, 16, 0) + &store("i64.store", at, 24, "(local.get $x)"),
        To::Child(tag) => byte(at, 16, 1) + &number(at, 24, tag),
        To::Name(name) => byte(at, 16, 2) + &list(at, 24, guest.text(name)),
    }
}

pub(super) fn send(guest: &mut Guest, at: &str, to: To<'_>, topic: &str, body: (u32, u32)) -> String {
    let target = target(guest, at, to);
    let topic = guest.text(topic);
    command(at, 3) + &target + &list(at, 40, topic) + &json(at, 48, body)
}

/// `stop` (5), `monitor` (6), `link` (7), `unlink` (8).
pub(super) fn towards(guest: &mut Guest, at: &str, action: u32, to: To<'_>) -> String {
    let target = target(guest, at, to);
    command(at, action) + &target
}

pub(super) fn register(guest: &mut Guest, at: &str, name: impl AsRef<[u8]>) -> String {
    command(at, 9) + &list(at, 16, guest.text(name))
}

pub(super) fn expose(at: &str, query: (u32, u32), value: (u32, u32)) -> String {
    command(at, 10) + &list(at, 16, query) + &json(at, 24, value)
}

/// Ends a step after this many commands (an i32 expression).
pub(super) fn outcome(status: u32, commands: &str) -> String {
    byte(OUTCOME, 0, status)
        + &store("i32.store", OUTCOME, 80, COMMANDS)
        + &store("i32.store", OUTCOME, 84, commands)
        + OUTCOME
}

pub(super) const READY: u32 = 0;
pub(super) const BLOCKED: u32 = 1;

/// The same, with this many commands.
pub(super) fn after(status: u32, commands: u32) -> String {
    outcome(status, &format!("(i32.const {commands})"))
}

/// Completes with a text of JSON at this place.
pub(super) fn completed(text: (u32, u32)) -> String {
    json(OUTCOME, 8, text) + &after(3, 0)
}

/// Fails with a problem of these texts.
pub(super) fn failed(kind: (u32, u32), title: (u32, u32), detail: Option<(u32, u32)>) -> String {
    let detail = match detail {
        None => byte(OUTCOME, 28, 0),
        Some(text) => byte(OUTCOME, 28, 1) + &list(OUTCOME, 32, text),
    };
    list(OUTCOME, 8, kind)
        + &list(OUTCOME, 16, title)
        + &byte(OUTCOME, 24, 0)
        + &detail
        + &byte(OUTCOME, 40, 0)
        + &byte(OUTCOME, 48, 0)
        + &byte(OUTCOME, 64, 0)
        + &after(4, 0)
}

/// Commands and an endless wait.
pub(super) fn asks_once(commands: &str, count: u32) -> String {
    let blocked = after(BLOCKED, 0);
    let asked = after(BLOCKED, count);
    format!("(if (result i32) (global.get $steps) (then {blocked}) (else {commands} {asked}))")
}
