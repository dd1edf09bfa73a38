//! The `Debug` of errors that reach `main`: what they say, and what caused it.

use std::error::Error;
use std::fmt::{self, Formatter};

/// Writes what an error says and each of its causes on a line, without saying anything twice.
pub(crate) fn report(error: &dyn Error, f: &mut Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    f.write_str(said.trim_end())?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors say what caused them.
        if !said.contains(&text) {
            write!(f, "\n  cause: {text}")?;
        }
        (said, cause) = (text, error.source());
    }
    Ok(())
}

/// Makes the `Debug` of errors a report for people: that is what `main` prints of an error that it
/// returns, and `unwrap` of one that it meets.
macro_rules! report_debug {
    ($($error:ty),* $(,)?) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::base::report_debug::report(self, f)
            }
        })*
    };
}

pub(crate) use report_debug;
