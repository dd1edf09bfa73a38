//! A run as spans: what took how long, within what, and what caused it.
//!
//! Spans are made from the records of a run, not by running code. So they outlive a crash, are the
//! same whenever they are made, and cost nothing until somebody asks. The id of a span is derived
//! from the run and from what the span is of: a process by its pid, a command by its pid and tag,
//! which no other attempt has.
//!
//! A span is reported when it ends. [`RunSpans::finish`] reports those that have not ended.

mod context;
mod fold;

pub use context::{TraceContext, TraceId};
pub use fold::RunSpans;

use crate::process::{Pid, Tag, Timestamp};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Identifies a span of a run: derived, so it is the same whenever the span is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpanId(pub [u8; 8]);

/// What a span is of.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanKind {
    /// The run itself, and its root process.
    Run {
        /// The run that it was made from, if it is a retry or a fork.
        origin: Option<Arc<str>>,
    },
    /// A step of the workflow, with all its items and attempts.
    Step,
    /// A process: of a step one attempt, or what a guest spawned.
    Process,
    /// A call, until its answer has arrived.
    Call {
        /// The name of its handler.
        handler: Arc<str>,
    },
    /// A wait for a signal.
    Wait,
    /// A wait for a time.
    Sleep,
}

impl SpanKind {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Run { .. } => "run",
            Self::Step => "step",
            Self::Process => "process",
            Self::Call { .. } => "call",
            Self::Wait => "wait",
            Self::Sleep => "sleep",
        }
    }
}

/// How what a span is of has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpanEnd {
    /// It has not.
    Open,
    /// Well.
    Succeeded,
    /// With a problem of this kind.
    Failed(String),
    /// It was cancelled, or nobody waited for it any more.
    Cancelled,
}

impl SpanEnd {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open => "unfinished",
            Self::Succeeded => "succeeded",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What took some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its id.
    pub id: SpanId,
    /// The span that it is within; `None` for the run.
    pub parent: Option<SpanId>,
    /// What it is of.
    pub kind: SpanKind,
    /// The name for people: of a step, of a process, of what is called or waited for.
    pub name: String,
    /// The process: itself, or whose command it is.
    pub pid: Pid,
    /// The command, if it is of one.
    pub tag: Option<Tag>,
    /// When it began, in microseconds since 1970.
    pub from: Timestamp,
    /// When it ended, in microseconds since 1970.
    pub to: Timestamp,
    /// How it ended.
    pub end: SpanEnd,
}

/// What one process caused in another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// `spawn`, or the topic of the message.
    pub name: Arc<str>,
    /// Who caused it, and when.
    pub from: (Pid, Timestamp),
    /// Where, and when that process next took a step.
    pub to: (Pid, Timestamp),
}

/// What the records of a run say, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Traced {
    /// The run has begun: its span as it is by now.
    Began(Span),
    /// A span has ended.
    Ended(Span),
    /// A process took a step.
    Stepped {
        /// The process.
        pid: Pid,
        /// The number of the step, from 1.
        step: u64,
        /// When it began, in microseconds since 1970.
        at: Timestamp,
        /// The fuel that it used.
        fuel: u64,
    },
    /// A message or a spawn has had its effect.
    Flow(Flow),
}
