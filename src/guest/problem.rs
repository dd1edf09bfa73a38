//! What can go wrong with an engine or with a component before any guest runs.

use super::inspect::Misfit;
use crate::process::{Problem, problem::kind};
use std::fmt;
use std::time::Duration;

/// Why an engine could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// This machine or this configuration does not allow one.
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
    /// The component is too large.
    #[error("the component has {bytes} bytes; at most {bytes_max} are allowed")]
    TooLarge {
        /// The component's size.
        bytes: usize,
        /// The most bytes allowed.
        bytes_max: usize,
    },
    /// The component has too many of something.
    #[error("{} has {count} {what}; at most {count_max} are allowed", owner(*.function))]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// Its number in the component.
        count: u64,
        /// The most allowed.
        count_max: u64,
        /// The function that has them; `None` if they are counted over the whole component.
        function: Option<FunctionLocation>,
    },
    /// The number of things that it makes is not known in advance.
    #[error("the component instantiates a component that it does not contain, so its size is not known in advance")]
    Unweighed,
    /// The bytes are a core module.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// The bytes are not WebAssembly, or not valid.
    #[error("not a valid component: {0}")]
    Malformed(String),
    /// The component does not fit the contract, in each of these ways.
    #[error("the component does not fit: {}", list(.0))]
    Misfit(Vec<Misfit>),
    /// The engine refuses the component.
    #[error("cannot compile the component: {0}")]
    Compile(String),
    /// Compiling it takes more than it may.
    #[error("compiling the component takes more than {0}")]
    CompileBound(CompileBound),
    /// The compiling process failed, or died of this component.
    #[error("the compiler failed: {0}")]
    Compiler(String),
    /// The caller cancelled the load.
    #[error("loading the component was cancelled")]
    Cancelled,
    /// The engine itself failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What a guest returned is not what the contract allows.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Breach(#[from] pub(crate) Problem);

/// A bound on compiling a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileBound {
    /// Processor time.
    Cpu(Duration),
    /// Elapsed time.
    Wall(Duration),
    /// Bytes of memory.
    Memory(u64),
}

impl fmt::Display for CompileBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(time) => {
                write!(f, "{} s of processor time, the limit for a component of its size", time.as_secs())
            }
            Self::Wall(time) => write!(f, "{} s, the limit for a component of its size", time.as_secs()),
            Self::Memory(bytes) => {
                write!(f, "{} MiB of memory, the limit for a component of its size", bytes >> 20)
            }
        }
    }
}

/// A function within a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionLocation {
    /// Its core module, counted from 0 in the order of the bytes.
    pub module: u64,
    /// Its index there, imported functions first.
    pub function: u64,
}

impl LoadError {
    /// The same error, located in a function.
    pub(crate) fn at(mut self, location: FunctionLocation) -> Self {
        if let Self::TooMany { function, .. } = &mut self {
            *function = Some(location);
        }
        self
    }

    /// Returns the error as a problem, for the caller that asked for the component.
    pub fn to_problem(&self) -> Problem {
        Problem::new(kind::BAD_COMPONENT, "The component cannot be run as a guest").with_detail(self.to_string())
    }
}

fn owner(function: Option<FunctionLocation>) -> String {
    function.map_or_else(
        || "the component".to_owned(),
        |FunctionLocation { module, function }| format!("function {function} of the component's core module {module}"),
    )
}

fn list(misfits: &[Misfit]) -> String {
    misfits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
