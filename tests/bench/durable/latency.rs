//! How long a durable workflow takes, and how often it syncs.

use crate::floor::{Floor, percentiles};
use crate::rig;
use crate::shim::Shim;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wfhost::host::{Host, Workflow};

const ROUNDS: u32 = 60;
const PER_ROUND: u32 = 10;
/// Workflows whose fsyncs are counted together.
const COUNTED: u64 = 200;

const KINDS: [(&str, &str, f64); 2] = [("guests", rig::GUESTS, 2.0), ("calls", rig::CALLS, 4.0)];

fn one(host: &Host, workflow: &Workflow) -> Duration {
    let begun = Instant::now();
    let outcome = rig::start(host, workflow, true).wait();
    let took = begun.elapsed();
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    took
}

pub(crate) fn figures(data: &Path) {
    let folder = rig::folder(data);
    let host = rig::host(&folder.path().join("data"));
    let mut floor = Floor::new(folder.path());
    let workflows = KINDS.map(|(_, text, _)| rig::load(&host, text));
    let mut floors = Vec::new();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for _ in 0..PER_ROUND {
            let appended = floor.append();
            let ran = [0, 1].map(|kind| one(&host, &workflows[kind]));
            if round > 0 {
                floors.push(appended);
                times[0].push(ran[0]);
                times[1].push(ran[1]);
            }
        }
    }
    let floor = percentiles(floors);
    println!("latency of one durable workflow at a time, {} in turn with an append and fdatasync", ROUNDS * PER_ROUND);
    println!("  floor   p50 {:>9.1?}  p99 {:>9.1?}", floor.0, floor.1);
    for ((name, _, aim), times) in KINDS.into_iter().zip(times) {
        let (p50, p99) = percentiles(times);
        let ratio = p50.as_secs_f64() / floor.0.as_secs_f64();
        let syncs = syncs(name, folder.path());
        println!(
            "  {name:7} p50 {p50:>9.1?}  p99 {p99:>9.1?}  {ratio:.2} floors; {syncs:.2} fsyncs a workflow (aim: p50 at most {aim} floors)"
        );
    }
}

/// The fsyncs of a workflow, counted in another process.
fn syncs(kind: &str, below: &Path) -> f64 {
    let folder = rig::folder(below);
    let shim = Shim::of(folder.path());
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(format!("data={}", folder.path().display())).arg(format!("syncs-of={kind}"));
    let output = shim.put(&mut command).output().expect("this program starts again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// In that other process: prints the figure.
pub(crate) fn count(kind: &str, data: &Path) {
    let control = PathBuf::from(std::env::var_os("WFHOST_SHIM_CONTROL").expect("the shim is there"));
    let syncs = || std::fs::metadata(control.join("syncs")).map_or(0, |file| file.len());
    // The shim counts only those of a journal in its folder.
    let host = rig::host(data);
    let (_, text, _) = KINDS.into_iter().find(|(name, ..)| *name == kind).expect("a kind");
    let workflow = rig::load(&host, text);
    one(&host, &workflow);
    let before = syncs();
    for _ in 0..COUNTED {
        one(&host, &workflow);
    }
    println!("{}", (syncs() - before) as f64 / COUNTED as f64);
}
