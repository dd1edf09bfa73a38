//! What runs wait for from people.

use crate::journal::StoreError;
use crate::process::Timestamp;
use crate::run::{Awaited, AwaitedKind};
use std::sync::Arc;

/// Something that a run waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingRun {
    /// The id of the run.
    pub run: Arc<str>,
    /// The name of its workflow.
    pub workflow: Arc<str>,
    /// What it waits for.
    pub awaited: Awaited,
}

/// A place in the list: what comes after it has waited less long.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InboxPlace {
    /// Since when the run waits.
    pub since: Timestamp,
    /// The id of the run.
    pub run: Arc<str>,
    /// What is waited for.
    pub kind: AwaitedKind,
    /// Its name.
    pub name: Arc<str>,
}

/// Which of what runs wait for is listed. The default: all of it.
#[derive(Clone, Default, Debug)]
pub struct InboxFilter {
    /// Only what this run waits for.
    pub run: Option<Arc<str>>,
    /// Only this kind.
    pub kind: Option<AwaitedKind>,
    /// Only what has this name.
    pub name: Option<String>,
    /// Only what has been waited for since before that time.
    pub since_before: Option<Timestamp>,
    /// Only what comes after this place.
    pub after: Option<InboxPlace>,
    /// At most this many.
    pub limit: Option<u32>,
}

impl WaitingRun {
    /// Returns its place in the list.
    #[must_use]
    pub fn place(&self) -> InboxPlace {
        let Awaited { kind, name, since, .. } = &self.awaited;
        InboxPlace { since: *since, run: Arc::clone(&self.run), kind: *kind, name: Arc::clone(name) }
    }
}

impl InboxFilter {
    /// Returns whether something fits, regardless of the limit.
    #[must_use]
    pub fn fits(&self, waiting: &WaitingRun) -> bool {
        let Awaited { kind, name, since, .. } = &waiting.awaited;
        self.run.as_ref().is_none_or(|wanted| *wanted == waiting.run)
            && self.kind.is_none_or(|wanted| wanted == *kind)
            && self.name.as_ref().is_none_or(|wanted| **wanted == **name)
            && self.since_before.is_none_or(|before| *since < before)
            && self.after.as_ref().is_none_or(|after| waiting.place() > *after)
    }
}

/// What runs wait for from people, as far as it is in the journal: that of a run is written when
/// the run is parked, and is out of date while a host has the run in memory.
pub trait Inbox {
    /// Returns what unfinished runs wait for, the longest wait first.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    fn waiting(&self, filter: &InboxFilter) -> Result<Vec<WaitingRun>, StoreError>;
}
