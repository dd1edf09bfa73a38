//! Guests against raw wasmtime, in the same run, on the same component, engine settings and memory profile.
//!
//! `cargo bench --bench guests [-- FILTER]` prints a table: medians of many short rounds, ours and the floor's by turns, and the
//! ratio of the medians.

#[path = "../integration/wat_guest.rs"]
mod wat_guest;

mod raw;
mod snapshots;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use wfhost::guest::{Component, EngineOptions, GuestEngine, Profile};
use wfhost::process::{Birth, Body, Event, Grants, Json, Limits, Micros, Output, Payload, Pid, Program, Progress, Tag};

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str()));
    for profile in [Profile::Fast, Profile::Dense] {
        if wanted("step") {
            step(profile);
        }
        if wanted("spawn") {
            spawn(profile);
        }
    }
    if wanted("snapshot") {
        snapshots::snapshots();
    }
}

/// Rounds of ours and of the floor by turns, so that whatever else the machine does hits both.
const ROUNDS: usize = 60;

/// Times two things by turns and prints nanoseconds for one of each, and their ratio.
fn compare(name: &str, per_round: u32, mut ours: impl FnMut(), mut floor: impl FnMut()) {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (of, run) in [&mut ours as &mut dyn FnMut(), &mut floor].into_iter().enumerate() {
            let start = Instant::now();
            for _ in 0..per_round {
                run();
            }
            times[of].push(start.elapsed().as_nanos() as f64 / f64::from(per_round));
        }
    }
    let [ours, floor] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!("{name:<44} {ours:>12.0} ns {floor:>12.0} ns   {:.2} x", ours / floor);
}

fn engine(profile: Profile) -> Arc<GuestEngine> {
    let options = EngineOptions { profile, slots: Some(64), cache_dir: None, ..EngineOptions::default() };
    Arc::new(GuestEngine::new(options).expect("an engine"))
}

fn birth() -> Birth {
    Birth {
        run: "bench".into(),
        pid: Pid(1),
        seed: [1; 32],
        entry: "run".into(),
        input: Payload::NULL,
        limits: Arc::new(Limits::default()),
        grants: Grants::default(),
        next_tag: Tag(1),
    }
}

/// Steps once, and gives back what the step put out.
fn step_body(body: &mut dyn Body, events: &mut Vec<Event>, output: &mut Output) {
    output.clear();
    body.begin(Micros(1), events);
    match body.poll(output) {
        Progress::Stepped(status) => drop(black_box(status)),
        other => panic!("{other:?}"),
    }
}

/// One answer in, one call out.
fn step(profile: Profile) {
    let bytes = wat_guest::caller();
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let mut body = component.body(birth()).expect("a body");
    let (mut events, mut output, mut tag) = (Vec::new(), Output::default(), 0);
    step_body(&mut *body, &mut events, &mut output);
    let answer = Payload::Json(Json::parse("{\"ok\":true}").expect("JSON"));
    let mut floor = raw::Live::new(&raw::Raw::new(profile, &bytes));
    floor.init();
    let mut raw_tag = 0;
    compare(
        &format!("step round trip ({profile:?})"),
        2_000,
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

/// Instantiate, `init`, one step that completes, `close`, drop.
fn spawn(profile: Profile) {
    let bytes = wat_guest::completer();
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let (mut events, mut output) = (Vec::new(), Output::default());
    let raw = raw::Raw::new(profile, &bytes);
    let birth = birth();
    compare(
        &format!("spawn, step, complete, close ({profile:?})"),
        100,
        || {
            let mut body = component.body(birth.clone()).expect("a body");
            step_body(&mut *body, &mut events, &mut output);
            body.close();
        },
        || raw::Live::new(&raw).call_once(),
    );
}
