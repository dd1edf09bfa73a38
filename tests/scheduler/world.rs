//! Processes that test one thing each.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use wfhost::base::Monotonic;
use wfhost::process::{Allocation, Micros, Permit};
use wfhost::scheduler::{Commit, Interrupt, Next, Permitted, Port, Slot, Turn, Wake};

/// The commit point, and what it has seen.
#[derive(Default)]
pub(crate) struct World {
    results: Mutex<Vec<u64>>,
    changed: Condvar,
    pub(crate) panics: Mutex<Vec<(Slot, String)>>,
    pub(crate) slow: Mutex<Vec<Slot>>,
    pub(crate) cancelled: AtomicU64,
    pub(crate) early: AtomicU64,
    pub(crate) heard: AtomicU64,
    pub(crate) refused: AtomicU64,
    ticks: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// In the pool, and outside it.
    instances: [AtomicI64; 2],
    pub(crate) instances_most: AtomicI64,
    pub(crate) outside_most: AtomicI64,
    ran_inside: AtomicU64,
}

impl World {
    /// Waits for so many results.
    pub(crate) fn wait(&self, count: usize) -> Vec<u64> {
        let results = self.results.lock().unwrap();
        self.changed.wait_while(results, |results| results.len() < count).unwrap().clone()
    }

    pub(crate) fn wait_until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    fn wait_for_neighbours(&self) {
        let before = self.ticks.load(Ordering::Relaxed);
        Self::wait_until(|| self.ticks.load(Ordering::Relaxed) > before + 100);
    }

    fn result(&self, value: u64) -> Next {
        self.results.lock().unwrap().push(value);
        self.changed.notify_all();
        Next::Complete
    }

    fn instance(&self, allocation: Allocation, more: i64) {
        let now = self.instances[allocation as usize].fetch_add(more, Ordering::SeqCst) + more;
        let most = if allocation == Allocation::Pool { &self.instances_most } else { &self.outside_most };
        most.fetch_max(now, Ordering::SeqCst);
    }
}

/// A process.
pub(crate) struct Process {
    role: Role,
    permit: Permit,
    allocation: Allocation,
    has_instance: bool,
    evicts: Evicts,
    drops_with: Option<Arc<World>>,
    /// What came while it had no permit.
    kept: Vec<u64>,
    holds: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(world) = &self.drops_with {
            world.wait_for_neighbours();
            world.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// How an eviction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicts {
    AtOnce,
    Never,
    /// When the others have taken a hundred steps meanwhile; so it is with its admission and its
    /// end.
    Slowly,
}

enum Role {
    Fib { n: u64, parent: Option<Slot>, need: usize, sum: u64 },
    Parent { children: usize, heard: usize },
    Child { parent: Slot },
    SleepsUntil { due: Monotonic, is_set: bool },
    Waits,
    Deaf,
    WaitsInside(u64),
    RunsInside,
    Panics,
    Slow(Duration),
    Counts { left: u64, all: u64 },
    Ticks,
}

impl Process {
    fn new(role: Role, permit: Permit) -> Self {
        Self {
            role,
            permit,
            allocation: Allocation::Pool,
            has_instance: false,
            evicts: Evicts::AtOnce,
            drops_with: None,
            kept: Vec::new(),
            holds: None,
        }
    }

    fn hears(&mut self, events: &mut Vec<u64>) -> Vec<u64> {
        let mut heard = std::mem::take(&mut self.kept);
        heard.append(events);
        heard
    }

    /// The same, but it and its children cannot be evicted.
    pub(crate) fn stays(mut self) -> Self {
        self.evicts = Evicts::Never;
        self
    }

    /// The same, but to evict it takes long, and to admit it.
    pub(crate) fn evicts_slowly(mut self) -> Self {
        self.evicts = Evicts::Slowly;
        self
    }

    /// The same, but to drop it takes until the others have taken a hundred steps.
    pub(crate) fn drops_slowly(mut self, world: &Arc<World>) -> Self {
        self.drops_with = Some(Arc::clone(world));
        self
    }

    /// The same with something that takes long to drop.
    pub(crate) fn holds(mut self, what: Box<dyn std::any::Any + Send + Sync>) -> Self {
        self.holds = Some(what);
        self
    }

    pub(crate) fn ticks() -> Self {
        Self::new(Role::Ticks, Permit::NONE)
    }

    pub(crate) fn fib(n: u64, permit: Permit) -> Self {
        Self::new(Role::Fib { n, parent: None, need: 0, sum: 0 }, permit)
    }

    pub(crate) fn parent(children: usize, permit: Permit) -> Self {
        Self::new(Role::Parent { children, heard: 0 }, permit)
    }

    pub(crate) fn sleeps_until(due: Monotonic) -> Self {
        Self::new(Role::SleepsUntil { due, is_set: false }, Permit::NONE)
    }

    pub(crate) fn waits(permit: Permit) -> Self {
        Self::new(Role::Waits, permit)
    }

    pub(crate) fn deaf() -> Self {
        Self::new(Role::Deaf, Permit::NONE)
    }

    pub(crate) fn waits_inside(processes: u64) -> Self {
        Self::new(Role::WaitsInside(processes), Permit::NONE)
    }

    pub(crate) fn panics() -> Self {
        Self::new(Role::Panics, Permit::NONE)
    }

    pub(crate) fn slow(time: Duration) -> Self {
        Self::new(Role::Slow(time), Permit::NONE)
    }

    pub(crate) fn counts(events: u64) -> Self {
        Self::new(Role::Counts { left: events, all: events }, Permit::NONE)
    }
}

impl Commit for World {
    type Event = u64;
    type Process = Process;
    type Timer = Slot;

    fn step<P: Port<Self>>(&self, port: &mut P, turn: Turn, process: &mut Process, events: &mut Vec<u64>) -> Next {
        let events = &mut process.hears(events);
        if turn.permitted == Permitted::NotNow && !matches!(process.role, Role::Waits) {
            process.kept = std::mem::take(events);
            return Next::Ready;
        }
        if turn.permitted == Permitted::Never {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return match process.role {
                Role::Fib { parent: Some(parent), .. } | Role::Child { parent } => {
                    port.post(parent, 0, Wake::Event);
                    Next::Complete
                }
                _ => self.result(0),
            };
        }
        let makes_instance = turn.permitted == Permitted::Yes && !process.permit.is_none();
        if makes_instance && !std::mem::replace(&mut process.has_instance, true) {
            self.instance(process.allocation, 1);
        }
        let next = self.play(port, turn, process, events);
        if next == Next::Complete && std::mem::take(&mut process.has_instance) {
            self.instance(process.allocation, -1);
        }
        next
    }

    fn panicked<P: Port<Self>>(&self, _: &mut P, slot: Slot, _: &mut Process, message: &str) {
        self.panics.lock().unwrap().push((slot, message.to_owned()));
    }

    fn slow(&self, slot: Slot, _: &Process, took: Micros) {
        assert!(took > Micros(10_000));
        self.slow.lock().unwrap().push(slot);
    }

    fn evict(&self, process: &mut Process) -> bool {
        assert!(process.has_instance, "evicted without an instance");
        if process.evicts == Evicts::Never {
            return false;
        }
        if process.evicts == Evicts::Slowly {
            self.wait_for_neighbours();
        }
        process.has_instance = false;
        self.instance(process.allocation, -1);
        true
    }

    fn evicts_slowly(&self, process: &Process) -> bool {
        process.evicts == Evicts::Slowly
    }

    fn admitted(&self, process: &mut Process, allocation: Allocation) {
        if process.evicts == Evicts::Slowly {
            self.wait_for_neighbours();
        }
        process.allocation = allocation;
    }

    fn admits_slowly(&self, process: &Process, _: Allocation) -> bool {
        process.evicts == Evicts::Slowly
    }

    fn drops_slowly(&self, process: &Process) -> bool {
        process.drops_with.is_some() || process.holds.is_some()
    }

    fn fired<P: Port<Self>>(&self, port: &mut P, timers: &mut Vec<Slot>) {
        for slot in timers.drain(..) {
            port.post(slot, 0, Wake::Event);
        }
    }
}

impl World {
    fn play<P: Port<Self>>(&self, port: &mut P, turn: Turn, process: &mut Process, events: &mut Vec<u64>) -> Next {
        let Process { permit, evicts, .. } = *process;
        let mut fork = |role| {
            let mut child = Process::new(role, permit);
            child.evicts = evicts;
            assert!(port.spawn(child, permit).is_ok());
        };
        match &mut process.role {
            Role::Fib { n, parent, need, sum } => {
                match *n {
                    0 | 1 => *sum = *n,
                    n if *need == 0 => {
                        *need = 2;
                        fork(Role::Fib { n: n - 1, parent: Some(turn.slot), need: 0, sum: 0 });
                        fork(Role::Fib { n: n - 2, parent: Some(turn.slot), need: 0, sum: 0 });
                        return Next::Blocked;
                    }
                    _ => {}
                }
                *need -= events.len();
                *sum += events.drain(..).sum::<u64>();
                match (*need, parent) {
                    (1.., _) => Next::Blocked,
                    (0, None) => self.result(*sum),
                    (0, Some(parent)) => {
                        assert!(port.post(*parent, *sum, Wake::Event));
                        Next::Complete
                    }
                }
            }
            Role::Parent { children, heard } => {
                if *heard == 0 && events.is_empty() {
                    for _ in 0..*children {
                        fork(Role::Child { parent: turn.slot });
                    }
                }
                *heard += events.len();
                if heard < children { Next::Blocked } else { self.result(*heard as u64) }
            }
            Role::Child { parent } => {
                port.post(*parent, 1, Wake::Event);
                Next::Complete
            }
            Role::WaitsInside(processes) => {
                for _ in 0..*processes {
                    fork(Role::RunsInside);
                }
                Self::wait_until(|| self.ran_inside.load(Ordering::Acquire) == *processes);
                self.result(0)
            }
            Role::RunsInside => {
                self.ran_inside.fetch_add(1, Ordering::AcqRel);
                Next::Complete
            }
            role => self.play_alone(port, turn, role, events),
        }
    }

    /// The roles that start no further processes.
    fn play_alone<P: Port<Self>>(&self, port: &mut P, turn: Turn, role: &mut Role, events: &mut Vec<u64>) -> Next {
        match role {
            Role::SleepsUntil { due, is_set } => {
                if !std::mem::replace(is_set, true) {
                    port.timer(*due, turn.slot);
                    return Next::Blocked;
                }
                self.early.fetch_add(u64::from(port.monotonic() < *due), Ordering::Relaxed);
                self.result(0)
            }
            Role::Waits if turn.interrupted == Some(Interrupt::Cancel) => {
                self.cancelled.fetch_add(1, Ordering::Relaxed);
                Next::Complete
            }
            Role::Waits | Role::Deaf => Next::Blocked,
            Role::Ticks if turn.interrupted.is_some() => Next::Complete,
            Role::Ticks => {
                self.ticks.fetch_add(1, Ordering::Relaxed);
                Next::Ready
            }
            Role::Panics => panic!("on purpose"),
            Role::Slow(time) => {
                let start = Instant::now();
                while start.elapsed() < *time {
                    std::hint::spin_loop();
                }
                self.result(0)
            }
            Role::Counts { left, all } => {
                *left -= events.len() as u64;
                self.heard.fetch_add(events.len() as u64, Ordering::AcqRel);
                events.clear();
                if *left > 0 { Next::Idle } else { self.result(*all) }
            }
            _ => unreachable!("`play` has the others"),
        }
    }
}
