//! Arrivals: what reaches a run from outside a step, as it is recorded.

use super::kinds::Digest;
use super::wire::{Damaged, Source, Wire, unknown};
use crate::process::{Answer, Message, Micros, Payload, Pid, Tag, Timestamp};
use std::sync::Arc;

/// An arrival from outside a step.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Arrived {
    /// Microseconds since 1970, by the host's clock.
    pub at: Timestamp,
    /// The act that it came by, if that has an id.
    pub act: Option<ActId>,
    /// What arrived.
    pub news: News,
}

/// Identifies an act: the same act arrives twice if its answer was lost.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ActId {
    /// Chosen by the caller.
    pub id: Arc<str>,
    /// The digest of what was asked for.
    pub digest: Digest,
}

/// What can come from outside a step.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// The answer to a call.
    Answered {
        /// The process that made the call.
        pid: Pid,
        /// The call.
        tag: Tag,
        /// What the handler gave.
        answer: Answer,
    },
    /// A sleep has ended.
    Due {
        /// The process that sleeps.
        pid: Pid,
        /// The command that asked for the sleep.
        tag: Tag,
    },
    /// A message from a call in flight.
    Message {
        /// The receiver.
        pid: Pid,
        /// What the handler sent.
        message: Message,
    },
    /// A caller outside the run asks a process to end.
    Cancel {
        /// The process that is to end.
        pid: Pid,
        /// The reason, for people.
        reason: Arc<str>,
        /// How long the process may continue; `None` for its own limit.
        grace: Option<Micros>,
    },
    /// A signal: retained until a process has registered the name.
    Signal {
        /// The name that it was sent under.
        name: Arc<str>,
        /// What it carries.
        body: Payload,
    },
    /// An operator pauses (`true`) or unpauses the run's processes.
    Paused(bool),
    /// The run takes longer than it may: its root is asked to end.
    TimedOut {
        /// How long the run was allowed to take.
        after: Micros,
    },
    /// The grace of a root that was asked to end was over while its host was down, or was stopped:
    /// it begins anew.
    GraceAgain,
    /// A call whose outcome was unknown is to be sent again.
    Again {
        /// The process that made the call.
        pid: Pid,
        /// The call.
        tag: Tag,
    },
}

impl Wire for Arrived {
    fn put(&self, out: &mut Vec<u8>) {
        self.at.put(out);
        self.act.put(out);
        self.news.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self { at: Wire::take(from)?, act: Wire::take(from)?, news: Wire::take(from)? })
    }
}

impl Wire for ActId {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.extend_from_slice(&self.digest.0.to_le_bytes());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self { id: Wire::take(from)?, digest: Digest(u128::from_le_bytes(from.array()?)) })
    }
}

impl Wire for News {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Answered { pid, tag, answer } => {
                out.push(0);
                pid.put(out);
                tag.put(out);
                answer.put(out);
            }
            Self::Due { pid, tag } => {
                out.push(1);
                pid.put(out);
                tag.put(out);
            }
            Self::Message { pid, message } => {
                out.push(2);
                pid.put(out);
                message.put(out);
            }
            Self::Cancel { pid, reason, grace } => {
                out.push(3);
                pid.put(out);
                reason.put(out);
                grace.put(out);
            }
            Self::Signal { name, body } => {
                out.push(4);
                name.put(out);
                body.put(out);
            }
            Self::Paused(paused) => {
                out.push(5);
                paused.put(out);
            }
            Self::Again { pid, tag } => {
                out.push(6);
                pid.put(out);
                tag.put(out);
            }
            Self::TimedOut { after } => {
                out.push(7);
                after.put(out);
            }
            Self::GraceAgain => out.push(8),
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Answered { pid: Wire::take(from)?, tag: Wire::take(from)?, answer: Wire::take(from)? },
            1 => Self::Due { pid: Wire::take(from)?, tag: Wire::take(from)? },
            2 => Self::Message { pid: Wire::take(from)?, message: Wire::take(from)? },
            3 => Self::Cancel { pid: Wire::take(from)?, reason: Wire::take(from)?, grace: Wire::take(from)? },
            4 => Self::Signal { name: Wire::take(from)?, body: Wire::take(from)? },
            5 => Self::Paused(Wire::take(from)?),
            6 => Self::Again { pid: Wire::take(from)?, tag: Wire::take(from)? },
            7 => Self::TimedOut { after: Wire::take(from)? },
            8 => Self::GraceAgain,
            other => return Err(unknown("piece of news", other)),
        })
    }
}
