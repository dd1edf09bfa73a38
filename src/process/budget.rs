//! Bytes that several takers share.

use crate::base::sync::{AtomicU64, Ordering};

/// A number of bytes that takers take parts of and give back. It guards no other data, so it orders
/// nothing.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of so many bytes, none of them taken.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, used: AtomicU64::new(0) }
    }

    /// All of it.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The bytes that are taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is taken than there is.
    #[must_use]
    pub fn is_overdrawn(&self) -> bool {
        self.used() > self.bytes_max
    }

    /// Whether so many bytes are left.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.with(self.used(), bytes).is_some()
    }

    /// Takes so many bytes. Returns `false` if fewer are left.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| self.with(used, bytes)).is_ok()
    }

    /// The bytes taken after so many more are taken. `None` if fewer are left.
    fn with(&self, used: u64, bytes: u64) -> Option<u64> {
        used.checked_add(bytes).filter(|used| *used <= self.bytes_max)
    }

    /// Takes so many bytes, also beyond what there is.
    pub fn overdraw(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub fn give(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more was given back than was taken");
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = Budget::new(10);
        assert!(budget.take(4) && budget.take(6) && budget.take(0));
        assert!(!budget.take(1) && !budget.take(u64::MAX));
        budget.give(6);
        assert!(budget.take(6));
        budget.overdraw(5);
        assert_eq!(budget.used(), 15);
        assert!(budget.is_overdrawn() && !budget.has_room(0));
        budget.give(5);
        assert!(!budget.is_overdrawn() && budget.has_room(0) && !budget.has_room(1));
        assert!(!budget.take(1));
        budget.give(10);
        assert_eq!(budget.used(), 0);
    }
}
