//! How long turns are, from as few readings of the clock as possible.
//!
//! A reading costs about 25 ns, as much as a whole turn of a ping-pong. So the clock is read once
//! in a number of turns, which is doubled or halved until the readings are some microseconds apart.
//! If the ends of turns are known anyway, because the commit point is
//! [timed](super::Commit::TIMED), the readings are never further apart than that and one turn;
//! otherwise by at most 64 turns.

use crate::base::Monotonic;
use crate::process::Micros;

/// Time between two readings of the clock. Arbitrary: they cost less than 1 %.
const APART_MAX: Micros = Micros(8);
const APART_MIN: Micros = Micros(4);
const INTERVAL_MAX: u32 = 64;
/// From this many turns between two readings on (a turn then takes less than a microsecond), work
/// is fine-grained.
const FINE: u32 = 8;

/// When to read the clock next.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: u32,
    left: u32,
    last: Monotonic,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { interval: 1, left: 1, last: Monotonic(0) }
    }

    /// Whether to read the clock in this turn.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// The clock was read because it was due.
    pub(crate) fn read(&mut self, now: Monotonic) {
        let apart = now.since(self.last);
        if apart > APART_MAX {
            self.interval = (self.interval / 2).max(1);
        } else if apart < APART_MIN {
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
        self.restart(now);
    }

    /// A turn has ended. One that was long is the first of many, as far as one can tell.
    #[inline]
    pub(crate) fn ended(&mut self, start: Monotonic, end: Monotonic) {
        if end.since(self.last) > APART_MAX {
            self.left = 1;
            if end.since(start) > APART_MAX {
                self.interval = 1;
            }
        }
    }

    /// The clock was read after a rest, which says nothing about turns.
    pub(crate) fn restart(&mut self, now: Monotonic) {
        self.last = now;
        self.left = self.interval;
    }

    /// How many turns lie between two readings of the clock.
    #[inline]
    pub(crate) fn interval(&self) -> u32 {
        self.interval
    }

    /// Whether turns take less than about a microsecond, so that a notice sent at a turn's end is
    /// not late.
    #[inline]
    pub(crate) fn is_fine(&self) -> bool {
        self.interval >= FINE
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Readings per 100 turns after 1,000 turns of that length.
    fn looks(turn_ns: u64) -> usize {
        let mut pace = Pace::new();
        let mut time = 0;
        (0..1100)
            .filter(|turn| {
                time += turn_ns;
                let due = pace.is_due();
                if due {
                    pace.read(Monotonic(time / 1000));
                }
                due && *turn >= 1000
            })
            .count()
    }

    #[test]
    fn one_long_turn_after_many_short_ones_is_seen_at_once() {
        let mut pace = Pace::new();
        for turn in 0..1000 {
            if pace.is_due() {
                pace.read(Monotonic(turn / 30));
            }
        }
        assert!(pace.is_fine());
        pace.ended(Monotonic(40), Monotonic(60));
        assert!(pace.is_due() && !pace.is_fine());
    }

    #[test]
    fn looks_are_never_further_apart_than_their_bound_and_a_turn() {
        let (mut pace, mut now, mut last) = (Pace::new(), 0, 0);
        // Turns become slower and slower, but none of them is long.
        for turn in 0..5000 {
            if pace.is_due() {
                pace.read(Monotonic(now));
                last = now;
            }
            let took = turn / 1000;
            pace.ended(Monotonic(now), Monotonic(now + took));
            now += took;
            assert!(now - last <= APART_MAX.0 + took, "{} after {took}", now - last);
        }
    }

    #[test]
    fn short_turns_read_seldom_and_long_ones_always() {
        assert!(looks(30) <= 2, "{}", looks(30));
        assert!((3..=30).contains(&looks(500)), "{}", looks(500));
        assert_eq!(looks(10_000), 100);
    }
}
