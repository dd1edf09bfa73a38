//! Numbers that name things. None of them reaches 2^53, since one of the JavaScript engines has no
//! larger integers.

use crate::base::Micros;
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

// Micros are numbers of the contract too.
const _: () = assert!(Micros::MAX.0 == NUMBER_MAX - 1);
