//! What a run waits for from people.

use crate::process::{Json, Timestamp};
use std::sync::Arc;

/// Most that one run is listed with; what its processes have waited for longest of each kind comes
/// first. Arbitrary: more than a person looks at.
pub const AWAITED_MAX: usize = 1_000;

/// Something that a run waits for until a person acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Awaited {
    /// What is waited for.
    pub kind: AwaitedKind,
    /// The signal's name; of a call `PID/TAG`. Unique for its kind in the run.
    pub name: Arc<str>,
    /// Since when, in microseconds since 1970: if several wait for one signal, the first.
    pub since: Timestamp,
    /// What a person is shown: of a signal an object with its `title`, `text` and `schema`; of a
    /// call an object with its `handler` and `key`.
    pub detail: Option<Json>,
}

/// What a run waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AwaitedKind {
    /// A signal.
    Signal,
    /// The outcome of a call that may have happened.
    Uncertain,
}

impl AwaitedKind {
    /// The name in lists: `signal`, `uncertain`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Uncertain => "uncertain",
        }
    }

    /// The kind with a name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Signal, Self::Uncertain].into_iter().find(|one| one.name() == name)
    }
}
