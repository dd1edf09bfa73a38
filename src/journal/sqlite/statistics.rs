//! Counts of what became durable, made by the thread that writes.

use crate::base::Histogram;
use crate::journal::statistics::{JournalStatistics, RunStatistics};
use crate::run::{EndStatus, RunEnd};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Names of workflows, and ways in which their runs are started, that are told apart.
const WORKFLOWS_MAX: usize = 1_000;
const SOURCES_MAX: usize = 16;

/// What stands for all others.
const OTHER: &str = "other";

/// A change of a run that is durable.
pub(super) enum Change {
    Began { name: Arc<str>, source: Arc<str> },
    Ended { name: Arc<str>, created: i64, end: RunEnd },
}

#[derive(Default)]
struct Runs {
    started: BTreeMap<Arc<str>, u64>,
    ended: BTreeMap<EndStatus, u64>,
    durations: Histogram,
    fuel: u64,
}

/// The counts of a store.
pub(super) struct Statistics {
    pub(super) commits: Histogram,
    pub(super) group_records: Histogram,
    /// Written once a group by the thread that writes.
    runs: Mutex<BTreeMap<Arc<str>, Runs>>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self { commits: Histogram::default(), group_records: Histogram::from(1), runs: Mutex::default() }
    }
}

/// The counts of a key, or of all others if there are too many keys.
fn entry<'m, V: Default>(map: &'m mut BTreeMap<Arc<str>, V>, key: &Arc<str>, most: usize) -> &'m mut V {
    let is_known = map.contains_key(key) || map.len() < most;
    map.entry(if is_known { Arc::clone(key) } else { OTHER.into() }).or_default()
}

impl Statistics {
    pub(super) fn note(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let mut runs = self.runs.lock();
        for change in changes {
            match change {
                Change::Began { name, source } => {
                    let source = if source.is_empty() { &OTHER.into() } else { &source };
                    *entry(&mut entry(&mut runs, &name, WORKFLOWS_MAX).started, source, SOURCES_MAX) += 1;
                }
                Change::Ended { name, created, end } => {
                    let counts = entry(&mut runs, &name, WORKFLOWS_MAX);
                    *counts.ended.entry(end.status).or_default() += 1;
                    counts.fuel += end.fuel;
                    counts.durations.add(end.at.0.saturating_sub(created.cast_unsigned()));
                }
            }
        }
    }

    /// The counts, with the files of the store at this path.
    pub(super) fn read(
        &self,
        path: &Path,
        (backlog_bytes, is_full, has_failed): (u64, bool, bool),
    ) -> JournalStatistics {
        let of = |runs: &Runs| RunStatistics {
            started: runs.started.clone(),
            ended: runs.ended.clone(),
            durations: runs.durations.counts(),
            fuel: runs.fuel,
        };
        let snapshots = path.with_file_name(crate::journal::layout::SNAPSHOTS);
        let paths = [path.to_owned(), super::wal::log_of(path), snapshots.clone(), super::wal::log_of(&snapshots)];
        let size = |path: &std::path::PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, std::fs::metadata(path).ok()?.len()))
        };
        JournalStatistics {
            commits: self.commits.counts(),
            group_records: self.group_records.counts(),
            backlog_bytes,
            is_full,
            has_failed,
            files: paths.iter().filter_map(size).collect(),
            workflows: self.runs.lock().iter().map(|(name, runs)| (Arc::clone(name), of(runs))).collect(),
        }
    }
}
