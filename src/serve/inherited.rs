//! The count of parked runs that were another process's.

use crate::journal::catalog::Catalog;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a count is used.
const FRESH: Duration = Duration::from_secs(15);

/// How many times as long as it took it is used, if that is longer: counting takes at most a
/// hundredth of a processor.
const TIMES: u32 = 100;

/// The last count, and until when it is used.
#[derive(Default)]
pub(super) struct Inherited(Mutex<Option<(u64, Instant)>>);

impl Inherited {
    /// The count of now, or of a while ago. What cannot be read is told by the metrics of the
    /// journal.
    pub(super) fn count(&self, store: &dyn Catalog) -> u64 {
        let mut last = self.0.lock();
        let begin = Instant::now();
        match *last {
            Some((count, until)) if begin < until => count,
            _ => {
                let count = store.inherited().unwrap_or(0);
                let end = Instant::now();
                *last = Some((count, end + FRESH.max((end - begin) * TIMES)));
                count
            }
        }
    }
}
