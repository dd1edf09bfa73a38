//! What is said over the socket.

use crate::host::Outcome;
use crate::process::{Micros, Payload, Pid, Problem, ProblemClass, Tag};
use crate::run::{Act, Counts, ProcessStatus, Resolution, RunEvent, SignalStatus, Uncertain};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The version of what is said here. Each side refuses any other: hosts and commands that differ are of releases that differ.
pub const VERSION: u32 = 1;

/// Bytes of a request: the largest payload that a process takes unless it is granted more (1 MiB), each of its bytes written as a number.
pub(super) const REQUEST_BYTES_MAX: usize = 5 << 20;

/// Bytes of an answer: the outputs of a run (16 MiB), each byte written as a number.
pub(super) const ANSWER_BYTES_MAX: usize = 80 << 20;

/// What is asked of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Who it is.
    Host,
    /// Its runs.
    Runs,
    /// What a run does.
    Status {
        /// The run.
        run: String,
    },
    /// Hands a signal to a run.
    Signal {
        /// The run.
        run: String,
        /// The name.
        name: String,
        /// What it carries.
        body: Payload,
        /// Which act this is: the same one counts once.
        id: Option<String>,
    },
    /// Asks a run to end.
    Cancel {
        /// The run.
        run: String,
        /// Why.
        reason: String,
        /// Whether it is ended at once, without grace.
        now: bool,
        /// Which act this is: the same one counts once.
        id: Option<String>,
    },
    /// Asks a run to end because it takes longer than it may.
    TimeOut {
        /// The run.
        run: String,
        /// How long it was to take at most.
        after: Micros,
    },
    /// Keeps a run's processes from being stepped.
    Pause {
        /// The run.
        run: String,
        /// Which act this is: the same one counts once.
        id: Option<String>,
    },
    /// Lets a paused run go on.
    #[serde(rename = "resume")]
    Unpause {
        /// The run.
        run: String,
        /// Which act this is: the same one counts once.
        id: Option<String>,
    },
    /// What the processes of a run last exposed: the names, or the value of one.
    Query {
        /// The run.
        run: String,
        /// The name.
        name: Option<String>,
    },
    /// Says what became of an uncertain call.
    Resolve {
        /// The run.
        run: String,
        /// The process; none: the tag is that of one uncertain call of the run.
        pid: Option<Pid>,
        /// The call.
        tag: Tag,
        /// What became of it.
        outcome: Resolve,
        /// Which act this is: the same one counts once.
        id: Option<String>,
    },
    /// What happens in a run from now on.
    Watch {
        /// The run.
        run: String,
    },
}

/// What became of an uncertain call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolve {
    /// It happened, and has this answer.
    Completed(Payload),
    /// It did not happen: the attempt has failed.
    Failed,
    /// It is to be sent again under its key.
    #[serde(rename = "again")]
    Resend,
}

/// The kind of problem that a call is answered with of which somebody said that it did not happen.
const DID_NOT_HAPPEN: &str = "did-not-happen";

impl From<Resolve> for Resolution {
    fn from(resolve: Resolve) -> Self {
        match resolve {
            Resolve::Completed(answer) => Self::Answered(Ok(answer)),
            Resolve::Failed => {
                // What kept it from happening was the end of a host: the step's `retry` may try again, under a new key.
                let problem = Problem::new(DID_NOT_HAPPEN, "Somebody said that the call did not happen");
                Self::Answered(Err(Arc::new(problem.with_class(ProblemClass::Retryable))))
            }
            Resolve::Resend => Self::Again,
        }
    }
}

impl Request {
    /// Which act it is, where that is said.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Signal { id, .. }
            | Self::Cancel { id, .. }
            | Self::Pause { id, .. }
            | Self::Unpause { id, .. }
            | Self::Resolve { id, .. } => id.as_deref(),
            _ => None,
        }
    }

    /// Whether it asks for nothing but what the host knows.
    pub(super) fn only_asks(&self) -> bool {
        matches!(self, Self::Host | Self::Runs | Self::Status { .. } | Self::Query { .. })
    }

    /// The act that it asks for, to be left for a run that nobody has. None where it is none, or does not say which process is meant.
    pub fn act(&self) -> Option<Act> {
        Some(match self.clone() {
            Self::Signal { name, body, .. } => Act::Signal { name: name.into(), body },
            Self::Cancel { reason, now, .. } => Act::Cancel { reason: reason.into(), grace: now.then_some(Micros(0)) },
            Self::Pause { .. } => Act::Pause,
            Self::Unpause { .. } => Act::Resume,
            Self::Resolve { pid: Some(pid), tag, outcome, .. } => Act::Resolve { pid, tag, resolution: outcome.into() },
            _ => return None,
        })
    }
}

/// What a host answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Who it is.
    Host(HostFacts),
    /// Its runs, in the order of their ids.
    Runs(Vec<RunFacts>),
    /// What the run does.
    Status(Box<RunStatus>),
    /// It is done, and durable where the run is.
    Done,
    /// The names under which something is exposed.
    Names(Vec<Arc<str>>),
    /// What is exposed under the name.
    Value(Payload),
    /// The run is watched. What its first so many records say has happened before; what comes now follows from later ones.
    Watching {
        /// Records before.
        records: u64,
    },
    /// Something happened.
    Event(RunEvent),
    /// So many events were dropped: the reader was slower than the run.
    Dropped(u64),
    /// The run is over.
    #[serde(rename = "over")]
    Ended(Box<Outcome>),
    /// No.
    Refused(Refusal),
}

/// A host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostFacts {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// Its unfinished runs.
    pub runs: usize,
    /// No step of theirs begins: the disk with its data folder is full.
    pub stalled: bool,
}

/// A run of a host, in a line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFacts {
    /// Its id.
    pub run: Arc<str>,
    /// The process that runs it.
    pub host: u32,
    /// What it does.
    pub state: RunState,
    /// No step of it begins, whatever it does: the disk with the data folder is full.
    pub stalled: bool,
    /// Processes that live.
    pub processes: usize,
    /// Calls of which nobody knows whether they happened.
    pub uncertain: usize,
    /// What has happened, in numbers.
    pub counts: Counts,
}

impl RunFacts {
    /// The word for what it does, or that it is stalled.
    pub fn state_name(&self) -> &'static str {
        if self.stalled { "stalled" } else { self.state.name() }
    }
}

/// What an unfinished run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// A process is stepped, or will be without waiting for anything.
    Running,
    /// All processes wait.
    Waiting,
    /// An operator has stopped it.
    Paused,
}

impl RunState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
        }
    }
}

/// A run of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunStatus {
    /// In a line.
    pub facts: RunFacts,
    /// Its processes, in the order of their pids.
    pub processes: Vec<ProcessStatus>,
    /// The calls of which nobody knows whether they happened.
    pub uncertain: Vec<Uncertain>,
    /// The names under which something is exposed.
    pub queries: Vec<Arc<str>>,
    /// The signals that somebody waits for, or that are kept.
    pub signals: Vec<SignalStatus>,
}

/// Why not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// The host does not run it.
    #[error("the host does not run {run}")]
    UnknownRun {
        /// The run.
        run: String,
    },
    /// It has ended.
    #[error("the run has ended")]
    Ended,
    /// There is no room.
    #[error("the run takes no more: its queue is full")]
    Full,
    /// It is larger than the run may carry.
    #[error("it is larger than the run's payloads may be")]
    TooLarge,
    /// Nothing is exposed under the name.
    #[error("nothing is exposed under the name `{name}`")]
    NotExposed {
        /// The name.
        name: String,
        /// Those that there are.
        names: Vec<Arc<str>>,
    },
    /// No uncertain call has the tag, or several have.
    #[error("{} the tag {tag}", if *count == 0 { "no uncertain call has".to_owned() } else { format!("{count} uncertain calls have") })]
    NoSuchCall {
        /// The tag.
        tag: Tag,
        /// How many.
        count: usize,
    },
    /// The same act was there already, and was another.
    #[error("there was an act with the id {id} already, and it was another one")]
    Conflict {
        /// The id of the act.
        id: String,
    },
    /// The host could not do it.
    #[error("{why}")]
    Failed {
        /// Why.
        why: String,
    },
    /// The request cannot be understood.
    #[error("the request cannot be understood: {why}")]
    Malformed {
        /// Why.
        why: String,
    },
    /// It speaks another version.
    #[error(
        "the host is of release {release}, which speaks version {version} of this protocol; this one speaks {VERSION}"
    )]
    OtherVersion {
        /// The version of the host.
        version: u32,
        /// The release of the host.
        release: String,
    },
    /// It has too many connections.
    #[error("the host has too many connections")]
    Busy,
    /// The other end is of another user.
    #[error("the host answers its own user only")]
    NotYours,
}

/// A request as it goes over the socket.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) version: u32,
    pub(super) request: Request,
}

/// An answer as it goes over the socket.
#[derive(Serialize, Deserialize)]
pub(super) struct AnswerLine {
    pub(super) version: u32,
    pub(super) answer: Answer,
}

/// The version alone, which is read first: what else there is depends on it.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// One line, with its end.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("invariant: these types can be written as JSON");
    line.push(b'\n');
    line
}

impl RequestLine {
    pub(super) fn read(line: &[u8]) -> Result<Request, Refusal> {
        let malformed = |error: serde_json::Error| Refusal::Malformed { why: error.to_string() };
        let Version { version } = serde_json::from_slice(line).map_err(malformed)?;
        if version != VERSION {
            return Err(Refusal::OtherVersion { version: VERSION, release: env!("CARGO_PKG_VERSION").to_owned() });
        }
        serde_json::from_slice::<Self>(line).map(|asked| asked.request).map_err(malformed)
    }
}

impl AnswerLine {
    pub(super) fn of(answer: Answer) -> Vec<u8> {
        line(&Self { version: VERSION, answer })
    }

    pub(super) fn read(line: &[u8]) -> Result<Answer, serde_json::Error> {
        serde_json::from_slice::<Self>(line).map(|answered| answered.answer)
    }
}
