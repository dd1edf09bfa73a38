//! Capacity for what the processes of runs make the host hold: queues, commands without an answer,
//! names, queries, keys and values.
//!
//! The host has a number of bytes for all its runs, and a run may hold as much of them as it leaves
//! free, as with the images of evicted guests. So a run that asks for too much meets its own bound,
//! and one that holds little finds room whatever the others hold.
//!
//! The count guards no other data, so nothing is ordered by it. It is read where commands are
//! decided, and never by a rebuild: decisions stand in the records. Answers to commands that were
//! admitted are not refused for lack of capacity; the run's own bounds count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far a share may differ from what its run holds, in bytes: most commits then change nothing
/// that all workers share. A run that holds less is never refused for what others hold. Arbitrary:
/// a few times what a run takes that holds nothing.
const GRAIN_BYTES: u64 = 16 << 10;

/// Bytes of all runs of a host. Arbitrary: as much as for images of evicted guests.
const BYTES_MAX: u64 = 2 << 30;

/// The capacity of a host.
#[derive(Debug)]
pub(in crate::run) struct Capacity {
    bytes_max: AtomicU64,
    used: AtomicU64,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { bytes_max: AtomicU64::new(BYTES_MAX), used: AtomicU64::new(0) }
    }
}

impl Capacity {
    pub(in crate::run) fn set_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// Returns the bytes that all runs hold, except less than a grain of each.
    pub(in crate::run) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// The share of one run. It is given back when dropped.
#[derive(Debug)]
pub(in crate::run) struct CapacityShare {
    of: Arc<Capacity>,
    bytes: u64,
}

impl CapacityShare {
    pub(in crate::run) fn new(of: Arc<Capacity>) -> Self {
        Self { of, bytes: 0 }
    }

    /// Returns the bytes that the run may hold now.
    pub(in crate::run) fn ceiling(&self) -> u64 {
        let others = self.of.used().saturating_sub(self.bytes);
        (self.of.bytes_max.load(Relaxed).saturating_sub(others) / 2).max(GRAIN_BYTES)
    }

    /// Counts what the run holds.
    #[inline]
    pub(in crate::run) fn hold(&mut self, held: u64) {
        let is_near = held < self.bytes + GRAIN_BYTES && self.bytes <= held + GRAIN_BYTES;
        if !is_near {
            self.set(held);
        }
    }

    #[cold]
    fn set(&mut self, held: u64) {
        let bytes = held / GRAIN_BYTES * GRAIN_BYTES;
        if bytes >= self.bytes {
            self.of.used.fetch_add(bytes - self.bytes, Relaxed);
        } else {
            self.of.used.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for CapacityShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(bytes_max: u64) -> Arc<Capacity> {
        let capacity = Arc::new(Capacity::default());
        capacity.set_max(bytes_max);
        capacity
    }

    #[test]
    fn a_run_may_hold_what_it_leaves_free() {
        let capacity = capacity(300 * GRAIN_BYTES);
        let (mut one, mut other) =
            (CapacityShare::new(Arc::clone(&capacity)), CapacityShare::new(Arc::clone(&capacity)));
        assert_eq!(one.ceiling(), 150 * GRAIN_BYTES);
        one.hold(150 * GRAIN_BYTES);
        assert_eq!((one.ceiling(), other.ceiling()), (150 * GRAIN_BYTES, 75 * GRAIN_BYTES));
        other.hold(75 * GRAIN_BYTES);
        assert_eq!(capacity.used(), 225 * GRAIN_BYTES);
        // If answers have raised it above the maximum, others may still hold a little.
        one.hold(1_000 * GRAIN_BYTES);
        assert_eq!(other.ceiling(), GRAIN_BYTES);
        drop(one);
        assert_eq!(capacity.used(), 75 * GRAIN_BYTES);
        drop(other);
        assert_eq!(capacity.used(), 0);
    }

    #[test]
    fn what_comes_and_goes_at_once_is_not_counted() {
        let capacity = capacity(300 * GRAIN_BYTES);
        let mut share = CapacityShare::new(Arc::clone(&capacity));
        for held in [1, GRAIN_BYTES - 1, 0] {
            share.hold(held);
            assert_eq!(capacity.used(), 0);
        }
        share.hold(GRAIN_BYTES);
        for held in [2 * GRAIN_BYTES - 1, 0, 1] {
            share.hold(held);
            assert_eq!(capacity.used(), GRAIN_BYTES);
        }
        share.hold(5 * GRAIN_BYTES + 1);
        share.hold(3 * GRAIN_BYTES);
        assert_eq!(capacity.used(), 3 * GRAIN_BYTES);
        share.hold(0);
        assert_eq!(capacity.used(), 0);
    }
}
