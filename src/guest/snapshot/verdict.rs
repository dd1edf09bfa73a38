//! What [`check()`](super::check()) finds.

use std::fmt;

/// A kind of state, or of code that makes state, that a snapshot does not hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// The instruction changes a table, or drops a segment.
    Instruction(String),
    /// An instruction of a proposal whose state has not been examined.
    Proposal(String),
    /// A mutable global that holds a reference.
    ReferenceGlobal,
    /// A table of anything other than functions.
    ReferenceTable,
    /// A type other than a function type: its values live in a garbage-collected heap.
    HeapType,
    /// A memory or table that other threads share.
    Shared,
    /// A memory whose pages are not 64 KiB.
    PageSize,
    /// A tag of exceptions: exceptions live in a garbage-collected heap.
    ExceptionTag,
    /// A resource type, whose handles the host holds.
    Resource(String),
    /// A canonical function other than lift and lower: it works on state that the host holds.
    Builtin(String),
    /// A function lifted or lowered to be asynchronous: the host holds its tasks.
    Asynchronous,
    /// A stream or future, whose handles the host holds.
    Stream,
    /// An import of a core module or a component, which these bytes do not contain.
    ImportedCode,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction(name) => write!(f, "the instruction {name}"),
            Self::Proposal(name) => write!(f, "an instruction of the proposal {name}"),
            Self::ReferenceGlobal => f.write_str("a mutable global that holds a reference"),
            Self::ReferenceTable => f.write_str("a table of other references than functions"),
            Self::HeapType => f.write_str("a type of garbage-collected values or continuations"),
            Self::Shared => f.write_str("a memory or table shared by threads"),
            Self::PageSize => f.write_str("a memory with pages of an unusual size"),
            Self::ExceptionTag => f.write_str("an exception tag"),
            Self::Resource(name) => write!(f, "the resource type {name}"),
            Self::Builtin(name) => write!(f, "the canonical function {name}"),
            Self::Asynchronous => f.write_str("an asynchronous function"),
            Self::Stream => f.write_str("a stream or future"),
            Self::ImportedCode => f.write_str("an import of a module or component"),
        }
    }
}

/// One reason, and how often it was found.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// The kind of state or code.
    pub reason: Reason,
    /// Number of occurrences.
    pub count: u32,
    /// The first core module that has it, counted from 0 in the order of the bytes; `None` if it is
    /// the component's own.
    pub module: Option<u32>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        match self.module {
            Some(module) => write!(f, " in core module {module}"),
            None => Ok(()),
        }
    }
}

/// What [`check()`](super::check()) found.
#[derive(Clone, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    /// Why the component cannot be snapshotted; empty if it can.
    pub refusals: Vec<Refusal>,
    /// Number of core modules.
    pub modules: u32,
    /// Number of memories that are defined.
    pub memories: u32,
    /// Number of tables that are defined.
    pub tables: u32,
    /// Number of mutable globals that are defined.
    pub mutable_globals: u32,
    /// Number of start functions.
    pub start_functions: u32,
}

impl Verdict {
    /// Returns whether memories and globals are all of the component's state.
    pub fn snapshottable(&self) -> bool {
        self.refusals.is_empty()
    }
}
