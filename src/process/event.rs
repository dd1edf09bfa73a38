//! Events: the input of a process.

use super::{Micros, Payload, Pid, Problem, Tag};
use std::sync::Arc;

/// The one answer that a tag gets. The problem is shared, since all who wait for a process receive
/// the one that ended it.
pub type Answer = Result<Payload, Arc<Problem>>;

/// One item of a process's queue.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Event {
    /// The one answer to a tag.
    Completed {
        /// The command that is answered.
        tag: Tag,
        /// The answer.
        answer: Answer,
    },
    /// A message.
    Message(Box<Message>),
    /// A linked or monitored process has ended.
    Exited(Box<Exit>),
    /// End within the grace period; after it the host ends the process. The root of a run gets it
    /// once more if the grace was over before a host was back: it begins anew.
    Cancel {
        /// Why, for people.
        reason: Arc<str>,
        /// How long until the host ends the process.
        grace: Micros,
    },
}

impl Event {
    /// Puts the answer itself in place of one that is to be had again, which may wait for a disk.
    pub fn recall(&mut self) {
        if let Self::Completed { answer, .. } = self
            && let Ok(Payload::Recalled(recalled)) = answer
        {
            *answer = recalled.answer().map_err(Arc::new);
        }
    }
}

/// Who sent a message.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Sender {
    /// The child that the spawn of that tag made.
    Child(Tag),
    /// Another process of the run.
    Process(Pid),
    /// A call in flight: progress, streamed parts.
    Call(Tag),
    /// The outside: a signal, a webhook, another run, by name.
    Outside(String),
}

/// A message to a process.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Message {
    /// Who sent it.
    pub sender: Sender,
    /// What it is about; `wfhost.*` is the host's own.
    pub topic: Arc<str>,
    /// Its content.
    pub body: Payload,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Ending {
    /// It returned `complete`.
    Completed,
    /// It returned `failed`, or the host ended it for a fault of its own.
    Failed(Arc<Problem>),
    /// The host ended it: the reason.
    Cancelled(Arc<str>),
}

/// The end of a linked or monitored process.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Exit {
    /// The process that ended.
    pub pid: Pid,
    /// The spawn, link or monitor command to which this end belongs.
    pub by: Tag,
    /// How it ended.
    pub ending: Ending,
}
