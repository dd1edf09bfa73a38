//! The seam to the handlers.

use crate::process::{Answer, CacheKey, Grants, Limits, Message, Micros, Payload, Pid, Recalls, Tag, Timestamp};
use std::sync::Arc;

/// A call on its way to its handler. The record that caused it is durable.
#[derive(Clone, Debug)]
pub struct OutgoingCall {
    /// The id of the run.
    pub run: Arc<str>,
    /// The process that made the call.
    pub pid: Pid,
    /// The command that the answer belongs to.
    pub tag: Tag,
    /// The call's place in the workflow, `<node path>/<item>/<n>`, if the process gave it one.
    pub scope: Option<Arc<str>>,
    /// The handler's name.
    pub handler: Arc<str>,
    /// The arguments, not checked yet.
    pub args: Payload,
    /// How long the run waits for the answer; the run itself enforces it.
    pub timeout: Option<Micros>,
    /// The idempotency key of the logical call.
    pub idempotency_key: Arc<str>,
    /// What the process is allowed to call.
    pub grants: Grants,
    /// The limits of the process: they bound the answer's payload.
    pub limits: Arc<Limits>,
    /// The call's place in a trace: the header `traceparent` of W3C Trace Context.
    pub traceparent: Option<Arc<str>>,
}

/// An outcome that others may use in place of one of their own. The record that has it is durable.
#[derive(Clone, Debug)]
pub struct CachedOutcome {
    /// Where it is kept.
    pub key: Arc<CacheKey>,
    /// The id of the run that it comes from.
    pub run: Arc<str>,
    /// The time of the record that has it, in microseconds since 1970.
    pub at: Timestamp,
    /// The outcome.
    pub output: Payload,
}

/// Where a handler sends its answer. Only the first answer counts; a reply that is dropped unused
/// answers `host-fault`.
pub trait Reply: Send + Sync {
    /// Gives the answer, from any thread.
    fn answer(&self, answer: Answer);

    /// Sends the process a message from the call in flight: progress, or a streamed part. Returns
    /// whether the process still waits for the answer.
    fn message(&self, message: Message) -> bool;

    /// Returns whether the answer is no longer needed: the call was cancelled or timed out, or the
    /// process has ended.
    fn is_abandoned(&self) -> bool;
}

/// The result of dispatching a call.
#[derive(Debug)]
pub enum Dispatched {
    /// The handler has answered already, on the worker.
    Answered(Answer),
    /// The answer will come through the [`Reply`].
    Pending,
}

/// Carries out calls. Nothing here is ever a host fault: an unknown handler, bad arguments or a
/// missing grant is a problem in the answer.
pub trait Effects: Send + Sync + 'static {
    /// Dispatches a call to its handler. Does not block, and makes no system call on this thread. A
    /// call of [`CACHE`](crate::process::handler::CACHE) comes before its record is durable: it has
    /// no effect.
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched;

    /// Returns what gives the answers again that the records of a run do not write out.
    fn recalls(&self, run: &str) -> Option<Arc<dyn Recalls>> {
        let _ = run;
        None
    }

    /// Reports that a call needs no answer any more; its handler may stop. Such calls are counted.
    fn abandon(&self, run: &str, pid: Pid, tag: Tag);

    /// Returns whether a call may be sent again after an unknown outcome, without a durable record
    /// that it was sent. Called under the commit lock: the answer must not take long, and must
    /// depend on the arguments alone. A panic counts as no.
    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool;

    /// Keeps an outcome for other runs, or drops it. Does not block.
    fn keep(&self, outcome: CachedOutcome) {
        drop(outcome);
    }

    /// Returns whether a pattern of a capability asks for no more than the granted patterns. Called
    /// under the commit lock: the answer must not take long, and must depend on the arguments
    /// alone. A panic counts as no.
    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        let _ = capability;
        granted.iter().any(|pattern| pattern == wanted)
    }
}
