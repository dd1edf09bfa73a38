//! Records that are not those of a run: a recovery reports it, and nothing panics.

use super::desk::Desk;
use super::support::*;
use crate::process::{Action, Json, Micros, Payload, Pid, Program, Status, Tag, Target, Timestamp};
use crate::run::{Bounds, News, Projection, Record};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A run in which much happens: children of all kinds, names, ties, calls, signals, the store,
/// renewals, ends.
fn busy() -> Arc<dyn Program> {
    program(|entry| match entry {
        "root" => collect(
            || {
                let child = |entry: &str, change: fn(&mut crate::process::Spawn)| {
                    let mut child = spawn(entry);
                    change(&mut child);
                    Action::Spawn(Box::new(child))
                };
                vec![
                    child("idle", |child| child.name = Some("a".into())),
                    child("idle", |child| child.link = true),
                    child("idle", |child| child.detached = true),
                    child("renews", |child| child.narrow = Some(Json::parse(r#"{"limits":{"links":3}}"#).unwrap())),
                    child("fails", |_| {}),
                    Action::Sleep(Micros(50)),
                    calls("safe", number(1)),
                    calls("unsafe", number(2)),
                    calls("signal", Payload::json(&serde_json::json!({ "name": "s" }))),
                    calls("kv", Payload::json(&serde_json::json!({ "op": "set", "key": "k", "value": 1 }))),
                    Action::Monitor(Target::Name("a".into())),
                    Action::Register("hub".into()),
                    sends(Target::Child(Tag(1)), number(3)),
                    Action::Expose { query: "q".into(), value: number(4) },
                    Action::Cancel(Tag(6)),
                    Action::Stop(Target::Child(Tag(3))),
                    Action::Unlink(Target::Child(Tag(2))),
                ]
            },
            99,
        ),
        "renews" => act(|_, _| Status::Renew { entry: "idle".into(), input: number(1) }),
        "fails" => act(|_, _| Status::Failed(Arc::new(crate::process::Problem::new("mine", "It failed")))),
        _ => collect(|| vec![Action::Sleep(Micros(20)), spawns("grandchild")], 1),
    })
}

fn records(root: &Arc<dyn Program>) -> Vec<Record> {
    let grants = crate::process::Grants(Arc::new([("kv".to_owned(), Vec::new())].into()));
    let bench = Bench::of(Desk::new(3), Arc::default(), &Setup { grants, ..Setup::default() }, root);
    let mut desk = bench.desk.clone();
    desk.drain();
    bench.run.signal("s", number(5)).unwrap();
    bench.run.signal("later", number(6)).unwrap();
    desk.fire();
    desk.drain();
    bench.run.pause().unwrap();
    bench.run.unpause().unwrap();
    bench.run.cancel("enough", None).unwrap();
    desk.settle();
    bench.run.records().unwrap()
}

/// Changes records as no run would.
fn damage(records: &mut Vec<Record>, pick: &mut impl FnMut(usize) -> usize) {
    let (at, other) = (1 + pick(records.len() - 1), 1 + pick(records.len() - 1));
    let some = Pid(pick(9) as u64);
    match pick(9) {
        0 => drop(records.remove(at)),
        1 => records.swap(at, other),
        2 => records.insert(at, records[other].clone()),
        3 => records.truncate(at + 1),
        _ => match &mut records[at] {
            Record::Started(_) => {}
            Record::Stepped(stepped) => match pick(6) {
                0 => stepped.pid = some,
                1 => stepped.step = pick(4) as u64,
                2 => stepped.took = pick(4) as u32,
                3 => {
                    stepped.status = [Status::Ready, Status::Complete(Payload::NULL), Status::Blocked][pick(3)].clone();
                }
                _ => {
                    let from = records[other].clone();
                    let Record::Stepped(stepped) = &mut records[at] else { return };
                    let Record::Stepped(from) = from else { return };
                    if from.decided.is_empty() || stepped.decided.is_empty() {
                        return;
                    }
                    let (to, from) = (pick(stepped.decided.len()), from.decided[pick(from.decided.len())].clone());
                    match pick(3) {
                        0 => stepped.decided[to].decision = from.decision,
                        1 => stepped.decided[to].command = from.command,
                        _ => stepped.decided.insert(to, from),
                    }
                }
            },
            Record::Died(died) => died.pid = some,
            Record::Leaving { pid, tag } => (*pid, *tag) = (some, Tag(pick(20) as u64)),
            Record::Upgraded(upgraded) => upgraded.run = "other".into(),
            Record::Arrived(arrived) => match &mut arrived.news {
                News::Answered { pid, tag, .. } | News::Due { pid, tag } | News::Again { pid, tag } => {
                    (*pid, *tag) = (some, Tag(pick(20) as u64));
                }
                News::Message { pid, .. } | News::Cancel { pid, .. } => *pid = some,
                News::Paused(paused) => *paused ^= true,
                News::TimedOut { .. } | News::GraceAgain | News::Signal { .. } => {}
            },
        },
    }
}

#[test]
fn a_run_whose_records_are_damaged_is_not_recovered_or_goes_on_and_never_panics() {
    let root = busy();
    let whole = records(&root);
    assert!(whole.len() > 20, "{}", whole.len());
    let (mut recovered, mut refused, mut panicked) = (0, 0, Vec::new());
    for seed in 1..4_000_u64 {
        let mut state: u64 = seed;
        let mut pick = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % bound.max(1)
        };
        let mut records = whole.clone();
        for _ in 0..=pick(3) {
            damage(&mut records, &mut pick);
        }
        let desk = Desk::new(1);
        let spec = recovery_spec(&root, &Arc::default(), &records);
        let result = catch_unwind(AssertUnwindSafe(|| desk.kernel.recover(spec, &records).map(drop)));
        let Ok(result) = result else {
            panicked.push(seed);
            continue;
        };
        *if result.is_ok() { &mut recovered } else { &mut refused } += 1;
    }
    assert!(panicked.is_empty(), "seeds {panicked:?}");
    assert!(recovered > 100 && refused > 100, "{recovered} and {refused}");
}

/// A projection folds whatever stands in the journal, whatever its first record says of bounds and
/// limits.
#[test]
fn damaged_records_are_projected_as_far_as_they_follow() {
    let whole = records(&busy());
    let (mut followed, mut panicked) = (0, Vec::new());
    for seed in 1..4_000_u64 {
        let mut state: u64 = seed;
        let mut pick = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % bound.max(1)
        };
        let mut records = whole.clone();
        if let Record::Started(started) = &mut records[0] {
            let mut number = || [0, 1, u64::from(u32::MAX), u64::MAX / 2, u64::MAX][pick(5)];
            started.at = Timestamp(number());
            started.bounds = Bounds { bytes: number(), ties: number(), item_bytes: number(), ..started.bounds };
            started.limits.grace = Micros(number());
            started.limits.mailbox_bytes = number();
        }
        for _ in 0..pick(3) {
            damage(&mut records, &mut pick);
        }
        let project = || {
            let mut projection = Projection::default();
            let follows: Vec<bool> = records.iter().map(|record| projection.apply(record).is_ok()).collect();
            assert!(follows.is_sorted_by(|one, next| one >= next), "nothing follows what does not");
            assert_eq!(projection.counts().records, records.len() as u64);
            let _ = (projection.signal_waits(), projection.signals(), projection.uncertain(), projection.at());
            follows.into_iter().filter(|follows| *follows).count()
        };
        match catch_unwind(AssertUnwindSafe(project)) {
            Ok(count) => followed += usize::from(count == records.len()),
            Err(_) => panicked.push(seed),
        }
    }
    assert!(panicked.is_empty(), "seeds {panicked:?}");
    assert!(followed > 100, "{followed}");
}
