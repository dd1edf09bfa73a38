//! The scheduler: work-stealing workers that step processes.

mod admission;
mod buffers;
mod commit;
mod fairness;
mod global;
mod handle;
mod local;
#[cfg(all(test, loom))]
#[path = "../../tests/loom/mod.rs"]
mod loom;
mod pace;
mod place;
#[cfg(all(test, not(any(loom, shuttle))))]
mod place_tests;
mod shared;
mod shutdown;
mod sleep;
mod slots;
mod start;
mod state;
mod stats;
mod timers;
mod victim;
mod worker;

pub use commit::{Commit, Next, Port, Slot, Turn, Wake};
pub use handle::Handle;
pub use shutdown::Shutdown;
pub use start::{Config, Scheduler, VirtualScheduler};
pub use stats::Stats;
pub use worker::Turned;
