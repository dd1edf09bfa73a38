//! Plain paths and literals, evaluated without the sandbox, with jq's results and jq's messages.
//!
//! The syntax tree decides which expressions these are. A path is `.` followed by constant keys and
//! integer indices, each perhaps with a `?`.

use super::context::{Node, Scope};
use super::number::canonical;
use super::syntax::{Id, Term, Tree};
use super::{EvalProblem, Meter, OUTPUT_DEPTH_MAX, Size, depth};
use serde_json::{Map, Value};

/// An expression that needs no sandbox.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Native {
    /// A literal.
    Literal(Value),
    /// A path.
    Path(Vec<Segment>),
}

/// A segment of a path.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Segment {
    at: Index,
    /// Whether a `?` follows: an error then gives no output.
    optional: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Index {
    Key(String),
    Number(i32),
}

impl Native {
    /// The native form of an expression, if it has one.
    pub(super) fn of(tree: &Tree) -> Option<Self> {
        match tree.term(tree.root()) {
            Term::Number(text) => canonical(text).map(Value::Number).map(Self::Literal),
            Term::Text(text) => Some(Self::Literal(Value::String(text.clone()))),
            Term::Constant("true") => Some(Self::Literal(Value::Bool(true))),
            Term::Constant("false") => Some(Self::Literal(Value::Bool(false))),
            Term::Constant(_) => Some(Self::Literal(Value::Null)),
            _ => Self::path(tree, tree.root()),
        }
    }

    fn path(tree: &Tree, mut id: Id) -> Option<Self> {
        let mut steps = Vec::new();
        loop {
            let (on, at, optional) = match tree.term(id) {
                Term::Identity => break,
                Term::Key { on, key, optional } => (on, Index::Key(key.clone()), optional),
                Term::At { on, index, optional } => (on, Index::Number(integer(tree, *index)?), optional),
                _ => return None,
            };
            steps.push(Segment { at, optional: *optional });
            id = *on;
        }
        steps.reverse();
        Some(Self::Path(steps))
    }

    /// Its outputs: one, or none after a `?`. `None` if it needs the sandbox after all, for a
    /// number whose notation in jq is not known here.
    pub(super) fn evaluate(&self, scope: &Scope<'_>, meter: &Meter) -> Option<Result<Vec<Value>, EvalProblem>> {
        match self {
            Self::Literal(value) => Some(meter.take(Size::of(value)).map(|()| vec![value.clone()])),
            Self::Path(steps) => {
                let mut at = Some(Node::of(scope));
                for step in steps {
                    at = match step.apply(at) {
                        Ok(next) => next,
                        Err(_) if step.optional => return Some(Ok(Vec::new())),
                        Err(problem) => return Some(Err(problem)),
                    };
                }
                match at {
                    None => Some(Ok(vec![Value::Null])),
                    Some(node) => {
                        if let Err(problem) = meter.take(Size::of_node(node)) {
                            return Some(Err(problem));
                        }
                        let value = copy_node(node)?;
                        Some(depth::check_output(depth::of_value(&value, OUTPUT_DEPTH_MAX)).map(|()| vec![value]))
                    }
                }
            }
        }
    }
}

/// A number in plain digits, within the range in which jq's index is exact. Not `-0`, which jq
/// writes with its sign.
fn integer(tree: &Tree, id: Id) -> Option<i32> {
    let (text, sign) = match tree.term(id) {
        Term::Number(text) => (text, 1),
        Term::Negate(body) => match tree.term(*body) {
            Term::Number(text) => (text, -1),
            _ => return None,
        },
        _ => return None,
    };
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let value: i32 = text.parse().ok().filter(|_| plain)?;
    (value != 0 || sign > 0).then_some(value * sign)
}

impl Segment {
    /// The value at this segment of another one. `None` is null on both sides: a value that is
    /// absent.
    fn apply<'s, 'a>(&self, node: Option<Node<'s, 'a>>) -> Result<Option<Node<'s, 'a>>, EvalProblem> {
        let Some(node) = node else { return Ok(None) };
        match (node, &self.at) {
            (Node::Value(Value::Null), _) => Ok(None),
            (Node::Parts(_) | Node::Value(Value::Object(_)), Index::Key(key)) => Ok(node.get(key)),
            (Node::Value(Value::Array(items)), Index::Number(index)) => {
                // A negative index counts from the end, and is never -2^31.
                let index = match usize::try_from(*index) {
                    Ok(index) => Some(index),
                    Err(_) => items.len().checked_sub(index.unsigned_abs() as usize),
                };
                Ok(index.and_then(|index| items.get(index)).map(Node::Value))
            }
            _ => Err(EvalProblem::Failed(match &self.at {
                Index::Key(key) => format!("Cannot index {} with string ({})", kind_name(node), quoted(key)),
                Index::Number(index) => format!("Cannot index {} with number ({index})", kind_name(node)),
            })),
        }
    }
}

fn kind_name(node: Node<'_, '_>) -> &'static str {
    match node {
        Node::Parts(_) | Node::Value(Value::Object(_)) => "object",
        Node::Value(Value::Array(_)) => "array",
        Node::Value(Value::String(_)) => "string",
        Node::Value(Value::Number(_)) => "number",
        Node::Value(Value::Bool(_)) => "boolean",
        Node::Value(Value::Null) => "null",
    }
}

/// A key as jq quotes it in messages: as JSON, in 29 bytes at most (`jv_dump_string_trunc` with a
/// buffer of 30).
fn quoted(key: &str) -> String {
    const BUFFER: usize = 30;
    let mut text = String::with_capacity(BUFFER);
    text.push('"');
    for c in key.chars().take(if key.len() > BUFFER { BUFFER } else { key.len() }) {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => text.extend(format!("\\u{:04x}", c as u32).chars()),
            _ => text.push(c),
        }
    }
    text.push('"');
    if text.len() > BUFFER - 1 {
        text.truncate(text.floor_char_boundary(BUFFER - 5));
        text.push_str("...\"");
    }
    text
}

/// A value as jq returns it: numbers in jq's own notation.
fn copy_node(node: Node<'_, '_>) -> Option<Value> {
    match node {
        Node::Value(value) => copy(value),
        Node::Parts(parts) => {
            let entries = parts.iter().map(|(key, part)| Some((key.to_string(), copy_node(Node::of(part))?)));
            Some(Value::Object(entries.collect::<Option<Map<_, _>>>()?))
        }
    }
}

fn copy(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Number(number) => Value::Number(canonical(number.as_str())?),
        Value::Array(items) => Value::Array(items.iter().map(copy).collect::<Option<_>>()?),
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| Some((key.clone(), copy(value)?))).collect::<Option<_>>()?)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    })
}
