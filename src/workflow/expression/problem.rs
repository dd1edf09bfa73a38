//! The problems of expressions, at compile time and at evaluation.
//!
//! The texts of [`EvalProblem`] are data: they are in the records of runs, and a replay compares
//! them.

use crate::process::problem::kind;
use crate::process::{Problem, ProblemClass};
use std::ops::Range;

/// Why an expression does not compile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// jq's own message, or ours if jq's would name its internals. One line.
    pub message: String,
    /// The bytes in the text of the expression. Never beyond its end; may be empty.
    pub span: Range<usize>,
}

/// The kind of problem for an expression that used up its fuel.
pub const TOO_EXPENSIVE: &str = "expression-too-expensive";

/// Why an evaluation has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalProblem {
    /// The expression raised an error: jq's own text.
    #[error("{0}")]
    Failed(String),
    /// The expression used all of its fuel.
    #[error("the expression used {fuel} units of fuel, all that it may for an input of {input_bytes} bytes")]
    TooExpensive {
        /// The budget, in units of fuel.
        fuel: u64,
        /// The size of the input, in bytes.
        input_bytes: usize,
    },
    /// The expressions of one value used all of their common fuel.
    #[error("the expressions of this value used {fuel} units of fuel together, all that they may")]
    TooExpensiveTogether {
        /// The budget, in units of fuel.
        fuel: u64,
    },
    /// The expression needs more memory than it may use, or nests deeper than its stack.
    #[error("the expression needs more than {memory_bytes} bytes of memory, or nests too deep")]
    TooLarge {
        /// The limit of its memory, in bytes.
        memory_bytes: usize,
    },
    /// The value that expressions build is larger than its use allows.
    #[error("the value has more than {bytes} bytes of JSON, or more than {values} values in it")]
    ValueTooLarge {
        /// The limit of its text, in bytes.
        bytes: usize,
        /// The limit of the values in it.
        values: usize,
    },
    /// jq itself ended abnormally, without a reason.
    #[error("the expression made jq end abnormally: {0}")]
    Crashed(String),
    /// The expression gave more outputs, or more bytes of output, than allowed.
    #[error("the expression gave more than {outputs} outputs or {bytes} bytes of output")]
    OutputLimit {
        /// The limit of the number of outputs.
        outputs: u32,
        /// The limit of their sizes in all, in bytes.
        bytes: u32,
    },
    /// The expression gave no value or several where exactly one is needed.
    #[error("the expression gave {count} values where one is wanted: {}", hint_of_count(*.count))]
    NotOneOutput {
        /// The number of values that it gave.
        count: usize,
    },
    /// The expression does not compile. [`Jq::check`](super::Jq::check) reports that before
    /// anything runs.
    #[error("the expression is not valid: {0}")]
    Invalid(CompileError),
    /// The input is not JSON, or nests too deeply.
    #[error("the input of the expression is not usable: {0}")]
    BadInput(String),
    /// A failure of the host.
    #[error("the expression engine failed: {0}")]
    Host(String),
}

fn hint_of_count(count: usize) -> &'static str {
    if count == 0 { "`first(…) // null` gives null instead" } else { "`[…]` makes a list of them" }
}

impl EvalProblem {
    /// Its kind of problem, as users see it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Failed(_) => "expression-failed",
            Self::TooExpensive { .. } | Self::TooExpensiveTogether { .. } => TOO_EXPENSIVE,
            Self::TooLarge { .. } => "expression-too-large",
            Self::Crashed(_) => "expression-crashed",
            Self::OutputLimit { .. } => "expression-output-limit",
            Self::NotOneOutput { .. } => "expression-not-one-output",
            Self::Invalid(_) => "expression-invalid",
            Self::ValueTooLarge { .. } => kind::TOO_LARGE,
            Self::BadInput(_) => kind::BAD_JSON,
            Self::Host(_) => kind::HOST_FAULT,
        }
    }
}

impl From<EvalProblem> for Problem {
    fn from(problem: EvalProblem) -> Self {
        let class = match problem {
            EvalProblem::Host(_) => ProblemClass::Retryable,
            _ => ProblemClass::Definite,
        };
        let title = match problem {
            EvalProblem::ValueTooLarge { .. } => "A value is too large",
            _ => "An expression could not be evaluated",
        };
        Problem::new(problem.kind(), title).with_detail(problem.to_string()).with_class(class)
    }
}

/// Why the engine cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot make the expression engine: {0}")]
pub struct EngineError(pub(super) String);
