//! The contents of a workflow file as types: names, steps and their settings, each with its
//! position in the file.
//!
//! [`read`] turns the marked tree into a [`Workflow`] and reports everything that one key alone
//! shows: unknown keys, values of the wrong type, keys that belong to another kind of step, keys of
//! a later version. What needs the whole file (references, dependencies, cycles) is checked by the
//! plan; expressions are still text here. A [`Step`] is an item of the file's `steps:`.
//!
//! - **I1** A model is built even from a file with problems, as far as it can be read; it then
//!   serves further checks only.
//! - **I2** No key of the file is ignored: each one is read or reported.

mod action;
mod after;
mod block;
mod cache;
mod concurrency;
mod durations;
mod fields;
mod foreign_keys;
mod handlers;
pub(crate) mod inputs;
#[cfg(feature = "cli")]
pub(crate) mod keys;
mod limits;
mod lines;
mod names;
mod read;
mod repeat;
mod retry;
mod schedule;
pub mod schema;
mod schema_view;
mod script;
mod secrets;
mod several;
mod step;
pub(crate) mod values;
mod wait;
mod when;

use super::syntax::{Node, Span};
use crate::process::Micros;
pub(crate) use after::COMPENSATE;
pub use after::Occasion;
pub(crate) use block::blocks;
pub use cache::Cache;
pub use concurrency::Concurrency;
pub(crate) use durations::FORMS as DURATION_FORMS;
pub use durations::{millis, parse_duration, parse_time, write_duration};
pub(crate) use fields::shorten;
pub(crate) use fields::{Fields, KnownKeys, fixed_text, texts};
pub use handlers::HandlerBounds;
pub(crate) use handlers::read_handlers;
pub use inputs::{Input, Inputs, TakesBlob};
pub use limits::{LIMITS, Limit, LimitsPatch};
pub use read::read;
pub use repeat::{Repeat, TURNS_MAX};
pub use schedule::Scheduled;
pub(crate) use script::INLINE;
pub use script::{InlineScript, ScriptLanguage};
pub use secrets::{SecretDecl, SecretOrigin};
pub use several::PARTS_MAX;
pub(crate) use step::ENTRY_DEFAULT;
pub(crate) use values::parse_size;

/// Most steps of a workflow. Arbitrary.
pub const STEPS_MAX: usize = 1_000;
/// How deep steps are within steps. Arbitrary.
pub const BLOCK_DEPTH_MAX: usize = 8;
/// Most inputs of a workflow, and most named components. Arbitrary.
pub const NAMES_MAX: usize = 1_000;
/// Most secrets of a workflow. Arbitrary.
pub const SECRETS_MAX: usize = 64;
/// Items of a `for-each` that run at a time if `max-parallel` is absent.
pub const PARALLEL_DEFAULT: u32 = 64;
/// Largest `max-parallel`. Arbitrary; well below the commands that a process may have outstanding.
pub const PARALLEL_MAX: u32 = 4_096;
/// Largest `retry.max`. Arbitrary.
pub const RETRIES_MAX: u32 = 1_000;

/// A value and its span in the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Spanned<T> {
    /// The value that was read.
    pub value: T,
    /// Its bytes in the file.
    pub span: Span,
}

/// A workflow file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workflow {
    /// `name:`. `None` if absent: the plan takes the file's name.
    pub name: Option<String>,
    /// `inputs:`.
    pub inputs: Inputs,
    /// `components:`, in file order.
    pub components: Vec<ComponentDecl>,
    /// `defaults:`: settings for steps that do not have their own.
    pub defaults: Defaults,
    /// `durability:`.
    pub durability: Durability,
    /// `schedule:`.
    pub schedule: Option<Scheduled>,
    /// `concurrency:`.
    pub concurrency: Option<Concurrency>,
    /// `secrets:`, in file order.
    pub secrets: Vec<SecretDecl>,
    /// The names of secrets that could not be read.
    pub unread_secrets: Vec<String>,
    /// `handlers:`: bounds on calls, by the name of their handler.
    pub handlers: Vec<(Spanned<String>, HandlerBounds)>,
    /// `steps:`, in file order.
    pub steps: Vec<Step>,
    /// The ids of steps that could not be read. A reference to one is not reported as unknown.
    pub unread: Vec<String>,
    /// The names of components that could not be read.
    pub unread_components: Vec<String>,
    /// `outputs:`: names with values that may hold expressions.
    pub outputs: Option<Node>,
    /// `on`: what runs after the steps.
    pub on: Vec<(Occasion, Block)>,
    /// `grace`: how long a cancelled run has to end.
    pub grace: Option<Micros>,
}

impl Workflow {
    /// All steps: each before those within it, otherwise in file order.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        let mut all = Vec::new();
        block::add_all(&self.steps, &mut all);
        self.on.iter().for_each(|(_, block)| block::add_all(&block.steps, &mut all));
        all.into_iter()
    }
}

/// Steps within a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// JSON Pointer to the list of its steps.
    pub pointer: String,
    /// `steps:`, in file order.
    pub steps: Vec<Step>,
    /// The ids of steps that could not be read.
    pub unread: Vec<String>,
    /// `outputs:`: names with values that may hold expressions.
    pub outputs: Option<Node>,
}

/// A case of a `switch`.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// `if`; `None` for the default.
    pub condition: Option<Node>,
    /// What is run if it is the first that applies.
    pub block: Block,
}

/// An entry of `components:`.
#[derive(Clone, PartialEq, Debug)]
pub struct ComponentDecl {
    /// The key that steps refer to.
    pub name: Spanned<String>,
    /// The path of its file, relative to the workflow's folder.
    pub source: Spanned<String>,
    /// Limits for every step that uses it.
    pub limits: LimitsPatch,
    /// The folders that a program can read: names below `/`, and where they are, relative to the
    /// workflow's folder.
    pub folders: Vec<(Spanned<String>, Spanned<String>)>,
}

impl ComponentDecl {
    /// What tells it from other components: its source, and the folders that it can read.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key = self.source.value.clone();
        for (at, (name, folder)) in self.folders.iter().enumerate() {
            let before = if at == 0 { " with" } else { "," };
            key.push_str(&format!("{before} /{}: {}", name.value, folder.value));
        }
        key
    }
}

/// How much of a run survives its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// All of it, in the journal, if the host has a data folder.
    #[default]
    Journal,
    /// Nothing.
    None,
}

/// `defaults:`: settings for steps that do not have their own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Defaults {
    /// Time limit of one attempt at one item.
    pub timeout: Option<Micros>,
    /// How transient failures are retried.
    pub retry: Option<Retry>,
    /// Limits of a guest.
    pub limits: LimitsPatch,
}

/// `retry:`: how transient failures are retried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Retry {
    /// Most retries; one less than the most attempts.
    pub max: u32,
    /// The wait before the first retry, before jitter. Each further retry waits twice as long.
    pub backoff_min: Micros,
    /// The longest wait before a retry.
    pub backoff_max: Micros,
}

impl Retry {
    /// The backoff if only `max` is given. Arbitrary.
    pub(crate) const BACKOFF_DEFAULT: (Micros, Micros) = (Micros(1_000_000), Micros(30_000_000));
}

/// Which outcomes of its dependencies let a step start. A step always waits until every dependency
/// has ended, so what it sees never depends on which one finished first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// All succeeded or were skipped.
    #[default]
    Succeeded,
    /// At least one failed itself.
    Failed,
    /// At least one was not reached, because a step that it depends on failed.
    Unreached,
    /// At least one failed itself or was not reached.
    FailedOrUnreached,
    /// Any outcome.
    Done,
    /// At least one succeeded.
    Any,
}

/// An item of `steps:`.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// `id`: the name in references.
    pub id: Spanned<String>,
    /// Its id after those of the steps that it is within: `deploy.build`.
    pub path: String,
    /// JSON Pointer to it.
    pub pointer: String,
    /// The whole item.
    pub span: Span,
    /// What it does.
    pub action: Action,
    /// `needs`: declared dependencies. An empty list is not the same as `None`: it states that
    /// there are no others.
    pub needs: Option<Vec<Spanned<String>>>,
    /// `if`: the step is skipped unless it is true.
    pub condition: Option<Node>,
    /// `when`: which outcomes of its dependencies let it start.
    pub when: When,
    /// `for-each`: the list whose items it runs for.
    pub for_each: Option<Node>,
    /// `max-parallel`: how many items run at a time.
    pub max_parallel: Option<u32>,
    /// `with`: its input or arguments.
    pub with: Option<Node>,
    /// How transient failures are retried.
    pub retry: Option<Retry>,
    /// `repeat`: how often it runs.
    pub repeat: Option<Repeat>,
    /// `cache`: whether its outcomes are used again.
    pub cache: Option<Cache>,
    /// Time limit of one attempt at one item.
    pub timeout: Option<Micros>,
    /// `continue-on-error`: its failure counts as success for other steps.
    pub continue_on_error: bool,
    /// Limits of a guest.
    pub limits: LimitsPatch,
    /// `allow`: what it may ask of handlers. `None` if that could not be read.
    pub allow: Option<Vec<Allowed>>,
    /// `compensate`: what undoes it, a step whose id is `compensate`.
    pub compensate: Option<Box<Step>>,
    /// `secrets`: those that it may use.
    pub secrets: Vec<Spanned<String>>,
}

/// An entry of `allow`: what a step may ask for under one capability.
#[derive(Clone, PartialEq, Debug)]
pub struct Allowed {
    /// The name of the capability, such as `http`.
    pub capability: Spanned<String>,
    /// The patterns that are granted.
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
        /// The entry point. If the file names none, the default one with the component's span.
        entry: Spanned<String>,
    },
    /// Runs a script that is written in the file.
    Script(InlineScript),
    /// Calls a handler of the host.
    Call {
        /// The handler's name.
        handler: Spanned<String>,
    },
    /// Waits for a duration.
    Wait(Node),
    /// Waits until a time.
    Until(Node),
    /// Waits for a signal; its body is the output.
    Signal {
        /// The signal's name.
        name: Node,
        /// The longest wait.
        timeout: Option<Node>,
        /// What a person is shown who sends it.
        prompt: Prompt,
    },
    /// Waits for the first of several things.
    Any {
        /// What it waits for.
        parts: Vec<Part>,
        /// The longest wait.
        timeout: Option<Node>,
    },
    /// Waits for several things.
    All {
        /// What it waits for.
        parts: Vec<Part>,
        /// The longest wait for the signals among them.
        timeout: Option<Node>,
    },
    /// Computes a value.
    Set(Node),
    /// Runs steps of its own.
    Steps(Block),
    /// Runs the steps of the first case that applies.
    Switch(Vec<Case>),
    /// Runs the workflow of another file.
    Workflow {
        /// Its path, relative to the folder of the file that names it.
        file: Spanned<String>,
    },
}

/// One of several things that a step waits for.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// Its name in the output.
    pub name: Spanned<String>,
    /// A wait for a duration, a time or a signal, without a timeout of its own.
    pub action: Action,
}

/// What a person is shown who answers a wait.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prompt {
    /// In a few words.
    pub title: Option<Node>,
    /// In sentences.
    pub text: Option<Node>,
    /// A JSON Schema of the signal's body.
    pub schema: Option<serde_json::Value>,
}

impl Action {
    /// The names of the signals that it waits for.
    pub(crate) fn signals(&self) -> Vec<&Node> {
        match self {
            Self::Signal { name, .. } => vec![name],
            Self::Any { parts, .. } | Self::All { parts, .. } => {
                parts.iter().flat_map(|part| part.action.signals()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The key in the file that selects the action.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Uses { .. } => "uses",
            Self::Script(_) => "script",
            Self::Call { .. } => "call",
            Self::Wait(_) | Self::Until(_) | Self::Signal { .. } | Self::Any { .. } | Self::All { .. } => "wait",
            Self::Set(_) => "set",
            Self::Steps(_) => "steps",
            Self::Switch(_) => "switch",
            Self::Workflow { .. } => "workflow",
        }
    }
}
