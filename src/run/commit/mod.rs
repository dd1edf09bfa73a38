//! The commit point: a run's state behind its lock, and what surrounds it.
//!
//! In the order of a commit: the scheduler steps a process ([`stepping`], [`task`]); the batch is
//! decided, applied and recorded under the run's lock ([`run`]); consequences are posted
//! ([`consequences`]) or wait in the [`outbox`] until their record is durable; answers come back by
//! [`reply`] and are recorded as [`arrivals`]. [`kernel`] holds all runs of a host, [`parking`]
//! unloads the ones that wait, [`handle`] and [`acts`] are the way in for callers outside.
//!
//! Imports from [`super::recovery`] are needed here: parked and held runs are recovered from their
//! records ([`parking`]), and a step that a fault of the host has spoilt is rebuilt and tried
//! again ([`stepping`]).

pub(super) mod acts;
pub(super) mod arrivals;
pub(super) mod backlog;
pub(super) mod capacity;
pub(super) mod consequences;
pub(super) mod handle;
pub(super) mod kernel;
pub(super) mod lines;
pub(super) mod mail;
pub(super) mod observe;
pub(super) mod offload;
pub(super) mod outbox;
pub(super) mod parking;
pub(super) mod place;
pub(super) mod remarks;
pub(super) mod reply;
pub(super) mod run;
pub(super) mod snapshot_writer;
pub(super) mod snapshots;
pub(super) mod stall;
pub(super) mod start;
pub(super) mod stepping;
pub(super) mod task;
