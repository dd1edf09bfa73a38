//! What is wrong with a file: every problem of it in one go, each with its place.
//!
//! A [`Diagnostic`] has a code, a message, a span, and a hint where the way out is known. [`Diagnostics`] collects them beside
//! the file's text, in the order of their places, and writes them for people ([`Diagnostics::render`]) or for programs
//! ([`Diagnostics::to_json`]).
//!
//! - **I1** At most [`PROBLEMS_MAX`] problems are kept; the rest is counted.
//! - **I2** What comes from the file is shown with control characters escaped.

mod render;
mod suggest;

use super::syntax::{Source, Span};
use std::fmt;
pub(crate) use suggest::{all_of, closest, one_of, plain};

/// Problems that are kept of one file. Arbitrary: nobody reads more.
pub const PROBLEMS_MAX: usize = 100;

/// One problem of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// A short name for the kind of mistake, stable over releases.
    pub code: &'static str,
    /// What is wrong, in a line.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Other places that belong to it, and what they are.
    pub related: Vec<(Span, String)>,
    /// The way out.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A problem without a hint.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self { code, message: message.into(), span, related: Vec::new(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a hint, where there is one.
    #[must_use]
    pub fn hint_maybe(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// The same with another place that belongs to it.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }
}

/// The problems of a file, and its text.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    source: Source,
    problems: Vec<Diagnostic>,
    dropped: usize,
}

impl Diagnostics {
    /// No problems yet.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, problems: Vec::new(), dropped: 0 }
    }

    /// The file.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Adds a problem. The same problem at the same place is not added again: an alias shows its value more than once.
    pub fn push(&mut self, problem: Diagnostic) {
        if self.problems.contains(&problem) {
            return;
        }
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.problems.push(problem);
        }
    }

    /// Whether further problems are only counted. Whoever would look long for a hint need not, then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() == PROBLEMS_MAX
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many there are, those that were not kept included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len() + self.dropped
    }

    /// Those that were kept, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        let mut sorted: Vec<_> = self.problems.iter().collect();
        sorted.sort_by_key(|problem| problem.span);
        sorted.into_iter()
    }

    /// For people; with colours where they are asked for.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        render::render(self, colours)
    }

    /// For programs: a JSON object with `file`, `count`, and `problems`: `code`, `message`, `hint` or null, `at` (`file`, `line`,
    /// `column`, `end-line`, `end-column`, all from 1, `start-byte`, `end-byte`), and `related` places where there are some.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        render::to_json(self)
    }

    /// The problems, unless there are none.
    ///
    /// # Errors
    /// Itself, where there are problems.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}
