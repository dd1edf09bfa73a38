//! What every other room stands on: the lock and atomic types that the model checkers can replace, and the clock.

mod clock;
pub(crate) mod sync;

pub use clock::{Clock, VirtualClock};
