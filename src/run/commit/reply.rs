//! The way back of a handler's answer.

use super::run::Run;
use crate::process::{Answer, Message, Pid, Problem, Tag, problem::kind};
use crate::run::Reply;
use crate::run::record::kinds::News;
use crate::run::state::outstanding::Pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The way back of one call.
pub(in crate::run) struct CallReply {
    run: Arc<Run>,
    pid: Pid,
    tag: Tag,
    /// An answer was given. This only spares the work: the commit point decides which answer
    /// counts.
    answered: AtomicBool,
}

impl CallReply {
    pub(in crate::run) fn new(run: Arc<Run>, pid: Pid, tag: Tag) -> Self {
        Self { run, pid, tag, answered: AtomicBool::new(false) }
    }

    /// Notes that the answer came another way.
    pub(in crate::run) fn disarm(&self) {
        self.answered.store(true, Relaxed);
    }
}

impl Reply for CallReply {
    fn answer(&self, answer: Answer) {
        self.disarm();
        let mut answer = Some(answer);
        self.run.kernel.with_port(|port| {
            if let Some(answer) = answer.take() {
                self.run.answer(port, self.pid, self.tag, answer);
            }
        });
    }

    fn message(&self, message: Message) -> bool {
        if self.is_abandoned() {
            return false;
        }
        let mut news = Some(News::Message { pid: self.pid, message });
        self.run.kernel.with_port(|port| {
            if let Some(news) = news.take() {
                // A message that finds no room is dropped and counted.
                let _ = self.run.arrive(port, news);
            }
        });
        true
    }

    fn is_abandoned(&self) -> bool {
        !matches!(self.run.inner.lock().state.pending(self.pid, self.tag), Some(Pending::Call(_)))
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        if *self.answered.get_mut() {
            return;
        }
        let repeatable = match self.run.inner.lock().state.pending(self.pid, self.tag) {
            Some(Pending::Call(call)) => !call.sending.is_leaving(),
            _ => return,
        };
        // A call that may be repeated was dispatched all the same; its outcome is unknown.
        let problem = Problem::new(kind::HOST_FAULT, "The handler gave no answer").with_unknown_outcome(repeatable);
        self.answer(Err(problem.into()));
    }
}
