//! Workflows done in a second, by the number in flight; and the cost of a folder for workflows that
//! do not use it.

use crate::floor::{Floor, percentiles};
use crate::rig;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use wfhost::host::{Host, Workflow};

const IN_FLIGHT: [usize; 4] = [1, 8, 64, 512];
/// How long each is measured, in two rounds.
const WHILE: Duration = Duration::from_secs(2);

/// Workflows a second, with this many in flight.
fn rate(host: &Host, workflow: &Workflow, in_flight: usize, durable: bool) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut runs = JoinSet::new();
        let begin = |runs: &mut JoinSet<_>| {
            let run = rig::start(host, workflow, durable);
            runs.spawn(async move { run.finished().await.result.map(drop) });
        };
        for _ in 0..in_flight {
            begin(&mut runs);
        }
        let begun = Instant::now();
        let mut done = 0_u64;
        while begun.elapsed() < WHILE {
            runs.join_next().await.expect("some are in flight").expect("it is waited for").expect("it succeeds");
            done += 1;
            begin(&mut runs);
        }
        let rate = done as f64 / begun.elapsed().as_secs_f64();
        while let Some(ended) = runs.join_next().await {
            ended.expect("it is waited for").expect("it succeeds");
        }
        rate
    })
}

pub(crate) fn figures(data: &Path) {
    let folder = rig::folder(data);
    let host = rig::host(&folder.path().join("data"));
    let workflow = rig::load(&host, rig::GUESTS);
    let mut floor = Floor::new(folder.path());
    rate(&host, &workflow, 8, true);
    println!("durable workflows of three guests a second, 2 workers");
    for in_flight in IN_FLIGHT {
        let mut durable = Vec::new();
        let mut not = Vec::new();
        let mut floors = Vec::new();
        for _ in 0..2 {
            floors.extend((0..200).map(|_| floor.append()));
            durable.push(rate(&host, &workflow, in_flight, true));
            not.push(rate(&host, &workflow, in_flight, false));
        }
        let syncs = 1.0 / percentiles(floors).0.as_secs_f64();
        let (durable, not) = (durable[0].max(durable[1]), not[0].max(not[1]));
        println!(
            "  {in_flight:>3} in flight: {durable:>7.0}; {:.2} for each append and fdatasync in turn; {:.2} of the rate without durability ({not:.0})",
            durable / syncs,
            durable / not
        );
    }
}

/// A host with a folder against one without, neither of which writes.
pub(crate) fn none(data: &Path) {
    const ROUNDS: usize = 9;
    const PER_ROUND: u32 = 400;
    let folder = rig::folder(data);
    let with = rig::host(&folder.path().join("data"));
    with.journal().expect("the journal opens");
    let without = rig::builder().build().expect("a host");
    let workflows = [rig::load(&with, rig::GUESTS), rig::load(&without, rig::GUESTS)];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (kind, host) in [&with, &without].into_iter().enumerate() {
            let begun = Instant::now();
            for _ in 0..PER_ROUND {
                assert!(rig::start(host, &workflows[kind], false).wait().result.is_ok());
            }
            if round > 0 {
                times[kind].push(begun.elapsed() / PER_ROUND);
            }
        }
    }
    let [with, without] = times.map(|times| percentiles(times).0);
    println!("a workflow of three guests with durability none, medians of {ROUNDS} rounds in turn");
    println!(
        "  host with a folder {with:.1?}, without {without:.1?}: {:.3}",
        with.as_secs_f64() / without.as_secs_f64()
    );
}
