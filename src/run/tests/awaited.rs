//! What runs wait for from people, in memory and parked.

use super::desk::Desk;
use super::parking::{Parkable, start, waits};
use super::support::*;
use crate::journal::Memory;
use crate::process::{Payload, Pid, Program, Random};
use crate::run::{AWAITED_MAX, Awaited, AwaitedKind, Log, ParkingPolicy, Projection, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A run whose root waits for these signals.
fn waiter(names: Vec<String>) -> Arc<dyn Program> {
    let count = names.len();
    program(move |_| {
        let names = names.clone();
        collect(move || names.iter().map(|name| waits(name)).collect(), count)
    })
}

/// The signals that a run waits for by its records: each name, and since when.
fn recorded(log: &Parkable) -> Vec<(String, u64)> {
    let mut projection = Projection::default();
    for record in Memory::records(&log.memory.lock()).unwrap() {
        projection.apply(&Record::decode(record).unwrap()).unwrap();
    }
    let mut first = BTreeMap::new();
    for wait in projection.signal_waits() {
        first.entry(wait.name.to_string()).or_insert(wait.since.0);
    }
    first.into_iter().collect()
}

fn listed(awaited: &[Awaited]) -> Vec<(String, u64)> {
    assert!(awaited.iter().all(|one| one.kind == AwaitedKind::Signal));
    awaited.iter().map(|one| (one.name.to_string(), one.since.0)).collect()
}

/// Memory and what was written at parking give together what the records give, at any moment.
#[test]
fn what_is_listed_is_what_the_records_say() {
    let mut desk = Desk::new(1);
    desk.kernel.park_when(ParkingPolicy { after: Duration::from_secs(5), resident_max: 1_000 });
    let mut random = Random::new(&[7; 32], Pid::ROOT);
    let mut below = move |bound: u64| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    };
    let logs: Vec<Parkable> = (0..200).map(|_| Parkable::default()).collect();
    for (number, log) in logs.iter().enumerate() {
        let names = (0..below(5)).map(|_| format!("s{}", below(3))).collect();
        start(&desk.kernel, &format!("run {number}"), &waiter(names), log);
    }
    let (mut seen, mut parked) = (0, 0);
    for _ in 0..20 {
        desk.drain();
        for _ in 0..below(3) {
            desk.fire();
            desk.drain();
        }
        for _ in 0..100 {
            let (run, name) = (below(200), below(4));
            if let Some(run) = desk.kernel.run(&format!("run {run}")) {
                let _ = run.signal(&format!("s{name}"), Payload::json(&1));
            }
        }
        let here: BTreeMap<_, _> = desk.kernel.awaited().into_iter().collect();
        let away = desk.kernel.parked();
        for (number, log) in logs.iter().enumerate() {
            let id = format!("run {number}");
            let found = match here.get(&*id) {
                Some(awaited) => listed(awaited),
                None if away.iter().any(|(parked, _)| **parked == *id) => {
                    parked += 1;
                    listed(&log.awaited.lock())
                }
                None => Vec::new(),
            };
            seen += found.len();
            assert_eq!(found, recorded(log), "{id}");
        }
    }
    assert!(seen > 500 && parked > 100, "{seen} waits, {parked} of parked runs");
}

#[test]
fn a_run_with_very_many_waits_is_listed_with_some() {
    let mut desk = Desk::new(1);
    let names = (0..AWAITED_MAX + 5).map(|number| format!("s{number:05}")).collect();
    start(&desk.kernel, "run", &waiter(names), &Parkable::default());
    desk.drain();
    assert_eq!(desk.kernel.awaited()[0].1.len(), AWAITED_MAX);
}
