//! The bodies of a run that is being rebuilt, and the room that they take.

use crate::process::{Body, Budget, Pid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bodies by their pids. At most one instance is kept of those that can be evicted: all that lived at one time in the run may be far more
/// than there is room for.
pub(super) struct Bodies {
    known: BTreeMap<Pid, Embodied>,
    /// What instances are taken from; none where they are somebody else's to count.
    budget: Option<Arc<Budget>>,
    /// Who stepped last.
    last: Pid,
}

struct Embodied {
    body: Box<dyn Body>,
    /// What its instance takes.
    bytes: u64,
    /// It has an instance, for which the bytes are taken.
    live: bool,
}

impl Bodies {
    pub(super) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { known: BTreeMap::new(), budget, last: Pid::ROOT }
    }

    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.known.contains_key(&pid)
    }

    pub(super) fn get_mut(&mut self, pid: Pid) -> Option<&mut (dyn Body + 'static)> {
        self.known.get_mut(&pid).map(|embodied| &mut *embodied.body)
    }

    /// A process has a new body.
    pub(super) fn insert(&mut self, pid: Pid, body: Box<dyn Body>, bytes: u64) {
        self.leave(pid);
        self.known.insert(pid, Embodied { body, bytes, live: false });
    }

    /// Takes a body out.
    pub(super) fn remove(&mut self, pid: Pid) -> Option<Box<dyn Body>> {
        self.leave(pid);
        self.known.remove(&pid).map(|embodied| embodied.body)
    }

    /// The body of a process that is to step. Takes room for its instance, after the one that stepped before was evicted.
    ///
    /// # Errors
    /// The budget, where it has no room.
    pub(super) fn step(&mut self, pid: Pid) -> Result<&mut dyn Body, Arc<Budget>> {
        let last = std::mem::replace(&mut self.last, pid);
        if last != pid && self.known.get_mut(&last).is_some_and(|last| last.body.evict()) {
            self.leave(last);
        }
        let embodied = self.known.get_mut(&pid).expect("invariant: who steps has a body");
        if let (false, Some(budget)) = (embodied.live, &self.budget)
            && !budget.take(embodied.bytes)
        {
            return Err(Arc::clone(budget));
        }
        embodied.live = true;
        Ok(&mut *embodied.body)
    }

    /// The instance of a process is gone, or is about to be.
    fn leave(&mut self, pid: Pid) {
        if let Some(embodied) = self.known.get_mut(&pid)
            && std::mem::take(&mut embodied.live)
            && let Some(budget) = &self.budget
        {
            budget.give(embodied.bytes);
        }
    }
}

impl Drop for Bodies {
    fn drop(&mut self) {
        let Some(budget) = &self.budget else { return };
        let taken = self.known.values().filter(|embodied| embodied.live).map(|embodied| embodied.bytes).sum();
        // The instances first, then what they took.
        self.known.clear();
        budget.give(taken);
    }
}
