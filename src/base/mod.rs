//! What every other room stands on: the lock and atomic types that the model checkers can replace, the locks that nobody
//! waits with, the clock, the number of processors, calls of code that may panic, and folders that nobody else can write.

pub(crate) mod brief;
mod clock;
pub(crate) mod foreign;
#[cfg(feature = "wasm")]
mod guarded;
mod panics;
mod processors;
pub(crate) mod sync;

pub use clock::{Clock, VirtualClock};
#[cfg(feature = "wasm")]
pub(crate) use guarded::guarded;
pub(crate) use panics::message_of;
pub(crate) use processors::processors;
