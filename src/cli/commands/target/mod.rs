//! Where the runs are that a command is about, behind one trait: a data folder, whose hosts are
//! asked through their sockets, or a server, which is asked through its API. A command is written
//! once, for both.

mod folder;
mod folder_inbox;
mod folder_log;
mod folder_remove;
mod server;
mod server_inbox;
mod server_log;
mod server_view;

pub(in crate::cli) use folder::Folder;
pub(in crate::cli) use server::RemoteRuns;
pub(in crate::cli) use server_view::declared;

use crate::cli::args::http::Server;
use crate::cli::args::target::TargetArguments;
use crate::cli::commands::listing::run_json;
use crate::cli::exit::Exit;
use crate::cli::output_dir;
use crate::cli::report::error::{CommandError, UserError};
use crate::cli::report::pending_acts::PendingAct;
use crate::cli::store::Ownership;
use crate::cli::terminal::Terminal;
use crate::host::control::{Answer, Request, RunStatus};
use crate::host::{Line, RunManifest, RunProjection};
use crate::journal::catalog::{Catalog, InboxFilter, WaitingRun};
use crate::journal::{QueuePlace, Stored};
use crate::process::{Blob, Timestamp};
use crate::run::{EndStatus, Record};
use crate::workflow::interpreter::RETRY;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::sync::Arc;

/// The status of a run.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum State {
    /// A host executes it, even if it only waits.
    Running,
    /// A host executes it, and everything in it is waiting for a signal, a timer or a reply.
    Waiting,
    /// A host executes it, and an operator has paused it.
    Paused,
    /// It waits for a place in its concurrency group, whether or not a host executes it.
    Queued,
    /// It has not ended and is not running: `wfhost resume` continues it.
    Suspended,
    /// It has not ended and cannot be resumed: its records are damaged.
    Damaged,
    /// It produced its outputs.
    Succeeded,
    /// It ended with a problem.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was cancelled because it took too long.
    TimedOut,
}

/// Takes the lines of a log.
pub(in crate::cli) type TakeLine<'a> = &'a mut dyn FnMut(&Line) -> std::io::Result<()>;

/// What a command asks of the place where the runs are. A run is given by its id, or a unique
/// prefix of it.
pub(in crate::cli) trait Target {
    /// The folder or the URL, for people.
    fn name(&self) -> String;

    /// The runs that are wanted.
    fn list(&self, wanted: &ListWanted<'_>) -> Result<Listed, CommandError>;

    /// All that is known of a run.
    fn view(&self, given: &str, terminal: Terminal) -> Result<RunView, CommandError>;

    /// Carries out an act on a run; `request` is given its id. When this returns, the act is
    /// durable.
    fn act(&self, given: &str, request: &dyn Fn(&str) -> Request) -> Result<Acted, CommandError>;

    /// Cancels a run.
    fn cancel(&self, given: &str, cancel: &Cancel<'_>) -> Result<Cancelled, CommandError>;

    /// The signals that an unfinished run waits for, if the one of this name is unclaimed and no
    /// step of the workflow would claim it.
    fn unclaimed(&self, given: &str, name: &str) -> Result<Option<Vec<String>>, CommandError>;

    /// A run, and its durable records.
    fn records(&self, given: &str) -> Result<(Stored, Vec<Record>), CommandError>;

    /// Removes runs that have ended, by their full ids; none if one of them cannot be removed.
    /// `unfinished`: also those that have not, if they are not running.
    fn remove(&self, runs: &[String], unfinished: bool) -> Result<Vec<Arc<str>>, CommandError>;

    /// Gives the lines of a run's log to `take`. If it is followed also those to come, until it
    /// ends, and says how it ended.
    fn log(&self, given: &str, follow: bool, terminal: Terminal, take: TakeLine<'_>) -> Result<Exit, CommandError>;

    /// What the unfinished runs wait for from people, the longest wait first.
    fn waiting(&self, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError>;

    /// The blobs that a run holds, and its inputs and outputs, which name them.
    fn blobs(&self, given: &str) -> Result<RunBlobs, CommandError>;

    /// Writes the content of a blob that a run holds, by the ids of both. The error is a sentence
    /// for the user.
    fn copy_blob(&self, run: &str, digest: &str, to: &mut dyn std::io::Write) -> Result<(), String>;

    /// A value that a run exposes, or the names of all.
    fn query(&self, given: &str, name: Option<&str>, terminal: Terminal) -> Result<Answer, CommandError>;
}

impl TargetArguments {
    /// The place that the arguments, or the environment, name.
    pub(in crate::cli) fn open(&self) -> Result<Box<dyn Target>, UserError> {
        Ok(match self.address() {
            Some(address) => Box::new(RemoteRuns::new(Server::at(&address)?)),
            None => Box::new(Folder(self.data.clone())),
        })
    }
}

/// The blobs that a run holds.
pub(in crate::cli) struct RunBlobs {
    /// The id of the run.
    pub(in crate::cli) run: String,
    /// Ordered by their digests.
    pub(in crate::cli) blobs: Vec<Blob>,
    pub(in crate::cli) inputs: Value,
    /// Null if it has not succeeded.
    pub(in crate::cli) outputs: Value,
}

impl RunBlobs {
    /// With what the records of the run say of its inputs and outputs.
    fn new(run: &str, blobs: Vec<Blob>, records: &[Record]) -> Self {
        let inputs = records.first().and_then(Record::started).map_or(Value::Null, |started| {
            let input = started.input.to_value();
            // That of a retry also says what is taken over.
            if &*started.entry == RETRY { input["inputs"].clone() } else { input }
        });
        let outcome = RunProjection::of(records).outcome(run);
        let outputs = outcome.as_ref().map_or(Value::Null, output_dir::outputs_of);
        Self { run: run.to_owned(), blobs, inputs, outputs }
    }
}

/// Which runs are listed.
pub(in crate::cli) struct ListWanted<'a> {
    pub(in crate::cli) status: Option<State>,
    /// The name of the workflow.
    pub(in crate::cli) name: Option<&'a str>,
    /// Created then or later.
    pub(in crate::cli) since: Option<Timestamp>,
    /// At most so many, the newest.
    pub(in crate::cli) limit: Option<u32>,
}

/// The runs of a list, and how many there would be without the limit.
pub(in crate::cli) struct Listed {
    pub(in crate::cli) rows: Vec<Row>,
    pub(in crate::cli) count: u64,
}

/// A run and its ownership.
pub(in crate::cli) struct Row {
    pub(in crate::cli) stored: Stored,
    pub(in crate::cli) ownership: Ownership,
    /// Its state, if its host reports one.
    pub(in crate::cli) state: Option<&'static str>,
    /// Its place in the queue of its concurrency group.
    pub(in crate::cli) queue: Option<QueuePlace>,
}

impl Row {
    pub(in crate::cli) fn to_json(&self) -> Value {
        let mut value = run_json(&self.stored, &self.ownership);
        if let Some(state) = self.state {
            value["state"] = json!(state);
        }
        if let Some(place) = &self.queue {
            value["queue"] = json!(place);
        }
        value
    }
}

/// An act that is durable.
pub(in crate::cli) struct Acted {
    /// The id of the run.
    pub(in crate::cli) run: String,
    /// It has taken effect; otherwise it is stored until the run is recovered.
    pub(in crate::cli) is_done: bool,
}

/// How a run is to be cancelled.
pub(in crate::cli) struct Cancel<'a> {
    pub(in crate::cli) reason: &'a str,
    /// Without the grace period.
    pub(in crate::cli) now: bool,
    /// The id of the act.
    pub(in crate::cli) id: &'a str,
}

/// What cancelling a run came to.
pub(in crate::cli) struct Cancelled {
    /// The id of the run.
    pub(in crate::cli) run: String,
    pub(in crate::cli) outcome: CancelOutcome,
    /// Whether its workflow is known to undo steps, or to run some below `on`.
    pub(in crate::cli) has_end_steps: bool,
}

pub(in crate::cli) enum CancelOutcome {
    /// Its host has been asked.
    Asked,
    /// It was not running, and has ended so, with this number of calls that may have happened.
    Ended(EndStatus, usize),
    /// It is not running, and was not ended: why. The act is stored.
    Stored(Option<UserError>),
}

/// All that is known of a run.
pub(in crate::cli) struct RunView {
    /// The workflow's file.
    pub(in crate::cli) file: String,
    /// Its place in the queue of its concurrency group.
    pub(in crate::cli) queue: Option<QueuePlace>,
    /// The command that resumes it.
    pub(in crate::cli) resume: String,
    pub(in crate::cli) stored: Stored,
    pub(in crate::cli) ownership: Ownership,
    pub(in crate::cli) projection: RunProjection,
    pub(in crate::cli) live: Option<RunStatus>,
    /// Its host is alive and does not answer: the records are shown instead.
    pub(in crate::cli) silent: bool,
    /// For a run that is not running: what takes effect when it is recovered.
    pub(in crate::cli) pending: Vec<PendingAct>,
    /// Why its records, or what it was started with, cannot be read.
    pub(in crate::cli) damage: Option<String>,
    /// Its records can be read; else the projection is empty.
    pub(in crate::cli) is_readable: bool,
    /// Of one that has failed: where its scripts are stored.
    pub(in crate::cli) scripts: Option<(RunManifest, Arc<dyn Catalog>)>,
}
