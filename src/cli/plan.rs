//! `wfhost plan`.

use super::arguments::Plan as Arguments;
use super::terminal::{Terminal, print, printable};
use super::{Exit, load};
use crate::workflow::plan::{Action, Node, Plan};
use std::fmt::Write as _;

pub(super) fn plan(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let Some(workflow) = load(&command.host, &command.file, terminal)? else { return Ok(Exit::Usage) };
    let plan = workflow.plan();
    if command.json {
        let value: serde_json::Value = serde_json::from_str(&plan.to_json())?;
        print(&serde_json::to_string_pretty(&value)?)?;
    } else {
        print(&printable(&describe(plan)))?;
    }
    Ok(Exit::Success)
}

fn describe(plan: &Plan) -> String {
    let mut out = format!("{}  {}\n", plan.name, plan.digest());
    if !plan.inputs.0.is_empty() {
        out.push_str("\ninputs\n");
        for input in &plan.inputs.0 {
            let kind = if input.required { "required" } else { "optional" };
            let _ = writeln!(out, "  {:<16} {kind}", input.name);
        }
    }
    if !plan.components.is_empty() {
        out.push_str("\ncomponents\n");
        for component in &plan.components {
            let digest = component.digest.as_deref().unwrap_or("not loaded");
            let _ = writeln!(out, "  {:<16} {}  {digest}", component.name, component.source);
        }
    }
    out.push_str("\nsteps, in an order in which each follows what it needs\n");
    for &index in &plan.order {
        step(&mut out, plan, &plan.nodes[index]);
    }
    out
}

fn step(out: &mut String, plan: &Plan, node: &Node) {
    let action = match &node.action {
        Action::Uses { component, entry, .. } => format!("uses {component}, entry {entry}"),
        Action::Call { handler, .. } => format!("call {handler}"),
        Action::Wait(_) => "wait".to_owned(),
        Action::Set(_) => "set".to_owned(),
    };
    let _ = writeln!(out, "  {:<16} {action}", node.id);
    if !node.needs.is_empty() {
        let needs: Vec<&str> = node.needs.iter().map(|&need| &*plan.nodes[need].id).collect();
        let _ = writeln!(out, "  {:<16}   needs {}", "", needs.join(", "));
    }
    if node.for_each.is_some() {
        let _ = writeln!(out, "  {:<16}   for each item, at most {} at one time", "", node.max_parallel);
    }
    if let Some(retry) = &node.retry {
        let _ = writeln!(out, "  {:<16}   retries at most {} times", "", retry.max);
    }
    for (capability, patterns) in node.grants.0.iter() {
        let _ = writeln!(out, "  {:<16}   may {capability}: {}", "", patterns.join(", "));
    }
}
