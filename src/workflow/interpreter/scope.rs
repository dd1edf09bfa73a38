//! The context of a node's expressions.

use super::blocks::{AfterBlock, ROOT};
use super::state::NodeState;
use super::undo::Seen;
use super::{Interpreter, ItemKey, VALUE_SIZE_MAX};
use crate::process::problem::kind;
use crate::process::{JSON_DEPTH_MAX, Json, Payload, Problem};
use crate::workflow::expression::{Meter, Scope, Size, TemplateProblem};
use crate::workflow::plan::{Block, Secret, Template};
use serde_json::{Value, json};
use std::sync::Arc;

impl Interpreter {
    /// Evaluates a template of a node, for an item if it is evaluated for each.
    pub(super) fn evaluate(
        &self,
        node: usize,
        item: Option<usize>,
        template: &Template,
        key: &str,
    ) -> Result<Value, Problem> {
        let scope = self.scope(node, item);
        let meter = Meter::within(VALUE_SIZE_MAX);
        let value = template.evaluate(&self.jq, &scope, &meter);
        self.budget.count(&meter);
        value.map_err(|problem| located(problem, &self.node(node).pointer, key))
    }

    fn scope(&self, node: usize, item: Option<usize>) -> Scope<'_> {
        let mut steps: Vec<usize> = self.needs(node).collect();
        let mut given = self.given_outside(node, &mut steps);
        let error = self.error_for(node);
        if !error.is_null() {
            given.error = error;
        }
        if item.is_some() {
            given.secrets = &self.node(node).secrets;
        }
        if let Some(item) = item.and_then(|item| self.item_value((node, item))) {
            given.item = Some(item);
        }
        if let Some(turn) = item.and_then(|item| self.last_turn((node, item))) {
            given.turn = Some(turn);
        }
        self.scope_of(steps, given)
    }

    fn scope_of<'a>(&'a self, steps: Vec<usize>, given: Given<'a>) -> Scope<'a> {
        let mut parts = vec![
            ("inputs", Scope::Borrowed(given.inputs)),
            ("steps", self.steps(steps.into_iter(), given.seen)),
            ("run", Scope::Borrowed(given.run)),
            ("error", Scope::Borrowed(given.error)),
        ];
        if let Some(seen) = given.seen {
            parts.push(("output", Scope::Borrowed(&seen.output)));
        }
        if let Some((item, index)) = given.item {
            parts.push(("item", Scope::Borrowed(item)));
            parts.push(("index", Scope::Owned(json!(index))));
        }
        if let Some((last, turn)) = given.turn {
            parts.push(("last", Scope::Borrowed(last)));
            parts.push(("turn", Scope::Owned(json!(turn))));
        }
        if !given.secrets.is_empty() {
            parts.push(("secrets", self.placeholders(given.secrets)));
        }
        Scope::object(parts)
    }

    /// What a node sees of the items that it is within, as far as they are of the same workflow.
    /// The steps that those depend on are added.
    pub(super) fn given_outside(&self, node: usize, steps: &mut Vec<usize>) -> Given<'_> {
        let mut given = self.given();
        let mut at = node;
        while let Some(outer) = self.outer(at) {
            if let Some(child) = &self.block(at).child {
                (given.inputs, given.run) = (&child.inputs, &child.run);
                break;
            }
            at = outer.0;
            steps.extend(self.needs(at));
            given.item = given.item.or_else(|| self.item_value(outer));
            given.turn = given.turn.or_else(|| self.last_turn(outer));
            if given.error.is_null() {
                given.error = self.error_for(at);
            }
        }
        match &self.block(at).after {
            Some(AfterBlock::On(_)) => steps.extend(self.nodes_in(ROOT)),
            Some(AfterBlock::Undo(_, seen)) => {
                given.seen = Some(seen);
                given.item = given.item.or_else(|| seen.item.as_ref().map(|(item, index)| (item, *index)));
                given.turn = given.turn.or_else(|| seen.turn.as_ref().map(|(last, turn)| (last, *turn)));
                if given.error.is_null() {
                    given.error = &seen.error;
                }
                if let Some((inputs, run)) = &seen.child {
                    (given.inputs, given.run) = (inputs, run);
                }
            }
            None => {}
        }
        given
    }

    /// What every node sees.
    fn given(&self) -> Given<'_> {
        Given {
            inputs: &self.inputs,
            run: &self.run,
            item: None,
            turn: None,
            error: &Value::Null,
            seen: None,
            secrets: &[],
        }
    }

    /// The value and the number of an item, if its node has a list of them.
    pub(super) fn item_value(&self, (node, item): ItemKey) -> Option<(&Value, usize)> {
        let items = self.nodes[node].running.as_ref()?.items.as_ref()?;
        Some((&items[item], item))
    }

    /// The result of an item's last turn and the number of this one, if its node is repeated.
    fn last_turn(&self, (node, item): ItemKey) -> Option<(&Value, u32)> {
        self.node(node).repeat.as_ref()?;
        let last = self.nodes[node].running.as_ref()?.results.get(item)?;
        Some((last, self.turn_of((node, item))))
    }

    fn steps<'a>(&'a self, indexes: impl Iterator<Item = usize>, seen: Option<&'a Seen>) -> Scope<'a> {
        let own = indexes.map(|index| (&*self.node(index).id, step(&self.nodes[index])));
        let seen = seen.into_iter().flat_map(|seen| &seen.steps);
        Scope::object(own.chain(seen.map(|(id, value)| (id.as_str(), Scope::Borrowed(value)))))
    }

    /// The failure that a node reacts to: that of the first dependency, in file order, that failed
    /// or was not reached.
    pub(super) fn error_for(&self, node: usize) -> &Value {
        let failed = self.needs(node).map(|need| match self.nodes[need].cause {
            Some(cause) => &self.nodes[cause].error,
            None => &self.nodes[need].error,
        });
        failed.into_iter().find(|error| !error.is_null()).unwrap_or(&Value::Null)
    }

    /// Evaluates the outputs of the run, which see every step.
    pub(super) fn outputs(&self) -> Result<Value, Problem> {
        let scope = Scope::object([
            ("inputs", Scope::Borrowed(&self.inputs)),
            ("steps", self.steps(self.nodes_in(ROOT), None)),
            ("run", Scope::Borrowed(&self.run)),
        ]);
        self.output_values(&self.plan.outputs, &scope, "/outputs")
    }

    /// Evaluates the outputs of the steps within an item, which see all of them, and what the item
    /// sees.
    pub(super) fn outputs_of(&self, place: usize, block: &Block) -> Result<Value, Problem> {
        if block.outputs.is_empty() {
            return Ok(json!({}));
        }
        let range = self.nodes_in(place);
        let mut steps: Vec<usize> = range.clone().collect();
        let given = match range.clone().next() {
            Some(first) => self.given_outside(first, &mut steps),
            None => self.given(),
        };
        let scope = self.scope_of(steps, given);
        self.output_values(&block.outputs, &scope, &format!("{}/outputs", block.pointer))
    }

    fn output_values(
        &self,
        outputs: &[(String, Template)],
        scope: &Scope<'_>,
        pointer: &str,
    ) -> Result<Value, Problem> {
        let meter = Meter::within(VALUE_SIZE_MAX);
        let evaluate = |(name, template): &(String, Template)| {
            let value = template.evaluate(&self.jq, scope, &meter);
            let value = value.map_err(|problem| located(problem, pointer, name))?;
            Ok((name.clone(), value))
        };
        let values = outputs.iter().map(evaluate).collect::<Result<_, _>>().map(Value::Object);
        self.budget.count(&meter);
        values
    }

    /// Evaluates the input of an item, as a payload within the limit.
    pub(super) fn input(&self, (node, item): ItemKey, with: &Template, limit: u64) -> Result<Payload, Problem> {
        payload(&self.evaluate(node, Some(item), with, "with")?, limit)
    }
}

/// What the steps within an item see of it.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) inputs: &'a Value,
    pub(super) run: &'a Value,
    pub(super) item: Option<(&'a Value, usize)>,
    /// The result of the last turn, and the number of this one.
    pub(super) turn: Option<(&'a Value, u32)>,
    pub(super) error: &'a Value,
    /// What was recorded of a success that is undone.
    seen: Option<&'a Seen>,
    /// The secrets that the step lists.
    secrets: &'a [Arc<Secret>],
}

/// A step as expressions see it, for later.
pub(super) fn step_value(state: &NodeState) -> Value {
    json!({
        "output": state.output,
        "status": state.status.name(),
        "error": state.error,
        "attempts": state.attempts,
    })
}

fn step(state: &NodeState) -> Scope<'_> {
    Scope::object([
        ("output", Scope::Borrowed(&state.output)),
        ("status", Scope::Owned(json!(state.status.name()))),
        ("error", Scope::Borrowed(&state.error)),
        ("attempts", Scope::Owned(json!(state.attempts))),
    ])
}

/// The problem of an expression with its position in the file: a pointer to the string, and the
/// offset of the expression in it.
fn located(problem: TemplateProblem, pointer: &str, key: &str) -> Problem {
    let place = format!("{pointer}/{key}{}", problem.pointer);
    let data = json!({"pointer": place, "offset": problem.offset});
    Problem::from(problem.problem).with_data(&data)
}

/// Turns a value into a payload. Values that expressions build can be larger, and deeper, than a
/// payload may be.
pub(super) fn payload(value: &Value, limit: u64) -> Result<Payload, Problem> {
    let text = serde_json::to_vec(value).expect("invariant: JSON values have string keys");
    if text.len() as u64 > limit {
        let detail = format!("{} bytes are more than the {limit} that a payload may have", text.len());
        return Err(Problem::new(kind::TOO_LARGE, "A value is too large").with_detail(detail));
    }
    // The text is well-formed: only its depth can be wrong.
    let json = Json::parse(text).map_err(|error| {
        Problem::new(kind::JSON_TOO_DEEP, "A value nests too deep to be handed on")
            .with_detail(format!("{error}; at most {JSON_DEPTH_MAX} arrays and objects nest"))
    })?;
    Ok(Payload::Json(json))
}

/// The value of a payload in expressions: bytes are base64 text.
pub(super) fn value(payload: &Payload) -> Value {
    payload.to_value()
}

/// The size of [`value`].
pub(super) fn size_of(payload: &Payload) -> Size {
    match payload {
        Payload::Json(json) => Size::of_text(json.as_str()),
        Payload::Bytes(bytes) => Size { bytes: 2 + bytes.len().div_ceil(3) * 4, values: 1 },
        Payload::Blob(_) | Payload::Recalled(_) => Size::of(&value(payload)),
    }
}
