//! The schedules of a service in memory, and the rows of those that workflow files have.

use super::{API, WORKFLOW};
use crate::base::{Histogram, HistogramCounts};
use crate::journal::catalog::{Schedule, ScheduleWrite, StoredSchedule};
use crate::process::{Micros, Timestamp};
use crate::run::system_time;
use crate::serve::problem::Answered;
use crate::serve::service::Service;
use crate::workflow::schedule::{ScheduleSpec, Timetable};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Notify;

/// Who writes the schedules of workflow files.
const AUTHOR: &str = "deploy";

/// The schedules of a service.
#[derive(Default)]
pub(in crate::serve) struct Firings {
    /// Wakes the task that fires.
    pub(super) changed: Notify,
    /// Rows have changed, or the clock was set, since `entries` were read.
    is_stale: AtomicBool,
    /// By name. A turn holds the lock: there is one at a time.
    pub(super) entries: Mutex<BTreeMap<String, Entry>>,
    counts: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// In microseconds.
    lateness: Histogram,
}

/// A schedule that is ready to fire.
pub(super) struct Entry {
    pub(super) stored: StoredSchedule,
    pub(super) spec: ScheduleSpec,
    pub(super) table: Timetable,
    /// The next due time, and when its run starts. `None` while it is paused.
    pub(super) next: Option<(Timestamp, Timestamp)>,
    /// It may have queued firings.
    pub(super) has_queue: bool,
}

impl Firings {
    /// Notes that rows have changed, and wakes the task that fires.
    pub(in crate::serve) fn wake(&self) {
        self.is_stale.store(true, Relaxed);
        self.changed.notify_one();
    }

    pub(super) fn mark_stale(&self) {
        self.is_stale.store(true, Relaxed);
    }

    pub(super) fn take_stale(&self) -> bool {
        self.is_stale.swap(false, Relaxed)
    }

    pub(super) fn count(&self, schedule: &str, outcome: &'static str) {
        *self.counts.lock().entry((schedule.to_owned(), outcome)).or_default() += 1;
    }

    pub(super) fn note_lateness(&self, late: Micros) {
        self.lateness.add(late.0);
    }

    /// How often each schedule had each outcome since the service started.
    pub(in crate::serve) fn counts(&self) -> Vec<(String, &'static str, u64)> {
        let counts = self.counts.lock();
        counts.iter().map(|((schedule, outcome), count)| (schedule.clone(), *outcome, *count)).collect()
    }

    /// How late runs started.
    pub(in crate::serve) fn lateness(&self) -> HistogramCounts {
        self.lateness.counts()
    }
}

impl Entry {
    /// Reads a schedule. `None` if it cannot be read: a later release has written it.
    pub(super) fn read(stored: StoredSchedule, now: Timestamp) -> Option<Self> {
        let name = &stored.schedule.name;
        let mut spec: ScheduleSpec = serde_json::from_str(&stored.schedule.spec)
            .inspect_err(|error| tracing::error!(schedule = name, %error, "a schedule cannot be read"))
            .ok()?;
        let table = spec
            .check()
            .inspect_err(|faults| tracing::error!(schedule = name, ?faults, "a schedule cannot be used"))
            .ok()?;
        let mut entry = Self { stored, spec, table, next: None, has_queue: true };
        entry.schedule_next(now);
        Some(entry)
    }

    /// The time up to which due times are handled. A clock that was set back makes later ones due
    /// again: those that have fired are known by their runs.
    pub(super) fn handled_until(&self, now: Timestamp) -> Timestamp {
        self.stored.last.unwrap_or(self.stored.changed).min(now)
    }

    pub(super) fn schedule_next(&mut self, now: Timestamp) {
        let name = &self.stored.schedule.name;
        let due = match self.stored.paused {
            Some(_) => None,
            None => self.table.next(self.handled_until(now)),
        };
        self.next = due.map(|due| (due, self.table.starts_at(name, due)));
    }
}

impl Service {
    /// Returns how often the due times of each schedule had each outcome since the service started.
    pub fn schedule_firings(&self) -> Vec<(String, &'static str, u64)> {
        self.schedules.counts()
    }

    /// Returns how late scheduled runs started since the service started, in microseconds.
    pub fn schedule_lateness(&self) -> HistogramCounts {
        self.schedules.lateness()
    }
}

/// Writes the schedule of a workflow's active version, or removes the one that an earlier version
/// had.
pub(in crate::serve) fn sync(service: &Service, workflow: &str) -> Answered<()> {
    let deployed = service.deployed(workflow, None)?;
    let found = service.store.schedule(workflow)?;
    let is_of_api = found.as_ref().is_some_and(|found| found.schedule.origin == API);
    match written(workflow, deployed.workflow.plan().schedule.as_ref()) {
        Some(_) if is_of_api => {
            tracing::warn!(workflow, "its schedule is not used: one of the API has the name");
            return Ok(());
        }
        Some(schedule) => match service.store.put_schedule(&schedule, None, system_time())? {
            ScheduleWrite::Stored { .. } | ScheduleWrite::Mismatch(_) => {}
        },
        None if found.is_some() && !is_of_api => {
            let _ = service.store.remove_schedule(workflow, None)?;
        }
        None => return Ok(()),
    }
    service.schedules.wake();
    Ok(())
}

/// The row of the schedule that a workflow file has.
pub(super) fn written(workflow: &str, spec: Option<&ScheduleSpec>) -> Option<Schedule> {
    let spec = ScheduleSpec { workflow: workflow.to_owned(), ..spec?.clone() };
    Some(Schedule {
        name: workflow.to_owned(),
        origin: WORKFLOW.to_owned(),
        workflow: workflow.to_owned(),
        spec: serde_json::json!(spec).to_string(),
        author: AUTHOR.to_owned(),
    })
}
