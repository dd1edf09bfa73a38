//! The plan as JSON for other programs: stable names, units in the names, references by id.
//!
//! The plan's own JSON ([`Plan::to_json`]) is what runs and what the digest covers; it may change
//! with each release.

use super::{Action, Block, Cache, Case, ChildWorkflow, Node, Part, Plan, Repeat, Secret, Template};
use crate::workflow::model::{Input, Inputs, LIMITS, Occasion, When, millis};
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Plan {
    /// The plan: `name`, `digest`, `inputs`, `components`, `steps` (each after its dependencies),
    /// `outputs`, `durability`, and `secrets` if it has some. Durations are milliseconds (`…-ms`),
    /// sizes are bytes (`…-bytes`); null is "none" or "no bound".
    #[must_use]
    pub fn view(&self) -> Value {
        let stages = self.stages();
        let components = self.components.iter().map(
            |component| json!({ "name": &*component.name, "source": component.source, "digest": component.digest }),
        );
        let steps = self.steps(&self.nodes, &self.order, &stages);
        let outputs: Map<String, Value> =
            self.outputs.iter().map(|(name, value)| (name.clone(), value.to_value())).collect();
        let mut view = json!({
            "name": &*self.name,
            "digest": self.digest(),
            "inputs": inputs(&self.inputs),
            "components": components.collect::<Vec<_>>(),
            "steps": steps,
            "outputs": outputs,
            "durability": self.durability,
        });
        if !self.on.is_empty() {
            let list = |(occasion, block): &(Occasion, Arc<Block>)| (occasion.key().to_owned(), self.inner(block).0);
            view["on"] = Value::Object(self.on.iter().map(list).collect());
        }
        if let Some(grace) = self.grace() {
            view["grace-ms"] = millis(grace);
        }
        if !self.workflows.is_empty() {
            view["workflows"] = self.workflows.iter().map(|child| self.child(child)).collect();
        }
        let secrets = self.secret_uses();
        if !secrets.is_empty() {
            let view_of = |(secret, users): &(&Secret, Vec<String>)| {
                json!({
                    "name": &*secret.name,
                    "from": secret.from,
                    "hosts": secret.hosts,
                    "headers": secret.headers,
                    "steps": users,
                })
            };
            view["secrets"] = secrets.iter().map(view_of).collect();
        }
        view
    }

    /// A workflow that steps run.
    fn child(&self, child: &ChildWorkflow) -> Value {
        let (steps, outputs) = self.inner(&child.block);
        json!({
            "file": child.file,
            "name": &*child.name,
            "inputs": inputs(&child.inputs),
            "steps": steps,
            "outputs": outputs,
        })
    }

    /// The graph: `nodes` (`id`, `action`, `label`, `stage`, `conditional`, `for-each`) and `edges`
    /// (`from`, `to`, `when`).
    #[must_use]
    pub fn graph_view(&self) -> Value {
        let stages = self.stages();
        let nodes = self.nodes.iter().zip(&stages).map(|(node, stage)| {
            json!({
                "id": &*node.id,
                "action": node.action.key(),
                "label": super::graph::describe(self, node),
                "stage": stage,
                "conditional": node.condition.is_some(),
                "for-each": node.for_each.is_some(),
            })
        });
        let edges = self.nodes.iter().flat_map(|node| {
            node.needs
                .iter()
                .map(|need| json!({ "from": &*self.nodes[*need].id, "to": &*node.id, "when": when(node.when) }))
        });
        json!({ "name": &*self.name, "nodes": nodes.collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>() })
    }

    /// The stage of each node, from 1: the number of nodes on the longest path to it, including
    /// itself. Nodes of one stage can run together.
    #[must_use]
    pub fn stages(&self) -> Vec<usize> {
        stages(&self.nodes, &self.order)
    }
}

fn stages(nodes: &[Arc<Node>], order: &[usize]) -> Vec<usize> {
    let mut stages = vec![1; nodes.len()];
    for index in order {
        stages[*index] = nodes[*index].needs.iter().map(|need| stages[*need] + 1).max().unwrap_or(1);
    }
    stages
}

fn inputs(inputs: &Inputs) -> Value {
    let view =
        |input: &Input| json!({ "name": input.name, "required": input.required, "schema": input.schema.to_json() });
    inputs.0.iter().map(view).collect()
}

fn part_view(part: &Part) -> Value {
    match part {
        Part::Wait(value) => value.to_value(),
        Part::Until(value) => json!({ "until": value.to_value() }),
        Part::Signal { name, prompt } => {
            let mut signal = json!({ "signal": name.to_value() });
            for (key, value) in prompt.iter().flat_map(Template::entries) {
                signal[key] = value;
            }
            signal
        }
    }
}

fn repeat_view(Repeat { until, while_true, max, delay }: &Repeat) -> Value {
    let condition = |one: &Option<Template>| one.as_ref().map_or(Value::Null, Template::to_value);
    json!({ "until": condition(until), "while": condition(while_true), "max": max, "delay-ms": millis(*delay) })
}

fn cache_view(cache: &Cache) -> Value {
    match cache {
        Cache::Auto => json!("auto"),
        Cache::Kept { ttl, key } => {
            json!({ "ttl-ms": ttl.map(millis), "key": key.as_ref().map_or(Value::Null, Template::to_value) })
        }
    }
}

impl Plan {
    /// A list of steps, each after its dependencies.
    fn steps(&self, nodes: &[Arc<Node>], order: &[usize], stages: &[usize]) -> Vec<Value> {
        order.iter().map(|index| self.step(nodes, &nodes[*index], stages[*index])).collect()
    }

    /// The steps within a step, and their outputs.
    fn inner(&self, block: &Block) -> (Value, Value) {
        let steps = self.steps(&block.nodes, &block.order, &stages(&block.nodes, &block.order));
        let outputs: Map<String, Value> =
            block.outputs.iter().map(|(name, value)| (name.clone(), value.to_value())).collect();
        (Value::Array(steps), Value::Object(outputs))
    }

    fn action(&self, action: &Action, step: &mut Value) {
        match action {
            Action::Uses { component, entry, with } => {
                step["component"] = json!(&**component);
                step["entry"] = json!(&**entry);
                step["with"] = with.to_value();
            }
            Action::Call { handler, with } => {
                step["handler"] = json!(&**handler);
                step["with"] = with.to_value();
            }
            Action::Wait(value) => step["wait"] = value.to_value(),
            Action::Until(value) => step["wait"] = json!({ "until": value.to_value() }),
            Action::Signal { name, timeout, prompt } => {
                step["wait"] = json!({ "signal": name.to_value() });
                for (key, value) in prompt.iter().flat_map(Template::entries) {
                    step["wait"][key] = value;
                }
                if let Some(timeout) = timeout {
                    step["wait"]["timeout"] = timeout.to_value();
                }
            }
            Action::Any { parts, timeout } => {
                let part = |(name, part): &(Arc<str>, Part)| (name.to_string(), part_view(part));
                step["wait"] = json!({ "any": parts.iter().map(part).collect::<Map<_, _>>() });
                if let Some(timeout) = timeout {
                    step["wait"]["timeout"] = timeout.to_value();
                }
            }
            Action::All(block) => {
                let part = |node: &Arc<Node>| {
                    let mut step = json!({});
                    self.action(&node.action, &mut step);
                    (node.id.to_string(), step["wait"].take())
                };
                step["wait"] = json!({ "all": block.nodes.iter().map(part).collect::<Map<_, _>>() });
            }
            Action::Set(value) => step["set"] = value.to_value(),
            Action::Steps(block) => (step["steps"], step["outputs"]) = self.inner(block),
            Action::Switch(cases) => {
                let case = |case: &Case| {
                    let (steps, outputs) = self.inner(&case.block);
                    let condition = case.condition.as_ref().map_or(Value::Null, Template::to_value);
                    json!({ "if": condition, "steps": steps, "outputs": outputs })
                };
                step["switch"] = cases.iter().map(case).collect();
            }
            Action::Workflow { with, .. } => {
                step["workflow"] = json!(self.workflow_of(action).map(|child| &child.file));
                step["with"] = with.to_value();
            }
        }
    }

    fn step(&self, nodes: &[Arc<Node>], node: &Node, stage: usize) -> Value {
        let needs: Vec<&str> = node.needs.iter().map(|need| &*nodes[*need].id).collect();
        let mut step = json!({
            "id": &*node.id,
            "pointer": node.pointer,
            "stage": stage,
            "action": node.action.key(),
        });
        self.action(&node.action, &mut step);
        step["needs"] = json!(needs);
        step["when"] = when(node.when);
        step["if"] = node.condition.as_ref().map_or(Value::Null, super::Template::to_value);
        step["for-each"] = node.for_each.as_ref().map_or(Value::Null, super::Template::to_value);
        step["max-parallel"] = node.for_each.as_ref().map_or(Value::Null, |_| json!(node.max_parallel));
        step["timeout-ms"] = node.timeout.map_or(Value::Null, millis);
        step["retry"] = node.retry.map_or(Value::Null, |retry| {
            json!({
                "max": retry.max,
                "backoff-min-ms": millis(retry.backoff_min),
                "backoff-max-ms": millis(retry.backoff_max),
            })
        });
        if let Some(repeat) = &node.repeat {
            step["repeat"] = repeat_view(repeat);
        }
        if let Some(cache) = &node.cache {
            step["cache"] = cache_view(cache);
        }
        step["continue-on-error"] = json!(node.continue_on_error);
        step["limits"] = match node.action {
            Action::Uses { .. } => Value::Object(LIMITS.iter().map(|limit| limit.number(&node.limits)).collect()),
            _ => Value::Null,
        };
        step["allow"] = json!(*node.grants.0);
        if !node.secrets.is_empty() {
            step["secrets"] = node.secrets.iter().map(|secret| &*secret.name).collect();
        }
        if let Some(undo) = &node.compensate {
            step["compensate"] = self.step(&undo.block.nodes, &undo.block.nodes[0], 1);
        }
        step
    }
}

/// The value of `when` as in the file.
fn when(when: When) -> Value {
    match when {
        When::FailedOrUnreached => json!(["failed", "unreached"]),
        one => json!(one),
    }
}
