//! How nodes end, and what tells it of a run's log.

use super::state::Status;
use crate::process::LogLine;

/// How a node ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeEnding {
    /// All of it succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// Its `if` was false.
    Skipped,
    /// What it depends on did not succeed.
    Unreached,
    /// It was cancelled.
    Cancelled,
}

impl NodeEnding {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Succeeded, Self::Failed, Self::Skipped, Self::Unreached, Self::Cancelled];

    /// The status of a node that ended so.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => Status::Succeeded,
            Self::Failed => Status::Failed,
            Self::Skipped => Status::Skipped,
            Self::Unreached => Status::Unreached,
            Self::Cancelled => Status::Cancelled,
        }
        .name()
    }

    /// The ending that a log line tells: of a node that ended in this run, since a result that is
    /// taken over is another's. It reads no more of the line than that.
    #[must_use]
    pub fn of(line: &LogLine) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Line<'l> {
            #[serde(rename = "wfhost.node", borrow)]
            node: Node<'l>,
        }
        #[derive(serde::Deserialize)]
        struct Node<'l> {
            status: &'l str,
            #[serde(rename = "taken-over", default)]
            taken_over: bool,
        }
        let fields = line.fields.as_ref()?.as_str();
        if !fields.starts_with("{\"wfhost.node\"") {
            return None;
        }
        let Line { node } = serde_json::from_str(fields).ok()?;
        Self::ALL.into_iter().find(|ending| ending.name() == node.status && !node.taken_over)
    }
}
