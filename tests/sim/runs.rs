//! Runs under the simulator: what the commit point promises, with faults of every kind.

use wfhost::sim::{Runs, Simulation};

/// What the test runs by default: seconds. CI runs ten thousand and more.
const SEEDS: u64 = 1_000;

#[test]
fn every_seed_holds_what_the_commit_point_promises() {
    let seeds = match super::number("WFHOST_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..super::number("WFHOST_SIM_SEEDS").unwrap_or(SEEDS),
    };
    super::silence_injected_panics();
    let mut sums = [0; 9];
    for seed in seeds.clone() {
        let mut world = Runs::new(seed);
        let stats = Simulation::new(seed).run(&mut world).unwrap_or_else(|breach| {
            panic!(
                "seed {seed}: {breach}\nrerun: WFHOST_SIM_SEED={seed} cargo test --no-default-features --test sim runs"
            )
        });
        let [steps, messages, calls, retried, dropped] = world.sums();
        let parked = world.parked();
        let counts =
            [steps, messages, calls, retried, dropped, parked, stats.preemptions, stats.panics, stats.evictions];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("steps, messages, calls, retries, drops, parked, preemptions, panics, evictions: {sums:?}");
    if seeds.end - seeds.start >= 100 {
        assert!(sums.iter().all(|sum| *sum > 0), "a kind of fault never happened: {sums:?}");
    }
}

/// The same runs in hosts that die, with logs that are durable later.
#[test]
fn every_seed_survives_the_death_of_its_host() {
    let seeds = match super::number("WFHOST_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..super::number("WFHOST_SIM_SEEDS").unwrap_or(SEEDS),
    };
    super::silence_injected_panics();
    let mut sums = [0; 9];
    for seed in seeds.clone() {
        let mut world = Runs::new(seed).with_crashes();
        let stats = Simulation::new(seed).with_crashes().run(&mut world).unwrap_or_else(|breach| {
            panic!(
                "seed {seed}: {breach}\nrerun: WFHOST_SIM_SEED={seed} cargo test --no-default-features --test sim survives"
            )
        });
        let [steps, messages, calls, retried, _] = world.sums();
        let [crashes, repeated, uncertain] = world.faults();
        let counts = [steps, messages, calls, retried, crashes, repeated, uncertain, stats.panics, stats.evictions];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("steps, messages, calls, retries, crashes, keys used again, uncertain, panics, evictions: {sums:?}");
    if seeds.end - seeds.start >= 100 {
        assert!(sums.iter().all(|sum| *sum > 0), "a kind of fault never happened: {sums:?}");
    }
}
