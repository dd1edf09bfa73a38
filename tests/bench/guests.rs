//! Guests against raw wasmtime, in the same run, on the same component, engine settings and memory
//! profile.
//!
//! `cargo bench --bench guests [-- FILTER]` prints a table: CPU time of ours and of the floor,
//! measured by turns, and the ratio. The filters: `fuel`, `slices`, `evict`, `step`, `spawn`,
//! `snapshot`, and `crowd`, which prints what idle guests take.

#[path = "../integration/process_init.rs"]
mod process_init;
#[path = "../integration/wat_guest.rs"]
mod wat_guest;

mod crowd;
mod fuel;
mod increments;
mod raw;
mod slices;
mod snapshots;

use std::hint::black_box;
use std::sync::Arc;
use wfhost::guest::{Component, EngineOptions, GuestEngine, Profile};
use wfhost::process::{Body, Event, Json, Output, Payload, ProcessInit, Program, Progress, Tag, Timestamp};

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str()));
    if let Some(count) = filter.iter().find_map(|part| part.strip_prefix("crowd=")) {
        return crowd::crowd(count.parse().expect("a number of guests"));
    }
    for profile in [Profile::Fast, Profile::Dense] {
        if wanted("evict") {
            evict(profile);
        }
        if wanted("fuel") {
            fuel::fuel(profile);
        }
        if wanted("step") {
            step(profile);
        }
        if wanted("spawn") {
            spawn(profile);
        }
    }
    if wanted("slices") {
        slices::slices();
    }
    if wanted("snapshot") {
        snapshots::snapshots();
    }
    if wanted("crowd") {
        crowd::crowds();
    }
}

/// Rounds of ours and of the floor by turns, so that the machine's other work hits both.
const ROUNDS: usize = 21;

/// CPU time of this thread, in nanoseconds. Wall-clock time would measure the machine's other work:
/// a round that is interrupted once takes several times as long.
fn cpu_ns() -> f64 {
    // The kernel updates the figure when it schedules.
    std::thread::yield_now();
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    line.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

/// Times two things by turns and prints nanoseconds of CPU for one of each, medians and the range
/// from the first to the third quarter, and the ratio of the medians.
fn compare(name: &str, per_round: u32, mut ours: impl FnMut(), mut floor: impl FnMut()) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (of, run) in [&mut ours as &mut dyn FnMut(), &mut floor].into_iter().enumerate() {
            let start = cpu_ns();
            for _ in 0..per_round {
                run();
            }
            times[of].push((cpu_ns() - start) / f64::from(per_round));
        }
    }
    let [ours, floor] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| times[times.len() * quarter / 4])
    });
    let show = |t: [f64; 3]| format!("{:>8.0} ns [{:.0}..{:.0}]", t[1], t[0], t[2]);
    println!("{name:<46} {:<26} {:<26} {:.2} x", show(ours), show(floor), ours[1] / floor[1]);
}

fn engine(profile: Profile) -> Arc<GuestEngine> {
    let options = EngineOptions { profile, slots: Some(64), cache_dir: None, ..EngineOptions::default() };
    Arc::new(GuestEngine::new(options).expect("an engine"))
}

fn init() -> ProcessInit {
    process_init::init("run", "null")
}

/// Steps once. The commands stay in `output`.
fn step_body(body: &mut dyn Body, events: &mut Vec<Event>, output: &mut Output) {
    output.clear();
    body.begin(Timestamp(1), events);
    match body.poll(output) {
        Progress::Stepped(status) => drop(black_box(status)),
        other => panic!("{other:?}"),
    }
}

/// One answer in, one call out.
fn step(profile: Profile) {
    let bytes = wat_guest::caller();
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let mut body = component.body(init()).expect("a body");
    let (mut events, mut output, mut tag) = (Vec::new(), Output::default(), 0);
    step_body(&mut *body, &mut events, &mut output);
    let answer = Payload::Json(Json::parse("{\"ok\":true}").expect("JSON"));
    let mut floor = raw::Live::new(&raw::Raw::new(profile, raw::Slots::AsOurs, &bytes));
    floor.init();
    let mut raw_tag = 0;
    compare(
        &format!("step round trip ({profile:?})"),
        20_000,
        || {
            tag += 1;
            events.push(Event::Completed { tag: Tag(tag), answer: Ok(answer.clone()) });
            step_body(&mut *body, &mut events, &mut output);
            assert_eq!(output.commands[0].tag.0, tag + 1);
        },
        || {
            floor.step(raw_tag, "{\"ok\":true}");
            raw_tag += 1;
        },
    );
}

/// Instantiate, `init`, one step that completes, `close`, drop: against instantiating and one call
/// (the comparison of the goal), and against as many calls as ours makes.
fn spawn(profile: Profile) {
    let bytes = wat_guest::completer();
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let (mut events, mut output) = (Vec::new(), Output::default());
    let init = init();
    let mut ours = || {
        let mut body = component.body(init.clone()).expect("a body");
        step_body(&mut *body, &mut events, &mut output);
        body.close();
    };
    for (slots, name) in [(raw::Slots::AsOurs, "same pool"), (raw::Slots::ByDefault, "default pool")] {
        let raw = raw::Raw::new(profile, slots, &bytes);
        compare(&format!("spawn to close / 1 call, {name} ({profile:?})"), 2_000, &mut ours, || {
            raw::Live::new(&raw).call_once();
        });
        compare(&format!("spawn to close / 3 calls, {name} ({profile:?})"), 2_000, &mut ours, || {
            let mut live = raw::Live::new(&raw);
            live.init();
            live.call_once();
            live.close();
        });
    }
}

/// Evicted, restored and stepped: against a new instance of raw wasmtime and one call.
fn evict(profile: Profile) {
    let bytes = wat_guest::caller();
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let (mut events, mut output) = (Vec::new(), Output::default());
    let mut body = component.body(init()).expect("a body");
    step_body(&mut *body, &mut events, &mut output);
    let raw = raw::Raw::new(profile, raw::Slots::AsOurs, &bytes);
    compare(
        &format!("evict, restore, step / new, 1 call ({profile:?})"),
        1_000,
        || {
            assert!(body.evict().is_done());
            step_body(&mut *body, &mut events, &mut output);
        },
        || raw::Live::new(&raw).call_once(),
    );
}
