//! Draws the plan as a graph or a list.

use super::{Action, Node, Plan, Template};
use crate::workflow::model::{When, shorten};
use serde_json::Value;
use std::fmt::Write;

/// The format of a drawn graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphStyle {
    /// A Mermaid flowchart.
    Mermaid,
    /// A Graphviz digraph.
    Dot,
    /// Lines for people, by stage.
    Text,
}

pub(super) fn draw(plan: &Plan, style: GraphStyle) -> String {
    match style {
        GraphStyle::Mermaid => mermaid(plan),
        GraphStyle::Dot => dot(plan),
        GraphStyle::Text => text(plan),
    }
}

/// The action of a node in a few words.
pub(super) fn describe(plan: &Plan, node: &Node) -> String {
    let action = match &node.action {
        Action::Workflow { .. } => {
            let file = plan.workflow_of(&node.action).map_or("", |child| &child.file);
            format!("workflow {}", shorten(file))
        }
        Action::Uses { .. } if node.action.key() == "script" => "script".to_owned(),
        Action::Uses { component, entry, .. } if &**entry == "run" => format!("uses {component}"),
        Action::Uses { component, entry, .. } => format!("uses {component} ({entry})"),
        Action::Call { handler, .. } => format!("call {handler}"),
        Action::Wait(_) => "wait".to_owned(),
        Action::Until(_) => "wait until a time".to_owned(),
        Action::Any { parts, .. } => format!("wait for any of {}", parts.len()),
        Action::All(block) => format!("wait for all of {}", block.nodes.len()),
        Action::Signal { name, .. } => format!("wait for {}", shown(name)),
        Action::Set(_) => "set".to_owned(),
        Action::Steps(block) => format!("{} steps", block.nodes.len()),
        Action::Switch(cases) => format!("switch, {} cases", cases.len()),
    };
    let action = if node.repeat.is_some() { format!("{action}, repeated") } else { action };
    let action = if node.cache.is_some() { format!("{action}, cached") } else { action };
    let action = if node.for_each.is_some() { format!("{action}, for each") } else { action };
    match &node.compensate {
        Some(undo) => format!("{action}, undone by {}", describe(plan, &undo.block.nodes[0])),
        None => action,
    }
}

/// The name of a signal as in the file.
fn shown(name: &Template) -> String {
    match name.to_value() {
        Value::String(name) => shorten(&name),
        other => shorten(&other.to_string()),
    }
}

fn label(when: When) -> Option<&'static str> {
    match when {
        When::Succeeded => None,
        When::Failed => Some("failed"),
        When::Unreached => Some("unreached"),
        When::FailedOrUnreached => Some("failed or unreached"),
        When::Done => Some("done"),
        When::Any => Some("any"),
    }
}

fn mermaid(plan: &Plan) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let mut out = "flowchart TD\n".to_owned();
    for (index, node) in plan.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{index}[\"{}<br/>{}\"]", escape(&node.id), escape(&describe(plan, node)));
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        for need in &node.needs {
            let arrow = label(node.when).map_or("-->".to_owned(), |when| format!("-. {when} .->"));
            let _ = writeln!(out, "  n{need} {arrow} n{index}");
        }
    }
    for (occasion, block) in &plan.on {
        let key = occasion.key();
        let _ = writeln!(out, "  subgraph {key}[\"on {key}\"]");
        for (index, node) in block.nodes.iter().enumerate() {
            let _ = writeln!(out, "    {key}{index}[\"{}<br/>{}\"]", escape(&node.id), escape(&describe(plan, node)));
        }
        for (index, node) in block.nodes.iter().enumerate() {
            for need in &node.needs {
                let _ = writeln!(out, "    {key}{need} --> {key}{index}");
            }
        }
        out.push_str("  end\n");
    }
    out
}

fn dot(plan: &Plan) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = format!("digraph \"{}\" {{\n  node [shape=box];\n", escape(&plan.name));
    for (index, node) in plan.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{index} [label=\"{}\\n{}\"];", escape(&node.id), escape(&describe(plan, node)));
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        for need in &node.needs {
            let style = label(node.when).map_or(String::new(), |when| format!(" [style=dashed, label=\"{when}\"]"));
            let _ = writeln!(out, "  n{need} -> n{index}{style};");
        }
    }
    for (occasion, block) in &plan.on {
        let key = occasion.key();
        let _ = writeln!(out, "  subgraph cluster_{key} {{\n    label=\"on {key}\";");
        for (index, node) in block.nodes.iter().enumerate() {
            let _ =
                writeln!(out, "    {key}{index} [label=\"{}\\n{}\"];", escape(&node.id), escape(&describe(plan, node)));
        }
        for (index, node) in block.nodes.iter().enumerate() {
            for need in &node.needs {
                let _ = writeln!(out, "    {key}{need} -> {key}{index};");
            }
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn text(plan: &Plan) -> String {
    let stages = plan.stages();
    let width = plan.nodes.iter().map(|node| node.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for stage in 1..=stages.iter().max().copied().unwrap_or(0) {
        let _ = writeln!(out, "stage {stage}");
        for index in plan.order.iter().filter(|index| stages[**index] == stage) {
            let node = &plan.nodes[*index];
            let _ = write!(out, "  {:width$}  {}", node.id, describe(plan, node));
            if !node.needs.is_empty() {
                let needs: Vec<&str> = node.needs.iter().map(|need| &*plan.nodes[*need].id).collect();
                let when = label(node.when).map_or(String::new(), |when| format!(" (when {when})"));
                let _ = write!(out, "  after {}{when}", needs.join(", "));
            }
            out.push('\n');
        }
    }
    for (occasion, block) in &plan.on {
        let _ = writeln!(out, "on {}", occasion.key());
        for index in &block.order {
            let node = &block.nodes[*index];
            let _ = writeln!(out, "  {:width$}  {}", node.id, describe(plan, node));
        }
    }
    out
}
