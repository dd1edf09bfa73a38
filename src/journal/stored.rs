//! What a journal tells of runs.

use crate::process::Micros;
use crate::run::{EndStatus, Log, Mail};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A run that begins.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When.
    pub created: Micros,
    /// What whoever starts it needs to take it up again: JSON.
    pub manifest: String,
    /// The components that it names, by the BLAKE3 of their bytes in hexadecimal: their files in `components/` are kept as long as it is.
    pub components: Vec<Arc<str>>,
}

/// A run in a journal.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stored {
    /// Its id.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Micros,
    /// How it ended; none while it has not.
    pub status: Option<EndStatus>,
    /// When it ended.
    pub ended: Option<Micros>,
    /// How many records it has. Of a run that is owned: how many it had some time ago.
    pub records: u64,
    /// The host that has it, living or not; none where it waits for one or has ended.
    pub owner: Option<u64>,
    /// Why it could not be taken up, where its records were found damaged. It is forgotten when it can.
    pub damage: Option<Arc<str>>,
}

/// Which runs are asked for: those that fit everything that is said. The newest come first.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    /// Only unfinished ones, or only ended ones.
    pub ended: Option<bool>,
    /// Only those that were found damaged.
    pub damaged: bool,
    /// Only those that ended so.
    pub status: Option<EndStatus>,
    /// Only those of the workflow of this name.
    pub name: Option<String>,
    /// Only those created at that time or later.
    pub created_min: Option<Micros>,
    /// Only those created before that time.
    pub created_before: Option<Micros>,
    /// At most so many.
    pub limit: Option<u32>,
}

impl Filter {
    /// Whether a run fits, whatever the limit.
    #[must_use]
    pub fn fits(&self, run: &Stored) -> bool {
        self.ended.is_none_or(|ended| ended == run.status.is_some())
            && (!self.damaged || run.damage.is_some())
            && self.status.is_none_or(|status| run.status == Some(status))
            && self.name.as_ref().is_none_or(|name| **name == *run.name)
            && self.created_min.is_none_or(|at| run.created >= at)
            && self.created_before.is_none_or(|at| run.created < at)
    }
}

/// How long ended runs are kept.
#[derive(Clone, Copy, Default, Debug)]
pub struct Retention {
    /// Those that ended before go.
    pub ended_before: Option<Micros>,
    /// Of the others, at most so many stay: the newest.
    pub runs_max: Option<u64>,
}

/// The host that has a run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Owner {
    /// Its number in the journal.
    pub host: u64,
    /// Its operating system process.
    pub pid: u32,
    /// Where it listens, where it does.
    pub socket: Option<PathBuf>,
    /// Whether it lives.
    pub alive: bool,
}

/// A run that was taken up: its log, and the records so far.
pub struct RecoveredRun {
    /// Where its further records go.
    pub log: Box<dyn Log>,
    /// The records from the first on.
    pub records: Vec<Bytes>,
    /// What was left for it and is in none of them, in the order in which it came.
    pub inbox: Vec<Mail>,
    /// What was said of it when it began.
    pub manifest: String,
}

/// What became of mail for a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It is left for the run, durably: whoever takes the run up gets it.
    Stored,
    /// The run has or had the same already.
    Duplicate,
    /// The run has or had mail of this id that says something else.
    Conflict,
    /// A living host has the run, and is to be told itself.
    Owned(Owner),
    /// The run has ended.
    Ended,
    /// There is no such run.
    Unknown,
    /// As much is left for the run as may be.
    Full,
}

/// Mail that may be left for a run at one time. Arbitrary.
pub(super) const MAIL_MAX: u32 = 1_000;
/// Bytes of that. Arbitrary.
pub const MAIL_BYTES_MAX: u32 = 16 << 20;
/// Ids of mail that are known for each run after it was taken. Arbitrary.
#[cfg(feature = "sqlite")]
pub(super) const MAIL_KNOWN_MAX: u32 = 1_000;
/// Snapshots that are kept of each process: the newest ones.
pub(super) const SNAPSHOTS_MAX: u32 = 2;

/// A process as it was after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSnapshot {
    /// The process.
    pub pid: u64,
    /// The step.
    pub step: u64,
    /// What it fits, for whoever made it.
    pub key: Bytes,
    /// The process; none where this is damaged.
    pub data: Option<Bytes>,
}
