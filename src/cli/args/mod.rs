//! What several commands share of their words: groups of arguments, the values in them, and the
//! settings that stand in for flags.
//!
//! A group knows what it asks for and how that is read, never which command has it.

pub(in crate::cli) mod act;
pub(in crate::cli) mod authority;
pub(in crate::cli) mod blobs;
pub(in crate::cli) mod cached;
mod config;
pub(in crate::cli) mod data;
pub(in crate::cli) mod host;
pub(in crate::cli) mod http;
pub(in crate::cli) mod inputs;
pub(in crate::cli) mod logins;
pub(in crate::cli) mod output;
mod read_body;
mod secrets;
pub(in crate::cli) mod server;
pub(in crate::cli) mod settings;
pub(in crate::cli) mod target;
pub(in crate::cli) mod uploads;
pub(in crate::cli) mod values;
pub(in crate::cli) mod workflow;
