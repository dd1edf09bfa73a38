//! The requests and answers on the socket.

use crate::host::Outcome;
use crate::process::{Micros, Payload, Pid, Problem, ProblemClass, Tag};
use crate::run::{Act, Counts, ProcessStatus, Resolution, RunEvent, SignalStatus, Uncertain};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The version of this protocol. Each side refuses any other: different versions are from different
/// releases.
pub const VERSION: u32 = 1;

/// Bytes of a request: the largest payload of a process without a higher limit (1 MiB), each of its
/// bytes written as a number.
pub(super) const REQUEST_BYTES_MAX: usize = 5 << 20;

/// Bytes of an answer: the outputs of a run (16 MiB), each byte written as a number.
pub(super) const ANSWER_BYTES_MAX: usize = 80 << 20;

/// A request to a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the facts of the host.
    Host,
    /// Asks for the runs of the host.
    Runs,
    /// Asks what a run does.
    Status {
        /// The id of the run.
        run: String,
    },
    /// Sends a signal to a run.
    Signal {
        /// The id of the run.
        run: String,
        /// The name of the signal.
        name: String,
        /// The payload of the signal.
        body: Payload,
        /// Identifies the act: acts with one id count once.
        id: Option<String>,
    },
    /// Asks a run to end.
    Cancel {
        /// The id of the run.
        run: String,
        /// The reason, for the run.
        reason: String,
        /// Whether it is ended at once, without grace.
        now: bool,
        /// Identifies the act: acts with one id count once.
        id: Option<String>,
    },
    /// Asks a run to end because it takes too long.
    TimeOut {
        /// The id of the run.
        run: String,
        /// The time that it was allowed.
        after: Micros,
    },
    /// Stops the stepping of a run's processes.
    Pause {
        /// The id of the run.
        run: String,
        /// Identifies the act: acts with one id count once.
        id: Option<String>,
    },
    /// Continues a paused run.
    #[serde(rename = "resume")]
    Unpause {
        /// The id of the run.
        run: String,
        /// Identifies the act: acts with one id count once.
        id: Option<String>,
    },
    /// Tells that a run has a place in its concurrency group: a durable transaction says so.
    GivePlace {
        /// The id of the run.
        run: String,
    },
    /// Asks for what the processes of a run last exposed: the names, or the value of one.
    Query {
        /// The id of the run.
        run: String,
        /// The name of the value; `None`: all names.
        name: Option<String>,
    },
    /// Settles an uncertain call.
    Resolve {
        /// The id of the run.
        run: String,
        /// The process; `None`: only one uncertain call of the run has the tag.
        pid: Option<Pid>,
        /// The tag of the call.
        tag: Tag,
        /// How it is settled.
        outcome: Resolve,
        /// Identifies the act: acts with one id count once.
        id: Option<String>,
    },
    /// Asks for the events of a run from now on.
    Watch {
        /// The id of the run.
        run: String,
    },
}

/// The outcome of an uncertain call, as a person found it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolve {
    /// It happened, and has this answer.
    Completed(Payload),
    /// It did not happen: the attempt has failed.
    Failed,
    /// It should be sent again under its key.
    #[serde(rename = "again")]
    Resend,
}

/// The kind of problem that answers a call that did not happen.
const DID_NOT_HAPPEN: &str = "did-not-happen";

impl From<Resolve> for Resolution {
    fn from(resolve: Resolve) -> Self {
        match resolve {
            Resolve::Completed(answer) => Self::Answered(Ok(answer)),
            Resolve::Failed => {
                // The end of a host prevented it: the step's `retry` may try again, under a new
                // key.
                let problem = Problem::new(DID_NOT_HAPPEN, "Somebody said that the call did not happen");
                Self::Answered(Err(Arc::new(problem.with_class(ProblemClass::Retryable))))
            }
            Resolve::Resend => Self::Again,
        }
    }
}

impl Request {
    /// Returns the id of the act, if it has one.
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

    /// Returns whether it only reads what the host knows.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Host | Self::Runs | Self::Status { .. } | Self::Query { .. })
    }

    /// Returns the act that it asks for, to be stored for a suspended run. `None` if it asks for no
    /// act, or does not name the process.
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

/// The answer of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The facts of the host.
    Host(HostFacts),
    /// The runs of the host, in the order of their ids.
    Runs(Vec<RunFacts>),
    /// What the run does.
    Status(Box<RunStatus>),
    /// The act is done, and durable if the run is.
    Done,
    /// The names under which something is exposed.
    Names(Vec<Arc<str>>),
    /// What is exposed under the name.
    Value(Payload),
    /// The run is watched. The events that follow are of later records.
    Watching {
        /// The number of earlier records.
        records: u64,
    },
    /// An event of the run.
    Event(RunEvent),
    /// This many events were dropped: the reader was slower than the run.
    Dropped(u64),
    /// The run has ended.
    #[serde(rename = "over")]
    Ended(Box<Outcome>),
    /// The request was refused.
    Refused(Refusal),
}

/// The facts of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostFacts {
    /// The id of its operating system process.
    pub pid: u32,
    /// The release of wfhost that it runs.
    pub release: String,
    /// The number of its unfinished runs.
    pub runs: usize,
    /// Whether no step begins because the disk with the data folder is full.
    pub stalled: bool,
}

/// The facts of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFacts {
    /// The id of the run.
    pub run: Arc<str>,
    /// The id of its host's operating system process.
    pub host: u32,
    /// What it does.
    pub state: RunState,
    /// Whether no step of it begins because the disk with the data folder is full.
    pub stalled: bool,
    /// The number of its live processes.
    pub processes: usize,
    /// The number of its calls whose outcome is unknown.
    pub uncertain: usize,
    /// The counts of what has happened.
    pub counts: Counts,
}

impl RunFacts {
    /// Returns the word for its state, or `stalled`.
    pub fn state_name(&self) -> &'static str {
        if self.stalled { "stalled" } else { self.state.name() }
    }
}

/// What an unfinished run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// At least one process can be stepped now.
    Running,
    /// All processes wait.
    Waiting,
    /// An operator has stopped it.
    Paused,
    /// It waits for a place in its concurrency group.
    Queued,
}

impl RunState {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Queued => "queued",
        }
    }
}

/// The status of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunStatus {
    /// The facts of the run.
    pub facts: RunFacts,
    /// Its processes, in the order of their pids.
    pub processes: Vec<ProcessStatus>,
    /// The calls whose outcome is unknown.
    pub uncertain: Vec<Uncertain>,
    /// The names under which something is exposed.
    pub queries: Vec<Arc<str>>,
    /// The signals that a process waits for, or that are retained.
    pub signals: Vec<SignalStatus>,
}

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// The host does not own the run.
    #[error("the host does not run {run}")]
    UnknownRun {
        /// The id of the run.
        run: String,
    },
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
    /// The queue of the run is full.
    #[error("the run takes no more: its queue is full")]
    Full,
    /// The payload is larger than the run allows.
    #[error("it is larger than the run's payloads may be")]
    TooLarge,
    /// Nothing is exposed under the name.
    #[error("nothing is exposed under the name `{name}`")]
    NotExposed {
        /// The name that was given.
        name: String,
        /// The names that are exposed.
        names: Vec<Arc<str>>,
    },
    /// No uncertain call has the tag, or several have.
    #[error("{} the tag {tag}", if *count == 0 { "no uncertain call has".to_owned() } else { format!("{count} uncertain calls have") })]
    NoSuchCall {
        /// The tag that was given.
        tag: Tag,
        /// How many uncertain calls have it.
        count: usize,
    },
    /// There was another act with the same id.
    #[error("there was an act with the id {id} already, and it was another one")]
    Conflict {
        /// The id of the act.
        id: String,
    },
    /// The host could not carry it out.
    #[error("{why}")]
    Failed {
        /// The cause.
        why: String,
    },
    /// The request cannot be understood.
    #[error("the request cannot be understood: {why}")]
    Malformed {
        /// The cause.
        why: String,
    },
    /// The host speaks another version.
    #[error(
        "the host is of release {release}, which speaks version {version} of this protocol; this one speaks {VERSION}"
    )]
    OtherVersion {
        /// The version of the host.
        version: u32,
        /// The release of the host.
        release: String,
    },
    /// The host has too many connections.
    #[error("the host has too many connections")]
    Busy,
    /// The client is a process of another user.
    #[error("the host answers its own user only")]
    NotYours,
}

/// A request as a line of the socket.
#[derive(Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) version: u32,
    pub(super) request: Request,
}

/// An answer as a line of the socket.
#[derive(Serialize, Deserialize)]
pub(super) struct AnswerLine {
    pub(super) version: u32,
    pub(super) answer: Answer,
}

/// The version alone, which is read first: the rest depends on it.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Writes a message as a line, with its end.
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
