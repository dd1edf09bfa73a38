//! Where a worker looks first, so that nothing starves.
//!
//! At the bottom of the own deque two processes that wake each other are pushed and popped for ever, and thieves come only when they
//! are idle. So:
//!
//! - **S1** after 3 processes in a row that this worker woke since it last looked elsewhere, it takes from the top of its deque;
//! - **S2** so it does at every 31st turn;
//! - **S3** it looks at the global queue first at every 61st turn, and when a whole slice of fuel was used since it last did: by one turn
//!   or by several;
//! - **S4** but after a used-up slice that such a look led to, it takes from the top of its deque: two processes that use up their
//!   slices go to and fro through the global queue, and the deque would never have its turn.
//!
//! 31 and 61 are coprime with each other and with small periods of a workload; 3 is Go's and tokio's bound for the same. All three
//! arbitrary otherwise.

const STREAK_MAX: u32 = 3;
const TOP_EVERY: u32 = 31;
const GLOBAL_EVERY: u32 = 61;

/// Where to look first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// At the bottom of the own deque.
    Bottom,
    /// At its top.
    Top,
    /// At the global queue.
    Global,
}

/// The counters of the rules.
#[derive(Debug)]
pub(crate) struct Fairness {
    until_top: u32,
    until_global: u32,
    streak: u32,
    last: Look,
    /// The fuel of a slice, and what was used since the last look at the global queue.
    slice_fuel: u64,
    used: u64,
}

impl Fairness {
    pub(crate) fn new(slice_fuel: u64) -> Self {
        let (until_top, until_global) = (TOP_EVERY, GLOBAL_EVERY);
        Self { until_top, until_global, streak: 0, last: Look::Bottom, slice_fuel: slice_fuel.max(1), used: 0 }
    }

    /// Where to look first in this turn.
    #[inline]
    pub(crate) fn look(&mut self) -> Look {
        self.last = self.next();
        self.last
    }

    #[inline]
    fn next(&mut self) -> Look {
        self.until_top = self.until_top.wrapping_sub(1);
        self.until_global = self.until_global.wrapping_sub(1);
        if self.until_global >= GLOBAL_EVERY {
            self.until_global = GLOBAL_EVERY - 1;
            self.used = 0;
            return Look::Global;
        }
        if self.until_top >= TOP_EVERY || self.streak >= STREAK_MAX {
            if self.until_top >= TOP_EVERY {
                self.until_top = TOP_EVERY - 1;
            }
            self.streak = 0;
            return Look::Top;
        }
        Look::Bottom
    }

    /// A job was popped at the bottom.
    #[inline]
    pub(crate) fn popped(&mut self, woken_here: bool) {
        self.streak = if woken_here { self.streak + 1 } else { 0 };
    }

    /// A step used so much fuel. Slices that it used up were counted when they were.
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
            let found = fairness.look();
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
        /// Whatever is popped: no four woken ones in a row, and each look within its number of turns.
        #[test]
        fn the_rules_hold_for_any_sequence(pops in proptest::collection::vec(proptest::bool::weighted(0.8), 0..500)) {
            let mut fairness = Fairness::new(1_000);
            let (mut streak, mut since_top, mut since_global) = (0, 0, 0);
            for woken in pops {
                since_top += 1;
                since_global += 1;
                match fairness.look() {
                    Look::Bottom => {
                        fairness.popped(woken);
                        streak = if woken { streak + 1 } else { 0 };
                    }
                    Look::Top => (streak, since_top) = (0, 0),
                    Look::Global => since_global = 0,
                }
                proptest::prop_assert!(streak <= STREAK_MAX);
                // A turn may be due for both: then the global queue comes first, and the top after it.
                proptest::prop_assert!(since_top <= TOP_EVERY + 1 && since_global <= GLOBAL_EVERY + 1);
            }
        }
    }

    #[test]
    fn a_spent_slice_turns_to_the_global_queue() {
        let mut fairness = Fairness::new(1_000);
        fairness.used_slice();
        assert_eq!(fairness.look(), Look::Global);
    }

    #[test]
    fn turns_that_together_use_a_slice_turn_to_the_global_queue() {
        let mut fairness = Fairness::new(1_000);
        let looks: Vec<Look> = (0..50)
            .map(|_| {
                fairness.used(400);
                fairness.look()
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
                fairness.look()
            })
            .collect();
        assert!(looks.chunks(2).all(|pair| pair == [Look::Global, Look::Top]), "{looks:?}");
    }
}
