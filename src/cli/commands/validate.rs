//! `wfhost validate`.

use crate::cli::Exit;
use crate::cli::args::Validate;
use crate::cli::load_file;
use crate::cli::report::compiling::say_compiling;
use crate::cli::report::error::Refused;
use crate::cli::report::source_map::Map;
use crate::cli::terminal::{Terminal, in_line, print_json, say};
use crate::host::{LoadError, Workflow};
use crate::process::Problem;
use crate::workflow::plan::Warning;
use serde_json::{Value, json};
use std::path::Path;

/// Slots of a host that runs nothing.
pub(in crate::cli) const NO_SLOTS: u32 = 1;

pub(in crate::cli) fn validate(command: &Validate, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS).workers(1).on_compile(say_compiling(command.json)).build()?;
    let mut files: Vec<Value> = Vec::new();
    let mut is_good = true;
    for file in &command.files {
        match load_file(&host, file) {
            Ok(workflow) => {
                let steps = workflow.plan().nodes.len();
                let warning = |(source, problem): (&str, &Problem)| {
                    format!("{}: the component `{source}` fails to describe its entries: {problem}", file.display())
                };
                let mut warnings: Vec<String> = workflow.undescribed().map(warning).collect();
                warnings
                    .extend(plan_warnings(&workflow).into_iter().map(|(message, hint)| format!("{message}; {hint}")));
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

/// What a workflow says and was hardly meant, each with its place, and what probably was.
pub(in crate::cli) fn plan_warnings(workflow: &Workflow) -> Vec<(String, String)> {
    let plan_warnings = workflow.plan().warnings();
    // Reading the file again for the places in it is of use only where there is something to say.
    let Some(map) = (!plan_warnings.is_empty()).then(|| Map::of(workflow.source())).flatten() else {
        return Vec::new();
    };
    let placed = |warning: Warning| {
        let place = map.short(map.find(&warning.pointer, None));
        (format!("{place}: {}", warning.message), warning.hint)
    };
    plan_warnings.into_iter().map(placed).collect()
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
