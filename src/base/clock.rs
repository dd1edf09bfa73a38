//! Monotonic time, from the machine or from a simulator.

use super::Micros;
use super::sync::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// A monotonic clock: microseconds since it was made.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Wall(Instant),
    /// One that stands still until it is moved.
    Virtual(VirtualClock),
}

impl Clock {
    /// The machine's clock, zero now.
    #[must_use]
    pub fn wall() -> Self {
        Self::Wall(Instant::now())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Micros {
        match self {
            Self::Wall(start) => start.elapsed().into(),
            Self::Virtual(clock) => clock.now(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::wall()
    }
}

/// Time that only moves when it is told to. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// The time.
    #[must_use]
    pub fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::Acquire))
    }

    /// Moves the clock to `time`, never back.
    pub fn advance_to(&self, time: Micros) {
        self.0.fetch_max(time.0, Ordering::AcqRel);
    }
}
