//! Time.

/// A time since 1970, or a duration, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

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
