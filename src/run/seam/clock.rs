//! The wall clock of the host, as runs see it.

use crate::base::Monotonic;
use crate::process::{Micros, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// How long the wall clock is assumed to keep pace with the monotonic clock before it is read
/// again. Arbitrary: a clock that is set by hand is noticed this late.
const ANCHOR: Micros = Micros(100_000);

/// Derives the wall clock from the monotonic one, which is read anyway: a step reads one clock
/// instead of two.
pub struct Clock {
    wall: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Wall minus monotonic. Any worker writes it; a reader of an old value is wrong by the drift
    /// of the clocks since.
    offset: AtomicI64,
    /// The monotonic time at which the wall clock is read again.
    stale: AtomicU64,
}

impl Clock {
    /// Makes a clock from a wall clock that returns microseconds since 1970.
    pub fn new(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { wall: Box::new(wall), offset: AtomicI64::new(0), stale: AtomicU64::new(0) }
    }

    /// Makes a clock from the system's.
    #[must_use]
    pub fn system() -> Self {
        Self::new(system_time)
    }

    /// Makes a clock for simulation: it shows this time when the monotonic clock is zero, and keeps
    /// pace with it.
    #[must_use]
    pub fn starting_at(time: Timestamp) -> Self {
        let offset = AtomicI64::new(time.0.cast_signed());
        Self { wall: Box::new(move || time), offset, stale: AtomicU64::new(u64::MAX) }
    }

    /// The wall clock at a monotonic time that has just been read.
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

/// The system's time, in microseconds since 1970.
#[must_use]
pub fn system_time() -> Timestamp {
    // A system clock before 1970 is not set: it counts as 1970.
    Timestamp(Micros::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).0)
}
