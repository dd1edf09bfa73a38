//! What a run steps, whatever family it is of: a wasm guest, or a native process behind
//! [`Native`](super::Native).

use super::{
    Allocation, Command, Event, Grants, Json, Limits, Payload, Permit, Pid, Problem, ProcessSnapshot, RawSnapshot,
    SnapshotError, SnapshotSupport, Status, Tag, Timestamp,
};
use std::sync::Arc;

/// How serious a log line is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The finest detail.
    Trace,
    /// For debugging.
    Debug,
    /// The ordinary course.
    Info,
    /// Something odd.
    Warn,
    /// Something failed.
    Error,
}

/// A line that a process wrote.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct LogLine {
    /// How serious it is.
    pub level: Level,
    /// The text, as the process gave it.
    pub text: String,
    /// A JSON object of further fields.
    pub fields: Option<Json>,
}

impl LogLine {
    /// Bytes of what the process gave.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len() + self.fields.as_ref().map_or(0, |fields| fields.as_bytes().len())
    }
}

/// What a step gives beside its status. The run recycles it: a body only appends.
#[derive(Default, Debug)]
pub struct Output {
    /// The commands, in order.
    pub commands: Vec<Command>,
    /// The log lines, in order.
    pub log: Vec<LogLine>,
    /// Log lines that went beyond the limit.
    pub log_dropped: u64,
    /// Fuel used by the step.
    pub fuel: u64,
}

impl Output {
    /// Empties it and keeps its buffers.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.log.clear();
        self.log_dropped = 0;
        self.fuel = 0;
    }
}

/// What of a step is still to be given, in the steps that follow.
#[derive(Clone, Copy, Debug)]
pub struct Owed<'a> {
    /// Its further commands, in order.
    pub commands: &'a [Command],
    /// How it ends.
    pub status: &'a Status,
}

/// An end that the process did not return. It is recorded and never executed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Death {
    /// The guest's own doing: a trap, a limit, a breach of the contract. The problem's kind says
    /// which.
    Guest(Problem),
    /// The guest's own doing when it gave its state or was given it, which is no step: it ends with
    /// this where it cannot do again what it did.
    Lost(Problem),
    /// A cause on the host's side.
    Host(Problem),
}

/// What one slice of a step came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The slice is used up and the step is half done: poll again.
    Preempted,
    /// The step is done.
    Stepped(Status),
    /// The process died in it: its output is void, and it is never polled again.
    Died(Death),
}

/// What became of [`Body::evict`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Eviction {
    /// It has given its instance slot back.
    Done,
    /// It cannot, and nothing has changed.
    Stays,
    /// There is no room for what would have to be kept of it: nothing has changed, and the process
    /// is to end with this.
    Ends(Problem),
}

impl Eviction {
    /// Whether the slot has been given back.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

/// What a process is given when it is created.
#[derive(Clone, Debug)]
pub struct ProcessInit {
    /// The run's id.
    pub run: Arc<str>,
    /// The process's own.
    pub pid: Pid,
    /// The run's seed: with the pid it keys the process's random stream (ChaCha).
    pub seed: [u8; 32],
    /// The entry point that `init` is given.
    pub entry: Arc<str>,
    /// The input that `init` is given.
    pub input: Payload,
    /// What it may use.
    pub limits: Arc<Limits>,
    /// What it may ask for.
    pub grants: Grants,
    /// The first tag that it has not used: 1, or more after a renewal.
    pub next_tag: Tag,
}

/// A process as a run sees it: a machine that is begun with a batch and polled until its step is
/// done.
///
/// `init` is part of the first step: nothing is executed before the first poll. After
/// [`Progress::Stepped`] comes the next `begin`; after [`Progress::Preempted`] the next `poll`;
/// after a death nothing but drop.
pub trait Body: Send {
    /// Hands over the events of the next step and the time of their batch. The first `begin`
    /// follows the creation of the body, perhaps with no events. The events are taken out of the
    /// vector.
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>);

    /// Runs one slice of the step.
    fn poll(&mut self, output: &mut Output) -> Progress;

    /// What is still to be given of what the last step gave: the next step gives a part of it, and
    /// is begun without events. What comes meanwhile waits for the step after the last part.
    fn owes(&self) -> Option<Owed<'_>> {
        None
    }

    /// Once, after a normal end. Bounded, and nothing that happens in it matters to the run.
    fn close(&mut self) {}

    /// Gives back the instance slot and keeps what is needed to go on: called between two steps
    /// only. The next poll after it takes a slot again: the caller sees to it that there is one.
    fn evict(&mut self) -> Eviction {
        Eviction::Stays
    }

    /// Whether [`Self::evict`] may take longer than a turn may.
    fn evicts_slowly(&self) -> bool {
        false
    }

    /// Takes the state, for a body that is to go on from here another time: called between two
    /// steps only. This body goes on as if nothing had happened. None: it has not run yet, or
    /// cannot be saved.
    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        None
    }

    /// Whether [`Self::save`] may take longer than a turn may.
    fn saves_slowly(&self) -> bool {
        false
    }

    /// Says where the next instance is made; in the pool, where nothing is said. Of what it takes
    /// to make it, that which takes long is done here.
    fn allocate(&mut self, allocation: Allocation) {
        let _ = allocation;
    }

    /// Whether [`Self::allocate`] may take longer than a turn may.
    fn allocates_slowly(&self, allocation: Allocation) -> bool {
        let _ = allocation;
        false
    }

    /// Whether to drop it may take longer than a turn may.
    fn drops_slowly(&self) -> bool {
        false
    }
}

/// What bodies are made from: a compiled component, or a native process by its name.
pub trait Program: Send + Sync {
    /// What each body takes of the pool while it is live.
    fn permit(&self) -> Permit {
        Permit::NONE
    }

    /// The digest that is written into the run: two programs of one digest behave alike.
    /// `native:name@version` for native ones.
    fn digest(&self) -> Arc<str>;

    /// A body that has not run yet. Cheap: instantiation belongs to the first poll.
    ///
    /// # Errors
    /// A problem of the host's: the spawn is answered with it, and with a `host-fault` where this
    /// panics.
    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem>;

    /// Whether its bodies wait for signals of this name. Where it is the root's program, they are
    /// the root's alone.
    fn waits_for_signal(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// What its bodies can be saved by.
    fn snapshot_support(&self) -> SnapshotSupport {
        SnapshotSupport::Never
    }

    /// Learns what it takes to save its bodies, once. Slow: not for a worker.
    fn learn_snapshot_support(&self) {}

    /// A body that goes on from what was saved, after the same init. Slow where the state is large:
    /// see [`Self::restores_slowly`].
    ///
    /// # Errors
    /// Why it does not fit. The process can do again what it did.
    fn restore(&self, init: ProcessInit, saved: &ProcessSnapshot) -> Result<Box<dyn Body>, SnapshotError> {
        let _ = init;
        Err(SnapshotError::Misfit(format!(
            "{} is not made of snapshots, and this is one of {}",
            self.digest(),
            saved.program
        )))
    }

    /// Whether [`Self::restore`] may take longer than a turn may.
    fn restores_slowly(&self, saved: &ProcessSnapshot) -> bool {
        let _ = saved;
        false
    }
}
