//! Recovering many runs that wait, and their size on disk.

use crate::rig;
use std::path::Path;
use std::time::{Duration, Instant};
use wfhost::host::RunOptions;

pub(crate) fn figures(data: &Path, runs: u32) {
    let folder = rig::folder(data);
    let data = folder.path().join("data");
    let host = rig::host(&data);
    let workflow = rig::load(&host, rig::WAITS);
    let begun = Instant::now();
    let handles: Vec<_> = (0..runs).map(|_| rig::start(&host, &workflow, true)).collect();
    // A run waits when its guest has ended, and only its root is alive.
    for run in &handles {
        while run.inner().counts().processes < 2 || run.processes().len() > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    host.suspend(Duration::ZERO).expect("the journal is whole");
    let wrote = begun.elapsed();
    let steps: u64 = handles.iter().map(|run| run.inner().counts().steps).sum();
    drop((handles, workflow, host));

    let bytes = |name: &str| std::fs::metadata(data.join(name)).map_or(0, |file| file.len());
    let on_disk = bytes("journal.db") + bytes("journal.db-wal");
    let begun = Instant::now();
    let host = rig::host(&data);
    let journal = host.journal().expect("the journal opens").expect("it has a folder");
    let unfinished = journal.unfinished().expect("it can be read");
    let listed = begun.elapsed();
    assert_eq!(unfinished.len(), runs as usize);
    let mut records = 0;
    for run in unfinished.iter().take(100) {
        let run = journal.records(&run.id).expect("they are whole");
        let mut all = Vec::new();
        for record in &run {
            record.encode(&mut all);
        }
        records += all.len();
    }
    let begun = Instant::now();
    let mut last = Duration::ZERO;
    let mut taken = Vec::with_capacity(unfinished.len());
    for run in &unfinished {
        let one = Instant::now();
        let workflow = host.workflow_of(&run.id).expect("it is there");
        taken.push(host.recover(&workflow, &run.id, RunOptions::default()).expect("nobody has it"));
        last = one.elapsed();
    }
    let took = begun.elapsed();
    println!("recovery of {runs} runs that wait (begun and written in {wrote:.1?})");
    println!("  listed in {listed:.1?}, taken up in {took:.1?}: {:.1?} a run, the last one {last:.1?}", took / runs);
    println!(
        "  on disk {} bytes a run, {} of them records; {:.1} steps a run, {:.0} bytes of records a step, {:.0} in all",
        on_disk / u64::from(runs),
        records / 100,
        steps as f64 / f64::from(runs),
        records as f64 / 100.0 / (steps as f64 / f64::from(runs)),
        on_disk as f64 / steps as f64
    );
    // The process ends: nothing need be written.
    std::mem::forget((taken, host));
}
