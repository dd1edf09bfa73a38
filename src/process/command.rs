//! Commands: the requests of a process.

use super::{Grants, Json, Limits, Message, Micros, Payload, Pid, Problem, Sender, Tag};
use std::sync::Arc;

/// One item of a step's output.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Command {
    /// Strictly increasing in its process.
    pub tag: Tag,
    /// What is asked for.
    pub action: Action,
}

/// Small and closed: what a handler can do is a [`Call`].
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Action {
    /// Answers null when the time is over.
    Sleep(Micros),
    /// Answers with the child's output when it ends.
    Spawn(Box<Spawn>),
    /// Answers with what the handler answers.
    Call(Box<Call>),
    /// Answers only with a problem: no such process, mailbox full.
    Send(Send),
    /// That tag is answered `cancelled`, unless its answer was recorded first. No answer of its
    /// own.
    Cancel(Tag),
    /// Asks a process to end. No answer.
    Stop(Target),
    /// Monitors a process: reports its end as an event. No answer.
    Monitor(Target),
    /// Links two processes: reports the end of the other as an event; an ending other than
    /// `completed` on one side cancels the other. No answer.
    Link(Target),
    /// Removes a link or monitor. No answer.
    Unlink(Target),
    /// Answers null, or the problem `name-taken`.
    Register(Arc<str>),
    /// What queries of this name read from now on. No answer.
    Expose {
        /// The query's name.
        query: Arc<str>,
        /// What it reads.
        value: Payload,
    },
}

/// The target of a command.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Target {
    /// A process of the run.
    Process(Pid),
    /// The child that the spawn of that tag made.
    Child(Tag),
    /// A process of the run, by its registered name.
    Name(Arc<str>),
    /// A name of another run.
    Run {
        /// The run's id.
        run: Arc<str>,
        /// The registered name there.
        name: Arc<str>,
    },
}

/// What only a native process can set for its children and calls, since it is code of the host:
/// their place in the run, and what they may use and ask for. The contract of guests has no
/// counterpart.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Placement {
    /// Its place in idempotency keys, `<node path>/<item>/<n>` for a node of a workflow: for a
    /// child in place of the spawn's tag, for a call in place of the call's. A node that is tried
    /// again has the same place, unless its failure was definite.
    pub scope: Arc<str>,
    /// In place of the limits of the process that asks.
    pub limits: Option<Arc<Limits>>,
    /// In place of the grants of the process that asks.
    pub grants: Option<Grants>,
    /// Where the outcome is kept for others, if it succeeds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<Arc<CacheKey>>,
}

/// Where the cache of steps keeps the outcome of a child or of a call.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CacheKey {
    /// What identifies the outcome: a digest of all that it may depend on.
    pub key: Arc<str>,
    /// What it is the outcome of, `WORKFLOW/STEP`, for people.
    pub of: Arc<str>,
    /// How long it may be used; `None` if for ever.
    pub ttl: Option<Micros>,
    /// Whether it is kept only if the child had no [influences](super::Influences).
    pub if_pure: bool,
}

/// Starts a child.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Spawn {
    /// A name under `components:`; if `None`, the component of this process.
    pub component: Option<Arc<str>>,
    /// The entry point.
    pub entry: Arc<str>,
    /// What `init` is given.
    pub input: Payload,
    /// A name to register, for people and for routing.
    pub name: Option<Arc<str>>,
    /// An ending other than `completed` on one side cancels the other.
    pub link: bool,
    /// Whether it lives until the run ends; otherwise it is cancelled when its parent ends.
    pub detached: bool,
    /// A JSON object: a part of the parent's limits and grants. It only narrows.
    pub narrow: Option<Json>,
    /// Its place in the run, if a native process sets one. `None` from a guest.
    pub placement: Option<Arc<Placement>>,
}

/// Reaches a registered handler.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Call {
    /// The handler's name.
    pub handler: Arc<str>,
    /// Its arguments, by the handler's schema.
    pub args: Payload,
    /// After it the tag is answered `timed-out`.
    pub timeout: Option<Micros>,
    /// The logical call's key; if `None`, the host derives one.
    pub idempotency_key: Option<Arc<str>>,
    /// Its place in the run, if a native process sets one. `None` from a guest.
    pub placement: Option<Arc<Placement>>,
}

/// Sends a message.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(from = "SendParts", into = "SendParts")]
pub struct Send {
    /// To whom.
    pub to: Target,
    /// The message, in the memory in which it is received: an answer may reuse that of the message.
    /// The run overwrites its sender.
    pub message: Box<Message>,
}

impl Send {
    /// A new message.
    #[must_use]
    pub fn new(to: Target, topic: Arc<str>, body: Payload) -> Self {
        Self { to, message: Box::new(Message { sender: Sender::Process(Pid(0)), topic, body }) }
    }
}

/// The parts of a message that its sender sets.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "Send")]
struct SendParts {
    to: Target,
    topic: Arc<str>,
    body: Payload,
}

impl From<SendParts> for Send {
    fn from(SendParts { to, topic, body }: SendParts) -> Self {
        Self::new(to, topic, body)
    }
}

impl From<Send> for SendParts {
    fn from(Send { to, message }: Send) -> Self {
        Self { to, topic: message.topic, body: message.body }
    }
}

/// How a step ended, when the process itself says so.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Status {
    /// Step again without waiting.
    Ready,
    /// Waits for answers, exits, cancel; messages queue up.
    Blocked,
    /// Waits for anything.
    Idle,
    /// Ends well, with an output.
    Complete(Payload),
    /// Ends with a problem.
    Failed(Arc<Problem>),
    /// Goes on as a fresh instance; pid, queue and outstanding tags stay.
    Renew {
        /// The entry point of the fresh instance.
        entry: Arc<str>,
        /// Its input.
        input: Payload,
    },
}
