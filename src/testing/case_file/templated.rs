//! Values of a case file whose strings may hold expressions.

use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::{Jq, Placed, Scope, TemplateProblem, ValueTemplate};
use crate::workflow::syntax::{Content, Node, ScalarOffsets, Source, Span, Style};
use serde_json::Value;
use std::ops::Range;

/// A value that may hold expressions, and where it is.
#[derive(Clone, Debug)]
pub struct Templated {
    /// The value in the file.
    pub node: Node,
    template: ValueTemplate,
    has_expressions: bool,
}

impl Templated {
    /// Reads a value, and checks its expressions.
    pub(super) fn read(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<Self> {
        let value = match json_of(node) {
            Ok(value) => value,
            Err((span, why)) => {
                problems.push(Diagnostic::new("type", why, span));
                return None;
            }
        };
        let template = match ValueTemplate::parse(&value) {
            Ok(template) => template,
            Err(errors) => {
                for error in errors {
                    let span = within(problems.source(), node, &error.pointer, error.error.offset..usize::MAX);
                    problems.push(Diagnostic::new("expression", error.error.message, span));
                }
                return None;
            }
        };
        let before = problems.count();
        let mut has_expressions = false;
        for (pointer, placed) in template.expressions() {
            has_expressions = true;
            for error in jq.check(&placed.expression).err().into_iter().flatten() {
                let range = placed.offset + error.span.start..placed.offset + error.span.end;
                let span = within(problems.source(), node, pointer, range);
                let hint = dashed(placed.expression.text(), error.span);
                problems.push(Diagnostic::new("expression", error.message, span).hint_maybe(hint));
            }
        }
        (problems.count() == before).then(|| Self { node: node.clone(), template, has_expressions })
    }

    /// Reads a condition: text with an expression.
    pub(super) fn condition(node: &Node, what: &str, jq: &Jq, problems: &mut Diagnostics) -> Option<Self> {
        let example = if what == "where" { ".args.amount > 3" } else { ".outputs.n > 3" };
        let read = Self::read(node, jq, problems)?;
        if read.has_expressions && node.as_scalar().is_some() {
            return Some(read);
        }
        let message = format!("`{what}` must be an expression, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint(format!("write it as \"${{ {example} }}\"")));
        None
    }

    /// Its expressions, each with the pointer to its string and its place in that.
    pub(super) fn expressions(&self) -> impl Iterator<Item = (&str, &Placed)> {
        self.template.expressions()
    }

    /// The place in the file of a part of an expression.
    pub(super) fn part(&self, source: &Source, (pointer, placed): (&str, &Placed), part: Range<usize>) -> Span {
        within(source, &self.node, pointer, placed.offset + part.start..placed.offset + part.end)
    }

    /// Fills in its expressions.
    ///
    /// # Errors
    /// Fails at the first expression that cannot be evaluated.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>) -> Result<Value, TemplateProblem> {
        self.template.evaluate(jq, scope)
    }

    /// Where in the file an expression is that could not be evaluated.
    pub(crate) fn place(&self, pointer: &str) -> Span {
        at(&self.node, pointer).span
    }
}

/// The hint on a name with a dash, which jq takes for a subtraction: `.outputs.the-sum`.
fn dashed(text: &str, part: Range<usize>) -> Option<String> {
    let before = text.get(..part.start)?.strip_suffix('-')?;
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let path = &before[before.trim_end_matches(is_path).len()..];
    let (list, start) = path.rsplit_once('.').filter(|(list, _)| !list.is_empty())?;
    Some(format!("write a name with a dash as {list}[\"{start}-{}\"]", text.get(part)?))
}

/// The value of a node. A block of text that holds an expression ends with it, and not with the
/// line.
pub(super) fn json_of(node: &Node) -> Result<Value, (Span, &'static str)> {
    match &node.content {
        Content::Scalar(scalar) if scalar.style == Style::Block && scalar.text.contains("${") => {
            Ok(Value::String(scalar.text.trim_end().to_owned()))
        }
        Content::Scalar(_) => node.to_json(),
        Content::Sequence(items) => items.iter().map(json_of).collect(),
        Content::Mapping(entries) => {
            entries.iter().map(|entry| Ok((entry.key.clone(), json_of(&entry.value)?))).collect()
        }
    }
}

/// The deepest node on the way of a JSON Pointer.
pub(crate) fn at<'n>(node: &'n Node, pointer: &str) -> &'n Node {
    let mut here = node;
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        let below = match &here.content {
            Content::Mapping(_) => here.get(&key),
            Content::Sequence(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            Content::Scalar(_) => None,
        };
        let Some(below) = below else { break };
        here = below;
    }
    here
}

/// The span of a part of a string.
fn within(source: &Source, node: &Node, pointer: &str, range: Range<usize>) -> Span {
    let node = at(node, pointer);
    let Some(scalar) = node.as_scalar() else { return node.span };
    let places = ScalarOffsets::new(source, node.span, scalar);
    let end = scalar.text.len();
    let (start, end) = (places.at(range.start.min(end)), places.at(range.end.min(end)));
    Span { start, end: end.max(start) }
}
