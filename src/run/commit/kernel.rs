//! Many runs on one scheduler.

use super::capacity::Capacity;
use super::handle::RunHandle;
use super::offload::OffloadThread;
use super::parking::ParkingPolicy;
use super::parking::waking::{Residency, SharedSpecs};
use super::run::Run;
use super::snapshot_writer::{SnapshotCounts, SnapshotPolicy, SnapshotWriter};
use super::stall::Stall;
use crate::base::brief::Brief;
use crate::process::Problem;
use crate::run::seam::clock::Clock;
use crate::scheduler::{Handle, Port};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The commit point of all runs of a host: what its scheduler steps processes with.
#[derive(Clone)]
pub struct Kernel(Arc<Shared>);

pub(in crate::run) struct Shared {
    clock: Clock,
    ports: RwLock<Option<Arc<dyn Ports>>>,
    /// The scheduler shuts down or stops. Written before it refuses a process for that, with a lock or an exchange of its own in between: so
    /// whoever was refused sees it.
    pub(in crate::run) closing: AtomicBool,
    /// No further call leaves the host.
    calls_held: AtomicBool,
    snapshot_writer: SnapshotWriter,
    pub(in crate::run) stall: Stall,
    /// Why no run of this host will be durable any more.
    abandoned: Mutex<Option<Problem>>,
    pub(in crate::run) parking: Mutex<ParkingPolicy>,
    /// Takes up runs whose timers are due.
    pub(in crate::run) waking: OffloadThread,
    /// What parked runs have in common.
    pub(in crate::run) shared_specs: Mutex<SharedSpecs>,
    /// Unfinished runs by their ids.
    pub(in crate::run) runs: Brief<BTreeMap<Arc<str>, Residency>>,
    /// How many of those are in memory. Only a bound: it guards no other data.
    pub(in crate::run) resident: AtomicUsize,
    /// Those that can be parked, with their numbers, the one that was looked at last at the end. Some are not in memory any more.
    pub(in crate::run) residents: Mutex<VecDeque<(Arc<str>, u64)>>,
    /// Bytes of the records of one run.
    journal_bytes_max: AtomicU64,
    /// Room for what runs hold.
    capacity: Arc<Capacity>,
    /// Numbers that were given to runs.
    serial: AtomicU64,
}

/// Bytes of the records of one run. Arbitrary: as much as a host reads in some seconds when it takes the run up.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// A kernel that may be gone.
pub(in crate::run) struct WeakKernel(Weak<Shared>);

impl WeakKernel {
    pub(in crate::run) fn upgrade(&self) -> Option<Kernel> {
        self.0.upgrade().map(Kernel)
    }
}

/// The scheduler, for whoever is not on one of its workers.
pub trait Ports: Send + Sync {
    /// Calls `act` once with a port, unless the scheduler is gone.
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>));
}

impl Ports for Handle<Kernel> {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut self.clone());
    }
}

/// That a run was entered into the list.
#[must_use]
pub(in crate::run) struct Registered {
    /// It was abandoned before.
    abandoned: Option<Box<Problem>>,
}

/// A timer of a run, which is named: it may have been parked meanwhile, or taken up again.
pub enum Timer {
    /// It has timers of its own behind it, one of which may be due.
    Due(Arc<str>),
    /// It is looked at whether it can be parked, if it has that number.
    CheckParking(Arc<str>, u64),
}

impl Kernel {
    /// A commit point without runs. [`Self::attach`] it to its scheduler before the first run is started.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared {
            clock,
            ports: RwLock::new(None),
            closing: AtomicBool::new(false),
            calls_held: AtomicBool::new(false),
            snapshot_writer: SnapshotWriter::new(),
            stall: Stall::default(),
            abandoned: Mutex::default(),
            parking: Mutex::default(),
            waking: OffloadThread::new("waking"),
            shared_specs: Mutex::default(),
            runs: Brief::default(),
            resident: AtomicUsize::new(0),
            residents: Mutex::default(),
            journal_bytes_max: AtomicU64::new(JOURNAL_BYTES_MAX),
            capacity: Arc::default(),
            serial: AtomicU64::new(0),
        }))
    }

    /// Says where its scheduler is.
    pub fn attach(&self, ports: impl Ports + 'static) {
        *self.0.ports.write() = Some(Arc::new(ports));
    }

    /// Lets go of its scheduler, which holds it too. Late answers are dropped from now on.
    pub fn detach(&self) {
        *self.0.ports.write() = None;
    }

    /// The unfinished runs in memory, in the order of their ids; [`Self::parked`] has the others.
    #[must_use]
    pub fn runs(&self) -> Vec<RunHandle> {
        let here: Vec<Arc<Run>> = self.0.runs.lock().values().filter_map(Residency::here).collect();
        here.into_iter().map(RunHandle::new).collect()
    }

    /// An unfinished run. One that is parked stays so until something is done with it.
    #[must_use]
    pub fn run(&self, id: &str) -> Option<RunHandle> {
        loop {
            let mut runs = self.0.runs.lock();
            let (id, residency) = (runs.get_key_value(id).map(|(id, _)| Arc::clone(id))?, runs.get_mut(id)?);
            if let Some(residence) = residency.residence(&id, self) {
                return Some(RunHandle(residence));
            }
            match residency {
                Residency::InMemory(..) | Residency::Ending(_) => {
                    let here = residency.here();
                    drop(runs);
                    return here.map(RunHandle::new);
                }
                Residency::Waking { done, .. } => {
                    let done = Arc::clone(done);
                    drop(runs);
                    let _ = done.wait(None);
                }
                Residency::Parked(_) => unreachable!("invariant: it has a residence"),
            }
        }
    }

    /// A run that is in memory.
    pub(in crate::run) fn in_memory(&self, id: &str) -> Option<Arc<Run>> {
        self.0.runs.lock().get(id).and_then(Residency::here)
    }

    pub(in crate::run) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(in crate::run) fn downgrade(&self) -> WeakKernel {
        WeakKernel(Arc::downgrade(&self.0))
    }

    pub(in crate::run) fn next_serial(&self) -> u64 {
        self.0.serial.fetch_add(1, Relaxed)
    }

    /// Whether no further process may be made: the scheduler ends, or the host stops.
    pub(in crate::run) fn is_closing(&self) -> bool {
        self.0.closing.load(Relaxed) || self.are_calls_held()
    }

    /// The log says that a run's records up to this number, counted from 1, are durable.
    pub fn durable(&self, id: &str, record: u64) {
        if let Some(run) = self.in_memory(id) {
            self.with_port(|port| run.durable(port, record));
        }
    }

    /// Nothing that the unfinished runs write will be durable any more: nothing leaves the host for them from now on, and whoever waits for
    /// their outcome hears this problem. What they are on disk stays as it is.
    ///
    /// Runs that begin after it are told the same.
    pub fn abandon(&self, problem: &Problem) {
        // Before the list is read: whoever enters a run into it looks here afterwards.
        *self.0.abandoned.lock() = Some(problem.clone());
        let ids: Vec<Arc<str>> = self.0.runs.lock().keys().cloned().collect();
        for id in ids {
            self.abandon_run(&id, problem);
        }
    }

    /// As [`Self::abandon`], for one run. It takes no run up, and does not wait for one that is being taken up: that one hears it then.
    pub fn abandon_run(&self, id: &str, problem: &Problem) {
        loop {
            let mut runs = self.0.runs.lock();
            let here = match runs.get_mut(id) {
                None => return,
                Some(Residency::Parked(_)) => {
                    let parked = runs.remove(id);
                    drop(runs);
                    if let Some(parked) = parked {
                        parked.abandon(self, problem);
                    }
                    return;
                }
                Some(Residency::Waking { abandoned, .. }) => {
                    *abandoned = Some(Box::new(problem.clone()));
                    return;
                }
                Some(residency) => residency.here(),
            };
            drop(runs);
            // One that was parked meanwhile is found where it is now.
            if here.is_none_or(|run| run.abandon(problem)) {
                return;
            }
        }
    }

    /// As [`Self::abandon`], for the runs that are parked: their logs let go of them.
    pub fn abandon_parked(&self, problem: &Problem) {
        let parked: Vec<_> =
            self.0.runs.lock().extract_if(.., |_, residency| matches!(residency, Residency::Parked(_))).collect();
        for (_, residency) in parked {
            residency.abandon(self, problem);
        }
    }

    /// Says how many bytes the journal of one run may have: a process whose step would exceed that fails. It is 1 GiB otherwise.
    pub fn bound_journals(&self, bytes_max: u64) {
        self.0.journal_bytes_max.store(bytes_max, Relaxed);
    }

    /// Says how many bytes the processes of all runs together may make the host hold: what waits in queues or belongs to commands without an
    /// answer, names, queries, keys and values. A run may hold as much of it as it leaves free, and 16 KiB in any case. It is 2 GiB otherwise.
    pub fn bound_held(&self, bytes_max: u64) {
        self.0.capacity.set_max(bytes_max);
    }

    /// What they make it hold now, but for less than 16 KiB of each run.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.0.capacity.used()
    }

    pub(in crate::run) fn capacity(&self) -> Arc<Capacity> {
        Arc::clone(&self.0.capacity)
    }

    pub(in crate::run) fn journal_bytes_max(&self) -> u64 {
        self.0.journal_bytes_max.load(Relaxed)
    }

    /// Lets no further call leave: they leave when their runs are taken up again.
    pub fn hold_calls(&self) {
        self.0.calls_held.store(true, Relaxed);
    }

    /// Says when snapshots of durable runs are taken.
    pub fn snapshot_when(&self, policy: SnapshotPolicy) {
        self.0.snapshot_writer.set(policy);
    }

    /// What became of the snapshots of durable runs.
    #[must_use]
    pub fn snapshot_counts(&self) -> SnapshotCounts {
        self.0.snapshot_writer.counts()
    }

    /// Waits on this thread until the snapshots that were taken are written.
    pub fn flush_snapshots(&self) {
        self.0.snapshot_writer.flush();
    }

    pub(in crate::run) fn snapshot_writer(&self) -> &SnapshotWriter {
        &self.0.snapshot_writer
    }

    /// Lets no step begin, or lets them begin again: while the disk is full. Steps in their middle go on to their end.
    pub fn stall(&self, stalled: bool) {
        self.0.stall.set(stalled);
    }

    /// Whether no step may begin, because the disk is full.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.0.stall.is_set()
    }

    /// Lets steps begin from now on, whatever is said of stalling: whoever ends the scheduler waits for its workers.
    pub fn never_stall(&self) {
        self.0.stall.end();
    }

    pub(in crate::run) fn are_calls_held(&self) -> bool {
        self.0.calls_held.load(Relaxed)
    }

    pub(in crate::run) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Takes a run into the list; it may be the one that is being taken up. None: there is one of its id.
    pub(in crate::run) fn register(&self, run: &Arc<Run>, is_woken: bool) -> Option<Registered> {
        let mut runs = self.0.runs.lock();
        let free = match runs.get(&run.fixed.id) {
            None => true,
            Some(Residency::InMemory(residency, _)) => residency.strong_count() == 0,
            Some(Residency::Waking { .. }) => is_woken,
            Some(Residency::Parked(_) | Residency::Ending(_)) => false,
        };
        if !free {
            return None;
        }
        let before = runs.insert(Arc::clone(&run.fixed.id), Residency::InMemory(Arc::downgrade(run), run.serial));
        self.0.resident.fetch_add(usize::from(!matches!(before, Some(Residency::InMemory(..)))), Relaxed);
        let abandoned = if let Some(Residency::Waking { abandoned, .. }) = before { abandoned } else { None };
        Some(Registered { abandoned })
    }

    /// The lock of a run that was entered into the list is free: if the others were abandoned before, or it was while it was taken up, it
    /// hears it.
    pub(in crate::run) fn registered(&self, run: &Run, registered: Registered) {
        let others = || self.0.abandoned.lock().clone();
        if let Some(problem) = registered.abandoned.map(|problem| *problem).or_else(others) {
            self.abandon_run(&run.fixed.id, &problem);
        }
    }

    /// A run is over, and its outcome waits for a disk.
    pub(in crate::run) fn retain_ending(&self, run: &Arc<Run>) {
        if let Some(residency @ Residency::InMemory(..)) = self.0.runs.lock().get_mut(&run.fixed.id) {
            *residency = Residency::Ending(Arc::clone(run));
        }
    }

    /// A run is not in memory any more. Another of its id stays in the list.
    pub(in crate::run) fn unregister(&self, run: &Run) {
        let mut runs = self.0.runs.lock();
        let is_it = runs.get(&run.fixed.id).is_some_and(|residency| residency.serial() == Some(run.serial));
        let residency = if is_it { runs.remove(&run.fixed.id) } else { None };
        drop(runs);
        self.0.resident.fetch_sub(usize::from(residency.is_some()), Relaxed);
    }

    pub(in crate::run) fn with_port(&self, mut act: impl FnMut(&mut dyn Port<Self>)) {
        let ports = self.0.ports.read().clone();
        if let Some(ports) = ports {
            ports.with(&mut |port| act(port));
        }
    }
}
