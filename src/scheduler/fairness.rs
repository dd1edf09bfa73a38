//! Where a worker looks first, so that no process starves.
//!
//! Two processes that wake each other are pushed and popped at the bottom of the deque for ever,
//! and thieves come only when they are idle. So:
//!
//! - **S1** after 3 processes in a row that this worker woke since it last looked elsewhere, it
//!   takes from the top of its deque;
//! - **S2** it does the same at every 31st turn;
//! - **S3** it looks at the global queue first at every 61st turn, and when a whole slice of fuel
//!   was used since it last did, by one turn or by several. If turns are short it looks at every
//!   5th reading of the [pace](super::pace)'s clock instead, which is about 30 µs: a process that
//!   waits there waits no longer for that, and of two processes that play ping-pong one would
//!   otherwise meet another process's slice at each 61st turn;
//! - **S4** but after a used-up slice that such a look led to, it takes from the top of its deque:
//!   two processes that use up their slices would go back and forth through the global queue, and
//!   the deque would never have its turn;
//! - **S5** a look at the global queue that is due waits while the turn before has woken a process
//!   here, for 3 turns at most: another process's slice does not separate a question from its
//!   answer.
//!
//! 31 and 61 are coprime with each other and with small periods of a workload; 3 is Go's and
//! tokio's bound for the same. All four arbitrary otherwise.

const STREAK_MAX: u32 = 3;
const TOP_EVERY: u32 = 31;
const GLOBAL_EVERY: u32 = 61;
/// The same in readings of the clock, if more turns than that lie between them.
const GLOBAL_EVERY_READINGS: u32 = 5;

/// Where to look first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// At the bottom of its own deque.
    Bottom,
    /// At its top.
    Top,
    /// At the global queue.
    Global,
}

/// The counters of the rules.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// Turns until such a look is due; at zero it is due.
    until_top: u32,
    until_global: u32,
    streak: u32,
    /// Whether a process was woken here since the last look.
    woken: bool,
    /// Turns for which a look at the global queue has waited.
    waited: u32,
    last: Look,
    /// The fuel of a slice, and the fuel used since the last look at the global queue.
    slice_fuel: u64,
    used: u64,
}

impl Fairness {
    pub(crate) fn new(slice_fuel: u64) -> Self {
        let (until_top, until_global) = (TOP_EVERY + 1, GLOBAL_EVERY + 1);
        let (streak, woken, waited, last) = (0, false, 0, Look::Bottom);
        Self { until_top, until_global, streak, woken, waited, last, slice_fuel: slice_fuel.max(1), used: 0 }
    }

    /// Where to look first in this turn. `interval` is the number of turns between two readings of
    /// the clock.
    #[inline]
    pub(crate) fn look(&mut self, turns: u32) -> Look {
        self.last = self.next(turns);
        self.last
    }

    #[inline]
    fn next(&mut self, turns: u32) -> Look {
        self.until_top = self.until_top.saturating_sub(1);
        // Turns may have become longer since it was set.
        let until_global_max = GLOBAL_EVERY.max(GLOBAL_EVERY_READINGS * turns);
        self.until_global = self.until_global.saturating_sub(1).min(until_global_max);
        let woken = std::mem::take(&mut self.woken);
        if self.until_global == 0 {
            if !woken || self.waited == STREAK_MAX {
                self.until_global = until_global_max;
                (self.used, self.waited) = (0, 0);
                return Look::Global;
            }
            self.waited += 1;
        }
        if self.until_top == 0 || self.streak >= STREAK_MAX {
            if self.until_top == 0 {
                self.until_top = TOP_EVERY;
            }
            self.streak = 0;
            return Look::Top;
        }
        Look::Bottom
    }

    /// A process was woken here, and goes to the bottom.
    #[inline]
    pub(crate) fn woken(&mut self) {
        self.woken = true;
    }

    /// A job was popped at the bottom.
    #[inline]
    pub(crate) fn popped(&mut self, woken_here: bool) {
        self.streak = if woken_here { self.streak + 1 } else { 0 };
    }

    /// Counts the fuel of a step. Used-up slices of it were counted when they ended.
    pub(crate) fn used(&mut self, fuel: u64) {
        self.used = self.used.saturating_add(fuel % self.slice_fuel);
        if self.used >= self.slice_fuel {
            self.used_slice();
        }
    }

    /// A whole slice was used up: a long time since the last look.
    pub(crate) fn used_slice(&mut self) {
        self.used = 0;
        if self.last == Look::Global {
            self.until_top = 0;
        } else {
            self.until_global = 0;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn first(fairness: &mut Fairness, look: Look, woken: bool) -> Option<usize> {
        (1..200).find(|_| {
            let found = fairness.look(1);
            if found == Look::Bottom {
                fairness.popped(woken);
            }
            found == look
        })
    }

    #[test]
    fn after_three_woken_ones_comes_the_top() {
        assert_eq!(first(&mut Fairness::new(1_000), Look::Top, true), Some(4));
    }

    #[test]
    fn every_31st_turn_takes_the_top_and_every_61st_the_global_queue() {
        assert_eq!(first(&mut Fairness::new(1_000), Look::Top, false), Some(32));
        let mut fairness = Fairness::new(1_000);
        assert_eq!(first(&mut fairness, Look::Global, false), Some(62));
        assert_eq!(first(&mut fairness, Look::Global, false), Some(61));
    }

    proptest::proptest! {
        /// Whatever is popped: no four woken ones in a row, and each look within its number of
        /// turns.
        #[test]
        fn the_rules_hold_for_any_sequence(
            pops in proptest::collection::vec((proptest::bool::weighted(0.8), proptest::bool::ANY), 0..500),
        ) {
            let mut fairness = Fairness::new(1_000);
            let (mut streak, mut since_top, mut since_global) = (0, 0, 0);
            for (woken, wakes) in pops {
                since_top += 1;
                since_global += 1;
                match fairness.look(1) {
                    Look::Bottom => {
                        fairness.popped(woken);
                        streak = if woken { streak + 1 } else { 0 };
                    }
                    Look::Top => (streak, since_top) = (0, 0),
                    Look::Global => since_global = 0,
                }
                if wakes {
                    fairness.woken();
                }
                proptest::prop_assert!(streak <= STREAK_MAX);
                // A turn may be due for both: then the global queue comes first, and the top after
                // it.
                proptest::prop_assert!(since_top <= TOP_EVERY + 1 && since_global <= GLOBAL_EVERY + STREAK_MAX + 1);
            }
        }
    }

    #[test]
    fn where_turns_are_short_the_global_queue_comes_less_often() {
        let mut fairness = Fairness::new(1_000);
        let global: Vec<usize> = (0..800).filter(|_| fairness.look(64) == Look::Global).collect();
        assert_eq!(global, [61, 61 + 5 * 64, 61 + 2 * 5 * 64]);
    }

    #[test]
    fn a_look_at_the_global_queue_waits_for_what_was_woken_but_not_for_ever() {
        let mut fairness = Fairness::new(1_000);
        let mut look = |wakes: bool| {
            let look = fairness.look(1);
            fairness.popped(true);
            if wakes {
                fairness.woken();
            }
            look
        };
        let mut first = |wakes: bool| (1..1_000).find(|_| look(wakes) == Look::Global);
        assert_eq!(first(false), Some(62));
        // The turn before has woken nobody.
        assert_eq!(first(true), Some(61 + STREAK_MAX as usize));
        assert_eq!(first(true), Some(61 + STREAK_MAX as usize));
    }

    #[test]
    fn a_spent_slice_turns_to_the_global_queue() {
        let mut fairness = Fairness::new(1_000);
        fairness.used_slice();
        assert_eq!(fairness.look(1), Look::Global);
    }

    #[test]
    fn turns_that_together_use_a_slice_turn_to_the_global_queue() {
        let mut fairness = Fairness::new(1_000);
        let looks: Vec<Look> = (0..50)
            .map(|_| {
                fairness.used(400);
                fairness.look(1)
            })
            .collect();
        let global = |looks: &[Look]| looks.iter().filter(|look| **look == Look::Global).count();
        assert!(looks.windows(6).all(|looks| global(looks) >= 1), "{looks:?}");
    }

    #[test]
    fn slices_that_are_all_used_up_alternate_between_the_global_queue_and_the_top() {
        let mut fairness = Fairness::new(1_000);
        let looks: Vec<Look> = (0..200)
            .map(|_| {
                fairness.used_slice();
                fairness.look(1)
            })
            .collect();
        assert!(looks.chunks(2).all(|pair| pair == [Look::Global, Look::Top]), "{looks:?}");
    }
}
