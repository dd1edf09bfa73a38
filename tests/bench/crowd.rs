//! What an idle guest takes, when there are few and when there are many.

use super::{init, step_body, wat_guest};
use std::sync::Arc;
use wfhost::guest::{Component, EngineOptions, GuestEngine, Profile};
use wfhost::process::{Body, Output, Program};

const COUNTS: [usize; 3] = [1_000, 8_000, 100_000];

/// Each count in a process of its own, since a process never gives back all that it once had.
pub(crate) fn crowds() {
    let program = std::env::current_exe().expect("this program");
    for count in COUNTS {
        let child = std::process::Command::new(&program).arg(format!("crowd={count}")).status();
        assert!(child.expect("a process").success(), "{count} guests");
    }
}

/// Makes this many guests that wait for an answer, evicts those for which there is no slot, and
/// prints what they take. Then steps one of them once more, to see that it is alive.
pub(crate) fn crowd(count: usize) {
    let options = EngineOptions { profile: Profile::Dense, cache_dir: None, ..EngineOptions::default() };
    let engine = Arc::new(GuestEngine::new(options).expect("an engine"));
    let component = Component::load(&engine, &wat_guest::caller()).expect("a guest");
    let slots = engine.slots() as usize;
    let (mut events, mut output) = (Vec::new(), Output::default());
    let mut guests: Vec<Box<dyn Body>> = Vec::with_capacity(count);
    // The first pays for what is made once, the second for what an eviction makes once.
    for once in 0..2 {
        let mut guest = component.body(init()).expect("a body");
        step_body(&mut *guest, &mut events, &mut output);
        assert!(once == 0 || guest.evict().is_done());
    }
    let before = Usage::now();
    let live = count.min(slots);
    for n in 0..count {
        let mut guest = component.body(init()).expect("a body");
        // The last ones stay, as many as there are slots: the earlier ones have given up theirs.
        step_body(&mut *guest, &mut events, &mut output);
        if n + live < count {
            assert!(guest.evict().is_done());
        }
        guests.push(guest);
        if n + 1 == count - live {
            let now = Usage::now();
            let each = (now.bytes - before.bytes) / (count - live) as u64;
            println!("{count:>7} guests: {:>7} evicted, {each} bytes each, {} maps", count - live, now.maps);
        }
    }
    let now = Usage::now();
    if count == live {
        let each = now.bytes.saturating_sub(before.bytes) / live as u64;
        let maps = (now.maps - before.maps) as f64 / live as f64;
        println!("{count:>7} guests: {live:>7} live, {each} bytes each, {maps:.1} maps each (slots: {slots})");
    } else {
        let total = (now.bytes - before.bytes) >> 20;
        println!("{count:>7} guests: {live:>7} live, {total} MiB for all, {} maps of {}", now.maps, maps_max());
    }
    // An evicted one can be restored when another gives up its slot.
    guests.truncate(count - 1);
    step_body(&mut *guests[0], &mut events, &mut output);
    assert_eq!(output.commands[0].tag.0, 2, "the guest went on where it was");
}

struct Usage {
    bytes: u64,
    maps: usize,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux").lines().count();
        Self { bytes: kib << 10, maps }
    }
}

fn maps_max() -> String {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").map_or_else(|_| "?".into(), |text| text.trim().into())
}
