//! Schedules: workflows that the service starts by itself.
//!
//! [`run`] is one task. It sleeps until the next run is to start, until a schedule changes, until
//! somebody sets the clock, or, while firings are queued, until a run has ended. Then it takes a
//! *turn*: it handles each due time that has passed since the last one that was handled, in order,
//! and notes for each what happened and why.
//!
//! - **I1** A firing is a run whose id is derived from the schedule's name and the due time. The
//!   journal has one run of an id: whatever happens between the start and its note (a crash, a
//!   clock that is set back, two services), a due time has one run.
//! - **I2** The note is written when the run is durable. `last`, up to which due times are handled,
//!   is written with it, and only saves work: a due time that is handled twice changes nothing.
//! - **I3** No due time passes without a note, but those that are older than the window of
//!   catching up: they have one note together.
//!
//! The schedule of a workflow file is a row like those of the API. It is written when a version is
//! activated, compared when the service starts and before each firing, and never fires with another
//! version's times.

mod clock;
mod decide;
mod firings;
mod start;
mod turn;

#[cfg(test)]
mod tests;

pub(in crate::serve) use firings::{Firings, sync};
pub(in crate::serve) use start::{manual, run_id};
pub use turn::run;

/// Firings of a schedule that are kept in its history.
pub(in crate::serve) const FIRINGS_MAX: u32 = 1_000;

/// How the reason of a queued firing begins that fills a hole.
pub(in crate::serve) const BACKFILL: &str = "backfill";

/// Where a schedule is from.
pub(in crate::serve) const WORKFLOW: &str = "workflow";
pub(in crate::serve) const API: &str = "api";

/// The outcomes of due times, as they are stored and counted.
pub(in crate::serve) mod outcome {
    pub(in crate::serve) const FIRED: &str = "fired";
    pub(in crate::serve) const CAUGHT_UP: &str = "caught-up";
    pub(in crate::serve) const BACKFILLED: &str = "backfilled";
    pub(in crate::serve) const MANUAL: &str = "manual";
    pub(in crate::serve) const QUEUED: &str = "queued";
    pub(in crate::serve) const SKIPPED: &str = "skipped";
    pub(in crate::serve) const MISSED: &str = "missed";
    pub(in crate::serve) const FAILED: &str = "failed";
}
