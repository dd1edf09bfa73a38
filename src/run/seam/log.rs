//! Where records and log lines go.

use super::awaited::Awaited;
use super::backlog::Backlog;
use super::snapshot_store::SnapshotStore;
use crate::process::problem::kind;
use crate::process::{Answer, Ending, LogLine, Micros, Pid, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// When the consequences of a record may leave the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At once.
    Now,
    /// When [`RunHandle::durable`](super::RunHandle::durable) reports the record.
    Later,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndStatus {
    /// The root returned its outputs.
    Succeeded,
    /// The root ended with a problem.
    Failed,
    /// The run was cancelled.
    Cancelled,
    /// The run was cancelled because it took too long.
    TimedOut,
}

impl EndStatus {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Succeeded, Self::Failed, Self::Cancelled, Self::TimedOut];

    /// The status that a root's ending and a run's result add up to. `late` is the allowed time, if
    /// the run was asked to end because it took longer.
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

    /// The name in lists: `succeeded`, `failed`, `cancelled`, `timed-out`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }

    /// The status with a name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Succeeded, Self::Failed, Self::Cancelled, Self::TimedOut].into_iter().find(|one| one.name() == name)
    }
}

/// How and when a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEnd {
    /// The status that lists show.
    pub status: EndStatus,
    /// When the last record was written, in microseconds since 1970.
    pub at: Timestamp,
    /// Fuel of all its steps.
    pub fuel: u64,
}

/// An act upon a run that waits in the run's inbox. It is applied once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// The id of the act: distinguishes it from others of the run, and identifies it when it is
    /// sent again.
    pub id: Arc<str>,
    /// The kind of act.
    pub kind: Arc<str>,
    /// The act, encoded.
    pub body: Bytes,
}

impl Mail {
    /// Distinguishes this mail from mail with the same id and other contents.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&(self.kind.len() as u64).to_le_bytes());
        hash.update(self.kind.as_bytes());
        hash.update(&self.body);
        hash.digest128()
    }
}

/// The log of one run: its records, in order. It is written under the run's commit lock, which the
/// journal's thread also takes to report that records are durable: so nothing here waits, neither
/// for a disk nor for another thread. A journal that is behind reports so ([`Log::backlog`]).
pub trait Log: Send {
    /// Appends a record. Until a flush is requested ([`Self::flush_soon`]) the journal may hold it
    /// back for some milliseconds, to make it durable together with those that follow.
    fn append(&mut self, record: &[u8]) -> Durability;

    /// Bytes of all records so far, if they take room for longer than the run is in memory.
    fn bytes(&self) -> u64 {
        0
    }

    /// Asks for all records appended so far to become durable soon.
    fn flush_soon(&mut self) {}

    /// Marks the next record to be appended as that of this mail: the mail leaves the inbox when
    /// that record is durable, and not before. Also called for acts that did not come by the inbox,
    /// so that their ids are known if they are left there later.
    fn consume(&mut self, mail: &Mail) {
        let _ = mail;
    }

    /// The run has ended: its last record was just appended. If the end becomes durable only later,
    /// it has the number that the next record would have.
    fn ended(&mut self, end: &RunEnd) -> Durability {
        let _ = end;
        Durability::Now
    }

    /// What the journal has accepted but not begun to write. `None` if it is never behind.
    fn backlog(&self) -> Option<Arc<Backlog>> {
        None
    }

    /// Where snapshots of the run's processes are stored. `None` if the run is not durable.
    fn snapshot_store(&self) -> Option<Arc<dyn SnapshotStore>> {
        None
    }

    /// Whether the run has no place in its concurrency group yet: no process of it is stepped until
    /// the kernel is told that it has one.
    fn waits_for_place(&self) -> bool {
        false
    }

    /// The run is about to be parked, and waits for this from people until it is in memory again.
    /// It is for lists: no record depends on it.
    fn awaits(&mut self, awaited: Vec<Awaited>) {
        let _ = awaited;
    }

    /// Returns whether [`Self::park`] can succeed.
    fn can_park(&self) -> bool {
        false
    }

    /// Leaves the memory: all records are durable, and the log is dropped without another one.
    /// `None` if the log cannot be parked.
    fn park(&mut self, nap: &Nap) -> Option<Parking> {
        let _ = nap;
        None
    }

    /// The bytes of all records from the first on, if all are at hand. They share the log's memory
    /// where possible. Not called if there is [`Self::reading`].
    fn records(&self) -> Option<Vec<Bytes>>;

    /// Reads the records if that waits for a disk: it is called without the run's lock, and also
    /// returns records appended meanwhile. `None` if [`Self::records`] does not wait.
    fn reading(&self) -> Option<Reading> {
        None
    }
}

/// What is known of a run when it is parked: by it a journal finds the run when it is due, whoever
/// owns it then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nap {
    /// When its first timer is due, in microseconds since 1970; `None` if it has no timer.
    pub due: Option<Timestamp>,
    /// Whether an operator has paused it.
    pub is_paused: bool,
}

/// Reads the records of a run, as [`Log::records`] gives them.
pub type Reading = Box<dyn FnOnce() -> Option<Vec<Bytes>> + Send>;

/// What remains of a log that has left the memory.
pub enum Parking {
    /// Something small, which holds this host's claim to the run.
    Kept(Box<dyn ParkedLog>),
    /// Nothing: the run is in its journal alone, and dropping the log releases it. Whoever asks for
    /// it recovers it as after a crash ([`Kernel::recover_by`](super::Kernel::recover_by)), and the
    /// journal says when it is due.
    Gone,
}

/// A log that has left the memory. Dropping it releases its run.
pub trait ParkedLog: Send {
    /// Returns to memory, with all records from the first on. May wait for a disk.
    ///
    /// # Errors
    /// Says why it cannot; the run is released.
    fn recover(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String>;
}

/// Where a log line comes from.
#[derive(Clone, Debug)]
pub struct LogOrigin {
    /// The id of the run.
    pub run: Arc<str>,
    /// The process that wrote the line, or made the call whose handler wrote it.
    pub pid: Pid,
    /// For a line that a handler wrote for a call: the call's place in the workflow, `<node
    /// path>/<item>/<n>`, if the process gave it one.
    pub scope: Option<Arc<str>>,
    /// The component under whose name the process was spawned; `None` for the root's program.
    pub component: Option<Arc<str>>,
    /// The number of the process's step.
    pub step: u64,
    /// The time of the step's batch.
    pub at: Timestamp,
}

/// Receives the log lines of runs, once the records that contain them are in the log. A panic in it
/// changes nothing. It must not block or make a system call: it is called on a worker.
pub trait LogSink: Send + Sync + 'static {
    /// Receives the lines of a step in order, and the number of lines dropped.
    fn lines(&self, origin: &LogOrigin, lines: &[LogLine], dropped: u64);
}
