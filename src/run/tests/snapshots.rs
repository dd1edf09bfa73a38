//! Runs that are recovered from a prefix of their records and some snapshots of their processes.

use super::desk::Desk;
use super::support::*;
use crate::base::{Monotonic, VirtualClock};
use crate::journal::Memory;
use crate::process::{
    Action, Body, Command, Event, Form, Micros, Output, Payload, Pid, Problem, ProcessInit, ProcessSnapshot, Program,
    Progress, RawSnapshot, SnapshotError, SnapshotSupport, Status, Tag, Timestamp,
};
use crate::run::{
    Decision, Durability, Log, MemorySnapshots, Record, RecoverySpec, RunHandle, SnapshotEntry, SnapshotPolicy,
    SnapshotStore, Verdict, verify,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A program whose processes can be saved. The root spawns three others and sleeps as they do, many
/// times; each mixes its events into a number, and the root completes with all of theirs. The root
/// is renewed once.
struct Savable {
    /// Steps that were executed.
    steps: Arc<AtomicU64>,
    /// What it calls itself.
    digest: &'static str,
    /// The clock that its steps take time of.
    time: Option<VirtualClock>,
}

const SLEEPS: u64 = 12;
const HOUR: Micros = Micros(3_600_000_000);

struct Mixer {
    init: ProcessInit,
    steps: Arc<AtomicU64>,
    digest: &'static str,
    time: Option<VirtualClock>,
    state: [u64; 4],
    heard: Vec<Event>,
}

/// Which number of the state is what.
const MIX: usize = 0;
const SLEPT: usize = 1;
const CHILDREN: usize = 2;
const NEXT_TAG: usize = 3;

impl Program for Savable {
    fn digest(&self) -> Arc<str> {
        self.digest.into()
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        let state = [1, 0, 0, init.next_tag.0];
        let (steps, digest, time) = (Arc::clone(&self.steps), self.digest, self.time.clone());
        Ok(Box::new(Mixer { init, steps, digest, time, state, heard: Vec::new() }))
    }

    fn snapshot_support(&self) -> SnapshotSupport {
        SnapshotSupport::Ready(Form::GuestEncoded)
    }

    fn restore(&self, init: ProcessInit, saved: &ProcessSnapshot) -> Result<Box<dyn Body>, SnapshotError> {
        saved.is_of(self.digest, "")?;
        let (numbers, rest) = saved.state.as_chunks();
        if numbers.len() != 3 || !rest.is_empty() {
            return Err(SnapshotError::Misfit("it has another length".into()));
        }
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let state = [numbers[0], numbers[1], numbers[2], saved.next_tag.0];
        let (steps, digest, time) = (Arc::clone(&self.steps), self.digest, self.time.clone());
        Ok(Box::new(Mixer { init, steps, digest, time, state, heard: Vec::new() }))
    }
}

struct TakenMixer(ProcessSnapshot);

impl RawSnapshot for TakenMixer {
    fn pack(self: Box<Self>) -> Result<ProcessSnapshot, SnapshotError> {
        Ok(self.0)
    }

    fn bytes(&self) -> usize {
        32
    }
}

impl Body for Mixer {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.heard.append(events);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        self.steps.fetch_add(1, Relaxed);
        if let Some(time) = &self.time {
            time.advance_to(Monotonic(time.now().0 + 10));
        }
        let is_root = self.init.pid == Pid::ROOT;
        let is_renewed = &*self.init.entry == "renewed";
        let begins = self.state[SLEPT] == 0 && self.heard.is_empty();
        let mut ask = |state: &mut [u64; 4], action| {
            output.commands.push(Command { tag: Tag(state[NEXT_TAG]), action });
            state[NEXT_TAG] += 1;
        };
        if self.digest == "sleeper" {
            if begins {
                ask(&mut self.state, Action::Sleep(HOUR));
                self.state[SLEPT] = 1;
                return Progress::Stepped(Status::Blocked);
            }
            self.heard.clear();
            return Progress::Stepped(Status::Complete(Payload::NULL));
        }
        for event in self.heard.drain(..) {
            let Event::Completed { answer: Ok(Payload::Json(json)), .. } = event else { panic!("{event:?}") };
            match json.as_str().parse::<u64>() {
                // What a child gives does not depend on when it does.
                Ok(number) => {
                    self.state[CHILDREN] += 1;
                    self.state[MIX] = self.state[MIX].wrapping_add(number >> 1);
                }
                Err(_) => {
                    self.state[SLEPT] += 1;
                    self.state[MIX] = self.state[MIX].wrapping_add(mix(self.state[SLEPT])) >> 1;
                    if self.state[SLEPT] < SLEEPS {
                        ask(&mut self.state, Action::Sleep(Micros(1_000)));
                    }
                }
            }
        }
        if begins {
            ask(&mut self.state, Action::Sleep(Micros(1_000)));
            if is_renewed {
                (0..3).for_each(|_| ask(&mut self.state, spawns("leaf")));
            }
        }
        let slept = self.state[SLEPT] >= SLEEPS;
        let status = match (is_root, is_renewed) {
            (true, false) if slept => Status::Renew { entry: "renewed".into(), input: Payload::NULL },
            (true, true) if slept && self.state[CHILDREN] == 3 => Status::Complete(number(self.state[CHILDREN])),
            (false, _) if slept => Status::Complete(number(mix(self.init.pid.0) >> 12)),
            _ => Status::Blocked,
        };
        // The digest of the commands depends on the state.
        let exposed = Action::Expose { query: "state".into(), value: number(self.state[MIX] >> 12) };
        ask(&mut self.state, exposed);
        output.fuel = 1;
        Progress::Stepped(status)
    }

    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        let state: Vec<u8> = self.state[..3].iter().flat_map(|number| number.to_le_bytes()).collect();
        Some(Box::new(TakenMixer(ProcessSnapshot {
            program: self.digest.into(),
            contract: "".into(),
            next_tag: Tag(self.state[NEXT_TAG]),
            random: None,
            fuel: 0,
            form: Form::GuestEncoded,
            digest: blake3::hash(&state).into(),
            state: state.into(),
        })))
    }
}

fn mix(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^ (n >> 29)
}

fn savable() -> (Arc<dyn Program>, Arc<AtomicU64>) {
    let steps = Arc::<AtomicU64>::default();
    (Arc::new(Savable { steps: Arc::clone(&steps), digest: "savable", time: None }), steps)
}

/// A program of the same kind that sleeps once, for an hour. Its steps take a moment.
pub(super) fn sleeper(time: VirtualClock) -> (Arc<dyn Program>, Arc<AtomicU64>) {
    let steps = Arc::<AtomicU64>::default();
    (Arc::new(Savable { steps: Arc::clone(&steps), digest: "sleeper", time: Some(time) }), steps)
}

/// Stores everything.
#[derive(Clone, Default)]
struct All(Arc<Mutex<BTreeMap<(Pid, u64), Bytes>>>);

impl SnapshotStore for All {
    fn put(&self, pid: Pid, step: u64, _: &[u8], data: Bytes) -> Result<(), String> {
        self.0.lock().insert((pid, step), data);
        Ok(())
    }

    fn list(&self) -> Result<Vec<SnapshotEntry>, String> {
        Ok(self.0.lock().keys().map(|&(pid, step)| SnapshotEntry { pid, step, bytes: 1 }).collect())
    }

    fn get(&self, pid: Pid, step: u64) -> Result<Option<Bytes>, String> {
        Ok(self.0.lock().get(&(pid, step)).cloned())
    }
}

/// Records in memory, with a shelf beside them.
struct Shelving {
    memory: Memory,
    shelf: Arc<dyn SnapshotStore>,
    durability: Durability,
}

impl Log for Shelving {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.memory.append(record);
        self.durability
    }

    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        Some(Arc::clone(&self.shelf))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.memory.records()
    }
}

/// Every step is followed by a snapshot.
const ALWAYS: SnapshotPolicy = SnapshotPolicy {
    tail: std::time::Duration::MAX,
    steps_max: 1,
    parked_tail: std::time::Duration::ZERO,
    waiting_bytes_max: 1 << 20,
};

fn start(desk: &Desk, root: &Arc<dyn Program>, shelf: Arc<dyn SnapshotStore>, durability: Durability) -> RunHandle {
    let mut spec = spec(Arc::clone(root), Arc::default(), &Setup::default());
    spec.log = Box::new(Shelving { memory: Memory::default(), shelf, durability });
    desk.kernel.start(spec).unwrap()
}

fn recover(desk: &Desk, root: &Arc<dyn Program>, records: &[Record], shelf: Arc<dyn SnapshotStore>) -> RunHandle {
    let log = Box::new(Shelving { memory: memory_of(records), shelf, durability: Durability::Now });
    let spec = RecoverySpec { log, ..recovery_spec(root, &Arc::default(), &[]) };
    desk.kernel.recover(spec, records).unwrap()
}

/// A run to its end, its records, a snapshot after every step, and the steps that it took.
fn whole() -> (Vec<Record>, BTreeMap<(Pid, u64), Bytes>, String) {
    let (root, steps) = savable();
    let mut desk = Desk::new(5);
    desk.kernel.snapshot_when(ALWAYS);
    let shelf = All::default();
    let run = start(&desk, &root, Arc::new(shelf.clone()), Durability::Now);
    desk.settle();
    let output = output(&run.outcome().expect("it ends"));
    desk.kernel.flush_snapshots();
    let counts = desk.kernel.snapshot_counts();
    assert_eq!(counts.kept, shelf.0.lock().len() as u64);
    // The last step of each process is followed by nothing, nor is a renewal.
    assert_eq!(counts.kept, steps.load(Relaxed) - 5, "{counts:?}");
    let all = shelf.0.lock().clone();
    (run.records().unwrap(), all, output)
}

/// How many steps of the processes that live are in the records, and which is the last of each.
fn lasts(records: &[Record]) -> BTreeMap<Pid, u64> {
    let mut lasts = BTreeMap::from([(Pid::ROOT, 0)]);
    for record in records {
        if let Record::Stepped(stepped) = record {
            lasts.insert(stepped.pid, stepped.step);
            for decided in &stepped.decided {
                if let Decision::Spawned(pid) = decided.decision {
                    lasts.insert(pid, 0);
                }
            }
            if matches!(stepped.status, Status::Complete(_)) {
                lasts.remove(&stepped.pid);
            }
        }
    }
    lasts
}

fn count_steps(records: &[Record]) -> u64 {
    records.iter().filter(|record| matches!(record, Record::Stepped(_))).count() as u64
}

#[test]
fn a_run_is_recovered_from_every_prefix_with_snapshots_at_any_steps() {
    let (records, all, expected) = whole();
    assert!(records.len() > 100 && all.len() > 50, "{} {}", records.len(), all.len());
    for count in 1..records.len() {
        let lasts = lasts(&records[..count]);
        let stepped = count_steps(&records[..count]);
        for seed in 1..4_u64 {
            let mut desk = Desk::new(seed);
            // Some of them, also such as follow steps that the records do not have.
            let some: BTreeMap<_, _> = match seed {
                1 => all.clone(),
                _ => all.iter().filter(|_| desk.pick(4) == 0).map(|(key, data)| (*key, data.clone())).collect(),
            };
            let beyond = |(pid, step): &&(Pid, u64)| lasts.get(pid).is_some_and(|last| step > last);
            let beyond = some.keys().filter(beyond).count() as u64;
            let (root, steps) = savable();
            let shelf = All(Arc::new(Mutex::new(some)));
            let recovered = recover(&desk, &root, &records[..count], Arc::new(shelf));
            assert_eq!(recovered.ignored_snapshots().1, beyond, "after {count} records");
            desk.settle();
            let outcome = recovered.outcome().unwrap_or_else(|| panic!("it ends, recovered after {count} records"));
            assert_eq!(output(&outcome), expected, "after {count} records");
            assert_eq!(recovered.ignored_snapshots().1, beyond, "after {count} records");
            let all_records = recovered.records().unwrap();
            if seed == 1 {
                // Each process continues right from its last step: none is repeated.
                assert_eq!(steps.load(Relaxed), count_steps(&all_records) - stepped, "after {count} records");
            }
            assert_eq!(all_records[..count], records[..count]);
        }
    }
}

#[test]
fn a_snapshot_that_does_not_fit_is_ignored_and_said() {
    let (records, all, expected) = whole();
    let count = records.len() * 4 / 5;
    let lasts = lasts(&records[..count]);
    let last = |pid: u64| (Pid(pid), lasts[&Pid(pid)]);
    let forged = |key: (Pid, u64), change: &dyn Fn(&mut ProcessSnapshot)| {
        let mut saved = ProcessSnapshot::decode(&all[&key]).unwrap();
        change(&mut saved);
        Bytes::from(saved.encode().unwrap())
    };
    let leaf = last(2);
    let lies = |saved: &mut ProcessSnapshot| {
        let mut state = saved.state.to_vec();
        state[..8].copy_from_slice(&[7; 8]);
        saved.state = state.into();
    };
    let mut damaged = all[&leaf].to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let before = (leaf.0, leaf.1 - 3);
    type Case<'a> = (&'a str, Vec<((Pid, u64), Bytes)>, u64);
    let cases: [Case<'_>; 6] = [
        ("damaged", vec![(leaf, damaged.into())], 1),
        ("another component", vec![(leaf, forged(leaf, &|saved| saved.program = "other".into()))], 1),
        ("another length", vec![(leaf, forged(leaf, &|saved| saved.state = Bytes::from_static(&[1; 30])))], 1),
        ("no snapshot", vec![(leaf, Bytes::from_static(b"something else"))], 1),
        // Later records show that it lies; the one before it does too, and then there is none.
        ("not what the records say", vec![(before, forged(before, &lies))], 1),
        (
            "not what the records say",
            vec![(before, forged(before, &lies)), ((before.0, before.1 - 1), forged((before.0, before.1 - 1), &lies))],
            2,
        ),
    ];
    for (why, snapshots, ignored) in cases {
        let mut desk = Desk::new(3);
        let (root, _) = savable();
        let shelf = All(Arc::new(Mutex::new(snapshots.into_iter().collect())));
        let recovered = recover(&desk, &root, &records[..count], Arc::new(shelf));
        desk.settle();
        assert_eq!(output(&recovered.outcome().unwrap()), expected, "{why}");
        let (said, times) = recovered.ignored_snapshots();
        assert_eq!(times, ignored, "{why}: {said:?}");
        assert!(said[0].why.contains(why) && said[0].pid == leaf.0, "{why}: {said:?}");
    }
}

/// A snapshot says nothing of a step that may be lost.
#[test]
fn a_snapshot_is_stored_when_its_step_is_durable() {
    let (root, _) = savable();
    let mut desk = Desk::new(1);
    desk.kernel.snapshot_when(ALWAYS);
    let shelf = All::default();
    let run = start(&desk, &root, Arc::new(shelf.clone()), Durability::Later);
    while desk.turn() {}
    desk.kernel.flush_snapshots();
    assert!(shelf.0.lock().is_empty());
    // Only that the run began is durable.
    run.durable(1);
    desk.kernel.flush_snapshots();
    assert!(shelf.0.lock().is_empty());
    run.durable(run.counts().records);
    desk.kernel.flush_snapshots();
    assert_eq!(shelf.0.lock().keys().copied().collect::<Vec<_>>(), [(Pid::ROOT, 1)]);
}

#[test]
fn a_process_that_waits_is_saved_on_request() {
    let (root, _) = savable();
    let mut desk = Desk::new(1);
    let shelf = MemorySnapshots::default();
    let run = start(&desk, &root, Arc::new(shelf.clone()), Durability::Now);
    while desk.turn() {}
    assert!(shelf.list().unwrap().is_empty(), "by itself it would be far away");
    for _ in 0..2 {
        // The second time there is nothing new.
        run.snapshot();
        while desk.turn() {}
        desk.kernel.flush_snapshots();
        let kept = shelf.list().unwrap();
        assert_eq!(kept.iter().map(|kept| (kept.pid, kept.step)).collect::<Vec<_>>(), [(Pid::ROOT, 1)]);
        assert_eq!(desk.kernel.snapshot_counts().kept, 1);
    }
    desk.settle();
    assert!(run.outcome().is_some());
}

#[test]
fn a_store_retains_the_last_two_of_each_process() {
    let shelf = MemorySnapshots::default();
    for step in [1, 5, 9] {
        shelf.put(Pid(1), step, b"", Bytes::from_static(b"x")).unwrap();
        shelf.put(Pid(2), 3, b"", Bytes::from_static(b"y")).unwrap();
    }
    let kept: Vec<_> = shelf.list().unwrap().into_iter().map(|kept| (kept.pid.0, kept.step)).collect();
    assert_eq!(kept, [(1, 5), (1, 9), (2, 3)]);
    assert_eq!(shelf.get(Pid(1), 1), Ok(None));
}

#[test]
fn snapshots_are_compared_with_what_the_records_come_to() {
    let (records, mut all, _) = whole();
    let (root, _) = savable();
    let programs = spec(Arc::clone(&root), Arc::default(), &Setup::default()).programs;
    let total = all.len();
    let lies = (Pid(3), 4);
    let mut saved = ProcessSnapshot::decode(&all[&lies]).unwrap();
    saved.digest[0] ^= 1;
    all.insert(lies, saved.encode().unwrap().into());
    all.insert((Pid(3), 5), Bytes::from_static(b"damaged"));
    all.insert((Pid(3), 999), Bytes::from_static(b"of no step"));
    let shelf = All(Arc::new(Mutex::new(all)));
    let found = verify(&records, &root, &programs, None, Arc::new(shelf)).unwrap();
    assert_eq!(found.steps, count_steps(&records));
    let count = |verdict: &dyn Fn(&Verdict) -> bool| {
        let which = found.snapshots.iter().filter(|one| verdict(&one.verdict));
        which.map(|one| (one.pid.0, one.step)).collect::<Vec<_>>()
    };
    assert_eq!(count(&|verdict| *verdict == Verdict::Differs), [(3, 4)]);
    assert_eq!(count(&|verdict| matches!(verdict, Verdict::Ignored(_))), [(3, 5), (3, 999)]);
    assert_eq!(count(&|verdict| *verdict == Verdict::Equal).len(), total - 2);
}
