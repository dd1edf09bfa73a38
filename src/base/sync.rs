//! Atomics and locks, of the standard library and parking_lot or of a model checker.
//!
//! Under `cfg(loom)` and `cfg(shuttle)` everything here is the checker's own, so that it sees each
//! access. One interface serves all three: no poisoning, and instead of condition variables only
//! [`Signal`], since no more is needed.

#[cfg(loom)]
use loom::sync as imp;
#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(any(loom, shuttle)))]
use std::sync as imp;

pub(crate) use imp::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use super::{Clock, Monotonic};
use std::time::Duration;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use parking_lot::Mutex;

/// A mutex of the model checker with the interface of parking_lot's.
#[cfg(any(loom, shuttle))]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

#[cfg(any(loom, shuttle))]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> imp::MutexGuard<'_, T> {
        self.0.lock().expect("invariant: no panic under a lock of the model")
    }
}

/// A value that only one thread at a time may open, by a protocol of its own: no thread ever waits
/// here.
///
/// With it, a breach of that protocol is a refusal and not a data race. Opening costs one atomic
/// exchange, closing a plain store.
#[cfg(not(any(loom, shuttle)))]
#[derive(Debug)]
pub(crate) struct Exclusive<T>(try_lock::TryLock<T>);

#[cfg(not(any(loom, shuttle)))]
impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(try_lock::TryLock::new(value))
    }

    /// The value, or `None` if another thread has it open.
    pub(crate) fn open(&self) -> Option<impl std::ops::DerefMut<Target = T> + '_> {
        self.0.try_lock()
    }
}

/// The same for shuttle, which switches threads at it.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Exclusive<T>(imp::Mutex<T>);

#[cfg(shuttle)]
impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn open(&self) -> Option<impl std::ops::DerefMut<Target = T> + '_> {
        self.0.try_lock().ok()
    }
}

/// The same for loom, which orders nothing here: the value lies behind a lock that loom does not
/// see, beside a cell whose accesses it does see. One opening must happen before the next by the
/// protocol alone; loom reports a data race if it does not.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Exclusive<T>(std::sync::Mutex<(T, loom::cell::UnsafeCell<()>)>);

#[cfg(loom)]
impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new((value, loom::cell::UnsafeCell::new(()))))
    }

    #[track_caller]
    pub(crate) fn open(&self) -> Option<impl std::ops::DerefMut<Target = T> + '_> {
        let value = self.0.try_lock().ok()?;
        Some(Opened { _access: value.1.get_mut(), value })
    }
}

/// The access ends before the lock is released.
#[cfg(loom)]
struct Opened<'a, T> {
    _access: loom::cell::MutPtr<()>,
    value: std::sync::MutexGuard<'a, (T, loom::cell::UnsafeCell<()>)>,
}

#[cfg(loom)]
impl<T> std::ops::Deref for Opened<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value.0
    }
}

#[cfg(loom)]
impl<T> std::ops::DerefMut for Opened<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value.0
    }
}

/// A flag that one thread waits for and any other sets: a mutex, a condition variable and the
/// predicate between them.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    #[cfg(not(any(loom, shuttle)))]
    inner: (parking_lot::Mutex<bool>, parking_lot::Condvar),
    #[cfg(any(loom, shuttle))]
    inner: (imp::Mutex<bool>, imp::Condvar),
}

#[cfg(not(any(loom, shuttle)))]
impl Signal {
    /// Sets the flag and unparks the thread that waits for it.
    pub(crate) fn set(&self) {
        *self.inner.0.lock() = true;
        self.inner.1.notify_one();
    }

    /// Waits for the flag, or for the time to pass, and clears it. Returns `false` if the time has
    /// passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        super::brief::waits();
        let (flag, condition) = &self.inner;
        let mut flag = flag.lock();
        match timeout {
            None => condition.wait_while(&mut flag, |flag| !*flag),
            Some(timeout) => {
                condition.wait_while_for(&mut flag, |flag| !*flag, timeout);
            }
        }
        std::mem::take(&mut *flag)
    }

    /// Waits for the flag, or until the clock says `deadline`, and clears it. Returns `false` if
    /// the deadline has come.
    pub(crate) fn wait_until(&self, clock: &Clock, deadline: Monotonic) -> bool {
        self.wait(Some(deadline.since(clock.now()).into()))
    }
}

#[cfg(any(loom, shuttle))]
impl Signal {
    pub(crate) fn set(&self) {
        *self.inner.0.lock().expect("invariant: no panic under a lock of the model") = true;
        self.inner.1.notify_one();
    }

    /// A model knows no durations: a timeout has always passed already.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        self.wait_while(|| timeout.is_none())
    }

    /// The time comes when the model moves the clock and notifies the waiting thread: in one
    /// schedule before this thread sleeps, in another while it does, or never.
    pub(crate) fn wait_until(&self, clock: &Clock, deadline: Monotonic) -> bool {
        self.wait_while(|| clock.now() < deadline)
    }

    /// Reports that the clock was moved: a thread that waits for a time reads it.
    pub(crate) fn clock_was_moved(&self) {
        let _flag = self.inner.0.lock().expect("invariant: no panic under a lock of the model");
        self.inner.1.notify_one();
    }

    fn wait_while(&self, waits: impl Fn() -> bool) -> bool {
        let (flag, condition) = &self.inner;
        let mut flag = flag.lock().expect("invariant: no panic under a lock of the model");
        while !*flag && waits() {
            flag = condition.wait(flag).expect("invariant: no panic under a lock of the model");
        }
        std::mem::take(&mut *flag)
    }
}

/// Threads, of the machine or of the checker.
pub(crate) mod thread {
    #[cfg(loom)]
    pub(crate) use loom::thread::{Builder, JoinHandle, current, yield_now};
    #[cfg(shuttle)]
    pub(crate) use shuttle::thread::{Builder, JoinHandle, current, yield_now};
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) use std::thread::{Builder, JoinHandle, current, yield_now};
}

/// Tells the core that this thread waits for another.
pub(crate) fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::hint::spin_loop();
}
