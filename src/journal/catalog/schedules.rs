//! Schedules, and what happened at their due times.

use crate::journal::StoreError;
use crate::process::Timestamp;

/// A schedule as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Its name, unique in the store.
    pub name: String,
    /// Where it was described: `workflow`, in the file of a deployed one, or `api`.
    pub origin: String,
    /// The workflow that it starts.
    pub workflow: String,
    /// Its description: JSON.
    pub spec: String,
    /// Who wrote it.
    pub author: String,
}

/// A schedule as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSchedule {
    /// What was written last.
    pub schedule: Schedule,
    /// Grows with each change.
    pub revision: u64,
    /// When it was first written.
    pub created: Timestamp,
    /// When it was last changed, or resumed: no due time before that is caught up.
    pub changed: Timestamp,
    /// Since when it is paused.
    pub paused: Option<Timestamp>,
    /// The last due time that was handled. It may be behind.
    pub last: Option<Timestamp>,
}

/// The outcome of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum ScheduleWrite {
    /// It is written, or was stored already with the same description.
    Stored {
        /// What is stored now.
        schedule: StoredSchedule,
        /// Whether there was none of this name.
        is_new: bool,
    },
    /// Something else than expected is stored: its revision, `None` if nothing is.
    Mismatch(Option<u64>),
}

/// What happened at a due time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Firing {
    /// The due time.
    pub due: Timestamp,
    /// When it was handled.
    pub at: Timestamp,
    /// `fired`, `caught-up`, `backfilled`, `manual`, `queued`, `skipped`, `missed` or `failed`.
    pub outcome: String,
    /// The run that was started, or is going to be.
    pub run: Option<String>,
    /// Why, if it was not started on time.
    pub reason: Option<String>,
}

/// The schedules of a service.
#[allow(clippy::missing_errors_doc, reason = "each fails if the store cannot be read or written")]
pub trait Schedules {
    /// Returns all schedules, by name.
    fn schedules(&self) -> Result<Vec<StoredSchedule>, StoreError>;

    /// Returns a schedule; `None` if there is none of this name.
    fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, StoreError>;

    /// Writes a schedule if what is stored has the expected revision: `None` expects nothing,
    /// `Some(0)` that there is none. The same description again changes nothing.
    fn put_schedule(
        &self,
        schedule: &Schedule,
        expected: Option<u64>,
        now: Timestamp,
    ) -> Result<ScheduleWrite, StoreError>;

    /// Removes a schedule with its history, if it has the expected revision. Returns whether there
    /// was one; if it has another revision, that.
    fn remove_schedule(&self, name: &str, expected: Option<u64>) -> Result<Result<bool, u64>, StoreError>;

    /// Pauses a schedule, or resumes it: due times before `now` are then over. Returns it; `None`
    /// if there is none of this name.
    fn pause_schedule(&self, name: &str, pause: bool, now: Timestamp) -> Result<Option<StoredSchedule>, StoreError>;

    /// Notes what happened at due times, in place of what was noted of them before, and the last
    /// due time that is handled. The oldest beyond `retained` are removed, but those that are
    /// queued or whose runs are unfinished.
    fn note_firings(
        &self,
        schedule: &str,
        firings: &[Firing],
        last: Option<Timestamp>,
        retained: u32,
    ) -> Result<(), StoreError>;

    /// Returns what happened at a due time.
    fn firing(&self, schedule: &str, due: Timestamp) -> Result<Option<Firing>, StoreError>;

    /// Returns what happened at due times before one, the latest first.
    fn firings(&self, schedule: &str, before: Option<Timestamp>, limit: u32) -> Result<Vec<Firing>, StoreError>;

    /// Returns the due times that are queued, the earliest first, at most `limit`.
    fn queued_firings(&self, schedule: &str, limit: u32) -> Result<Vec<Firing>, StoreError>;

    /// Returns the unfinished runs of a schedule, at most 1,000.
    fn unfinished_of_schedule(&self, schedule: &str) -> Result<Vec<String>, StoreError>;
}
