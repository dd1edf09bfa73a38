//! Expressions: jq 1.8.2 itself, in the sandbox.
//!
//! An expression of a workflow file is a jq filter. A native jq engine can neither be interrupted
//! nor survive its own stack overflow, so the original C program is compiled into a component
//! without imports (`guests/jq`), and runs with fuel and memory limits like any guest. An
//! expression can neither hang the host nor see its clock, environment or files.
//!
//! # Protocol
//! 1. [`TextTemplate::parse`] (one scalar) or [`ValueTemplate::parse`] (a JSON tree) finds
//!    the expressions in text; [`Expression::new`] takes a bare expression. None of them needs the
//!    engine, and none decides validity.
//! 2. [`Jq::check`] asks jq whether the expression compiles. Every error has a byte span in the
//!    expression's text; a [`Placed`] expression has its offset in the scalar, and the reader of
//!    the file has the scalar's.
//! 3. [`Expression::references`] are the paths of its context that it reads (`["steps", "download",
//!    "output"]`). They determine the dependencies between steps, and what is sent to the sandbox.
//! 4. [`Jq::evaluate`] (all outputs), [`Jq::evaluate_one`] (exactly one) and [`Jq::test`] (its
//!    truth) evaluate on a [`Scope`], a tree that borrows its values. [`TextTemplate::evaluate`]
//!    and [`ValueTemplate::evaluate`] fill in a template. A [`Meter`] counts and bounds what the
//!    expressions of one value use together.
//!
//! [`Jq`] is `Send + Sync` and synchronous. A call holds its thread for microseconds to
//! milliseconds, never longer than its fuel allows: a hostile one about 7 ms on a small input, a
//! second on a large one.
//!
//! # Invariants
//! - **I1** jq alone decides which expressions are valid. The host's parser only finds what is
//!   read, and where an expression ends.
//! - **I2** The result of an evaluation depends on the expression and its input only, never on what
//!   an instance did before. An instance that trapped is dropped; a limit that a warm instance hits
//!   is confirmed on a fresh one. (The fuel that a call uses varies slightly with the history, so
//!   an outcome at the very edge of the budget belongs in the journal.)
//! - **I3** References over-approximate: evaluating on the referenced subtrees alone gives the same
//!   as evaluating on everything, error texts included.
//! - **I4** What is evaluated natively (plain paths and literals, by the syntax tree) is valid for
//!   jq, and gives exactly what jq gives, to the byte, error texts included.
//! - **I5** Numbers keep their digits from the input to the output, unless the expression computes
//!   with them.
//!
//! The texts of [`EvalProblem`] are data: a run's records contain them.
//!
//! The room does not cache results, does not know steps or plans, and does not read files.

mod config;
mod context;
mod depth;
mod engine;
mod instance;
mod meter;
mod native;
mod number;
mod problem;
mod references;
mod scan;
mod size;
mod syntax;
mod text_template;
mod value_template;

pub use config::EngineConfig;
pub use context::Scope;
pub use engine::{CompiledCode, Filter, Jq};
pub use meter::Meter;
pub use problem::{CompileError, EngineError, EvalProblem, TOO_EXPENSIVE};
pub use references::{Reference, References};
pub use size::Size;
pub use text_template::{Placed, TemplateError, TemplateProblem, TextTemplate};
pub use value_template::{ValueTemplate, ValueTemplateError};

use native::Native;
use std::fmt;
use std::sync::Arc;
use syntax::Tree;

/// The longest text of an expression, in bytes. Arbitrary: far above what a person writes.
pub const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Most levels of the JSON that an expression is given: an output, and some objects around it.
pub const INPUT_DEPTH_MAX: usize = OUTPUT_DEPTH_MAX + 33;

/// Most levels of an output: as many as of the output of a guest.
pub const OUTPUT_DEPTH_MAX: usize = crate::process::GIVEN_DEPTH_MAX;

/// A jq expression: its text, and the findings of the host's parser. Cloning it is cheap.
#[derive(Clone)]
pub struct Expression {
    parsed: Arc<Parsed>,
}

struct Parsed {
    text: Arc<str>,
    references: References,
    native: Option<Native>,
}

impl Expression {
    /// Makes an expression from its text, without `${ }`. Any text is accepted; [`Jq::check`]
    /// decides whether it is valid.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let (references, native) = match Tree::parse(text) {
            Ok(tree) => (references::infer(&tree), Native::of(&tree)),
            Err(error) => (References::NotInferable { message: error.message, span: error.span }, None),
        };
        Self { parsed: Arc::new(Parsed { text: text.into(), references, native }) }
    }

    /// The text of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.parsed.text
    }

    /// Returns whether it is a plain path or a literal, which needs no sandbox.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.parsed.native.is_some()
    }

    /// The keys that it reads of the items of a list: of `.calls[0].args.url` and `calls`, `args`,
    /// with the bytes that name it. Only what is written so is found.
    pub(crate) fn keys_of_items(&self, list: &str) -> Vec<(String, std::ops::Range<usize>)> {
        Tree::parse(self.text()).map_or_else(|_| Vec::new(), |tree| references::keys_of_items(&tree, list))
    }

    /// The parts of its context that it reads.
    #[must_use]
    pub fn references(&self) -> &References {
        &self.parsed.references
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.text())
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Expression {}
