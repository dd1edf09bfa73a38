//! The bodies of a run that is being rebuilt, and the room that they take.

use crate::process::{Body, Budget, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Evictable instances that are retained. With several, processes that step in turn are not evicted
/// at each of their steps, which takes 30 times as long as a short step (`cargo bench --bench
/// durable -- replay`); and most of the default budget, which holds 59 guests of the default
/// limits, is left to others. Arbitrary.
const KEPT_MAX: usize = 8;

/// Bodies by their pids. Of the evictable instances only a few are retained, those that stepped
/// last: the processes that lived at one time in the run may need far more room than there is.
pub(in crate::run) struct Bodies {
    known: BTreeMap<Pid, Embodied>,
    /// What instances are taken from; `None` if another budget counts them.
    budget: Option<Arc<Budget>>,
    /// Processes that have stepped and were not evicted since, the most recent one last. At most
    /// [`KEPT_MAX`]; one that cannot be evicted keeps its instance, and leaves this list until it
    /// steps again.
    recent: VecDeque<Pid>,
}

struct Embodied {
    body: Box<dyn Body>,
    /// Bytes of its instance.
    bytes: u64,
    /// Whether it has an instance, whose bytes are taken from the budget.
    live: bool,
}

impl Bodies {
    pub(in crate::run) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { known: BTreeMap::new(), budget, recent: VecDeque::new() }
    }

    pub(in crate::run) fn contains(&self, pid: Pid) -> bool {
        self.known.contains_key(&pid)
    }

    pub(in crate::run) fn get_mut(&mut self, pid: Pid) -> Option<&mut (dyn Body + 'static)> {
        self.known.get_mut(&pid).map(|embodied| &mut *embodied.body)
    }

    /// Gives a process a new body.
    pub(in crate::run) fn insert(&mut self, pid: Pid, body: Box<dyn Body>, bytes: u64) {
        self.release(pid);
        self.known.insert(pid, Embodied { body, bytes, live: false });
    }

    /// Removes a body.
    pub(in crate::run) fn remove(&mut self, pid: Pid) -> Option<Box<dyn Body>> {
        self.release(pid);
        self.recent.retain(|recent| *recent != pid);
        self.known.remove(&pid).map(|embodied| embodied.body)
    }

    /// The body of a process that is about to step. Takes room for its instance; evicts others if
    /// there is none, or if too many are retained.
    ///
    /// # Errors
    /// Returns the budget if it has no room.
    pub(in crate::run) fn step(&mut self, pid: Pid) -> Result<&mut dyn Body, Arc<Budget>> {
        if self.recent.back() != Some(&pid) {
            self.recent.retain(|recent| *recent != pid);
            while self.recent.len() >= KEPT_MAX {
                self.evict_oldest();
            }
            self.recent.push_back(pid);
        }
        let Embodied { bytes, live, .. } = self.known[&pid];
        if !live && let Some(budget) = self.budget.clone() {
            while !budget.take(bytes) {
                // The last one is the process itself.
                if self.recent.len() == 1 {
                    return Err(budget);
                }
                self.evict_oldest();
            }
        }
        let embodied = self.known.get_mut(&pid).expect("invariant: a process that steps has a body");
        embodied.live = true;
        Ok(&mut *embodied.body)
    }

    /// Evicts the process that has not stepped for the longest time, if it can be evicted.
    fn evict_oldest(&mut self) {
        let Some(oldest) = self.recent.pop_front() else { return };
        if self.known.get_mut(&oldest).is_some_and(|oldest| oldest.body.evict().is_done()) {
            self.release(oldest);
        }
    }

    /// Returns the bytes of a process's instance, which is gone or about to be.
    fn release(&mut self, pid: Pid) {
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::process::{Event, Eviction, Output, Progress, Timestamp};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const BYTES: u64 = 10;

    /// Has an instance from each step to its eviction.
    struct Counted {
        evicted: Arc<AtomicU32>,
        stays: bool,
    }

    impl Body for Counted {
        fn begin(&mut self, _: Timestamp, _: &mut Vec<Event>) {}

        fn poll(&mut self, _: &mut Output) -> Progress {
            Progress::Preempted
        }

        fn evict(&mut self) -> Eviction {
            if self.stays {
                return Eviction::Stays;
            }
            self.evicted.fetch_add(1, Relaxed);
            Eviction::Done
        }
    }

    struct Rig {
        bodies: Bodies,
        budget: Arc<Budget>,
        evicted: Vec<Arc<AtomicU32>>,
    }

    impl Rig {
        /// Makes processes 1, 2, …: the first `staying` cannot be evicted, and there is room for
        /// `room`.
        fn new(count: usize, staying: usize, room: u64) -> Self {
            let budget = Arc::new(Budget::new(room * BYTES));
            let mut bodies = Bodies::new(Some(Arc::clone(&budget)));
            let evicted: Vec<Arc<AtomicU32>> = (0..count).map(|_| Arc::default()).collect();
            for (at, evicted) in evicted.iter().enumerate() {
                let body = Counted { evicted: Arc::clone(evicted), stays: at < staying };
                bodies.insert(Pid(at as u64 + 1), Box::new(body), BYTES);
            }
            Self { bodies, budget, evicted }
        }

        /// Returns whether there was room for the step.
        fn step(&mut self, pid: u64) -> bool {
            self.bodies.step(Pid(pid)).is_ok()
        }

        fn evicted(&self) -> Vec<u32> {
            self.evicted.iter().map(|evicted| evicted.load(Relaxed)).collect()
        }
    }

    #[test]
    fn processes_that_step_in_turn_keep_their_instances() {
        let count = KEPT_MAX as u64;
        let mut rig = Rig::new(KEPT_MAX, 0, 100);
        for _ in 0..3 {
            assert!((1..=count).all(|pid| rig.step(pid)));
        }
        assert_eq!(rig.evicted(), [0; KEPT_MAX]);
        assert_eq!(rig.budget.used(), count * BYTES);
    }

    #[test]
    fn beyond_those_the_one_that_has_not_stepped_for_longest_is_evicted() {
        let last = KEPT_MAX as u64 + 1;
        let mut rig = Rig::new(KEPT_MAX + 1, 0, 100);
        assert!((1..last).all(|pid| rig.step(pid)));
        assert!(rig.step(1) && rig.step(last));
        assert_eq!(rig.evicted()[..3], [0, 1, 0]);
        assert_eq!(rig.evicted().iter().sum::<u32>(), 1);
        assert_eq!(rig.budget.used(), KEPT_MAX as u64 * BYTES);
    }

    #[test]
    fn as_many_are_evicted_as_there_is_no_room_for() {
        let mut rig = Rig::new(3, 0, 2);
        assert!((1..=3).all(|pid| rig.step(pid)));
        assert_eq!(rig.evicted(), [1, 0, 0]);
        // Another user of the budget takes the rest.
        assert!(rig.bodies.remove(Pid(2)).is_some() && rig.budget.take(BYTES));
        assert!(rig.step(1));
        assert_eq!(rig.evicted(), [1, 0, 1]);
        assert_eq!(rig.budget.used(), 2 * BYTES);
        drop(rig.bodies);
        assert_eq!(rig.budget.used(), BYTES);
    }

    #[test]
    fn there_is_no_room_where_those_who_stay_have_taken_it() {
        let mut rig = Rig::new(3, 2, 2);
        assert!(rig.step(1) && rig.step(2) && !rig.step(3));
        assert_eq!(rig.evicted(), [0, 0, 0]);
        assert!(rig.step(1), "it has its room");
        assert!(rig.bodies.remove(Pid(2)).is_some());
        assert!(rig.step(3));
    }
}
