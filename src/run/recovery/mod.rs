//! From records to a run: recovery, replay, fork and verification.
//!
//! [`rebuild`] folds the records into a state and gives each process a body that replays its
//! steps. [`recover`] makes a running run of it, [`replay`] compares the steps with the records,
//! [`fork`] begins a new run with the first records of another, [`verify`] compares snapshots with
//! what the records alone come to.

pub(super) mod bodies;
pub(super) mod describe;
pub(super) mod fork;
pub(super) mod rebuild;
pub(super) mod recover;
pub(super) mod replay;
pub(super) mod replaying;
pub(super) mod saved;
pub(super) mod verify;
