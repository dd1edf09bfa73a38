//! Why a host cannot be built, or a workflow not loaded or started.

use super::component_store::ComponentStoreError;
use crate::workflow::diagnostics::Diagnostics;
use std::path::PathBuf;

/// Why a host cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The engine of guests.
    #[error("the engine for guests cannot be made")]
    Guests(#[source] crate::guest::EngineError),
    /// The configuration of `http`.
    #[error("the handler `http` cannot be made")]
    Http(#[source] crate::dispatch::http::HttpError),
    /// A handler.
    #[error(transparent)]
    Registry(#[from] crate::dispatch::RegistryError),
    /// The machine gives no threads.
    #[error("the workers cannot be started")]
    Workers(#[source] std::io::Error),
    /// A native process.
    #[error("two native processes have the name `{name}`")]
    DuplicateNative {
        /// The name.
        name: String,
    },
}

/// Why a workflow cannot be loaded or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has problems: all of them, each with its place.
    #[error("{0}")]
    Definition(Diagnostics),
    /// Whoever asked for it does not want it any more.
    #[error("loading was cancelled")]
    Cancelled,
    /// The inputs are not what the workflow declares: a JSON Pointer and a sentence for each.
    #[error("the inputs do not fit: {}", .0.iter().map(|(at, what)| format!("{at} {what}")).collect::<Vec<_>>().join("; "))]
    Inputs(Vec<(String, String)>),
    /// There is a run of that id: an unfinished one in this host, or any in its folder.
    #[error("there is a run with the id {id} already")]
    Exists {
        /// The id.
        id: String,
    },
    /// The host is shutting down, or full.
    #[error("the host is shutting down or full")]
    ShuttingDown,
    /// The run is to be durable, and cannot be.
    #[error("the run cannot be written to the journal")]
    Journal(#[source] crate::journal::StoreError),
    /// The run is to be durable, and a component of it cannot be kept for that.
    #[error("the component `{component}` cannot be kept in the data folder")]
    StoreComponent {
        /// The component, as the workflow names it.
        component: String,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
    /// A component that was kept for a durable run cannot be used.
    #[error("the component `{component}` that was kept for the run cannot be used")]
    StoredComponent {
        /// The component, as the workflow names it.
        component: String,
        /// What is wrong with it.
        #[source]
        error: ComponentStoreError,
    },
    /// The run is to be durable, and the host was built without a folder for it.
    #[error("the host has no folder for durable runs")]
    NoJournal,
}
