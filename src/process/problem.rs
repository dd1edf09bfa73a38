//! What went wrong, in the shape of RFC 9457.

use super::{Json, Micros};
use std::borrow::Cow;
use std::fmt;

/// Whether it happened, and whether trying again may help.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemClass {
    /// It did not happen, and trying again would not help.
    Definite,
    /// It did not happen, and trying again may help.
    Retryable,
    /// The outcome is unknown: it may be repeated only under the same idempotency key.
    Uncertain,
}

/// A problem detail (RFC 9457), as far as it concerns a guest.
#[derive(Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Problem {
    /// The type URI, or a short name below the host's own base URI: one of [`kind`], or a guest's
    /// own.
    pub kind: Cow<'static, str>,
    /// One line for people.
    pub title: Cow<'static, str>,
    /// The HTTP status where there is one, else 0.
    pub status: u16,
    /// What is special about this occurrence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// Whether it happened, and whether trying again may help.
    pub class: ProblemClass,
    /// Whether it may have happened all the same, which the class of a repeatable call does not
    /// say. A repeat has the same idempotency key. Guests do not see this.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub may_have_happened: bool,
    /// How long to wait before trying again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<Micros>,
    /// Extension members: a JSON object.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub data: Option<Json>,
}

impl Problem {
    /// A definite problem.
    #[must_use]
    pub fn new(kind: impl Into<Cow<'static, str>>, title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: kind.into(),
            title: title.into(),
            status: 0,
            detail: None,
            class: ProblemClass::Definite,
            may_have_happened: false,
            retry_after: None,
            data: None,
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same with another class, which says whether it happened.
    #[must_use]
    pub fn with_class(mut self, class: ProblemClass) -> Self {
        self.class = class;
        self.may_have_happened = false;
        self
    }

    /// The same with an unknown outcome: it may be tried again if a repeat does no harm.
    #[must_use]
    pub fn with_unknown_outcome(mut self, repeatable: bool) -> Self {
        self.class = if repeatable { ProblemClass::Retryable } else { ProblemClass::Uncertain };
        self.may_have_happened = true;
        self
    }

    /// The same with over-long texts cut, marked by `…`.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        cut_name(&mut self.kind, KIND_BYTES_MAX);
        cut_name(&mut self.title, TITLE_BYTES_MAX);
        if let Some(detail) = &mut self.detail {
            cut(detail, DETAIL_BYTES_MAX);
        }
        self
    }

    /// The same with extension members.
    #[must_use]
    pub fn with_data(mut self, data: &serde_json::Value) -> Self {
        self.data = Some(data.into());
        self
    }
}

/// Bytes of the texts of a problem that a guest gives. Arbitrary: a screen of text.
pub const KIND_BYTES_MAX: usize = 256;
/// Bytes of its title.
pub const TITLE_BYTES_MAX: usize = 1 << 10;
/// Bytes of its detail.
pub const DETAIL_BYTES_MAX: usize = 4 << 10;

fn cut_name(text: &mut Cow<'static, str>, bytes_max: usize) {
    if text.len() > bytes_max {
        cut(text.to_mut(), bytes_max);
    }
}

/// Cuts a text at the end of a character, and marks the cut.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.kind)?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Problem {}

/// The kinds of problem that the host itself makes. Each limit has its own.
pub mod kind {
    /// The guest trapped: an unreachable instruction, a memory access out of bounds, a stack
    /// overflow, a panic.
    pub const TRAP: &str = "trap";
    /// A step used more fuel than it may, or a process more than it may in all.
    pub const FUEL_EXHAUSTED: &str = "fuel-exhausted";
    /// The guest's memories or tables would grow beyond their limit, and the guest could not go on.
    pub const MEMORY_EXHAUSTED: &str = "memory-exhausted";
    /// The wasm stack overflowed.
    pub const STACK_EXHAUSTED: &str = "stack-exhausted";
    /// A cause on the host's side: the guest could not see it and is not to blame.
    pub const HOST_FAULT: &str = "host-fault";
    /// A process of a recovered run does not repeat its records.
    pub const DIVERGED: &str = "diverged";
    /// A process of a recovered run ends where its records have commands: this host cannot repeat
    /// it.
    pub const HOST_CANNOT_REPLAY: &str = "host-cannot-replay";
    /// The journal can no longer be written: which of the run's records are durable is unknown.
    pub const JOURNAL_FAILED: &str = "journal-failed";
    /// Another host owns the run: this one writes no further records of it.
    pub const RUN_TAKEN: &str = "run-taken";
    /// The run did not begin: its concurrency group has no place for it.
    pub const NO_PLACE: &str = "no-place";
    /// The host stopped before the run ended. A durable run goes on when it is recovered.
    pub const SUSPENDED: &str = "suspended";
    /// The images of the run's evicted guests take more room than a run may have.
    pub const IMAGES_EXHAUSTED: &str = "images-exhausted";
    /// No instance slot can be had.
    pub const NO_CAPACITY: &str = "no-capacity";
    /// A WASI call would wait: a step never waits.
    pub const BLOCKING_CALL: &str = "blocking-call";
    /// The guest called exit instead of ending by its step's status.
    pub const EXIT: &str = "exit";
    /// The entry point that was asked for does not exist.
    pub const UNKNOWN_ENTRY: &str = "unknown-entry";
    /// The component that was asked for is not among the workflow's.
    pub const UNKNOWN_COMPONENT: &str = "unknown-component";
    /// The guest does not accept the state that it saved itself.
    pub const BAD_STATE: &str = "bad-state";
    /// The component does not fit the world.
    pub const BAD_COMPONENT: &str = "bad-component";
    /// A script cannot be loaded: its syntax is wrong, it imports what is not there, or it fails
    /// before any of its entry points is called.
    pub const BAD_SCRIPT: &str = "bad-script";
    /// A tag is not greater than the one before.
    pub const BAD_TAG: &str = "bad-tag";
    /// A number of the contract is 2^53 or more.
    pub const BAD_NUMBER: &str = "bad-number";
    /// A JSON payload is not JSON, or nests too deep.
    pub const BAD_JSON: &str = "bad-json";
    /// A JSON payload nests deeper than it may.
    pub const JSON_TOO_DEEP: &str = "json-too-deep";
    /// A blob handle that this run was not given.
    pub const BAD_BLOB: &str = "bad-blob";
    /// The stored bytes of a blob are not those of its digest.
    pub const BLOB_DAMAGED: &str = "blob-damaged";
    /// A blob is larger than allowed.
    pub const BLOB_TOO_LARGE: &str = "blob-too-large";
    /// The run holds more blobs, or larger ones, than allowed.
    pub const RUN_BLOBS_EXHAUSTED: &str = "run-blobs-exhausted";
    /// The blobs of all runs together are larger than allowed.
    pub const BLOB_STORE_FULL: &str = "blob-store-full";
    /// The disk has no room for what has to be stored before the call is answered.
    pub const DISK_FULL: &str = "disk-full";
    /// The arguments of a call do not fit its handler's schema.
    pub const BAD_ARGUMENTS: &str = "bad-arguments";
    /// No handler of that name.
    pub const UNKNOWN_HANDLER: &str = "unknown-handler";
    /// The workflow does not grant what was asked for.
    pub const NOT_GRANTED: &str = "not-granted";
    /// A spawn asked for more than its parent has.
    pub const BAD_NARROW: &str = "bad-narrow";
    /// The process waits for answers, exits or cancel, and none can come.
    pub const BLOCKED_ON_NOTHING: &str = "blocked-on-nothing";
    /// No such process, or it has ended.
    pub const NO_PROCESS: &str = "no-process";
    /// The asker may not end this process: it is no descendant, and has not accepted a link.
    pub const NOT_ACCEPTED: &str = "not-accepted";
    /// The receiver's mailbox is full.
    pub const MAILBOX_FULL: &str = "mailbox-full";
    /// Another process has that name.
    pub const NAME_TAKEN: &str = "name-taken";
    /// It was cancelled.
    pub const CANCELLED: &str = "cancelled";
    /// It took longer than its timeout.
    pub const TIMED_OUT: &str = "timed-out";
    /// More commands in one step than allowed.
    pub const TOO_MANY_COMMANDS: &str = "too-many-commands";
    /// More unanswered commands than allowed.
    pub const TOO_MANY_OUTSTANDING: &str = "too-many-outstanding";
    /// More processes in the run than allowed.
    pub const TOO_MANY_PROCESSES: &str = "too-many-processes";
    /// Spawned deeper than allowed.
    pub const TOO_DEEP: &str = "too-deep";
    /// A payload, a name, or a step's whole output is larger than allowed.
    pub const TOO_LARGE: &str = "too-large";
    /// More links, monitors or names than allowed.
    pub const TOO_MANY_LINKS: &str = "too-many-links";
    /// The run has written more than its journal may hold.
    pub const JOURNAL_EXHAUSTED: &str = "journal-exhausted";
    /// The host is shutting down.
    pub const SHUTTING_DOWN: &str = "shutting-down";
    /// The request needs a later version.
    pub const NOT_SUPPORTED: &str = "not-supported";
}
