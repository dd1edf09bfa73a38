//! The states of long runs as they were last read, so that a run that is asked for again is not
//! read from its first record.

use crate::host::RunProjection;
use crate::journal::{ListPlace, Stored};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// Runs with fewer records are read again: that is as fast.
const RECORDS_MIN: u64 = 1_000;

/// Runs whose state is kept: those that were asked for last.
const KEPT_MAX: usize = 16;

/// A run as its first records give it.
struct Fold {
    run: Arc<str>,
    /// Tells it from another run that had the id.
    place: ListPlace,
    records: u64,
    projection: RunProjection,
}

/// The states that are kept.
#[derive(Default)]
pub(in crate::serve) struct Folds(Mutex<VecDeque<Fold>>);

impl Folds {
    /// Takes the state of a run, as far as it was read before.
    pub(in crate::serve) fn take(&self, stored: &Stored) -> Folded<'_> {
        let mut kept = self.0.lock();
        let found = kept.iter().position(|fold| *fold.run == *stored.id);
        let found = found.and_then(|index| kept.remove(index)).filter(|fold| fold.place == stored.place());
        drop(kept);
        let (records, projection) = found.map_or_else(Default::default, |fold| (fold.records, fold.projection));
        Folded { folds: self, run: Arc::clone(&stored.id), place: stored.place(), records, projection }
    }
}

/// A run as its records give it. When it is dropped, it is kept for the next who asks.
pub(in crate::serve) struct Folded<'f> {
    folds: &'f Folds,
    run: Arc<str>,
    place: ListPlace,
    pub(in crate::serve) records: u64,
    pub(in crate::serve) projection: RunProjection,
}

impl Deref for Folded<'_> {
    type Target = RunProjection;

    fn deref(&self) -> &RunProjection {
        &self.projection
    }
}

impl Drop for Folded<'_> {
    fn drop(&mut self) {
        if self.records < RECORDS_MIN {
            return;
        }
        let (run, projection) = (Arc::clone(&self.run), std::mem::take(&mut self.projection));
        let fold = Fold { run, place: self.place, records: self.records, projection };
        let mut kept = self.folds.0.lock();
        kept.retain(|other| other.run != fold.run);
        kept.push_back(fold);
        let forgotten = if kept.len() > KEPT_MAX { kept.pop_front() } else { None };
        drop(kept);
        drop(forgotten);
    }
}
