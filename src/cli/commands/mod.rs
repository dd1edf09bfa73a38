//! The commands, one file each: its words (the arguments of clap, with their help) beside its deed.
//!
//! A command imports no other command. What several share stands in a file named after it.

pub(in crate::cli) mod acts;
pub(in crate::cli) mod completions;
pub(in crate::cli) mod doctor;
pub(in crate::cli) mod example;
pub(in crate::cli) mod existing_run;
pub(in crate::cli) mod graph;
pub(in crate::cli) mod history;
pub(in crate::cli) mod inspect;
pub(in crate::cli) mod logs;
pub(in crate::cli) mod ls;
pub(in crate::cli) mod new_run;
pub(in crate::cli) mod permitted;
pub(in crate::cli) mod plan;
pub(in crate::cli) mod ps;
pub(in crate::cli) mod query;
pub(in crate::cli) mod replay;
pub(in crate::cli) mod resume;
pub(in crate::cli) mod rm;
pub(in crate::cli) mod run;
pub(in crate::cli) mod status;
pub(in crate::cli) mod unclaimed_signal;
pub(in crate::cli) mod validate;
