//! What a workflow or an operator allows of a handler's calls, beside what the handler declares.
//!
//! Each is a gate of its own, which a call passes before that of the handler: what waits for its
//! workflow's turn takes none of the permits that others could use.

use super::gate::Gate;
use super::handler::Rate;
use super::http::host_of;
use crate::process::{Payload, handler};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Calls that may wait at one gate. Arbitrary: as many as a handler lets wait by default.
const WAITING_MAX: usize = 10_000;

/// Hosts that have gates of their own at one time; others share one. Arbitrary.
const HOSTS_MAX: usize = 1_000;

/// How many calls of a handler run, and how often they begin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// Calls that run at one time; `None` if that does not matter.
    pub concurrency: Option<u32>,
    /// The time between two calls, in the long run.
    pub interval: Option<Duration>,
    /// Calls that may begin together after a pause; at least 1.
    pub burst: u32,
    /// Whether each host is bounded by itself.
    pub per_host: bool,
}

impl Bound {
    fn gate(&self) -> Arc<Gate> {
        let rate = self.interval.map(|interval| Rate { interval, burst: self.burst.max(1) });
        let concurrent_max = self.concurrency.map_or(usize::MAX, |calls| calls as usize);
        Gate::of(concurrent_max, WAITING_MAX, rate)
    }
}

/// The gates of some handlers, shared by the runs that they bound.
pub struct CallBounds(BTreeMap<Arc<str>, Bounded>);

struct Bounded {
    bound: Bound,
    /// The gate of all calls, or of those whose host has none of its own.
    common: Arc<Gate>,
    hosts: Mutex<BTreeMap<String, Arc<Gate>>>,
}

impl CallBounds {
    /// Gates that were never passed.
    #[must_use]
    pub fn new(bounds: impl IntoIterator<Item = (Arc<str>, Bound)>) -> Self {
        let bounded = |bound: Bound| Bounded { common: bound.gate(), bound, hosts: Mutex::default() };
        Self(bounds.into_iter().map(|(name, bound)| (name, bounded(bound))).collect())
    }

    /// The gate that a call passes. `None` if it is not bounded.
    pub(super) fn gate(&self, name: &str, args: &Payload) -> Option<Arc<Gate>> {
        let bounded = self.0.get(name)?;
        if !bounded.bound.per_host || name != handler::HTTP {
            return Some(Arc::clone(&bounded.common));
        }
        let Some(host) = host_of(args) else { return Some(Arc::clone(&bounded.common)) };
        let mut hosts = bounded.hosts.lock();
        if let Some(gate) = hosts.get(&host) {
            return Some(Arc::clone(gate));
        }
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.is_idle());
        }
        if hosts.len() >= HOSTS_MAX {
            return Some(Arc::clone(&bounded.common));
        }
        let gate = bounded.bound.gate();
        hosts.insert(host, Arc::clone(&gate));
        Some(gate)
    }

    /// Whether no call is in it, and none has to wait.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_idle =
            |bounded: &Bounded| bounded.common.is_idle() && bounded.hosts.lock().values().all(|gate| gate.is_idle());
        self.0.values().all(is_idle)
    }
}

impl std::fmt::Debug for CallBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, bounded)| (name, &bounded.bound))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::Admitted;
    use super::*;

    fn bounds(bound: Bound) -> CallBounds {
        CallBounds::new([(handler::HTTP.into(), Bound { per_host: true, burst: 1, ..bound })])
    }

    fn gate(bounds: &CallBounds, host: usize) -> Arc<Gate> {
        let args = Payload::json(&serde_json::json!({ "url": format!("https://h{host}.example/") }));
        bounds.gate(handler::HTTP, &args).unwrap()
    }

    #[test]
    fn a_gate_that_is_used_is_not_forgotten_for_those_of_other_hosts() {
        let bounds = bounds(Bound { concurrency: Some(1), ..Bound::default() });
        let first = Arc::as_ptr(&gate(&bounds, 0));
        let Ok(Admitted::Running(permit)) = gate(&bounds, 0).enter() else { panic!("there is room") };
        assert!(!bounds.is_idle());
        (1..=2 * HOSTS_MAX).for_each(|host| drop(gate(&bounds, host)));
        assert_eq!(Arc::as_ptr(&gate(&bounds, 0)), first, "its call still runs");
        drop(permit);
        assert!(bounds.is_idle());
    }

    #[test]
    fn a_gate_whose_rate_is_used_up_is_not_forgotten_for_those_of_other_hosts() {
        let bounds = bounds(Bound { interval: Some(Duration::from_hours(1)), ..Bound::default() });
        let enters = |host| matches!(gate(&bounds, host).enter().unwrap(), Admitted::Running(_));
        assert!(enters(0));
        (1..=2 * HOSTS_MAX).for_each(|host| drop(gate(&bounds, host)));
        assert!(!enters(0) && !bounds.is_idle());
    }

    #[test]
    fn hosts_beyond_the_most_share_a_gate() {
        let bounds = bounds(Bound { concurrency: Some(1), ..Bound::default() });
        let held: Vec<_> = (0..HOSTS_MAX).map(|host| gate(&bounds, host)).collect();
        let [one, other] = [HOSTS_MAX, HOSTS_MAX + 1].map(|host| gate(&bounds, host));
        assert!(Arc::ptr_eq(&one, &other) && held.iter().all(|gate| !Arc::ptr_eq(gate, &one)));
    }
}
