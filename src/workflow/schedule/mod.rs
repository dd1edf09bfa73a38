//! Schedules: when a workflow is started, and for which times.
//!
//! A [`ScheduleSpec`] is what somebody wrote, in a workflow file or through the API. Checked, it is
//! a [`Timetable`], which gives the *due times*. What the `cronexpr` library says about a cron
//! expression is taken as it is; what it leaves open (days on which clocks change) is decided here:
//!
//! - Hour fields with fixed values mean **wall time**. A wall time that a day does not have (a
//!   *gap*) is due at the first moment after the gap; one that a day has twice (a *fold*) is due
//!   the first time. `dst` changes both.
//! - An hour field with `*` means **real time**: whatever the clocks do, two due times are never
//!   nearer to each other than on other days.
//! - `every` counts real time from its anchor.
//!
//! - **I1** [`Timetable::next`] is a pure function of the specification and a time: hosts agree on
//!   it, and a host that starts again gets the same due times.
//! - **I2** Due times grow strictly, and each is after the time that was asked for.
//!
//! Nothing here reads a clock or starts anything. Zones are those of the operating system, or the
//! bundled ones where it has none.

mod cron;
mod spec;
mod timetable;
mod words;

pub use cron::CRON_BYTES_MAX;
pub use spec::{CatchUp, Dst, FoldRule, GapRule, Overlap, ScheduleFault, ScheduleSpec, WINDOW};
pub use timetable::Timetable;
pub use words::{DueTime, upcoming};

#[cfg(test)]
mod tests;
