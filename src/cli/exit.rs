//! How a command ends.

use std::process::ExitCode;

/// The result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Exit {
    Success,
    /// The run failed.
    Failed,
    /// A usage or definition error.
    Usage,
    /// Cancelled, timed out, or suspended.
    Cancelled,
}

impl Exit {
    pub(in crate::cli) fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Cancelled => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code() as u8)
    }
}
