//! Reporting that a component is being compiled: the first use of a large one takes half a minute.

use crate::cli::terminal::{in_line, say};
use crate::host::CompileNotice;
use std::time::Duration;

/// A smaller component compiles in a second or so, without a message. Arbitrary.
pub(in crate::cli) const SAID_BYTES_MIN: u64 = 1 << 20;

/// What takes less is not reported when it has ended. Arbitrary.
const SAID_TIME_MIN: Duration = Duration::from_secs(1);

/// `compiling order.wasm (12 MB)`.
pub(in crate::cli) fn text(component: &str, bytes: u64) -> String {
    let name = component.rsplit('/').next().unwrap_or(component);
    format!("compiling {} ({} MB)", in_line(name), bytes.div_ceil(1_000_000))
}

/// `compiled order.wasm in 6.2 s`, if it took long.
pub(in crate::cli) fn ended(component: &str, took: Duration) -> Option<String> {
    let name = component.rsplit('/').next().unwrap_or(component);
    (took >= SAID_TIME_MIN).then(|| format!("compiled {} in {:.1} s", in_line(name), took.as_secs_f64()))
}

/// The same for a command that shows no run.
pub(in crate::cli) fn say_compiling(quiet: bool) -> impl Fn(&CompileNotice<'_>) + Send + Sync + 'static {
    move |news| match news {
        _ if quiet => {}
        CompileNotice::Begins { component, bytes } if *bytes >= SAID_BYTES_MIN => say(&text(component, *bytes)),
        CompileNotice::Begins { .. } => {}
        CompileNotice::Ended { component, took } => {
            if let Some(line) = ended(component, *took) {
                say(&line);
            }
        }
    }
}
