//! What can go wrong with an engine or with a component before any guest runs.

use super::inspect::Misfit;
use crate::process::{Problem, problem::kind};

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// This machine or this configuration does not give one.
    #[error("cannot make a WebAssembly engine: {0}")]
    Wasmtime(wasmtime::Error),
    /// The settings of the pool's engine and of the one without a pool give different code.
    #[error("the engine without a pool would need other compiled code than the one with a pool")]
    OtherCode,
}

/// Why a component cannot be a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// More bytes than a component may have.
    #[error("the component has {bytes} bytes; at most {bytes_max} are taken")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What is taken.
        bytes_max: usize,
    },
    /// More of something than a component may have.
    #[error("the component has {count} {what}; at most {count_max} are taken")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// What it has.
        count: u64,
        /// What is taken.
        count_max: u64,
    },
    /// The bytes are a core module.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// The bytes are not WebAssembly, or not valid.
    #[error("not a valid component: {0}")]
    Malformed(String),
    /// It does not fit the contract.
    #[error("the component does not fit: {}", list(.0))]
    Misfit(Vec<Misfit>),
    /// The engine refuses it.
    #[error("cannot compile the component: {0}")]
    Compile(String),
    /// The engine itself is at fault.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl LoadError {
    /// The same as a problem, for whoever asked for the component.
    pub fn to_problem(&self) -> Problem {
        Problem::new(kind::BAD_COMPONENT, "The component cannot be run as a guest").with_detail(self.to_string())
    }
}

fn list(misfits: &[Misfit]) -> String {
    misfits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
