//! Calls that the host's own handlers carry out.

use super::super::said::value_of;
use super::Servers;
use crate::process::{Answer, Problem};
use crate::run::{Dispatched, Effects, OutgoingCall, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc;

impl Servers {
    /// Has the host's own handler carry out a call, and waits for it.
    pub(super) fn carry_out(&self, call: OutgoingCall) -> Dispatched {
        let (step, args) = (self.step_of(&call), value_of(&call.args));
        let (sender, receiver) = mpsc::channel();
        let waiting: Arc<dyn Reply> = Arc::new(WaitingReply(Mutex::new(sender)));
        let answer = match self.dispatcher.dispatch(call.clone(), waiting) {
            Dispatched::Answered(answer) => answer,
            Dispatched::Pending => receiver
                .recv()
                .unwrap_or_else(|_| Err(Arc::new(Problem::new("host-fault", "The handler ended without an answer")))),
        };
        self.note(&mut self.inner.lock(), &call, (step, args), None, &answer);
        Dispatched::Answered(answer)
    }
}

/// Receives the answer of a real handler.
struct WaitingReply(Mutex<mpsc::Sender<Answer>>);

impl Reply for WaitingReply {
    fn answer(&self, answer: Answer) {
        let _ = self.0.lock().send(answer);
    }

    fn message(&self, _: crate::process::Message) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }
}
