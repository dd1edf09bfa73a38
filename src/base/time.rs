//! Times and durations, all in microseconds: one type for each clock, so that no two are mixed.

/// A duration in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

/// A time of the wall clock: microseconds since 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A time of a monotonic [`Clock`](super::Clock): microseconds since the clock was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Monotonic(pub u64);

impl Micros {
    /// The longest: the largest number that every engine of the contract holds exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The sum, at most [`Self::MAX`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(Self::MAX.0))
    }
}

impl From<std::time::Duration> for Micros {
    fn from(duration: std::time::Duration) -> Self {
        let micros = duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros().into());
        Self(micros.min(Self::MAX.0))
    }
}

impl From<Micros> for std::time::Duration {
    fn from(micros: Micros) -> Self {
        Self::from_micros(micros.0)
    }
}

/// Declares the arithmetic of a type of times.
macro_rules! arithmetic {
    ($time:ident, $visibility:vis) => {
        impl $time {
            /// The time that much later, at most [`Micros::MAX`](crate::base::Micros::MAX) after
            /// zero.
            #[inline]
            #[must_use]
            $visibility fn saturating_add(self, duration: $crate::base::Micros) -> Self {
                Self(self.0.saturating_add(duration.0).min($crate::base::Micros::MAX.0))
            }

            /// How long this is after `earlier`; zero if it is before.
            #[inline]
            #[must_use]
            $visibility fn since(self, earlier: Self) -> $crate::base::Micros {
                $crate::base::Micros(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

pub(crate) use arithmetic;
arithmetic!(Timestamp, pub);
arithmetic!(Monotonic, pub);

impl Timestamp {
    /// The time that much earlier, at least zero.
    #[must_use]
    pub fn saturating_sub(self, duration: Micros) -> Self {
        Self(self.0.saturating_sub(duration.0))
    }
}
