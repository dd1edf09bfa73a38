//! The inputs and the outcome of a run, and failures as people and expressions see them.

use super::blocks::ROOT;
use super::state::{Failure, Status};
use super::{Interpreter, RepeatInput, kind};
use crate::process::{Context, Json, Payload, Problem, problem};
use crate::workflow::model::Inputs;
use crate::workflow::plan::Node;
use serde_json::{Map, Value, json};

/// Most nodes that the problem of a failed run names. Arbitrary.
const NAMED_MAX: usize = 100;
/// Most bytes of a problem's extension members that are copied into other values. Arbitrary.
const DATA_BYTES_MAX: usize = 64 << 10;
/// Most levels of a problem's extension members that are copied into other values: half of what
/// JSON may have.
const DATA_DEPTH_MAX: usize = 64;

/// Checks the inputs of a workflow and completes them. `with` is a JSON Pointer to where they come
/// from, if it runs within another one.
pub(super) fn accept_inputs(declared: &Inputs, input: &Payload, with: Option<&str>) -> Result<Value, Problem> {
    let bad = |detail: String| {
        let problem = Problem::new(kind::BAD_INPUT, "The inputs do not fit the workflow").with_detail(detail);
        if let Some(with) = with { problem.with_data(&json!({"pointer": with})) } else { problem }
    };
    let given = match input {
        Payload::Json(json) => match json.to_value() {
            Value::Object(given) => given,
            Value::Null => Map::new(),
            _ => return Err(bad("the inputs are an object".to_owned())),
        },
        _ => return Err(bad("the inputs are JSON".to_owned())),
    };
    declared.accept(given).map(Value::Object).map_err(|violations| {
        let lines: Vec<_> = violations.iter().map(|one| format!("{}: {}", one.pointer, one.message)).collect();
        let list: Vec<_> =
            violations.iter().map(|one| json!({"pointer": one.pointer, "message": one.message})).collect();
        let mut data = json!({"violations": list});
        if let Some(with) = with {
            data["pointer"] = json!(with);
        }
        bad(lines.join("; ")).with_data(&data)
    })
}

/// Reads the input of a run that repeats another.
pub(super) fn accept_repeated(input: &Payload) -> Result<RepeatInput, Problem> {
    let bad =
        |detail: String| Problem::new(kind::BAD_INPUT, "What the run is to repeat cannot be read").with_detail(detail);
    let Payload::Json(json) = input else { return Err(bad("it is JSON".to_owned())) };
    serde_json::from_str(json.as_str()).map_err(|error| bad(error.to_string()))
}

/// A problem as a JSON object.
pub(super) fn problem_value(problem: &Problem) -> Map<String, Value> {
    let mut value = Map::new();
    value.insert("kind".to_owned(), json!(problem.kind));
    value.insert("title".to_owned(), json!(problem.title));
    value.insert("class".to_owned(), json!(problem.class));
    if problem.status != 0 {
        value.insert("status".to_owned(), json!(problem.status));
    }
    if let Some(detail) = &problem.detail {
        value.insert("detail".to_owned(), json!(detail));
    }
    if let Some(data) = &problem.data {
        value.insert("data".to_owned(), data.to_value());
    }
    value
}

/// Extension members of a problem for use within another one. Guests choose them: data that is too
/// large or too deep for other values is left out.
pub(super) fn carried(data: Json) -> Json {
    if data.as_bytes().len() > DATA_BYTES_MAX {
        return Json::from_value(&format!("{} bytes were left out", data.as_bytes().len()));
    }
    if depth(&data.to_value()) > DATA_DEPTH_MAX {
        return Json::from_value(&"left out: it nests too deep");
    }
    data
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A failure as expressions see it: the problem, and the step, item and attempt.
pub(super) fn error_value(node: &Node, failure: &Failure) -> Value {
    let mut value = problem_value(&failure.problem);
    let (step, pointer, item, attempt) = failure.place(&node.id, node);
    value.insert("step".to_owned(), json!(step));
    value.insert("pointer".to_owned(), json!(pointer));
    value.insert("item".to_owned(), json!(item));
    value.insert("attempt".to_owned(), json!(attempt));
    Value::Object(value)
}

/// The step within another one that a failure comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    /// Its id after those of the steps that it is within, with their items: `deploy[3].build`.
    pub(super) step: String,
    /// JSON Pointer to it.
    pub(super) pointer: String,
    /// As [`Failure::item`].
    pub(super) item: Option<usize>,
    /// As [`Failure::attempt`].
    pub(super) attempt: u32,
}

impl Failure {
    /// Where it comes from: the step, the pointer to it, the item and the attempt.
    fn place<'a>(&'a self, path: &'a str, node: &'a Node) -> (&'a str, &'a str, Option<usize>, u32) {
        match &self.origin {
            Some(origin) => (&origin.step, &origin.pointer, origin.item, origin.attempt),
            None => (path, &node.pointer, self.item, self.attempt),
        }
    }
}

/// "item 3, attempt 2"; empty if nothing was tried.
fn place(item: Option<usize>, attempt: u32) -> String {
    let item = item.map(|item| format!("item {item}"));
    let attempt = (attempt > 0).then(|| format!("attempt {attempt}"));
    item.into_iter().chain(attempt).collect::<Vec<_>>().join(", ")
}

impl Interpreter {
    /// How the steps ended.
    pub(super) fn result(&self, context: &Context<'_>) -> Result<Payload, Problem> {
        if let Some(reason) = &self.cancelled {
            return Err(Problem::new(problem::kind::CANCELLED, "The run was cancelled").with_detail(&**reason));
        }
        match self.failure() {
            Some(problem) => Err(problem),
            None => self.output(context),
        }
    }

    /// The problem of a run in which a step failed: that of the first failed one, in the plan's
    /// order.
    fn failure(&self) -> Option<Problem> {
        let failed: Vec<usize> = self.failed_nodes(ROOT).collect();
        let mut problem = self.failure_of(*failed.first()?);
        let names = |indexes: Vec<usize>| -> Vec<&str> {
            indexes.into_iter().take(NAMED_MAX).map(|index| &*self.node(index).id).collect()
        };
        let unreached = self.nodes_in(ROOT).filter(|index| self.nodes[*index].status == Status::Unreached).collect();
        let mut data = problem.data.take().map(|data| data.to_value()).unwrap_or_default();
        data["failed"] = json!(names(failed));
        data["unreached"] = json!(names(unreached));
        Some(problem.with_data(&data))
    }

    /// The problem of a run in which a node failed.
    pub(super) fn failure_of(&self, index: usize) -> Problem {
        let (node, state) = (self.node(index), &self.nodes[index]);
        let failure = state.failure.as_ref().expect("invariant: a failed node has a failure");
        let path = self.path(index);
        let cause = &failure.problem;
        let (step, pointer, item, attempt) = failure.place(&path, node);
        let place = place(item, attempt);
        let separator = if place.is_empty() { "" } else { ": " };
        let mut problem = Problem::new(kind::STEP_FAILED, format!("The step `{step}` failed"))
            .with_detail(format!("{place}{separator}{cause}"))
            .with_class(cause.class)
            .with_data(&json!({
                "step": step,
                "pointer": pointer,
                "item": item,
                "attempt": attempt,
                "cause": problem_value(cause),
            }));
        problem.status = cause.status;
        problem
    }
}
