//! Harmful guests, one entry for each kind of harm. Each must end with its own clear problem, while
//! the host and the other processes go on. With the default limits, each stops at its own.
//!
//! What the host refuses by an answer (a spawn, a message) ends the guest with that problem.

use std::cell::Cell;
use std::hint::black_box;

use wfhost_guest::{
    Action, CallCommand, Command, Event, Host, Imports, Level, Outcome, Payload, Problem, Process, Send, SpawnCommand,
    Status, Tags, Target, unknown_entry,
};

type Step = fn(&mut Tags) -> Outcome;

/// The largest number of the contract.
const MICROS_MAX: u64 = (1 << 53) - 1;

struct Hostile {
    tags: Tags,
    step: Step,
    close: fn(),
}

/// The entries and their steps. Three misbehave elsewhere: `trap-init`, `trap-close`, `bad-init`.
const ENTRIES: &[(&str, Step)] = &[
    ("endless-loop", |_| endless_loop()),
    ("memory-bomb", |_| memory_bomb()),
    ("command-flood", command_flood),
    ("outstanding-flood", outstanding_flood),
    ("giant-payload", |_| Outcome::complete(Payload::Bytes(vec![7; 2 << 20]))),
    ("giant-output", |_| Outcome::complete(Payload::Bytes(vec![7; 32 << 20]))),
    ("giant-command", giant_command),
    ("deep-recursion", |_| deep_recursion()),
    ("stack-overflow", |_| stack_overflow()),
    ("trap-init", |_| Outcome::blocked(vec![])),
    ("trap-step", trap_step),
    ("trap-close", |_| Outcome::complete(Payload::null())),
    ("unreachable", unreachable),
    ("lying-tags", lying_tags),
    ("zero-tag", |_| Outcome::blocked(vec![Command { tag: 0, action: Action::Sleep(1) }])),
    ("huge-tag", |_| Outcome::blocked(vec![Command { tag: u64::MAX, action: Action::Sleep(1) }])),
    ("stranger", stranger),
    ("endless-spawns", |tags| spawns(tags, 1)),
    ("spawn-bomb", |tags| spawns(tags, 100)),
    ("log-flood", |_| log_flood()),
    ("giant-log", |_| giant_log()),
    ("message-flood", message_flood),
    ("deaf", |tags| Outcome::blocked(vec![tags.command(Action::Sleep(MICROS_MAX))])),
    ("blocked-on-nothing", |_| Outcome::blocked(vec![])),
    ("ready-forever", |_| Outcome::ready(vec![])),
    ("sleep-forever", |tags| Outcome::blocked(vec![tags.command(Action::Sleep(MICROS_MAX))])),
    ("bad-json", |_| Outcome::complete(Payload::Json("{\"never\": closed".to_owned()))),
    ("bad-args", bad_args),
    ("renew-forever", |_| Outcome::new(Status::Renew(renewal()), vec![])),
    ("random-flood", |_| random_flood()),
    ("giant-random", |_| Outcome::complete(Payload::Bytes(Imports.random(u32::MAX)))),
    ("slow-close", |_| Outcome::complete(Payload::null())),
];

impl Process for Hostile {
    fn init(entry: &str, _input: Payload) -> Result<Self, Problem> {
        let (_, step) = ENTRIES.iter().find(|(name, _)| *name == entry).ok_or_else(|| unknown_entry(entry))?;
        assert!(entry != "trap-init", "trap-init panics in its init");
        let close = match entry {
            "trap-close" => || panic!("trap-close panics in its close"),
            "slow-close" => || drop(endless_loop()),
            _ => || {},
        };
        Ok(Self { tags: Tags::starting_at(Imports.whoami().next_tag), step: *step, close })
    }

    fn step(&mut self, events: Vec<Event>) -> Outcome {
        let refused = events.into_iter().find_map(|event| match event {
            Event::Completed(completion) => completion.answer.err(),
            _ => None,
        });
        refused.map_or_else(|| (self.step)(&mut self.tags), Outcome::failed)
    }

    fn close(&mut self) {
        (self.close)();
    }
}

fn endless_loop() -> Outcome {
    let mut n = 0u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

/// Writes to every page, so that the memory is really used.
fn memory_bomb() -> Outcome {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1 << 20]));
    }
}

fn command_flood(tags: &mut Tags) -> Outcome {
    Outcome::blocked((0..20_000).map(|_| tags.command(Action::Sleep(1))).collect())
}

/// Gives a few commands in each step, none of which is ever answered.
fn outstanding_flood(tags: &mut Tags) -> Outcome {
    Outcome::ready((0..100).map(|_| tags.command(Action::Sleep(3_600_000_000))).collect())
}

fn giant_command(tags: &mut Tags) -> Outcome {
    let args = Payload::Json(format!("\"{}\"", "x".repeat(2 << 20)));
    let call = CallCommand { handler: "log".to_owned(), args, timeout: None, idempotency_key: None };
    Outcome::blocked(vec![tags.command(Action::Call(call))])
}

/// Used after the call, so that no compiler turns it into a loop.
fn recurse(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX {
        return 0;
    }
    1 + recurse(depth + 1)
}

/// Exhausts the call stack, which the engine holds.
fn deep_recursion() -> Outcome {
    Outcome::complete(Payload::Json(recurse(0).to_string()))
}

fn recurse_with_a_frame(depth: u64) -> u64 {
    let frame = black_box([depth; 2000]);
    if black_box(depth) == u64::MAX {
        return 0;
    }
    1 + recurse_with_a_frame(depth + 1) + black_box(&frame)[63]
}

/// Exhausts the stack of addressable variables, which is in its own memory and ends at address 0.
fn stack_overflow() -> Outcome {
    Outcome::complete(Payload::Json(recurse_with_a_frame(0).to_string()))
}

fn trap_step(_: &mut Tags) -> Outcome {
    panic!("trap-step panics in its step")
}

/// The instruction itself, without a panic's message.
fn unreachable(_: &mut Tags) -> Outcome {
    std::process::abort()
}

/// Two commands under one tag.
fn lying_tags(tags: &mut Tags) -> Outcome {
    let first = tags.command(Action::Sleep(1));
    let second = Command { tag: first.tag, action: Action::Sleep(2) };
    Outcome::blocked(vec![first, second])
}

/// Names children and commands that do not exist.
fn stranger(tags: &mut Tags) -> Outcome {
    let send = Send { to: Target::Child(999_999), topic: "x".to_owned(), body: Payload::null() };
    let commands = [
        Action::Cancel(999_999),
        Action::Send(send),
        Action::Stop(Target::Process(999_999)),
        Action::Monitor(Target::Child(999_999)),
        Action::Link(Target::Process(MICROS_MAX)),
        Action::Unlink(Target::Name("nobody".to_owned())),
    ];
    Outcome::complete(Payload::null()).with(commands.into_iter().map(|action| tags.command(action)).collect())
}

fn spawn_of(entry: &str) -> SpawnCommand {
    SpawnCommand {
        component: None,
        entry: entry.to_owned(),
        input: Payload::null(),
        name: None,
        link: false,
        detached: false,
        narrow: None,
    }
}

/// Each child does the same.
fn spawns(tags: &mut Tags, count: usize) -> Outcome {
    let entry = if count == 1 { "endless-spawns" } else { "spawn-bomb" };
    let spawn = spawn_of(entry);
    Outcome::blocked((0..count).map(|_| tags.command(Action::Spawn(spawn.clone()))).collect())
}

fn log_flood() -> Outcome {
    loop {
        Imports.log(Level::Info, "\u{1b}[31m flood \u{202e} \u{7}", Some("{\"n\": 1}"));
    }
}

fn giant_log() -> Outcome {
    Imports.log(Level::Error, &"x".repeat(16 << 20), Some("not an object"));
    Outcome::complete(Payload::null())
}

thread_local! {
    /// The child of `message-flood`, 0 before it is spawned.
    static CHILD: Cell<u64> = const { Cell::new(0) };
}

/// Fills the mailbox of a child that never reads it.
fn message_flood(tags: &mut Tags) -> Outcome {
    let mut commands = Vec::new();
    if CHILD.get() == 0 {
        let spawn = tags.command(Action::Spawn(spawn_of("deaf")));
        CHILD.set(spawn.tag);
        commands.push(spawn);
    }
    let to = Target::Child(CHILD.get());
    for _ in 0..5_000 {
        let send = Send { to: to.clone(), topic: "flood".to_owned(), body: Payload::null() };
        commands.push(tags.command(Action::Send(send)));
    }
    Outcome::ready(commands)
}

fn bad_args(tags: &mut Tags) -> Outcome {
    let args = Payload::Json("{\"never\": closed".to_owned());
    let call = CallCommand { handler: "log".to_owned(), args, timeout: None, idempotency_key: None };
    Outcome::blocked(vec![tags.command(Action::Call(call))])
}

fn renewal() -> wfhost_guest::Renewal {
    wfhost_guest::Renewal { entry: "renew-forever".to_owned(), input: Payload::null() }
}

fn random_flood() -> Outcome {
    loop {
        black_box(Imports.random(4096));
    }
}

wfhost_guest::export_process!(Hostile);
