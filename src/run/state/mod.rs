//! The state of a run: a function of its records alone.
//!
//! Each command has a file of its own, and two functions there: *decide* reads the state and
//! changes nothing, *apply* changes the state by the decision alone. A commit does both; a rebuild
//! applies the decisions that it finds in the records.
//!
//! - **I1** No lock, atomic, thread or clock: time comes in with each decision.
//! - **I2** Whatever follows outside of the state (a call, an event, a line for observers) is a
//!   [`Consequence`](run_state::Consequence), and this folder executes none.

pub(super) mod act_ids;
mod awaited;
pub(super) mod cached;
pub(super) mod calls;
pub(super) mod config;
pub(super) mod decide;
pub(super) mod endings;
pub(super) mod events;
pub(super) mod exit;
pub(super) mod idempotency;
pub(super) mod keys;
pub(super) mod kv;
pub(super) mod links;
pub(super) mod messages;
pub(super) mod names;
pub(super) mod narrow;
pub(super) mod news;
pub(super) mod outstanding;
pub(super) mod projection;
pub(super) mod promised;
pub(super) mod run_state;
pub(super) mod signals;
pub(super) mod spawn;
pub(super) mod table;
pub(super) mod timers;
pub(super) mod weight;
