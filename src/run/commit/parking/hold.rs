//! Holding a run: it has left the memory, and nobody recovers it until the holder lets it.
//!
//! A holder changes what the run is recovered with. It takes step 5 of the protocol of parking,
//! with something in between: whoever needs the run meanwhile waits, as for any run that is being
//! recovered.

use super::waking::{FromParked, Parked, Residency, Waking};
use crate::process::Program;
use crate::run::commit::handle::RunHandle;
use crate::run::commit::kernel::{Kernel, Timer};
use crate::run::commit::observe::Once;
use crate::run::commit::run::{Inner, Run};
use crate::run::record::kinds::Record;
use crate::run::recovery::recover::{RecoveryError, RecoverySpec};
use crate::run::seam::effects::Effects;
use crate::run::seam::log::LogSink;
use crate::run::state::config::Programs;
use crate::run::state::outstanding::Pending;
use crate::scheduler::Port;
use std::sync::Arc;

/// A run that is held. When this is dropped, it is parked, and one that was in memory goes on: it
/// may have had something to do.
pub struct HeldRun {
    kernel: Kernel,
    id: Arc<str>,
    /// `None` once it was recovered.
    parked: Option<Box<Parked>>,
    done: Arc<Once<()>>,
}

/// Why a run cannot be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotHeld {
    /// This host has no such run that has not ended.
    Unknown,
    /// It cannot leave the memory now: a call of it is at a handler, a record of it is not durable,
    /// it waits for a place in its group, somebody of this process watches it, or the host stops.
    Busy,
}

/// What a run that is held was recovered or begun with.
pub struct Former {
    /// The program of its root process.
    pub root: Arc<dyn Program>,
    /// The programs that its processes may spawn.
    pub programs: Programs,
    /// What carries out its calls.
    pub effects: Arc<dyn Effects>,
    /// What receives its log lines.
    pub sink: Option<Arc<dyn LogSink>>,
}

impl Kernel {
    /// Holds a run. One that is in memory leaves it; a step in progress begins again when the run
    /// is recovered.
    ///
    /// # Errors
    /// Says why it cannot be held.
    pub fn hold(&self, id: &str) -> Result<HeldRun, NotHeld> {
        let mut was_resident = false;
        loop {
            let mut runs = self.shared().runs.lock();
            let (known, residency) = match runs.get_key_value(id).map(|(known, _)| Arc::clone(known)) {
                Some(known) => (Arc::clone(&known), runs.get_mut(&known).ok_or(NotHeld::Unknown)?),
                None => return Err(NotHeld::Unknown),
            };
            match residency {
                _ if self.is_closing() => return Err(NotHeld::Busy),
                Residency::Ending(_) => return Err(NotHeld::Unknown),
                Residency::Waking { done, .. } => {
                    let done = Arc::clone(done);
                    drop(runs);
                    let _ = done.wait(None);
                }
                Residency::InMemory(run, _) => {
                    let run = run.upgrade();
                    drop(runs);
                    let Some(run) = run else { return Err(NotHeld::Unknown) };
                    let mut left = Err(NotHeld::Busy);
                    self.with_port(|port| left = run.leave(port));
                    left?;
                    was_resident = true;
                }
                Residency::Parked(_) => {
                    let done = Arc::new(Once::new());
                    let waking = Residency::Waking { done: Arc::clone(&done), abandoned: None };
                    let Residency::Parked(mut parked) = std::mem::replace(residency, waking) else {
                        unreachable!("invariant: it was just seen")
                    };
                    parked.is_restless |= was_resident;
                    drop(runs);
                    parked.disarm(self);
                    return Ok(HeldRun { kernel: self.clone(), id: known, parked: Some(parked), done });
                }
            }
        }
    }
}

impl Inner {
    /// Whether nothing is lost if the run leaves the memory now: its records have all of it.
    fn can_leave(&mut self) -> bool {
        self.watchers.retain(|watcher| !watcher.is_abandoned());
        let is_open = self.is_queued || self.is_lost() || !self.watchers.is_empty() || self.has_undurable();
        let state = &self.state;
        let is_at_handler = |pid, tag, pending: &Pending| {
            matches!(pending, Pending::Call(_)) && !state.uncertain.contains_key(&(pid, tag))
        };
        !is_open
            && !state.has_consequences()
            && !state.table.iter().any(|(pid, entry)| {
                entry.lives() && entry.outstanding.iter().any(|(tag, pending)| is_at_handler(pid, tag, pending))
            })
    }
}

impl Run {
    /// Parks the run, if it can leave the memory.
    fn leave<P: Port<Kernel> + ?Sized>(self: &Arc<Self>, port: &mut P) -> Result<(), NotHeld> {
        let mut inner = self.inner.lock();
        if inner.has_ended {
            return Err(NotHeld::Unknown);
        }
        if inner.parked || (inner.log.can_park() && inner.can_leave() && self.park(inner, true, port)) {
            return Ok(());
        }
        Err(NotHeld::Busy)
    }
}

impl HeldRun {
    /// The number of its records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.parked.as_ref().map_or(0, |parked| parked.facts.counts.records)
    }

    /// Releases the run in its journal, and recovers it with what `prepare` gives, which owns it
    /// again. `None` if the host has no room for it: it is parked.
    ///
    /// # Errors
    /// Says why it is not recovered. Those who wait for its outcome are told so.
    pub fn recover(
        mut self,
        prepare: impl FnOnce(Former) -> Result<(RecoverySpec, Vec<Record>), String>,
    ) -> Result<Option<RunHandle>, String> {
        let Some(parked) = self.parked.take() else { return Ok(None) };
        let waking = Waking { kernel: &self.kernel, id: &self.id, done: Arc::clone(&self.done) };
        let Parked { spec, log, outcome, facts, clock_offset, is_restless, .. } = *parked;
        let outcome = outcome.upgrade().unwrap_or_else(|| Arc::new(Once::new()));
        let from_parked = FromParked { outcome: Arc::clone(&outcome), clock_offset, is_restless };
        let recovered = Waking::recovered(&outcome, facts.counts, || {
            drop(log);
            let (spec, records) = prepare(spec.former())?;
            match self.kernel.recover_as(spec, &records, Some(from_parked), None) {
                Ok(run) => Ok(Some(run)),
                Err(RecoveryError::Refused) => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        });
        drop(waking);
        Ok(recovered?.map(RunHandle::new))
    }
}

impl Drop for HeldRun {
    fn drop(&mut self) {
        let Some(mut parked) = self.parked.take() else { return };
        // Before its timer can fire: it finds the run parked, and not still held.
        let mut runs = self.kernel.shared().runs.lock();
        let due = parked.wakes.take().map(|(due, _)| due);
        self.kernel.with_port(|port| {
            let due = if parked.is_restless { Some(port.monotonic()) } else { due };
            parked.wakes = due.map(|due| (due, port.timer(due, Timer::Due(Arc::clone(&self.id)))));
        });
        let residency = runs.get_mut(&self.id);
        let abandoned = match residency {
            Some(residency @ Residency::Waking { abandoned: None, .. }) => {
                *residency = Residency::Parked(parked);
                None
            }
            Some(Residency::Waking { abandoned, .. }) => {
                let problem = abandoned.take();
                runs.remove(&self.id);
                problem.map(|problem| (problem, Residency::Parked(parked)))
            }
            _ => None,
        };
        drop(runs);
        if let Some((problem, parked)) = abandoned {
            parked.abandon(&self.kernel, &problem);
        }
        self.done.set(());
    }
}
