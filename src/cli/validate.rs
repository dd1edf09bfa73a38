//! `wfhost validate`.

use super::arguments::Validate;
use super::terminal::{Terminal, print, say};
use super::{Exit, complain};
use crate::host::LoadError;
use serde_json::{Value, json};

/// Slots of a host that runs nothing.
pub(super) const NO_SLOTS: u32 = 1;

pub(super) fn validate(command: &Validate, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS).workers(1).build()?;
    let mut files: Vec<Value> = Vec::new();
    let mut is_good = true;
    for file in &command.files {
        match host.load(file) {
            Ok(workflow) => {
                let steps = workflow.plan().nodes.len();
                if command.json {
                    files.push(json!({ "file": file, "problems": [] }));
                } else {
                    let plural = if steps == 1 { "" } else { "s" };
                    say(&format!("{}: {}, {steps} step{plural}", file.display(), terminal.paint("32", "valid")));
                }
            }
            Err(error) => {
                is_good = false;
                match &error {
                    LoadError::Definition(problems) if command.json => files.push(problems.to_json()),
                    other if command.json => {
                        files.push(json!({ "file": file, "problems": [{ "message": other.to_string() }] }));
                    }
                    other => complain(other, terminal),
                }
            }
        }
    }
    if command.json {
        print(&serde_json::to_string_pretty(&files)?)?;
    }
    Ok(if is_good { Exit::Success } else { Exit::Usage })
}
