//! The log of the host itself: text on a terminal, else a JSON object per line, on the standard
//! error. Lines of runs are in the journal and not here, and no line has a payload.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// The variable that selects lines, in the words of `tracing`: `info`, `wfhost::serve=debug`.
const FILTER: &str = "WFHOST_LOG";

/// Begins to write the log. A filter that cannot be read is as none: warnings and worse, and what
/// the service says of itself.
pub(in crate::cli) fn begin() {
    let filter = EnvFilter::try_from_env(FILTER).unwrap_or_else(|_| EnvFilter::new("warn,wfhost=info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An embedder's subscriber stays.
    let _ = if std::io::stderr().is_terminal() {
        log.with_target(false).try_init()
    } else {
        log.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
}
