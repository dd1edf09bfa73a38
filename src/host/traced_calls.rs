//! Calls of a run that belongs to a trace: handlers are told where.

use super::{Host, TraceContext};
use crate::process::{Payload, Pid, Recalls, Tag};
use crate::run::{CachedOutcome, Dispatched, Effects, OutgoingCall, Reply};
use crate::workflow::plan::Plan;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Hands on calls, each with its place in the trace.
struct TracedCalls {
    context: TraceContext,
    effects: Arc<dyn Effects>,
}

impl Effects for TracedCalls {
    fn dispatch(&self, mut call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        call.traceparent = Some(self.context.header(&call.run, call.pid, call.tag).into());
        self.effects.dispatch(call, reply)
    }

    fn recalls(&self, run: &str) -> Option<Arc<dyn Recalls>> {
        self.effects.recalls(run)
    }

    fn abandon(&self, run: &str, pid: Pid, tag: Tag) {
        self.effects.abandon(run, pid, tag);
    }

    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        self.effects.is_repeatable(handler, args)
    }

    fn keep(&self, outcome: CachedOutcome) {
        self.effects.keep(outcome);
    }

    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        self.effects.narrows(capability, granted, wanted)
    }
}

impl Host {
    /// Tells handlers the trace of every run that begins or is recovered from now on, not only of
    /// those that were started within one: somebody collects the traces of this host.
    pub fn trace_calls(&self) {
        self.shared.traces_calls.store(true, Relaxed);
    }

    /// Where the calls of a run go.
    pub(super) fn effects(&self, run: &str, plan: &Plan, traceparent: Option<&str>) -> Arc<dyn Effects> {
        let effects = self.cached(self.bounded(plan));
        let is_traced = traceparent.and_then(TraceContext::read).is_some() || self.shared.traces_calls.load(Relaxed);
        if !is_traced {
            return effects;
        }
        Arc::new(TracedCalls { context: TraceContext::of_run(run, traceparent), effects })
    }
}
