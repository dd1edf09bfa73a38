//! What a workflow file says, in types: names, steps and their settings, each with its place in the file.
//!
//! [`read`] turns the marked tree into a [`Workflow`] and reports everything that can be told from one key alone: unknown keys,
//! values of the wrong type, keys that belong to another kind of step, keys of a later version. What needs the whole file
//! (references, dependencies, cycles) is the plan's part; expressions are still text here.
//!
//! - **I1** A model is built even from a file with problems, as far as it can be read; it is used for further checks only.
//! - **I2** No key of the file is ignored: each is read, or reported.

mod durations;
mod fields;
mod foreign_keys;
pub(crate) mod inputs;
mod limits;
mod names;
mod read;
pub mod schema;
mod schema_view;
mod step;
pub(crate) mod values;

use super::syntax::{Node, Span};
use crate::process::Micros;
pub use durations::{millis, parse_duration, write_duration};
pub(crate) use fields::shorten;
#[cfg(feature = "cli")]
pub(crate) use fields::{Fields, KnownKeys, texts};
pub use inputs::{Input, Inputs};
pub use limits::{LIMITS, Limit, LimitsPatch};
pub use read::read;
pub(crate) use step::ENTRY_DEFAULT;

/// Steps of a workflow. Arbitrary.
pub const STEPS_MAX: usize = 1_000;
/// Inputs of a workflow, and its named components. Arbitrary.
pub const NAMES_MAX: usize = 1_000;
/// Items of a `for-each` that run at one time where `max-parallel` is absent.
pub const PARALLEL_DEFAULT: u32 = 64;
/// Items of a `for-each` that may run at one time. Arbitrary; well below the commands that a process may have outstanding.
pub const PARALLEL_MAX: u32 = 4_096;
/// Retries that a step may ask for. Arbitrary.
pub const RETRIES_MAX: u32 = 1_000;

/// A value and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

/// A whole file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workflow {
    /// What it is called.
    pub name: Option<String>,
    /// What a run is given.
    pub inputs: Inputs,
    /// Named components.
    pub components: Vec<ComponentDecl>,
    /// Settings of every step that does not have its own.
    pub defaults: Defaults,
    /// What of a run survives its host.
    pub durability: Durability,
    /// In the order of the file.
    pub steps: Vec<Step>,
    /// The ids of steps that could not be read: what refers to them is no further problem.
    pub unread: Vec<String>,
    /// The names of components that could not be read.
    pub unread_components: Vec<String>,
    /// What the run gives: names with values that have expressions in them.
    pub outputs: Option<Node>,
}

/// An entry of `components:`.
#[derive(Clone, PartialEq, Debug)]
pub struct ComponentDecl {
    /// Its name.
    pub name: Spanned<String>,
    /// Where it comes from: a path, relative to the workflow's folder.
    pub source: Spanned<String>,
    /// What it may use.
    pub limits: LimitsPatch,
}

/// What of a run survives its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// All of it, where the host has a folder for it: it is in the journal.
    #[default]
    Journal,
    /// Nothing.
    None,
}

/// Settings that a step has unless it has its own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Defaults {
    /// Of one attempt of one item.
    pub timeout: Option<Micros>,
    /// What follows a failure that may pass.
    pub retry: Option<Retry>,
    /// What a guest may use.
    pub limits: LimitsPatch,
}

/// What follows a failure that may pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Retry {
    /// Retries, not attempts.
    pub max: u32,
    /// About how long before the first retry; each further one waits twice as long as the one before.
    pub backoff_min: Micros,
    /// The longest wait.
    pub backoff_max: Micros,
}

impl Retry {
    /// Where only `max` is given. Arbitrary.
    pub(crate) const BACKOFF_DEFAULT: (Micros, Micros) = (Micros(1_000_000), Micros(30_000_000));
}

/// Which endings of its dependencies let a step start. All of them wait until every dependency has ended, so that what a step
/// sees never depends on what finished first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// All succeeded or were skipped.
    #[default]
    Succeeded,
    /// At least one failed itself.
    Failed,
    /// At least one was not reached: a step that it depends on failed.
    Unreached,
    /// At least one failed itself or was not reached.
    FailedOrUnreached,
    /// Whatever became of them.
    Done,
    /// At least one succeeded.
    Any,
}

/// One step.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Its name in references.
    pub id: Spanned<String>,
    /// Its place in the list.
    pub index: usize,
    /// The whole step.
    pub span: Span,
    /// What it does.
    pub action: Action,
    /// Declared dependencies. An empty list is not the same as none: it says that there are no others.
    pub needs: Option<Vec<Spanned<String>>>,
    /// `if`: skipped unless it is true.
    pub condition: Option<Node>,
    /// Which endings of its dependencies let it start.
    pub when: When,
    /// The list whose items it runs for.
    pub for_each: Option<Node>,
    /// How many items run at one time.
    pub max_parallel: Option<u32>,
    /// What it is given.
    pub with: Option<Node>,
    /// What follows a failure that may pass.
    pub retry: Option<Retry>,
    /// Of one attempt of one item.
    pub timeout: Option<Micros>,
    /// Its failure counts as success for others.
    pub continue_on_error: bool,
    /// What a guest may use.
    pub limits: LimitsPatch,
    /// What it may ask of handlers; none where that could not be read.
    pub allow: Option<Vec<Allowed>>,
}

/// What a step may ask for under one capability.
#[derive(Clone, PartialEq, Debug)]
pub struct Allowed {
    /// The capability.
    pub capability: Spanned<String>,
    /// What is granted under it.
    pub patterns: Vec<Spanned<String>>,
    /// Whether every pattern could be read.
    pub is_whole: bool,
}

/// What a step does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Runs a guest.
    Uses {
        /// A name under `components:`, or a path.
        component: Spanned<String>,
        /// The entry point; where the file names none, its place is the component's.
        entry: Spanned<String>,
    },
    /// Calls a handler of the host.
    Call {
        /// Its name.
        handler: Spanned<String>,
    },
    /// Waits for a duration.
    Wait(Node),
    /// Waits for a signal; what it carries is the output.
    Signal {
        /// Its name.
        name: Node,
        /// How long at most.
        timeout: Option<Node>,
    },
    /// Is a value.
    Set(Node),
}

impl Action {
    /// The key that says what a step does.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Uses { .. } => "uses",
            Self::Call { .. } => "call",
            Self::Wait(_) | Self::Signal { .. } => "wait",
            Self::Set(_) => "set",
        }
    }
}
