//! Calls of runs whose workflow bounds them: all runs of a workflow on this host share its bounds.

use super::Host;
use crate::dispatch::{Bound, CallBounds, Dispatcher};
use crate::process::{Payload, Pid, Recalls, Tag};
use crate::run::{Dispatched, Effects, OutgoingCall, Reply};
use crate::workflow::model::HandlerBounds;
use crate::workflow::plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Workflows whose bounds are held although no run of them lives. Arbitrary.
const IDLE_MAX: usize = 1_000;

/// The bounds of workflows, by name and by what they are: another version with other bounds has its
/// own.
pub(super) type BoundsByWorkflow = BTreeMap<(Arc<str>, String), Arc<CallBounds>>;

/// Hands calls to their handlers within the bounds of a workflow.
struct BoundedCalls {
    bounds: Arc<CallBounds>,
    dispatcher: Arc<Dispatcher>,
}

impl Effects for BoundedCalls {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        self.dispatcher.dispatch_within(call, reply, Some(&self.bounds))
    }

    fn abandon(&self, run: &str, pid: Pid, tag: Tag) {
        self.dispatcher.abandon(run, pid, tag);
    }

    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        self.dispatcher.is_repeatable(handler, args)
    }

    fn recalls(&self, run: &str) -> Option<Arc<dyn Recalls>> {
        self.dispatcher.recalls(run)
    }

    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        self.dispatcher.narrows(capability, granted, wanted)
    }
}

impl From<&HandlerBounds> for Bound {
    fn from(bounds: &HandlerBounds) -> Self {
        let HandlerBounds { concurrency, interval, burst, per_host } = bounds;
        let interval = interval.map(std::time::Duration::from);
        Self { concurrency: *concurrency, interval, burst: burst.unwrap_or(1), per_host: *per_host }
    }
}

impl Host {
    /// The handlers, within the bounds of a workflow.
    pub(super) fn bounded(&self, plan: &Plan) -> Arc<dyn Effects> {
        let dispatcher = Arc::clone(&self.shared.dispatcher);
        if plan.handlers.is_empty() {
            return dispatcher;
        }
        let text = serde_json::to_string(&plan.handlers).expect("invariant: bounds are JSON");
        let mut all = self.shared.call_bounds.lock();
        if all.len() > IDLE_MAX {
            all.retain(|_, bounds| Arc::strong_count(bounds) > 1 || !bounds.is_idle());
        }
        let make = || {
            let bounds = plan.handlers.iter().map(|(name, bounds)| (Arc::clone(name), bounds.into()));
            Arc::new(CallBounds::new(bounds))
        };
        let bounds = Arc::clone(all.entry((Arc::clone(&plan.name), text)).or_insert_with(make));
        Arc::new(BoundedCalls { bounds, dispatcher })
    }
}
