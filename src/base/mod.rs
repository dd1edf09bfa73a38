//! What every other room stands on: the lock and atomic types that the model checkers can replace, the locks that nobody
//! waits with, the clock, and the number of processors.

pub(crate) mod brief;
mod clock;
mod panics;
mod processors;
pub(crate) mod sync;

pub use clock::{Clock, VirtualClock};
pub(crate) use panics::message_of;
pub(crate) use processors::processors;
