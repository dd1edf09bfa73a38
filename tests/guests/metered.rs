//! What guests make the host store and do is counted against them, and bounded: no neighbour pays
//! for it.

use crate::neighbour::Neighbour;
use crate::support::{begin, cause, host, options, parse, run, start, wait_until};
use crate::wat_guest;
use std::path::PathBuf;
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, Status};
use wfhost::run::Record;

/// A component in the tests' folder.
fn component(name: &str, core: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("wasm");
    std::fs::write(&path, wat_guest::component("process", core)).unwrap();
    path.display().to_string()
}

/// A guest that fills a MiB with noise and sleeps; then it completes with whether the noise is
/// unchanged.
fn noisy(name: &str, millis: u32) -> String {
    component(
        name,
        &wat_guest::module(&format!(
            r#"
            (data (i32.const 128) "true") (data (i32.const 136) "false")
            (global $seed (mut i32) (i32.const 2463534242))
            (func $noise (result i32)
                (global.set $seed (i32.xor (global.get $seed) (i32.shl (global.get $seed) (i32.const 13))))
                (global.set $seed (i32.xor (global.get $seed) (i32.shr_u (global.get $seed) (i32.const 17))))
                (global.set $seed (i32.xor (global.get $seed) (i32.shl (global.get $seed) (i32.const 5))))
                (global.get $seed))
            (func $step (param i32 i32) (result i32) (local $at i32) (local $same i32)
                (local.set $at (i32.const 131072))
                (if (i32.eqz (local.get 1)) (then
                    (drop (memory.grow (i32.const 16)))
                    (loop $next
                        (i32.store (local.get $at) (call $noise))
                        (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4)))
                            (i32.const 1179648))))
                    (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
                    (i32.store (i32.const 1104) (i32.const 2048))
                    (i32.store (i32.const 1108) (i32.const 1))
                    (i64.store (i32.const 2048) (i64.const 1))
                    (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
                    (i64.store (i32.const 2064) (i64.const {millis}000))
                    (return (i32.const 1024))))
                (global.set $seed (i32.const 2463534242))
                (local.set $same (i32.const 1))
                (loop $next
                    (if (i32.ne (i32.load (local.get $at)) (call $noise)) (then (local.set $same (i32.const 0))))
                    (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4))) (i32.const 1179648))))
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1108) (i32.const 0))
                (i32.store (i32.const 1040) (select (i32.const 128) (i32.const 136) (local.get $same)))
                (i32.store (i32.const 1044) (select (i32.const 4) (i32.const 5) (local.get $same)))
                (i32.const 1024))
            "#
        )),
    )
}

/// This many of them at a time.
fn many(guest: &str, count: usize) -> String {
    format!(
        "{{ components: {{ noisy: \"{guest}\" }},
            steps: [{{ id: x, uses: noisy, for-each: \"${{ [range({count})] }}\", max-parallel: {count} }}],
            outputs: {{ x: \"${{ .steps.x.output | unique }}\" }} }}"
    )
}

fn tight(image_bytes: u64) -> EngineOptions {
    EngineOptions { image_bytes, ..options(2) }
}

#[test]
fn images_of_evicted_guests_have_a_budget_and_the_run_that_exceeds_it_fails() {
    let host = Host::builder().workers(2).guests(tight(8 << 20)).build().unwrap();
    // Items that started beside the one that fails run to their end.
    let outcome = run(&host, &many(&noisy("noisy-third", 3_000), 20));
    let cause = cause(&outcome);
    assert_eq!(cause["kind"], "images-exhausted", "{cause}");
    let detail = cause["detail"].as_str().unwrap();
    assert!(detail.contains("EngineOptions::image_bytes"), "{detail}");
    // The room that it held is free again.
    wait_until(|| host.guests().images().memory_bytes() == 0);
}

#[test]
fn a_run_that_holds_its_share_leaves_room_for_its_neighbours() {
    let host = Host::builder().workers(2).guests(tight(16 << 20)).build().unwrap();
    let greedy = begin(&host, &many(&noisy("noisy-ever", 3_600_000), 5));
    wait_until(|| host.guests().images().memory_bytes() > 3 << 20);
    for _ in 0..3 {
        let outcome = run(&host, &many(&noisy("noisy-short", 50), 4));
        assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
        assert_eq!(outcome.outputs().unwrap()["x"], serde_json::json!([true]));
    }
    assert!(greedy.outcome().is_none(), "{:?}", greedy.outcome());
    greedy.kill("the test has ended");
    greedy.wait();
}

#[test]
fn images_that_do_not_fit_into_memory_wait_in_a_file_where_there_is_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let guests = EngineOptions { spill_dir: Some(folder.path().to_owned()), ..tight(4 << 20) };
    let host = Host::builder().workers(2).guests(guests).build().unwrap();
    let run = begin(&host, &many(&noisy("noisy-second", 1_000), 20));
    wait_until(|| run.outcome().is_some() || host.guests().images().disk_bytes() > 4 << 20);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    let outcome = run.wait();
    assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
    assert_eq!(outcome.outputs().unwrap()["x"], serde_json::json!([true]));
    assert_eq!((host.guests().images().memory_bytes(), host.guests().images().disk_bytes()), (0, 0));
}

/// A guest that spawns this many children in its first step, each of which completes at once, and
/// completes when all have answered.
fn fan(count: usize) -> String {
    let fields = [(28, "(i32.const 128)"), (32, "(i32.const 4)"), (48, "(i32.const 136)"), (52, "(i32.const 4)")];
    let commands = wat_guest::commands(2048, count, wat_guest::SPAWN, &fields);
    let core = format!(
        r#"(module
        {commands}
        (memory (export "memory") 32)
        (data (i32.const 128) "leaf") (data (i32.const 136) "null")
        (global $heap (mut i32) (i32.const 1200000))
        (global $leaf (mut i32) (i32.const 0))
        (global $begun (mut i32) (i32.const 0))
        (global $heard (mut i32) (i32.const 0))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
            (global.get $heap)
            (global.set $heap (i32.add (global.get $heap) (local.get 3))))
        (func (export "wfhost:process/guest@0.1.0#init") (param i32 i32 i32 i32 i32 i64 i32 i32) (result i32)
            (global.set $leaf (i32.eq (local.get 1) (i32.const 4)))
            (i32.const 512))
        (func $complete (result i32)
            (i32.store8 (i32.const 1024) (i32.const 3))
            (i32.store (i32.const 1040) (i32.const 136))
            (i32.store (i32.const 1044) (i32.const 4))
            (i32.const 1024))
        (func (export "wfhost:process/guest@0.1.0#step") (param i32) (param $events i32) (result i32)
            (i32.store (i32.const 1108) (i32.const 0))
            (if (global.get $leaf) (then (return (call $complete))))
            (global.set $heard (i32.add (global.get $heard) (local.get $events)))
            (if (i32.eq (global.get $heard) (i32.const {count})) (then (return (call $complete))))
            (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
            (if (global.get $begun) (then (return (i32.const 1024))))
            (global.set $begun (i32.const 1))
            (call $commands)
            (i32.const 1024))
        (func (export "cabi_post_wfhost:process/guest@0.1.0#step") (param i32) (global.set $heap (i32.const 1200000)))
        (func (export "wfhost:process/guest@0.1.0#close")))"#
    );
    component(&format!("fan-{count}"), &core)
}

#[test]
fn a_step_of_a_thousand_spawns_is_committed_in_parts_and_every_answer_arrives() {
    let host = host(2, 16);
    let workflow = parse(&host, &format!("steps: [{{ id: x, uses: \"{}\", entry: run }}]", fan(1_000)));
    let run = start(&host, &workflow);
    let outcome = run.wait();
    assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
    let records = run.records().unwrap();
    let parts: Vec<usize> = records
        .iter()
        .filter_map(|record| match record {
            Record::Stepped(stepped) if stepped.pid.0 == 2 && !stepped.decided.is_empty() => {
                Some(stepped.decided.len())
            }
            _ => None,
        })
        .collect();
    assert_eq!((parts.len(), parts.iter().sum::<usize>(), parts.iter().max()), (16, 1_000, Some(&64)), "{parts:?}");
    // A replay divides it the same way.
    let rebuilt = host.rebuild(&workflow, &records).unwrap_or_else(|error| panic!("{error}"));
    assert!(rebuilt.is_finished() && rebuilt.fuel_differs == 0);
}

#[test]
fn a_neighbour_goes_on_beside_steps_that_return_thousands_of_commands() {
    let host = host(1, 16);
    let neighbour = Neighbour::move_in(&host);
    let outcome = run(&host, &format!("steps: [{{ id: x, uses: \"{}\", entry: run }}]", fan(9_000)));
    assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
    neighbour.waits_for_steps(100);
    neighbour.move_out();
}

/// A guest that no image holds, and that traps when it saves or loads its state: it sleeps for a
/// moment, and completes.
fn unsaved(name: &str, save: &str, load: &str) -> String {
    let core = wat_guest::module(&format!(
        r#"
        (table $table 1 funcref)
        (elem declare func $changed)
        (func $changed)
        (data (i32.const 128) "null")
        (func $step (param i32 i32) (result i32)
            (table.set $table (i32.const 0) (ref.func $changed))
            (i32.store (i32.const 1108) (i32.const 0))
            (if (local.get 1) (then
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1040) (i32.const 128))
                (i32.store (i32.const 1044) (i32.const 4))
                (return (i32.const 1024))))
            (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (i64.const 1))
            (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
            (i64.store (i32.const 2064) (i64.const 100000))
            (i32.const 1024))
        (func (export "wfhost:process/snapshot@0.1.0#save") (result i32)
            {save}
            (i32.store8 (i32.const 3104) (i32.const 0))
            (i32.store (i32.const 3112) (i32.const 3008))
            (i32.store (i32.const 3116) (i32.const 8))
            (i32.const 3104))
        (func (export "wfhost:process/snapshot@0.1.0#load") (param i32 i32) (result i32)
            {load}
            (i32.const 3200))
        (func (export "wfhost:process/describe@0.1.0#describe") (result i32) (i32.const 3300))
        "#
    ));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("wasm");
    std::fs::write(&path, wat_guest::component("full", &core)).unwrap();
    path.display().to_string()
}

#[test]
fn a_guest_that_fails_at_its_own_snapshot_ends_with_a_problem_of_its_own() {
    let host = host(1, 1);
    for (name, save, load, kind, place) in [
        ("save-traps", "(unreachable)", "", "trap", "snapshot.save"),
        ("load-traps", "", "(unreachable)", "trap", "snapshot.load"),
        ("load-loops", "", "(loop $l (br $l))", "fuel-exhausted", "snapshot.load"),
    ] {
        let text = format!(
            "steps: [{{ id: x, uses: \"{}\", for-each: \"${{ [range(3)] }}\", max-parallel: 3 }}]",
            unsaved(name, save, load)
        );
        let cause = cause(&run(&host, &text));
        assert_eq!(cause["kind"], kind, "{name}: {cause}");
        assert!(cause["detail"].as_str().unwrap().contains(place), "{name}: {cause}");
    }
}

#[test]
fn a_text_that_is_logged_is_bounded_before_it_is_read() {
    let core = wat_guest::module(
        r#"
        (import "wfhost:process/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32 i32)))
        (data (i32.const 128) "n\00u\00l\00l\00")
        (func $step (param i32 i32) (result i32)
            (drop (memory.grow (i32.const 100)))
            (call $log (i32.const 2) (i32.const 131072) (i32.const 2500000) (i32.const 0) (i32.const 0) (i32.const 0))
            (i32.store (i32.const 1108) (i32.const 0))
            (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
            (i32.store (i32.const 1040) (i32.const 128))
            (i32.store (i32.const 1044) (i32.const 4))
            (i32.const 1024))
        "#,
    );
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("logs-much.wasm");
    std::fs::write(&path, wat_guest::component_in_utf16("process", &core)).unwrap();
    let host = host(1, 2);
    let step = |more: &str| format!("steps: [{{ id: x, uses: \"{}\"{more} }}]", path.display());
    for (limits, bytes) in [("", "1048576"), (", limits: { payload: 8MiB, output: 4MB }", "4000000")] {
        let cause = cause(&run(&host, &step(limits)));
        assert_eq!(cause["kind"], "too-large", "{cause}");
        assert!(cause["detail"].as_str().unwrap().contains(bytes), "{cause}");
    }
    let outcome = run(&host, &step(", limits: { payload: 8MiB }"));
    assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
}
