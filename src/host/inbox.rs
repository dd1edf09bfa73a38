//! What runs wait for from people, over all runs of the folder.
//!
//! Of a run in memory the memory knows it; of any other run the journal does, where it was written
//! when the run was parked. The memory is read first: a run that is parked meanwhile is listed by
//! what was read there, and one that is recovered meanwhile by its rows.

use super::{Host, RecoverError};
use crate::journal::catalog::{InboxFilter, WaitingRun};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Rows that are read at a time.
const ROWS: u32 = 1_000;

impl Host {
    /// Returns what the unfinished durable runs wait for from people, the longest wait first: at
    /// most the limit of the filter, and only of workflows that `may_see` accepts by their names.
    /// What another host has in memory is listed as it was when that host parked the run last.
    ///
    /// # Errors
    /// Fails if the host has no folder of durable runs, or it cannot be read.
    pub fn inbox(&self, filter: &InboxFilter, may_see: &dyn Fn(&str) -> bool) -> Result<Vec<WaitingRun>, RecoverError> {
        let (_, journal) = self.opened()?;
        let store = journal.store();
        let limit = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut here: HashSet<Arc<str>> = HashSet::new();
        let mut waiting = BTreeMap::new();
        for (run, all) in self.shared.kernel.awaited() {
            here.insert(Arc::clone(&run));
            for awaited in all {
                // The name is read for those that are listed.
                let one = WaitingRun { run: Arc::clone(&run), workflow: Arc::default(), awaited };
                if filter.fits(&one) {
                    waiting.insert(one.place(), one);
                }
            }
        }
        let mut rows = InboxFilter { limit: Some(ROWS), ..filter.clone() };
        let mut found = 0;
        loop {
            let page = store.waiting(&rows)?;
            let is_last = page.len() < ROWS as usize;
            rows.after = page.last().map(WaitingRun::place);
            for one in page.into_iter().filter(|one| !here.contains(&one.run) && may_see(&one.workflow)) {
                found += 1;
                waiting.insert(one.place(), one);
            }
            if is_last || found >= limit {
                break;
            }
        }
        let mut listed = Vec::new();
        for mut one in waiting.into_values() {
            if listed.len() == limit {
                break;
            }
            if one.workflow.is_empty() {
                // A run that is not durable, or not yet, is not listed.
                let Some(stored) = store.run(&one.run)?.filter(|stored| may_see(&stored.name)) else { continue };
                one.workflow = stored.name;
            }
            listed.push(one);
        }
        Ok(listed)
    }
}
