//! Following a run: its progress on the terminal, and the signals that reach the command meanwhile.
//!
//! A [`session`] lives as long as its command. It has two threads: one writes, one waits for
//! signals.

pub(in crate::cli) mod backlog;
mod compilations;
pub(in crate::cli) mod events;
pub(in crate::cli) mod progress;
pub(in crate::cli) mod redraw;
pub(in crate::cli) mod session;
pub(in crate::cli) mod signals;
