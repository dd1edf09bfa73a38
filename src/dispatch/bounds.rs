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
