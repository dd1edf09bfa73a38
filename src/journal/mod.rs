//! Journals: where the records of runs go.
//!
//! [`Memory`] keeps them as long as the host lives, [`Nothing`] not at all: for both, everything is durable at once. [`Sqlite`] keeps them
//! on disk, and what leaves the host waits until its record is there.

mod error;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;

pub use error::{Durables, StoreError};
pub use memory::{Memory, Nothing};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use stored::{Filter, NewRun, Owner, Stored, TakenUp};
