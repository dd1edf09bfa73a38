//! Scopes: what a token may be used for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a token may be used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// See runs, workflows and what they do, without payloads.
    #[serde(rename = "runs:read")]
    RunsRead,
    /// See inputs, outputs, logs, problems and records too.
    #[serde(rename = "runs:payloads")]
    RunsPayloads,
    /// Start runs.
    #[serde(rename = "runs:start")]
    RunsStart,
    /// Signal, cancel, pause, resume, retry, fork and remove runs.
    #[serde(rename = "runs:act")]
    RunsAct,
    /// Settle calls of unknown outcome.
    #[serde(rename = "runs:resolve")]
    RunsResolve,
    /// Upload components, deploy and activate workflows.
    Deploy,
    /// Change schedules and webhooks.
    Schedules,
    /// Read metrics.
    Metrics,
    /// Everything, and tokens and the server itself.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: &[Self] = &[
        Self::RunsRead,
        Self::RunsPayloads,
        Self::RunsStart,
        Self::RunsAct,
        Self::RunsResolve,
        Self::Deploy,
        Self::Schedules,
        Self::Metrics,
        Self::Admin,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::RunsRead => "runs:read",
            Self::RunsPayloads => "runs:payloads",
            Self::RunsStart => "runs:start",
            Self::RunsAct => "runs:act",
            Self::RunsResolve => "runs:resolve",
            Self::Deploy => "deploy",
            Self::Schedules => "schedules",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    /// The scope that a word names.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.word() == word)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Scopes(u16);

impl Scopes {
    /// Whether the set has a scope; `admin` has all.
    pub fn has(self, scope: Scope) -> bool {
        let bit = |scope: Scope| 1 << scope as u16;
        self.0 & (bit(scope) | bit(Scope::Admin)) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | 1 << scope as u16))
    }
}
