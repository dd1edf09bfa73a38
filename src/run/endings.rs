//! How processes ended that are gone: whoever links to or monitors one of them hears it at once.

use crate::process::{Ending, Pid, Problem, problem::kind};
use std::collections::{BTreeMap, VecDeque};

/// Endings other than `completed` that are remembered. Arbitrary.
const REMEMBERED_MAX: usize = 1_024;

/// The endings of a run's processes, as far as they are remembered: the last ones that were not `completed`.
#[derive(Default)]
pub(super) struct Endings {
    by_pid: BTreeMap<Pid, Ending>,
    order: VecDeque<Pid>,
    forgotten: bool,
}

impl Endings {
    pub(super) fn remember(&mut self, pid: Pid, ending: &Ending) {
        if *ending == Ending::Completed {
            return;
        }
        if self.order.len() == REMEMBERED_MAX {
            let oldest = self.order.pop_front().expect("invariant: it is full");
            self.by_pid.remove(&oldest);
            self.forgotten = true;
        }
        self.order.push_back(pid);
        self.by_pid.insert(pid, ending.clone());
    }

    /// The ending of a process that has existed and is gone.
    pub(super) fn of(&self, pid: Pid) -> Ending {
        match self.by_pid.get(&pid) {
            Some(ending) => ending.clone(),
            None if !self.forgotten => Ending::Completed,
            None => Self::unknown("It ended long ago, and how is no longer known."),
        }
    }

    /// What stands for the ending of something that is not known.
    pub(super) fn unknown(detail: &str) -> Ending {
        Ending::Failed(Box::new(Problem::new(kind::NO_PROCESS, "No such process").with_detail(detail)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_went_wrong_is_kept_and_only_so_much_of_it() {
        let mut endings = Endings::default();
        endings.remember(Pid(1), &Ending::Completed);
        endings.remember(Pid(2), &Ending::Cancelled("x".into()));
        assert_eq!(endings.of(Pid(1)), Ending::Completed);
        assert_eq!(endings.of(Pid(2)), Ending::Cancelled("x".into()));
        for pid in 3..3 + REMEMBERED_MAX as u64 {
            endings.remember(Pid(pid), &Ending::Cancelled("y".into()));
        }
        assert!(matches!(endings.of(Pid(2)), Ending::Failed(problem) if problem.kind == kind::NO_PROCESS));
        assert_eq!(endings.by_pid.len(), REMEMBERED_MAX);
    }
}
