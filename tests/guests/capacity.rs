//! Guests that cannot be evicted, and more of them than there are slots.

use crate::support::{begin, cause, options, outputs, parse, run, start, wait_until};
use crate::wat_guest;
use std::path::PathBuf;
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, RunHandle, Status};
use wfhost::run::Doing;

/// A host whose guests all stay in their slots, because there are no snapshots. Outside the pool
/// there is room for this many of the guests that [`FIB`] makes.
fn host(workers: usize, slots: u32, room: u64) -> Host {
    let on_demand_bytes = room * GUEST_BYTES;
    let guests = EngineOptions { snapshots: false, on_demand_bytes, ..options(slots) };
    Host::builder().workers(workers).guests(guests).build().unwrap()
}

/// What a guest of [`LIMITS`] counts: its memory, its table, and 4 MiB in addition.
const GUEST_BYTES: u64 = (2 << 20) + 8 * 1_000 + (4 << 20);
const LIMITS: &str = "limits: { memory: 2MiB, table-elements: 1000 }";

/// A run ends shortly before its last process has given back what it took.
fn wait_until_given_back(host: &Host) {
    wait_until(|| host.guests().on_demand_memory().used() == 0);
}

fn fib(n: u32) -> String {
    format!(
        "{{ steps: [{{ id: fib, uses: ./fib.wasm, {LIMITS}, with: {{ n: {n} }} }}],
            outputs: {{ fib: \"${{ .steps.fib.output }}\" }} }}"
    )
}

/// A guest that waits for a message that never comes.
fn idle(host: &Host) -> RunHandle {
    let run = begin(host, &format!("steps: [{{ id: x, uses: ./family.wasm, entry: idle, {LIMITS} }}]"));
    wait_until(|| run.processes().iter().any(|process| process.pid.0 > 1 && process.doing == Doing::Idle));
    run
}

#[test]
fn parents_that_stay_fill_the_pool_and_their_children_live_outside() {
    let host = host(2, 8, 400);
    assert_eq!(outputs(&run(&host, &fib(10)))["fib"], 55);
    let stats = host.stats();
    assert!(stats.admitted_outside > 0, "{stats:?}");
    assert_eq!((stats.evictions, stats.admissions_refused), (0, 0));
    wait_until_given_back(&host);
}

#[test]
fn without_room_outside_a_spawn_is_answered_no_capacity() {
    for room in [0, 4] {
        let host = host(2, 8, room);
        let outcome = run(&host, &fib(10));
        let cause = cause(&outcome);
        assert_eq!(cause["kind"], "no-capacity", "{cause}");
        assert_eq!(cause["class"], "retryable");
        let detail = cause["detail"].as_str().unwrap();
        assert!(detail.contains("EngineOptions::on_demand_bytes") && detail.contains("--slots"), "{detail}");
        assert!(host.stats().admissions_refused > 0);
        wait_until_given_back(&host);
        // What was full is free again.
        assert_eq!(outputs(&run(&host, &fib(3)))["fib"], 2);
    }
}

#[test]
fn the_first_process_of_a_step_fails_with_no_capacity_too() {
    let host = host(1, 1, 0);
    let idle = idle(&host);
    let outcome = run(&host, &fib(1));
    assert_eq!(cause(&outcome)["kind"], "no-capacity");
    idle.kill("the test has ended");
    assert_eq!(idle.wait().status, Status::Cancelled);
    assert_eq!(outputs(&run(&host, &fib(1)))["fib"], 1);
}

/// A guest that spawns itself until the brackets of its input are used up, and passes on what it
/// receives. It changes a table in each step, and so cannot be evicted.
fn chain() -> PathBuf {
    let core = r#"(module
        (memory (export "memory") 2)
        (table 1 funcref) (elem declare func $changed)
        (func $changed)
        (data (i32.const 128) "run")
        (global $heap (mut i32) (i32.const 65536))
        (global $text (mut i32) (i32.const 0))
        (global $length (mut i32) (i32.const 0))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
            (global.get $heap)
            (global.set $heap (i32.add (global.get $heap) (local.get 3))))
        (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32 i32 i32 i32 i64 i32 i32) (result i32)
            (global.set $text (local.get 3))
            (global.set $length (local.get 4))
            (i32.const 512))
        (func (export "wfhost:process/guest@0.1.0#step") (param $events i32) (param $count i32) (result i32)
            (table.set (i32.const 0) (ref.func $changed))
            (memory.fill (i32.const 1024) (i32.const 0) (i32.const 256))
            (if (local.get $count) (then
                ;; The child's answer: its output, or its problem.
                (i32.store8 (i32.const 1024) (i32.add (i32.const 3) (i32.load8_u offset=16 (local.get $events))))
                (memory.copy (i32.const 1032) (i32.add (local.get $events) (i32.const 24)) (i32.const 72))
                (return (i32.const 1024))))
            (if (i32.eq (global.get $length) (i32.const 2)) (then
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1040) (global.get $text))
                (i32.store (i32.const 1044) (i32.const 2))
                (return (i32.const 1024))))
            (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
            (i32.store (i32.const 1104) (i32.const 1152))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 1152) (i64.const 1)) ;; tag
            (i32.store8 (i32.const 1160) (i32.const 1)) ;; spawn
            (i32.store (i32.const 1180) (i32.const 128)) ;; entry
            (i32.store (i32.const 1184) (i32.const 3))
            (i32.store (i32.const 1200) (i32.add (global.get $text) (i32.const 1))) ;; input
            (i32.store (i32.const 1204) (i32.sub (global.get $length) (i32.const 2)))
            (i32.const 1024))
        (func (export "cabi_post_wfhost:process/guest@0.1.0#step") (param i32))
        (func (export "wfhost:process/guest@0.1.0#close")))"#;
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chain.wasm");
    std::fs::write(&path, wat_guest::component("process", core)).unwrap();
    path
}

fn with_chain(depth: usize, fib: u32) -> String {
    let input = "[".repeat(depth) + &"]".repeat(depth);
    format!(
        "{{ components: {{ chain: {{ source: \"{}\", {LIMITS} }} }},
            steps: [{{ id: chain, uses: chain, with: {input} }},
                    {{ id: fib, uses: ./fib.wasm, {LIMITS}, with: {{ n: {fib} }} }}],
            outputs: {{ chain: \"${{ .steps.chain.output }}\", fib: \"${{ .steps.fib.output }}\" }} }}",
        chain().display()
    )
}

/// Guests that stay take the pool and most of the room outside; the others are evicted and restored
/// in what remains.
#[test]
fn guests_of_both_kinds_share_the_room() {
    let guests = EngineOptions { on_demand_bytes: 20 * GUEST_BYTES, ..options(2) };
    let host = Host::builder().workers(2).guests(guests).build().unwrap();
    let found = outputs(&run(&host, &with_chain(12, 9)));
    assert_eq!((&found["chain"], &found["fib"]), (&serde_json::json!([]), &serde_json::json!(34)));
    let stats = host.stats();
    assert!(stats.admitted_outside > 0 && stats.evictions > 0, "{stats:?}");
    assert_eq!(stats.admissions_refused, 0);
    wait_until_given_back(&host);
}

#[test]
fn a_rebuild_takes_no_slot_of_the_pool_and_keeps_to_the_room_outside() {
    let run_of = |host: &Host| {
        let workflow = parse(host, &fib(6));
        let run = start(host, &workflow);
        outputs(&run.wait());
        (workflow, run.records().unwrap())
    };
    // Other guests hold all slots.
    let full = host(1, 1, 60);
    let (workflow, records) = run_of(&full);
    let idle = idle(&full);
    let rebuilt = full.rebuild(&workflow, &records).unwrap_or_else(|error| panic!("{error}"));
    assert!(rebuilt.is_finished() && rebuilt.steps > 25, "{}", rebuilt.steps);
    drop(rebuilt);
    assert_eq!(full.guests().on_demand_memory().used(), 0);
    idle.kill("the test has ended");
    idle.wait();

    let small = host(1, 8, 2);
    let workflow = parse(&small, &fib(6));
    let error = small.rebuild(&workflow, &records).err().expect("there is no room").to_string();
    assert!(error.contains("on_demand_bytes"), "{error}");
    assert_eq!(small.guests().on_demand_memory().used(), 0);
}
