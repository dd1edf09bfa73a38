//! The timers of a run, by the monotonic clock. They can be taken back, which the scheduler's cannot: the run arms the scheduler's
//! for the earliest of its own only.
//!
//! An armed timer that is no longer wanted stays with the scheduler until it fires. So that a guest that sets ever earlier timers
//! and takes them back does not fill the scheduler's heap, one that is far away is armed early, at one of few times: when it fires,
//! what is left is armed again.

use crate::process::{Micros, Pid, Tag};
use std::collections::BTreeMap;

/// Names a timer: when it is due, and its number.
pub(super) type TimerKey = (Micros, u64);

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alarm {
    /// A sleep is over.
    Sleep(Tag),
    /// A call has had its time.
    Timeout(Tag),
    /// A process has had its grace.
    Grace,
}

/// The timers of a run.
#[derive(Default)]
pub(super) struct Timers {
    due: BTreeMap<TimerKey, (Pid, Alarm)>,
    next: u64,
    /// The times that the scheduler's timers are armed for, the earliest last.
    armed: Vec<Micros>,
    /// A timer was set, or one of the scheduler's has fired, since it was last asked for.
    changed: bool,
}

/// Timers farther away than this are armed early. Arbitrary.
const EXACT_MICROS_MAX: u64 = 1_000_000;

impl Timers {
    pub(super) fn set(&mut self, due: Micros, pid: Pid, alarm: Alarm) -> TimerKey {
        self.next += 1;
        self.changed = true;
        self.due.insert((due, self.next), (pid, alarm));
        (due, self.next)
    }

    pub(super) fn unset(&mut self, key: TimerKey) {
        self.due.remove(&key);
    }

    /// When the earliest is due.
    pub(super) fn next_due(&self) -> Option<Micros> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes out the earliest that is due.
    pub(super) fn pop(&mut self, now: Micros) -> Option<(Pid, Alarm)> {
        let first = self.due.first_entry()?;
        if first.key().0 > now { None } else { Some(first.remove()) }
    }

    /// Whether [`Self::arm`] may have something to ask for.
    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// What the scheduler is to be asked for: a time not after the earliest timer, unless such a one is armed already.
    pub(super) fn arm(&mut self, now: Micros) -> Option<Micros> {
        self.changed = false;
        let (due, _) = *self.due.first_key_value()?.0;
        if self.armed.last().is_some_and(|armed| *armed <= due) {
            return None;
        }
        let far = due.0.saturating_sub(now.0);
        let due = if far <= EXACT_MICROS_MAX {
            due
        } else {
            // The greatest multiple of an eighth of the distance's power of two: at most 16 such times for one power.
            let grain = 1 << (far.ilog2() - 3);
            Micros(due.0 / grain * grain).max(now)
        };
        self.armed.push(due);
        Some(due)
    }

    /// The scheduler's timers up to `now` have fired.
    pub(super) fn fired(&mut self, now: Micros) {
        self.changed = true;
        while self.armed.last().is_some_and(|armed| *armed <= now) {
            self.armed.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_timer_is_armed_early_and_fires_in_time() {
        let mut timers = Timers::default();
        let due = Micros(3_600_000_000);
        timers.set(due, Pid(1), Alarm::Grace);
        let (mut now, mut wakes) = (Micros(5), 0);
        let fired = loop {
            if let Some(armed) = timers.arm(now) {
                assert!(armed <= due && armed >= now);
                now = armed;
            }
            wakes += 1;
            timers.fired(now);
            if let Some(fired) = timers.pop(now) {
                break fired;
            }
        };
        assert_eq!((now, fired), (due, (Pid(1), Alarm::Grace)));
        assert!(wakes < 12, "{wakes}");
    }

    #[test]
    fn an_earlier_timer_is_armed_beside_a_later_one_and_a_later_one_is_not() {
        let mut timers = Timers::default();
        for (due, armed) in [(100, Some(100)), (50, Some(50)), (70, None), (50, None), (49, Some(49))] {
            timers.set(Micros(due), Pid(1), Alarm::Sleep(Tag(due)));
            assert_eq!(timers.arm(Micros(0)), armed.map(Micros), "{due}");
        }
        let mut fired = Vec::new();
        for now in [49, 50, 60, 100] {
            timers.fired(Micros(now));
            fired.extend(std::iter::from_fn(|| timers.pop(Micros(now))).map(|_| now));
            timers.arm(Micros(now));
        }
        assert_eq!(fired, [49, 50, 50, 100, 100]);
    }

    #[test]
    fn ever_earlier_timers_that_are_taken_back_arm_few() {
        let mut timers = Timers::default();
        let mut armed = 0;
        for due in (2_000_000..3_000_000_000_u64).rev().step_by(100_001) {
            let key = timers.set(Micros(due), Pid(1), Alarm::Sleep(Tag(1)));
            armed += u32::from(timers.arm(Micros(0)).is_some());
            timers.unset(key);
        }
        assert!(armed < 200, "{armed}");
        assert_eq!(timers.pop(Micros(u64::MAX)), None);
    }
}
