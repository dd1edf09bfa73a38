//! What a node does.

use super::{Block, Case, Template};
use crate::workflow::model::INLINE;
use std::sync::Arc;

/// One of several things that a node waits for.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A duration has passed, given as text.
    Wait(Template),
    /// A time has come, given as text.
    Until(Template),
    /// A signal.
    Signal {
        /// The name of the signal, a string.
        name: Template,
        /// What a person is shown who sends it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        prompt: Option<Template>,
    },
}

/// What a node does.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Runs a guest.
    Uses {
        /// The name of a [`Component`].
        component: Arc<str>,
        /// The name of the entry point.
        entry: Arc<str>,
        /// The input of the entry point.
        with: Template,
    },
    /// Calls a handler.
    Call {
        /// The name of the handler.
        handler: Arc<str>,
        /// The arguments of the call.
        with: Template,
    },
    /// Waits for a duration, given as text.
    Wait(Template),
    /// Waits until a time, given as text.
    Until(Template),
    /// Waits for a signal.
    Signal {
        /// The name of the signal, a string.
        name: Template,
        /// The longest wait, a duration as text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        timeout: Option<Template>,
        /// What a person is shown who sends it: an object of `title`, `text` and `schema`.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        prompt: Option<Template>,
    },
    /// Waits for the first of several things.
    Any {
        /// What it waits for, by name.
        parts: Vec<(Arc<str>, Part)>,
        /// The longest wait, a duration as text.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        timeout: Option<Template>,
    },
    /// Waits for all of several things: steps, each of which waits for one.
    All(Arc<Block>),
    /// Computes a value.
    Set(Template),
    /// Runs steps of its own.
    Steps(Arc<Block>),
    /// Runs the steps of the first case that applies.
    Switch(Vec<Case>),
    /// Runs another workflow.
    Workflow {
        /// Its index in [`Plan::workflows`](super::Plan::workflows).
        workflow: usize,
        /// Its inputs.
        with: Template,
        /// Whether one of its steps may use the run's store `kv`.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        stores: bool,
    },
}

impl Part {
    /// The name of the signal, if it is one.
    fn signal(&self) -> Option<&Template> {
        if let Self::Signal { name, .. } = self { Some(name) } else { None }
    }
}

impl Action {
    /// The key in the file that selects the action.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Uses { component, .. } if component.starts_with(INLINE) => "script",
            Self::Uses { .. } => "uses",
            Self::Call { .. } => "call",
            Self::Wait(_) | Self::Until(_) | Self::Signal { .. } | Self::Any { .. } | Self::All(_) => "wait",
            Self::Set(_) => "set",
            Self::Steps(_) => "steps",
            Self::Switch(_) => "switch",
            Self::Workflow { .. } => "workflow",
        }
    }

    /// Returns whether it runs steps of its own.
    #[must_use]
    pub fn has_block(&self) -> bool {
        matches!(self, Self::Steps(_) | Self::Switch(_) | Self::Workflow { .. } | Self::All(_))
    }

    /// The lists of steps within it that are in the same file;
    /// [`Plan::blocks_of`](super::Plan::blocks_of) has all.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        let (one, cases) = match self {
            Self::Steps(block) | Self::All(block) => (Some(block), &[][..]),
            Self::Switch(cases) => (None, &cases[..]),
            _ => (None, &[][..]),
        };
        one.into_iter().chain(cases.iter().map(|case| &case.block))
    }

    /// Its templates, without those of steps within it.
    pub(in crate::workflow) fn templates(&self) -> impl Iterator<Item = &Template> {
        let mut all: Vec<&Template> = Vec::new();
        match self {
            Self::Uses { with, .. } | Self::Call { with, .. } | Self::Workflow { with, .. } => all.push(with),
            Self::Wait(template) | Self::Until(template) | Self::Set(template) => all.push(template),
            Self::Signal { name, timeout, prompt } => all.extend([name].into_iter().chain(timeout).chain(prompt)),
            Self::Any { parts, timeout } => {
                for (_, part) in parts {
                    match part {
                        Part::Wait(template) | Part::Until(template) => all.push(template),
                        Part::Signal { name, prompt } => all.extend([name].into_iter().chain(prompt)),
                    }
                }
                all.extend(timeout);
            }
            Self::Switch(cases) => all.extend(cases.iter().filter_map(|case| case.condition.as_ref())),
            Self::Steps(_) | Self::All(_) => {}
        }
        all.into_iter()
    }

    /// The names of the signals that it waits for, without those of steps within it.
    pub(super) fn signals(&self) -> Vec<&Template> {
        match self {
            Self::Signal { name, .. } => vec![name],
            Self::Any { parts, .. } => parts.iter().filter_map(|(_, part)| part.signal()).collect(),
            _ => Vec::new(),
        }
    }
}
