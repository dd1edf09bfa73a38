//! Reporting that a component is being compiled: the first use of a large one takes half a minute.

use crate::cli::terminal::{in_line, say};
use crate::host::CompileNotice;

/// A smaller component compiles in a second or so, without a message. Arbitrary.
pub(in crate::cli) const SAID_BYTES_MIN: u64 = 1 << 20;

/// `compiling order.wasm (12 MB)`.
pub(in crate::cli) fn text(component: &str, bytes: u64) -> String {
    let name = component.rsplit('/').next().unwrap_or(component);
    format!("compiling {} ({} MB)", in_line(name), bytes.div_ceil(1_000_000))
}

/// The same for a command that shows no run.
pub(in crate::cli) fn say_compiling(quiet: bool) -> impl Fn(&CompileNotice<'_>) + Send + Sync + 'static {
    move |news| {
        if let CompileNotice::Begins { component, bytes } = news
            && *bytes >= SAID_BYTES_MIN
            && !quiet
        {
            say(&text(component, *bytes));
        }
    }
}
