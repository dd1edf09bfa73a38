//! The table of calls in flight: from their dispatch to their answer.

use crate::process::{Pid, Tag};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// Locks that share the table. Arbitrary.
const SHARDS: usize = 16;

/// Names a call in flight.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CallKey {
    pub(super) run: Arc<str>,
    pub(super) pid: Pid,
    pub(super) tag: Tag,
}

/// The calls in flight, by which each can be abandoned.
#[derive(Default)]
pub(super) struct InFlightTable {
    shards: [Mutex<HashMap<CallKey, Registration>>; SHARDS],
    numbers: AtomicU64,
}

struct Registration {
    /// Distinguishes two calls of one key: after a recovery a call may be dispatched again while
    /// the older one is still ending.
    number: u64,
    abandoned: CancellationToken,
}

/// Keeps a call in the table until dropped.
pub(super) struct InFlightGuard {
    table: Arc<InFlightTable>,
    key: CallKey,
    number: u64,
}

impl InFlightTable {
    /// Enters a call. An older one of the same key is abandoned: its answer would be taken for this
    /// one's.
    pub(super) fn enter(self: &Arc<Self>, key: CallKey, abandoned: CancellationToken) -> InFlightGuard {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let older = self.shard(&key).lock().insert(key.clone(), Registration { number, abandoned });
        if let Some(older) = older {
            older.abandoned.cancel();
        }
        InFlightGuard { table: Arc::clone(self), key, number }
    }

    /// Cancels a call whose answer is no longer awaited. Returns whether it was in flight.
    pub(super) fn abandon(&self, key: &CallKey) -> bool {
        let entry = self.shard(key).lock().remove(key);
        entry.inspect(|entry| entry.abandoned.cancel()).is_some()
    }

    /// Counts the calls in flight.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, key: &CallKey) -> &Mutex<HashMap<CallKey, Registration>> {
        &self.shards[(key.pid.0.wrapping_mul(31) ^ key.tag.0) as usize % SHARDS]
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut shard = self.table.shard(&self.key).lock();
        if shard.get(&self.key).is_some_and(|entry| entry.number == self.number) {
            shard.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tag: u64) -> CallKey {
        CallKey { run: "run".into(), pid: Pid::ROOT, tag: Tag(tag) }
    }

    #[test]
    fn an_older_call_of_the_same_key_is_abandoned_and_does_not_remove_the_newer() {
        let table = Arc::new(InFlightTable::default());
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let older = table.enter(key(1), first.clone());
        let newer = table.enter(key(1), second.clone());
        assert!(first.is_cancelled() && !second.is_cancelled());
        drop(older);
        assert_eq!(table.len(), 1);
        drop(newer);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn abandoning_reaches_one_call_only() {
        let table = Arc::new(InFlightTable::default());
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let _one = table.enter(key(1), first.clone());
        let _two = table.enter(key(2), second.clone());
        assert!(table.abandon(&key(1)));
        assert!(!table.abandon(&key(1)) && !table.abandon(&key(3)));
        assert!(first.is_cancelled() && !second.is_cancelled());
    }
}
