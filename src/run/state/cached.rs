//! Outcomes that are kept for others: which of them may be.
//!
//! A child or a call with a [`CacheKey`] is entered when it is commanded, and its outcome leaves
//! with the commit that answers it, if it succeeded. The outcome of a child that is kept only if it
//! is pure needs the word of its body, which no record has: the commit of its last step asks the
//! body, and clears it ([`State::clear_outcome`]). A rebuild clears nothing, so it keeps nothing:
//! what was not kept before a crash is computed once more.

use super::run_state::{Consequence, State};
use crate::process::{Answer, CacheKey, Influences, Json, Level, LogLine, Pid, Tag, Timestamp};
use crate::run::seam::effects::CachedOutcome;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The field of a log line that says why an outcome was not kept.
pub const UNCACHED: &str = "wfhost.uncached";

/// The commands without an answer whose outcome is to be kept.
#[derive(Default)]
pub(in crate::run) struct Caching(BTreeMap<(Pid, Tag), Entered>);

struct Entered {
    key: Arc<CacheKey>,
    /// Whether the child is known to be pure.
    is_cleared: bool,
}

impl Caching {
    /// Enters a command.
    pub(in crate::run) fn enter(&mut self, pid: Pid, tag: Tag, key: &Arc<CacheKey>) {
        self.0.insert((pid, tag), Entered { key: Arc::clone(key), is_cleared: false });
    }

    /// Forgets a command whose outcome is not its own.
    pub(in crate::run) fn forget(&mut self, pid: Pid, tag: Tag) {
        if !self.0.is_empty() {
            self.0.remove(&(pid, tag));
        }
    }

    /// Forgets the commands of a process.
    pub(in crate::run) fn forget_all(&mut self, pid: Pid) {
        if !self.0.is_empty() {
            self.0.retain(|(of, _), _| *of != pid);
        }
    }
}

impl State {
    /// Decides whether the outcome of a process that completes may be kept. Returns a line that
    /// says why not, if it was to be.
    pub(in crate::run) fn clear_outcome(&mut self, pid: Pid, of_body: impl FnOnce() -> Influences) -> Option<LogLine> {
        if self.caching.0.is_empty() {
            return None;
        }
        let entry = self.table.get(pid)?;
        let parent = entry.parent?;
        let entered = self.caching.0.get_mut(&parent).filter(|entered| entered.key.if_pure)?;
        let influences = of_body()
            .and(Influences::EVENTS.if_so(entry.has_taken))
            .and(Influences::COMMANDS.if_so(entry.last_tag != Tag(0)));
        if influences.is_none() {
            entered.is_cleared = true;
            return None;
        }
        self.caching.0.remove(&parent);
        let fields = serde_json::json!({ UNCACHED: influences.to_string() });
        Some(LogLine {
            level: Level::Debug,
            text: format!("not kept in the cache: the guest {influences}"),
            fields: Some(Json::from_value(&fields)),
        })
    }

    /// Keeps the outcome of a command that is answered, if it is to be kept.
    pub(in crate::run) fn keep_outcome(&mut self, at: Timestamp, pid: Pid, tag: Tag, answer: &Answer) {
        if self.caching.0.is_empty() {
            return;
        }
        let Some(Entered { key, is_cleared }) = self.caching.0.remove(&(pid, tag)) else { return };
        if let Ok(output) = answer
            && (is_cleared || !key.if_pure)
        {
            let outcome = CachedOutcome { key, run: Arc::clone(&self.run), at, output: output.clone() };
            self.consequences.push(Consequence::Keep(Box::new(outcome)));
        }
    }
}
