//! Many runs on one scheduler.

use super::capacity::Capacity;
use super::handle::RunHandle;
use super::offload::OffloadThread;
use super::parking::ParkingPolicy;
use super::parking::gone::GoneRuns;
use super::parking::waking::{Residency, SharedSpecs};
use super::run::Run;
use super::snapshot_writer::{SnapshotCounts, SnapshotPolicy, SnapshotWriter};
use super::stall::Stall;
use crate::base::brief::Brief;
use crate::process::Problem;
use crate::run::seam::awaited::Awaited;
use crate::run::seam::clock::Clock;
use crate::scheduler::{Handle, Port};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The commit point of all runs of a host: the scheduler steps processes by it.
#[derive(Clone)]
pub struct Kernel(Arc<Shared>);

/// Recovers the run with this id, if this host may have it.
pub(crate) type Recoverer = Arc<dyn Fn(&str) + Send + Sync>;

pub(in crate::run) struct Shared {
    clock: Clock,
    ports: RwLock<Option<Arc<dyn Ports>>>,
    /// The scheduler shuts down or stops. Written before it refuses a process for that reason, with
    /// a lock or an exchange of its own in between: so a caller that was refused sees it.
    pub(in crate::run) closing: AtomicBool,
    /// No further call leaves the host.
    calls_held: AtomicBool,
    snapshot_writer: SnapshotWriter,
    pub(in crate::run) stall: Stall,
    /// Why no run of this host will be durable any more.
    abandoned: Mutex<Option<Problem>>,
    pub(in crate::run) parking: Mutex<ParkingPolicy>,
    /// Recovers parked runs whose timers are due.
    pub(in crate::run) waking: OffloadThread,
    /// Shared by parked runs with the same programs, effects and sink.
    pub(in crate::run) specs: Mutex<SharedSpecs>,
    /// Unfinished runs by their ids.
    pub(in crate::run) runs: Brief<BTreeMap<Arc<str>, Residency>>,
    /// Runs that were parked and are in their journal alone. A leaf among locks.
    pub(in crate::run) gone: Mutex<GoneRuns>,
    /// How many of `runs` are in memory. Only a bound: it guards no other data.
    pub(in crate::run) resident: AtomicUsize,
    /// Runs that can be parked, with their serials, the one checked last at the end. Some are no
    /// longer in memory.
    pub(in crate::run) residents: Mutex<VecDeque<(Arc<str>, u64)>>,
    /// Bytes of the records of one run.
    journal_bytes_max: AtomicU64,
    /// Bounds the bytes that all runs hold.
    capacity: Arc<Capacity>,
    /// Recovers a run that is not in the list, if this host may have it.
    recovers: Mutex<Option<Recoverer>>,
    /// The last serial given to a run.
    serial: AtomicU64,
}

/// Bytes of the records of one run. Arbitrary: as much as a host reads in some seconds when it
/// recovers the run.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// A kernel that may be gone.
pub(in crate::run) struct WeakKernel(Weak<Shared>);

impl WeakKernel {
    pub(in crate::run) fn upgrade(&self) -> Option<Kernel> {
        self.0.upgrade().map(Kernel)
    }
}

/// Access to the scheduler from outside its workers.
pub trait Ports: Send + Sync {
    /// Calls `act` once with a port, unless the scheduler is gone.
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>));
}

impl Ports for Handle<Kernel> {
    fn with(&self, act: &mut dyn FnMut(&mut dyn Port<Kernel>)) {
        act(&mut self.clone());
    }
}

/// Evidence that a run was registered in the list.
#[must_use]
pub(in crate::run) struct Registered {
    /// The run was abandoned before it was registered.
    abandoned: Option<Box<Problem>>,
}

/// A timer of a run, named by its id: the run may have been parked meanwhile, or recovered.
pub enum Timer {
    /// One of the run's own timers may be due.
    Due(Arc<str>),
    /// Check whether the run can be parked. Ignored if the run's serial has changed.
    CheckParking(Arc<str>, u64),
}

impl Kernel {
    /// Makes a commit point without runs. [`Self::attach`] it to its scheduler before the first run
    /// is started.
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
            specs: Mutex::default(),
            runs: Brief::default(),
            gone: Mutex::default(),
            resident: AtomicUsize::new(0),
            residents: Mutex::default(),
            journal_bytes_max: AtomicU64::new(JOURNAL_BYTES_MAX),
            capacity: Arc::default(),
            recovers: Mutex::default(),
            serial: AtomicU64::new(0),
        }))
    }

    /// Sets its scheduler.
    pub fn attach(&self, ports: impl Ports + 'static) {
        *self.0.ports.write() = Some(Arc::new(ports));
    }

    /// Releases its scheduler, which holds it too. Late answers are dropped from now on.
    pub fn detach(&self) {
        *self.0.ports.write() = None;
    }

    /// Returns the unfinished runs in memory, in the order of their ids; [`Self::parked`] returns
    /// the others.
    #[must_use]
    pub fn runs(&self) -> Vec<RunHandle> {
        let here: Vec<Arc<Run>> = self.0.runs.lock().values().filter_map(Residency::in_memory).collect();
        here.into_iter().map(RunHandle::new).collect()
    }

    /// Returns what each run in memory waits for from people, in the order of their ids. What
    /// parked runs wait for is in their journal.
    #[must_use]
    pub fn awaited(&self) -> Vec<(Arc<str>, Vec<Awaited>)> {
        let here: Vec<Arc<Run>> = self.0.runs.lock().values().filter_map(Residency::in_memory).collect();
        let awaited = |run: Arc<Run>| {
            let inner = run.inner.lock();
            let of_run = if inner.has_ended { Vec::new() } else { inner.state.awaited() };
            (!inner.parked).then(|| (Arc::clone(&run.config.id), of_run))
        };
        here.into_iter().filter_map(awaited).collect()
    }

    /// Returns an unfinished run. A parked one stays parked until an operation needs it in memory.
    #[must_use]
    pub fn run(&self, id: &str) -> Option<RunHandle> {
        loop {
            let mut runs = self.0.runs.lock();
            let id = runs.get_key_value(id).map(|(id, _)| Arc::clone(id))?;
            let residency = runs.get_mut(&id)?;
            if let Some(residence) = residency.residence(&id, self) {
                return Some(RunHandle(residence));
            }
            match residency {
                Residency::InMemory(..) | Residency::Ending(_) => {
                    let here = residency.in_memory();
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

    /// As [`Self::run`], after a run that is not there was recovered, if that is done here.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<RunHandle> {
        self.run(id).or_else(|| {
            self.recover_absent(id);
            self.run(id)
        })
    }

    /// Recovers a run that is not there, if that is done here, and this host may have it.
    pub(in crate::run) fn recover_absent(&self, id: &str) {
        let recovers = self.0.recovers.lock().clone();
        if let Some(recovers) = recovers {
            recovers(id);
        }
    }

    /// Sets how [`Self::find`] recovers a run that is not there, if this host may have it.
    pub fn recover_by(&self, recovers: Option<Recoverer>) {
        *self.0.recovers.lock() = recovers;
    }

    /// Returns a run if it is in memory.
    pub(in crate::run) fn in_memory(&self, id: &str) -> Option<Arc<Run>> {
        self.0.runs.lock().get(id).and_then(Residency::in_memory)
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

    /// Notifies a run that its records up to this number, counted from 1, are durable.
    pub fn durable(&self, id: &str, record: u64) {
        if let Some(run) = self.in_memory(id) {
            self.with_port(|port| run.durable(port, record));
        }
    }

    /// Reports that no further record of the unfinished runs will be durable: nothing leaves the
    /// host for them from now on, and callers that wait for their outcome receive this problem. On
    /// disk they stay as they are.
    ///
    /// It applies to runs that begin later too.
    pub fn abandon(&self, problem: &Problem) {
        // Before the list is read: a run that is registered later checks this field afterwards.
        *self.0.abandoned.lock() = Some(problem.clone());
        let mut ids: Vec<Arc<str>> = self.0.runs.lock().keys().cloned().collect();
        ids.extend(self.0.gone.lock().keys().cloned());
        for id in ids {
            self.abandon_run(&id, problem);
        }
    }

    /// As [`Self::abandon`], for one run. It recovers no run, and does not wait for one that is
    /// being recovered: that run is abandoned when its recovery ends.
    pub fn abandon_run(&self, id: &str, problem: &Problem) {
        loop {
            let mut runs = self.0.runs.lock();
            let here = match runs.get_mut(id) {
                None => {
                    drop(runs);
                    return self.abandon_gone(id, problem);
                }
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
                Some(residency) => residency.in_memory(),
            };
            drop(runs);
            // A run that was parked meanwhile is found in its new place.
            if here.is_none_or(|run| run.abandon(problem)) {
                return;
            }
        }
    }

    /// As [`Self::abandon`], for parked runs: their logs release them.
    pub fn abandon_parked(&self, problem: &Problem) {
        let parked: Vec<_> =
            self.0.runs.lock().extract_if(.., |_, residency| matches!(residency, Residency::Parked(_))).collect();
        for (_, residency) in parked {
            residency.abandon(self, problem);
        }
    }

    /// Sets how many bytes the journal of one run may have: a process whose step would exceed that
    /// fails. The default is 1 GiB.
    pub fn bound_journals(&self, bytes_max: u64) {
        self.0.journal_bytes_max.store(bytes_max, Relaxed);
    }

    /// Sets how many bytes the processes of all runs together may make the host hold: queued
    /// events, commands without an answer, names, queries, keys and values. A run may hold as much
    /// as it leaves free, and 16 KiB in any case. The default is 2 GiB.
    pub fn bound_held(&self, bytes_max: u64) {
        self.0.capacity.set_max(bytes_max);
    }

    /// Returns the bytes that they hold now, except less than 16 KiB of each run.
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

    /// Sends no further call: the calls are sent when their runs are recovered.
    pub fn hold_calls(&self) {
        self.0.calls_held.store(true, Relaxed);
    }

    /// Sets when snapshots of durable runs are taken.
    pub fn snapshot_when(&self, policy: SnapshotPolicy) {
        self.0.snapshot_writer.set(policy);
    }

    /// Returns counts of the snapshots of durable runs.
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

    /// Stops steps from beginning while the disk is full, or allows them again. Steps in progress
    /// continue to their end.
    pub fn stall(&self, stalled: bool) {
        self.0.stall.set(stalled);
    }

    /// Whether no step may begin, because the disk is full.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.0.stall.is_set()
    }

    /// Allows steps from now on, whatever [`Self::stall`] says later: a caller that ends the
    /// scheduler waits for its workers.
    pub fn never_stall(&self) {
        self.0.stall.end();
    }

    pub(in crate::run) fn are_calls_held(&self) -> bool {
        self.0.calls_held.load(Relaxed)
    }

    pub(in crate::run) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Registers a run in the list; it may be the one that is being recovered. `None` if the list
    /// has another with its id.
    pub(in crate::run) fn register(&self, run: &Arc<Run>, is_woken: bool) -> Option<Registered> {
        let mut runs = self.0.runs.lock();
        let free = match runs.get(&run.config.id) {
            None => true,
            Some(Residency::InMemory(residency, _)) => residency.strong_count() == 0,
            Some(Residency::Waking { .. }) => is_woken,
            Some(Residency::Parked(_) | Residency::Ending(_)) => false,
        };
        if !free {
            return None;
        }
        let before = runs.insert(Arc::clone(&run.config.id), Residency::InMemory(Arc::downgrade(run), run.serial));
        self.0.resident.fetch_add(usize::from(!matches!(before, Some(Residency::InMemory(..)))), Relaxed);
        let abandoned = if let Some(Residency::Waking { abandoned, .. }) = before { abandoned } else { None };
        Some(Registered { abandoned })
    }

    /// Called once the lock of a registered run is free: abandons the run if the others were
    /// abandoned before, or if it was abandoned during its recovery.
    pub(in crate::run) fn registered(&self, run: &Run, registered: Registered) {
        let others = || self.0.abandoned.lock().clone();
        if let Some(problem) = registered.abandoned.map(|problem| *problem).or_else(others) {
            self.abandon_run(&run.config.id, &problem);
        }
    }

    /// Retains a run that has ended until its outcome is durable.
    pub(in crate::run) fn retain_ending(&self, run: &Arc<Run>) {
        if let Some(residency @ Residency::InMemory(..)) = self.0.runs.lock().get_mut(&run.config.id) {
            *residency = Residency::Ending(Arc::clone(run));
        }
    }

    /// Removes a run that is no longer in memory. Another run with its id stays in the list.
    pub(in crate::run) fn unregister(&self, run: &Run) {
        let mut runs = self.0.runs.lock();
        let is_it = runs.get(&run.config.id).is_some_and(|residency| residency.serial() == Some(run.serial));
        let residency = if is_it { runs.remove(&run.config.id) } else { None };
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
