//! What users read: errors, outcomes, hints, and the lines and JSON of what happened in a run.
//!
//! It reads values and makes text. It opens no store, asks no host, and knows no command.

pub(in crate::cli) mod compiling;
pub(in crate::cli) mod error;
pub(in crate::cli) mod hints;
pub(in crate::cli) mod invocation;
pub(in crate::cli) mod outcome;
pub(in crate::cli) mod pending_acts;
pub(in crate::cli) mod reasons;
pub(in crate::cli) mod record_json;
pub(in crate::cli) mod retry_plan;
pub(in crate::cli) mod source_map;
pub(in crate::cli) mod unresponsive;
pub(in crate::cli) mod waits;
