//! Long work of a service: what was asked for, how far it is, and its report.

use crate::journal::StoreError;
use crate::process::Timestamp;

/// Long work that a service does, and continues after it was restarted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Unique among the jobs.
    pub id: String,
    /// What kind of work it is, such as `batch`.
    pub kind: String,
    /// How far it is.
    pub status: JobStatus,
    /// When it was asked for.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Who asked for it.
    pub author: String,
    /// What is to be done: JSON.
    pub request: String,
    /// What was done so far: JSON.
    pub report: Option<String>,
}

/// How far a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// It waits for others, or is worked on.
    Open,
    /// Everything was done.
    Done,
    /// It could not be finished: its report says why.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl JobStatus {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads a word of [`Self::name`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Open, Self::Done, Self::Failed, Self::Cancelled].into_iter().find(|status| status.name() == name)
    }
}

/// The jobs of a service.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are those of the store")]
pub trait Jobs {
    /// Adds a job, and removes the oldest ended ones beyond `ended_max`. Returns false if there is
    /// one with its id.
    fn add_job(&self, job: &Job, ended_max: u32) -> Result<bool, StoreError>;

    /// Stores how far an open job is. Returns false if there is no open one with this id.
    fn write_job(
        &self,
        id: &str,
        status: JobStatus,
        ended: Option<Timestamp>,
        report: Option<&str>,
    ) -> Result<bool, StoreError>;

    /// Returns a job; `None` if there is none with this id.
    fn job(&self, id: &str) -> Result<Option<Job>, StoreError>;

    /// Returns the jobs, the newest first, without their requests and reports: at most `limit`,
    /// those that were created before `before`, by time and id.
    fn jobs(&self, before: Option<(Timestamp, &str)>, limit: u32) -> Result<Vec<Job>, StoreError>;

    /// Returns the ids of the open jobs, the oldest first.
    fn open_jobs(&self) -> Result<Vec<String>, StoreError>;
}
