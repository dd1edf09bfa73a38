//! Messages: to a pid, to the child of a tag, to a name.

use super::decide::too_large;
use super::run_state::State;
use super::table::Entry;
use super::weight::message_bytes;
use crate::process::{Pid, Problem, ProblemClass, Send, Sender, Target, problem::kind};
use crate::run::record::kinds::Decision;

impl State {
    #[inline]
    pub(in crate::run) fn decide_send(&self, pid: Pid, send: &Send) -> Result<Decision, Box<Problem>> {
        let receiver = self.resolve(pid, &send.to).and_then(|to| Some((to, self.living(to)?)));
        let bytes = message_bytes(&send.message.topic, &send.message.body);
        match receiver {
            Some((to, entry))
                if self.may_carry(pid, &send.message.body).is_ok()
                    && self.takes_message(entry, bytes)
                    && self.has_room(self.weigh(1, bytes, 0)) =>
            {
                Ok(Decision::Delivered(to))
            }
            receiver => Err(Box::new(self.no_send(pid, send, receiver.map(|(_, entry)| entry)))),
        }
    }

    /// Why a message cannot be sent.
    #[cold]
    fn no_send(&self, pid: Pid, send: &Send, receiver: Option<&Entry>) -> Problem {
        if let Target::Run { run, .. } = &send.to {
            // A message to another run is an effect outside of this one: it needs an outbox and a
            // dedupe id.
            return Problem::new(kind::NOT_SUPPORTED, "Messages to other runs are not supported yet")
                .with_detail(format!("The message was for the run {run:?}."));
        }
        if let Err(problem) = self.may_carry(pid, &send.message.body) {
            return *problem;
        }
        let Some(entry) = receiver else {
            return Problem::new(kind::NO_PROCESS, "No such process, or it has ended")
                .with_detail(format!("The message was for {:?}.", send.to));
        };
        let bytes = message_bytes(&send.message.topic, &send.message.body);
        if bytes > entry.limits.mailbox_bytes {
            return too_large("A message", bytes, entry.limits.mailbox_bytes);
        }
        if !self.takes_message(entry, bytes) {
            return Problem::new(kind::MAILBOX_FULL, "The receiver's mailbox is full")
                .with_detail(format!(
                    "It holds {} messages of {} bytes, its run {} bytes of {}.",
                    entry.mail, entry.mail_bytes, self.bytes, self.bounds.bytes
                ))
                .with_class(ProblemClass::Retryable);
        }
        Problem::new(kind::MAILBOX_FULL, "The host has no room for another message of the run")
            .with_detail(self.no_room(self.weigh(1, bytes, 0)))
            .with_class(ProblemClass::Retryable)
    }

    #[inline]
    pub(in crate::run) fn apply_send(&mut self, pid: Pid, to: Pid, send: Send) {
        let mut message = send.message;
        message.sender = match self.table.get(pid).and_then(|entry| entry.parent) {
            Some((parent, tag)) if parent == to => Sender::Child(tag),
            _ => Sender::Process(pid),
        };
        self.post_message(to, message);
    }
}
