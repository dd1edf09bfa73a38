//! Runs on a scheduler that has fewer permits than processes.

use super::support::*;
use crate::journal::Memory;
use crate::process::{
    Action, Body, Command, Event, Eviction, Form, Micros, Output, Payload, Permit, Problem, ProcessInit,
    ProcessSnapshot, Program, Progress, RawSnapshot, SnapshotError, SnapshotSupport, Status, Tag, Timestamp,
};
use crate::run::{Clock, Durability, Kernel, Log, MemorySnapshots, RunHandle, SnapshotStore};
use crate::scheduler::{Config, TurnOutcome, VirtualScheduler};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 0 };

/// How many instances there are, and were at most.
#[derive(Default)]
struct Instances {
    live: AtomicUsize,
    most: AtomicUsize,
}

/// Guests that need a permit: the root starts a child and waits for it; the child waits for a
/// message.
struct Guests {
    instances: Arc<Instances>,
    gives_way: Arc<AtomicBool>,
}

struct Guest {
    program: Arc<Guests>,
    init: ProcessInit,
    has_instance: bool,
    steps: u64,
    heard: Vec<Event>,
}

impl Program for Arc<Guests> {
    fn permit(&self) -> Permit {
        ONE
    }

    fn digest(&self) -> Arc<str> {
        "guest".into()
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        let program = Arc::clone(self);
        Ok(Box::new(Guest { program, init, has_instance: false, steps: 0, heard: Vec::new() }))
    }

    fn snapshot_support(&self) -> SnapshotSupport {
        SnapshotSupport::Ready(Form::GuestEncoded)
    }
}

impl Body for Guest {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.heard.append(events);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if !std::mem::replace(&mut self.has_instance, true) {
            let live = self.program.instances.live.fetch_add(1, SeqCst) + 1;
            self.program.instances.most.fetch_max(live, SeqCst);
        }
        self.steps += 1;
        if self.heard.drain(..).any(|event| matches!(event, Event::Completed { .. })) {
            return Progress::Stepped(Status::Complete(Payload::NULL));
        }
        if self.steps == 1 {
            let is_root = &*self.init.entry == "root";
            let action = if is_root { spawns("child") } else { Action::Sleep(Micros(1_000_000)) };
            output.commands.push(Command { tag: Tag(1), action });
        }
        output.fuel = 1;
        Progress::Stepped(Status::Blocked)
    }

    fn evict(&mut self) -> Eviction {
        if !self.program.gives_way.load(SeqCst) {
            return Eviction::Stays;
        }
        if std::mem::take(&mut self.has_instance) {
            self.program.instances.live.fetch_sub(1, SeqCst);
        }
        Eviction::Done
    }

    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        Some(Box::new(TakenGuest))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.program.instances.live.fetch_sub(usize::from(self.has_instance), SeqCst);
    }
}

struct TakenGuest;

impl RawSnapshot for TakenGuest {
    fn pack(self: Box<Self>) -> Result<ProcessSnapshot, SnapshotError> {
        Ok(ProcessSnapshot {
            program: "guest".into(),
            contract: "".into(),
            next_tag: Tag(2),
            random: None,
            fuel: 0,
            form: Form::GuestEncoded,
            digest: [0; 32],
            state: Bytes::new(),
        })
    }

    fn bytes(&self) -> usize {
        1
    }
}

/// Records in memory, with a shelf beside them.
struct Shelving(Memory, MemorySnapshots);

impl Log for Shelving {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.0.append(record)
    }

    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        Some(Arc::new(self.1.clone()))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.0.records()
    }
}

/// A run of guests on a pool for one of them, as far as it goes by itself.
struct Rig {
    kernel: Kernel,
    scheduler: VirtualScheduler<Kernel>,
    run: RunHandle,
    shelf: MemorySnapshots,
    instances: Arc<Instances>,
    gives_way: Arc<AtomicBool>,
}

impl Rig {
    fn new(gives_way: bool) -> Self {
        let instances = Arc::<Instances>::default();
        let gives_way = Arc::new(AtomicBool::new(gives_way));
        let guests = Guests { instances: Arc::clone(&instances), gives_way: Arc::clone(&gives_way) };
        let guests: Arc<dyn Program> = Arc::new(Arc::new(guests));
        let kernel = Kernel::new(Clock::system());
        let config = Config { workers: 1, capacity: ONE, ..Config::default() };
        let scheduler = VirtualScheduler::new(Arc::new(kernel.clone()), &config);
        kernel.attach(scheduler.handle());
        let shelf = MemorySnapshots::default();
        let mut spec = spec(guests, Arc::default(), &Setup::default());
        spec.log = Box::new(Shelving(Memory::default(), shelf.clone()));
        let run = kernel.start(spec).unwrap();
        let mut rig = Self { kernel, scheduler, run, shelf, instances, gives_way };
        rig.settle();
        rig
    }

    fn settle(&mut self) {
        while self.scheduler.turn(0) != TurnOutcome::Nothing {}
    }

    /// How many processes have a snapshot.
    fn saved(&self) -> usize {
        self.kernel.flush_snapshots();
        self.shelf.list().unwrap().len()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.kernel.detach();
    }
}

#[test]
fn a_snapshot_makes_no_instance_for_one_that_waits_for_its_permit() {
    let mut rig = Rig::new(false);
    assert_eq!(rig.scheduler.stats().admitting, 1, "the child waits for the pool");
    rig.run.snapshot();
    rig.settle();
    assert_eq!((rig.instances.most.load(SeqCst), rig.scheduler.stats().admitting, rig.saved()), (1, 1, 1));
}

#[test]
fn a_snapshot_saves_who_was_evicted_and_does_not_bring_it_back() {
    let mut rig = Rig::new(true);
    let evictions = rig.scheduler.stats().evictions;
    assert_eq!((evictions, rig.saved()), (1, 0), "the root has given way to its child");
    rig.run.snapshot();
    rig.settle();
    assert_eq!((rig.instances.most.load(SeqCst), rig.saved()), (1, 2));
    assert_eq!(rig.scheduler.stats().evictions, evictions, "somebody had to give way for a snapshot");
}

#[test]
fn who_was_evicted_and_is_killed_ends_within_the_pool() {
    let mut rig = Rig::new(true);
    // Otherwise the child may give way once more, if it is seen to wait before its grace is seen to
    // have passed.
    rig.gives_way.store(false, SeqCst);
    rig.run.kill("it is over");
    rig.settle();
    let stats = rig.scheduler.stats();
    assert_eq!((stats.spawned, stats.completed, stats.evictions), (2, 2, 1));
    assert!(rig.run.outcome().is_some());
    assert_eq!((rig.instances.most.load(SeqCst), rig.instances.live.load(SeqCst)), (1, 0));
}
