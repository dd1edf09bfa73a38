//! What leaves the host: the seam to the handlers.

use crate::process::{Answer, Grants, Limits, Message, Micros, Payload, Pid, Tag};
use std::sync::Arc;

/// A call on its way to its handler. The record that caused it is durable.
#[derive(Clone, Debug)]
pub struct OutgoingCall {
    /// The run.
    pub run: Arc<str>,
    /// The process that asked.
    pub pid: Pid,
    /// The command that is to be answered.
    pub tag: Tag,
    /// Its place in the workflow, `<node path>/<item>/<n>`, where the process gave it one.
    pub scope: Option<Arc<str>>,
    /// The handler's name.
    pub handler: Arc<str>,
    /// Its arguments.
    pub args: Payload,
    /// How long the run will wait for the answer; the run itself keeps watch over it.
    pub timeout: Option<Micros>,
    /// The logical call's idempotency key.
    pub idempotency_key: Arc<str>,
    /// What the process may ask for.
    pub grants: Grants,
    /// What the process may use: the answer's payload is bounded by it.
    pub limits: Arc<Limits>,
}

/// Where a handler's answer goes. Whatever happens, the first answer counts; one that is dropped unused answers `host-fault`.
pub trait Reply: Send + Sync {
    /// Gives the answer, from any thread.
    fn answer(&self, answer: Answer);

    /// Sends the process a message from the call in flight: progress, a streamed part. False: nobody waits any more.
    fn message(&self, message: Message) -> bool;

    /// Whether nobody waits for the answer any more: cancelled, timed out, the process gone.
    fn is_abandoned(&self) -> bool;
}

/// What became of a dispatched call.
#[derive(Debug)]
pub enum Dispatched {
    /// The answer is here already: the handler ran on the worker.
    Answered(Answer),
    /// The answer will come through the [`Reply`].
    Pending,
}

/// Carries out calls. None of it is ever a host fault: an unknown handler, bad arguments, a missing grant is a problem in the answer.
pub trait Effects: Send + Sync + 'static {
    /// Hands a call to its handler. It does not block, and makes no system call on this thread.
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched;

    /// The call needs no answer any more; its handler may stop. Dropped calls are counted.
    fn abandon(&self, run: &str, pid: Pid, tag: Tag);

    /// Whether a call may be sent again after an unknown outcome without a durable record that it left. It is asked while the run stands
    /// still: an answer must not take long, and must not depend on anything but its arguments. A panic is a no.
    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool;

    /// Whether a pattern of a capability asks for no more than these patterns grant. It is asked while the run stands still: an
    /// answer must not take long, and must not depend on anything but its arguments. A panic is a no.
    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        let _ = capability;
        granted.iter().any(|pattern| pattern == wanted)
    }
}
