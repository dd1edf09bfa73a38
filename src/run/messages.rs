//! Messages: to a pid, to the child of a tag, to a name.

use super::decide::too_large;
use super::record::Decision;
use super::state::State;
use super::weight::message_bytes;
use crate::process::{Message, Pid, Problem, ProblemClass, Send, Sender, Target, problem::kind};

impl State {
    pub(super) fn decide_send(&self, pid: Pid, send: &Send) -> Result<Decision, Box<Problem>> {
        if let Target::Run { run, .. } = &send.to {
            // What crosses runs is an effect outside of this one: it needs an outbox and a dedupe id.
            return Err(Box::new(
                Problem::new(kind::NOT_SUPPORTED, "Messages to other runs are not supported yet")
                    .with_detail(format!("The message was for the run {run:?}.")),
            ));
        }
        self.may_carry(pid, &send.body)?;
        let receiver = self.resolve(pid, &send.to).and_then(|to| Some((to, self.living(to)?)));
        let Some((to, entry)) = receiver else {
            return Err(Box::new(
                Problem::new(kind::NO_PROCESS, "No such process, or it has ended")
                    .with_detail(format!("The message was for {:?}.", send.to)),
            ));
        };
        let bytes = message_bytes(&send.topic, &send.body);
        if bytes > entry.limits.mailbox_bytes {
            return Err(Box::new(too_large("A message", bytes, entry.limits.mailbox_bytes)));
        }
        if !self.takes_message(entry, bytes) {
            return Err(Box::new(
                Problem::new(kind::MAILBOX_FULL, "The receiver's mailbox is full")
                    .with_detail(format!(
                        "It holds {} messages of {} bytes, its run {} bytes of {}.",
                        entry.mail, entry.mail_bytes, self.bytes, self.bounds.bytes
                    ))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        let weight = self.weigh(1, bytes, 0);
        if !self.has_room(weight) {
            return Err(Box::new(
                Problem::new(kind::MAILBOX_FULL, "The host has no room for another message of the run")
                    .with_detail(self.no_room(weight))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        Ok(Decision::Delivered(to))
    }

    pub(super) fn apply_send(&mut self, pid: Pid, to: Pid, send: Send) {
        let sender = match self.table.get(pid).and_then(|entry| entry.parent) {
            Some((parent, tag)) if parent == to => Sender::Child(tag),
            _ => Sender::Process(pid),
        };
        self.post_message(to, Box::new(Message { sender, topic: send.topic, body: send.body }));
    }
}
