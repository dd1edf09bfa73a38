//! What every other room stands on: the lock and atomic types that the model checkers can replace,
//! locks that are never held while waiting, the clock, the number of processors, calls to code that
//! may panic, and folders that only their owner can write.

pub(crate) mod brief;
mod clock;
#[cfg(feature = "cli")]
mod core_dumps;
pub(crate) mod foreign;
#[cfg(feature = "wasm")]
mod guarded;
#[cfg(any(feature = "sqlite", feature = "wasm"))]
mod histogram;
mod panics;
mod processors;
pub(crate) mod report_debug;
pub(crate) mod sync;
#[cfg(feature = "wasm")]
pub(crate) mod text;
mod time;

pub use clock::{Clock, VirtualClock};
#[cfg(feature = "cli")]
pub(crate) use core_dumps::forbid_core_dumps;
#[cfg(feature = "wasm")]
pub(crate) use guarded::guarded;
#[cfg(feature = "cli")]
pub(crate) use guarded::guarded_file;
#[cfg(any(feature = "sqlite", feature = "wasm"))]
pub(crate) use histogram::Histogram;
#[cfg(any(feature = "sqlite", feature = "wasm"))]
pub use histogram::HistogramCounts;
pub(crate) use panics::message_of;
pub(crate) use processors::processors;
pub(crate) use time::arithmetic;
pub use time::{Micros, Monotonic, Timestamp};
