//! Values, counted in buckets that double.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets with a bound; one more has what is above.
const BUCKETS: usize = 18;

/// The first bound of durations, in microseconds: so the last one is 65.5 s.
const FIRST_MICROS: u64 = 500;

/// Counts values by their size. Any thread may add one, by two relaxed additions: each count stands
/// for itself, and a reader may find a value in a bucket that is not in the sum yet.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// The bound of the first bucket.
    first: u64,
    buckets: [AtomicU64; BUCKETS + 1],
    sum: AtomicU64,
}

/// What a histogram has counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct HistogramCounts {
    /// Buckets: the largest value of each, and how many values are in it and not in the one before.
    pub buckets: Vec<(u64, u64)>,
    /// How many values are larger.
    pub above: u64,
    /// The sum of all values.
    pub sum: u64,
}

impl HistogramCounts {
    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum::<u64>() + self.above
    }
}

impl Default for Histogram {
    /// Counts durations in microseconds, from 0.5 ms to 65.5 s.
    fn default() -> Self {
        Self::from(FIRST_MICROS)
    }
}

impl From<u64> for Histogram {
    /// Counts values in buckets up to `first`, and then up to twice as much each.
    fn from(first: u64) -> Self {
        debug_assert!(first > 0, "no value is in the first bucket");
        Self { first, buckets: Default::default(), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(crate) fn add(&self, value: u64) {
        let doublings = value.saturating_sub(1) / self.first;
        let bucket = (u64::BITS - doublings.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Adds the time since then, in microseconds.
    pub(crate) fn add_since(&self, begun: std::time::Instant) {
        self.add(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn counts(&self) -> HistogramCounts {
        let bounded = self.buckets.iter().take(BUCKETS).enumerate();
        HistogramCounts {
            buckets: bounded.map(|(at, count)| (self.first << at, count.load(Relaxed))).collect(),
            above: self.buckets[BUCKETS].load(Relaxed),
            sum: self.sum.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_first_bucket_that_holds_it() {
        for first in [1, 500] {
            for value in [0, 1, 2, 3, 499, 500, 501, 999, 1_000, 1_001, 2_000, 65_536_000, 65_536_001, u64::MAX] {
                let histogram = Histogram::from(first);
                histogram.add(value);
                let counts = histogram.counts();
                let bucket = counts.buckets.iter().find(|(_, count)| *count == 1).map(|(bound, _)| *bound);
                let holds = counts.buckets.iter().find(|(bound, _)| value <= *bound).map(|(bound, _)| *bound);
                assert_eq!(bucket, holds, "{value} in buckets from {first}");
                assert_eq!(counts.above, u64::from(holds.is_none()));
                assert_eq!((counts.count(), counts.sum), (1, value));
            }
        }
    }
}
