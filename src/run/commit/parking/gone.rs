//! Runs that were parked and are in their journal alone: who waits for their outcomes.

use super::residence::Outcomes;
use crate::process::Problem;
use crate::run::commit::kernel::Kernel;
use crate::run::commit::run::Run;
use crate::run::state::events::Outcome;
use crate::run::state::run_state::Counts;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The outcomes of runs that are gone, by their ids, each with what is known of its run. Those that
/// nobody waits for are removed now and then.
pub(in crate::run) type GoneRuns = HashMap<Arc<str>, (Weak<Outcomes>, Counts)>;

impl Kernel {
    /// Removes a run from the list, whose log is parked as gone. The caller holds its commit lock.
    pub(in crate::run) fn put_gone(&self, run: &Run, counts: Counts) {
        let mut gone = self.shared().gone.lock();
        // So that each entry is looked at a few times in all.
        if gone.len().is_power_of_two() {
            gone.retain(|_, (outcome, _)| outcome.strong_count() > 0);
        }
        gone.insert(Arc::clone(&run.config.id), (Arc::downgrade(&run.outcome), counts));
        drop(gone);
        self.unregister(run);
    }

    /// Returns the outcome that those wait for who hold a run that is gone.
    pub(in crate::run) fn gone_outcome(&self, id: &str) -> Option<Arc<Outcomes>> {
        self.shared().gone.lock().get(id)?.0.upgrade()
    }

    /// Forgets that a run is gone: it is in memory again.
    pub(in crate::run) fn came_back(&self, id: &str) {
        self.shared().gone.lock().remove(id);
    }

    /// Returns a run that is gone, after it was recovered, if this host may have it.
    pub(in crate::run) fn wake_gone(&self, id: &str) -> Option<Arc<Run>> {
        self.gone_outcome(id)?;
        self.recover_absent(id);
        self.wake(id)
    }

    /// Abandons a run that is gone: those who wait for its outcome receive the problem.
    pub(in crate::run) fn abandon_gone(&self, id: &str, problem: &Problem) {
        let gone = self.shared().gone.lock().remove(id);
        if let Some((outcome, counts)) = gone
            && let Some(outcome) = outcome.upgrade()
        {
            outcome.set(Arc::new(Outcome::of_problem(problem.clone(), counts)));
        }
    }
}
