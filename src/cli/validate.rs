//! `wfhost validate`.

use super::Exit;
use super::arguments::Validate;
use super::compiling::say_compiling;
use super::refused::Refused;
use super::terminal::{Terminal, in_line, print_json, say};
use crate::host::LoadError;
use crate::process::Problem;
use serde_json::{Value, json};
use std::path::Path;

/// Slots of a host that runs nothing.
pub(super) const NO_SLOTS: u32 = 1;

pub(super) fn validate(command: &Validate, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS).workers(1).on_compile(say_compiling(command.json)).build()?;
    let mut files: Vec<Value> = Vec::new();
    let mut is_good = true;
    for file in &command.files {
        match host.load(file) {
            Ok(workflow) => {
                let steps = workflow.plan().nodes.len();
                let warning = |(source, problem): (&str, &Problem)| {
                    format!("{}: the component `{source}` fails to tell its entries: {problem}", file.display())
                };
                let warnings: Vec<String> = workflow.undescribed().map(warning).collect();
                if command.json {
                    let mut told = json!({ "file": file, "valid": true, "steps": steps, "count": 0, "problems": [] });
                    if !warnings.is_empty() {
                        told["warnings"] = json!(warnings);
                    }
                    files.push(told);
                } else {
                    for warning in &warnings {
                        say(&terminal.warning_text(&in_line(warning), None));
                    }
                    let plural = if steps == 1 { "" } else { "s" };
                    say(&format!("{}: {}, {steps} step{plural}", file.display(), terminal.paint("32", "valid")));
                }
            }
            Err(error) => {
                is_good = false;
                if command.json {
                    files.push(refused(file, &error));
                } else {
                    Refused::from(error).say(terminal);
                }
            }
        }
    }
    if command.json {
        print_json(&files)?;
    }
    Ok(if is_good { Exit::Success } else { Exit::Usage })
}

/// A file that is not valid.
fn refused(file: &Path, error: &LoadError) -> Value {
    let (problems, count) = match error {
        LoadError::Definition(problems) => (problems.to_json()["problems"].take(), problems.count()),
        other => {
            let at = json!({ "file": file, "line": null, "column": null, "end-line": null, "end-column": null });
            let problem = json!({ "code": "unreadable", "message": other.to_string(), "hint": null, "at": at });
            (json!([problem]), 1)
        }
    };
    json!({ "file": file, "valid": false, "steps": null, "count": count, "problems": problems })
}
