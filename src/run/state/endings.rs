//! How processes that are gone have ended: a process that links to or monitors one of them gets its
//! ending at once.

use super::weight::ending_bytes;
use crate::process::{Ending, Pid, Problem, problem::kind};
use std::collections::{BTreeMap, VecDeque};

/// Endings other than `completed` that are remembered. Arbitrary.
const REMEMBERED_MAX: usize = 1_024;
/// Bytes of their texts, beside those of the last one. Arbitrary.
const REMEMBERED_BYTES_MAX: u64 = 1 << 20;

/// The endings of a run's processes, as far as they are remembered: the last ones other than
/// `completed`.
#[derive(Default)]
pub(in crate::run) struct Endings {
    by_pid: BTreeMap<Pid, Ending>,
    order: VecDeque<Pid>,
    bytes: u64,
    forgotten: bool,
}

impl Endings {
    pub(in crate::run) fn remember(&mut self, pid: Pid, ending: &Ending) {
        if *ending == Ending::Completed {
            return;
        }
        while self.order.len() == REMEMBERED_MAX || self.bytes > REMEMBERED_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.by_pid.remove(&oldest).map_or(0, |ending| ending_bytes(&ending));
            self.forgotten = true;
        }
        self.bytes += ending_bytes(ending);
        self.order.push_back(pid);
        self.by_pid.insert(pid, ending.clone());
    }

    /// Bytes of the remembered texts.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The ending of a process that has existed and is gone.
    pub(in crate::run) fn of(&self, pid: Pid) -> Ending {
        match self.by_pid.get(&pid) {
            Some(ending) => ending.clone(),
            None if !self.forgotten => Ending::Completed,
            None => Self::unknown("It ended long ago, and how is no longer known."),
        }
    }

    /// Stands for an ending that is not known.
    pub(in crate::run) fn unknown(detail: &str) -> Ending {
        Ending::Failed(Problem::new(kind::NO_PROCESS, "No such process").with_detail(detail).into())
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

    #[test]
    fn large_problems_are_forgotten_sooner_but_not_the_last_one() {
        let mut endings = Endings::default();
        let large = || Ending::Failed(Problem::new("mine", "It failed").with_detail("x".repeat(400_000)).into());
        for pid in 1..=100 {
            endings.remember(Pid(pid), &large());
            assert_eq!(endings.of(Pid(pid)), large());
        }
        assert_eq!(endings.by_pid.keys().copied().collect::<Vec<_>>(), [Pid(98), Pid(99), Pid(100)]);
        assert_eq!(endings.bytes(), 3 * ending_bytes(&large()));
        let huge = Ending::Cancelled("y".repeat(3 << 20).into());
        endings.remember(Pid(101), &huge);
        endings.remember(Pid(102), &Ending::Cancelled("z".into()));
        assert_eq!((endings.of(Pid(102)), endings.bytes()), (Ending::Cancelled("z".into()), 1));
    }
}
