//! Counts of each handler's calls.

use crate::base::{Histogram, HistogramCounts};
use std::sync::atomic::{AtomicU64, Ordering};

/// The live counts of one handler.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) abandoned: AtomicU64,
    pub(super) durations: Histogram,
}

/// Counts of one handler's calls since the dispatcher was built.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct HandlerStatistics {
    /// Calls dispatched to the handler.
    pub calls: u64,
    /// Calls that the handler never saw: bad arguments, no grant, too many calls.
    pub refused: u64,
    /// Calls queued now, for a permit or for the rate.
    pub waiting: u64,
    /// Calls running now.
    pub running: u64,
    /// Calls that succeeded.
    pub answered: u64,
    /// Calls that the handler answered with a problem.
    pub failed: u64,
    /// Calls that ended in a panic or with the host.
    pub faults: u64,
    /// Calls that ended because their answer was no longer awaited.
    pub abandoned: u64,
    /// How long the handler took, in microseconds: of each call that it saw and that is over.
    pub durations: HistogramCounts,
}

impl Counters {
    pub(super) fn read(&self, waiting: usize) -> HandlerStatistics {
        // Relaxed: each count stands for itself.
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandlerStatistics {
            calls: get(&self.calls),
            refused: get(&self.refused),
            waiting: waiting as u64,
            running: get(&self.running),
            answered: get(&self.answered),
            failed: get(&self.failed),
            faults: get(&self.faults),
            abandoned: get(&self.abandoned),
            durations: self.durations.counts(),
        }
    }

    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
