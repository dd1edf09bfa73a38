//! The context of a call, as its handler sees it.

use crate::process::{Grants, Limits, Message, Micros, Payload, Pid, Sender, Tag};
use crate::run::{OutgoingCall, Reply, RunBlobs};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The context of a call: its origin, its limits, and the way back to its process. Cloning is
/// cheap.
#[derive(Clone)]
pub struct CallContext {
    /// The call. Its arguments are null: the handler owns them.
    call: OutgoingCall,
    reply: Arc<dyn Reply>,
    abandoned: CancellationToken,
    blobs: Option<RunBlobs>,
}

impl CallContext {
    /// Splits a call into its arguments and its context.
    pub(super) fn new(
        mut call: OutgoingCall,
        reply: Arc<dyn Reply>,
        abandoned: CancellationToken,
        blobs: Option<RunBlobs>,
    ) -> (Payload, Self) {
        let args = std::mem::replace(&mut call.args, Payload::NULL);
        (args, Self { call, reply, abandoned, blobs })
    }

    /// Returns the run's id.
    pub fn run(&self) -> &Arc<str> {
        &self.call.run
    }

    /// Returns the process that called.
    pub fn pid(&self) -> Pid {
        self.call.pid
    }

    /// Returns the tag of the command that asked for the call.
    pub fn tag(&self) -> Tag {
        self.call.tag
    }

    /// Returns the call's place in the workflow, `<node path>/<item>/<n>`; `None` if the process
    /// gave it none.
    pub fn scope(&self) -> Option<&Arc<str>> {
        self.call.scope.as_ref()
    }

    /// Returns the name under which the handler was called.
    pub fn handler(&self) -> &Arc<str> {
        &self.call.handler
    }

    /// Returns how long the run waits for the answer, counted from the call. The run enforces it.
    pub fn timeout(&self) -> Option<Micros> {
        self.call.timeout
    }

    /// Returns the logical call's key: an attempt has the key of the one before it, if the outcome
    /// of that one is unknown.
    pub fn idempotency_key(&self) -> &Arc<str> {
        &self.call.idempotency_key
    }

    /// Returns the call's place in a trace, if the run belongs to one: the header `traceparent` of
    /// W3C Trace Context.
    pub fn traceparent(&self) -> Option<&Arc<str>> {
        self.call.traceparent.as_ref()
    }

    /// Returns the blobs of the run, to read what it was given and to store more; `None` if the
    /// dispatcher stores none. Its calls wait for a disk.
    pub fn blobs(&self) -> Option<&RunBlobs> {
        self.blobs.as_ref()
    }

    /// Returns the grants of the process.
    pub fn grants(&self) -> &Grants {
        &self.call.grants
    }

    /// Returns the limits of the process: an answer beyond [`Limits::payload_bytes`] becomes a
    /// problem.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.call.limits
    }

    /// Sends the process a message from the call in flight: progress, a streamed part. Returns
    /// whether it was sent: the answer is still awaited, and the message is no larger than the
    /// process may receive.
    pub fn message(&self, topic: impl Into<Arc<str>>, body: Payload) -> bool {
        let topic = topic.into();
        let size = (topic.len() + body.size()) as u64;
        let sender = Sender::Call(self.call.tag);
        size <= self.call.limits.payload_bytes && self.reply.message(Message { sender, topic, body })
    }

    /// Returns whether the answer is no longer awaited.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.is_cancelled() || self.reply.is_abandoned()
    }

    /// Waits until the answer is no longer awaited. The call's own future is dropped then; this is
    /// for work that it has started elsewhere.
    pub async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("run", &self.call.run)
            .field("pid", &self.call.pid)
            .field("tag", &self.call.tag)
            .field("handler", &self.call.handler)
            .field("idempotency_key", &self.call.idempotency_key)
            .finish_non_exhaustive()
    }
}
