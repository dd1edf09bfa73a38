//! What durable runs cost, as ratios to the disk's own append and fdatasync, measured in turn with
//! them in one program.
//!
//! ```text
//! cargo bench --bench durable [-- latency throughput none cost recovery replay runs=<n> steps=<n> data=<folder>]
//! ```
//! Without names all are measured. `runs` is how many are recovered (10,000), `steps` how many are
//! replayed (10,000), `data` where the folders are made (below `target`).
//!
//! - latency: a workflow of three guests, one after the other, and one of three calls of a handler
//!   in this process. The fsyncs of a workflow are counted in another process, in which the C
//!   library's own calls are wrapped.
//! - throughput: workflows of three guests, with a given number in flight.
//! - none: the same without records, in a host that has a folder, against a host that has none.
//! - cost: processor time of a workflow against that of its guests alone, without a scheduler, and
//!   how often it interrupts other processors. `strace -f -c <this program> none` shows the system
//!   calls: 24,000 guests.
//! - recovery: many waiting runs, recovered by a new host; and what a step takes in the journal.
//! - replay: steps replayed from the records of a run, against the same steps live without records;
//!   and recovering the run, from its snapshot and from its records alone.

mod cost;
mod floor;
mod latency;
#[path = "../../integration/process_init.rs"]
mod process_init;
mod recovery;
mod replay;
mod rig;
#[path = "../../faults/shim.rs"]
#[allow(dead_code, reason = "its faults")]
mod shim;
mod throughput;
#[path = "../../integration/wat_guest.rs"]
mod wat_guest;

use std::path::PathBuf;

fn main() {
    let mut names = Vec::new();
    let (mut runs, mut steps) = (10_000, 10_000);
    let mut data = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("runs", number)) => runs = number.parse().expect("a number of runs"),
            Some(("steps", number)) => steps = number.parse().expect("a number of steps"),
            Some(("data", folder)) => data = folder.into(),
            Some(("syncs-of", kind)) => return latency::count(kind, &data),
            _ => names.push(argument),
        }
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    if is_wanted("latency") {
        latency::figures(&data);
    }
    if is_wanted("throughput") {
        throughput::figures(&data);
    }
    if is_wanted("none") {
        throughput::none(&data);
    }
    if is_wanted("cost") {
        cost::figures();
    }
    if is_wanted("recovery") {
        recovery::figures(&data, runs);
    }
    if is_wanted("replay") {
        replay::figures(&data, steps);
    }
}
