//! What a handler knows of the call that it carries out.

use crate::process::{Grants, Limits, Message, Micros, Payload, Pid, Sender, Tag};
use crate::run::{Outgoing, Reply};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a handler knows of the call that it carries out. Cloning it is cheap.
#[derive(Clone)]
pub struct CallContext {
    run: Arc<str>,
    pid: Pid,
    tag: Tag,
    scope: Option<Arc<str>>,
    handler: Arc<str>,
    timeout: Option<Micros>,
    idempotency_key: Arc<str>,
    grants: Grants,
    limits: Arc<Limits>,
    reply: Arc<dyn Reply>,
    abandoned: CancellationToken,
}

impl CallContext {
    pub(super) fn new(call: Outgoing, reply: Arc<dyn Reply>, abandoned: CancellationToken) -> (Payload, Self) {
        let Outgoing { run, pid, tag, scope, handler, args, timeout, idempotency_key, grants, limits } = call;
        (args, Self { run, pid, tag, scope, handler, timeout, idempotency_key, grants, limits, reply, abandoned })
    }

    /// The run's id.
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// The process that called.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The command that is to be answered.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The call's place in the workflow, `<node path>/<item>/<n>`, where the process gave it one.
    pub fn scope(&self) -> Option<&Arc<str>> {
        self.scope.as_ref()
    }

    /// The name under which the handler was called.
    pub fn handler(&self) -> &Arc<str> {
        &self.handler
    }

    /// How long the run waits for the answer, from when the call was made. The run keeps watch over it itself.
    pub fn timeout(&self) -> Option<Micros> {
        self.timeout
    }

    /// The logical call's key: the same for each attempt of which nobody knows whether the one before it happened.
    pub fn idempotency_key(&self) -> &Arc<str> {
        &self.idempotency_key
    }

    /// What the process may ask for.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// What the process may use: an answer beyond [`Limits::payload_bytes`] becomes a problem.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Sends the process a message from the call in flight: progress, a streamed part. False: nobody waits any more, or the
    /// message is larger than the process may receive.
    pub fn message(&self, topic: impl Into<Arc<str>>, body: Payload) -> bool {
        let topic = topic.into();
        let size = (topic.len() + body.size()) as u64;
        size <= self.limits.payload_bytes && self.reply.message(Message { sender: Sender::Call(self.tag), topic, body })
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.is_cancelled() || self.reply.is_abandoned()
    }

    /// Waits until nobody waits for the answer any more. The call's own future is dropped then; this is for what it has
    /// started elsewhere.
    pub async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("run", &self.run)
            .field("pid", &self.pid)
            .field("tag", &self.tag)
            .field("handler", &self.handler)
            .field("idempotency_key", &self.idempotency_key)
            .finish_non_exhaustive()
    }
}
