//! The contents of a case file as types.
//!
//! - **I1** No key of the file is ignored: each one is read or reported.

mod answers;
mod expectation;
mod fit;
#[cfg(feature = "cli")]
pub(crate) mod keys;
mod read;
mod reads;
mod templated;

pub use answers::{Reply, ReplyKind, Rule};
pub(in crate::testing) use answers::{STATUS_MAX, STATUS_MIN};
pub use expectation::{Expectation, ExpectedCall, ExpectedProblem, Takes};
pub use fit::SchemaOf;
pub(crate) use fit::paths;
pub use templated::Templated;

use super::faults::Faults;
use crate::process::{Micros, Timestamp};
use crate::run::EndStatus;
use crate::workflow::model::Spanned;
use crate::workflow::syntax::{Node, Source, Span};
use std::sync::Arc;

/// Most cases of a file. Arbitrary: a person reads less.
pub const CASES_MAX: usize = 1_000;
/// Most entries of a list of a case: answers, signals, calls, lines. Arbitrary.
pub const ENTRIES_MAX: usize = 1_000;
/// The time at which a case begins unless it says otherwise: a Friday, like any other.
pub const CLOCK_DEFAULT: Timestamp = Timestamp(1_798_794_000_000_000);

/// A file of cases.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Its text.
    pub source: Source,
    /// `workflow:`: the file that the cases are for, relative to the folder of this one.
    pub workflow: Option<Spanned<String>>,
    /// `cases:`, in file order.
    pub cases: Vec<Case>,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is called; unique in its file.
    pub name: Spanned<String>,
    /// The inputs of the run, a mapping.
    pub inputs: Option<Node>,
    /// When the run starts.
    pub clock: Timestamp,
    /// The answers to its calls, those of the file after its own.
    pub answers: Vec<Arc<Rule>>,
    /// The signals that it is sent.
    pub signals: Vec<SentSignal>,
    /// When it is cancelled, after its start.
    pub cancel: Option<Spanned<Micros>>,
    /// `faults:`: what it is always executed with.
    pub faults: Faults,
    /// Where that is; `None` if there are none.
    pub faults_span: Option<Span>,
    /// Whether faults may be drawn for it: not if it says `faults: none`.
    pub is_drawn_for: bool,
    /// What is expected of it.
    pub expect: Expectation,
    /// The whole case.
    pub span: Span,
}

/// A signal that a case sends.
#[derive(Clone, Debug)]
pub struct SentSignal {
    /// When, after the start.
    pub at: Micros,
    /// The name that receivers wait for.
    pub name: Spanned<String>,
    /// What it carries.
    pub body: serde_json::Value,
}

/// The statuses that a run can end with.
pub(crate) fn statuses() -> impl Iterator<Item = &'static str> {
    EndStatus::ALL.iter().map(|status| status.name())
}
