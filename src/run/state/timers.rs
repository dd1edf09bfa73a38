//! The timers of a run, by the run's own clock.
//!
//! The scheduler has one timer for all of them, which fires when the earliest is due, or before: if
//! the earliest is cancelled, the scheduler's stays. When it fires, it is set anew for the next
//! one.

use crate::process::{Pid, Tag};
use crate::run::state::run_state::RunTime;
use crate::scheduler::TimerId;
use std::collections::BTreeMap;

/// Names a timer: when it is due, and its number.
pub(in crate::run) type TimerKey = (RunTime, u64);

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::run) enum Alarm {
    /// A sleep has ended.
    Sleep(Tag),
    /// The time of a call has passed.
    Timeout(Tag),
    /// The grace of a process has passed.
    Grace,
}

/// The timers of a run.
#[derive(Default)]
pub(in crate::run) struct Timers {
    due: BTreeMap<TimerKey, (Pid, Alarm)>,
    next: u64,
    /// The scheduler's timer, and when it fires.
    armed: Option<(RunTime, TimerId)>,
    /// Whether a timer was set, or the scheduler's has fired, since the last [`Self::arm`].
    changed: bool,
}

impl Timers {
    pub(in crate::run) fn set(&mut self, due: RunTime, pid: Pid, alarm: Alarm) -> TimerKey {
        self.next += 1;
        self.changed = true;
        self.due.insert((due, self.next), (pid, alarm));
        (due, self.next)
    }

    pub(in crate::run) fn unset(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// When the earliest is due.
    pub(in crate::run) fn next_due(&self) -> Option<RunTime> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Removes the earliest timer, if it is due.
    pub(in crate::run) fn pop(&mut self, now: RunTime) -> Option<(Pid, Alarm)> {
        let first = self.due.first_entry()?;
        if first.key().0 > now { None } else { Some(first.remove()) }
    }

    /// Returns whether [`Self::arm`] may return a time.
    pub(in crate::run) fn is_changed(&self) -> bool {
        self.changed
    }

    /// When the scheduler's timer is to fire, if it does not fire by then: [`Self::armed`] follows.
    pub(in crate::run) fn arm(&mut self) -> Option<RunTime> {
        self.changed = false;
        let due = self.next_due()?;
        self.armed.is_none_or(|(armed, _)| due < armed).then_some(due)
    }

    /// Notes that the scheduler's timer was set. Returns the one that was set before, which is to
    /// be cancelled.
    #[must_use]
    pub(in crate::run) fn armed(&mut self, due: RunTime, timer: TimerId) -> Option<TimerId> {
        self.armed.replace((due, timer)).map(|(_, before)| before)
    }

    /// Takes out the scheduler's timer, which is not needed any more.
    #[must_use]
    pub(in crate::run) fn disarm(&mut self) -> Option<TimerId> {
        self.armed.take().map(|(_, timer)| timer)
    }

    /// Notes that the scheduler's timers up to `now` have fired.
    pub(in crate::run) fn fired(&mut self, now: RunTime) {
        self.changed = true;
        self.armed.take_if(|(armed, _)| *armed <= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Monotonic;

    fn id(number: u64) -> TimerId {
        TimerId::new(Monotonic(0), number)
    }

    #[test]
    fn an_earlier_timer_is_armed_instead_of_a_later_one_and_a_later_one_is_not() {
        let mut timers = Timers::default();
        for (due, armed) in [(100, Some(100)), (50, Some(50)), (70, None), (50, None), (49, Some(49))] {
            timers.set(RunTime(due), Pid(1), Alarm::Sleep(Tag(due)));
            assert_eq!(timers.arm(), armed.map(RunTime), "{due}");
            if armed.is_some() {
                let _ = timers.armed(RunTime(due), id(due));
            }
        }
        let mut fired = Vec::new();
        while let Some((now, _)) = timers.armed {
            timers.fired(now);
            fired.extend(std::iter::from_fn(|| timers.pop(now)).map(|_| now.0));
            if let Some(due) = timers.arm() {
                assert_eq!(timers.armed(due, id(due.0)), None);
            }
        }
        assert_eq!(fired, [49, 50, 50, 70, 100]);
    }

    #[test]
    fn the_scheduler_has_one_timer_for_the_earliest() {
        let mut timers = Timers::default();
        let first = timers.set(RunTime(20), Pid(1), Alarm::Grace);
        assert_eq!(timers.arm(), Some(RunTime(20)));
        assert_eq!(timers.armed(RunTime(20), id(1)), None);
        timers.set(RunTime(30), Pid(1), Alarm::Sleep(Tag(1)));
        assert_eq!(timers.arm(), None, "a later one is none of its business yet");
        timers.set(RunTime(10), Pid(1), Alarm::Sleep(Tag(2)));
        assert_eq!(timers.arm(), Some(RunTime(10)));
        assert_eq!(timers.armed(RunTime(10), id(2)), Some(id(1)), "the one before is taken back");
        timers.unset(first);
        timers.fired(RunTime(10));
        assert_eq!(timers.pop(RunTime(10)), Some((Pid(1), Alarm::Sleep(Tag(2)))));
        assert_eq!(timers.arm(), Some(RunTime(30)));
        assert_eq!(timers.armed(RunTime(30), id(3)), None);
        assert_eq!((timers.disarm(), timers.disarm()), (Some(id(3)), None));
    }
}
