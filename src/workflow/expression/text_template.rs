//! Text that contains `${ expression }`.
//!
//! A scalar that is one expression as a whole keeps the JSON type of its result. An expression
//! within other text is interpolated: a string literally, anything else as JSON. `$${` stands for a
//! literal `${`.

use super::scan::expression_length;
use super::{EvalProblem, Expression, Jq, Meter, Scope, Size};
use serde_json::Value;

/// An expression and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The expression, without its braces.
    pub expression: Expression,
    /// Where its text begins in the scalar, in bytes. The spans of its errors and references count
    /// from there.
    pub offset: usize,
}

/// Why a scalar is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong, in one line.
    pub message: String,
    /// Where in the scalar, in bytes.
    pub offset: usize,
}

/// Why a template cannot be evaluated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem}")]
pub struct TemplateProblem {
    /// The JSON Pointer (RFC 6901) of the string, empty for a single scalar.
    pub pointer: String,
    /// Where the expression begins in that string, in bytes.
    pub offset: usize,
    /// The problem of the expression.
    pub problem: EvalProblem,
}

/// A parsed scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextTemplate {
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Text(String),
    Expression(Placed),
}

impl TextTemplate {
    /// Parses a scalar.
    ///
    /// # Errors
    /// Fails if a `${` has no `}`, or nothing before it.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let start = at + found;
            if text[at..start].ends_with('$') {
                // `$${` is the text `${`.
                literal.push_str(&text[at..start]);
                literal.push('{');
                at = start + 2;
                continue;
            }
            literal.push_str(&text[at..start]);
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            let (placed, after) = expression(text, start)?;
            parts.push(Part::Expression(placed));
            at = after;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// Its expressions, in order. A scalar without expressions is plain text.
    pub fn expressions(&self) -> impl Iterator<Item = &Placed> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Expression(placed) => Some(placed),
        })
    }

    /// Evaluates it. Each expression must have exactly one output.
    ///
    /// # Errors
    /// Fails at the first expression that cannot be evaluated.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>) -> Result<Value, TemplateProblem> {
        self.evaluate_metered(jq, scope, &Meter::default())
    }

    /// Like [`evaluate`](Self::evaluate), counted and bounded together with other evaluations.
    ///
    /// # Errors
    /// Fails at the first expression that cannot be evaluated.
    pub fn evaluate_metered(&self, jq: &Jq, scope: &Scope<'_>, meter: &Meter) -> Result<Value, TemplateProblem> {
        let value_of = |placed: &Placed| {
            jq.evaluate_one_metered(&placed.expression, scope, meter).map_err(|problem| TemplateProblem {
                pointer: String::new(),
                offset: placed.offset,
                problem,
            })
        };
        if let [Part::Expression(placed)] = self.parts.as_slice() {
            return value_of(placed);
        }
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => {
                    let problem = |problem| TemplateProblem { pointer: String::new(), offset: 0, problem };
                    meter.take(Size::bytes(literal.len())).map_err(problem)?;
                    text.push_str(literal);
                }
                Part::Expression(placed) => match value_of(placed)? {
                    Value::String(value) => text.push_str(&value),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(Value::String(text))
    }
}

/// The expression whose `${` is at `start`, and the offset after its `}`.
fn expression(text: &str, start: usize) -> Result<(Placed, usize), TemplateError> {
    let begin = start + 2;
    let length = expression_length(&text[begin..]).map_err(|missing| {
        let message = match missing {
            '}' => "the expression that begins here has no closing `}`".to_owned(),
            '"' => "a string in the expression that begins here has no closing `\"`".to_owned(),
            bracket => format!("a bracket in the expression that begins here has no closing `{bracket}`"),
        };
        TemplateError { message, offset: start }
    })?;
    let raw = &text[begin..begin + length];
    let trimmed = raw.trim_matches([' ', '\t', '\r', '\n']);
    if trimmed.is_empty() {
        return Err(TemplateError { message: "there is no expression between `${` and `}`".into(), offset: start });
    }
    // A comment ends with its line, so trailing white space may belong to it: only the offset
    // matters here.
    let offset = begin + (raw.len() - raw.trim_start_matches([' ', '\t', '\r', '\n']).len());
    Ok((Placed { expression: Expression::new(trimmed), offset }, begin + length + 1))
}
