//! The answer to one command.

use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::bindings::wfhost::process::types::Action;
use crate::core::{Answered, Core, Tag};
use crate::{FromPayload, Problem};

/// A command that has been issued, and whose answer is wanted. Dropping it cancels the command.
pub(crate) struct Pending {
    core: Rc<Core>,
    tag: Tag,
    done: bool,
    cancel: bool,
}

impl Pending {
    pub(crate) fn issue(core: Rc<Core>, action: Action) -> Self {
        let tag = core.issue_awaited(action);
        Self { core, tag, done: false, cancel: true }
    }

    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// Dropping it no longer cancels the command.
    pub(crate) fn keep_running(&mut self) {
        self.cancel = false;
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Answered> {
        assert!(!self.done, "an answer was polled after it had been given");
        let polled = self.core.poll_answer(self.tag, waker);
        self.done = polled.is_ready();
        polled
    }

    /// The answer, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<Answered> {
        let answer = self.core.take_answer(self.tag);
        self.done |= answer.is_some();
        answer
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done && self.core.abandon(self.tag) && self.cancel {
            self.core.issue(Action::Cancel(self.tag));
        }
    }
}

/// The typed answer to a command that has been issued. Dropping it cancels the command.
#[must_use = "an answer that is dropped cancels its command"]
pub struct Answer<T> {
    state: Result<Pending, Option<Problem>>,
    of: PhantomData<fn() -> T>,
}

impl<T> Answer<T> {
    pub(crate) fn new(pending: Pending) -> Self {
        Self { state: Ok(pending), of: PhantomData }
    }

    /// An answer to a command that could not even be issued.
    pub(crate) fn refused(problem: Problem) -> Self {
        Self { state: Err(Some(problem)), of: PhantomData }
    }
}

impl<T: FromPayload> Future for Answer<T> {
    type Output = Result<T, Problem>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            Ok(pending) => pending.poll(context.waker()).map(|answer| T::from_payload(answer?)),
            Err(problem) => Poll::Ready(Err(problem.take().expect("an answer was polled after it had been given"))),
        }
    }
}
