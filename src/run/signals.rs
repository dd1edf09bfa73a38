//! Signals that no process waits for yet: kept by name, in order, until a process registers the name.

use crate::process::Payload;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The topic of the message that brings a signal.
pub(super) const TOPIC: &str = "wfhost.signal";

/// Kept signals.
#[derive(Default)]
pub(super) struct Signals {
    kept: BTreeMap<Arc<str>, VecDeque<Payload>>,
    count: u64,
    bytes: u64,
}

impl Signals {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn keep(&mut self, name: Arc<str>, body: Payload) {
        self.count += 1;
        self.bytes += body.size() as u64;
        self.kept.entry(name).or_default().push_back(body);
    }

    /// Gives back what was kept under a name, the oldest first, as long as `takes` says that there is room for it.
    pub(super) fn take(&mut self, name: &str, mut takes: impl FnMut(&Payload) -> bool) -> Vec<Payload> {
        let mut taken = Vec::new();
        if let Some(kept) = self.kept.get_mut(name) {
            while kept.front().is_some_and(&mut takes) {
                let body = kept.pop_front().expect("invariant: its front was just seen");
                self.count -= 1;
                self.bytes -= body.size() as u64;
                taken.push(body);
            }
            if kept.is_empty() {
                self.kept.remove(name);
            }
        }
        taken
    }
}
