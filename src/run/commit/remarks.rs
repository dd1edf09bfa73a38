//! Remarks of a run that are no records: snapshots that were not used.

use crate::base::foreign;
use crate::process::{Level, LogLine, Timestamp};
use crate::run::seam::log::{LogOrigin, LogSink};
use crate::run::seam::snapshot_store::UnusedSnapshot;
use parking_lot::Mutex;
use std::sync::Arc;

/// Remarks that are stored; more are only counted. Arbitrary.
const STORED_MAX: usize = 100;

/// The remarks of one run.
pub(in crate::run) struct Remarks {
    run: Arc<str>,
    sink: Option<Arc<dyn LogSink>>,
    ignored: Mutex<(Vec<UnusedSnapshot>, u64)>,
}

impl Remarks {
    pub(in crate::run) fn new(run: Arc<str>, sink: Option<Arc<dyn LogSink>>) -> Self {
        Self { run, sink, ignored: Mutex::default() }
    }

    /// Notes that a snapshot was not used.
    pub(in crate::run) fn ignore(&self, ignored: UnusedSnapshot) {
        if let Some(sink) = &self.sink {
            let UnusedSnapshot { pid, step, why } = &ignored;
            let text = format!("the snapshot of process {pid} after step {step} is not used: {why}");
            let origin = LogOrigin {
                run: Arc::clone(&self.run),
                pid: *pid,
                scope: None,
                component: None,
                step: *step,
                at: Timestamp(0),
            };
            // Snapshots are read under the run's lock too.
            let line = LogLine { level: Level::Warn, text, fields: None };
            let _ = foreign::call(|| sink.lines(&origin, &[line], 0));
        }
        let (stored, count) = &mut *self.ignored.lock();
        *count += 1;
        if stored.len() < STORED_MAX {
            stored.push(ignored);
        }
    }

    /// Returns the snapshots that were not used, as many as are stored, and how many there were.
    pub(in crate::run) fn ignored(&self) -> (Vec<UnusedSnapshot>, u64) {
        self.ignored.lock().clone()
    }
}
