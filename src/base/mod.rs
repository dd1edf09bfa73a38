//! What every other room stands on: the lock and atomic types that the model checkers can replace, the clock, and the number of processors.

mod clock;
mod processors;
pub(crate) mod sync;

pub use clock::{Clock, VirtualClock};
pub(crate) use processors::processors;
