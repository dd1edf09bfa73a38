//! Counts of the steps of workflows that have ended, by how.
//!
//! They are counted by the lines that the interpreter writes of its nodes. A line comes once, when
//! its record is in the log: what is replayed writes none.

use crate::process::{LogLine, Pid};
use crate::run::{LogOrigin, LogSink};
use crate::workflow::interpreter::progress::NodeEnding;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names of workflows that are told apart.
const WORKFLOWS_MAX: usize = 1_000;

/// What stands for all others.
const OTHER: &str = "other";

/// Counts by the places in [`NodeEnding::ALL`].
type Ends = [AtomicU64; NodeEnding::ALL.len()];

/// The counts by workflows.
#[derive(Default)]
pub(super) struct StepCounts(Mutex<BTreeMap<Arc<str>, Arc<Ends>>>);

impl StepCounts {
    /// A sink for a run of a workflow, which counts and passes on.
    pub(super) fn sink(&self, workflow: &Arc<str>, next: Option<Arc<dyn LogSink>>) -> Arc<dyn LogSink> {
        let mut all = self.0.lock();
        let is_known = all.contains_key(workflow) || all.len() < WORKFLOWS_MAX;
        let name = if is_known { Arc::clone(workflow) } else { OTHER.into() };
        Arc::new(Counting { ends: Arc::clone(all.entry(name).or_default()), next })
    }

    /// The counts by workflow and ending, without those that are 0.
    pub(super) fn read(&self) -> Vec<(Arc<str>, NodeEnding, u64)> {
        let all = self.0.lock();
        let counts = all.iter().flat_map(|(name, ends)| {
            NodeEnding::ALL.iter().zip(&**ends).map(|(ending, count)| (Arc::clone(name), *ending, count.load(Relaxed)))
        });
        counts.filter(|(.., count)| *count > 0).collect()
    }
}

struct Counting {
    ends: Arc<Ends>,
    next: Option<Arc<dyn LogSink>>,
}

impl LogSink for Counting {
    fn lines(&self, origin: &LogOrigin, lines: &[LogLine], dropped: u64) {
        if origin.pid == Pid::ROOT {
            for ending in lines.iter().filter_map(NodeEnding::of) {
                self.ends[ending as usize].fetch_add(1, Relaxed);
            }
        }
        if let Some(next) = &self.next {
            next.lines(origin, lines, dropped);
        }
    }
}
