//! How many processors there are for this process.

use std::sync::OnceLock;

/// Processors that this process may use, at least one: what the affinity mask and the quota of the
/// control group leave. The machine is asked once, since the answer takes a dozen system calls.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}
