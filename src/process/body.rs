//! The machine that a run steps: a wasm guest, or a native process behind
//! [`Native`](super::Native).

use super::{
    Allocation, Command, Event, Grants, Influences, Json, Limits, Payload, Permit, Pid, Problem, ProcessSnapshot,
    RawSnapshot, SnapshotError, SnapshotSupport, Status, Tag, Timestamp,
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

/// The output of a step beside its status. The run recycles it: a body only appends.
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
    /// Empties it and retains its buffers.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.log.clear();
        self.log_dropped = 0;
        self.fuel = 0;
    }
}

/// The rest of a step's output, which the following steps return.
#[derive(Clone, Copy, Debug)]
pub struct Owed<'a> {
    /// Its further commands, in order.
    pub commands: &'a [Command],
    /// How the last part ends.
    pub status: &'a Status,
}

/// An end that the process did not return. It is recorded and never repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Death {
    /// The guest's fault: a trap, a limit, a breach of the contract. The problem's kind says which.
    Guest(Problem),
    /// The guest's fault when it saved or loaded its state, which is no step: it ends with this if
    /// it cannot be replayed.
    Lost(Problem),
    /// A cause on the host's side.
    Host(Problem),
}

/// The outcome of one slice of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The slice is used up and the step is half done: poll again.
    Preempted,
    /// The step is done.
    Stepped(Status),
    /// The process died in it: its output is void, and it is never polled again.
    Died(Death),
}

/// The outcome of [`Body::evict`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Eviction {
    /// It has given its instance slot back.
    Done,
    /// It cannot, and nothing has changed.
    Stays,
    /// There is no room to store its state: nothing has changed, and the process must end with
    /// this.
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
    /// The run's id, as the process sees it: that of the run that it was forked from, if it was.
    pub run: Arc<str>,
    /// The id of the run whose blobs it reads and makes.
    pub holder: Arc<str>,
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
    /// Whether it is not told its run and its own pid, so that its outcome cannot depend on them.
    pub is_anonymous: bool,
}

/// A process as a run sees it: a machine that is begun with a batch and polled until its step is
/// done.
///
/// `init` is part of the first step: nothing is executed before the first poll. After
/// [`Progress::Stepped`] comes the next `begin`; after [`Progress::Preempted`] the next `poll`;
/// after a death nothing but drop.
pub trait Body: Send {
    /// Passes the events of the next step and the time of their batch. The first `begin` follows
    /// the creation of the body, perhaps with no events. The events are taken out of the vector.
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>);

    /// Runs one slice of the step.
    fn poll(&mut self, output: &mut Output) -> Progress;

    /// The rest of the last step's output: the next step returns a part of it, and is begun without
    /// events. Events that come meanwhile wait for the step after the last part.
    fn owes(&self) -> Option<Owed<'_>> {
        None
    }

    /// What its steps so far may have depended on beside what every body of the same init sees. The
    /// run itself counts events and commands. A body that does not know counts as code of the host.
    fn influences(&self) -> Influences {
        Influences::NATIVE
    }

    /// Once, after a normal end. Bounded, and nothing that happens in it matters to the run.
    fn close(&mut self) {}

    /// Gives back the instance slot and stores what is needed to go on: called between two steps
    /// only. The next poll takes a slot again: the caller ensures that there is one.
    fn evict(&mut self) -> Eviction {
        Eviction::Stays
    }

    /// Whether [`Self::evict`] may take longer than a turn may.
    fn evicts_slowly(&self) -> bool {
        false
    }

    /// Saves the state, for a body that goes on from here another time: called between two steps
    /// only. This body goes on as if nothing had happened. `None` if it has not run yet, or cannot
    /// be saved.
    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        None
    }

    /// Whether [`Self::save`] may take longer than a turn may.
    fn saves_slowly(&self) -> bool {
        false
    }

    /// Sets where the next instance is made: in the pool unless this is called. The slow part of
    /// making it is done here.
    fn allocate(&mut self, allocation: Allocation) {
        let _ = allocation;
    }

    /// Whether [`Self::allocate`] may take longer than a turn may.
    fn allocates_slowly(&self, allocation: Allocation) -> bool {
        let _ = allocation;
        false
    }

    /// Whether dropping it may take longer than a turn may.
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
    /// A problem of the host: the spawn is answered with it, and with a `host-fault` if this
    /// panics.
    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem>;

    /// Whether its bodies wait for signals of this name. If it is the root's program, only the root
    /// gets them.
    fn waits_for_signal(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// The form in which its bodies can be saved.
    fn snapshot_support(&self) -> SnapshotSupport {
        SnapshotSupport::Never
    }

    /// Prepares saving its bodies, once. Slow: not for a worker.
    fn learn_snapshot_support(&self) {}

    /// A body that goes on from what was saved, after the same init. Slow where the state is large:
    /// see [`Self::restores_slowly`].
    ///
    /// # Errors
    /// Why the snapshot does not fit. The process can be replayed instead.
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
