//! The problems of a file, reported all at once, each with its position.
//!
//! A [`Diagnostic`] has a code, a message, a span, and a hint if the way out is known.
//! [`Diagnostics`] collects them beside the file's text, in file order, and writes them for people
//! ([`Diagnostics::render`]) or for programs ([`Diagnostics::to_json`]).
//!
//! - **I1** At most [`PROBLEMS_MAX`] problems are kept; the rest are counted.
//! - **I2** Text from the file is shown with control characters escaped.

mod render;
mod suggest;

use super::source::{Source, Span};
pub(crate) use render::shown;
use std::fmt;
pub(crate) use suggest::{all_of, closest, one_of, plain};

/// Most problems kept for one file. Arbitrary: nobody reads more.
pub const PROBLEMS_MAX: usize = 100;

/// A problem of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// A short name for the kind of mistake, stable across releases.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The part of the file that is wrong.
    pub span: Span,
    /// Other parts of the file that belong to the problem, each with a label.
    pub related: Vec<(Span, String)>,
    /// How to fix it, if that is known.
    pub hint: Option<String>,
    /// The place in another file, if the cause is there.
    pub excerpt: Option<Excerpt>,
    /// The places in the files between that one and this: each names the one before it.
    pub through: Vec<Excerpt>,
}

/// A place in a file that belongs to a workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    /// The file, as messages name it.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The part of it.
    pub span: Span,
    /// Other parts of it that belong to the problem, each with a label.
    pub related: Vec<(Span, String)>,
}

impl Excerpt {
    /// The word at a line and a column of a file, both from 1; columns count characters.
    #[must_use]
    pub fn at(file: &str, text: &str, line: usize, column: usize) -> Self {
        let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let rest = text[start..].lines().next().unwrap_or("");
        let within = rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at);
        let end = within + word_len(&rest[within..]);
        let span = Span::new(start + within..start + end);
        Self { file: file.to_owned(), text: text.to_owned(), span, related: Vec::new() }
    }
}

/// Bytes of the word at the start of a text, or of its first character.
pub(crate) fn word_len(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    match text.find(|c| !is_word(c)) {
        Some(0) => text.chars().next().map_or(0, char::len_utf8),
        Some(end) => end,
        None => text.len(),
    }
}

impl Diagnostic {
    /// Makes a problem without a hint.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        let message = message.into();
        Self { code, message, span, related: Vec::new(), hint: None, excerpt: None, through: Vec::new() }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint, if there is one.
    #[must_use]
    pub fn hint_maybe(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Sets the place in another file, where the cause is.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = Some(excerpt);
        self
    }

    /// What the part of the file should hold instead, if the hint suggests one word for another.
    #[must_use]
    pub fn replacement(&self, source: &Source) -> Option<&str> {
        let is_word =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let meant = self.hint.as_deref()?.strip_prefix("did you mean `")?.strip_suffix("`?")?;
        (is_word(meant) && is_word(source.slice(self.span))).then_some(meant)
    }

    /// Adds another part of the file that belongs to the problem.
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
    /// Starts with no problems.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, problems: Vec::new(), dropped: 0 }
    }

    /// The file that the problems are in.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Adds a problem, unless the same one is there already: an alias repeats the problems of its
    /// value.
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

    /// Returns whether further problems are only counted. An expensive search for a hint is then
    /// pointless.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.problems.len() == PROBLEMS_MAX
    }

    /// Returns whether there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems were added, including those not kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len() + self.dropped
    }

    /// The problems that were kept, in file order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        let mut sorted: Vec<_> = self.problems.iter().collect();
        sorted.sort_by_key(|problem| problem.span);
        sorted.into_iter()
    }

    /// The problems that were kept, and how many others there are.
    pub(crate) fn into_kept(self) -> (Vec<Diagnostic>, usize) {
        let sorted = self.iter().cloned().collect();
        (sorted, self.dropped)
    }

    /// Counts problems that are not kept.
    pub(crate) fn count_dropped(&mut self, dropped: usize) {
        self.dropped += dropped;
    }

    /// Writes the problems for people.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        render::render(self, colours)
    }

    /// Writes the problems for people, each with an empty line after it, without a line that counts
    /// them.
    #[must_use]
    pub fn render_each(&self, colours: bool) -> String {
        render::render_each(self, colours)
    }

    /// Writes the problems for programs: a JSON object with `file`, `count`, and `problems`:
    /// `code`, `message`, `hint` or null, `at` (`file`, `line`, `column`, `end-line`, `end-column`,
    /// all from 1, `start-byte`, `end-byte`), `cause`, a place in another file, `through`, the
    /// places of the files between, and `related`, if there is any.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        render::to_json(self)
    }

    /// Turns problems into an error.
    ///
    /// # Errors
    /// Returns itself if there are problems.
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
