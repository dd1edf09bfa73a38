//! Text with `${ expression }` in it.
//!
//! A scalar that is one expression as a whole keeps the JSON type of its result. An expression within other text is
//! interpolated: a string as it is, anything else as JSON. `$${` stands for a literal `${`.

use super::{EvalProblem, Expression, Jq, Scope};
use serde_json::Value;

/// An expression and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The expression.
    pub expression: Expression,
    /// Where its text begins in the scalar, in bytes. Spans of its errors and references count from there.
    pub offset: usize,
}

/// A scalar that is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong.
    pub message: String,
    /// Where in the scalar, in bytes.
    pub offset: usize,
}

/// A template of a JSON tree that has an error.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{pointer}: {error}")]
pub struct ValueTemplateError {
    /// The JSON Pointer (RFC 6901) of the string.
    pub pointer: String,
    /// What is wrong with it.
    pub error: TemplateError,
}

/// Why a template could not be filled in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem}")]
pub struct TemplateProblem {
    /// The JSON Pointer (RFC 6901) of the string, empty for a single scalar.
    pub pointer: String,
    /// Where the expression begins in that string, in bytes.
    pub offset: usize,
    /// What went wrong.
    pub problem: EvalProblem,
}

/// A scalar, parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Expression(Placed),
}

impl Template {
    /// Finds the expressions in a scalar.
    ///
    /// # Errors
    /// A `${` without its `}`, or with nothing between them.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        todo!("{text}")
    }

    /// Its expressions, in order. A scalar without any is plain text.
    pub fn expressions(&self) -> impl Iterator<Item = &Placed> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Expression(placed) => Some(placed),
        })
    }

    /// Fills it in. Each expression must have exactly one output.
    ///
    /// # Errors
    /// The first expression that cannot be evaluated.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>) -> Result<Value, TemplateProblem> {
        let _ = (jq, scope);
        todo!()
    }
}

/// A JSON tree whose strings are templates. Keys are not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueTemplate {
    value: Value,
}

impl ValueTemplate {
    /// Finds the expressions in all strings of a tree.
    ///
    /// # Errors
    /// All strings that are not templates.
    pub fn parse(value: &Value) -> Result<Self, Vec<ValueTemplateError>> {
        todo!("{value}")
    }

    /// Its expressions, each with the JSON Pointer of its string, in order.
    pub fn expressions(&self) -> impl Iterator<Item = (&str, &Placed)> {
        let _ = &self.value;
        std::iter::empty()
    }

    /// Fills it in.
    ///
    /// # Errors
    /// The first expression that cannot be evaluated.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>) -> Result<Value, TemplateProblem> {
        let _ = (jq, scope);
        todo!()
    }
}
