//! The commit point of a run.

mod effects;

pub use effects::{Dispatched, Effects, Outgoing, Reply};
