//! Runs for ids: in memory, parked, or being recovered. The protocol is in
//! [`crate::run::commit::parking`].

use super::hold::Former;
use super::residence::{Outcomes, Residence};
use super::{ParkedRun, ParkingPolicy};
use crate::base::Monotonic;
use crate::base::message_of;
use crate::process::{Micros, Problem, ProblemClass, Program, problem::kind};
use crate::run::commit::kernel::{Kernel, Timer};
use crate::run::commit::observe::Once;
use crate::run::commit::run::Run;
use crate::run::record::kinds::Record;
use crate::run::recovery::recover::{RecoveryError, RecoverySpec};
use crate::run::seam::effects::Effects;
use crate::run::seam::log::{LogSink, ParkedLog};
use crate::run::state::config::{Programs, RunConfig};
use crate::run::state::events::Outcome;
use crate::run::state::run_state::Counts;
use crate::scheduler::{Port, TimerId};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// How long to wait before a thread, or slots for processes, are asked for again.
pub(in crate::run) const WAKE_AGAIN: Micros = Micros(1_000_000);
/// Runs that each new one checks when there are too many.
const SWEEP_RUNS: usize = 16;
/// Stale entries tolerated before the resident queue is compacted.
const STALE_RESIDENTS_MAX: usize = 1_024;
/// Shared specifications before unused ones are removed.
const SHARED_SPECS_MAX: usize = 1_024;

/// What many runs have in common.
pub(in crate::run) struct SharedSpec {
    root: Arc<dyn Program>,
    programs: Programs,
    effects: Arc<dyn Effects>,
    sink: Option<Arc<dyn LogSink>>,
}

/// What stays of a run that is parked.
pub(in crate::run) struct Parked {
    pub(in crate::run) spec: Arc<SharedSpec>,
    pub(in crate::run) log: Box<dyn ParkedLog>,
    pub(in crate::run) outcome: Weak<Outcomes>,
    /// When its first timer is due, by the host's monotonic clock, and the scheduler's timer for
    /// that.
    pub(in crate::run) wakes: Option<(Monotonic, TimerId)>,
    /// As `Run::clock_offset`: the run's clock continues, however long it is parked.
    pub(in crate::run) clock_offset: i64,
    pub(in crate::run) facts: ParkedRun,
    /// It was held before it was quiet: it has something to do besides its timers.
    pub(in crate::run) is_restless: bool,
}

impl Parked {
    /// Unsets its timer: it is no longer parked.
    pub(in crate::run) fn disarm(&self, kernel: &Kernel) {
        if let Some((_, timer)) = self.wakes {
            kernel.with_port(|port| port.unset_timer(timer));
        }
    }
}

/// Where the run of an id is.
pub(in crate::run) enum Residency {
    /// It is in memory, and this is its serial.
    InMemory(Weak<Run>, u64),
    /// It has ended, and its outcome waits for a disk. Perhaps nothing else holds it any more: no
    /// process, and no handle that was there while it was parked.
    Ending(Arc<Run>),
    /// It is parked.
    Parked(Box<Parked>),
    /// A caller recovers it.
    Waking {
        /// Set when the recovery ends.
        done: Arc<Once<()>>,
        /// It was abandoned meanwhile, for this reason.
        abandoned: Option<Box<Problem>>,
    },
}

impl Residency {
    /// Returns the run in memory. A caller that holds the list's lock drops the run only after it
    /// has released the lock: it may be the last to hold it.
    pub(in crate::run) fn in_memory(&self) -> Option<Arc<Run>> {
        match self {
            Self::InMemory(run, _) => run.upgrade(),
            Self::Ending(run) => Some(Arc::clone(run)),
            Self::Parked(_) | Self::Waking { .. } => None,
        }
    }

    /// Returns the serial of the run that is in memory.
    pub(in crate::run) fn serial(&self) -> Option<u64> {
        match self {
            Self::InMemory(_, serial) => Some(*serial),
            Self::Ending(run) => Some(run.serial),
            Self::Parked(_) | Self::Waking { .. } => None,
        }
    }

    pub(in crate::run) fn parked_run(&self) -> Option<ParkedRun> {
        if let Self::Parked(parked) = self { Some(parked.facts) } else { None }
    }

    /// Returns the residence of a parked run.
    pub(in crate::run) fn residence(&mut self, id: &Arc<str>, kernel: &Kernel) -> Option<Arc<Residence>> {
        let Self::Parked(parked) = self else { return None };
        let outcome = parked.outcome.upgrade().unwrap_or_else(|| {
            let outcome = Arc::new(Once::new());
            parked.outcome = Arc::downgrade(&outcome);
            outcome
        });
        Some(Residence::parked(Arc::clone(id), kernel.clone(), outcome))
    }

    /// Abandons a parked run, which will not be recovered again: waiters for its outcome receive
    /// the problem.
    pub(in crate::run) fn abandon(&self, kernel: &Kernel, problem: &Problem) {
        let Self::Parked(parked) = self else { return };
        parked.disarm(kernel);
        if let Some(outcome) = parked.outcome.upgrade() {
            outcome.set(Arc::new(Outcome::of_problem(problem.clone(), parked.facts.counts)));
        }
    }
}

impl Kernel {
    /// Sets when runs that wait leave the memory. It counts for runs that begin or are recovered
    /// from then on.
    pub fn park_when(&self, policy: ParkingPolicy) {
        *self.shared().parking.lock() = policy;
    }

    pub(in crate::run) fn parking(&self) -> ParkingPolicy {
        *self.shared().parking.lock()
    }

    /// Returns how many runs are in memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.shared().resident.load(Relaxed)
    }

    /// Returns the runs that are parked, in the order of their ids, and what is known of each.
    #[must_use]
    pub fn parked(&self) -> Vec<(Arc<str>, ParkedRun)> {
        let runs = self.shared().runs.lock();
        runs.iter().filter_map(|(id, residency)| Some((Arc::clone(id), residency.parked_run()?))).collect()
    }

    /// Returns what is known of a run if it is parked.
    #[must_use]
    pub fn parked_run(&self, id: &str) -> Option<ParkedRun> {
        self.shared().runs.lock().get(id)?.parked_run()
    }

    /// Lets [`Self::flush_waking`] recover runs whose timers are due, on its caller's thread, and
    /// no thread of the kernel's. For simulation.
    pub fn wake_by_hand(&self) {
        self.shared().waking.do_by_hand();
    }

    /// Parks some of the runs that are quiet if too many are in memory, as each run does that
    /// begins.
    pub fn park_some(&self) {
        self.with_port(|port| self.sweep(port, None));
    }

    /// Returns when the first timer of an unfinished run is due, by the host's monotonic clock. It
    /// reads all of them: for simulation.
    #[must_use]
    pub fn next_due(&self) -> Option<Monotonic> {
        let (mut here, mut dues) = (Vec::new(), Vec::new());
        for residency in self.shared().runs.lock().values() {
            here.extend(residency.in_memory());
            if let Residency::Parked(parked) = residency {
                dues.extend(parked.wakes.map(|(due, _)| due));
            }
        }
        let due = |run: &Arc<Run>| Some(run.host_time(run.inner.lock().state.timers.next_due()?));
        dues.into_iter().chain(here.iter().filter_map(due)).min()
    }

    /// Waits on this thread until runs whose timers were due are recovered.
    pub fn flush_waking(&self) {
        self.shared().waking.flush();
    }

    /// Returns what this run has in common with others, stored once.
    pub(in crate::run) fn shared_spec_of(&self, config: &RunConfig) -> Arc<SharedSpec> {
        let digest = config.root.digest();
        let mut all = self.shared().specs.lock();
        if let Some(spec) = all.get(&digest).and_then(Weak::upgrade).filter(|spec| spec.matches(config)) {
            return spec;
        }
        if all.len() >= SHARED_SPECS_MAX {
            all.retain(|_, spec| spec.strong_count() > 0);
        }
        let spec = Arc::new(SharedSpec {
            root: Arc::clone(&config.root),
            programs: config.programs.clone(),
            effects: Arc::clone(&config.effects),
            sink: config.sink.clone(),
        });
        all.insert(digest, Arc::downgrade(&spec));
        spec
    }

    pub(in crate::run) fn put_parked(&self, id: &Arc<str>, parked: Parked) {
        let mut runs = self.shared().runs.lock();
        runs.insert(Arc::clone(id), Residency::Parked(Box::new(parked)));
        self.shared().resident.fetch_sub(1, Relaxed);
    }

    /// Returns the run of an id: step 5 of the protocol. `None` if there is no longer one, or it
    /// cannot be recovered.
    pub(in crate::run) fn wake(&self, id: &str) -> Option<Arc<Run>> {
        loop {
            let mut runs = self.shared().runs.lock();
            let residency = runs.get_mut(id)?;
            if matches!(residency, Residency::Parked(_)) && self.is_closing() {
                // On disk it stays as it is.
                return None;
            }
            match residency {
                Residency::InMemory(..) | Residency::Ending(_) => return residency.in_memory(),
                Residency::Waking { done, .. } => {
                    let done = Arc::clone(done);
                    drop(runs);
                    let _ = done.wait(None);
                }
                Residency::Parked(_) => {
                    let waking = Waking { kernel: self, id, done: Arc::new(Once::new()) };
                    let done = Arc::clone(&waking.done);
                    let residency = std::mem::replace(residency, Residency::Waking { done, abandoned: None });
                    drop(runs);
                    let Residency::Parked(parked) = residency else { unreachable!("invariant: it was just seen") };
                    return waking.recover(*parked);
                }
            }
        }
    }

    /// Follows a timer of a run that was last seen parked.
    pub(in crate::run) fn fired_parked<P: Port<Self> + ?Sized>(&self, port: &mut P, id: &Arc<str>) {
        let wakes = match self.shared().runs.lock().get(id) {
            Some(Residency::Parked(parked)) => parked.wakes,
            _ => None,
        };
        // A timer that was set before the run was parked may come early: the parked run's own is to
        // come.
        if wakes.is_none_or(|(due, _)| due > port.monotonic()) {
            return;
        }
        let (kernel, woken) = (self.downgrade(), Arc::clone(id));
        let is_pushed = self.shared().waking.push(move || {
            if let Some(kernel) = kernel.upgrade() {
                kernel.wake(&woken);
            }
        });
        if !is_pushed {
            // No thread can be started now.
            let again = port.monotonic().saturating_add(WAKE_AGAIN);
            if let Some(Residency::Parked(parked)) = self.shared().runs.lock().get_mut(id) {
                parked.wakes = Some((again, port.timer(again, Timer::Due(Arc::clone(id)))));
            }
        }
    }

    /// Parks some runs that are quiet if too many are in memory, but not the one that has just
    /// come: its caller needs it.
    pub(in crate::run) fn sweep<P: Port<Self> + ?Sized>(&self, port: &mut P, newcomer: Option<&Run>) {
        if self.shared().resident.load(Relaxed) <= self.parking().resident_max {
            return;
        }
        let some: Vec<_> = {
            let mut queue = self.shared().residents.lock();
            let count = SWEEP_RUNS.min(queue.len());
            queue.drain(..count).collect()
        };
        let here = |(id, serial): (Arc<str>, u64)| self.in_memory(&id).filter(|run| run.serial == serial);
        for run in some.into_iter().filter_map(here) {
            // It stays in the queue, at the end, until it is parked or has ended.
            self.shared().residents.lock().push_back((Arc::clone(&run.config.id), run.serial));
            if newcomer.is_none_or(|newcomer| newcomer.serial != run.serial) {
                run.park_now(port);
            }
        }
    }

    /// Adds a run that can be parked to the resident queue.
    pub(in crate::run) fn add_resident(&self, run: &Run) {
        let mut queue = self.shared().residents.lock();
        queue.push_back((Arc::clone(&run.config.id), run.serial));
        // Entries of runs that their own checks parked, or that have ended, are removed now and
        // then.
        if queue.len() > 2 * self.shared().resident.load(Relaxed) + STALE_RESIDENTS_MAX {
            let runs = self.shared().runs.lock();
            queue.retain(|(id, serial)| runs.get(id).and_then(Residency::serial) == Some(*serial));
        }
    }
}

impl SharedSpec {
    pub(super) fn former(&self) -> Former {
        let Self { root, programs, effects, sink } = self;
        Former { root: Arc::clone(root), programs: programs.clone(), effects: Arc::clone(effects), sink: sink.clone() }
    }

    fn matches(&self, config: &RunConfig) -> bool {
        let same_sink = match (&self.sink, &config.sink) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        same_sink
            && Arc::ptr_eq(&self.effects, &config.effects)
            && self.programs.len() == config.programs.len()
            && self
                .programs
                .iter()
                .zip(&config.programs)
                .all(|(one, other)| one.0 == other.0 && Arc::ptr_eq(one.1, other.1))
    }
}

/// What a parked run is recovered with, beside its records.
pub(in crate::run) struct FromParked {
    pub(in crate::run) outcome: Arc<Outcomes>,
    /// As [`Parked::clock_offset`].
    pub(in crate::run) clock_offset: i64,
    /// As [`Parked::is_restless`].
    pub(in crate::run) is_restless: bool,
}

/// The recovery of a parked run. However it ends, those who wait for it continue.
pub(super) struct Waking<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) id: &'a str,
    pub(super) done: Arc<Once<()>>,
}

impl Waking<'_> {
    fn recover(self, parked: Parked) -> Option<Arc<Run>> {
        parked.disarm(self.kernel);
        let Parked { spec, log, outcome, facts, clock_offset, is_restless, .. } = parked;
        let outcome = outcome.upgrade().unwrap_or_else(|| Arc::new(Once::new()));
        let from_parked = FromParked { outcome: Arc::clone(&outcome), clock_offset, is_restless };
        Self::recovered(&outcome, facts.counts, || self.try_recover(&spec, log, from_parked)).ok().flatten()
    }

    /// Recovers the run by `recover`. If that fails, those who wait for its outcome are told so.
    pub(super) fn recovered(
        outcome: &Outcomes,
        counts: Counts,
        recover: impl FnOnce() -> Result<Option<Arc<Run>>, String>,
    ) -> Result<Option<Arc<Run>>, String> {
        // A fault of one run, or of its recovery, concerns that run alone.
        let recovered = catch_unwind(AssertUnwindSafe(recover));
        let recovered =
            recovered.unwrap_or_else(|cause| Err(format!("recovering it panicked: {}", message_of(&*cause))));
        recovered.inspect_err(|why| {
            let problem = Problem::new(kind::JOURNAL_FAILED, "The run was parked and cannot be recovered")
                .with_detail(why.clone())
                .with_class(ProblemClass::Uncertain);
            outcome.set(Arc::new(Outcome::of_problem(problem, counts)));
        })
    }

    /// `None` if the host has no room for it: it was then parked again.
    fn try_recover(
        &self,
        spec: &SharedSpec,
        log: Box<dyn ParkedLog>,
        from_parked: FromParked,
    ) -> Result<Option<Arc<Run>>, String> {
        let (log, records) = log.recover()?;
        let records = Record::decode_run(records).map_err(|damaged| format!("{damaged}: {}", damaged.why))?;
        let id = records.first().and_then(Record::started).map_or("", |started| &started.run);
        Record::recall_from(&records, spec.effects.recalls(id));
        let spec = RecoverySpec {
            root: Arc::clone(&spec.root),
            programs: spec.programs.clone(),
            left: Vec::new(),
            unless_paused: false,
            log,
            effects: Arc::clone(&spec.effects),
            sink: spec.sink.clone(),
            watcher: None,
        };
        match self.kernel.recover_as(spec, &records, Some(from_parked), None) {
            Ok(run) => Ok(Some(run)),
            Err(RecoveryError::Refused) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        let mut runs = self.kernel.shared().runs.lock();
        if matches!(runs.get(self.id), Some(Residency::Waking { done, .. }) if Arc::ptr_eq(done, &self.done)) {
            runs.remove(self.id);
        }
        drop(runs);
        self.done.set(());
    }
}

/// All of them in use, by the digest of the root.
pub(in crate::run) type SharedSpecs = HashMap<Arc<str>, Weak<SharedSpec>>;
