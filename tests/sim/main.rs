//! Seeded simulation of the scheduler.
//!
//! ```text
//! WFHOST_SIM_SEEDS=10000 cargo test --no-default-features --test sim
//! WFHOST_SIM_SEED=4711 cargo test --no-default-features --test sim
//! ```

mod fork_join;
mod runs;
mod starvation;

use wfhost::sim::{Scripted, Simulation};

/// What the test runs by default: seconds. CI runs ten thousand and more.
const SEEDS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn every_seed_holds_what_the_scheduler_promises() {
    let seeds = match number("WFHOST_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WFHOST_SIM_SEEDS").unwrap_or(SEEDS),
    };
    silence_injected_panics();
    let mut sums = [0; 10];
    for seed in seeds.clone() {
        let stats = Simulation::new(seed).run(&mut Scripted::new(seed)).unwrap_or_else(|breach| {
            panic!("seed {seed}: {breach}\nrerun: WFHOST_SIM_SEED={seed} cargo test --no-default-features --test sim")
        });
        let counts = [
            stats.steps,
            stats.steals,
            stats.preemptions,
            stats.panics,
            stats.evictions,
            stats.admissions_waited,
            stats.dropped_events,
            stats.timers_fired,
            stats.admitted_outside,
            stats.admissions_refused,
        ];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!(
        "steps, steals, preemptions, panics, evictions, waits for a permit, drops, timers, outside, refused: {sums:?}"
    );
    if seeds.end - seeds.start >= 100 {
        assert!(sums.iter().all(|sum| *sum > 0), "a kind of fault never happened: {sums:?}");
    }
}

#[test]
fn a_seed_is_the_same_run_again() {
    silence_injected_panics();
    let run = |seed| Simulation::new(seed).run(&mut Scripted::new(seed)).expect("it holds");
    for seed in 1..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

/// The panics of the script are part of it; all others are told as always.
fn silence_injected_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.payload().downcast_ref::<&str>().copied());
            if text != Some(wfhost::sim::INJECTED) {
                tell(panic);
            }
        }));
    });
}
