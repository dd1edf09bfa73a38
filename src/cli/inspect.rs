//! `wfhost inspect`.

use super::Exit;
use super::arguments::Inspect;
use super::terminal::{Terminal, print, printable};
use super::validate::NO_SLOTS;
use crate::guest::{COMPONENT_BYTES_MAX, Component};
use crate::process::{Json, Program};
use serde_json::{Value, json};
use std::io::Read as _;

pub(super) fn inspect(command: &Inspect, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS).workers(1).build()?;
    let path = command.component.display();
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&command.component).map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
    let read = file.take(COMPONENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
    let component = match Component::load(host.guests(), &bytes) {
        Ok(component) => component,
        Err(error) => {
            if command.json {
                print(&serde_json::to_string_pretty(
                    &json!({ "file": path.to_string(), "fits": false, "why": error.to_string() }),
                )?)?;
            } else {
                terminal.error(&format!("{path}: {error}"), Some("guests/README.md says how a guest is built"));
            }
            return Ok(Exit::Usage);
        }
    };
    let report = report(&component);
    if command.json {
        print(&serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&printable(&describe(&path.to_string(), &report)))?;
    }
    Ok(Exit::Success)
}

fn report(component: &Component) -> Value {
    let (survey, permit, verdict) = (component.survey(), component.permit(), component.snapshots());
    let description = match component.describe() {
        Ok(description) => description.as_ref().map_or(Value::Null, Json::to_value),
        Err(problem) => json!({ "problem": problem.to_string() }),
    };
    let refusals: Vec<String> = verdict.refusals.iter().map(ToString::to_string).collect();
    json!({
        "fits": true,
        "digest": &*component.digest(),
        "bytes": survey.bytes,
        "functions": survey.functions,
        "exports": survey.exports,
        "imports": survey.imports,
        "pool": {
            "core-instances": permit.core_instances,
            "memories": permit.memories,
            "tables": permit.tables,
        },
        "snapshots": { "fits": verdict.snapshottable(), "refused-for": refusals },
        "description": description,
    })
}

fn describe(path: &str, report: &Value) -> String {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let list = |pointer: &str| -> Vec<&str> {
        report
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(Vec::new(), |all| all.iter().filter_map(Value::as_str).collect())
    };
    let mut out = format!("{path}: fits wfhost:process\n");
    out.push_str(&format!("  digest     {}\n", report["digest"].as_str().unwrap_or_default()));
    out.push_str(&format!("  size       {} bytes, {} functions\n", number("/bytes"), number("/functions")));
    for export in list("/exports") {
        out.push_str(&format!("  exports    {export}\n"));
    }
    for import in list("/imports") {
        out.push_str(&format!("  imports    {import}\n"));
    }
    let (cores, memories, tables) = (number("/pool/core-instances"), number("/pool/memories"), number("/pool/tables"));
    out.push_str(&format!(
        "  pool       {cores} core instances, {memories} memories, {tables} tables for each live guest\n"
    ));
    let refusals = list("/snapshots/refused-for");
    if refusals.is_empty() {
        out.push_str("  snapshots  yes: it gives its slot to others while it waits\n");
    } else {
        out.push_str("  snapshots  no: it keeps its slot while it waits, for it has\n");
        for reason in refusals {
            out.push_str(&format!("             {reason}\n"));
        }
    }
    let wasi = list("/imports").into_iter().filter(|import| import.starts_with("wasi:")).count();
    let wasi = if wasi > 0 { "; the WASI imports are deterministic and reach nothing" } else { "" };
    out.push_str(&format!("  grants     none by itself: what it calls must stand under `allow:`{wasi}\n"));
    if let Value::Object(_) = &report["description"] {
        let text = serde_json::to_string_pretty(&report["description"]).unwrap_or_default();
        out.push_str(&format!("  description\n    {}\n", text.replace('\n', "\n    ")));
    }
    out
}
