//! The list of deliveries, written behind the answers.
//!
//! Whoever can reach the server can send deliveries that are refused, and each entry would cost a
//! sync of the disk. So entries gather for a moment and are written together, and beyond a bound
//! they are counted and not listed. The list is for people: that a delivery counts is the run's own
//! record.

use crate::journal::catalog::{Catalog, Delivery};
use crate::run::system_time;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Deliveries of each webhook that are retained. As firings of schedules.
const RETAINED: u32 = 1_000;

/// How long entries gather.
pub(in crate::serve) const GATHER: Duration = Duration::from_millis(100);

/// Entries of one webhook that may gather. Derived: more would push each other out of the list.
const GATHERED_MAX: usize = RETAINED as usize;

/// Deliveries that are not written yet.
#[derive(Default)]
struct Gathered {
    entries: Vec<Delivery>,
    /// Of each webhook, how many there are, and how many more there were.
    counts: BTreeMap<Arc<str>, (usize, u64)>,
}

/// The deliveries of a service.
pub(in crate::serve) struct DeliveryLog {
    store: Arc<dyn Catalog>,
    gathered: Mutex<Gathered>,
    /// By webhook and outcome, since the service began.
    counts: Mutex<Counts>,
}

/// How many deliveries had an outcome, by webhook and outcome.
type Counts = BTreeMap<(Arc<str>, Arc<str>), u64>;

impl DeliveryLog {
    pub(in crate::serve) fn new(store: Arc<dyn Catalog>) -> Self {
        Self { store, gathered: Mutex::default(), counts: Mutex::default() }
    }

    /// Adds a delivery. Returns whether it is the first that gathers: then the caller has
    /// [`Self::write`] called after [`GATHER`].
    #[must_use]
    pub(in crate::serve) fn add(&self, delivery: Delivery) -> bool {
        let key = (Arc::clone(&delivery.webhook), Arc::clone(&delivery.outcome));
        *self.counts.lock().entry(key).or_default() += 1;
        let mut gathered = self.gathered.lock();
        let is_first = gathered.entries.is_empty();
        let (count, more) = gathered.counts.entry(Arc::clone(&delivery.webhook)).or_default();
        if *count < GATHERED_MAX {
            *count += 1;
            gathered.entries.push(delivery);
        } else {
            *more += 1;
        }
        is_first
    }

    /// How many deliveries there were since the service began, by webhook and outcome.
    pub(in crate::serve) fn counts(&self) -> BTreeMap<(Arc<str>, Arc<str>), u64> {
        self.counts.lock().clone()
    }

    /// Writes what has gathered.
    pub(in crate::serve) fn write(&self) {
        let Gathered { mut entries, counts } = std::mem::take(&mut *self.gathered.lock());
        for (webhook, (_, more)) in counts.into_iter().filter(|(_, (_, more))| *more > 0) {
            let reason = Some(format!("{more} more deliveries came at this time, and are not listed"));
            let (id, run, outcome) = (None, None, "unlisted".into());
            entries.push(Delivery { webhook, id, at: system_time(), outcome, run, reason });
        }
        if !entries.is_empty()
            && let Err(error) = self.store.add_deliveries(&entries, RETAINED)
        {
            tracing::error!(%error, deliveries = entries.len(), "deliveries of webhooks cannot be listed");
        }
    }
}

impl Drop for DeliveryLog {
    fn drop(&mut self) {
        self.write();
    }
}
