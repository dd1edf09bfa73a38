//! The wall clock of the host, as runs see it.

use crate::base::Monotonic;
use crate::process::{Micros, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// How long the wall clock is taken to run with the monotonic one before it is read again. Arbitrary: setting the clock by hand is
/// heard of so late.
const ANCHOR: Micros = Micros(100_000);

/// Tells the wall clock from the monotonic one, which is read anyway: one clock is read for a step instead of two.
pub struct Clock {
    wall: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Wall minus monotonic. Any worker writes it; a reader that sees an old one is wrong by what the clocks have drifted since.
    offset: AtomicI64,
    /// The monotonic time from which the wall clock is read again.
    stale: AtomicU64,
}

impl Clock {
    /// A clock of this wall clock, which says the microseconds since 1970.
    pub fn new(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { wall: Box::new(wall), offset: AtomicI64::new(0), stale: AtomicU64::new(0) }
    }

    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::new(system_time)
    }

    /// A wall clock that was at this time when the monotonic one was zero, and goes as fast: for simulation.
    #[must_use]
    pub fn starting_at(time: Timestamp) -> Self {
        let offset = AtomicI64::new(time.0.cast_signed());
        Self { wall: Box::new(move || time), offset, stale: AtomicU64::new(u64::MAX) }
    }

    /// The wall clock at a moment of the monotonic clock that has just been read.
    pub(in crate::run) fn at(&self, mono: Monotonic) -> Timestamp {
        if mono.0 >= self.stale.load(Relaxed) {
            let offset = (self.wall)().0.cast_signed() - mono.0.cast_signed();
            self.offset.store(offset, Relaxed);
            self.stale.store(mono.0 + ANCHOR.0, Relaxed);
            return Timestamp(mono.0.saturating_add_signed(offset));
        }
        Timestamp(mono.0.saturating_add_signed(self.offset.load(Relaxed)))
    }
}

/// The time by the system's clock, in microseconds since 1970.
#[must_use]
pub fn system_time() -> Timestamp {
    // Before 1970 the clock is not set: then it starts at 1970.
    Timestamp(Micros::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).0)
}
