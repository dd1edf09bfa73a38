//! Monotonic time, from the machine or from a simulator.

use super::sync::{AtomicU64, Ordering};
use super::{Micros, Monotonic};
use std::sync::Arc;
use std::time::Instant;

/// A monotonic clock: microseconds since it was made.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Machine(Instant),
    /// A clock that stands still until it is moved.
    Virtual(VirtualClock),
}

impl Clock {
    /// The machine's clock, zero now.
    #[must_use]
    pub fn machine() -> Self {
        Self::Machine(Instant::now())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Monotonic {
        match self {
            Self::Machine(start) => Monotonic(Micros::from(start.elapsed()).0),
            Self::Virtual(clock) => clock.now(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::machine()
    }
}

/// Time that only [`Self::advance_to`] moves. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Monotonic {
        Monotonic(self.0.load(Ordering::Acquire))
    }

    /// Moves the clock to `time`, never back.
    pub fn advance_to(&self, time: Monotonic) {
        self.0.fetch_max(time.0, Ordering::AcqRel);
    }
}
