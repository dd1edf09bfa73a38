//! Messages, exits and cancels.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::Problem;
use crate::answer::Pending;
use crate::bindings::wfhost::process::types::{Action, Cancellation, Exit, Message, Payload, Send, Sender, Target};
use crate::core::{Core, Filter, Tag};

/// A message on its way. Only refusals are answered; an unread one is logged as a warning.
pub struct Sent(Pending);

impl Sent {
    pub(crate) fn new(core: Rc<Core>, to: Target, topic: &str, body: Payload) -> Self {
        let send = Send { to, topic: topic.to_owned(), body };
        let mut pending = Pending::issue(core, Action::Send(send));
        pending.keep_running();
        Self(pending)
    }

    /// Why it was not delivered, once that is known: not before the next event.
    pub fn refusal(&mut self) -> Option<Problem> {
        self.0.take().and_then(Result::err)
    }
}

/// Waits for a message.
#[must_use = "nothing is received before it is awaited"]
pub struct Receive {
    core: Rc<Core>,
    id: u64,
    filter: Filter,
}

impl Receive {
    pub(crate) fn new(core: Rc<Core>) -> Self {
        let id = core.next_id();
        Self { core, id, filter: Filter::default() }
    }

    /// Receives only messages of this topic. Others stay for other receivers.
    pub fn topic(mut self, topic: &str) -> Self {
        self.filter.topic = Some(topic.to_owned());
        self
    }

    /// Receives only messages of this sender.
    pub fn sender(mut self, sender: Sender) -> Self {
        self.filter.sender = Some(sender);
        self
    }

    /// The first such message that has already arrived.
    pub fn now(self) -> Option<Message> {
        self.core.take_message(&self.filter)
    }
}

impl Future for Receive {
    type Output = Message;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Message> {
        self.core.poll_message(self.id, &self.filter, context.waker())
    }
}

impl Drop for Receive {
    fn drop(&mut self) {
        self.core.stop_receiving(self.id);
    }
}

/// Waits for the end of a process.
#[must_use = "nothing is heard before it is awaited"]
pub struct Exits {
    core: Rc<Core>,
    by: Tag,
}

impl Exits {
    pub(crate) fn new(core: Rc<Core>, action: Action) -> Self {
        let by = core.issue(action);
        Self::of(core, by)
    }

    pub(crate) fn of(core: Rc<Core>, by: Tag) -> Self {
        core.expect_exit(by);
        Self { core, by }
    }
}

impl Future for Exits {
    type Output = Exit;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Exit> {
        self.core.poll_exit(self.by, context.waker())
    }
}

impl Drop for Exits {
    fn drop(&mut self) {
        self.core.forget_exit(self.by);
    }
}

/// Waits for a cancel. While one exists, the guest must end itself within the grace period.
#[must_use = "nothing is heard before it is awaited"]
pub struct Cancelled {
    core: Rc<Core>,
    id: u64,
}

impl Cancelled {
    pub(crate) fn new(core: Rc<Core>) -> Self {
        let id = core.next_id();
        core.listen(id, None);
        Self { core, id }
    }
}

impl Future for Cancelled {
    type Output = Cancellation;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cancellation> {
        if let Some(cancellation) = self.core.cancellation() {
            return Poll::Ready(cancellation);
        }
        self.core.listen(self.id, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.core.stop_listening(self.id);
    }
}
