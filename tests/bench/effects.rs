//! Handlers of runs that call none.

use std::sync::Arc;
use wfhost::process::{Payload, Pid, Tag};
use wfhost::run::{Dispatched, Effects, OutgoingCall, Reply};

/// Answers each call with its arguments.
pub(crate) struct NoEffects;

impl Effects for NoEffects {
    fn dispatch(&self, call: OutgoingCall, _: Arc<dyn Reply>) -> Dispatched {
        Dispatched::Answered(Ok(call.args))
    }

    fn abandon(&self, _: &str, _: Pid, _: Tag) {}

    fn is_repeatable(&self, _: &str, _: &Payload) -> bool {
        true
    }
}
