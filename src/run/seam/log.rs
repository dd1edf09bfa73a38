//! Where records and log lines go.

use super::backlog::Backlog;
use super::snapshot_store::SnapshotStore;
use crate::process::problem::kind;
use crate::process::{Answer, Ending, LogLine, Micros, Pid, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// When what a record caused may leave the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At once.
    Now,
    /// When [`RunHandle::durable`](super::RunHandle::durable) says so.
    Later,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndStatus {
    /// It gave its outputs.
    Succeeded,
    /// It ended with a problem.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled because it took too long.
    TimedOut,
}

impl EndStatus {
    /// What a root's ending and a run's result come to. `late`: it was asked to end because it took longer than this.
    #[must_use]
    pub fn of(ending: &Ending, result: &Answer, late: Option<Micros>) -> Self {
        let is_cancelled = match (ending, result) {
            (Ending::Completed, Ok(_)) => return Self::Succeeded,
            (Ending::Cancelled(_), _) => true,
            (_, Err(problem)) => problem.kind == kind::CANCELLED,
            _ => false,
        };
        match (is_cancelled, late) {
            (true, Some(_)) => Self::TimedOut,
            (true, None) => Self::Cancelled,
            (false, _) => Self::Failed,
        }
    }

    /// Its name in lists: `succeeded`, `failed`, `cancelled`, `timed-out`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }

    /// The status of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Succeeded, Self::Failed, Self::Cancelled, Self::TimedOut].into_iter().find(|one| one.name() == name)
    }
}

/// How and when a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEnd {
    /// How.
    pub status: EndStatus,
    /// When.
    pub at: Timestamp,
}

/// An act upon a run from outside that was left for it: it is taken once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Its id, which tells it from others of the run and from itself when it comes again.
    pub id: Arc<str>,
    /// What kind of act.
    pub kind: Arc<str>,
    /// The act.
    pub body: Bytes,
}

impl Mail {
    /// Tells mail of the same id from mail that says something else.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&(self.kind.len() as u64).to_le_bytes());
        hash.update(self.kind.as_bytes());
        hash.update(&self.body);
        hash.digest128()
    }
}

/// The log of one run: its records in their order. It is written under the run's commit lock, which whoever says that records are durable
/// takes: so nothing here waits, neither for a disk nor for another thread. A journal that is behind says so ([`Log::backlog`]).
pub trait Log: Send {
    /// Appends a record. Until somebody waits for it ([`Self::flush_soon`]) it may be kept back for some milliseconds, to become durable together
    /// with those that follow.
    fn append(&mut self, record: &[u8]) -> Durability;

    /// Bytes of all records so far, where they take room for longer than the run is in memory.
    fn bytes(&self) -> u64 {
        0
    }

    /// Somebody waits for all that was appended so far to be durable.
    fn flush_soon(&mut self) {}

    /// The record that is appended next is of this mail: when it is durable the mail is no longer left for the run, and not before. The same
    /// goes for mail that came otherwise, so that its id is known when it is left again.
    fn consume(&mut self, mail: &Mail) {
        let _ = mail;
    }

    /// The run is over: its last record was just appended. Where this is durable later only, it is what would be the next record.
    fn ended(&mut self, end: &RunEnd) -> Durability {
        let _ = end;
        Durability::Now
    }

    /// What the journal has taken and not begun to write. None: it is never behind.
    fn backlog(&self) -> Option<Arc<Backlog>> {
        None
    }

    /// Where snapshots of the run's processes are kept. None: nowhere, since the run is not durable.
    fn shelf(&self) -> Option<Arc<dyn SnapshotStore>> {
        None
    }

    /// Whether [`Self::park`] can do something.
    fn can_park(&self) -> bool {
        false
    }

    /// Leaves the memory: all its records are durable, and it is dropped without another. What stays is little, and keeps the run this
    /// host's. None: it cannot.
    fn park(&mut self) -> Option<Box<dyn ParkedLog>> {
        None
    }

    /// The bytes of all records from the first on, where all are at hand. They share the log's memory, as far as that can be. It is not
    /// called where there is [`Self::reading`].
    fn records(&self) -> Option<Vec<Bytes>>;

    /// What reads the records where that waits for a disk: it is called without the run's lock, and also gives those that were appended
    /// meanwhile. None: [`Self::records`] does not wait.
    fn reading(&self) -> Option<Reading> {
        None
    }
}

/// Reads the records of a run, as [`Log::records`] gives them.
pub type Reading = Box<dyn FnOnce() -> Option<Vec<Bytes>> + Send>;

/// A log that has left the memory. Dropped, it lets go of its run.
pub trait ParkedLog: Send {
    /// Comes back, with all records from the first on. It may wait for a disk.
    ///
    /// # Errors
    /// Why it cannot; the run is let go of.
    fn take_up(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String>;
}

/// Where a log line comes from.
#[derive(Clone, Debug)]
pub struct LogOrigin {
    /// The run.
    pub run: Arc<str>,
    /// The process.
    pub pid: Pid,
    /// Of a line that a handler wrote for a call: the call's place in the workflow, `<node path>/<item>/<n>`, where the process gave
    /// it one.
    pub scope: Option<Arc<str>>,
    /// The component under whose name it was spawned; none is the root's program.
    pub component: Option<Arc<str>>,
    /// The number of its step.
    pub step: u64,
    /// The time of the step's batch.
    pub at: Timestamp,
}

/// Takes the log lines of runs, beside the records that keep them, when these are in the log. A panic of it
/// changes nothing. It neither blocks nor makes a system call: it is called on a worker.
pub trait LogSink: Send + Sync + 'static {
    /// The lines of a step in order, and how many more were dropped.
    fn lines(&self, origin: &LogOrigin, lines: &[LogLine], dropped: u64);
}
