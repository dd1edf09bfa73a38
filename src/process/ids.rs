//! Numbers that name things. None of them reaches 2^53, since one of the JavaScript engines has no larger integers.

use std::fmt;

/// One more than the largest number that crosses the contract.
pub const NUMBER_MAX: u64 = 1 << 53;

/// A process of a run: unique in the run, never used again; 1 is the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u64);

impl Pid {
    /// The first process of every run.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Ties a completion to its command: chosen by the process, strictly increasing from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Tag(pub u64);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A time since 1970, or a duration, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// The sum, at most the largest number of the contract.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(NUMBER_MAX - 1))
    }
}

impl From<std::time::Duration> for Micros {
    fn from(duration: std::time::Duration) -> Self {
        let micros = duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros().into());
        Self(micros.min(NUMBER_MAX - 1))
    }
}

impl From<Micros> for std::time::Duration {
    fn from(micros: Micros) -> Self {
        Self::from_micros(micros.0)
    }
}
