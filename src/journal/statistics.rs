//! What a journal of this process has counted since it was opened.

use crate::base::HistogramCounts;
use crate::run::EndStatus;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts of a journal since this process opened it, of what this process wrote.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalStatistics {
    /// How long each commit took, in microseconds, fsync included.
    pub commits: HistogramCounts,
    /// Records in each commit.
    pub group_records: HistogramCounts,
    /// Bytes of records that wait for the next commit.
    pub backlog_bytes: u64,
    /// Whether the disk is full.
    pub is_full: bool,
    /// Whether nothing can be written any more.
    pub has_failed: bool,
    /// Bytes of the journal's files, by their names.
    pub files: Vec<(String, u64)>,
    /// Runs by the names of their workflows: at most 1,000, and all further ones under `other`.
    pub workflows: BTreeMap<Arc<str>, RunStatistics>,
}

/// Counts of the runs of one workflow. A run counts when its beginning, or its end, is durable.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunStatistics {
    /// Runs that began, by what started them.
    pub started: BTreeMap<Arc<str>, u64>,
    /// Runs that ended, by how.
    pub ended: BTreeMap<EndStatus, u64>,
    /// From the beginning of a run to its end, in microseconds.
    pub durations: HistogramCounts,
    /// Fuel of the runs that ended.
    pub fuel: u64,
}
