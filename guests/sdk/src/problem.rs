//! Problems: what a guest fails with, and how a failed command is answered.

use core::fmt::Display;

use crate::bindings::wfhost::process::types::{Payload, Problem, ProblemClass};

impl Problem {
    /// A problem that a retry cannot solve. `kind`: a short name or URI; `title`: for people.
    pub fn new(kind: &str, title: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            title: title.to_owned(),
            status: 0,
            detail: None,
            class: ProblemClass::Definite,
            retry_after: None,
            data: None,
        }
    }

    /// A problem that a retry may solve.
    pub fn retryable(kind: &str, title: &str) -> Self {
        Self { class: ProblemClass::Retryable, ..Self::new(kind, title) }
    }

    /// Describes this occurrence.
    #[must_use]
    pub fn detail(mut self, detail: impl Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Adds extension members. `data` must be a JSON object.
    #[must_use]
    pub fn data(mut self, data: &serde_json::Value) -> Self {
        self.data = Some(data.to_string());
        self
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::new("bad-json", "A value does not fit its JSON").detail(error)
    }
}

impl From<core::str::Utf8Error> for Problem {
    fn from(error: core::str::Utf8Error) -> Self {
        Self::new("bad-utf8", "Bytes are not UTF-8 text").detail(error)
    }
}

impl From<core::num::ParseIntError> for Problem {
    fn from(error: core::num::ParseIntError) -> Self {
        Self::new("bad-number", "A text is not an integer").detail(error)
    }
}

impl From<core::num::ParseFloatError> for Problem {
    fn from(error: core::num::ParseFloatError) -> Self {
        Self::new("bad-number", "A text is not a number").detail(error)
    }
}

/// Turns an error of any type, or an absent value, into a problem of the given kind.
pub trait OrProblem<T> {
    /// Fails with a definite problem whose detail is the error's text.
    fn or_problem(self, kind: &str, title: &str) -> Result<T, Problem>;
}

impl<T, E: Display> OrProblem<T> for Result<T, E> {
    fn or_problem(self, kind: &str, title: &str) -> Result<T, Problem> {
        self.map_err(|error| Problem::new(kind, title).detail(error))
    }
}

impl<T> OrProblem<T> for Option<T> {
    fn or_problem(self, kind: &str, title: &str) -> Result<T, Problem> {
        self.ok_or_else(|| Problem::new(kind, title))
    }
}

/// What `init` returns for an entry that the component does not have.
pub fn unknown_entry(entry: &str) -> Problem {
    Problem::new("unknown-entry", "The component has no such entry").detail(entry)
}

pub(crate) fn not_json(payload: &Payload) -> Problem {
    let found = match payload {
        Payload::Json(_) => "JSON",
        Payload::Bytes(_) => "bytes",
        Payload::Blob(_) => "a blob",
    };
    Problem::new("bad-payload", "The payload has another form than expected").detail(format_args!("found {found}"))
}
