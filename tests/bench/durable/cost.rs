//! Processor time of a workflow, against its guests alone: spawned, stepped and closed without a
//! scheduler, in the same program.

use crate::process_init::init;
use crate::rig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wfhost::guest::{Component, EngineOptions, GuestEngine};
use wfhost::host::{Host, Workflow};
use wfhost::process::{Event, Output, ProcessInit, Program, Progress, Timestamp};

const ROUNDS: usize = 7;
const WORKFLOWS: u32 = 1_000;
const IN_FLIGHT: [u32; 3] = [1, 8, 64];

/// Processor time of all threads of this process. The kernel updates the figures every few
/// milliseconds.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let times = threads.filter_map(|thread| {
        let line = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// Interrupts by which one processor makes others flush pages or run a function: of the whole
/// machine.
fn shootdowns() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let lines = text.lines().filter(|line| {
        let name = line.trim_start();
        name.starts_with("TLB:") || name.starts_with("CAL:")
    });
    lines.flat_map(|line| line.split_whitespace().skip(1).map_while(|number| number.parse::<u64>().ok())).sum()
}

/// Context switches that this process's threads asked for.
fn sleeps() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let counts = threads.filter_map(|thread| {
        let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    });
    counts.sum()
}

/// Three guests after one another, without a scheduler.
fn three_guests(component: &Component, init: &ProcessInit, output: &mut Output) {
    for _ in 0..3 {
        let mut events: Vec<Event> = Vec::new();
        let mut body = component.body(init.clone()).expect("a body");
        output.clear();
        body.begin(Timestamp(1), &mut events);
        match body.poll(output) {
            Progress::Stepped(status) => drop(std::hint::black_box(status)),
            other => panic!("{other:?}"),
        }
        body.close();
    }
}

fn workflows(host: &Host, workflow: &Workflow, in_flight: u32) {
    let mut runs = std::collections::VecDeque::new();
    for _ in 0..WORKFLOWS {
        if runs.len() == in_flight as usize {
            let run: wfhost::host::RunHandle = runs.pop_front().expect("one is in flight");
            assert!(run.wait().result.is_ok());
        }
        runs.push_back(rig::start(host, workflow, false));
    }
    for run in runs {
        assert!(run.wait().result.is_ok());
    }
}

pub(crate) fn figures() {
    let host = rig::builder().build().expect("a host");
    let workflow = rig::load(&host, rig::GUESTS);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cache");
    let options = EngineOptions { slots: Some(256), cache_dir: Some(cache), ..EngineOptions::default() };
    let engine = Arc::new(GuestEngine::new(options).expect("an engine"));
    let hello = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/built/hello.wasm")).expect("built");
    let component = Component::load(&engine, &hello).expect("hello");
    component.learn_snapshot_support();
    let (init, mut output) = (init("run", "{\"name\":\"a\"}"), Output::default());
    workflows(&host, &workflow, 8);
    println!("processor time of a workflow of three guests, no journal, 2 workers; least of {ROUNDS} rounds");
    for in_flight in IN_FLIGHT {
        let (mut least, mut floor) = (Duration::MAX, Duration::MAX);
        let (mut interrupts, mut switches) = (u64::MAX, u64::MAX);
        for _ in 0..ROUNDS {
            let (before, ipis, slept) = (processor_time(), shootdowns(), sleeps());
            workflows(&host, &workflow, in_flight);
            least = least.min(processor_time().saturating_sub(before) / WORKFLOWS);
            interrupts = interrupts.min(shootdowns() - ipis);
            switches = switches.min(sleeps() - slept);
            let before = processor_time();
            for _ in 0..10 * WORKFLOWS {
                three_guests(&component, &init, &mut output);
            }
            floor = floor.min(processor_time().saturating_sub(before) / (10 * WORKFLOWS));
        }
        let each = |count: u64| count as f64 / f64::from(WORKFLOWS);
        println!(
            "  {in_flight:>3} in flight: {least:>7.1?}, its guests alone {floor:.1?}: {:.1}; {:.2} interrupts between processors, {:.2} waits",
            least.as_secs_f64() / floor.as_secs_f64(),
            each(interrupts),
            each(switches),
        );
    }
    let (spares, bytes) = engine.spare_instances();
    println!("  {spares} spare instances with {} KiB", bytes >> 10);
}
