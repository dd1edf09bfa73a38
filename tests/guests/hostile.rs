//! Each harmful guest ends with a problem of its own, while its neighbours in the same host go on.
//!
//! Nothing here asks a clock: the neighbour's steps show that it goes on.

use crate::neighbour::Neighbour;
use crate::support::{begin, cause, host, outputs, run, wait_until};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use wfhost::host::{Host, Outcome, RunHandle, Status};
use wfhost::run::Doing;

/// The result of a hostile guest.
enum End {
    /// Its step fails with a problem of this kind.
    Kind(&'static str),
    /// It does what it is permitted: the run succeeds.
    Well,
    /// It waits for ever, and is cancelled.
    Cancelled,
}

use End::{Cancelled, Kind, Well};

/// Every entry, with limits on what the defaults do not bound, or bound only after long.
const CASES: &[(&str, &str, End)] = &[
    ("endless-loop", "fuel-per-step: 50M", Kind("fuel-exhausted")),
    ("memory-bomb", "memory: 32MiB", Kind("memory-exhausted")),
    ("command-flood", "", Kind("too-many-commands")),
    ("outstanding-flood", "", Kind("too-many-outstanding")),
    ("giant-payload", "", Kind("too-large")),
    ("giant-output", "", Kind("too-large")),
    ("giant-command", "", Kind("too-large")),
    ("deep-recursion", "", Kind("stack-exhausted")),
    ("stack-overflow", "", Kind("trap")),
    ("trap-init", "", Kind("trap")),
    ("trap-step", "", Kind("trap")),
    ("trap-close", "", Well),
    ("unreachable", "", Kind("trap")),
    ("lying-tags", "", Kind("bad-tag")),
    ("zero-tag", "", Kind("bad-tag")),
    ("huge-tag", "", Kind("bad-number")),
    ("stranger", "", Well),
    ("endless-spawns", "", Kind("too-deep")),
    ("spawn-bomb", "processes: 300", Kind("too-many-processes")),
    ("log-flood", "fuel-per-step: 50M", Kind("fuel-exhausted")),
    ("giant-log", "", Kind("too-large")),
    ("message-flood", "", Kind("mailbox-full")),
    ("deaf", "grace: 1ms", Cancelled),
    ("blocked-on-nothing", "", Kind("blocked-on-nothing")),
    ("ready-forever", "fuel: 1M", Kind("fuel-exhausted")),
    ("sleep-forever", "grace: 1ms", Cancelled),
    ("bad-json", "", Kind("bad-json")),
    ("bad-args", "", Kind("bad-json")),
    ("renew-forever", "fuel: 1M", Kind("fuel-exhausted")),
    ("random-flood", "fuel-per-step: 50M", Kind("fuel-exhausted")),
    // It gets the 4,096 bytes that one call returns at most.
    ("giant-random", "", Well),
    ("slow-close", "", Well),
];

fn start(host: &Host, entry: &str, limits: &str) -> RunHandle {
    begin(host, &format!("steps: [{{ id: x, uses: ./hostile.wasm, entry: {entry}, limits: {{ {limits} }} }}]"))
}

/// Waits until the run's guest has taken a step and waits for something.
fn wait_until_blocked(run: &RunHandle) {
    wait_until(|| run.processes().iter().any(|process| process.pid.0 > 1 && process.doing == Doing::Blocked));
}

fn hello(host: &Host) {
    let text =
        "{ steps: [{ id: x, uses: ./hello.wasm, with: { name: Ann } }], outputs: { x: \"${ .steps.x.output }\" } }";
    assert_eq!(outputs(&run(host, text))["x"]["greeting"], "Hello, Ann!");
}

fn meet(host: &Host, entry: &str, limits: &str, end: &End) {
    let run = start(host, entry, limits);
    let outcome = match end {
        Cancelled => {
            wait_until_blocked(&run);
            run.cancel("enough", Some(Duration::from_millis(1))).unwrap();
            run.wait()
        }
        Kind(_) | Well => run.wait(),
    };
    check(entry, &outcome, end);
}

fn check(entry: &str, outcome: &Outcome, end: &End) {
    match end {
        Kind(kind) => {
            let cause = cause(outcome);
            assert_eq!(cause["kind"], *kind, "{entry}: {cause}");
        }
        Well => assert_eq!(outcome.status, Status::Succeeded, "{entry}: {:?}", outcome.result),
        Cancelled => assert_eq!(outcome.status, Status::Cancelled, "{entry}: {:?}", outcome.result),
    }
}

#[test]
fn a_panic_is_reported_by_its_message_and_a_bare_trap_by_its_place() {
    let host = host(1, 8);
    let detail = |entry: &str| {
        let text = format!("steps: [{{ id: x, uses: ./hostile.wasm, entry: {entry} }}]");
        cause(&run(&host, &text))["detail"].as_str().unwrap().to_owned()
    };
    let panics = detail("trap-step");
    assert!(panics.contains("trap-step panics in its step (wasm trap: "), "{panics}");
    let traps = detail("unreachable");
    assert!(traps.starts_with("wasm trap: "), "{traps}");
}

/// One field of `/proc/self/status`, in bytes; `None` if there is no such file.
fn memory(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// The most by which hostile guests may make the process grow. Coarse: without limits each of the
/// bombs would take all memory.
const GROWTH_MAX: u64 = 512 << 20;

/// Guests that live at the same time.
const SLOTS: u32 = 32;
/// The number that live outside those slots while all others compute: what an engine has for them,
/// divided by what a guest may take at most.
const OUTSIDE: u32 = 64;

fn every_hostile_guest_meets_its_end(workers: usize) {
    let host = host(workers, SLOTS);
    let neighbour = Neighbour::move_in(&host);
    for (entry, limits, end) in CASES {
        let (steps, preemptions) = (neighbour.steps(), host.stats().preemptions);
        meet(&host, entry, limits, end);
        let preempted = host.stats().preemptions - preemptions;
        // A guest that uses up slices on the only worker gives the neighbour, which is always
        // ready, its turn between them.
        if workers == 1 && preempted > 2 {
            // As many of the spawning guests take their turns as there are slots, and room outside
            // of them.
            let hogs = if entry.contains("spawn") { SLOTS + OUTSIDE } else { 1 };
            let meanwhile = neighbour.steps() - steps;
            assert!(
                meanwhile * u64::from(hogs) >= preempted,
                "{entry}: {meanwhile} steps of the neighbour in {preempted} slices"
            );
        }
        neighbour.waits_for_steps(10);
    }
    neighbour.move_out();
    hello(&host);
}

#[test]
fn every_hostile_guest_meets_its_end_beside_a_neighbour_on_one_worker() {
    every_hostile_guest_meets_its_end(1);
}

/// In a process of its own, whose memory nothing else uses: it stays small.
#[test]
fn every_hostile_guest_meets_its_end_beside_a_neighbour_on_two_workers() {
    const ALONE: &str = "WFHOST_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "hostile::every_hostile_guest_meets_its_end_beside_a_neighbour_on_two_workers";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && printed.contains("1 passed"),
            "{printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    // Compiled before memory is looked at.
    hello(&host(1, 8));
    let before = memory("VmRSS:");
    every_hostile_guest_meets_its_end(2);
    if let (Some(before), Some(peak)) = (before, memory("VmHWM:")) {
        println!("from {before} to {peak} bytes");
        assert!(peak.saturating_sub(before) < GROWTH_MAX, "the process grew from {before} to {peak} bytes");
    }
}

/// The list above is complete.
#[test]
fn every_entry_is_met() {
    let source = include_str!("../../guests/examples/hostile/src/lib.rs");
    let entries: BTreeSet<&str> =
        source.lines().filter_map(|line| line.strip_prefix("    (\"")?.split_once('"')).map(|(name, _)| name).collect();
    let cases: BTreeSet<&str> = CASES.iter().map(|(entry, ..)| *entry).collect();
    assert_eq!(entries, cases);
}

/// More hogs than workers, none of which ever yields a worker: the neighbour still goes on, and a
/// hog that is cancelled ends.
fn hogs_do_not_hold_the_workers(workers: usize) {
    let host = host(workers, 16);
    let neighbour = Neighbour::move_in(&host);
    let entries = ["endless-loop", "random-flood", "log-flood"];
    let hogs: Vec<RunHandle> =
        entries[..=workers].iter().map(|entry| start(&host, entry, "fuel-per-step: 1000000G, grace: 1ms")).collect();
    let before = host.stats().preemptions;
    wait_until(|| host.stats().preemptions >= before + 20);
    neighbour.waits_for_steps(200);
    for hog in hogs {
        assert!(hog.outcome().is_none(), "{:?}", hog.outcome());
        hog.cancel("enough", None).unwrap();
        assert_eq!(hog.wait().status, Status::Cancelled);
        neighbour.waits_for_steps(10);
    }
    neighbour.move_out();
    hello(&host);
}

#[test]
fn hogs_do_not_hold_the_only_worker() {
    hogs_do_not_hold_the_workers(1);
}

#[test]
fn hogs_do_not_hold_two_workers() {
    hogs_do_not_hold_the_workers(2);
}

/// Those that would go on for ever without using anything up are bounded by a timeout of the
/// workflow, or end when they are killed.
#[test]
fn what_never_ends_by_itself_is_stopped() {
    let host = host(1, 16);
    let neighbour = Neighbour::move_in(&host);
    let stopped = run(
        &host,
        "steps: [{ id: x, uses: ./hostile.wasm, entry: sleep-forever, timeout: 10ms, limits: { grace: 1ms } }]",
    );
    assert_eq!(cause(&stopped)["kind"], "timed-out");
    for entry in ["ready-forever", "renew-forever", "outstanding-flood", "message-flood"] {
        let run = start(&host, entry, "outstanding: 100000000, mailbox: 100000000");
        wait_until(|| run.outcome().is_some() || run.inner().counts().steps > 10);
        run.kill("enough");
        let outcome = run.wait();
        assert_eq!(outcome.status, Status::Cancelled, "{entry}: {:?}", outcome.result);
        neighbour.waits_for_steps(10);
    }
    neighbour.move_out();
    hello(&host);
}
