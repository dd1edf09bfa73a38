//! What a journal tells of runs.

use crate::process::Micros;
use crate::run::{EndStatus, Log};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A run that begins.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When.
    pub created: Micros,
    /// What whoever starts it needs to take it up again: JSON.
    pub about: String,
}

/// A run in a journal.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stored {
    /// Its id.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When it was created.
    pub created: Micros,
    /// How it ended; none while it has not.
    pub status: Option<EndStatus>,
    /// When it ended.
    pub ended: Option<Micros>,
    /// How many records it has. Of a run that is owned: how many it had some time ago.
    pub records: u64,
    /// The host that has it, living or not; none where it waits for one or has ended.
    pub owner: Option<u64>,
}

/// Which runs are asked for: those that fit everything that is said. The newest come first.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    /// Only unfinished ones, or only ended ones.
    pub ended: Option<bool>,
    /// Only those that ended so.
    pub status: Option<EndStatus>,
    /// Only those of the workflow of this name.
    pub name: Option<String>,
    /// Only those created at that time or later.
    pub created_min: Option<Micros>,
    /// Only those created before that time.
    pub created_before: Option<Micros>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// The host that has a run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Owner {
    /// Its number in the journal.
    pub host: u64,
    /// Its operating system process.
    pub pid: u32,
    /// Where it listens, where it does.
    pub socket: Option<PathBuf>,
    /// Whether it lives.
    pub alive: bool,
}

/// A run that was taken up: its log, and the records so far.
pub struct TakenUp {
    /// Where its further records go.
    pub log: Box<dyn Log>,
    /// The records from the first on.
    pub records: Vec<Bytes>,
    /// What was said of it when it began.
    pub about: String,
}
