//! The scheduler: work-stealing workers that step processes.

mod commit;

pub use commit::{Commit, Next, Port, Slot, Turn, Wake};
