//! The commands, one file each: the words of a command (its clap arguments and help) beside its
//! deed.
//!
//! A command imports no other command. What several of them share has a file of its own, named
//! after what it is.

pub(in crate::cli) mod backup;
pub(in crate::cli) mod blob;
pub(in crate::cli) mod build;
pub(in crate::cli) mod cache;
pub(in crate::cli) mod cancel;
pub(in crate::cli) mod check;
pub(in crate::cli) mod completions;
pub(in crate::cli) mod deploy;
pub(in crate::cli) mod dev;
pub(in crate::cli) mod doctor;
pub(in crate::cli) mod engine;
pub(in crate::cli) mod example;
pub(in crate::cli) mod fmt;
pub(in crate::cli) mod fork;
pub(in crate::cli) mod graph;
pub(in crate::cli) mod history;
pub(in crate::cli) mod inbox;
pub(in crate::cli) mod inspect;
pub(in crate::cli) mod lock;
pub(in crate::cli) mod login;
pub(in crate::cli) mod logs;
pub(in crate::cli) mod ls;
pub(in crate::cli) mod lsp;
pub(in crate::cli) mod man;
pub(in crate::cli) mod new;
pub(in crate::cli) mod pause;
pub(in crate::cli) mod plan;
pub(in crate::cli) mod ps;
pub(in crate::cli) mod push;
pub(in crate::cli) mod query;
pub(in crate::cli) mod replay;
pub(in crate::cli) mod resolve;
pub(in crate::cli) mod restore;
pub(in crate::cli) mod resume;
pub(in crate::cli) mod retry;
pub(in crate::cli) mod rm;
pub(in crate::cli) mod run;
pub(in crate::cli) mod schedule;
pub(in crate::cli) mod schema;
pub(in crate::cli) mod serve;
pub(in crate::cli) mod signal;
pub(in crate::cli) mod status;
pub(in crate::cli) mod test;
pub(in crate::cli) mod token;
pub(in crate::cli) mod top;
pub(in crate::cli) mod trace;
pub(in crate::cli) mod upgrade;
pub(in crate::cli) mod validate;
pub(in crate::cli) mod verify;
pub(in crate::cli) mod workflow;

// What several commands share.
mod acts;
mod copying;
mod deploying;
mod fitness;
mod launch;
mod listing;
mod new_run;
mod remote_new;
mod remote_run;
mod replaying;
mod target;
