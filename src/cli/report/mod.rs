//! What users read: errors, hints, outcomes, and the lines and JSON about a run.
//!
//! Values come in and text goes out: nothing here opens a store, asks a host or knows a command.

pub(in crate::cli) mod brief;
pub(in crate::cli) mod cached;
pub(in crate::cli) mod compiling;
pub(in crate::cli) mod error;
pub(in crate::cli) mod findings;
pub(in crate::cli) mod hints;
pub(in crate::cli) mod host_log;
pub(in crate::cli) mod invocation;
pub(in crate::cli) mod journal;
pub(in crate::cli) mod log_line;
pub(in crate::cli) mod outcome;
pub(in crate::cli) mod pending_acts;
pub(in crate::cli) mod reasons;
pub(in crate::cli) mod retry_plan;
pub(in crate::cli) mod source_map;
pub(in crate::cli) mod units;
pub(in crate::cli) mod unresponsive;
pub(in crate::cli) mod waits;
pub(in crate::cli) mod warnings;
