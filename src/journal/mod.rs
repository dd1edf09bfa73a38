//! Logs of runs.
//!
//! For now in memory only: nothing is durable, or everything is at once, and what leaves the host does not wait.

mod memory;

pub use memory::{Memory, Nothing};
