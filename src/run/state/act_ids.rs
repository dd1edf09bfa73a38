//! The ids of acts that a run has applied, so that each counts once.

use crate::run::record::arrived::ActId;
use crate::run::record::kinds::Digest;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Ids of acts that a run remembers. Arbitrary.
pub const ACTS_MAX: usize = 1_000;

/// The id was that of another act.
pub(in crate::run) struct Conflict;

/// Acts by their ids.
#[derive(Default)]
pub(in crate::run) struct Acts {
    /// The digest of each act, and the number of its record.
    known: HashMap<Arc<str>, (Digest, u64)>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
}

impl Acts {
    pub(in crate::run) fn remember(&mut self, act: ActId, record: u64) {
        let ActId { id, digest } = act;
        if self.known.insert(Arc::clone(&id), (digest, record)).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > ACTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns whether an act with this id was applied already.
    pub(in crate::run) fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// The number of the record of an act that was applied already.
    pub(in crate::run) fn of(&self, act: &ActId) -> Option<Result<u64, Conflict>> {
        let (digest, record) = self.known.get(&act.id)?;
        Some(if *digest == act.digest { Ok(*record) } else { Err(Conflict) })
    }
}
