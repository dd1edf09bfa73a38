//! The disk itself: one thread that appends to a file and syncs it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// About what the records of a step take with their row.
const BYTES: usize = 300;

pub(crate) struct Floor(File);

impl Floor {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(File::create(folder.join("floor")).expect("a file"))
    }

    /// One append with its fdatasync.
    pub(crate) fn append(&mut self) -> Duration {
        let begun = Instant::now();
        self.0.write_all(&[7; BYTES]).and_then(|()| self.0.sync_data()).expect("the disk takes it");
        begun.elapsed()
    }
}

/// The median and the 99th percentile.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[(times.len() - 1) * 99 / 100])
}
