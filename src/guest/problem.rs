//! What can go wrong with an engine or with a component before any guest runs.

use super::inspect::Misfit;
use crate::process::{Problem, problem::kind};
use std::fmt;
use std::time::Duration;

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
    #[error("{} has {count} {what}; at most {count_max} are taken", owner(*.place))]
    TooMany {
        /// Of what.
        what: &'static str,
        /// What it has.
        count: u64,
        /// What is taken.
        count_max: u64,
        /// Where they are; none where they are counted through all of the component.
        place: Option<Place>,
    },
    /// What it makes is not known before it is made.
    #[error(
        "the component instantiates a component that is not one of those within it, so how much it makes is not known"
    )]
    Unweighed,
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
    /// Compiling it takes more than it may.
    #[error("compiling the component takes more than {0}")]
    CompileBound(CompileBound),
    /// The process that compiles is at fault, or died of this component.
    #[error("the compiler failed: {0}")]
    Compiler(String),
    /// Whoever asked for it does not want it any more.
    #[error("loading the component was cancelled")]
    Cancelled,
    /// The engine itself is at fault.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What compiling a component may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileBound {
    /// Time of processors.
    Cpu(Duration),
    /// Time by the clock.
    Wall(Duration),
    /// Bytes of memory.
    Memory(u64),
}

impl fmt::Display for CompileBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(time) => {
                write!(f, "{} s of a processor, which is what a component of its size is given", time.as_secs())
            }
            Self::Wall(time) => write!(f, "{} s, which is what a component of its size is given", time.as_secs()),
            Self::Memory(bytes) => {
                write!(f, "{} MiB of memory, which is what a component of its size is given", bytes >> 20)
            }
        }
    }
}

/// A function within a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its core module, counted from 0 in the order of the bytes.
    pub module: u64,
    /// Its index there, imported functions first.
    pub function: u64,
}

impl LoadError {
    /// The same, of a function.
    pub(crate) fn at(mut self, function: Place) -> Self {
        if let Self::TooMany { place, .. } = &mut self {
            *place = Some(function);
        }
        self
    }

    /// The same as a problem, for whoever asked for the component.
    pub fn to_problem(&self) -> Problem {
        Problem::new(kind::BAD_COMPONENT, "The component cannot be run as a guest").with_detail(self.to_string())
    }
}

fn owner(place: Option<Place>) -> String {
    place.map_or_else(
        || "the component".to_owned(),
        |Place { module, function }| format!("function {function} of the component's core module {module}"),
    )
}

fn list(misfits: &[Misfit]) -> String {
    misfits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
