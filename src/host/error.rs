//! Why a host cannot be built, or a workflow cannot be loaded or started.

use super::MissingSecret;
use crate::workflow::diagnostics::Diagnostics;
use std::path::PathBuf;

/// Why a host cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The engine of guests cannot be made.
    #[error("the engine for guests cannot be made")]
    Guests(#[source] crate::guest::EngineError),
    /// The configuration of `http` cannot be used.
    #[error("the handler `http` cannot be made")]
    Http(#[source] crate::dispatch::http::HttpError),
    /// A handler cannot be registered.
    #[error(transparent)]
    Registry(#[from] crate::dispatch::RegistryError),
    /// The operating system starts no threads.
    #[error("the workers cannot be started")]
    Workers(#[source] std::io::Error),
    /// Two native processes have one name.
    #[error("two native processes have the name `{name}`")]
    DuplicateNative {
        /// The name that both have.
        name: String,
    },
}

crate::base::report_debug::report_debug!(HostError);

/// Why a workflow cannot be loaded or started.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The workflow's file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The lock cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    WriteLock {
        /// The lock.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file has problems: all of them, each with its position.
    #[error("{0}")]
    Definition(Diagnostics),
    /// The caller cancelled it.
    #[error("loading was cancelled")]
    Cancelled,
    /// The workflow has to be locked, and there is no lock.
    #[error("there is no {}, and the workflow has to be locked", lock.display())]
    NotLocked {
        /// The lock that there would be.
        lock: PathBuf,
        /// The workflow's file.
        workflow: PathBuf,
    },
    /// The inputs are not what the workflow declares: a JSON Pointer and a sentence for each
    /// violation.
    #[error("the inputs do not fit: {}", .0.iter().map(|(at, what)| format!("{at} {what}")).collect::<Vec<_>>().join("; "))]
    Inputs(Vec<(String, String)>),
    /// There is a run with this id: an unfinished one in this host, or any in its folder.
    #[error("there is a run with the id {id} already")]
    Exists {
        /// The id that was given.
        id: String,
    },
    /// The run found no place in its concurrency group, and does not wait for one.
    #[error("the concurrency group {group:?} has no place: {run} has it")]
    NoPlace {
        /// The group.
        group: String,
        /// The run that has the place longest.
        run: String,
    },
    /// As many runs wait for a place in the run's concurrency group as may.
    #[error("{waiting} runs wait for a place in the concurrency group {group:?}, as many as may")]
    QueueFull {
        /// The group.
        group: String,
        /// How many wait.
        waiting: u32,
    },
    /// The run's concurrency group has no name.
    #[error("the workflow's `concurrency.group` cannot be the name of a group: {0}")]
    Group(String),
    /// The workflow has a concurrency group, and the run would be in no journal.
    #[error("the workflow has `concurrency`, and its run would be in no journal")]
    GroupNeedsJournal,
    /// The host is shutting down, or full.
    #[error("the host is shutting down or full")]
    ShuttingDown,
    /// The run should be durable, and the journal cannot be used.
    #[error("the run cannot be written to the journal")]
    Journal(#[source] crate::journal::StoreError),
    /// The run should be durable, and a component of it cannot be stored.
    #[error("the component `{component}` cannot be stored in the data folder")]
    StoreComponent {
        /// The component, as the workflow names it.
        component: String,
        /// The error of the journal.
        #[source]
        error: crate::journal::StoreError,
    },
    /// A component that was stored for a durable run cannot be used.
    #[error("the component `{component}` that was stored for the run cannot be used")]
    StoredComponent {
        /// The component, as the workflow names it.
        component: String,
        /// What is wrong with it.
        #[source]
        error: crate::journal::ComponentStoreError,
    },
    /// The run cannot be given the blobs of the run that it repeats.
    #[error("the run cannot be given the blobs that it begins with")]
    Blobs(#[source] crate::run::BlobError),
    /// Secrets that the workflow declares cannot be used: nothing has begun.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Secrets(Vec<MissingSecret>),
    /// The run should be durable, and the host was built without a folder for durable runs.
    #[error("the host has no folder for durable runs")]
    NoJournal,
}

crate::base::report_debug::report_debug!(LoadError);
