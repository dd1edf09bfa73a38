//! A gate where workers wait while no step may begin. They hold no lock there.

use crate::base::brief;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const OPEN: u8 = 0;
const STALLED: u8 = 1;
/// Open for good.
const ENDED: u8 = 2;

#[derive(Default)]
pub(in crate::run) struct Stall {
    /// Written under the lock; read without it before each step, where being one step late does not
    /// matter.
    state: AtomicU8,
    lock: Mutex<()>,
    ended: Condvar,
}

impl Stall {
    pub(in crate::run) fn set(&self, stalled: bool) {
        self.change(|state| match state {
            ENDED => ENDED,
            _ if stalled => STALLED,
            _ => OPEN,
        });
    }

    pub(in crate::run) fn end(&self) {
        self.change(|_| ENDED);
    }

    fn change(&self, next: impl Fn(u8) -> u8) {
        let _guard = self.lock.lock();
        self.state.store(next(self.state.load(Relaxed)), Relaxed);
        self.ended.notify_all();
    }

    /// Whether no step may begin.
    pub(in crate::run) fn is_set(&self) -> bool {
        self.state.load(Relaxed) == STALLED
    }

    /// Waits until a step may begin.
    pub(in crate::run) fn wait(&self) {
        brief::waits();
        if self.is_set() {
            let mut guard = self.lock.lock();
            while self.is_set() {
                self.ended.wait(&mut guard);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_is_never_stalled_again() {
        let stall = Stall::default();
        stall.wait();
        std::thread::scope(|scope| {
            stall.set(true);
            assert!(stall.is_set());
            let waits = scope.spawn(|| stall.wait());
            stall.set(false);
            assert!(!stall.is_set());
            waits.join().unwrap();
            stall.set(true);
            let waits = scope.spawn(|| stall.wait());
            stall.end();
            waits.join().unwrap();
            stall.set(true);
            stall.wait();
            stall.set(false);
            stall.set(true);
            stall.wait();
        });
    }
}
