//! Locks that no thread holds while it waits.
//!
//! A thread that reports records as durable takes some locks: those of the runs, and of the list of
//! them. If a thread that holds one of these waited for the journal, or for another thread that
//! waits for it, it would wait for ever, and so would all behind it. So a thread that holds such a
//! lock only computes. In a build with debug assertions each thread counts the ones that it holds,
//! and [`waits`] stands before each wait.

use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

#[cfg(debug_assertions)]
thread_local! {
    /// How many brief locks this thread holds.
    static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// This thread may wait now: for a disk, for another thread, or until something happens.
///
/// # Panics
/// With debug assertions, if the thread holds a [`Brief`] lock.
#[inline]
pub(crate) fn waits() {
    #[cfg(debug_assertions)]
    debug_assert!(
        std::thread::panicking() || HELD.get() == 0,
        "a thread waits while it holds a lock that the journal's thread may need"
    );
}

/// A mutex that is only held to compute.
#[derive(Debug, Default)]
pub(crate) struct Brief<T>(Mutex<T>);

impl<T> Brief<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> BriefGuard<'_, T> {
        BriefGuard { guard: self.0.lock(), _mark: Mark::new() }
    }

    /// Whether it is locked.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// The lock of a [`Brief`].
pub(crate) struct BriefGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _mark: Mark,
}

impl<T> Deref for BriefGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for BriefGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// One lock that this thread has.
struct Mark;

impl Mark {
    #[inline]
    fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.set(HELD.get() + 1);
        Self
    }
}

impl Drop for Mark {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.set(HELD.get() - 1);
    }
}

#[cfg(all(test, debug_assertions, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_with_a_brief_lock_is_found() {
        let (one, other) = (Brief::new(1), Brief::new(2));
        waits();
        let (held, also) = (one.lock(), other.lock());
        drop(held);
        std::thread::spawn(waits).join().expect("another thread has none");
        assert!(std::panic::catch_unwind(waits).is_err());
        drop(also);
        waits();
    }
}
